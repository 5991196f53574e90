# SPDX-License-Identifier: MIT
"""Buffers, views of them, and commands whose operands are views.

A tensor of the model is a View of a Buffer in ONNX's axis order; its layout is
nothing but its strides, in bytes. What a device tensor of the file is, emit.py
makes of it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence

from . import isa_tables as isa

Ints = tuple[int, ...]


@dataclasses.dataclass
class Buffer:
    """Memory that views lie in. kind: a binding kind; io: IOTB index."""

    kind: int
    size: int
    io: int = isa.NONE32
    offset: int = 0  # in SCRATCH, from plan


@dataclasses.dataclass(frozen=True)
class View:
    buffer: int
    name: str
    dtype: int
    dims: Ints
    strides: Ints
    offset: int = 0

    def permuted(self, axes: Sequence[int]) -> View:
        """axes: for each axis of the result the one of this view."""
        dims = tuple(self.dims[i] for i in axes)
        return dataclasses.replace(
            self, dims=dims, strides=tuple(self.strides[i] for i in axes)
        )

    def same_bytes(self, other: View) -> bool:
        """Equal types and extents at equal places of two buffers."""
        pairs = zip(self.dims, self.strides, other.strides)
        return (
            self.dtype == other.dtype
            and self.dims == other.dims
            and self.offset == other.offset
            and all(n == 1 or a == b for n, a, b in pairs)
        )


@dataclasses.dataclass
class LoweredCommand:
    opcode: str
    fields: dict[str, Any]  # operands are Views
    sources: list[int]
    in_place: bool = False

    def views(self) -> list[tuple[str, View]]:
        return [(k, v) for k, v in self.fields.items() if isinstance(v, View)]


@dataclasses.dataclass
class IoForm:
    """How an input or output lies in device memory (FM30, FM31).

    dims: device axes; perm: the source axis of each, 255 for none.
    """

    name: str
    role: int
    dtype: int
    source_dtype: int
    source_shape: Ints
    dims: Ints
    perm: Ints
    batched: bool
    hwc: bool

    @property
    def shape(self) -> Ints:
        return self.dims[1:] if self.batched else self.dims


def order_of(view: View) -> list[int]:
    """Axes from the largest stride to the smallest."""
    axes = range(len(view.dims))
    return sorted(axes, key=lambda i: (-view.strides[i], view.dims[i] == 1))


def image(view: View) -> View:
    """NHWC of a tensor [N, C, H, W] or [N, C, L]; the latter has H = 1."""
    if len(view.dims) == 4:
        return view.permuted((0, 2, 3, 1))
    n, c, length = view.dims
    sn, sc, sl = view.strides
    return dataclasses.replace(view, dims=(n, 1, length, c), strides=(sn, sl, sl, sc))


def reshaped_strides(view: View, shape: Ints) -> Optional[list[int]]:
    """Strides that show the same elements in row-major order as shape, if any."""
    have = [(n, s) for n, s in zip(view.dims, view.strides) if n > 1]
    strides: list[int] = []
    size = isa.DTYPE_SIZES[view.dtype]
    extent, stride = 1, size  # what is left of the run of axes at hand
    for wanted in reversed(shape):
        while wanted > 1 and extent == 1:
            if not have:
                return None
            extent, stride = have.pop()
            # Join axes that lie behind one another without a gap.
            while have and have[-1][1] == extent * stride:
                extent *= have.pop()[0]
        if wanted > 1 and extent % wanted:
            return None
        strides.append(stride)
        extent //= wanted
        stride *= wanted
    return strides[::-1]
