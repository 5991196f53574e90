# SPDX-License-Identifier: MIT
"""A device program (sections 4 and 5): dataclasses, bytes, counts.

Numbers that follow from others (spans, sizes, offsets, counts, features) are
never set by hand: encode_program computes them. `given` of each structure
holds fields that shall stand in the bytes whatever the computation says, so
that a damaged program can be written, and is filled by decode_program with
exactly the fields that deviate: encode(decode(x)) == x.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Callable, Iterator, Optional, Sequence

from . import isa_tables as isa

Given = dict[str, Any]
Names = Callable[[str], int]


class FormatError(ValueError):
    """The bytes are not what the format page says.

    section: name of the section, "header", "table" or "program".
    offset: byte offset in the file, or in the program for "program".
    sentence: what is wrong, for people.
    """

    def __init__(self, section: str, offset: int, sentence: str) -> None:
        super().__init__(f"{section} at offset {offset}: {sentence}")
        self.section = section
        self.offset = offset
        self.sentence = sentence


@dataclass
class Binding:
    """A hole for memory, filled at submit.

    kind: isa_tables.WEIGHTS .. OUTPUT. tensor and io: for INPUT and OUTPUT,
    the tensor that is the whole binding, and the IOTB index. alias: for an
    OUTPUT, the INPUT binding that may be the same memory. size None: what the
    tensors in it need (rounded up to 64 for SCRATCH and STATE). access: bit 0
    reads, bit 1 writes, None: what the kind has; an OUTPUT may have 3.
    """

    kind: int
    tensor: int = isa.NONE16
    alias: int = isa.NONE16
    io: int = isa.NONE32
    size: Optional[int] = None
    align_log2: int = 6
    access: Optional[int] = None
    given: Given = field(default_factory=dict)


@dataclass
class Tensor:
    """A view: operands of commands are indices of these.

    strides in bytes, None: dense row-major. extent_params: one mask per axis,
    () for none. window: with offset_params, what span covers of offset_axis.
    """

    name: str
    dtype: int
    dims: tuple[int, ...]
    binding: int
    offset: int = 0
    strides: Optional[tuple[int, ...]] = None
    scale: float = 0.0
    zero_point: int = 0
    quant_axis: int = isa.NONE8
    quant: int = isa.NONE32
    extent_params: tuple[int, ...] = ()
    offset_axis: int = isa.NONE8
    offset_params: int = 0
    window: int = 0
    given: Given = field(default_factory=dict)

    @property
    def element_size(self) -> int:
        """Bytes of one element; 1 for an unknown type."""
        known = self.dtype < len(isa.DTYPE_SIZES)
        return isa.DTYPE_SIZES[self.dtype] if known else 1

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """strides, computed if None."""
        if self.strides is not None:
            return self.strides
        return dense_strides(self.dims, self.element_size)

    @property
    def span(self) -> int:
        """Bytes from the first to one past the last element it can touch."""
        dims = list(self.dims)
        if self.offset_params and self.offset_axis < len(dims):
            dims[self.offset_axis] = self.window
        steps = zip(dims, self.byte_strides)
        return sum((n - 1) * stride for n, stride in steps) + self.element_size


@dataclass
class Param:
    """A number given at submit; kind 1 tokens, 2 cache length, 3 other axis."""

    min: int
    max: int
    multiple: int = 1
    kind: int = 1
    given: Given = field(default_factory=dict)


@dataclass
class Command:
    """One command.

    opcode: lower-case name, a key of isa_tables.OPCODES. fields: values by the
    field names of section 5.2, operands as tensor indices; the post block's
    fields stand beside the others, its flags are called affine. What is left
    out is 0, an operand NONE. flags: bit 0 IN_PLACE. debug: index into
    Program.debug plus one, or 0.
    """

    opcode: str
    fields: dict[str, Any]
    flags: int = 0
    debug: int = 0
    given: Given = field(default_factory=dict)


@dataclass
class DebugEntry:
    """The ONNX nodes that a command came from; lists are joined by "\\n"."""

    nodes: str
    op_types: str
    fused: int
    given: Given = field(default_factory=dict)


@dataclass
class Program:
    """Everything of one PROG section, and its DBGI section (debug)."""

    bindings: list[Binding] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    params: list[Param] = field(default_factory=list)
    pool: list[float] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    core_mode: int = 0
    batch: int = 1
    flags: int = 0
    debug: list[DebugEntry] = field(default_factory=list)
    given: Given = field(default_factory=dict)
    list_given: Given = field(default_factory=dict)

    @property
    def mac_count(self) -> int:
        """Multiply-accumulates (IS10), or the given number."""
        given: int = self.given.get("mac_count", count_macs(self))
        return given

    @property
    def isa_features(self) -> int:
        """Feature word (4.2), or the given number."""
        given: int = self.given.get("isa_features", find_features(self))
        return given


def dense_strides(dims: Sequence[int], element_size: int) -> tuple[int, ...]:
    """Byte strides of a dense row-major tensor."""
    strides = []
    for extent in reversed(dims):
        strides.append(element_size)
        element_size *= extent
    return tuple(reversed(strides))


def align_up(value: int, alignment: int) -> int:
    """The first multiple of alignment at or after value."""
    return -(-value // alignment) * alignment


def operands_of(
    program: Program, command: Command, names: Optional[Sequence[str]] = None
) -> Iterator[Tensor]:
    """The tensors that a command names, in field order; bad numbers skipped."""
    for name in names or isa.OPCODES[command.opcode].operands:
        number = command.fields.get(name, isa.NONE16)
        if number < len(program.tensors):
            yield program.tensors[number]


def command_macs(program: Program, command: Command) -> int:
    """Multiply-accumulates of one command at the largest extents (IS10)."""
    names = {
        "conv2d": ("wgt", "dst"),
        "deconv2d": ("wgt", "src"),
        "matmul": ("a", "dst"),
        "lstm_cell": ("x", "h"),
    }.get(command.opcode)
    if names is None:
        return 0
    operands = list(operands_of(program, command, names))
    if len(operands) != 2 or not operands[0].dims or not operands[1].dims:
        return 0
    first, second = operands[0].dims, operands[1].dims
    if command.opcode == "matmul":
        return prod(second) * first[-1]
    if command.opcode == "lstm_cell":
        return first[0] * 4 * second[-1] * (first[-1] + second[-1])
    window: int = command.fields.get("kh", 0) * command.fields.get("kw", 0)
    if command.opcode == "conv2d":
        return prod(second) * window * first[-1]
    return prod(second[:3]) * first[0] * window * first[-1]


def command_bytes(program: Program, command: Command) -> int:
    """Elements times element size over all operands, at the largest extents."""
    return sum(
        prod(tensor.dims) * tensor.element_size
        for tensor in operands_of(program, command)
    )


def count_macs(program: Program) -> int:
    """Sum of command_macs."""
    return sum(command_macs(program, command) for command in program.commands)


def count_bytes(program: Program) -> int:
    """Sum of command_bytes."""
    return sum(command_bytes(program, command) for command in program.commands)


_INT8_OPCODES = ("conv2d", "deconv2d", "matmul", "pool", "binary", "reduce")


def _command_features(program: Program, command: Command) -> int:
    opcode = command.opcode
    if opcode in ("quant", "lut8"):
        return isa.FEATURE_INT8
    if opcode in _INT8_OPCODES:
        source = isa.OPCODES[opcode].sources[0]
        for tensor in operands_of(program, command, (source,)):
            return isa.FEATURE_INT8 if tensor.dtype in (isa.U8, isa.I8) else 0
    if opcode in ("timestamp", "crc"):
        return isa.FEATURE_DIAG
    if opcode == "nop" and command.fields.get("delay_ns", 0):
        return isa.FEATURE_DIAG
    return {"lstm_cell": isa.FEATURE_LSTM, "gather": isa.FEATURE_GATHER}.get(opcode, 0)


def find_features(program: Program) -> int:
    """Feature word that the program uses (4.2)."""
    features = 0
    for command in program.commands:
        features |= _command_features(program, command)
    if any(tensor.dtype in (isa.F16, isa.BF16) for tensor in program.tensors):
        features |= isa.FEATURE_HALF
    if any(binding.kind == isa.STATE for binding in program.bindings):
        features |= isa.FEATURE_STATE
    return features | (isa.FEATURE_DYNAMIC if program.params else 0)


def binding_size(program: Program, index: int) -> int:
    """Bytes that must be there: the binding's size, or what its views need."""
    binding = program.bindings[index]
    if binding.size is not None:
        return binding.size
    views = (t for t in program.tensors if t.binding == index)
    end = max((t.offset + t.given.get("span", t.span) for t in views), default=0)
    scratch = binding.kind in (isa.SCRATCH, isa.STATE)
    return align_up(end, 64) if scratch else end
