# SPDX-License-Identifier: MIT
"""Passes `shapes` and `fold`: every tensor's type and extents; constants.

One walk in order of use (QC02, QC03): a node whose operands are all constant
is computed here and disappears, which makes shape arithmetic executable, so no
extent is left to guess. VALUES, the meaning of each operator in NumPy, also
serves evaluate.run_graph, the oracle for what the compiler makes of a model:
floats are computed in f64 and rounded once, integers exactly.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable

import numpy as np

from . import isa_tables as isa
from . import ops, shapes
from .graph import (
    LIMIT,
    NUMPY,
    SHAPE,
    UNSUPPORTED,
    Array,
    CompileError,
    DType,
    Graph,
    Node,
    Problem,
    Refused,
    elements,
)
from .facts import Facts

MAX_FOLDED = 256 << 20  # bytes of new constants (QC03)
MAX_WORK = 1 << 25  # values, or products of values, that one folded node costs
MAX_TOTAL = 1 << 27  # that all of them cost (QE05)
SLOW = {"Erf": 8}  # a value of it costs as much as so many of others

Arrays = list[Any]


@dataclasses.dataclass
class Room:
    """What folding may still spend."""

    size: int = MAX_FOLDED
    work: int = MAX_TOTAL


def infer(graph: Graph) -> None:
    """Fill shapes and dtypes, fold what is constant, refuse what is not known."""
    problems: list[Problem] = []
    users = graph.users()
    live: list[Node] = []
    room = Room()
    for node in graph.nodes:
        if any(name not in graph.shapes for name in node.reads()):
            continue  # behind a refused node
        try:
            known = ops.check(graph, node)
            facts = Facts(graph, node)
            outputs = known.shape(facts)
            ops.check_sizes(outputs)
            for name in node.outputs[len(outputs) :]:
                if name and (name in users or name in graph.outputs):
                    raise Refused(UNSUPPORTED, f"output '{name}'; supported: the first")
            for name, (dtype, shape) in zip(node.outputs, outputs):
                graph.shapes[name], graph.dtypes[name] = shape, dtype
            constant = all(name in graph.constants for name in node.reads())
            if constant or node.op == "Shape":
                fold_node(graph, facts, room)
            else:
                check_run_time(graph, facts, known)
                live.append(node)
        except Refused as error:
            problems.append(graph.problem(node, error))
    if problems:
        raise CompileError(problems)
    graph.nodes = live
    graph.drop_dead()
    check_interface(graph)


def check_run_time(graph: Graph, f: Facts, known: ops.OpDef) -> None:
    """What only matters for a node that the device has to compute."""
    if not known.types:
        raise Refused(UNSUPPORTED, "supported: on constants only")
    if known.types != ops.ANY:
        kind = np.dtype(NUMPY[f.dtype(0)]).name
        if kind not in known.types.split():
            text = ", ".join(known.types.split())
            raise Refused(UNSUPPORTED, f"type {kind}; supported: {text}")
    for name in [*f.node.reads(), f.node.output]:
        shape = graph.shapes[name]
        if name not in graph.constants and elements(shape) == 0:
            raise Refused(SHAPE, f"tensor '{name}' {list(shape)} has no element")
        if len(shape) > 6:
            raise Refused(LIMIT, f"tensor '{name}' has {len(shape)} axes; at most 6")


def check_interface(graph: Graph) -> None:
    problems = []
    for name in [*graph.inputs, *graph.outputs]:
        shape = graph.shapes[name]
        if elements(shape) == 0:
            problems.append(Problem(SHAPE, f"'{name}' {list(shape)} has no element"))
        elif len(shape) > 6:
            text = f"'{name}' has {len(shape)} axes; at most 6"
            problems.append(Problem(LIMIT, text))
        try:
            ops.check_sizes([(graph.dtypes[name], shape)])
        except Refused as error:
            problems.append(Problem(error.code, f"'{name}' {error.reason}"))
    if problems:
        raise CompileError(problems)


def fold_node(graph: Graph, f: Facts, room: Room) -> None:
    """Replace a node by its values."""
    name = f.node.output
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    size = elements(shape) * isa.DTYPE_SIZES[dtype]
    if size > room.size:
        raise Refused(LIMIT, f"folding would make more than {MAX_FOLDED >> 20} MiB")
    xs: Arrays = [graph.constants.get(n) for n in f.node.inputs]
    if f.node.op not in MOVES:
        if any(graph.dtypes[operand] == isa.BOOL for operand in f.node.reads()):
            raise Refused(UNSUPPORTED, "type bool; supported: numbers")
        if work(f) > min(room.work, MAX_WORK):
            raise Refused(LIMIT, "too much work to fold")
        room.work -= work(f)
    room.size -= size
    with np.errstate(all="ignore"):
        if f.node.op in MOVES:
            value = VALUES[f.node.op](f, xs)
        else:
            wide = [x.astype(np.float64) if is_float(x) else x for x in xs]
            value = VALUES[f.node.op](f, wide)
        graph.constants[name] = np.asarray(value).astype(NUMPY[dtype]).reshape(shape)
    graph.sources[f.node.sources[0]].fate = "folded"


def is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def work(f: Facts) -> int:
    """Products that a node adds up, or the elements that it touches."""
    out = elements(f.graph.shapes[f.node.output])
    if f.node.op == "Conv":
        return out * elements(f.shape(1)[1:])
    if f.node.op in ("MatMul", "Gemm"):
        return out * max(f.shape(0) or (1,))
    if f.node.op == "MaxPool":
        return out * elements(f.ints("kernel_shape", ()) or ())
    touched = out + sum(elements(f.graph.shapes[name]) for name in f.node.reads())
    return touched * SLOW.get(f.node.op, 1)


# Values: VALUES[op](facts, operands) is the first output. Floats are f64.


def erf(x: Array) -> Any:
    values = (math.erf(v) for v in np.ravel(x))
    return np.fromiter(values, np.float64, np.size(x)).reshape(np.shape(x))


def sigmoid(x: Array) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def clip_bounds(f: Facts, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds of Clip: attributes before opset 11, then operands (may be None)."""
    if f.opset < 11:
        return f.node.attrs.get("min"), f.node.attrs.get("max")
    return low, high


def clip(f: Facts, xs: Arrays) -> Any:
    low, high = clip_bounds(f, *(xs[1:] + [None, None])[:2])
    y = xs[0] if low is None else np.maximum(xs[0], np.ravel(low)[0])
    return y if high is None else np.minimum(y, np.ravel(high)[0])


def divide(f: Facts, xs: Arrays) -> Any:
    if is_float(xs[0]):
        return xs[0] / xs[1]
    # Toward zero; x / 0 = 0 and lowest / -1 wraps, as the device does (IS41).
    a, b = np.broadcast_arrays(*xs)
    nonzero = np.where(b == 0, 1, b)
    quotient = a // nonzero
    wrong = (a % nonzero != 0) & ((a < 0) != (nonzero < 0))
    return np.where(b == 0, 0, quotient + wrong)


def fold_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """Max, Min and Sum take any number of operands."""

    def values(f: Facts, xs: Arrays) -> Any:
        result = xs[0]
        for x in xs[1:]:
            result = function(result, x)
        return result

    return values


def windows(x: Array, w: shapes.Window, fill: float) -> Any:
    """Strided view [N, C, out..., kernel...] of x with its border filled."""
    ends = []
    for i in range(len(w.out)):
        field = (w.kernel[i] - 1) * w.dilations[i] + 1
        used = (w.out[i] - 1) * w.strides[i] + field
        ends.append((w.before[i], max(used - w.before[i] - x.shape[2 + i], 0)))
    wide = np.pad(x, [(0, 0), (0, 0), *ends], constant_values=fill)
    steps = wide.strides[2:]
    shape = (*wide.shape[:2], *w.out, *w.kernel)
    strides = [s * n for s, n in zip(steps, w.strides)]
    strides += [s * n for s, n in zip(steps, w.dilations)]
    return np.lib.stride_tricks.as_strided(
        wide, shape, wide.strides[:2] + tuple(strides)
    )


def conv(f: Facts, xs: Arrays) -> Any:
    x, weights = xs[:2]
    view = windows(x, shapes.window(f, weights.shape[2:]), 0.0)
    groups = f.attr("group", 1)
    axes = x.ndim - 2
    inner, outer = weights.shape[1], weights.shape[0] // groups
    parts = []
    for g in range(groups):
        part = view[:, g * inner : (g + 1) * inner]
        kernel = weights[g * outer : (g + 1) * outer]
        contract = (1, *range(2 + axes, 2 + 2 * axes)), tuple(range(1, 2 + axes))
        parts.append(np.moveaxis(np.tensordot(part, kernel, contract), -1, 1))
    y = np.concatenate(parts, axis=1)
    return y + xs[2].reshape(-1, *[1] * axes) if f.has(2) else y


def max_pool(f: Facts, xs: Arrays) -> Any:
    w = shapes.window(f, None, f.attr("ceil_mode", 0))
    low = -np.inf if is_float(xs[0]) else np.iinfo(xs[0].dtype).min
    view = windows(xs[0], w, low)
    return view.max(axis=tuple(range(xs[0].ndim, view.ndim)))


def gemm(f: Facts, xs: Arrays) -> Any:
    a = xs[0].T if f.attr("transA", 0) else xs[0]
    b = xs[1].T if f.attr("transB", 0) else xs[1]
    y = f.number("alpha", 1.0) * (a @ b)
    return y + f.number("beta", 1.0) * xs[2] if f.has(2) else y


def batch_norm(f: Facts, xs: Arrays) -> Any:
    x = xs[0]
    scale, bias, mean, var = (v.reshape(-1, *[1] * (x.ndim - 2)) for v in xs[1:5])
    return (x - mean) / np.sqrt(var + f.number("epsilon", 1e-5)) * scale + bias


def hard_sigmoid(f: Facts, xs: Arrays) -> Any:
    slope, shift = f.number("alpha", 0.2), f.number("beta", 0.5)
    return np.clip(slope * xs[0] + shift, 0, 1)


def leaky(f: Facts, xs: Arrays) -> Any:
    return np.where(xs[0] >= 0, xs[0], f.number("alpha", 0.01) * xs[0])


def constant(f: Facts, xs: Arrays) -> Any:
    (value,) = f.node.attrs.values()
    return np.asarray(value)


def reshape(f: Facts, xs: Arrays) -> Any:
    return xs[0].reshape(f.graph.shapes[f.node.output])


def transpose(f: Facts, xs: Arrays) -> Any:
    return xs[0].transpose(f.ints("perm", range(xs[0].ndim)[::-1]))


def shape_of(f: Facts, xs: Arrays) -> Any:
    shape = f.shape(0)
    part = shape[f.attr("start", 0) : f.attr("end", len(shape))]
    return np.array(part, np.int64)


def constant_of_shape(f: Facts, xs: Arrays) -> Any:
    value = f.attr("value", np.zeros(1, np.float32))
    return np.full(f.graph.shapes[f.node.output], value.ravel()[0])


def gather(f: Facts, xs: Arrays) -> Any:
    axis = f.attr("axis", 0)
    extent = xs[0].shape[axis]
    index = np.where(xs[1] < 0, xs[1] + extent, xs[1])
    if index.size and (index.min() < 0 or index.max() >= extent):
        raise Refused(SHAPE, f"an index is outside 0 to {extent - 1}")
    return np.take(xs[0], index.astype(np.int64), axis)


def to_integer(x: Array, kind: DType) -> Any:
    """Toward zero, saturated, NaN gives 0 (IS42)."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    # float(high) may be high + 1, so what reaches it is not converted.
    inside = (x > float(low)) & (x < float(high))
    whole = np.where(inside, x, 0).astype(kind)
    whole[x >= float(high)] = high
    whole[x <= float(low)] = low
    return whole


def cast(f: Facts, xs: Arrays) -> Any:
    to = np.dtype(NUMPY[f.graph.dtypes[f.node.output]])
    if to.kind in "iu" and is_float(xs[0]):
        return to_integer(np.atleast_1d(xs[0]), to).reshape(xs[0].shape)
    return xs[0].astype(to)


def first(f: Facts, xs: Arrays) -> Any:
    return xs[0]


def simple(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda f, xs: function(*xs)


VALUES: dict[str, Callable[[Facts, Any], Any]] = {
    "Abs": simple(np.abs),
    "Add": simple(np.add),
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda f, xs: np.concatenate(xs, f.attr("axis", 0)),
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Conv": conv,
    "Div": divide,
    "Dropout": first,
    "Erf": simple(erf),
    "Exp": simple(np.exp),
    "Flatten": reshape,
    "Gather": gather,
    "Gemm": gemm,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": simple(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Identity": first,
    "LeakyRelu": leaky,
    "Log": simple(np.log),
    "MatMul": simple(np.matmul),
    "Max": fold_all(np.maximum),
    "MaxPool": max_pool,
    "Min": fold_all(np.minimum),
    "Mul": simple(np.multiply),
    "Neg": simple(np.negative),
    "Reciprocal": simple(lambda x: 1 / x),
    "Relu": simple(lambda x: np.maximum(x, 0)),
    "Reshape": reshape,
    "Shape": shape_of,
    "Sigmoid": simple(sigmoid),
    "Slice": lambda f, xs: xs[0][shapes.slices(f)],
    "Sqrt": simple(np.sqrt),
    "Squeeze": reshape,
    "Sub": simple(np.subtract),
    "Sum": fold_all(np.add),
    "Tanh": simple(np.tanh),
    "Transpose": transpose,
    "Unsqueeze": reshape,
}

# Operators that only move values: exact in every type, and cheap.
MOVES = frozenset(
    "Cast Concat Constant ConstantOfShape Dropout Flatten Gather Identity Reshape "
    "Shape Slice Squeeze Transpose Unsqueeze".split()
)
