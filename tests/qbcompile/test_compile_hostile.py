# SPDX-License-Identifier: MIT
"""Models that are damaged in ways a generator would not think of, and numbers
that do not fit what they are folded into."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import onnx
import pytest
from compile_cases import Outcome, agree, model, node
from onnx import TensorProto

from qbcompile import cli, evaluate, fold, load

RELU = model([node("Relu", "x", "y")], {"x": (2, 3)})
RNG = np.random.default_rng(3)


def parsed(data: bytes = RELU) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(data)


# QE05
@pytest.mark.parametrize("old", [b"n_y", b"Relu", b"x", b"y"])
def test_text_that_is_not_utf8_is_damage(old: bytes, tmp_path: Path) -> None:
    data = RELU.replace(old, b"\xff" * len(old))
    assert data != RELU
    report = tmp_path / "r.json"
    outcome = Outcome(tmp_path, data, ["--report", str(report)])
    assert outcome.code == 3 and "damaged" in outcome.err
    assert json.loads(report.read_text())["errors"][0]["code"] == 3


# QE05
def test_rest_that_is_no_protobuf_is_damage(tmp_path: Path) -> None:
    outcome = Outcome(tmp_path, RELU + b"\x0c", [])
    assert outcome.code == 3 and outcome.err.count("\n") == 1


# QE05
def test_size_is_known_before_a_model_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(load.MAX_FILE + 1)
    (tmp_path / "m.onnx").symlink_to(path)
    assert cli.main([str(tmp_path / "m.onnx"), "-o", str(tmp_path / "y")]) == 3
    assert not (tmp_path / "y").exists()


def stored_apart(entries: dict[str, str]) -> bytes:
    """Adds a constant of 8 bytes in another file."""
    proto = parsed(model([node("Add", "x w", "y")], {"x": (2,)}))
    tensor = proto.graph.initializer.add(name="w", data_type=1, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto.SerializeToString()


# QC01 QE05
@pytest.mark.parametrize(
    "entries, code",
    [
        ({"location": "a\0b"}, 3),
        ({"location": "loop"}, 3),
        ({"location": "x" * 5000}, 3),
        ({"location": "w", "length": "+8"}, 3),
        ({"location": "w", "length": " 8"}, 3),
        ({"location": "w", "offset": "0_0"}, 3),
        ({"location": "w", "offset": "\u0660"}, 3),
        ({"location": "w", "offset": "9" * 5000}, 3),
        ({"location": "w", "offset": "0", "length": "8"}, 0),
    ],
)
def test_external_data(entries: dict[str, str], code: int, tmp_path: Path) -> None:
    os.symlink("loop", tmp_path / "loop")
    (tmp_path / "w").write_bytes(bytes(8))
    outcome = Outcome(tmp_path, stored_apart(entries), [])
    assert outcome.code == code and outcome.err.count("\n") == (code != 0)


I8 = np.arange(16, dtype=np.int8).reshape(1, 1, 4, 4)
TRUE = np.ones((1, 4), np.bool_)
POOL = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}
FOLDED: list[tuple[int, str, str, dict[str, np.ndarray], dict[str, Any]]] = [
    (3, "Slice", "a", {"a": I8}, {}),
    (3, "Slice", "a b", {"a": I8, "b": np.array([0])}, {}),
    (3, "Slice", "a - b", {"a": I8, "b": np.array([0])}, {}),
    (3, "Gather", "a f", {"a": I8, "f": np.array([0.5], np.float32)}, {}),
    (3, "Gather", "a b", {"a": I8, "b": TRUE}, {}),
    (4, "Neg", "b", {"b": TRUE}, {}),
    (4, "Sub", "b b", {"b": TRUE}, {}),
    (4, "Sigmoid", "b", {"b": TRUE}, {}),
    (6, "ConstantOfShape", "s", {"s": np.array([1 << 24] * 9 + [0])}, {}),
    (0, "MaxPool", "a", {"a": I8}, POOL),
]


# QC03 QE01
@pytest.mark.parametrize("code, op, names, constants, attrs", FOLDED)
def test_constants_of_other_types(
    code: int,
    op: str,
    names: str,
    constants: dict[str, np.ndarray],
    attrs: dict[str, Any],
    tmp_path: Path,
) -> None:
    data = model([node(op, names, "y", **attrs)], {}, ["y"], constants)
    outcome = Outcome(tmp_path, data, [])
    assert outcome.code == code, outcome.err
    assert code == 0 or f"node 'n_y' ({op}" in outcome.err


# QC03
def test_pool_of_constant_bytes_has_their_lowest_number_around_it() -> None:
    data = model([node("MaxPool", "a", "y", **POOL)], {}, ["y"], {"a": I8 - 100})
    graph = load.load(data, None, load.Sizes())
    fold.infer(graph)
    assert graph.constants["y"].dtype == np.int8
    assert graph.constants["y"][0, 0, 0, 0] == -100
    assert graph.constants["y"][0, 0, 4, 4] == 15 - 100


# QE05
def test_folding_is_bounded_in_all(tmp_path: Path) -> None:
    def products(count: int) -> bytes:
        nodes = [node("MatMul", "a a", f"t{i}") for i in range(count)]
        nodes.append(node("Sum", " ".join(f"t{i}" for i in range(count)), "s"))
        nodes.append(node("Add", "x s", "y"))
        a = np.ones((256, 256), np.float32)
        return model(nodes, {"x": (256, 256)}, ["y"], {"a": a})

    assert Outcome(tmp_path, products(3), []).code == 0
    outcome = Outcome(tmp_path, products(12), [])
    assert outcome.code == 6 and "too much work to fold" in outcome.err


def own(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.FunctionProto:
    steps = [onnx.helper.make_node("Relu", [inputs[0]], [outputs[0]])]
    opsets = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_function("own", name, inputs, outputs, steps, opsets)


# QC01
def test_functions_that_do_not_fit_their_calls(tmp_path: Path) -> None:
    def calling(functions: list[onnx.FunctionProto], names: str, made: str) -> Outcome:
        proto = parsed(model([node("F", names, made)], {"x": (2, 3)}))
        proto.graph.node[0].domain = "own"
        proto.functions.extend(functions)
        return Outcome(tmp_path, proto.SerializeToString(), [])

    good = own("F", ["a"], ["b"])
    assert calling([good], "x", "y").code == 0
    for outcome in (
        calling([good], "x x", "y"),
        calling([good], "x", "y z"),
        calling([good, good], "x", "y"),
    ):
        assert outcome.code == 3 and "function 'F'" in outcome.err


HUGE = np.array([3e38, 1.0, -3e38, 0.5], np.float32).reshape(1, 4, 1, 1)
TINY = np.array(1e-30, np.float32)
INF = np.array([np.inf, 1, 1, 1], np.float32).reshape(4, 1, 1)
KERNEL = RNG.normal(0, 1, (4, 3, 3, 3)).astype(np.float32) + np.float32(4)
BIAS = np.full(4, 3e38, np.float32)
UNFIT: list[tuple[str, list[onnx.NodeProto]]] = [
    ("scale", [node("Conv", "x w", "c"), node("Mul", "c huge", "y")]),
    ("scale", [node("Conv", "x w", "c"), node("Mul", "huge c", "y")]),
    ("scale", [node("Conv", "x w", "c"), node("Mul", "c inf", "y")]),
    ("scale", [node("Conv", "x big", "c"), node("Div", "c tiny", "y")]),
    ("scale", [node("Conv", "x w b", "c"), node("Add", "c huge", "y")]),
    ("scale", [node("Conv", "x w b", "c"), node("Sub", "huge c", "y")]),
    (
        "batchnorm",
        [node("Conv", "x big", "c")]
        + [node("BatchNormalization", "c g z z v", "y", epsilon=1e-20)],
    ),
]


# QC20 QC21
@pytest.mark.parametrize("name, nodes", UNFIT, ids=lambda v: str(v)[:9])
def test_fusion_that_would_overflow_is_refused(
    name: str, nodes: list[onnx.NodeProto], tmp_path: Path
) -> None:
    constants = {
        "w": KERNEL,
        "big": KERNEL * np.float32(1e20),
        "b": BIAS,
        "huge": HUGE,
        "inf": INF,
        "tiny": TINY,
        "g": np.full(4, 1e10, np.float32),
        "z": np.zeros(4, np.float32),
        "v": np.full(4, 1e-20, np.float32),
    }
    used = {k: v for k, v in constants.items() if any(k in n.input for n in nodes)}
    data = model(nodes, {"x": (1, 3, 4, 4)}, ["y"], used)
    report = tmp_path / "r.json"
    fused = Outcome(tmp_path, data, ["--report", str(report)])
    assert fused.opcodes == Outcome(tmp_path, data, ["-O0"]).opcodes
    found = json.loads(report.read_text())
    (entry,) = [e for e in found["refused_fusions"] if e["name"] == name]
    assert "not be finite" in entry["reason"] and "n_y" in entry["nodes"]
    assert name not in found["fusions"]


# QC47
@pytest.mark.parametrize("options", [["--mean", "1e19"], ["--std", "1e-19"]])
def test_normalisation_that_would_overflow_is_not_folded(
    options: list[str], tmp_path: Path
) -> None:
    weights = {"w": KERNEL * np.float32(1e20)}
    data = model([node("Conv", "x w", "y")], {"x": (1, 3, 4, 4)}, ["y"], weights)
    assert Outcome(tmp_path, data, options).opcodes == ["binary", "conv2d"]
    weights["w"][0, 0, 0, 0] = np.inf
    data = model([node("Conv", "x w", "y")], {"x": (1, 3, 4, 4)}, ["y"], weights)
    assert Outcome(tmp_path, data, ["--mean", "2"]).opcodes == ["binary", "conv2d"]


# FM31 QC47
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("count", [1, 0])
def test_mean_and_std_of_any_number_of_channels(
    channels: int, count: int, tmp_path: Path
) -> None:
    numbers = ",".join(str(i + 1) for i in range(count or channels))
    options = ["--mean", numbers, "--std", numbers]
    data = model([node("Relu", "x", "y")], {"x": (1, channels, 2, 2)})
    io = Outcome(tmp_path, data, options).file.ios[0]
    told = (count or channels) in (1, 3, 4)
    assert io.norm_channels == (told and (count or channels))
    assert bool(io.flags & 2) == told


# IS41
def test_division_of_whole_numbers_is_exact(tmp_path: Path) -> None:
    lowest, highest = -(1 << 63), (1 << 63) - 1
    a = np.array([lowest, lowest, lowest, highest, highest, -7, 7, lowest])
    b = np.array([-1, 1, 3, -3, 2, 2, -2, 0])
    wanted = [lowest, lowest, lowest // 3 + 1, -(highest // 3), highest // 2, -3, -3, 0]
    assert evaluate.divide(a, b).tolist() == wanted
    data = model([node("Div", "x k", "y")], {"x": (8,)}, ["y"], {"k": b}, kind="i")
    with np.errstate(over="ignore"):  # the wrap
        agree(tmp_path, data, {"x": a})
