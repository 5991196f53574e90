# SPDX-License-Identifier: MIT
"""Pass `canon`: ONNX's operators to the few of graph.CANON (QC04), and the
interface's options (input types, mean and std) to nodes of their own (QC47).

After it every attribute is whole: windows are placed, functions are the
numbers of section 5.6, Gemm is a product with a bias. Nodes that do nothing
are gone. Nothing here is an optimisation that could be left out.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional

import numpy as np

from . import isa_tables as isa
from . import shapes
from .graph import (
    UNSUPPORTED,
    USAGE,
    CompileError,
    Graph,
    Node,
    Problem,
    Refused,
    fail,
)
from .facts import Facts

# Functions of section 5.6.
CLIP, LEAKY, SIGMOID, TANH, HARD_SIGMOID, HARD_SWISH = range(1, 7)
ABS, NEG, RECIPROCAL, SQRT, EXP, LOG, ERF = 18, 19, 21, 22, 25, 26, 27
ADD, SUB, MUL, DIV, MAX, MIN = range(1, 7)

UNARY = {
    "Abs": ABS,
    "Erf": ERF,
    "Exp": EXP,
    "HardSwish": HARD_SWISH,
    "Log": LOG,
    "Neg": NEG,
    "Reciprocal": RECIPROCAL,
    "Sigmoid": SIGMOID,
    "Sqrt": SQRT,
    "Tanh": TANH,
}
BINARY = {"Add": ADD, "Div": DIV, "Max": MAX, "Min": MIN, "Mul": MUL, "Sub": SUB}
BINARY["Sum"] = ADD

INF = float("inf")


@dataclasses.dataclass
class Interface:
    """Options about inputs: types in device memory, layouts, normalisation."""

    dtypes: dict[str, int] = dataclasses.field(default_factory=dict)
    layouts: dict[str, str] = dataclasses.field(default_factory=dict)
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    io_rank: int = 0


def canon(graph: Graph, interface: Interface) -> None:
    problems: list[Problem] = []
    work = Canon(graph)
    apply_interface(work, interface)
    for node in graph.nodes:
        node.inputs = [work.alias.get(name, name) for name in node.inputs]
        try:
            RULES[node.op](work, Facts(graph, node))
        except Refused as error:
            problems.append(graph.problem(node, error))
    if problems:
        raise CompileError(problems)
    graph.nodes = work.nodes
    graph.results = [work.alias.get(name, name) for name in graph.results]
    graph.drop_dead()


class Canon:
    """The nodes made so far, and names that mean another tensor now."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.alias: dict[str, str] = {}

    def add(
        self, op: str, inputs: list[str], output: str, sources: list[int], **attrs: Any
    ) -> None:
        self.nodes.append(Node(op, inputs, [output], attrs, list(sources)))

    def step(
        self, f: Facts, op: str, inputs: list[str], shape: Any, **attrs: Any
    ) -> str:
        """A node whose result only the same source node reads."""
        dtype = self.graph.dtypes[inputs[0]]
        name = self.graph.new_tensor(f.node.output, shape, dtype)
        self.add(op, inputs, name, f.node.sources, **attrs)
        return name

    def last(self, f: Facts, op: str, inputs: list[str], **attrs: Any) -> None:
        """The node that makes the source node's own result."""
        self.add(op, inputs, f.node.output, f.node.sources, **attrs)

    def same(self, f: Facts, name: str) -> None:
        """The result is a tensor that exists already."""
        self.alias[f.node.output] = name
        for source in f.node.sources:
            self.graph.sources[source].fate = f"view of {name}"


def apply_interface(work: Canon, interface: Interface) -> None:
    """Nodes between an input as the device gets it and as the model wants it."""
    graph = work.graph
    used = False
    for name in graph.inputs:
        dtype = interface.dtypes.get(name, graph.dtypes[name])
        if dtype != graph.dtypes[name] and (dtype, graph.dtypes[name]) != (
            isa.U8,
            isa.F32,
        ):
            raise fail(USAGE, f"--input-dtype {name}: the model's input is not float32")
        shape = graph.shapes[name]
        value = name
        if dtype != graph.dtypes[name]:
            value = graph.new_tensor(name, shape, isa.F32)
            work.add("cast", [name], value, [])
            graph.io_types[name] = graph.dtypes[name]
            graph.dtypes[name] = dtype
        image = len(shape) == 4 and graph.dtypes[value] == isa.F32
        if image and (interface.mean or interface.std):
            used = True
            axis = 3 if interface.layouts.get(name) == "nhwc" else 1
            value = normalise(work, value, axis, interface)
        if value != name:
            work.alias[name] = value
    named = {"dtype": list(interface.dtypes), "layout": list(interface.layouts)}
    for option, names in named.items():
        for name in sorted(set(names) - set(graph.inputs)):
            raise fail(USAGE, f"--input-{option}: the model has no input '{name}'")
    for option, numbers in (("mean", interface.mean), ("std", interface.std)):
        if numbers and not used:
            graph.warnings.append(f"W04: --{option}: no input is a float32 image")


def normalise(work: Canon, value: str, axis: int, interface: Interface) -> str:
    """(x - mean) / std per channel; steps that change nothing are left out."""
    graph = work.graph
    shape = graph.shapes[value]
    for option, numbers, fn, idle in (
        ("mean", interface.mean, SUB, 0.0),
        ("std", interface.std, DIV, 1.0),
    ):
        if len(numbers) not in (0, 1, shape[axis]):
            text = f"--{option}: {len(numbers)} numbers for {shape[axis]} channels"
            raise fail(USAGE, text)
        if all(number == idle for number in numbers):
            continue
        wide = [1] * 4
        wide[axis] = len(numbers)
        array = np.array(numbers, np.float64).reshape(wide)
        operand = graph.new_constant(option, array, isa.F32)
        result = graph.new_tensor(value, shape, isa.F32)
        work.add("binary", [value, operand], result, [], fn=fn, norm=option)
        value = result
    return value


# One rule per ONNX operator.


def conv(work: Canon, f: Facts) -> None:
    w = f.constant(1, "W")
    if f.has(2):
        f.constant(2, "B")
    window = shapes.window(f, w.shape[2:])
    inputs = [*f.node.inputs[:2], f.node.inputs[2] if f.has(2) else "", ""]
    work.last(f, "conv", inputs, window=window, groups=f.attr("group", 1))


def pool(work: Canon, f: Facts) -> None:
    window = shapes.window(f, None, f.attr("ceil_mode", 0))
    work.last(f, "pool", f.node.inputs[:1], window=window)


def gemm(work: Canon, f: Facts) -> None:
    graph = work.graph
    a, b = f.node.inputs[:2]
    out = graph.shapes[f.node.output]
    if f.attr("transA", 0):
        a = transposed(work, f, a, (1, 0))
    if f.attr("transB", 0):
        b = transposed(work, f, b, (1, 0))
    beta = f.number("beta", 1.0)
    alpha = f.number("alpha", 1.0)
    if not f.has(2) or beta == 0.0:
        work.last(f, "matmul", [a, b, "", ""], alpha=alpha)
        return
    c = f.node.inputs[2]
    bias = row_bias(graph, c, out[1], beta)
    if bias:
        work.last(f, "matmul", [a, b, bias, ""], alpha=alpha)
        return
    if c in graph.constants:
        c = graph.new_constant(c, graph.constants[c].astype(np.float64) * beta, isa.F32)
    elif beta != 1.0:
        factor = graph.new_constant("beta", np.array(beta), isa.F32)
        c = work.step(f, "binary", [c, factor], f.shape(2), fn=MUL)
    product = work.step(f, "matmul", [a, b, "", ""], out, alpha=alpha)
    work.last(f, "binary", [product, c], fn=ADD)


def row_bias(graph: Graph, name: str, columns: int, beta: float) -> Optional[str]:
    """A constant C of Gemm that is the same in every row, as {N}."""
    array = graph.constants.get(name)
    if array is None or (array.ndim == 2 and array.shape[0] != 1):
        return None
    if array.shape == (columns,) and beta == 1.0:
        return name
    row = np.broadcast_to(array.astype(np.float64).ravel() * beta, (columns,))
    return graph.new_constant(name, row, isa.F32)


def transposed(work: Canon, f: Facts, name: str, perm: tuple[int, ...]) -> str:
    graph = work.graph
    if name in graph.constants:
        array = graph.constants[name].transpose(perm)
        return graph.new_constant(name, array, graph.dtypes[name])
    shape = tuple(graph.shapes[name][i] for i in perm)
    return work.step(f, "transpose", [name], shape, perm=perm)


def reshaped(work: Canon, f: Facts, name: str, shape: tuple[int, ...]) -> str:
    graph = work.graph
    if graph.shapes[name] == shape:
        return name
    if name in graph.constants:
        array = graph.constants[name].reshape(shape)
        return graph.new_constant(name, array, graph.dtypes[name])
    return work.step(f, "reshape", [name], shape)


def matmul(work: Canon, f: Facts) -> None:
    """Vectors get the axis that MATMUL wants, which the result loses again."""
    a, b = f.shape(0), f.shape(1)
    left = reshaped(work, f, f.node.inputs[0], a if len(a) > 1 else (1, *a))
    right = reshaped(work, f, f.node.inputs[1], b if len(b) > 1 else (*b, 1))
    if len(a) > 1 and len(b) > 1:
        work.last(f, "matmul", [left, right, "", ""], alpha=1.0)
        return
    out = work.graph.shapes[f.node.output]
    wide = list(out)
    if len(a) == 1:
        wide.insert(len(out) - (1 if len(b) > 1 else 0), 1)
    if len(b) == 1:
        wide.append(1)
    product = work.step(f, "matmul", [left, right, "", ""], wide, alpha=1.0)
    work.last(f, "reshape", [product])


def unary(work: Canon, f: Facts) -> None:
    work.last(f, "unary", f.node.inputs, fn=UNARY[f.node.op], a=0.0, b=0.0)


def relu(work: Canon, f: Facts) -> None:
    work.last(f, "unary", f.node.inputs, fn=CLIP, a=0.0, b=INF)


def leaky(work: Canon, f: Facts) -> None:
    work.last(f, "unary", f.node.inputs, fn=LEAKY, a=f.number("alpha", 0.01), b=0.0)


def hard_sigmoid(work: Canon, f: Facts) -> None:
    a, b = f.number("alpha", 0.2), f.number("beta", 0.5)
    work.last(f, "unary", f.node.inputs, fn=HARD_SIGMOID, a=a, b=b)


def clip(work: Canon, f: Facts) -> None:
    """CLIP for constant bounds of floats, else MAX and MIN."""
    graph = work.graph
    names = [f.node.inputs[i] if f.has(i) else "" for i in (1, 2)]
    bounds: list[Any] = [f.node.attrs.get(n) for n in ("min", "max")]
    if f.opset >= 11:
        bounds = [graph.constants.get(name) for name in names]
    constant = all(not n or n in graph.constants for n in names) or f.opset < 11
    if constant and f.dtype(0) == isa.F32:
        low = -INF if bounds[0] is None else float(np.ravel(bounds[0])[0])
        high = INF if bounds[1] is None else float(np.ravel(bounds[1])[0])
        if np.isnan(low) or np.isnan(high):
            raise Refused(UNSUPPORTED, "a bound is not a number")
        low = min(low, high)  # ONNX: everything becomes the upper bound
        work.last(f, "unary", f.node.inputs[:1], fn=CLIP, a=low, b=high)
        return
    if f.opset < 11:
        raise Refused(UNSUPPORTED, "integers before opset 11")
    steps = [(n, fn) for n, fn in zip(names, (MAX, MIN)) if n]
    value = f.node.inputs[0]
    for name, fn in steps:
        scalar = reshaped(work, f, name, ())
        value = work.step(f, "binary", [value, scalar], f.shape(0), fn=fn)
    work.same(f, value)


def variadic(work: Canon, f: Facts) -> None:
    """Operands from left to right; one alone is the result itself."""
    fn = BINARY[f.node.op]
    value, *rest = f.node.inputs
    shape = f.shape(0)
    for name in rest[:-1]:
        shape = shapes.broadcast([shape, work.graph.shapes[name]])
        value = work.step(f, "binary", [value, name], shape, fn=fn)
    if not rest:
        work.same(f, value)
    else:
        work.last(f, "binary", [value, rest[-1]], fn=fn)


def batch_norm(work: Canon, f: Facts) -> None:
    scale, bias, mean, var = (
        f.constant(i, name).astype(np.float64)
        for i, name in enumerate(("scale", "B", "mean", "var"), start=1)
    )
    factor = scale / np.sqrt(var + f.number("epsilon", 1e-5))
    shift = bias - mean * factor
    stored = [factor.astype(np.float32), shift.astype(np.float32)]
    if not np.isfinite(stored).all():
        text = "a variance is negative, or a factor not finite in float32"
        raise Refused(UNSUPPORTED, text)
    wide = (-1, *[1] * (len(f.shape(0)) - 2))
    work.last(
        f,
        "affine",
        f.node.inputs[:1],
        scale=factor.reshape(wide),
        shift=shift.reshape(wide),
    )


def view(work: Canon, f: Facts) -> None:
    if f.shape(0) == work.graph.shapes[f.node.output]:
        work.same(f, f.node.inputs[0])
    else:
        work.last(f, "reshape", f.node.inputs[:1])


def transpose(work: Canon, f: Facts) -> None:
    perm = f.ints("perm", range(len(f.shape(0)))[::-1]) or ()
    moved = [i for i in perm if f.shape(0)[i] > 1]
    if moved == sorted(moved):  # only axes of one element move
        view(work, f)
    else:
        work.last(f, "transpose", f.node.inputs, perm=perm)


def identity(work: Canon, f: Facts) -> None:
    work.same(f, f.node.inputs[0])


def cast(work: Canon, f: Facts) -> None:
    if f.dtype(0) == work.graph.dtypes[f.node.output]:
        work.same(f, f.node.inputs[0])
    else:
        work.last(f, "cast", f.node.inputs)


RULES: dict[str, Callable[[Canon, Facts], None]] = {
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Clip": clip,
    "Conv": conv,
    "Dropout": identity,
    "Flatten": view,
    "Gemm": gemm,
    "HardSigmoid": hard_sigmoid,
    "Identity": identity,
    "LeakyRelu": leaky,
    "MatMul": matmul,
    "MaxPool": pool,
    "Relu": relu,
    "Reshape": view,
    "Squeeze": view,
    "Transpose": transpose,
    "Unsqueeze": view,
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, variadic),
}
