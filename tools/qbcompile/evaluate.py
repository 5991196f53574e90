# SPDX-License-Identifier: MIT
"""Evaluation in f64: of a compiled program, and of the graph it came from.

run() executes a program's commands as section 5.4 words them, run_graph() the
nodes as ONNX words them; they share no code but a few functions of one
number. That they agree shows that the compiler kept the meaning. Intermediate
values stay f64, so the device differs by its own rounding (NC30 to NC32) only.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np

from . import isa_tables as isa
from .container import File
from .fold import VALUES, erf, is_float, sigmoid, to_integer
from .graph import NUMPY, Array, Graph
from .program import Command, Program, Tensor
from .facts import Facts


class NotEvaluated(ValueError):
    """The program uses something that this evaluation does not know."""


def run_graph(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of a graph after fold, before canon; feeds in ONNX's shapes."""
    values: dict[str, Array] = {}
    for name, array in {**graph.constants, **feeds}.items():
        values[name] = array.astype(np.float64) if is_float(array) else array
    for node in graph.nodes:
        operands = [values[n] if n else None for n in node.inputs]
        result = VALUES[node.op](Facts(graph, node), operands)
        dtype = NUMPY[graph.dtypes[node.output]]
        keep = np.float64 if np.dtype(dtype).kind == "f" else dtype
        values[node.output] = np.asarray(result).astype(keep)
    return {name: values[name] for name in graph.outputs}


def run(file: File, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of the first program; feeds as the device takes them.

    A feed has the shape of its input, with or without the batch axis, and the
    outputs come in the shape of the device tensor.
    """
    program = file.programs[0]
    memory = Memory(program, file.weights)
    names = {b.io: t for b, t in io_tensors(program)}
    for index, io in enumerate(file.ios):
        if io.role == isa.ROLE_INPUT:
            tensor = names[index]
            array = np.asarray(feeds[io.name])
            if array.dtype != NUMPY[tensor.dtype]:
                raise ValueError(f"'{io.name}' is {array.dtype}")
            memory.view(tensor)[...] = array.reshape(tensor.dims)
    with np.errstate(all="ignore"):
        for command in program.commands:
            if command.opcode not in COMMANDS:
                raise NotEvaluated(command.opcode)
            COMMANDS[command.opcode](memory, command)
    return {
        io.name: np.array(memory.view(names[index]))
        for index, io in enumerate(file.ios)
        if io.role == isa.ROLE_OUTPUT
    }


def io_tensors(program: Program) -> list[tuple[Any, Tensor]]:
    return [
        (binding, program.tensors[binding.tensor])
        for binding in program.bindings
        if binding.kind in (isa.INPUT, isa.OUTPUT)
    ]


class Memory:
    """What lies in the bindings: per byte offset the element that begins there.

    Floats are kept in one array of f64, whole numbers in one of int64; a
    program that reads bytes as another type than they were written with is not
    evaluated rightly, and the compiler makes none.
    """

    def __init__(self, program: Program, weights: bytes) -> None:
        self.program = program
        self.weights = np.frombuffer(weights, np.uint8)
        sizes = [0 if b.kind == isa.WEIGHTS else b.size or 0 for b in program.bindings]
        for tensor in program.tensors:
            if program.bindings[tensor.binding].kind != isa.WEIGHTS:
                end = tensor.offset + tensor.span
                sizes[tensor.binding] = max(sizes[tensor.binding], end)
        self.floats = [np.full(size, np.nan) for size in sizes]
        self.whole = [np.zeros(size, np.int64) for size in sizes]

    def operand(self, command: Command, name: str) -> Array:
        return self.view(self.program.tensors[command.fields[name]])

    def optional(self, command: Command, name: str) -> Any:
        number = command.fields.get(name, isa.NONE16)
        return None if number == isa.NONE16 else self.operand(command, name)

    def view(self, tensor: Tensor) -> Array:
        """Values of a tensor: a view that can be written, but of weights."""
        dtype = np.dtype(NUMPY[tensor.dtype])
        if self.program.bindings[tensor.binding].kind == isa.WEIGHTS:
            raw = self.weights[tensor.offset : tensor.offset + tensor.span]
            array = np.lib.stride_tricks.as_strided(
                raw[: dtype.itemsize].view(dtype.newbyteorder("<")),
                tensor.dims,
                tensor.byte_strides,
            )
            return array.astype(np.float64 if dtype.kind == "f" else np.int64)
        kind = self.floats if dtype.kind == "f" else self.whole
        strides = [stride * 8 for stride in tensor.byte_strides]
        start = kind[tensor.binding][tensor.offset :]
        return np.lib.stride_tricks.as_strided(start, tensor.dims, strides)


# Functions of 5.6.

FUNCTIONS: dict[int, Callable[[Array, float, float], Any]] = {
    0: lambda x, a, b: x,
    1: lambda x, a, b: np.minimum(np.maximum(x, a), b),
    2: lambda x, a, b: np.where(x >= 0, x, a * x),
    3: lambda x, a, b: sigmoid(x),
    4: lambda x, a, b: np.tanh(x),
    5: lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1),
    6: lambda x, a, b: x * np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
    18: lambda x, a, b: np.abs(x),
    19: lambda x, a, b: -x,
    21: lambda x, a, b: 1 / x,
    22: lambda x, a, b: np.sqrt(x),
    25: lambda x, a, b: np.exp(x),
    26: lambda x, a, b: np.log(x),
    27: lambda x, a, b: erf(x),
}


def divide_whole(a: int, b: int) -> int:
    """Toward zero; x / 0 = 0, and lowest / -1 wraps (IS41)."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
    return (quotient + (1 << 63)) % (1 << 64) - (1 << 63)


def divide(a: Array, b: Array) -> Any:
    if a.dtype.kind == "f":
        return a / b
    exact = np.frompyfunc(divide_whole, 2, 1)(a.astype(object), b.astype(object))
    return np.asarray(exact, object).astype(np.int64)


BINARY: dict[int, Callable[[Array, Array], Any]] = {
    1: np.add,
    2: np.subtract,
    3: np.multiply,
    4: divide,
    5: np.maximum,
    6: np.minimum,
}


def function(table: Mapping[int, Any], code: int) -> Any:
    if code not in table:
        raise NotEvaluated(f"function {code}")
    return table[code]


def finish(memory: Memory, command: Command, total: Array) -> None:
    """The post block of a sum of f32 values (5.1)."""
    f = command.fields
    bias = memory.optional(command, "bias")
    rest = memory.optional(command, "residual")
    total = total if bias is None else total + bias
    if rest is not None:
        total = total + f["residual_scale"] * rest
    act = function(FUNCTIONS, f.get("act", 0))
    total = act(total, f.get("act_a", 0.0), f.get("act_b", 0.0))
    if f.get("affine", 0):
        total = total * f["mul"] + f["add"]
    memory.operand(command, "dst")[...] = total


def taps(memory: Memory, command: Command, fill: float) -> Any:
    """Source values below each place of the kernel: (y, x, [N, OH, OW, C])."""
    f = command.fields
    src, dst = memory.operand(command, "src"), memory.operand(command, "dst")
    (_, height, width, _), (_, out_h, out_w, _) = src.shape, dst.shape
    for y in range(f["kh"]):
        for x in range(f["kw"]):
            rows = np.arange(out_h) * f["sh"] - f.get("pad_top", 0) + y * f["dh"]
            columns = np.arange(out_w) * f["sw"] - f.get("pad_left", 0) + x * f["dw"]
            picked = src[:, np.clip(rows, 0, height - 1)]
            picked = picked[:, :, np.clip(columns, 0, width - 1)]
            inside = ((rows >= 0) & (rows < height))[:, None]
            inside = inside & (columns >= 0) & (columns < width)
            yield y, x, np.where(inside[None, :, :, None], picked, fill)


def conv2d(memory: Memory, command: Command) -> None:
    weights = memory.operand(command, "wgt")
    dst = memory.operand(command, "dst")
    groups = command.fields["groups"]
    outer, inner = len(weights) // groups, weights.shape[3]
    total = np.zeros(dst.shape)
    for y, x, values in taps(memory, command, 0.0):
        for g in range(groups):
            part = values[..., g * inner : (g + 1) * inner]
            kernel = weights[g * outer : (g + 1) * outer, y, x]
            total[..., g * outer : (g + 1) * outer] += part @ kernel.T
    finish(memory, command, total)


def matmul(memory: Memory, command: Command) -> None:
    a, b = memory.operand(command, "a"), memory.operand(command, "b")
    finish(memory, command, command.fields.get("alpha", 0.0) * np.matmul(a, b))


def pool(memory: Memory, command: Command) -> None:
    if command.fields.get("kind", 0) != 0:
        raise NotEvaluated("pool other than MAX")
    dst = memory.operand(command, "dst")
    best = np.full(dst.shape, -np.inf)
    for _, _, values in taps(memory, command, -np.inf):
        best = np.maximum(best, values)
    dst[...] = best


def unary(memory: Memory, command: Command) -> None:
    f = command.fields
    fn = function(FUNCTIONS, f["fn"])
    src = memory.operand(command, "src")
    memory.operand(command, "dst")[...] = fn(src, f.get("p_a", 0.0), f.get("p_b", 0.0))


def binary(memory: Memory, command: Command) -> None:
    f = command.fields
    a, b = memory.operand(command, "a"), memory.operand(command, "b")
    value = function(BINARY, f["fn"])(a, b)
    act = function(FUNCTIONS, f.get("act", 0))
    dst = memory.operand(command, "dst")
    dst[...] = act(value, f.get("act_a", 0.0), f.get("act_b", 0.0))


def cast(memory: Memory, command: Command) -> None:
    if command.fields.get("mode", 0) != 0:
        raise NotEvaluated("cast with a scale")
    target = memory.program.tensors[command.fields["dst"]]
    kind = np.dtype(NUMPY[target.dtype])
    src = memory.operand(command, "src")
    if kind.kind == "b":
        src = src != 0
    elif kind.kind in "iu" and src.dtype.kind == "f":
        src = to_integer(src, kind).astype(np.int64)
    else:
        src = src.astype(kind)
    memory.operand(command, "dst")[...] = src


def move(memory: Memory, command: Command) -> None:
    memory.operand(command, "dst")[...] = memory.operand(command, "src")


def nothing(memory: Memory, command: Command) -> None:
    """NOP: a delay has no result."""


COMMANDS: dict[str, Callable[[Memory, Command], None]] = {
    "binary": binary,
    "cast": cast,
    "conv2d": conv2d,
    "copy": move,
    "matmul": matmul,
    "nop": nothing,
    "pool": pool,
    "unary": unary,
}
