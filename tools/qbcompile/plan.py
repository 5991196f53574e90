# SPDX-License-Identifier: MIT
"""Pass `plan`: which buffers share memory, and where they lie (14.6).

First aliases: a command that may write onto a source which dies with it does
(IN_PLACE, and the residual of QC24). Then one arena, greedy by size over
lifetimes, ties by buffer number, so that equal programs get equal plans. Only
SCRATCH is planned; weights, inputs and outputs never lie in it (QC52).
"""

from __future__ import annotations

import dataclasses
from typing import Callable

from . import isa_tables as isa
from .graph import LIMIT, fail
from .lower import Lowered
from .views import LoweredCommand, View

ALIGN = 64
MAX_BINDING = 1 << 34
MAX_PAIRS = 1 << 22  # buffers alive together; a model near it is hostile

# Sources that a destination may be (IS51).
IN_PLACE = {"unary": ("src",), "binary": ("a", "b"), "cast": ("src",)}
IN_PLACE["conv2d"] = IN_PLACE["matmul"] = ("residual",)


@dataclasses.dataclass
class Plan:
    scratch: int  # bytes of the arena
    lower_bound: int  # largest set of buffers alive at one command
    in_place: int  # commands that write onto a source


def plan(lowered: Lowered, aliases: bool = True) -> Plan:
    """Sets the offset of every SCRATCH buffer; aliases False: no IN_PLACE."""
    count = alias(lowered) if aliases else 0
    lives = lifetimes(lowered)
    scratch = [b for b in lives if lowered.buffers[b].kind == isa.SCRATCH]
    sizes = {b: -(-lowered.buffers[b].size // ALIGN) * ALIGN for b in scratch}
    meets = overlaps({b: lives[b] for b in scratch})
    placed: dict[int, int] = {}
    for buffer in sorted(scratch, key=lambda b: (-sizes[b], b)):
        offset = 0
        taken = sorted((placed[b], sizes[b]) for b in meets[buffer] if b in placed)
        for begin, size in taken:
            if offset + sizes[buffer] <= begin:
                break
            offset = max(offset, begin + size)
        placed[buffer] = offset
        lowered.buffers[buffer].offset = offset
    total = max((placed[b] + sizes[b] for b in scratch), default=0)
    if max(total, len(lowered.weights)) > MAX_BINDING:
        raise fail(LIMIT, "scratch memory or weights above 16 GiB")
    return Plan(total, lower_bound(lives, sizes), count)


def lifetimes(lowered: Lowered) -> dict[int, tuple[int, int]]:
    """First and last command that touches each buffer."""
    lives: dict[int, tuple[int, int]] = {}
    for number, command in enumerate(lowered.commands):
        for _, view in command.views():
            first, _ = lives.get(view.buffer, (number, number))
            lives[view.buffer] = (first, number)
    return lives


def overlaps(lives: dict[int, tuple[int, int]]) -> dict[int, list[int]]:
    """For each buffer those that are alive at the same command as it."""
    meets: dict[int, list[int]] = {b: [] for b in lives}
    alive: list[int] = []
    pairs = 0
    for buffer in sorted(lives, key=lambda b: (lives[b], b)):
        alive = [b for b in alive if lives[b][1] >= lives[buffer][0]]
        pairs += len(alive)
        if pairs > MAX_PAIRS:
            raise fail(LIMIT, "too many tensors are needed at the same time")
        for other in alive:
            meets[other].append(buffer)
            meets[buffer].append(other)
        alive.append(buffer)
    return meets


def lower_bound(lives: dict[int, tuple[int, int]], sizes: dict[int, int]) -> int:
    changes: dict[int, int] = {}
    for buffer, size in sizes.items():
        first, last = lives[buffer]
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    level = best = 0
    for number in sorted(changes):
        level += changes[number]
        best = max(best, level)
    return best


def alias(lowered: Lowered) -> int:
    """Let destinations take the place of sources that die; returns how many."""
    lives = lifetimes(lowered)
    home = list(range(len(lowered.buffers)))

    def find(buffer: int) -> int:
        while home[buffer] != buffer:
            buffer = home[buffer]
        return buffer

    count = 0
    for number, command in enumerate(lowered.commands):
        source = dying_source(lowered, lives, command, number, find)
        if source is None:
            continue
        old, new = find(source.buffer), find(command.fields["dst"].buffer)
        # An OUTPUT stays one; else the older buffer stays.
        kept, gone = (
            (new, old) if lowered.buffers[new].kind == isa.OUTPUT else (old, new)
        )
        home[gone] = kept
        lives[kept] = (lives[old][0], lives[new][1])
        command.in_place = True
        count += 1
    for command in lowered.commands:
        for key, view in command.views():
            if find(view.buffer) != view.buffer:
                moved = dataclasses.replace(view, buffer=find(view.buffer))
                command.fields[key] = moved
    return count


def dying_source(
    lowered: Lowered,
    lives: dict[int, tuple[int, int]],
    command: LoweredCommand,
    number: int,
    find: Callable[[int], int],
) -> View | None:
    """The operand that the destination may overwrite, if there is one."""
    if command.in_place or command.opcode not in IN_PLACE:
        return None
    dst = command.fields["dst"]
    new = find(dst.buffer)
    if lives[new][0] != number:
        return None
    for key in IN_PLACE[command.opcode]:
        src: View | None = command.fields.get(key)
        if src is None or not src.same_bytes(dst):
            continue
        old = find(src.buffer)
        others = [v for k, v in command.views() if k not in (key, "dst")]
        if (
            lowered.buffers[old].kind == isa.SCRATCH
            and lowered.buffers[old].size == lowered.buffers[new].size
            and lives[old][1] == number
            and all(find(v.buffer) != old for v in others)
        ):
            return src
    return None
