# SPDX-License-Identifier: MIT
"""What a .qbm container holds (section 3), as dataclasses, and the numbers
that follow from it.

Attributes that are None are computed, as are all counts, sizes and offsets:
each *_values function gives every field of one structure. `given` works as in
program.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from math import prod
from typing import Optional

from . import isa_tables as isa
from .program import DebugEntry, Given, Program, binding_size

MAGIC = b"\x89QBM\r\n\x1a\n"
Range = tuple[int, int]


@dataclass
class Io:
    """An input, output or state of one variant (IOTB entry).

    shape: without batch axis; a variable axis is -1, or -k for multiples of k.
    flags: bit 0 BATCHED, bit 1 NORMALISED. layout: 1 for HWC.
    source_perm: for each axis of the device tensor (batch axis included).
    None: accepted_dtypes = both dtypes; source_shape = the device tensor's
    shape, source_perm = identity; source_dtype = host_dtype; buffer_info as
    FM35; size from shape, batch and the parameter's maximum.
    """

    name: str
    role: int
    device_dtype: int
    host_dtype: int
    shape: tuple[int, ...]
    variant: int = 0
    layout: int = 0
    accepted_dtypes: Optional[int] = None
    flags: int = 0
    size: Optional[int] = None
    source_shape: Optional[tuple[int, ...]] = None
    source_perm: Optional[tuple[int, ...]] = None
    dyn_axis: int = isa.NONE8
    dyn_param: int = isa.NONE8
    buffer_info: Optional[tuple[int, ...]] = None
    source_dtype: Optional[int] = None
    scale: float = 1.0
    zero_point: int = 0
    scale_first: int = 0
    scale_count: int = 0
    scale_axis: int = isa.NONE8
    state_init: int = 0
    norm_channels: int = 0
    alias: int = isa.NONE32
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    init_offset: int = 0
    state_offset: int = 0
    cache: int = isa.NONE32
    given: Given = field(default_factory=dict)


@dataclass
class Variant:
    """One set of input sizes.

    inputs, outputs, states: (first IOTB index, count), None: found in
    File.ios. mode_mask None: the bundle's.
    """

    name: str
    batch: int = 1
    flags: int = 0
    inputs: Optional[Range] = None
    outputs: Optional[Range] = None
    states: Optional[Range] = None
    bundles: Optional[Range] = None
    mode_mask: Optional[int] = None
    max_tokens: int = 0
    max_cache: int = 0
    seq_param: int = isa.NONE32
    past_param: int = isa.NONE32
    activation_slots: int = 0
    given: Given = field(default_factory=dict)


@dataclass
class Bundle:
    """The programs of a variant: program[mode] is a program number or NONE32."""

    name: str
    mode_mask: int
    program: tuple[int, ...]
    given: Given = field(default_factory=dict)


@dataclass
class CacheLayer:
    """One layer of the KV cache; strides and sizes in bytes."""

    name: str
    dtype: int
    offset: int
    max_tokens: int
    outer_count: int
    outer_stride: int
    token_stride: int
    token_size: int
    state: int
    given: Given = field(default_factory=dict)


@dataclass
class Caches:
    """Section CACH: count is num_batches, type 0 Default or 1 Batch."""

    layers: list[CacheLayer]
    count: int = 1
    type: int = 0
    given: Given = field(default_factory=dict)


@dataclass
class Section:
    """A section that this version does not know, kept as bytes."""

    kind: bytes
    data: bytes
    flags: int = 0
    instance: int = 0
    align_log2: int = 3


@dataclass
class File:
    """A whole container. bundles[i] belongs to variants[i] (format 1.0).

    ios in the order of variants, in each inputs, outputs, states. weights is
    section WGHT, b"" for none.
    """

    producer: str = ""
    target: int = 0
    meta: dict[str, str] = field(default_factory=dict)
    variants: list[Variant] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    ios: list[Io] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    state_size: int = 0
    caches: Optional[Caches] = None
    programs: list[Program] = field(default_factory=list)
    weights: bytes = b""
    extra: list[Section] = field(default_factory=list)
    given: Given = field(default_factory=dict)
    iotb_given: Given = field(default_factory=dict)


def program_of(file: File, variant: int) -> Optional[Program]:
    """A program of the variant (all of a bundle are equal but for the mode)."""
    if variant < len(file.bundles):
        for number in file.bundles[variant].program:
            if number < len(file.programs):
                return file.programs[number]
    return None


def largest_shape(file: File, io: Io) -> tuple[int, ...]:
    """io.shape with the variable axis at its parameter's maximum."""
    program = program_of(file, io.variant)
    params = program.params if program else []
    dims = list(io.shape)
    for axis, extent in enumerate(dims):
        if extent < 0:
            known = axis == io.dyn_axis and io.dyn_param < len(params)
            dims[axis] = params[io.dyn_param].max if known else -extent
    return tuple(dims)


def _buffer_info(file: File, io: Io, dims: tuple[int, ...]) -> tuple[int, ...]:
    hwc = (1, 1, 1, *dims)[-3:] if len(dims) < 4 else (prod(dims[:-2]), *dims[-2:])
    cached = io.role == isa.ROLE_INPUT and io.variant < len(file.variants)
    return (
        *hwc,
        *hwc,
        *hwc,
        *hwc,
        file.variants[io.variant].max_cache if cached else 0,
    )


IO_KEYS = tuple(
    key for key in isa.IO.fields if key in Io.__dataclass_fields__ and key != "name"
)


def io_values(file: File, io: Io, index: int, name: int) -> Given:
    """All fields of the IOTB entry; index: position among its role."""
    dims = largest_shape(file, io)
    batched = io.flags & 1 and io.variant < len(file.variants)
    batch = (file.variants[io.variant].batch,) if batched else ()
    source = io.source_shape if io.source_shape is not None else batch + io.shape
    known = io.device_dtype < len(isa.DTYPE_SIZES)
    element_size = isa.DTYPE_SIZES[io.device_dtype] if known else 1
    accepted = (1 << io.host_dtype % 32) | (1 << io.device_dtype % 32)
    attributes = {key: getattr(io, key) for key in IO_KEYS}
    return {
        "name": name,
        "index": index,
        "rank": len(io.shape),
        "source_rank": len(source),
        "source_shape": source,
        "source_perm": tuple(range(len(batch + io.shape))),
        "source_dtype": io.host_dtype,
        "accepted_dtypes": accepted,
        "size": prod(batch + dims) * element_size,
        "buffer_info": _buffer_info(file, io, dims),
        **{key: value for key, value in attributes.items() if value is not None},
        **io.given,
    }


def io_positions(file: File) -> list[int]:
    """Position of each IOTB entry among its role in its variant."""
    counts: dict[tuple[int, int], int] = {}
    positions = []
    for io in file.ios:
        key = (io.variant, io.role)
        positions.append(counts.get(key, 0))
        counts[key] = positions[-1] + 1
    return positions


def find_range(file: File, variant: int, role: int) -> Range:
    """First IOTB entry of that role and variant, and how many there are."""
    found = [
        i for i, io in enumerate(file.ios) if (io.variant, io.role) == (variant, role)
    ]
    return (found[0], len(found)) if found else (0, 0)


def bundle_values(file: File, index: int, name: int) -> Given:
    """All fields of a bundle; counts from its first program."""
    bundle = file.bundles[index]
    program = program_of(file, index)
    scratch = [
        binding_size(file.programs[number], i)
        for number in bundle.program
        if number < len(file.programs)
        for i, binding in enumerate(file.programs[number].bindings)
        if binding.kind == isa.SCRATCH
    ]
    return {
        "name": name,
        "mode_mask": bundle.mode_mask,
        "program": bundle.program,
        "mac_count": program.mac_count if program else 0,
        "scratch_size": max(scratch, default=0),
        **bundle.given,
    }


VARIANT_KEYS = tuple(
    "flags batch max_tokens max_cache seq_param past_param activation_slots".split()
)


def variant_values(file: File, index: int, name: int) -> Given:
    """All fields of a variant."""
    variant = file.variants[index]
    bundle = bundle_values(file, index, 0) if index < len(file.bundles) else {}
    inputs = variant.inputs or find_range(file, index, isa.ROLE_INPUT)
    outputs = variant.outputs or find_range(file, index, isa.ROLE_OUTPUT)
    states = variant.states or find_range(file, index, isa.ROLE_STATE)
    first_bundle, bundle_count = variant.bundles or (index, 1)
    mask = variant.mode_mask
    return {
        "name": name,
        **{key: getattr(variant, key) for key in VARIANT_KEYS},
        "first_bundle": first_bundle,
        "bundle_count": bundle_count,
        "first_input": inputs[0],
        "input_count": inputs[1],
        "first_output": outputs[0],
        "output_count": outputs[1],
        "first_state": states[0],
        "state_count": states[1],
        "mode_mask": bundle.get("mode_mask", 0) if mask is None else mask,
        "mac_count": bundle.get("mac_count", 0),
        **variant.given,
    }


CACHE_KEYS = tuple(
    "dtype offset max_tokens outer_count outer_stride token_stride".split()
    + ["token_size", "state"]
)


def cache_values(layer: CacheLayer, name: int) -> Given:
    """All fields of a CACH layer."""
    digest = hashlib.sha256(layer.name.encode(errors="replace")).digest()
    rows = (layer.max_tokens - 1) * layer.token_stride + layer.token_size
    return {
        "name": name,
        **{key: getattr(layer, key) for key in CACHE_KEYS},
        "layer_hash": int.from_bytes(digest[:8], "big"),
        "size": max((layer.outer_count - 1) * layer.outer_stride + rows, 0),
        **layer.given,
    }


def caches_values(file: File, caches: Caches, count: int) -> Given:
    """All fields of the CACH header of count layers."""
    return {
        "count": count,
        "cache_count": caches.count,
        "max_tokens": file.variants[0].max_cache if file.variants else 0,
        "cache_type": caches.type,
        "state_size": file.state_size,
        **caches.given,
    }


def iotb_values(file: File) -> Given:
    """All fields of the IOTB header."""
    end = isa.IOTB.size + isa.IO.size * len(file.ios)
    return {
        "count": len(file.ios),
        "scale_count": len(file.scales),
        "scales_offset": end if file.scales else 0,
        "state_size": file.state_size,
        **file.iotb_given,
    }


def vari_values(file: File) -> Given:
    """All fields of the VARI header."""
    return {
        "variant_count": len(file.variants),
        "bundle_count": len(file.bundles),
        "bundles_offset": isa.VARI.size + isa.VARIANT.size * len(file.variants),
    }


def debug_values(entry: DebugEntry, nodes: int, op_types: int) -> Given:
    """All fields of a DBGI entry."""
    return {"nodes": nodes, "op_types": op_types, "fused": entry.fused, **entry.given}


def header_values(file: File, section_count: int, file_size: int) -> Given:
    """Fields of the header but content_id and the checksums."""
    features = 0
    for program in file.programs:
        features |= program.isa_features
    return {
        "magic": MAGIC,
        "section_count": section_count,
        "file_size": file_size,
        "isa_features": features,
        "target": file.target,
        "producer": file.producer.encode(),
        **file.given,
    }
