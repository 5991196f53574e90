# SPDX-License-Identifier: MIT
"""Pass `load`: bytes of an ONNX file to a Graph (QC01, QE05, QL02).

The file is hostile until proven otherwise: every count and size is checked
before something of that size is made, external data are read only from inside
the model's own folder, and nothing of the model is run.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import warnings
from typing import Any, Iterator, Optional

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message

from . import ops
from .functions import MAX_NODES, inline
from .graph import (
    ELEMENT_TYPES,
    INPUT,
    LIMIT,
    MAX_AXES,
    NUMPY,
    SHAPE,
    UNSUPPORTED,
    USAGE,
    Array,
    CompileError,
    DType,
    Graph,
    Node,
    Problem,
    Source,
    code_of,
    elements,
    fail,
    sort,
)

MAX_FILE = 1 << 30  # more belongs into external data (QE05)
_WHOLE = re.compile("[0-9]{1,18}")


@dataclasses.dataclass
class Sizes:
    """What the options say about extents and the parts of the graph."""

    shapes: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    dims: dict[str, int] = dataclasses.field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def load(data: bytes, folder: Optional[pathlib.Path], sizes: Sizes) -> Graph:
    """folder: where external data may lie, None for a model from stdin."""
    return build(parse(data), folder, sizes)


def build(
    model: onnx.ModelProto, folder: Optional[pathlib.Path], sizes: Sizes
) -> Graph:
    """The Graph of what parse() has made."""
    proto = model.graph
    if len(proto.node) > MAX_NODES:
        raise fail(LIMIT, f"more than {MAX_NODES} nodes")
    opset = opset_of(model)
    constants = read_constants(proto, folder)
    nodes, sources = read_nodes(model, opset)
    inputs = [value for value in proto.input if value.name not in constants]
    graph = Graph(
        name=proto.name,
        opset=opset,
        inputs=[value.name for value in inputs],
        outputs=pick_outputs(proto, nodes, sizes),
        nodes=nodes,
        constants=constants,
        shapes={name: array.shape for name, array in constants.items()},
        dtypes={name: code_of(array) for name, array in constants.items()},
        sources=sources,
        producer=f"{model.producer_name} {model.producer_version}".strip(),
    )
    check_names(graph)
    graph.nodes = in_order(graph)
    for node in graph.drop_dead():
        graph.sources[node.sources[0]].fate = "not needed"
    read_inputs(graph, inputs, sizes)
    return graph


def parse(data: bytes) -> onnx.ModelProto:
    if len(data) > MAX_FILE:
        raise fail(INPUT, "larger than 1 GiB; keep the weights as external data")
    if data.startswith(b"\x89QBM"):
        raise fail(INPUT, "this is a compiled model already, not an ONNX file")
    try:
        with warnings.catch_warnings(record=True) as ignored_rest:
            warnings.simplefilter("always")
            model = onnx.ModelProto.FromString(data)
        if ignored_rest or not is_text(model):
            raise ValueError
    except (DecodeError, RuntimeError, ValueError):
        raise fail(INPUT, "not an ONNX file, or damaged") from None
    if not model.HasField("graph") or not model.opset_import or not data:
        raise fail(INPUT, "not an ONNX file: it holds no graph")
    return model


def is_text(message: Message) -> bool:
    """Whether all strings are UTF-8: protobuf gives bytes for the others."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        values = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == field.TYPE_STRING:
            good = all(isinstance(value, str) for value in values)
        else:
            good = all(is_text(value) for value in values)
        if not good:
            return False
    return True


def external_files(
    model: onnx.ModelProto, folder: Optional[pathlib.Path]
) -> Iterator[tuple[str, pathlib.Path]]:
    """Tensors whose values lie in files of the model's folder, with these."""
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if folder and entry.key == "location" and "\0" not in entry.value:
                yield tensor.name, folder / entry.value


def opset_of(model: onnx.ModelProto) -> int:
    versions = {entry.domain: entry.version for entry in model.opset_import}
    opset = versions.get("", versions.get("ai.onnx", 0))
    if opset == 0:
        raise fail(UNSUPPORTED, "the default operator domain is not imported")
    if opset < ops.OLDEST_OPSET:
        raise fail(
            UNSUPPORTED,
            f"opset {opset}; supported: {ops.OLDEST_OPSET} and newer; "
            "onnx.version_converter can raise it",
        )
    return int(opset)


def read_constants(
    proto: onnx.GraphProto, folder: Optional[pathlib.Path]
) -> dict[str, Array]:
    if proto.sparse_initializer:
        raise fail(UNSUPPORTED, "sparse initializers; supported: dense ones")
    constants: dict[str, Array] = {}
    problems = []
    for tensor in proto.initializer:
        try:
            if tensor.name in constants:
                raise fail(INPUT, f"initializer '{tensor.name}' is there twice")
            constants[tensor.name] = to_array(tensor, folder)
        except CompileError as error:
            problems += error.problems
    if problems:
        raise CompileError(problems)
    return constants


def to_array(tensor: onnx.TensorProto, folder: Optional[pathlib.Path]) -> Array:
    """The values of a TensorProto, its sizes checked before they are used."""
    name = f"tensor '{tensor.name}'"
    if tensor.data_type not in ELEMENT_TYPES:
        kinds = onnx.TensorProto.DataType.items()
        kind = {v: k for k, v in kinds}.get(tensor.data_type, tensor.data_type)
        raise fail(UNSUPPORTED, f"{name}: element type {kind}")
    dtype = np.dtype(NUMPY[ELEMENT_TYPES[tensor.data_type]])
    dims = tuple(tensor.dims)
    if any(extent < 0 for extent in dims):
        raise fail(INPUT, f"{name}: shape {list(dims)} has a negative extent")
    if len(dims) > MAX_AXES:
        raise fail(LIMIT, f"{name}: {len(dims)} axes; at most {MAX_AXES}")
    count = elements(dims)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raw: Optional[bytes] = read_external(tensor, folder, count * dtype.itemsize)
    else:
        raw = tensor.raw_data if tensor.HasField("raw_data") else None
    if raw is None:
        return typed_values(tensor, dtype, count).reshape(dims)
    if len(raw) != count * dtype.itemsize:
        raise fail(INPUT, f"{name}: {len(raw)} bytes for shape {list(dims)}")
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(dims)


def typed_values(tensor: onnx.TensorProto, dtype: DType, count: int) -> Array:
    """Values of the typed fields (float_data and the like)."""
    field = {
        "float32": "float_data",
        "float64": "double_data",
        "int64": "int64_data",
        "uint64": "uint64_data",
        "uint32": "uint64_data",
    }.get(dtype.name, "int32_data")
    values = getattr(tensor, field)
    if len(values) != count:
        text = f"tensor '{tensor.name}': {len(values)} values for {count} elements"
        raise fail(INPUT, text)
    wide = np.array(values, np.float64 if "float" in field else None)
    if dtype == np.float16:  # its bits, one per int32
        return wide.astype(np.uint16).view(np.float16)
    return wide.astype(dtype)


def read_external(
    tensor: onnx.TensorProto, folder: Optional[pathlib.Path], size: int
) -> bytes:
    """Bytes of a tensor that lies in a file beside the model."""
    name = f"tensor '{tensor.name}'"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise fail(INPUT, f"{name}: external data; a model from stdin has no folder")
    location = pathlib.PurePosixPath(entries.get("location", ""))
    path = folder / location
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL
        is_inside = False
    if (
        location.is_absolute()
        or ".." in location.parts
        or not location.parts
        or not is_inside
    ):
        raise fail(INPUT, f"{name}: external data outside the model's folder")
    try:
        offset, length = (
            int(text) if _WHOLE.fullmatch(text) else -1
            for text in (entries.get("offset", "0"), entries.get("length", str(size)))
        )
        if offset < 0 or length != size or not path.is_file():
            raise ValueError
        with path.open("rb") as file:
            file.seek(offset)
            if path.stat().st_size < offset + size:
                raise ValueError
            return file.read(size)
    except (OSError, ValueError):
        raise fail(INPUT, f"{name}: external data missing or too short") from None


def read_nodes(model: onnx.ModelProto, opset: int) -> tuple[list[Node], list[Source]]:
    """Nodes, calls of functions replaced, and the nodes that the file has."""
    nodes, problems = [], []
    sources = [
        Source(item.name or f"{item.op_type}_{index}", item.op_type)
        for index, item in enumerate(model.graph.node)
    ]
    for item, index in inline(model, opset):
        node = Node(item.op_type, list(item.input), list(item.output), {}, [index])
        where = f"node '{sources[index].name}' ({item.op_type}, opset {opset})"
        if not node.outputs:
            problems.append(Problem(INPUT, f"{where}: no output", index))
            continue
        try:
            if item.domain not in ("", "ai.onnx"):
                text = f"domain '{item.domain}'; supported: the default domain"
                raise fail(UNSUPPORTED, text)
            node.attrs = {a.name: attribute(a) for a in item.attribute}
        except CompileError as error:
            sources[index].refused = str(error)
            for problem in error.problems:
                text = f"{where}: {problem.text}"
                problems.append(Problem(problem.code, text, index))
        nodes.append(node)
    if problems:
        raise SourcesError(problems, sources)
    return nodes, sources


class SourcesError(CompileError):
    """Problems found before there is a Graph; --explain wants the nodes."""

    def __init__(self, problems: list[Problem], sources: list[Source]) -> None:
        super().__init__(problems)
        self.sources = sources


def attribute(item: onnx.AttributeProto) -> Any:
    """An attribute as int, float, str, tuple of them, or array."""
    kinds = onnx.AttributeProto
    if item.type == kinds.INT:
        return item.i
    if item.type == kinds.FLOAT:
        return item.f
    if item.type == kinds.STRING:
        return item.s.decode("utf-8", "replace")
    if item.type == kinds.TENSOR:
        return to_array(item.t, None)
    if item.type == kinds.INTS:
        return tuple(item.ints)
    if item.type == kinds.FLOATS:
        return tuple(item.floats)
    if item.type == kinds.STRINGS:
        return tuple(s.decode("utf-8", "replace") for s in item.strings)
    kind = {v: k for k, v in kinds.AttributeType.items()}.get(item.type, "unknown")
    raise fail(UNSUPPORTED, f"attribute {item.name} of type {kind}")


def pick_outputs(proto: onnx.GraphProto, nodes: list[Node], sizes: Sizes) -> list[str]:
    """The graph's outputs, or the tensors where --outputs cuts it."""
    if not sizes.outputs:
        if not proto.output:
            raise fail(INPUT, "the graph has no output")
        return [value.name for value in proto.output]
    made = {name for node in nodes for name in node.outputs if name}
    for name in sizes.outputs:
        if name not in made:
            raise fail(USAGE, f"--outputs: no node makes '{name}'")
    return list(sizes.outputs)


def check_names(graph: Graph) -> None:
    """Each tensor has one origin, and interface names can be stored."""
    problems = []
    made = set(graph.constants)
    for name in [*graph.inputs, *(o for n in graph.nodes for o in n.outputs if o)]:
        if name in made:
            problems.append(Problem(INPUT, f"tensor '{name}' is made twice"))
        made.add(name)
    for name in [*graph.inputs, *graph.outputs]:
        if not name or not name.isprintable() or len(name.encode()) > 4000:
            text = f"input or output name {name[:40]!r} is empty, not printable or long"
            problems.append(Problem(UNSUPPORTED, text))
    for name in graph.outputs:
        if name not in made:
            problems.append(Problem(INPUT, f"output '{name}' is made by no node"))
    if problems:
        raise CompileError(problems)


def in_order(graph: Graph) -> list[Node]:
    """Nodes sorted by use; missing tensors and cycles are damage."""
    made = {*graph.inputs, *graph.constants}
    problems = []
    everything = made.union(*(node.outputs for node in graph.nodes))
    for node in graph.nodes:
        for name in node.reads():
            if name not in everything:
                where = graph.sources[node.sources[0]]
                text = f"node '{where.name}' ({where.op}) reads '{name}'"
                text += ", which nothing makes"
                problems.append(Problem(INPUT, text, node.sources[0]))
    if problems:
        raise CompileError(problems)
    order, stuck = sort(graph.nodes, made)
    if stuck:
        names = ", ".join(f"'{graph.sources[n.sources[0]].name}'" for n in stuck[:5])
        raise fail(INPUT, f"the graph has a cycle through {names}")
    return order


def read_inputs(graph: Graph, values: list[onnx.ValueInfoProto], sizes: Sizes) -> None:
    """Shapes and types of the inputs, all static afterwards (QC02)."""
    for name in sizes.shapes:
        if name not in graph.inputs:
            there = ", ".join(graph.inputs) or "none"
            raise fail(USAGE, f"--shape: the model has no input '{name}' ({there})")
    symbols: set[str] = set()
    problems = []
    users = graph.users()
    for value in values:
        kind = value.type.tensor_type
        if kind.elem_type not in ELEMENT_TYPES:
            text = f"input '{value.name}': only tensors of numbers are supported"
            problems.append(Problem(UNSUPPORTED, text))
            continue
        user = users.get(value.name)
        reader = graph.sources[user[0].sources[0]].name if user else "nothing"
        try:
            shape = input_shape(value, sizes, symbols, reader)
        except CompileError as error:
            problems += error.problems
            continue
        graph.shapes[value.name] = shape
        graph.dtypes[value.name] = ELEMENT_TYPES[kind.elem_type]
    if problems:
        raise CompileError(problems)
    for symbol in sizes.dims.keys() - symbols:
        graph.warnings.append(f"W04: --dim {symbol}: no input has this extent")


def input_shape(
    value: onnx.ValueInfoProto, sizes: Sizes, symbols: set[str], reader: str
) -> tuple[int, ...]:
    kind = value.type.tensor_type
    given = sizes.shapes.get(value.name)
    symbols.update(d.dim_param for d in kind.shape.dim if d.dim_param)
    if given is not None:
        if kind.HasField("shape") and len(given) != len(kind.shape.dim):
            text = f"--shape: input '{value.name}' has {len(kind.shape.dim)} axes"
            raise fail(SHAPE, text)
        return given
    where = f"input '{value.name}', read by '{reader}'"
    if not kind.HasField("shape"):
        raise fail(SHAPE, f"{where}: no shape; use --shape {value.name}=...")
    shape = []
    for axis, dim in enumerate(kind.shape.dim):
        extent = dim.dim_value if dim.HasField("dim_value") else 0
        if dim.dim_param:
            extent = sizes.dims.get(dim.dim_param, 0)
        if extent < 1:
            symbol = f" ('{dim.dim_param}')" if dim.dim_param else ""
            hint = f"--shape {value.name}=..."
            hint += f" or --dim {dim.dim_param}=1" if dim.dim_param else ""
            text = f"{where}: extent of axis {axis}{symbol} is not known; use {hint}"
            raise fail(SHAPE, text)
        shape.append(extent)
    return tuple(shape)
