# SPDX-License-Identifier: MIT
"""Fusions, layouts of inputs and outputs, memory plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Sequence

import numpy as np
import onnx
import pytest
from compile_cases import DIGITS, Outcome, agree, from_device, model, node, random_net

from qbcompile import evaluate, fold, fuse, load
from qbcompile import isa_tables as isa
from qbcompile.container import File

RNG = np.random.default_rng(11)
SHAPE = (1, 3, 6, 5)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype(np.float32)


WEIGHTS = {
    "w": some(4, 3, 3, 3),
    "b": some(4),
    "w2": some(4, 4, 3, 3),
    "channel": np.abs(some(4, 1, 1)) + 1,
    "scalar": np.array(1.5, np.float32),
    "mean": some(4),
    "var": np.abs(some(4)) + 1,
    "matrix": some(5, 4),
    "row": some(4),
}
CONV = node("Conv", "x w b", "c")
PADDED = {"pads": [1, 1, 1, 1]}
BN = "BatchNormalization"

# Name, nodes, commands with it.
CASES: list[tuple[str, list[onnx.NodeProto], list[str]]] = [
    ("batchnorm", [CONV, node(BN, "c b b mean var", "y")], ["conv2d"]),
    (
        "batchnorm",
        [node("MatMul", "x matrix", "m"), node("Reshape", "m flat", "f")]
        + [node("Gemm", "f square row", "g"), node(BN, "g row row row var", "y")],
        ["matmul", "matmul"],
    ),
    ("scale", [CONV, node("Mul", "c channel", "y")], ["conv2d"]),
    ("scale", [CONV, node("Div", "c channel", "y")], ["conv2d"]),
    ("scale", [CONV, node("Add", "channel c", "y")], ["conv2d"]),
    ("scale", [CONV, node("Sub", "c scalar", "y")], ["conv2d"]),
    ("scale", [CONV, node("Sub", "channel c", "y")], ["conv2d"]),
    ("scale", [node("MatMul", "x matrix", "m"), node("Add", "m row", "y")], ["matmul"]),
    ("activation", [CONV, node("Relu", "c", "y")], ["conv2d"]),
    ("activation", [CONV, node("LeakyRelu", "c", "y", alpha=0.2)], ["conv2d"]),
    ("activation", [CONV, node("HardSwish", "c", "y")], ["conv2d"]),
    (
        "activation",
        [node("MatMul", "x matrix", "m"), node("Tanh", "m", "y")],
        ["matmul"],
    ),
    (
        "residual",
        [CONV, node("Conv", "c w2", "d", **PADDED), node("Add", "d c", "y")],
        ["conv2d", "conv2d"],
    ),
    (
        "residual",
        [CONV, node("Conv", "c w2", "d", **PADDED), node("Conv", "c w2", "e", **PADDED)]
        + [node("Relu", "d", "r"), node("Add", "r e", "y")],
        ["conv2d", "conv2d", "conv2d"],
    ),
]


def case(nodes: Sequence[onnx.NodeProto]) -> bytes:
    constants = {
        **WEIGHTS,
        "flat": np.array([-1, 4]),
        "square": WEIGHTS["w2"][:, :, 0, 0],
    }
    names = {name for item in nodes for name in item.input}
    used = {name: array for name, array in constants.items() if name in names}
    return model(nodes, {"x": SHAPE}, ["y"], used, opset=14)


def case_names(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


# QC05 QC20 QC21 QC22 QC24 NC30
@pytest.mark.parametrize("name, nodes, opcodes", CASES, ids=case_names)
def test_fused_and_unfused_agree(
    name: str, nodes: list[onnx.NodeProto], opcodes: list[str], tmp_path: Path
) -> None:
    data, feeds = case(nodes), {"x": some(*SHAPE)}
    fused = agree(tmp_path, data, feeds)
    assert fused.opcodes == opcodes
    unfused = agree(tmp_path, data, feeds, ["--no-fuse", name])
    assert len(unfused.opcodes) > len(opcodes)
    assert "W04" not in unfused.err
    agree(tmp_path, data, feeds, ["-O0"])


def report_of(outcome: Outcome, path: Path) -> Any:
    assert outcome.code == 0, outcome.err
    return json.loads(path.read_text())


NEAR_MISSES = [
    # Someone else reads the sum.
    ("activation", [CONV, node("Relu", "c", "r"), node("Add", "c r", "y")]),
    # A command has one activation.
    ("activation", [CONV, node("Relu", "c", "r"), node("Sigmoid", "r", "y")]),
    # Not per output channel.
    ("scale", [CONV, node("Mul", "c last", "y")]),
    # Broadcast summand.
    ("residual", [CONV, node("Relu", "small", "r"), node("Add", "c r", "y")]),
]


# QC05 QC12
@pytest.mark.parametrize(
    "name, nodes", NEAR_MISSES, ids=["users", "two", "axis", "size"]
)
def test_near_misses_are_reported_with_a_reason(
    name: str, nodes: list[onnx.NodeProto], tmp_path: Path
) -> None:
    inputs = {"x": SHAPE}
    if any("small" in item.input for item in nodes):
        inputs["small"] = (1, 4, 1, 1)
    constants = {"w": WEIGHTS["w"], "b": WEIGHTS["b"], "last": some(3)}
    data = model(nodes, inputs, ["y"], constants)
    path = tmp_path / "r.json"
    report = report_of(Outcome(tmp_path, data, ["--report", str(path)]), path)
    missed = [entry for entry in report["refused_fusions"] if entry["name"] == name]
    assert missed and missed[0]["reason"] and "n_c" in missed[0]["nodes"]
    agree(tmp_path, data, {key: some(*shape) for key, shape in inputs.items()})


# QC20 QC21 QC14
def test_a_chain_of_factors_is_rounded_once(tmp_path: Path) -> None:
    third = np.array(1 / 3, np.float32)
    nodes = [CONV, node("Mul", "c third", "d"), node("Mul", "d third", "y")]
    constants = {"w": WEIGHTS["w"], "b": WEIGHTS["b"], "third": third}
    outcome = Outcome(tmp_path, model(nodes, {"x": SHAPE}, ["y"], constants), [])
    assert outcome.opcodes == ["conv2d"]
    exact = WEIGHTS["w"].astype(np.float64) * float(third) * float(third)
    stored = np.frombuffer(outcome.file.weights, np.float32, exact.size)
    ohwi = exact.transpose(0, 2, 3, 1).astype(np.float32).ravel()
    assert (stored == ohwi).all()


# QC47
@pytest.mark.parametrize("pads", [[0] * 4, [1] * 4])
@pytest.mark.parametrize("mean", ["0", "127.5", "10,20,30"])
@pytest.mark.parametrize("off", [False, True])
def test_normalisation_inside_the_program(
    pads: list[int], mean: str, off: bool, tmp_path: Path
) -> None:
    conv = node("Conv", "x w b", "y", pads=pads)
    constants = {"w": WEIGHTS["w"], "b": WEIGHTS["b"]}
    data = model([conv], {"x": SHAPE}, ["y"], constants)
    options = ["--input-dtype", "x=uint8", "--mean", mean, "--std", "64,32,100"]
    options += ["--no-fuse", "normalise"] if off else []
    outcome = Outcome(tmp_path, data, options)
    steps = ["cast", "conv2d"]
    if mean != "0" and (off or any(pads)):
        steps.insert(1, "binary")
    if off:
        steps.insert(-1, "binary")
    assert outcome.opcodes == steps
    image = RNG.integers(0, 256, (6, 5, 3), dtype=np.uint8)
    got = evaluate.run(outcome.file, {"x": image})["y"]
    means = np.array([float(m) for m in mean.split(",")])
    wanted = ((image - means) / [64, 32, 100]).transpose(2, 0, 1)[None]
    graph = load.load(data, None, load.Sizes())
    fold.infer(graph)
    expected = evaluate.run_graph(graph, {"x": wanted})["y"]
    assert np.abs(got.transpose(0, 3, 1, 2) - expected).max() < 1e-4
    entry = outcome.file.ios[0]
    assert entry.flags & 2 and entry.norm_channels == 3
    assert entry.std[:3] == (64.0, 32.0, 100.0)
    assert entry.mean[:3] == tuple(np.broadcast_to(means, 3))


def entries(file: File) -> list[tuple[Any, ...]]:
    return [(e.shape, e.layout, e.flags, e.source_perm) for e in file.ios]


# FM30 FM31
@pytest.mark.parametrize(
    "shape, options, expected",
    [
        ((1, 3, 6, 5), [], ((6, 5, 3), 1, 1, (0, 2, 3, 1, 255, 255))),
        ((1, 3, 6, 5), ["--input-layout", "x=nhwc"], ((3, 6, 5), 1, 1, None)),
        ((1, 7), [], ((7,), 0, 1, None)),
        ((1, 7), ["--io-rank", "3"], ((1, 1, 7), 0, 1, (0, 255, 255, 1, 255, 255))),
        ((5, 7), [], ((5, 7), 0, 0, None)),
        ((7,), [], ((7,), 0, 0, None)),
        ((1, 2, 7), [], ((2, 7), 0, 1, None)),
        ((2, 1, 3, 2, 2), [], ((2, 1, 3, 2, 2), 0, 0, None)),
    ],
)
def test_shapes_of_the_interface(
    shape: tuple[int, ...],
    options: list[str],
    expected: tuple[Any, ...],
    tmp_path: Path,
) -> None:
    data = model([node("Relu", "x", "y")], {"x": shape})
    file = agree(tmp_path, data, {"x": some(*shape)}, options).file
    got = entries(file)[0]
    assert got[:3] == expected[:3]
    if expected[3] is None:
        perm = got[3] or tuple(range(len(shape)))
        assert [axis for axis in perm if axis != 255] == list(range(len(shape)))
    else:
        assert got[3] == expected[3]
    assert file.variants[0].batch == 1


# FM30 FM31 QC53
def test_fixed_batch_of_images_is_the_variants_batch(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w b", "c"), node("Flatten", "c", "y")]
    data = model(
        nodes, {"x": (4, 3, 6, 5)}, ["y"], {"w": WEIGHTS["w"], "b": WEIGHTS["b"]}
    )
    file = agree(tmp_path, data, {"x": some(4, 3, 6, 5)}).file
    assert file.variants[0].batch == file.programs[0].batch == 4
    assert [entry.shape for entry in file.ios] == [(6, 5, 3), (48,)]
    assert all(entry.flags & 1 for entry in file.ios)


# FM33 FM34 FM35
def test_interface_types_and_buffer_info(tmp_path: Path) -> None:
    data = model([node("Relu", "x", "y")], {"x": (1, 3, 6, 5)})
    options = ["--input-dtype", "x=uint8"]
    file = Outcome(tmp_path, data, options).file
    x, y = file.ios
    assert (x.device_dtype, x.host_dtype, x.source_dtype) == (isa.U8, isa.U8, isa.F32)
    assert (y.device_dtype, y.host_dtype) == (isa.F32, isa.F32)
    assert x.accepted_dtypes in (None, 1 << isa.U8)
    assert y.accepted_dtypes in (None, 1 << isa.F32)
    assert x.buffer_info in (None, (6, 5, 3) * 4 + (0,))


# FM40
def test_equal_constants_are_stored_once_and_aligned(tmp_path: Path) -> None:
    row = some(5)
    nodes = [
        node("Add", "x one", "a"),
        node("Mul", "a two", "b"),
        node("Sub", "b c", "y"),
    ]
    data = model(
        nodes, {"x": (5,)}, ["y"], {"one": row, "two": row.copy(), "c": some(5)}
    )
    file = Outcome(tmp_path, data, []).file
    assert len(file.weights) == 64 + 20
    weights = [b.kind for b in file.programs[0].bindings].index(isa.WEIGHTS)
    offsets = {t.offset for t in file.programs[0].tensors if t.binding == weights}
    assert offsets == {0, 64}


def scratch(file: File) -> list[Any]:
    program = file.programs[0]
    kinds = [binding.kind for binding in program.bindings]
    number = kinds.index(isa.SCRATCH)
    return [t for t in program.tensors if t.binding == number]


# QC50 QC52
def test_arena_is_aligned_and_no_larger_than_a_plain_stack_of_tensors(
    tmp_path: Path,
) -> None:
    for seed in range(20):
        data, _ = random_net(seed)
        path = tmp_path / "r.json"
        outcome = Outcome(tmp_path, data, ["--report", str(path)])
        bundle = report_of(outcome, path)["variants"][0]["bundles"][0]
        assert bundle["lower_bound"] <= bundle["scratch"]
        views = scratch(outcome.file)
        assert all(view.offset % 64 == 0 for view in views)
        assert bundle["scratch"] <= sum(-(-view.span // 64) * 64 for view in views)


# QC50
def test_chain_needs_two_buffers_however_long(tmp_path: Path) -> None:
    names = ["x", *(f"t{i}" for i in range(9)), "y"]
    steps = [node("Transpose", f"{a}", f"{a}t", perm=[1, 0]) for a in names[:-1]]
    nodes = []
    for step, a, b in zip(steps, names, names[1:]):
        nodes += [step, node("MatMul", f"{a}t {a}", b)]
    data = model(nodes, {"x": (8, 8)})
    file = agree(tmp_path, data, {"x": some(8, 8) / 8}).file
    assert max(view.offset + view.span for view in scratch(file)) == 2 * 256


# QC50 IS51
def test_element_wise_commands_write_onto_what_dies(tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "a"), node("Neg", "a", "b"), node("Add", "b x", "c")]
    nodes += [node("Relu", "c", "y")]
    outcome = agree(tmp_path, model(nodes, {"x": (3, 4)}), {"x": some(3, 4)})
    program = outcome.file.programs[0]
    assert [command.flags for command in program.commands] == [0, 1, 1, 1]
    assert isa.SCRATCH not in [binding.kind for binding in program.bindings]
    plain = Outcome(tmp_path, model(nodes, {"x": (3, 4)}), ["-O0"])
    assert [c.flags for c in plain.file.programs[0].commands] == [0] * 4


# QC24 QC50 IS51
def test_residual_gives_its_place_to_the_result(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w b", "c", **PADDED), node("Conv", "x w b", "d", **PADDED)]
    nodes += [node("Tanh", "d", "t"), node("Add", "c t", "y")]
    data = model(nodes, {"x": SHAPE}, ["y"], {"w": WEIGHTS["w"], "b": WEIGHTS["b"]})
    outcome = agree(tmp_path, data, {"x": some(*SHAPE)})
    assert outcome.opcodes == ["conv2d", "conv2d"]
    assert [c.flags for c in outcome.file.programs[0].commands] == [0, 1]


PASSES = "load graph ops shapes fold canon fuse views lower plan emit".split()


# QC13
@pytest.mark.parametrize("name", PASSES)
def test_no_pass_names_a_model(name: str) -> None:
    text = (Path(fuse.__file__).parent / f"{name}.py").read_text().lower()
    for word in (
        "digits",
        "resnet",
        "squeezenet",
        "paddle",
        "torch",
        "mobilenet",
        "yolo",
    ):
        assert word not in text


# QC13
def test_names_and_producer_change_nothing_that_runs(tmp_path: Path) -> None:
    options = ["--shape", "image=1,1,8,8"]
    first = Outcome(tmp_path, DIGITS.read_bytes(), options).file
    proto = onnx.ModelProto.FromString(DIGITS.read_bytes())
    proto.producer_name = proto.graph.name = "another"
    names: dict[str, str] = {"image": "image"}
    for item in proto.graph.node:
        item.name = f"m{len(names)}"
        for fields in (item.input, item.output):
            fields[:] = [names.setdefault(n, f"v{len(names)}") for n in fields]
    for value in [*proto.graph.output, *proto.graph.initializer]:
        value.name = names[value.name]
    second = Outcome(tmp_path, proto.SerializeToString(), options).file
    assert first.weights == second.weights
    for a, b in zip(first.programs[0].commands, second.programs[0].commands):
        assert (a.opcode, a.fields, a.flags) == (b.opcode, b.fields, b.flags)
    for x, y in zip(first.programs[0].tensors, second.programs[0].tensors):
        assert (x.dims, x.byte_strides, x.offset) == (y.dims, y.byte_strides, y.offset)


# QC22 QC24
def test_digits_uses_the_fusions(tmp_path: Path) -> None:
    options = [
        "--shape",
        "image=1,1,8,8",
        "--input-dtype",
        "image=uint8",
        "--std",
        "16",
    ]
    outcome = Outcome(tmp_path, DIGITS.read_bytes(), options)
    convs = [c for c in outcome.file.programs[0].commands if c.opcode == "conv2d"]
    assert len(convs) == 3 and all(c.fields["act"] == 1 for c in convs)
    assert sum(c.fields.get("residual", isa.NONE16) != isa.NONE16 for c in convs) == 1


def test_helpers_turn_axes_both_ways() -> None:
    entry = type("E", (), {"source_perm": (0, 2, 3, 1), "source_shape": (1, 3, 4, 5)})()
    array = some(1, 3, 4, 5)
    assert (from_device(entry, array.transpose(0, 2, 3, 1)) == array).all()
