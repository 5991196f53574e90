# SPDX-License-Identifier: MIT
"""Rules of section 3 that span several structures of a read File.

check() raises FormatError for the first that is broken. What follows from
other numbers was computed by the reader already: a deviation is in `given`.
"""

from __future__ import annotations

from math import inf, prod
from typing import Iterator, Mapping, Sequence

from . import isa_tables as isa
from .program import FormatError, Given, Program, binding_size
from .records import File, Io, Variant, largest_shape

MAX_EXTENT = 1 << 24  # of an axis, a parameter and a count of tokens
_MODES = {isa.SINGLE: 0, isa.MULTI: 0, isa.GLOBAL4: 3, isa.GLOBAL8: 4}
_ROLES = {isa.INPUT: isa.ROLE_INPUT, isa.OUTPUT: isa.ROLE_OUTPUT}


class Broken(Exception):
    """A rule is broken in this section."""

    def __init__(self, section: str, sentence: str) -> None:
        super().__init__(sentence)
        self.section = section


def check(file: File, offsets: Mapping[str, int]) -> None:
    """Raises FormatError when a rule is broken; offsets: of the sections."""
    try:
        _check_given(file)
        _check_variants(file)
        _check_ranges(file)
        for index in range(len(file.bundles)):
            _check_bundle(file, index)
        for index in range(len(file.ios)):
            _check_io(file, index)
        _check_states(file)
        _check_caches(file)
        for number in range(len(file.programs)):
            _check_program(file, number)
    except Broken as error:
        offset = offsets.get(error.section, 0)
        raise FormatError(error.section, offset, str(error)) from None


def _structures(file: File) -> Iterator[tuple[str, str, Given]]:
    yield "header", "the header", file.given
    yield "IOTB", "the header", file.iotb_given
    for i, variant in enumerate(file.variants):
        yield "VARI", f"variant {i}", variant.given
    for i, bundle in enumerate(file.bundles):
        yield "VARI", f"bundle {i}", bundle.given
    for i, io in enumerate(file.ios):
        yield "IOTB", f"entry {i}", io.given
    if file.caches:
        yield "CACH", "the header", file.caches.given
        for i, layer in enumerate(file.caches.layers):
            yield "CACH", f"layer {i}", layer.given


def _check_given(file: File) -> None:
    for section, what, given in _structures(file):
        for key, value in given.items():
            if key == "format_minor":  # a later one that this reader may read
                continue
            raise Broken(section, f"{what}: {key} = {value} is not what it must be")


def _need(condition: bool, section: str, sentence: str) -> None:
    if not condition:
        raise Broken(section, sentence)


def _unique(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _check_variants(file: File) -> None:
    _need(_unique([v.name for v in file.variants]), "VARI", "two variants of one name")
    for i, variant in enumerate(file.variants):
        _need(variant.batch >= 1, "VARI", f"variant {i}: batch is 0")
        _need(variant.flags <= 1, "VARI", f"variant {i}: unknown flags")
        _need(variant.bundles == (i, 1), "VARI", f"variant {i}: not its own bundle")
        mask = file.bundles[i].mode_mask
        _need(variant.mode_mask == mask, "VARI", f"variant {i}: not its bundle's modes")
        first = file.bundles[0].mode_mask
        _need(mask == first, "VARI", f"variant {i}: other core modes than variant 0")
        assert variant.states is not None
        slots = variant.activation_slots
        _need(
            slots == 1 or not variant.states[1],
            "VARI",
            f"variant {i} has state and {slots} activation slots",
        )


def _ranges(variant: Variant) -> list[tuple[int, int, int]]:
    assert variant.inputs and variant.outputs and variant.states
    return [
        (isa.ROLE_INPUT, *variant.inputs),
        (isa.ROLE_OUTPUT, *variant.outputs),
        (isa.ROLE_STATE, *variant.states),
    ]


def _check_ranges(file: File) -> None:
    owned = 0
    for i, variant in enumerate(file.variants):
        for role, first, count in _ranges(variant):
            what = f"variant {i}, {isa.ROLE_NAMES[role]}s"
            _need(
                bool(count) or first == 0, "VARI", f"{what}: none, but first is {first}"
            )
            most = len(file.ios) if role == isa.ROLE_STATE else 64
            _need(count <= most, "VARI", f"{what}: {count} are too many")
            _need(count > 0 or role != isa.ROLE_OUTPUT, "VARI", f"{what}: none")
            _need(first + count <= len(file.ios), "VARI", f"{what}: beyond the table")
            for io in file.ios[first : first + count]:
                _need(
                    (io.variant, io.role) == (i, role),
                    "VARI",
                    f"{what}: entry {io.name!r} is another's",
                )
            owned += count
    _need(owned == len(file.ios), "VARI", "an entry of IOTB belongs to no variant")
    outputs = file.variants[0].outputs
    for i, variant in enumerate(file.variants):
        assert outputs and variant.outputs
        _need(
            variant.outputs[1] == outputs[1],
            "VARI",
            f"variant {i}: another number of outputs than variant 0",
        )


def _check_bundle(file: File, index: int) -> None:
    bundle, what = file.bundles[index], f"bundle {index}"
    mask = bundle.mode_mask
    allowed = sum(1 << mode for mode in _MODES)
    _need(0 < mask == mask & allowed, "VARI", f"{what}: core modes {mask:#x}")
    for mode, number in enumerate(bundle.program):
        if not mask >> mode & 1:
            _need(number == isa.NONE32, "VARI", f"{what}: a program for mode {mode}")
            continue
        _need(number < len(file.programs), "VARI", f"{what}: no program {number}")
        program = file.programs[number]
        _need(
            program.core_mode == _MODES[mode],
            "VARI",
            f"{what}: program {number} is not for core mode {mode}",
        )
        _need(
            program.batch == file.variants[index].batch,
            "VARI",
            f"{what}: the batch of program {number} is {program.batch}",
        )
        _check_params(file.variants[index], program, f"variant {index}")
        first = file.programs[min(bundle.program)]
        _need(
            program.mac_count == first.mac_count,
            "VARI",
            f"{what}: its programs differ in mac_count",
        )
        _check_bindings(file, index, number)


def _check_params(variant: Variant, program: Program, what: str) -> None:
    if variant.seq_param != isa.NONE32:
        params = program.params[variant.seq_param :][:1]
        fits = [(p.kind, p.max) for p in params] == [(1, variant.max_tokens)]
        _need(fits, "VARI", f"{what}: seq_param {variant.seq_param}")
    if variant.past_param != isa.NONE32:
        params = program.params[variant.past_param :][:1]
        fits = any(p.kind == 2 and p.max <= variant.max_cache for p in params)
        _need(fits, "VARI", f"{what}: past_param {variant.past_param}")


def _check_bindings(file: File, variant: int, number: int) -> None:
    program = file.programs[number]
    section, bound = f"PROG {number}", set()
    for i, binding in enumerate(program.bindings):
        if binding.kind not in _ROLES:
            continue
        what = f"binding {i}"
        _need(
            binding.io < len(file.ios), section, f"{what}: no IOTB entry {binding.io}"
        )
        io = file.ios[binding.io]
        own = (io.variant, io.role) == (variant, _ROLES[binding.kind])
        _need(own, section, f"{what}: IOTB entry {binding.io} is another's")
        _need(binding.io not in bound, section, f"{what}: IOTB entry bound twice")
        bound.add(binding.io)
        _need(binding.tensor < len(program.tensors), section, f"{what}: no tensor")
        _check_view(file, program, binding.tensor, io, f"{section}, {what}")
    for role, first, count in _ranges(file.variants[variant])[:2]:
        for index in range(first, first + count):
            _need(
                index in bound,
                section,
                f"no binding for {isa.ROLE_NAMES[role]} {file.ios[index].name!r}",
            )


def _check_view(file: File, program: Program, number: int, io: Io, what: str) -> None:
    tensor = program.tensors[number]
    _need(tensor.dtype == io.device_dtype, "IOTB", f"{what}: the types differ")
    shape = list(io.shape)
    masks = [0] * len(shape)
    if io.dyn_axis != isa.NONE8:
        known = io.dyn_param < len(program.params) and io.dyn_axis < len(shape)
        _need(known, "IOTB", f"{what}: no parameter {io.dyn_param}, or no such axis")
        param = program.params[io.dyn_param]
        fits = io.shape[io.dyn_axis] == -param.multiple
        _need(fits, "IOTB", f"{what}: its multiple is not parameter {io.dyn_param}'s")
        shape[io.dyn_axis] = param.max
        masks[io.dyn_axis] = 1 << io.dyn_param
    if io.flags & 1:
        shape.insert(0, file.variants[io.variant].batch)
        masks.insert(0, 0)
    _need(tensor.dims == tuple(shape), "IOTB", f"{what}: the extents differ")
    found = tensor.extent_params or (0,) * len(shape)
    _need(found == tuple(masks), "IOTB", f"{what}: the variable axes differ")


def _check_dynamic(io: Io, what: str) -> None:
    variable = [axis for axis, extent in enumerate(io.shape) if extent < 0]
    expected = [] if io.dyn_axis == isa.NONE8 else [io.dyn_axis]
    _need(variable == expected, "IOTB", f"{what}: its variable axes")
    _need(
        (io.dyn_axis == isa.NONE8) == (io.dyn_param == isa.NONE8),
        "IOTB",
        f"{what}: dyn_axis without dyn_param or the reverse",
    )
    outer = io.shape[: io.dyn_axis] if variable else ()
    _need(
        all(extent == 1 for extent in outer),
        "IOTB",
        f"{what}: an extent before the variable axis is not 1",
    )


def _check_io(file: File, index: int) -> None:
    io = file.ios[index]
    what = f"entry {index} ({io.name!r})"
    _need(io.variant < len(file.variants), "IOTB", f"{what}: no variant {io.variant}")
    _need(io.role < len(isa.ROLE_NAMES), "IOTB", f"{what}: role {io.role}")
    for dtype in (io.device_dtype, io.host_dtype, io.source_dtype or 0):
        _need(dtype < len(isa.DTYPE_NAMES), "IOTB", f"{what}: data type {dtype}")
    fits = all(1 <= abs(extent) <= MAX_EXTENT for extent in io.shape)
    _need(1 <= len(io.shape) <= 6 and fits, "IOTB", f"{what}: its shape")
    _need(io.flags <= 3, "IOTB", f"{what}: unknown flags")
    _need(
        io.layout == 0 or (io.layout == 1 and len(io.shape) == 3),
        "IOTB",
        f"{what}: layout {io.layout} with {len(io.shape)} axes",
    )
    _check_dynamic(io, what)
    batch = file.variants[io.variant].batch if io.flags & 1 else 1
    _need(
        io.dyn_axis == isa.NONE8 or batch == 1,
        "IOTB",
        f"{what}: a variable axis and a batch",
    )
    _check_quantisation(file, io, what)
    _check_source(io, what)
    if io.alias != isa.NONE32:
        fits = io.role == isa.ROLE_OUTPUT and io.alias < len(file.ios)
        fits = fits and file.ios[io.alias].role == isa.ROLE_INPUT
        fits = fits and file.ios[io.alias].variant == io.variant
        fits = fits and io_size(file, file.ios[io.alias]) == io_size(file, io)
        _need(fits, "IOTB", f"{what}: alias {io.alias} is not an input of its variant")


def _is_scale(value: float) -> bool:
    return 2.0**-60 <= value <= 2.0**16


def _check_quantisation(file: File, io: Io, what: str) -> None:
    last = io.scale_first + io.scale_count
    _need(last <= len(file.scales), "IOTB", f"{what}: scales beyond the table")
    if io.scale_count == 0:
        fits = io.scale_first == 0 and io.scale_axis == isa.NONE8
        fits = fits and _is_scale(io.scale)
    else:
        fits = io.scale_axis < len(io.shape) and io.scale == 0.0
        fits = fits and io.shape[io.scale_axis] == io.scale_count
    _need(fits, "IOTB", f"{what}: its scales do not fit its shape or NC16")
    least, most = {isa.U8: (0, 255), isa.I8: (-128, 127)}.get(io.device_dtype, (0, 0))
    fits = least <= io.zero_point <= most
    _need(fits, "IOTB", f"{what}: zero point {io.zero_point}")


def _check_source(io: Io, what: str) -> None:
    axes = len(io.shape) + (io.flags & 1)
    num_source = axes if io.source_shape is None else len(io.source_shape)
    _need(axes <= 6, "IOTB", f"{what}: BATCHED with six axes")
    for axis, origin in enumerate(io.source_perm or ()):
        fits = origin == isa.NONE8 or (axis < axes and origin < num_source)
        _need(fits, "IOTB", f"{what}: source_perm[{axis}] is {origin}")
    known = [origin for origin in io.source_perm or () if origin != isa.NONE8]
    _need(len(set(known)) == len(known), "IOTB", f"{what}: source_perm")
    normal = bool(io.flags & 2) == bool(io.norm_channels)
    _need(normal and io.norm_channels in (0, 1, 3, 4), "IOTB", f"{what}: norm_channels")
    for mean, std in zip(io.mean[: io.norm_channels], io.std):
        fits = abs(mean) < inf and 0.0 < std < inf
        _need(fits, "IOTB", f"{what}: mean {mean} and std {std}")
    if io.role != isa.ROLE_STATE:
        fields = (io.state_init, io.init_offset, io.state_offset, io.cache)
        fits = fields == (0, 0, 0, isa.NONE32)
        _need(fits, "IOTB", f"{what}: it is no state, but has fields of one")


def io_size(file: File, io: Io) -> int:
    """Bytes of the device tensor at its largest."""
    batch = file.variants[io.variant].batch if io.flags & 1 else 1
    return batch * prod(largest_shape(file, io)) * isa.DTYPE_SIZES[io.device_dtype]


def _states(file: File, index: int) -> list[Io]:
    states = file.variants[index].states
    assert states is not None
    return file.ios[states[0] : states[0] + states[1]]


def _state_table(file: File, index: int) -> list[tuple[str | int, ...]]:
    """What no two variants may say differently (FM22)."""
    return [
        (
            io.name,
            io.state_offset,
            io_size(file, io),
            io.state_init,
            io.init_offset,
            io.cache,
        )
        for io in _states(file, index)
    ]


def _check_states(file: File) -> None:
    first = _state_table(file, 0)
    for index in range(1, len(file.variants)):
        _need(
            _state_table(file, index) == first,
            "IOTB",
            f"variant {index} has other states than variant 0",
        )
    for scale in file.scales:
        _need(_is_scale(scale), "IOTB", f"scale {scale} is outside 2^-60 to 2^16")
    end = 0
    for io in sorted(_states(file, 0), key=lambda io: io.state_offset):
        offset, what = io.state_offset, f"state {io.name!r}"
        _need(offset % 64 == 0, "IOTB", f"{what} is not at a multiple of 64")
        _need(offset >= end, "IOTB", f"{what} overlaps another")
        end = offset + io_size(file, io)
        _need(end <= file.state_size, "IOTB", f"{what} is beyond state_size")
    for io in (io for io in file.ios if io.role == isa.ROLE_STATE):
        fits = io.dyn_axis == isa.NONE8
        _need(fits, "IOTB", f"state {io.name!r}: a variable axis")
        fits = io.state_init == 1 or (io.state_init, io.init_offset) == (0, 0)
        _need(fits, "IOTB", f"state {io.name!r}: state_init and init_offset")
        if io.state_init:
            inside = io.init_offset + io_size(file, io) <= len(file.weights)
            _need(
                inside and io.init_offset % 64 == 0,
                "IOTB",
                f"state {io.name!r}: its first value is not in WGHT",
            )
        if io.cache != isa.NONE32:
            known = file.caches.layers if file.caches else []
            fits = io.cache < len(known) and known[io.cache].state < len(file.ios)
            fits = fits and file.ios[known[io.cache].state].state_offset == (
                io.state_offset
            )
            _need(fits, "IOTB", f"state {io.name!r}: no cache layer {io.cache} of it")


def _check_caches(file: File) -> None:
    caches = file.caches
    if caches is None:
        for variant in file.variants:
            _need(variant.max_cache == 0, "VARI", "max_cache without a cache")
        return
    _need(1 <= len(caches.layers) <= 4096, "CACH", "1 to 4096 layers")
    _need(1 <= caches.count <= 4096, "CACH", "1 to 4096 caches")
    _need(caches.type <= 1, "CACH", f"type {caches.type} is unknown")
    _need(_unique([x.name for x in caches.layers]), "CACH", "two layers of one name")
    most = file.variants[0].max_cache
    _need(1 <= most <= MAX_EXTENT, "CACH", f"max_cache {most}")
    for variant in file.variants:
        _need(variant.max_cache == most, "CACH", "the variants differ in max_cache")
    for i, layer in enumerate(caches.layers):
        what = f"layer {i} ({layer.name!r})"
        _need(layer.dtype < len(isa.DTYPE_NAMES), "CACH", f"{what}: data type")
        fits = 1 <= layer.max_tokens <= MAX_EXTENT and layer.outer_count >= 1
        _need(fits and layer.token_size >= 1, "CACH", f"{what}: its counts")
        _need(
            (layer.max_tokens == 1 or layer.token_stride >= layer.token_size)
            and (layer.outer_count == 1 or layer.outer_stride >= layer.token_size),
            "CACH",
            f"{what}: a stride is less than token_size",
        )
        fits = layer.state < len(file.ios)
        fits = fits and file.ios[layer.state].role == isa.ROLE_STATE
        fits = fits and file.ios[layer.state].cache != isa.NONE32
        text = f"{what}: IOTB entry {layer.state} is not a state with a cache"
        _need(fits, "CACH", text)
        io = file.ios[layer.state]
        rows = (layer.max_tokens - 1) * layer.token_stride + layer.token_size
        size = (layer.outer_count - 1) * layer.outer_stride + rows
        inside = layer.offset >= io.state_offset
        inside = inside and layer.offset + size <= io.state_offset + io_size(file, io)
        _need(inside, "CACH", f"{what}: not inside its state")


def _check_program(file: File, number: int) -> None:
    program, section = file.programs[number], f"PROG {number}"
    for i, binding in enumerate(program.bindings):
        size = binding_size(program, i)
        if binding.kind == isa.WEIGHTS:
            _need(
                size <= len(file.weights),
                section,
                f"binding {i}: {size} bytes of weights, WGHT has {len(file.weights)}",
            )
        if binding.kind == isa.STATE:
            _need(
                size == file.state_size,
                section,
                f"binding {i}: {size} bytes of state, state_size is {file.state_size}",
            )
    states = [b for b in program.bindings if b.kind == isa.STATE]
    _need(
        len(states) == bool(file.state_size),
        section,
        f"{len(states)} STATE bindings, state_size is {file.state_size}",
    )
    for i, command in enumerate(program.commands):
        _need(
            not program.debug or command.debug <= len(program.debug),
            section,
            f"command {i}: no DBGI entry {command.debug}",
        )
