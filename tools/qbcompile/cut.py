# SPDX-License-Identifier: MIT
"""A file whose program ends early and shows inner tensors (QM07).

The program of the first variant stays, up to a command. What an output does
not get in full any more becomes scratch memory, and the output goes. A tensor
that is asked for is copied to an output of its own right behind its last
write: memory of scratch may hold another tensor by the end. Those outputs come
last, in the order asked for. Imports nothing but Python.
"""

from __future__ import annotations

import copy
from typing import Iterator, Optional, Sequence

from . import isa_tables as isa
from .program import Binding, Command, Program, Tensor, align_up, binding_size
from .program import operands_of
from .records import Bundle, File, Io


class Refused(ValueError):
    """The file cannot be cut there."""


def cut(file: File, last: Optional[int], names: Sequence[str]) -> File:
    """Ends after command `last` (None: the last one), with outputs for names."""
    number = file.bundles[0].program[isa.SINGLE]
    if number == isa.NONE32:
        raise Refused("the first variant has no program for core mode Single")
    program = copy.deepcopy(file.programs[number])
    total = len(program.commands)
    last = total - 1 if last is None else last
    if not 0 <= last < total:
        raise Refused(f"there is no command {last}: they are 0 to {total - 1}")
    copies = [_find(program, name, last) for name in names]
    program.commands = program.commands[: last + 1]
    stamps = any(command.opcode == "timestamp" for command in program.commands)
    program.flags = isa.PROGRAM_TIMESTAMPS if stamps else 0
    old = {i: copy.deepcopy(io) for i, io in enumerate(file.ios) if io.variant == 0}
    _drop_outputs(program)
    ios = _add_outputs(program, old, copies)
    for binding in program.bindings:
        if binding.kind == isa.SCRATCH:
            binding.size = None
    return _make_file(file, program, ios)


def _writes(program: Program) -> Iterator[tuple[int, int, Tensor]]:
    """Command, tensor number and tensor of each write."""
    for index, command in enumerate(program.commands):
        for field in isa.OPCODES[command.opcode].destinations:
            number = command.fields.get(field, isa.NONE16)
            if number < len(program.tensors):
                yield index, number, program.tensors[number]


def _interval(tensor: Tensor) -> tuple[int, int, int]:
    return tensor.binding, tensor.offset, tensor.offset + tensor.span


def _find(program: Program, name: str, last: int) -> tuple[int, int]:
    """Number of the tensor, and the command up to last behind which it is whole."""
    numbers = [i for i, tensor in enumerate(program.tensors) if tensor.name == name]
    if not name or not numbers:
        raise Refused(f"there is no tensor '{name}'")
    number, tensor = numbers[0], program.tensors[numbers[0]]
    if tensor.extent_params or tensor.offset_params:
        raise Refused(f"the extents of tensor '{name}' vary")
    writes = list(_writes(program))
    own = [index for index, n, _ in writes if n == number]
    whole = [index for index in own if index <= last]
    if not own:
        # a view of what others write, before it is read for the first time
        end = next(
            (
                index
                for index, command in enumerate(program.commands)
                if any(t is tensor for t in operands_of(program, command))
            ),
            len(program.commands),
        )
        where, first, behind = _interval(tensor)
        whole = [
            index
            for index, _, part in writes
            if index < end
            and part.binding == where
            and part.offset < behind
            and first < part.offset + part.span
        ]
    if not whole or whole[-1] > last:
        raise Refused(f"no command up to {last} writes tensor '{name}'")
    return number, whole[-1]


def _is_whole(program: Program, binding: int) -> bool:
    """Whether writes cover it (V47)."""
    covered = 0
    spans = sorted(
        _interval(t)[1:] for _, _, t in _writes(program) if t.binding == binding
    )
    for first, behind in spans:
        if first > covered:
            return False
        covered = max(covered, behind)
    return covered >= binding_size(program, binding)


def _drop_outputs(program: Program) -> None:
    """Outputs that are not written in full are memory of the device's own."""
    kinds = [binding.kind for binding in program.bindings]
    gone = [
        index
        for index, kind in enumerate(kinds)
        if kind == isa.OUTPUT and not _is_whole(program, index)
    ]
    if not gone:
        return
    if isa.SCRATCH not in kinds:
        kinds.append(isa.SCRATCH)
        program.bindings.append(Binding(isa.SCRATCH))
    scratch = kinds.index(isa.SCRATCH)
    start = align_up(binding_size(program, scratch), 64)
    program.bindings[scratch].size = None
    for index in gone:
        size = binding_size(program, index)
        for tensor in program.tensors:
            if tensor.binding == index:
                tensor.binding, tensor.offset = scratch, tensor.offset + start
        start = align_up(start + size, 64)
    kept = [i for i in range(len(kinds)) if i not in gone]
    for tensor in program.tensors:
        tensor.binding = kept.index(tensor.binding)
    for binding in program.bindings:
        if binding.alias in kept:
            binding.alias = kept.index(binding.alias)
    program.bindings = [program.bindings[i] for i in kept]


def _add_outputs(
    program: Program, ios: dict[int, Io], copies: list[tuple[int, int]]
) -> list[Io]:
    """The new table, the outputs for copies last; bindings follow it."""
    inputs = [io for io in ios.values() if io.role == isa.ROLE_INPUT]
    outputs = []
    for binding in program.bindings:
        if binding.kind == isa.INPUT:
            binding.io = next(n for n, io in enumerate(inputs) if io is ios[binding.io])
        elif binding.kind == isa.OUTPUT:
            outputs.append(ios[binding.io])
            binding.io = len(inputs) + len(outputs) - 1
    commands = []
    for number, behind in copies:
        source = program.tensors[number]
        if program.bindings[source.binding].kind == isa.OUTPUT:
            program.bindings[source.binding].access = 3
        target = Tensor(source.name, source.dtype, source.dims, len(program.bindings))
        target.scale, target.zero_point = source.scale, source.zero_point
        fields = {"src": number, "dst": len(program.tensors)}
        commands.append((behind, Command("copy", fields)))
        io = Io(source.name, isa.ROLE_OUTPUT, source.dtype, source.dtype, source.dims)
        while io.name in {other.name for other in inputs + outputs}:
            io.name += "'"
        outputs.append(io)
        where = len(inputs) + len(outputs) - 1
        program.bindings.append(
            Binding(isa.OUTPUT, tensor=len(program.tensors), io=where)
        )
        program.tensors.append(target)
    # from the last on, so that commands keep their numbers until their turn
    for behind, command in sorted(commands, key=lambda pair: -pair[0]):
        program.commands.insert(behind + 1, command)
    states = [io for io in ios.values() if io.role == isa.ROLE_STATE]
    return inputs + outputs + states


def _make_file(file: File, program: Program, ios: list[Io]) -> File:
    if not any(io.role == isa.ROLE_OUTPUT for io in ios):
        raise Refused("no output is left: name a tensor to look at")
    variant = copy.copy(file.variants[0])
    variant.inputs = variant.outputs = variant.states = variant.mode_mask = None
    program.core_mode = isa.SINGLE
    result = copy.copy(file)
    if file.caches is not None:
        result.caches = copy.deepcopy(file.caches)
        states = [i for i, io in enumerate(ios) if io.role == isa.ROLE_STATE]
        before = [i for i, io in enumerate(file.ios) if io.role == isa.ROLE_STATE]
        for layer in result.caches.layers:
            layer.state = states[before.index(layer.state)]
    name = file.bundles[0].name
    result.bundles = [Bundle(name, 1, (0, *[isa.NONE32] * 4))]
    result.variants, result.ios, result.programs = [variant], ios, [program]
    return result
