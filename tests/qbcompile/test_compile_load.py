# SPDX-License-Identifier: MIT
"""Reading ONNX files: versions, constants, order of nodes, functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from compile_cases import Outcome, both, model, node

from qbcompile import ops

RNG = np.random.default_rng(8)
X = RNG.normal(0, 2, (2, 3, 4)).astype(np.float32)


# QC01
@pytest.mark.parametrize("opset", range(7, 18))
def test_every_opset_gives_the_same_program(opset: int, tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "y"),
    ]
    nodes[2].attribute.append(onnx.helper.make_attribute("kernel_shape", [2, 2]))
    w = RNG.normal(0, 1, (3, 2, 3, 3)).astype(np.float32)
    data = model(nodes, {"x": (1, 2, 6, 6)}, ["y"], {"w": w}, opset)
    assert Outcome(tmp_path, data, []).opcodes == ["conv2d", "pool"]


# QC01
def test_table_knows_the_versions_that_onnx_knows() -> None:
    newest = min(onnx.defs.onnx_opset_version(), ops.NEWEST_OPSET)
    for name, known in ops.OPS.items():
        for opset in range(max(ops.OLDEST_OPSET, known.versions[0]), newest + 1):
            since = onnx.defs.get_schema(name, opset).since_version
            assert since in known.versions, (name, opset)


def function(
    name: str, inputs: str, outputs: str, nodes: list[onnx.NodeProto], *attrs: str
) -> onnx.FunctionProto:
    return onnx.helper.make_function(
        "own",
        name,
        inputs.split(),
        outputs.split(),
        nodes,
        [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("own", 1)],
        list(attrs),
    )


def calling(
    nodes: list[onnx.NodeProto], functions: list[onnx.FunctionProto], calls: str
) -> bytes:
    proto = onnx.ModelProto.FromString(model(nodes, {"x": X.shape}))
    proto.functions.extend(functions)
    for item in [*proto.graph.node, *(n for f in proto.functions for n in f.node)]:
        if item.op_type in calls.split():
            item.domain = "own"
    return proto.SerializeToString()


# QC01
def test_nodes_may_stand_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "a"), node("Neg", "a", "b"), node("Add", "b x", "y")]
    first = Outcome(tmp_path, model(nodes, {"x": X.shape}), []).file
    second = Outcome(tmp_path, model(nodes[::-1], {"x": X.shape}), []).file
    assert first.programs[0].commands == second.programs[0].commands


TYPED = [
    (1, [0.5, -2.0, 3.0]),
    (2, [0, 7, 255]),
    (3, [-128, 7, 127]),
    (6, [-5, 0, 1 << 30]),
    (7, [-5, 0, 1 << 40]),
    (9, [0, 1, 1]),
    (10, [0.5, -2.0, 3.0]),
    (11, [0.25, -2.0, 3.0]),
    (12, [0, 1, 3 << 30]),
    (13, [0, 1, 1 << 40]),
]


# QC01 QC03
@pytest.mark.parametrize("kind, values", TYPED)
@pytest.mark.parametrize("raw", [False, True])
def test_constants_of_every_type_and_form(
    kind: int, values: list[float], raw: bool, tmp_path: Path
) -> None:
    tensor = onnx.helper.make_tensor("k", kind, [3], values)
    if raw:
        array = onnx.numpy_helper.to_array(tensor)
        tensor = onnx.numpy_helper.from_array(array, "k")
    assert bool(tensor.raw_data) == raw
    nodes = [node("Cast", "k", "c", to=1), node("Add", "x c", "y")]
    proto = onnx.ModelProto.FromString(model(nodes, {"x": (3,)}))
    proto.graph.initializer.append(tensor)
    outcome = Outcome(tmp_path, proto.SerializeToString(), [])
    stored = np.frombuffer(outcome.file.weights, np.float32)
    assert (stored == np.array(values, np.float32)).all()


# QC01
def test_functions_are_inlined(tmp_path: Path) -> None:
    leaky = node("LeakyRelu", "a", "t")
    reference = leaky.attribute.add(name="alpha", ref_attr_name="slope")
    reference.type = onnx.AttributeProto.FLOAT
    inner = function("Inner", "a", "r a", [leaky, node("Neg", "t", "r")], "slope")
    outer = function(
        "Outer",
        "a b",
        "r",
        [node("Inner", "a", "t u", slope=0.5), node("Add", "t u", "v")]
        + [node("Mul", "v b", "r")],
    )
    nodes = [
        node("Outer", "x x", "p"),
        node("Inner", "p", "q w"),
        node("Sum", "q w", "y"),
    ]
    data = calling(nodes, [inner, outer], "Inner Outer")
    _, got, _ = both(tmp_path, data, {"x": X})
    x = X.astype(np.float64)
    p = (x - np.where(x < 0, 0.5 * x, x)) * x
    assert np.abs(got["y"] - (p - np.where(p < 0, 0.01 * p, p))).max() < 1e-7
    lines = Outcome(tmp_path, data, ["--explain"]).out.splitlines()
    assert lines == [
        "n_p Outer: commands 0..3",
        "n_q w Inner: commands 4..5",
        "n_y Sum: command 6",
    ]


# QC01 QE05
def test_functions_that_recurse_or_multiply_are_refused(tmp_path: Path) -> None:
    endless = function("F0", "a", "r", [node("F0", "a", "r")])
    outcome = Outcome(tmp_path, calling([node("F0", "x", "y")], [endless], "F0"), [])
    assert outcome.code == 3 and "nest deeper" in outcome.err
    levels = [function("F0", "a", "r", [node("Relu", "a", "r")])]
    for i in range(30):
        twice = [node(f"F{i}", "a", "t"), node(f"F{i}", "t", "r")]
        levels.append(function(f"F{i + 1}", "a", "r", twice))
    calls = " ".join(f"F{i}" for i in range(31))
    outcome = Outcome(tmp_path, calling([node("F30", "x", "y")], levels, calls), [])
    assert outcome.code == 6 and "nodes" in outcome.err


# QC01
def test_function_of_another_opset_is_refused(tmp_path: Path) -> None:
    item = function("F", "a", "r", [node("Relu", "a", "r")])
    item.opset_import[0].version = 14
    outcome = Outcome(tmp_path, calling([node("F", "x", "y")], [item], "F"), [])
    assert outcome.code == 4 and "imports opset 14, the model 13" in outcome.err
