# SPDX-License-Identifier: MIT
"""Files for the tests of the container and of its text form.

copy64() is the golden vector of section 20; random_file(seed) gives files
that obey the container's rules, with programs that can be walked but need not
pass the validator.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from qbcompile import isa_tables as isa
from qbcompile.layout import Field, float_bits, float_of_bits
from qbcompile.container import Binding, Bundle, CacheLayer, Caches, Command
from qbcompile.container import DebugEntry, File, Io, Param, Program, Tensor, Variant

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/data/golden"
CORPUS = ROOT / "tests/data/corpus"
PAGE = ROOT / "docs/spec/device-and-format.md"
NONE = isa.NONE32


def copy64() -> File:
    """The file of the text in section 16."""
    program = Program(
        bindings=[
            Binding(isa.INPUT, tensor=0, io=0),
            Binding(isa.OUTPUT, tensor=1, io=1),
        ],
        tensors=[
            Tensor("x", isa.U8, (64,), 0, scale=1.0),
            Tensor("y", isa.U8, (64,), 1, scale=1.0),
        ],
        commands=[Command("copy", {"src": 0, "dst": 1})],
    )
    return File(
        producer="hand",
        meta={"model.name": "copy64"},
        variants=[Variant("default")],
        bundles=[Bundle("main", 1, (0, NONE, NONE, NONE, NONE))],
        ios=[
            Io("x", isa.ROLE_INPUT, isa.U8, isa.U8, (64,)),
            Io("y", isa.ROLE_OUTPUT, isa.U8, isa.U8, (64,)),
        ],
        programs=[program],
    )


_NAMES = ("x", "y", "/conv/W", "%", "", "a b", "#1", "\u732b", 'q"\\', "12", "x" * 300)


class _Random(random.Random):
    def name(self) -> str:
        return self.choice(_NAMES) + self.choice(("", str(self.randrange(50))))

    def any_float(self, width: int = 32) -> float:
        common = (0.0, -0.0, 1.0, 0.1, float("inf"), -float("inf"))
        if self.random() < 0.4:
            return self.choice(common)
        return float_of_bits(self.getrandbits(width), width)

    def f32(self) -> float:
        return float_of_bits(float_bits(self.any_float(), 32), 32)

    def scale(self) -> float:
        return float_of_bits(self.randrange(0x21800000, 0x47800001), 32)

    def number(self, spec: Field) -> Any:
        if spec.type in ("f32", "f64"):
            return self.any_float(64) if spec.type == "f64" else self.f32()
        bits = {"u8": 8, "u16": 16, "op": 16, "u32": 32, "u64": 64}[spec.type]
        return self.choice((0, 1, 3, (1 << bits) - 1, self.getrandbits(bits)))


def _random_command(rng: _Random, program: Program) -> Command:
    opcode = isa.OPCODES[rng.choice(sorted(isa.OPCODES))]
    command = Command(opcode.name, {})
    for key, spec in opcode.layout.fields.items():
        if spec.offset < 16 or key.startswith("reserved") or rng.random() < 0.3:
            continue
        if spec.type == "op":
            command.fields[key] = rng.randrange(len(program.tensors))
        elif spec.length:
            command.fields[key] = tuple(rng.number(spec) for _ in range(spec.length))
        else:
            command.fields[key] = rng.number(spec)
    command.flags = rng.choice((0, 0, 1))
    command.debug = rng.randrange(len(program.debug) + 1)
    if rng.random() < 0.1:
        command.given = {"reserved": rng.getrandbits(32)}
    return command


def _random_tensor(rng: _Random, bindings: int) -> Tensor:
    dims = tuple(rng.randrange(1, 9) for _ in range(rng.randrange(1, 7)))
    tensor = Tensor(rng.name(), rng.randrange(13), dims, rng.randrange(bindings))
    tensor.offset = rng.randrange(1 << 20)
    if rng.random() < 0.4:
        tensor.strides = tuple(rng.choice((0, 0, rng.randrange(99))) for _ in dims)
    tensor.scale = rng.f32()
    tensor.zero_point = rng.randrange(-128, 256)
    if rng.random() < 0.3:
        tensor.quant_axis, tensor.quant = rng.randrange(6), rng.randrange(99)
    if rng.random() < 0.3:
        tensor.extent_params = tuple(rng.randrange(16) for _ in dims)
        tensor.offset_axis, tensor.offset_params = rng.randrange(len(dims)), 2
        tensor.window = rng.randrange(1, 99)
    if rng.random() < 0.1:
        tensor.given = {"span": rng.getrandbits(40), "flags": 5}
    return tensor


def _random_program(rng: _Random, file: File, variant: int) -> Program:
    program = Program(batch=file.variants[variant].batch)
    program.params = [Param(8, 64, 8, 1), Param(0, 128, 64, 2)][: rng.randrange(3)]
    for index, io in enumerate(file.ios):
        if io.variant != variant or io.role == isa.ROLE_STATE:
            continue
        kind = isa.INPUT if io.role == isa.ROLE_INPUT else isa.OUTPUT
        shape = (program.batch, *io.shape) if io.flags & 1 else io.shape
        number = len(program.tensors)
        program.bindings.append(Binding(kind, number, io=index))
        program.tensors.append(Tensor(io.name, io.device_dtype, shape, number))
        plain = not (io.flags & 1 or io.layout or io.scale_count)
        if program.params and plain and rng.random() < 0.5:
            io.shape = (-program.params[0].multiple, *io.shape)
            io.dyn_axis, io.dyn_param = 0, 0
            tensor = program.tensors[-1]
            tensor.dims = (64, *shape)
            tensor.extent_params = (1,) + (0,) * len(shape)
    program.bindings.append(Binding(isa.SCRATCH, size=64 * rng.randrange(1, 9)))
    if file.state_size:
        program.bindings.append(Binding(isa.STATE, size=file.state_size))
    if file.weights:
        program.bindings.append(Binding(isa.WEIGHTS, size=len(file.weights)))
    count = len(program.bindings)
    program.tensors += [_random_tensor(rng, count) for _ in range(rng.randrange(1, 9))]
    program.pool = [rng.f32() for _ in range(rng.randrange(20))]
    for _ in range(rng.randrange(3)):
        nodes = f"Conv_{rng.randrange(9)}\nRelu\u00e9"
        program.debug.append(DebugEntry(nodes, "Conv\nRelu", 2))
    for _ in range(rng.randrange(1, 30)):
        program.commands.append(_random_command(rng, program))
    if rng.random() < 0.2:
        program.given = {"mac_count": rng.getrandbits(40)}
    if rng.random() < 0.1:
        program.list_given = {"core": 3}
    return program


def _random_ios(rng: _Random, file: File, variant: int, roles: list[int]) -> None:
    for role in roles:
        io = Io(rng.name(), role, rng.randrange(13), rng.randrange(13), ())
        rank = rng.randrange(1, 6)
        io.shape = tuple(rng.randrange(1, 9) for _ in range(rank))
        io.variant = variant
        io.flags = rng.choice((0, 1))
        if rank == 3 and rng.random() < 0.5:
            io.layout = 1
            io.source_shape = (1, io.shape[2], *io.shape[:2])
            io.source_perm = (0, 2, 3, 1) if io.flags & 1 else (2, 3, 1)
        if rng.random() < 0.3:
            io.buffer_info = tuple(rng.randrange(99) for _ in range(13))
            io.source_dtype = isa.F32
            io.mean, io.std = (-0.0, 0.5, 1e-45, 0.0), (1.0, 0.25, 2.0, rng.f32())
            io.norm_channels, io.flags = 3, io.flags | 2
        if rng.random() < 0.3:
            io.scale_axis, io.scale = rank - 1, 0.0
            io.scale_first, io.scale_count = len(file.scales), io.shape[-1]
            file.scales += [rng.scale() for _ in range(io.scale_count)]
        elif rng.random() < 0.3:
            io.scale, io.zero_point = rng.scale(), 7 * (io.device_dtype == isa.U8)
        file.ios.append(io)


def random_file(seed: int) -> File:
    """A file that container.read() accepts, the same for the same seed."""
    rng = _Random(seed)
    file = File(producer=f"random {seed}", target=rng.randrange(6))
    file.meta = {rng.name(): f"line\n{rng.name()}" for _ in range(rng.randrange(6))}
    file.weights = rng.randbytes(rng.choice((0, 64, 5000)))
    num_states = rng.choice((0, 0, 2))
    file.state_size = 4096 * num_states
    num_outputs = rng.randrange(1, 4)
    mask = rng.choice((1, 2, 3, 9, 27))
    batch = 1 if num_states else rng.choice((1, 1, 2))
    for index in range(rng.randrange(1, 4)):
        variant = Variant(f"{rng.name()} {index}", batch=batch)
        variant.activation_slots = 1 if num_states else rng.randrange(3)
        file.variants.append(variant)
        roles = [isa.ROLE_INPUT] * rng.randrange(4) + [isa.ROLE_OUTPUT] * num_outputs
        _random_ios(rng, file, index, roles)
        for state in range(num_states):
            io = Io(f"state{state}", isa.ROLE_STATE, isa.F32, isa.F32, (2, 64, 8))
            io.variant, io.state_offset, io.cache = index, 4096 * state, state
            file.ios.append(io)
        program = _random_program(rng, file, index)
        numbers = [NONE] * 5
        for mode, core_mode in ((0, 0), (1, 0), (3, 3), (4, 4)):
            if mask >> mode & 1:
                numbers[mode] = len(file.programs)
                copy = Program(**{**vars(program), "core_mode": core_mode})
                file.programs.append(copy)
        file.bundles.append(Bundle(rng.name(), mask, tuple(numbers)))
    if num_states:
        states = [i for i, io in enumerate(file.ios) if io.role == isa.ROLE_STATE]
        file.caches = Caches([], rng.randrange(1, 5), rng.randrange(2))
        for layer in range(num_states):
            file.caches.layers.append(
                CacheLayer(
                    f"state{layer}",
                    dtype=isa.F32,
                    offset=4096 * layer,
                    max_tokens=64,
                    outer_count=2,
                    outer_stride=2048,
                    token_stride=32,
                    token_size=32,
                    state=states[layer],
                )
            )
        for variant in file.variants:
            variant.max_cache = 64
    return file
