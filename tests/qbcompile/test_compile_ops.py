# SPDX-License-Identifier: MIT
"""Each operator: the compiled program computes what ONNX says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable

import numpy as np
import onnx
import pytest
from compile_cases import Outcome, agree, both, from_device, model, node, random_net
from compile_cases import to_device

from qbcompile import evaluate

Array = np.ndarray
RNG = np.random.default_rng(7)
X = RNG.normal(0, 2, (2, 3, 4)).astype(np.float32)
Y = RNG.uniform(0.5, 3, (3, 1)).astype(np.float32)
INTS = RNG.integers(-9, 9, (2, 5))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# Operator, attributes, what NumPy says. All read x, some y.
ELEMENTWISE: list[tuple[str, dict[str, Any], Callable[..., Array]]] = [
    ("Abs", {}, np.abs),
    ("Erf", {}, np.vectorize(math.erf)),
    ("Exp", {}, np.exp),
    (
        "HardSigmoid",
        {"alpha": 0.3, "beta": 0.4},
        lambda x: np.clip(0.3 * x + 0.4, 0, 1),
    ),
    ("LeakyRelu", {"alpha": 0.1}, lambda x: np.where(x < 0, 0.1 * x, x)),
    ("Log", {}, np.log),
    ("Neg", {}, np.negative),
    ("Reciprocal", {}, np.reciprocal),
    ("Relu", {}, lambda x: np.maximum(x, 0)),
    ("Sigmoid", {}, sigmoid),
    ("Sqrt", {}, np.sqrt),
    ("Tanh", {}, np.tanh),
    ("Add", {}, np.add),
    ("Div", {}, np.divide),
    ("Max", {}, np.maximum),
    ("Min", {}, np.minimum),
    ("Mul", {}, np.multiply),
    ("Sub", {}, np.subtract),
    ("Sum", {}, np.add),
]


# QC06
@pytest.mark.parametrize("op, attrs, expected", ELEMENTWISE, ids=lambda v: str(v)[:12])
def test_elementwise_operator(
    op: str, attrs: dict[str, Any], expected: Callable[..., Array], tmp_path: Path
) -> None:
    x = np.abs(X) + 0.1 if op in ("Log", "Sqrt") else X
    two = op in ("Add", "Div", "Max", "Min", "Mul", "Sub", "Sum")
    names = "x y" if two else "x"
    feeds = {"x": x, "y": Y} if two else {"x": x}
    shapes = {name: array.shape for name, array in feeds.items()}
    data = model([node(op, names, "z", **attrs)], shapes, ["z"])
    outcome, got, _ = both(tmp_path, data, feeds)
    assert outcome.opcodes == ["binary" if two else "unary"]
    want = expected(*(array.astype(np.float64) for array in feeds.values()))
    assert np.abs(got["z"] - want).max() < 1e-6


# QC06
def test_hard_swish(tmp_path: Path) -> None:
    data = model([node("HardSwish", "x", "y")], {"x": X.shape}, opset=14)
    _, got, _ = both(tmp_path, data, {"x": X})
    want = X.astype(np.float64) * np.clip(X.astype(np.float64) / 6 + 0.5, 0, 1)
    assert np.abs(got["y"] - want).max() < 1e-12


# QC06 IS41
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_integers_are_exact(op: str, tmp_path: Path) -> None:
    other = np.array([3, -2, 5, -7, 1])
    data = model(
        [node(op, "x o", "y")], {"x": INTS.shape}, ["y"], {"o": other}, kind="i"
    )
    _, got, _ = both(tmp_path, data, {"x": INTS})
    exact = {
        "Add": INTS + other,
        "Sub": INTS - other,
        "Mul": INTS * other,
        "Div": np.trunc(INTS / other).astype(np.int64),
        "Max": np.maximum(INTS, other),
        "Min": np.minimum(INTS, other),
    }
    assert (got["y"] == exact[op]).all()


# QC04
@pytest.mark.parametrize("opset", [9, 13])
def test_clip_of_both_kinds_of_opset(opset: int, tmp_path: Path) -> None:
    bounds = {"lo": np.float32(-1), "hi": np.float32(1.5)}
    if opset < 11:
        data = model(
            [node("Clip", "x", "y", min=-1.0, max=1.5)], {"x": X.shape}, opset=opset
        )
    else:
        arrays = {name: np.array(value) for name, value in bounds.items()}
        data = model(
            [node("Clip", "x lo hi", "y")], {"x": X.shape}, ["y"], arrays, opset
        )
    outcome, got, _ = both(tmp_path, data, {"x": X})
    assert outcome.opcodes == ["unary"]
    assert (got["y"] == np.clip(X, -1, 1.5)).all()


# QC04
def test_clip_with_crossed_bounds_gives_the_upper_one(tmp_path: Path) -> None:
    bounds = {"lo": np.array(2, np.float32), "hi": np.array(1, np.float32)}
    data = model([node("Clip", "x lo hi", "y")], {"x": X.shape}, ["y"], bounds)
    _, got, _ = both(tmp_path, data, {"x": X})
    assert (got["y"] == 1).all()


# QC04
def test_clip_with_bounds_of_run_time(tmp_path: Path) -> None:
    shapes = {"x": X.shape, "lo": (), "hi": ()}
    data = model([node("Clip", "x lo hi", "y")], shapes)
    feeds = {"x": X, "lo": np.array(-0.5, np.float32), "hi": np.array(0.5, np.float32)}
    outcome = agree(tmp_path, data, feeds)
    assert outcome.opcodes == ["binary", "binary"]


CONVS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 7, 6), (4, 2, 3, 3), {}),
    ((2, 4, 7, 9), (6, 2, 3, 2), {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]}),
    (
        (1, 3, 9, 9),
        (3, 1, 3, 3),
        {"group": 3, "dilations": [2, 3], "pads": [2, 3, 2, 3]},
    ),
    ((1, 2, 8, 5), (2, 2, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [3, 2]}),
    ((1, 2, 8, 5), (2, 2, 4, 2), {"auto_pad": "SAME_LOWER"}),
    ((1, 2, 8, 5), (2, 2, 3, 3), {"auto_pad": "VALID", "kernel_shape": [3, 3]}),
    ((2, 3, 11), (5, 3, 4), {"strides": [2], "pads": [1, 2], "dilations": [2]}),
]


def naive_conv(x: Array, w: Array, pads: list[int], form: dict[str, Any]) -> Array:
    """The sum of ONNX's page, two spatial axes, one product at a time."""
    sh, sw = form.get("strides", [1, 1])
    dh, dw = form.get("dilations", [1, 1])
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), pads[::2], pads[1::2]])
    groups, (k, c, kh, kw) = form.get("group", 1), w.shape
    out_h = (x.shape[2] - (kh - 1) * dh - 1) // sh + 1
    out_w = (x.shape[3] - (kw - 1) * dw - 1) // sw + 1
    y = np.zeros((len(x), k, out_h, out_w))
    for n, o, i, j in np.ndindex(*y.shape):
        first = o // (k // groups) * c
        rows = slice(i * sh, i * sh + (kh - 1) * dh + 1, dh)
        columns = slice(j * sw, j * sw + (kw - 1) * dw + 1, dw)
        y[n, o, i, j] = (x[n, first : first + c, rows, columns] * w[o]).sum()
    return y


# QC06 QC07
@pytest.mark.parametrize("shape, weights, form", CONVS)
def test_convolution(
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    form: dict[str, Any],
    tmp_path: Path,
) -> None:
    x = RNG.normal(0, 1, shape).astype(np.float32)
    w = RNG.normal(0, 1, weights).astype(np.float32)
    b = RNG.normal(0, 1, weights[0]).astype(np.float32)
    nodes = [node("Conv", "x w b", "y", **form)]
    data = model(nodes, {"x": shape}, ["y"], {"w": w, "b": b})
    outcome = agree(tmp_path, data, {"x": x}, tolerance=1e-9)
    assert outcome.opcodes == ["conv2d"]
    if len(shape) == 4 and "auto_pad" not in form:
        _, got, _ = both(tmp_path, data, {"x": x})
        want = naive_conv(x, w, form.get("pads", [0] * 4), form)
        assert np.abs(got["y"] - want - b[:, None, None]).max() < 1e-9


POOLS: list[tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]] = [
    ((1, 2, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}, (3, 3)),
    ((2, 3, 7, 5), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}, (3, 3)),
    ((1, 1, 5, 5), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, (5, 5)),
    ((1, 1, 7, 7), {"kernel_shape": [2, 3], "dilations": [3, 2]}, (4, 3)),
    ((1, 2, 8), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, (4,)),
    # A window that would begin in the pad behind is left out.
    (
        (1, 1, 2, 2),
        {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1},
        (1, 1),
    ),
]


# QC06
@pytest.mark.parametrize("shape, form, out", POOLS)
def test_max_pool(
    shape: tuple[int, ...], form: dict[str, Any], out: tuple[int, ...], tmp_path: Path
) -> None:
    x = RNG.normal(0, 1, shape).astype(np.float32)
    data = model([node("MaxPool", "x", "y", **form)], {"x": shape})
    outcome, got, want = both(tmp_path, data, {"x": x})
    assert outcome.opcodes == ["pool"]
    assert got["y"].shape == (*shape[:2], *out)
    assert (got["y"] == want["y"]).all()


PRODUCTS = [
    ((4,), (4,)),
    ((4,), (4, 3)),
    ((5, 4), (4,)),
    ((5, 4), (4, 3)),
    ((2, 5, 4), (4, 3)),
    ((2, 1, 5, 4), (3, 4, 2)),
    ((4,), (2, 4, 3)),
]


# QC04 QC06
@pytest.mark.parametrize("left, right", PRODUCTS)
@pytest.mark.parametrize("constant", [False, True])
def test_matmul(
    left: tuple[int, ...], right: tuple[int, ...], constant: bool, tmp_path: Path
) -> None:
    a = RNG.normal(0, 1, left).astype(np.float32)
    b = RNG.normal(0, 1, right).astype(np.float32)
    inputs = {"a": left} if constant else {"a": left, "b": right}
    data = model(
        [node("MatMul", "a b", "y")], inputs, ["y"], {"b": b} if constant else {}
    )
    feeds = {"a": a} if constant else {"a": a, "b": b}
    _, got, _ = both(tmp_path, data, feeds)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(got["y"] - want).max() < 1e-12


# QC04
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("c", [None, (3,), (1, 3), (5, 1), (5, 3), ()])
@pytest.mark.parametrize("constant", [False, True])
def test_gemm(trans: int, c: Any, constant: bool, tmp_path: Path) -> None:
    form = {"transA": trans, "transB": 1 - trans, "alpha": 0.5, "beta": 2.0}
    a, b = RNG.normal(0, 1, (5, 4)), RNG.normal(0, 1, (4, 3))
    want = 0.5 * (
        a.astype(np.float32).astype(float) @ b.astype(np.float32).astype(float)
    )
    feeds = {"a": a.T if trans else a, "b": b if trans else b.T}
    if c is not None:
        feeds["c"] = RNG.normal(0, 1, c)
        want = want + 2.0 * feeds["c"].astype(np.float32)
    feeds = {k: np.array(v, np.float32, order="C") for k, v in feeds.items()}
    fixed = {k: feeds.pop(k) for k in ("b", "c") if constant and k in feeds}
    names = "a b c" if c is not None else "a b"
    shapes = {name: array.shape for name, array in feeds.items()}
    data = model([node("Gemm", names, "y", **form)], shapes, ["y"], fixed)
    _, got, _ = both(tmp_path, data, feeds)
    assert np.abs(got["y"] - want).max() < 1e-6


# QC04 QC20
def test_batch_normalization_without_a_sum_before_it(tmp_path: Path) -> None:
    parts = {k: RNG.uniform(0.5, 2, 3).astype(np.float32) for k in "sbmv"}
    nodes = [node("BatchNormalization", "x s b m v", "y", epsilon=1e-3)]
    data = model(nodes, {"x": (2, 3, 4, 5)}, ["y"], parts)
    feeds = {"x": RNG.normal(0, 1, (2, 3, 4, 5)).astype(np.float32)}
    outcome = agree(tmp_path, data, feeds)
    assert outcome.opcodes == ["binary", "binary"]


# QC02 QC03
def test_shape_arithmetic_is_executed(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n first", "n1"),
        node("Slice", "s one four first", "rest"),
        node("Cast", "rest", "f", to=1),
        node("Mul", "f f", "g"),
        node("Sqrt", "g", "h"),
        node("Cast", "h", "r", to=7),
        node("Concat", "n1 r", "shape", axis=0),
        node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
        node("Reshape", "t shape", "y"),
    ]
    constants = {"zero": np.array(0), "first": np.array([0])}
    constants.update({"one": np.array([1]), "four": np.array([4])})
    data = model(nodes, {"x": (2, 3, 4, 5)}, ["y"], constants)
    feeds = {"x": RNG.normal(0, 1, (2, 3, 4, 5)).astype(np.float32)}
    _, got, _ = both(tmp_path, data, feeds)
    assert (got["y"] == feeds["x"].transpose(0, 2, 3, 1).reshape(2, 3, 4, 5)).all()


# QC03
def test_constants_fold_in_f64_and_are_rounded_once(tmp_path: Path) -> None:
    one, tiny = np.float32(1), np.float32(2.0**-24)
    nodes = [node("Sum", "one tiny tiny", "c"), node("Mul", "x c", "y")]
    arrays = {"one": np.array(one), "tiny": np.array(tiny)}
    outcome = Outcome(tmp_path, model(nodes, {"x": (4,)}, ["y"], arrays), [])
    constant = np.frombuffer(outcome.file.weights, np.float32, 1)
    assert constant[0] == np.float32(1 + 2.0**-23)  # step by step it would stay 1


# QC03
def test_nodes_on_constants_leave_no_command(tmp_path: Path) -> None:
    nodes = [
        node("Constant", "", "a", value_floats=[1.0, 2.0, 3.0]),
        node(
            "ConstantOfShape",
            "n",
            "b",
            value=onnx.numpy_helper.from_array(np.ones(1, "f")),
        ),
        node("Add", "a b", "c"),
        node("Add", "x c", "y"),
    ]
    data = model(nodes, {"x": (3,)}, ["y"], {"n": np.array([3])})
    outcome = agree(tmp_path, data, {"x": np.ones(3, np.float32)})
    assert outcome.opcodes == ["binary"]


# QC04
def test_nodes_that_do_nothing_leave_no_command(tmp_path: Path) -> None:
    nodes = [
        node("Identity", "x", "a"),
        node("Dropout", "a", "b"),
        node("Cast", "b", "c", to=1),
        node("Reshape", "c same", "d"),
        node("Transpose", "d", "e", perm=[0, 2, 1]),
        node("Relu", "e", "y"),
    ]
    data = model(nodes, {"x": (2, 1, 4)}, ["y"], {"same": np.array([0, 1, -1])})
    feeds = {"x": RNG.normal(0, 1, (2, 1, 4)).astype(np.float32)}
    assert agree(tmp_path, data, feeds).opcodes == ["unary"]


# QC04 QC07
def test_reshape_of_nhwc_needs_one_copy_and_of_dense_none(tmp_path: Path) -> None:
    w = RNG.normal(0, 1, (3, 2, 1, 1)).astype(np.float32)
    nodes = [
        node("Conv", "x w", "c"),
        node("Flatten", "c", "f"),
        node("Relu", "f", "y"),
    ]
    feeds = {"x": RNG.normal(0, 1, (1, 2, 4, 4)).astype(np.float32)}
    data = model(nodes, {"x": (1, 2, 4, 4)}, ["y"], {"w": w})
    assert agree(tmp_path, data, feeds).opcodes == ["conv2d", "copy", "unary"]
    # One pixel: channels are dense, a view will do.
    feeds = {"x": feeds["x"][:, :, :1, :1]}
    data = model(nodes, {"x": (1, 2, 1, 1)}, ["y"], {"w": w})
    assert agree(tmp_path, data, feeds).opcodes == ["conv2d", "unary"]


# QC07
def test_transpositions_are_views(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "x", "t", perm=[2, 0, 1]),
        node("Relu", "t", "r"),
        node("Transpose", "r", "b", perm=[1, 2, 0]),
        node("Add", "b x", "y"),
    ]
    data = model(nodes, {"x": X.shape})
    assert agree(tmp_path, data, {"x": X}).opcodes == ["unary", "binary"]


# QC15
def test_edges_of_the_graph_become_copies(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Identity", "r", "r2"),
        node("Identity", "x", "i"),
    ]
    nodes += [node("Identity", "k", "c")]
    constant = RNG.normal(0, 1, (2, 2)).astype(np.float32)
    data = model(
        nodes, {"x": (2, 3), "unread": (4, 1)}, ["r", "r2", "i", "c"], {"k": constant}
    )
    feeds = {"x": X[0, :2, :3].copy(), "unread": np.zeros((4, 1), np.float32)}
    outcome = agree(tmp_path, data, feeds)
    assert sorted(outcome.opcodes) == ["copy", "copy", "copy", "unary"]
    assert [entry.name for entry in outcome.file.ios][:2] == ["x", "unread"]


# QC15
def test_rank_0_has_shape_1(tmp_path: Path) -> None:
    data = model([node("Mul", "x x", "y")], {"x": ()})
    outcome = agree(tmp_path, data, {"x": np.array(3, np.float32)})
    assert [entry.shape for entry in outcome.file.ios] == [(1,), (1,)]


# QC05 QC06 QC09 QC11
@pytest.mark.parametrize("seed", range(60))
def test_random_network(seed: int, tmp_path: Path) -> None:
    data, feeds = random_net(seed)
    fused = agree(tmp_path, data, feeds)
    plain = agree(tmp_path, data, feeds, ["-O0"])
    assert len(fused.opcodes) <= len(plain.opcodes)


DATA = Path("/usr/share/libonnx-testdata/data")


@pytest.mark.skipif(not DATA.exists(), reason="libonnx-testdata is not installed")
def test_onnx_own_test_data(tmp_path: Path) -> None:
    """Whatever compiles gives the stored outputs."""
    passed = 0
    for path in sorted(DATA.rglob("model.onnx")):
        outcome = Outcome(tmp_path, path.read_bytes(), [])
        assert outcome.code in (0, 4, 5, 6), (path, outcome.err)
        if outcome.code == 0:
            check_stored(outcome, path)
            passed += 1
    print(f"{passed} passed")
    assert passed >= 120


def check_stored(outcome: Outcome, path: Path) -> None:
    graph = onnx.load(path).graph
    fixed = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in fixed]
    entries = {entry.name: entry for entry in outcome.file.ios}

    def stored(file: Path) -> Array:
        return onnx.numpy_helper.to_array(onnx.load_tensor(str(file)))

    for folder in sorted(path.parent.glob("test_data_set_*")):
        feeds = {
            name: to_device(entries[name], stored(folder / f"input_{i}.pb"))
            for i, name in enumerate(names)
        }
        results = evaluate.run(outcome.file, feeds)
        for i, value in enumerate(graph.output):
            want = stored(folder / f"output_{i}.pb")
            got = from_device(entries[value.name], results[value.name])
            assert got.shape == want.shape, path
            assert np.allclose(got, want, 1e-3, 1e-5), path
