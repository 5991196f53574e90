# SPDX-License-Identifier: MIT
"""Pass `lower`: nodes to commands on views (14.4), layouts included (QC07).

A tensor is a View of a Buffer in ONNX's axis order; its layout is nothing but
its strides. So transpositions are free, sums read and write NHWC, and a COPY
appears only where a Reshape forbids a view or an output wants another order.
Buffers have no addresses yet: plan.py gives them, and emit.py the numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Callable, Optional, Sequence

import numpy as np

from . import isa_tables as isa
from .canon import ADD, MUL, Interface
from .graph import LIMIT, NUMPY, USAGE, Array, CompileError, Graph, Node, Problem
from .graph import elements, fail
from .program import dense_strides
from .views import Buffer, Ints, IoForm, LoweredCommand, View
from .views import image, order_of, reshaped_strides

MAX_MACS = 1 << 36
MAX_COMMANDS = 1 << 16


@dataclasses.dataclass
class Lowered:
    buffers: list[Buffer]
    commands: list[LoweredCommand]
    weights: bytearray
    ios: list[IoForm]
    batch: int
    views: dict[str, View]


def lower(graph: Graph, interface: Interface) -> Lowered:
    work = Lowering(graph, interface)
    for node in graph.nodes:
        before = len(work.commands)
        LOWER[node.op](work, node)
        if len(work.commands) > MAX_COMMANDS:
            raise fail(LIMIT, f"more than {MAX_COMMANDS} commands")
        for source in node.sources:
            fate = graph.sources[source]
            fate.commands += range(before, len(work.commands))
    work.finish()
    problems = []
    for number, command in enumerate(work.commands):
        if command_macs(command) > MAX_MACS:
            name = graph.sources[command.sources[0]].name if command.sources else "?"
            text = f"node '{name}': more than 2^36 multiply-accumulates"
            problems.append(Problem(LIMIT, text))
    if problems:
        raise CompileError(problems)
    return Lowered(
        work.buffers, work.commands, work.weights, work.ios, work.batch, work.views
    )


def idle(lowered: Lowered, interface: Interface) -> list[str]:
    """Warnings for options that changed nothing (QL03)."""
    inputs = {form.name: form for form in lowered.ios if form.role == isa.ROLE_INPUT}
    warnings = []
    for name, layout in interface.layouts.items():
        if not inputs[name].hwc or layout == "nchw":
            warnings.append(f"W04: --input-layout {name}={layout}: no effect")
    for name, dtype in interface.dtypes.items():
        if inputs[name].source_dtype == dtype:
            warnings.append(f"W04: --input-dtype {name}: that is its type already")
    padded = any(isa.NONE8 in f.perm and f.source_shape for f in lowered.ios)
    if interface.io_rank and not padded:
        warnings.append(f"W04: --io-rank {interface.io_rank}: no shape is shorter")
    return warnings


def command_macs(command: LoweredCommand) -> int:
    inner: int
    if command.opcode == "conv2d":
        inner = elements(command.fields["wgt"].dims[1:])
    elif command.opcode == "matmul":
        inner = command.fields["a"].dims[-1]
    else:
        return 0
    return elements(command.fields["dst"].dims) * inner


def common_batch(graph: Graph) -> int:
    """The leading extent that all images, other inputs and outputs share, or 1."""
    shapes = [graph.shapes[name] for name in [*graph.inputs, *graph.results]]
    leading = {shape[0] if len(shape) > 1 else 0 for shape in shapes}
    image = any(len(graph.shapes[name]) == 4 for name in graph.inputs)
    return leading.pop() if len(leading) == 1 and image else 1


class Lowering:
    def __init__(self, graph: Graph, interface: Interface) -> None:
        self.graph = graph
        self.interface = interface
        self.buffers = [Buffer(isa.WEIGHTS, 0)]
        self.commands: list[LoweredCommand] = []
        self.weights = bytearray()
        self.placed: dict[bytes, int] = {}
        self.views: dict[str, View] = {}
        self.ios: list[IoForm] = []
        self.batch = common_batch(graph)
        for name in graph.inputs:
            layout = interface.layouts.get(name, "nchw")
            form = self.io_form(name, name, isa.ROLE_INPUT, layout)
            self.views[name] = self.io_view(form, isa.INPUT)
        # Axes of results in the order that their outputs have in memory.
        self.wanted: dict[str, list[int]] = {}
        for name, tensor in zip(graph.outputs, graph.results):
            form = self.io_form(name, tensor, isa.ROLE_OUTPUT, "nchw")
            self.wanted[tensor] = [axis for axis in form.perm if axis != isa.NONE8]

    # Interface

    def io_form(self, name: str, tensor: str, role: int, layout: str) -> IoForm:
        shape, dtype = self.graph.shapes[tensor], self.graph.dtypes[tensor]
        rank = len(shape)
        batched = rank > 1 and shape[0] == self.batch
        hwc = rank == 4 and batched
        perm = [0, 2, 3, 1] if hwc and layout == "nchw" else list(range(rank))
        lead, inner = perm[:batched], perm[batched:]
        wanted = max(self.interface.io_rank, 1)
        if hwc and wanted > 3:  # FM31
            text = f"--io-rank {wanted}: '{name}' is an image, with the 3 axes "
            raise fail(USAGE, text + "height, width and channels")
        perm = [*lead, *[isa.NONE8] * (wanted - len(inner)), *inner]
        dims = tuple(1 if i == isa.NONE8 else shape[i] for i in perm)
        if len(dims) > 6:
            raise fail(LIMIT, f"'{name}' has {len(dims)} axes; at most 6")
        source = self.graph.io_types.get(name, dtype)
        return IoForm(name, role, dtype, source, shape, dims, tuple(perm), batched, hwc)

    def io_view(self, form: IoForm, kind: int) -> View:
        """A new binding, seen in the axis order of the model."""
        size = isa.DTYPE_SIZES[form.dtype]
        strides = dense_strides(form.dims, size)
        self.buffers.append(Buffer(kind, elements(form.dims) * size, len(self.ios)))
        self.ios.append(form)
        axes = [form.perm.index(i) for i in range(len(form.source_shape))]
        whole = View(len(self.buffers) - 1, form.name, form.dtype, form.dims, strides)
        return whole.permuted(axes)

    def finish(self) -> None:
        """Outputs: the buffer of a result becomes the binding, or a COPY (QC15)."""
        for name, tensor in zip(self.graph.outputs, self.graph.results):
            form = self.io_form(name, tensor, isa.ROLE_OUTPUT, "nchw")
            have = self.get(tensor)
            want = self.io_view(form, isa.OUTPUT)
            old, new = self.buffers[have.buffer], self.buffers[want.buffer]
            if (
                old.kind == isa.SCRATCH
                and old.size == new.size
                and have.same_bytes(want)
            ):
                old.kind, old.io = isa.OUTPUT, new.io
                self.buffers.pop()
            else:
                have, want = self.flat(have), self.flat(want)
                order = order_of(want)
                fields = {"src": have.permuted(order), "dst": want.permuted(order)}
                self.commands.append(LoweredCommand("copy", fields, []))
        self.buffers[0].size = len(self.weights)

    # Tensors

    def get(self, name: str) -> View:
        """A tensor; constants are placed in WGHT when first needed."""
        if name not in self.views:
            array = self.graph.constants[name]
            self.views[name] = self.place(name, array, self.graph.dtypes[name])
        return self.views[name]

    def place(self, name: str, array: Array, dtype: int) -> View:
        """A constant, rounded to its type, one copy of equal bytes (FM40)."""
        array = np.ascontiguousarray(array.astype(NUMPY[dtype]))
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        key = hashlib.sha256(data).digest()
        if key not in self.placed:
            self.weights += bytes(-len(self.weights) % 64)
            self.placed[key] = len(self.weights)
            self.weights += data
        strides = dense_strides(array.shape, array.itemsize)
        return View(0, name, dtype, array.shape, strides, self.placed[key])

    def make(self, name: str, order: Optional[Sequence[int]] = None) -> View:
        """A new tensor, dense with its axes in this order from the outermost."""
        shape, dtype = self.graph.shapes[name], self.graph.dtypes[name]
        order = self.wanted.get(name, range(len(shape)) if order is None else order)
        size = isa.DTYPE_SIZES[dtype]
        dense = dense_strides([shape[i] for i in order], size)
        strides = [0] * len(shape)
        for axis, stride in zip(order, dense):
            strides[axis] = stride
        self.buffers.append(Buffer(isa.SCRATCH, elements(shape) * size))
        view = View(len(self.buffers) - 1, name, dtype, shape, tuple(strides))
        self.views[name] = view
        return view

    def flat(self, view: View) -> View:
        """A scalar as the device sees it."""
        if view.dims:
            return view
        return dataclasses.replace(view, dims=(1,), strides=(0,))

    def spread(self, view: View, dims: Ints) -> View:
        """Broadcast by stride 0."""
        missing = len(dims) - len(view.dims)
        have = (1,) * missing + view.dims
        steps = (0,) * missing + view.strides
        strides = tuple(s if n == m else 0 for n, m, s in zip(have, dims, steps))
        return dataclasses.replace(view, dims=dims, strides=strides)

    def emit(self, opcode: str, node: Node, **fields: Any) -> None:
        fields = {k: v for k, v in fields.items() if v is not None}
        self.commands.append(LoweredCommand(opcode, fields, list(node.sources)))


# One rule per operator of canon.


def channels_last(shape: Ints) -> list[int]:
    return [0, *range(2, len(shape)), 1]


def window_fields(node: Node) -> dict[str, int]:
    """Placement of a kernel; one spatial axis is the second."""
    w = node.attrs["window"]

    def pair(values: Ints, idle: int) -> Ints:
        return values if len(values) == 2 else (idle, *values)

    names = ("kh kw", "sh sw", "dh dw", "pad_top pad_left", "pad_bottom pad_right")
    parts = (
        (w.kernel, 1),
        (w.strides, 1),
        (w.dilations, 1),
        (w.before, 0),
        (w.after, 0),
    )
    fields: dict[str, int] = {}
    for name, (values, idle) in zip(names, parts):
        fields.update(zip(name.split(), pair(values, idle)))
    if node.op == "pool":
        fields.update(zip(("ceil_h", "ceil_w"), pair(w.ceil, 0)))
    return fields


def post_fields(
    work: Lowering, node: Node, form: Callable[[View], View]
) -> dict[str, Any]:
    """Bias, residual and activation of a sum command."""
    fields: dict[str, Any] = {}
    if node.inputs[2]:
        fields["bias"] = work.get(node.inputs[2])
    if node.inputs[3]:
        fields["residual"] = form(work.get(node.inputs[3]))
        fields["residual_scale"] = 1.0
    if "act" in node.attrs:
        fields.update(zip(("act", "act_a", "act_b"), node.attrs["act"]))
    return fields


def conv(work: Lowering, node: Node) -> None:
    weights = work.graph.constants[node.inputs[1]]
    if weights.ndim == 3:
        weights = weights[:, :, None, :]
    wgt = work.place(node.inputs[1], weights.transpose(0, 2, 3, 1), isa.F32)
    src = image(work.get(node.inputs[0]))
    post = post_fields(work, node, image)
    shape = work.graph.shapes[node.output]
    dst = image(work.make(node.output, channels_last(shape)))
    window = window_fields(node)
    groups = node.attrs["groups"]
    work.emit(
        "conv2d", node, src=src, wgt=wgt, dst=dst, groups=groups, **window, **post
    )


def pool(work: Lowering, node: Node) -> None:
    src = image(work.get(node.inputs[0]))
    shape = work.graph.shapes[node.output]
    dst = image(work.make(node.output, channels_last(shape)))
    work.emit("pool", node, src=src, dst=dst, **window_fields(node))


def matmul(work: Lowering, node: Node) -> None:
    a, b = (work.get(name) for name in node.inputs[:2])
    out = work.graph.shapes[node.output]
    a = work.spread(a, (*out[:-2], *a.dims[-2:]))
    b = work.spread(b, (*out[:-2], *b.dims[-2:]))
    post = post_fields(work, node, lambda view: view)
    dst = work.make(node.output)
    work.emit("matmul", node, a=a, b=b, dst=dst, alpha=node.attrs["alpha"], **post)


def one(work: Lowering, node: Node, opcode: str, **fields: Any) -> None:
    """A command from one tensor to another, axes in the result's order."""
    src = work.get(node.inputs[0])
    dst = work.flat(work.make(node.output, order_of(src)))
    order = order_of(dst)
    src, dst = work.flat(src).permuted(order), dst.permuted(order)
    work.emit(opcode, node, src=src, dst=dst, **fields)


def unary(work: Lowering, node: Node) -> None:
    a, b = node.attrs["a"], node.attrs["b"]
    one(work, node, "unary", fn=node.attrs["fn"], p_a=a, p_b=b)


def cast(work: Lowering, node: Node) -> None:
    one(work, node, "cast")


def two(work: Lowering, node: Node, a: View, b: View, dst: View, fn: int) -> None:
    """A BINARY, its axes in the order of the result's memory."""
    dst = work.flat(dst)
    order = order_of(dst)
    a, b = (work.spread(v, dst.dims).permuted(order) for v in (a, b))
    work.emit("binary", node, a=a, b=b, dst=dst.permuted(order), fn=fn)


def binary(work: Lowering, node: Node) -> None:
    a, b = (work.get(name) for name in node.inputs)
    shape = work.graph.shapes[node.output]
    # The layout of an operand that is not broadcast, activations first.
    whole = [v for v in (a, b) if v.dims == shape]
    whole.sort(key=lambda v: v.buffer == 0)
    dst = work.make(node.output, order_of(whole[0]) if whole else None)
    two(work, node, a, b, dst, node.attrs["fn"])


def affine(work: Lowering, node: Node) -> None:
    """A BatchNormalization that nothing took: MUL, then ADD onto itself."""
    src = work.get(node.inputs[0])
    dst = work.make(node.output, order_of(src))
    factor, shift = (work.place(k, node.attrs[k], isa.F32) for k in ("scale", "shift"))
    two(work, node, src, factor, dst, MUL)
    two(work, node, dst, shift, dst, ADD)
    work.commands[-1].in_place = True


def transpose(work: Lowering, node: Node) -> None:
    view = work.get(node.inputs[0]).permuted(node.attrs["perm"])
    work.views[node.output] = dataclasses.replace(view, name=node.output)
    note_view(work, node)


def reshape(work: Lowering, node: Node) -> None:
    src = work.get(node.inputs[0])
    shape = work.graph.shapes[node.output]
    strides = reshaped_strides(src, shape)
    if strides is None:
        name = work.graph.new_tensor(node.output, src.dims, src.dtype)
        dst = work.make(name)
        work.emit("copy", node, src=src, dst=dst)
        src = dataclasses.replace(dst, name=node.output)
        strides = list(dense_strides(shape, isa.DTYPE_SIZES[src.dtype]))
    else:
        note_view(work, node)
    work.views[node.output] = dataclasses.replace(
        src, name=node.output, dims=shape, strides=tuple(strides)
    )


def note_view(work: Lowering, node: Node) -> None:
    for source in node.sources:
        fate = work.graph.sources[source]
        fate.fate = fate.fate or f"view of {node.inputs[0]}"


LOWER: dict[str, Callable[[Lowering, Node], None]] = {
    "affine": affine,
    "binary": binary,
    "cast": cast,
    "conv": conv,
    "matmul": matmul,
    "pool": pool,
    "reshape": reshape,
    "transpose": transpose,
    "unary": unary,
}
