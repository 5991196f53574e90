# SPDX-License-Identifier: MIT
"""Output shapes of ONNX nodes, and with them what is wrong with a node.

A shape rule checks everything that the model says about its node (attributes,
operands, extents), so that the passes behind it rely on a node being sound.
Rules raise Refused; none computes values (fold.py does) or thinks of the
device (canon.py and lower.py do).
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Sequence

import numpy as np
import onnx

from . import isa_tables as isa
from .facts import Facts, Shape
from .graph import ELEMENT_TYPES, INPUT, LIMIT, SHAPE, UNSUPPORTED
from .graph import Refused, code_of, elements

Outputs = list[tuple[int, Shape]]


@dataclasses.dataclass(frozen=True)
class Window:
    """Kernel placement of Conv and MaxPool, per spatial axis (1 or 2)."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape
    ceil: Shape
    out: Shape


def window(f: Facts, kernel: Optional[Shape], ceil_mode: int = 0) -> Window:
    """Reads the attributes that Conv and the pools share."""
    extents = f.shape(0)[2:]
    axes = len(extents)
    if axes not in (1, 2):
        raise Refused(UNSUPPORTED, f"{axes} spatial axes; supported: 1 or 2")
    said = f.ints("kernel_shape", kernel)
    if said is None or (kernel is not None and said != kernel):
        raise Refused(SHAPE, "does not fit the weights", "kernel_shape")
    strides = f.ints("strides", [1] * axes) or ()
    dilations = f.ints("dilations", [1] * axes) or ()
    pads = f.ints("pads", [0] * 2 * axes) or ()
    for name, value in (
        ("kernel_shape", said),
        ("strides", strides),
        ("dilations", dilations),
    ):
        if len(value) != axes or min(value) < 1:
            raise Refused(SHAPE, f"not {axes} positive numbers", name)
        if max(value) > 64:
            raise Refused(LIMIT, "at most 64", name)
    if len(pads) != 2 * axes:
        raise Refused(SHAPE, f"not {2 * axes} numbers", "pads")
    if min(pads) < 0:
        raise Refused(UNSUPPORTED, "negative; supported: 0 and more", "pads")
    before, after = list(pads[:axes]), list(pads[axes:])
    auto = f.attr("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Refused(INPUT, "unknown", "auto_pad")
    ceil, out = [0] * axes, [0] * axes
    for i, extent in enumerate(extents):
        field = (said[i] - 1) * dilations[i] + 1
        if auto.startswith("SAME"):
            total = max((-(-extent // strides[i]) - 1) * strides[i] + field - extent, 0)
            small, large = total // 2, total - total // 2
            before[i] = small if auto == "SAME_UPPER" else large
            after[i] = total - before[i]
        elif auto == "VALID":
            before[i] = after[i] = 0
        if max(before[i], after[i]) >= field and max(before[i], after[i]) > 0:
            raise Refused(LIMIT, "a pad is not smaller than the kernel", "pads")
        room = extent + before[i] + after[i] - field
        if room < 0:
            raise Refused(SHAPE, f"the kernel is larger than the input {list(extents)}")
        out[i] = room // strides[i] + 1
        if ceil_mode and room % strides[i]:
            # A window that would begin in the pad behind does not count.
            if out[i] * strides[i] < extent + before[i]:
                ceil[i] = out[i] * strides[i] - room
                out[i] += 1
    fields = (said, strides, dilations, before, after, ceil, out)
    return Window(*(tuple(field) for field in fields))


def broadcast(shapes: Sequence[Shape]) -> Shape:
    try:
        return tuple(int(n) for n in np.broadcast_shapes(*shapes))
    except ValueError:
        text = " and ".join(str(list(s)) for s in shapes)
        raise Refused(SHAPE, f"shapes {text} do not fit together") from None


def same(f: Facts) -> Outputs:
    return [(f.dtype(0), f.shape(0))]


def alike(f: Facts) -> int:
    """The one type that all operands have."""
    if len({f.graph.dtypes[name] for name in f.node.reads()}) != 1:
        raise Refused(INPUT, "operands of different types")
    return f.dtype(0)


def elementwise(f: Facts) -> Outputs:
    shapes = [f.shape(i) for i in range(len(f.node.inputs))]
    return [(alike(f), broadcast(shapes))]


def conv(f: Facts) -> Outputs:
    x, w = f.shape(0), f.shape(1)
    if len(x) < 3 or len(w) != len(x):
        raise Refused(SHAPE, f"input {list(x)} with weights {list(w)}")
    groups = f.attr("group", 1)
    if groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        text = f"{x[1]} channels do not fit weights {list(w)}"
        raise Refused(SHAPE, text, "group" if "group" in f.node.attrs else "")
    if f.has(2) and f.shape(2) != (w[0],):
        raise Refused(SHAPE, f"bias {list(f.shape(2))} for {w[0]} output channels")
    return [(alike(f), (x[0], w[0], *window(f, w[2:]).out))]


def max_pool(f: Facts) -> Outputs:
    x = f.shape(0)
    if len(x) < 3:
        raise Refused(SHAPE, f"input {list(x)} has no spatial axis")
    w = window(f, None, f.attr("ceil_mode", 0))
    for axis, extent in enumerate(x[2:]):
        if not all_meet_input(w, axis, extent):
            raise Refused(UNSUPPORTED, "a window that lies in the pads alone")
    return [(f.dtype(0), (*x[:2], *w.out))]


def all_meet_input(w: Window, axis: int, extent: int) -> bool:
    """Whether each place of the kernel has a tap inside the input."""
    step, count = w.dilations[axis], w.kernel[axis]
    first = -w.before[axis]
    last = first + (w.out[axis] - 1) * w.strides[axis]
    # Only a kernel that begins before the input, or ends behind it, can miss.
    fronts = range(first, min(0, last + 1), w.strides[axis])
    backs = range(last, max(extent - count * step, -1), -w.strides[axis])
    for begin in (*fronts, *(b for b in backs if b >= 0)):
        taps = range(begin, begin + count * step, step)
        if not any(0 <= tap < extent for tap in taps):
            return False
    return True


def matmul(f: Facts) -> Outputs:
    a, b = f.shape(0), f.shape(1)
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if not a or not b or left[-1] != right[-2]:
        raise Refused(SHAPE, f"{list(a)} times {list(b)}")
    lead = broadcast([left[:-2], right[:-2]])
    rows = (left[-2],) if len(a) > 1 else ()
    columns = (right[-1],) if len(b) > 1 else ()
    return [(alike(f), (*lead, *rows, *columns))]


def gemm(f: Facts) -> Outputs:
    a, b = f.shape(0), f.shape(1)
    if len(a) != 2 or len(b) != 2:
        raise Refused(SHAPE, f"{list(a)} times {list(b)}; both must have 2 axes")
    a = a[::-1] if f.attr("transA", 0) else a
    b = b[::-1] if f.attr("transB", 0) else b
    out = (a[0], b[1])
    if a[1] != b[0]:
        raise Refused(SHAPE, f"{list(a)} times {list(b)}")
    if f.has(2) and broadcast([f.shape(2), out]) != out:
        raise Refused(SHAPE, f"C {list(f.shape(2))} for a result {list(out)}")
    f.number("alpha", 1.0), f.number("beta", 1.0)
    return [(alike(f), out)]


def clip(f: Facts) -> Outputs:
    for index in (1, 2):
        if f.has(index) and elements(f.shape(index)) != 1:
            raise Refused(SHAPE, "bounds are not single numbers")
    f.attr("min", 0.0), f.attr("max", 0.0)
    return [(alike(f), f.shape(0))]


def batch_norm(f: Facts) -> Outputs:
    if f.attr("training_mode", 0) or not f.attr("spatial", 1):
        name = "training_mode" if "training_mode" in f.node.attrs else "spatial"
        raise Refused(UNSUPPORTED, "supported: inference, per channel", name)
    x = f.shape(0)
    if len(x) < 2 or any(f.shape(i) != (x[1],) for i in range(1, 5)):
        raise Refused(SHAPE, f"parameters do not fit input {list(x)}")
    f.number("epsilon", 1e-5)
    return same(f)


def dropout(f: Facts) -> Outputs:
    if f.has(2) and bool(f.constant(2, "training_mode").any()):
        raise Refused(UNSUPPORTED, "training mode; supported: inference")
    return same(f)


def flatten(f: Facts) -> Outputs:
    x = f.shape(0)
    axis = f.attr("axis", 1)
    if not -len(x) <= axis <= len(x):
        raise Refused(SHAPE, f"input {list(x)}", "axis")
    axis = axis + len(x) if axis < 0 else axis
    return [(f.dtype(0), (elements(x[:axis]), elements(x[axis:])))]


def reshape(f: Facts) -> Outputs:
    x, said = f.shape(0), f.whole(1, "shape")
    keep_zero = f.attr("allowzero", 0)
    shape = list(said)
    for i, extent in enumerate(shape):
        if extent == 0 and not keep_zero:
            if i >= len(x):
                raise Refused(SHAPE, f"{said} copies an axis that {list(x)} lacks")
            shape[i] = x[i]
    rest = elements(n for n in shape if n != -1)
    if shape.count(-1) == 1 and rest and elements(x) % rest == 0:
        shape[shape.index(-1)] = elements(x) // rest
    if min(shape, default=1) < 0 or elements(shape) != elements(x):
        raise Refused(SHAPE, f"{list(x)} does not reshape to {said}")
    return [(f.dtype(0), tuple(shape))]


def given_axes(f: Facts) -> Optional[list[int]]:
    """The axes of Squeeze and Unsqueeze: an attribute, from opset 13 an input."""
    if f.opset >= 13:
        return f.whole(1, "axes") if f.has(1) else None
    axes = f.ints("axes", None)
    return None if axes is None else list(axes)


def squeeze(f: Facts) -> Outputs:
    x, axes = f.shape(0), given_axes(f)
    if axes is None:
        return [(f.dtype(0), tuple(n for n in x if n != 1))]
    gone = {f.axis(a, len(x), "axes") for a in axes}
    if any(x[a] != 1 for a in gone):
        raise Refused(SHAPE, f"axes {axes} of {list(x)} are not all 1")
    return [(f.dtype(0), tuple(n for i, n in enumerate(x) if i not in gone))]


def unsqueeze(f: Facts) -> Outputs:
    axes = given_axes(f)
    if axes is None:
        raise Refused(INPUT, "axes are missing")
    x = list(f.shape(0))
    rank = len(x) + len(axes)
    new = {f.axis(a, rank, "axes") for a in axes}
    if len(new) != len(axes):
        raise Refused(SHAPE, f"axes {axes} repeat")
    return [(f.dtype(0), tuple(1 if i in new else x.pop(0) for i in range(rank)))]


def transpose(f: Facts) -> Outputs:
    x = f.shape(0)
    perm = f.ints("perm", range(len(x))[::-1]) or ()
    if sorted(perm) != list(range(len(x))):
        raise Refused(SHAPE, f"not an order of the axes of {list(x)}", "perm")
    return [(f.dtype(0), tuple(x[i] for i in perm))]


def cast(f: Facts) -> Outputs:
    to = f.attr("to", 0)
    if to not in ELEMENT_TYPES:
        kinds = {v: k for k, v in onnx.TensorProto.DataType.items()}
        raise Refused(UNSUPPORTED, f"type {kinds.get(to, to)}", "to")
    return [(ELEMENT_TYPES[to], f.shape(0))]


CONSTANT_FORMS = {
    "value_float": (np.float32, float),
    "value_floats": (np.float32, tuple),
    "value_int": (np.int64, int),
    "value_ints": (np.int64, tuple),
}


def constant(f: Facts) -> Outputs:
    if len(f.node.attrs) != 1:
        raise Refused(INPUT, "not exactly one value")
    (name, value), *_ = f.node.attrs.items()
    if name == "value" and isinstance(value, np.ndarray):
        return [(code_of(value), value.shape)]
    if name not in CONSTANT_FORMS or not isinstance(value, CONSTANT_FORMS[name][1]):
        raise Refused(UNSUPPORTED, "supported: dense tensors of numbers", name)
    dtype = isa.F32 if "float" in name else isa.I64
    return [(dtype, np.asarray(value).shape)]


def shape_of(f: Facts) -> Outputs:
    rank = len(f.shape(0))
    begin, end, _ = slice(f.attr("start", 0), f.attr("end", rank)).indices(rank)
    return [(isa.I64, (max(end - begin, 0),))]


def constant_of_shape(f: Facts) -> Outputs:
    shape = f.whole(0, "shape")
    value = f.attr("value", np.zeros(1, np.float32))
    if min(shape, default=0) < 0 or value.size != 1:
        raise Refused(SHAPE, f"shape {shape}")
    return [(code_of(value), tuple(shape))]


def gather(f: Facts) -> Outputs:
    x, index = f.shape(0), f.shape(1)
    if f.dtype(1) not in (isa.I32, isa.I64):
        raise Refused(INPUT, "the indices are no integers of 32 or 64 bits")
    axis = f.axis(f.attr("axis", 0), len(x))
    return [(f.dtype(0), (*x[:axis], *index, *x[axis + 1 :]))]


def concat(f: Facts) -> Outputs:
    shapes = [f.shape(i) for i in range(len(f.node.inputs))]
    axis = f.axis(f.attr("axis", 0), len(shapes[0]))
    rest = {(*s[:axis], 0, *s[axis + 1 :]) for s in shapes}
    if len(rest) != 1 or len({len(s) for s in shapes}) != 1:
        raise Refused(SHAPE, "operands do not fit together")
    out = list(shapes[0])
    out[axis] = sum(s[axis] for s in shapes)
    return [(alike(f), tuple(out))]


def slices(f: Facts) -> tuple[slice, ...]:
    """What Slice takes of each axis; attributes before opset 10."""
    x = f.shape(0)
    if f.opset < 10:
        parts = [list(f.ints(n, None) or ()) for n in ("starts", "ends")]
        axes = f.ints("axes", None)
        steps = [1] * len(parts[0])
    elif not (f.has(1) and f.has(2)):
        raise Refused(INPUT, "starts or ends are missing")
    else:
        parts = [f.whole(i, n) for i, n in ((1, "starts"), (2, "ends"))]
        axes = tuple(f.whole(3, "axes")) if f.has(3) else None
        steps = f.whole(4, "steps") if f.has(4) else [1] * len(parts[0])
    axes = tuple(range(len(parts[0]))) if axes is None else axes
    if not len(parts[0]) == len(parts[1]) == len(axes) == len(steps) or 0 in steps:
        raise Refused(INPUT, "starts, ends, axes and steps do not fit together")
    out = [slice(None)] * len(x)
    for start, end, axis, step in zip(*parts, axes, steps):
        axis = f.axis(axis, len(x), "axes")
        begin, stop, step = slice(start, end, step).indices(x[axis])
        out[axis] = slice(begin, None if stop < 0 else stop, step)
    return tuple(out)


def slice_(f: Facts) -> Outputs:
    spans = zip(slices(f), f.shape(0))
    return [(f.dtype(0), tuple(len(range(*s.indices(n))) for s, n in spans))]
