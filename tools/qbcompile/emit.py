# SPDX-License-Identifier: MIT
"""Pass `emit`: planned commands to the container (QC10, QC11).

Equal views become one tensor; bindings are numbered inputs, outputs, weights,
scratch. What is emitted is read back and given to the device's own validator:
a file that either refuses is a bug of the compiler (exit 9).
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Optional

from . import container, sections
from . import isa_tables as isa
from .canon import Interface
from .graph import CHECK, LIMIT, CompileError, Graph, Problem, fail
from .lower import Lowered
from .plan import Plan
from .program import Binding, Command, DebugEntry, FormatError, Program, Tensor
from .program import find_features
from .views import IoForm, LoweredCommand, View

BATCHED, NORMALISED = 1, 2
READ_WRITE = 3
MAX_PROGRAM = 16 << 20
CAPS = {"tensors": 1 << 14, "commands": 1 << 16, "bindings": 64}
MODES = {
    "single": isa.SINGLE,
    "multi": isa.MULTI,
    "global4": isa.GLOBAL4,
    "global8": isa.GLOBAL8,
}


@dataclasses.dataclass
class Labels:
    """What goes into the file beside the program."""

    producer: str
    meta: dict[str, str]
    target: int = 0
    modes: tuple[int, ...] = (isa.SINGLE,)


def emit(
    graph: Graph, lowered: Lowered, planned: Plan, interface: Interface, labels: Labels
) -> container.File:
    program = Emitter(graph, lowered, planned).program()
    by_mode: dict[int, int] = {}
    programs: list[Program] = []
    for mode in labels.modes:
        # Multi runs the program of Single (FM20).
        core_mode = isa.SINGLE if mode == isa.MULTI else mode
        if core_mode not in by_mode:
            by_mode[core_mode] = len(programs)
            variant = copy.copy(program)
            variant.core_mode = core_mode
            programs.append(variant)
    slots = [isa.NONE32] * 5
    mask = 0
    for mode in labels.modes:
        slots[mode] = by_mode[isa.SINGLE if mode == isa.MULTI else mode]
        mask |= 1 << mode
    return container.File(
        producer=labels.producer,
        target=labels.target,
        meta=labels.meta,
        variants=[container.Variant("default", batch=lowered.batch)],
        bundles=[container.Bundle("main", mask, tuple(slots))],
        ios=[make_io(form, interface) for form in lowered.ios],
        programs=programs,
        weights=bytes(lowered.weights),
    )


def make_io(form: IoForm, interface: Interface) -> container.Io:
    image = form.role == isa.ROLE_INPUT and form.hwc and form.source_dtype == isa.F32
    # What the program computes is told where the entry has a form for it.
    count = max(len(interface.mean), len(interface.std))
    normal = image and count in (1, 3, 4)
    io = container.Io(
        form.name,
        form.role,
        form.dtype,
        form.dtype,
        form.shape,
        layout=int(form.hwc),
        flags=(BATCHED if form.batched else 0) | (NORMALISED if normal else 0),
        source_shape=form.source_shape,
        source_perm=form.perm,
        source_dtype=form.source_dtype,
    )
    if normal:
        io.norm_channels = count
        io.mean = fill(interface.mean, count, 0.0)
        io.std = fill(interface.std, count, 1.0)
    return io


def fill(numbers: tuple[float, ...], count: int, idle: float) -> tuple[float, ...]:
    """One number for all, or none, as `count` of them."""
    if len(numbers) == count:
        return numbers
    return tuple(numbers or (idle,)) * count


def plain(text: str, room: int) -> str:
    """A name that may stand in STRS (FM04), in at most room bytes."""
    text = "".join(c if c.isprintable() else "_" for c in text)
    return text.encode()[:room].decode(errors="ignore")


class Emitter:
    def __init__(self, graph: Graph, lowered: Lowered, planned: Plan) -> None:
        self.graph = graph
        self.lowered = lowered
        self.out = Program(batch=lowered.batch)
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.bindings: dict[int, int] = {}
        self.scratch = planned.scratch

    def program(self) -> Program:
        buffers = self.lowered.buffers
        used = {v.buffer for c in self.lowered.commands for _, v in c.views()}
        read = {
            v.buffer
            for c in self.lowered.commands
            for k, v in c.views()
            if k != "dst" or c.in_place
        }
        for kind in (isa.INPUT, isa.OUTPUT):
            for index, buffer in enumerate(buffers):
                if buffer.kind == kind and buffer.io != isa.NONE32:
                    self.bind_io(index, index in read)
        if 0 in used:
            self.bindings[0] = len(self.out.bindings)
            size = len(self.lowered.weights)
            self.out.bindings.append(Binding(isa.WEIGHTS, size=size))
        if self.scratch:
            number = len(self.out.bindings)
            self.out.bindings.append(Binding(isa.SCRATCH, size=self.scratch))
            scratch = (i for i, b in enumerate(buffers) if b.kind == isa.SCRATCH)
            self.bindings.update(dict.fromkeys(scratch, number))
        for command in self.lowered.commands:
            self.command(command)
        self.check_caps()
        return self.out

    def bind_io(self, index: int, is_read: bool) -> None:
        """The binding of an input or output and the tensor that is all of it."""
        buffer = self.lowered.buffers[index]
        form = self.lowered.ios[buffer.io]
        self.bindings[index] = len(self.out.bindings)
        scale = 1.0 if form.dtype in (isa.U8, isa.I8, isa.I32) else 0.0
        number = len(self.out.tensors)
        tensor = Tensor(
            plain(form.name, 200),
            form.dtype,
            form.dims,
            self.bindings[index],
            scale=scale,
        )
        key = (tensor.dtype, tensor.dims, tensor.binding, 0, tensor.byte_strides)
        self.numbers[key] = number
        self.out.tensors.append(tensor)
        binding = Binding(buffer.kind, tensor=number, io=buffer.io)
        if buffer.kind == isa.OUTPUT and is_read:
            binding.given["access"] = READ_WRITE
        self.out.bindings.append(binding)

    def tensor(self, view: View) -> int:
        """The number of a view; the name is that of its first use."""
        buffer = self.lowered.buffers[view.buffer]
        binding = self.bindings[view.buffer]
        offset = view.offset + buffer.offset
        strides = list(view.strides)
        inner = isa.DTYPE_SIZES[view.dtype]
        # An axis of one element has no say: its stride is the dense one.
        for axis in reversed(range(len(strides))):
            if view.dims[axis] == 1:
                strides[axis] = inner
            inner = strides[axis] * view.dims[axis] or inner
        key = (view.dtype, view.dims, binding, offset, tuple(strides))
        if key not in self.numbers:
            self.numbers[key] = len(self.out.tensors)
            scale = 1.0 if view.dtype in (isa.U8, isa.I8, isa.I32) else 0.0
            self.out.tensors.append(
                Tensor(
                    plain(view.name, 200),
                    view.dtype,
                    view.dims,
                    binding,
                    offset,
                    tuple(strides),
                    scale,
                )
            )
        return self.numbers[key]

    def command(self, command: LoweredCommand) -> None:
        fields = {
            k: self.tensor(v) if isinstance(v, View) else v
            for k, v in command.fields.items()
        }
        debug = 0
        if command.sources:
            self.out.debug.append(self.debug_entry(command.sources))
            debug = len(self.out.debug)
        flags = isa.CMD_IN_PLACE if command.in_place else 0
        self.out.commands.append(Command(command.opcode, fields, flags, debug))

    def debug_entry(self, sources: list[int]) -> DebugEntry:
        nodes = [self.graph.sources[s] for s in sources]
        room = 4000 // len(nodes) - 1
        names = "\n".join(plain(n.name, room) for n in nodes)
        return DebugEntry(
            names, "\n".join(plain(n.op, room) for n in nodes), len(nodes)
        )

    def check_caps(self) -> None:
        for name, cap in CAPS.items():
            count = len(getattr(self.out, name))
            if count > cap:
                raise fail(LIMIT, f"{count} {name}; a program has at most {cap}")


def needs(file: container.File) -> list[str]:
    """Warnings for what not every device of the target can run."""
    if any(find_features(program) & isa.FEATURE_HALF for program in file.programs):
        return ["W03: float16 in the program; devices without `half` refuse it"]
    return []


def verify(data: bytes) -> Optional[str]:
    """Read the file back and validate its programs (QC11).

    Returns a warning where the validator is not there; raises CompileError.
    """
    try:
        container.read(data)
        _, found = sections.read_sections(data)
    except FormatError as error:
        raise fail(CHECK, f"the reader refuses the result: {error}") from None
    try:
        from . import _isa
    except ImportError:
        return "the C validator is not built; the program was not validated"
    problems = []
    programs = [bytes(part.data) for part in found if part.kind == b"PROG"]
    for number, program in enumerate(programs):
        rule, command, operand, limit = _isa.validate_program(program)
        if rule:
            text = f"program {number}: rule V{rule:02}, command {command}"
            text += f", operand {operand}, limit {limit}"
            problems.append(Problem(CHECK, text))
    if problems:
        raise CompileError(problems)
    return None
