# SPDX-License-Identifier: MIT
"""The compiler's picture of a model: nodes, constants, shapes, problems.

The same Graph serves every pass. Up to fold its nodes carry ONNX's operators;
canon turns them into the few of CANON, whose attributes are checked and whole.
Tensors keep ONNX's axis order throughout: layouts are strides, and only lower
knows them. Each node remembers the source nodes that it stands for.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Iterable

import numpy as np
import numpy.typing as npt

from . import isa_tables as isa

# Exit codes of qbcompile.
OK, INTERNAL, USAGE, INPUT, UNSUPPORTED, SHAPE, LIMIT, QUANTISE, OUTPUT, CHECK = range(
    10
)

# Operators after canon. Inputs: conv and matmul x, weights, bias, residual
# ("" = none); pool, unary, reshape, transpose, cast x; binary a, b;
# affine x, scale, shift (per channel or scalar constants in f64).
CANON = "conv matmul pool unary binary reshape transpose cast affine".split()

Array = npt.NDArray[Any]
DType = np.dtype[Any]

NUMPY: dict[int, Any] = {
    isa.F32: np.float32,
    isa.U8: np.uint8,
    isa.I8: np.int8,
    isa.F16: np.float16,
    isa.I16: np.int16,
    isa.U16: np.uint16,
    isa.I32: np.int32,
    isa.U32: np.uint32,
    isa.I64: np.int64,
    isa.U64: np.uint64,
    isa.F64: np.float64,
    isa.BOOL: np.bool_,
}
# ONNX's element types by our codes; what is missing has no place in a program.
ELEMENT_TYPES = {
    1: isa.F32,
    2: isa.U8,
    3: isa.I8,
    4: isa.U16,
    5: isa.I16,
    6: isa.I32,
    7: isa.I64,
    9: isa.BOOL,
    10: isa.F16,
    11: isa.F64,
    12: isa.U32,
    13: isa.U64,
}
FLOATS = (isa.F32, isa.F16, isa.F64)

MAX_EXTENT = 1 << 24
MAX_SPAN = 1 << 32
MAX_AXES = 32  # of NumPy 1; run-time tensors have at most 6


@dataclasses.dataclass(frozen=True)
class Problem:
    """One sentence for the user; code is the exit code it leads to."""

    code: int
    text: str
    source: int | None = None  # index of the source node

    def line(self, file: str) -> str:
        return f"{file}: error[{self.code}]: {self.text}"


class CompileError(Exception):
    """All problems that one pass found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(p.text for p in self.problems))

    @property
    def code(self) -> int:
        return min(p.code for p in self.problems)


def fail(code: int, text: str) -> CompileError:
    """A CompileError with one problem that no node is to blame for."""
    return CompileError([Problem(code, text)])


class Refused(Exception):
    """What a rule for one node raises; the pass adds the node's name."""

    def __init__(self, code: int, reason: str, attribute: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.attribute = attribute


@dataclasses.dataclass
class Node:
    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]
    sources: list[int]  # source nodes; the first gave the node its name

    @property
    def output(self) -> str:
        return self.outputs[0]

    def reads(self) -> list[str]:
        return [name for name in self.inputs if name]


@dataclasses.dataclass
class Source:
    """A node of the file, kept for messages, --explain and the report."""

    name: str
    op: str
    fate: str = ""
    refused: str = ""
    commands: list[int] = dataclasses.field(default_factory=list)
    rules: list[str] = dataclasses.field(default_factory=list)  # fusions it met


@dataclasses.dataclass
class Graph:
    name: str
    opset: int
    inputs: list[str]
    outputs: list[str]
    nodes: list[Node]
    constants: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, int]
    sources: list[Source]
    producer: str = ""
    fused: dict[str, int] = dataclasses.field(default_factory=dict)
    not_fused: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    fresh: int = 0
    io_types: dict[str, int] = dataclasses.field(default_factory=dict)
    results: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        # io_types: what the model says of inputs whose type an option changed.
        # results: the tensors behind the outputs; a pass may put another one there.
        self.results = self.results or list(self.outputs)

    def problem(self, node: Node, error: Refused) -> Problem:
        """The sentence of QE01 for what a rule refused."""
        source = self.sources[node.sources[0]]
        text = f"node '{source.name}' ({source.op}, opset {self.opset})"
        if error.attribute in node.attrs:
            text += f", attribute {error.attribute} = "
            text += show(node.attrs[error.attribute])
        source.refused = error.reason
        return Problem(error.code, f"{text}: {error.reason}", node.sources[0])

    def new_name(self, base: str) -> str:
        """A tensor name that nothing else has."""
        self.fresh += 1
        name = f"{base}#{self.fresh}"
        return name if name not in self.shapes else self.new_name(base)

    def new_tensor(self, base: str, shape: tuple[int, ...], dtype: int) -> str:
        name = self.new_name(base)
        self.shapes[name] = tuple(shape)
        self.dtypes[name] = dtype
        return name

    def new_constant(self, base: str, value: Array, dtype: int) -> str:
        """dtype is what goes into the file; value may still be f64."""
        name = self.new_tensor(base, value.shape, dtype)
        self.constants[name] = value
        return name

    def users(self) -> dict[str, list[Node]]:
        """Who reads each tensor, once per operand; outputs not counted."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.reads():
                found.setdefault(name, []).append(node)
        return found

    def makers(self) -> dict[str, Node]:
        return {name: node for node in self.nodes for name in node.outputs if name}

    def drop_dead(self) -> list[Node]:
        """Remove nodes that no output needs; returns them."""
        needed = set(self.results)
        live, dead = [], []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.reads())
                live.append(node)
            else:
                dead.append(node)
        self.nodes = live[::-1]
        self.constants = {k: v for k, v in self.constants.items() if k in needed}
        return dead


def code_of(array: Array) -> int:
    return next(code for code, kind in NUMPY.items() if array.dtype == kind)


def show(value: Any) -> str:
    """An attribute's value as the message prints it."""
    if isinstance(value, np.ndarray):
        return f"tensor {list(value.shape)}"
    text = str(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else text[:77] + "..."


def elements(shape: Iterable[int]) -> int:
    """Number of elements, exact however large."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def sort(nodes: list[Node], known: set[str]) -> tuple[list[Node], list[Node]]:
    """Nodes in an order of use, ties by source order, and those in cycles."""
    ready = set(known)
    waits: dict[str, list[Node]] = {}
    missing: dict[int, int] = {}
    order: list[Node] = []
    queue: collections.deque[Node]
    for node in nodes:
        absent = {name for name in node.reads() if name not in ready}
        missing[id(node)] = len(absent)
        for name in absent:
            waits.setdefault(name, []).append(node)
        queue = collections.deque([] if absent else [node])
        while queue:
            done = queue.popleft()
            order.append(done)
            for name in done.outputs:
                ready.add(name)
                for other in waits.pop(name, []):
                    missing[id(other)] -= 1
                    if missing[id(other)] == 0:
                        queue.append(other)
    return order, [node for node in nodes if missing[id(node)] > 0]
