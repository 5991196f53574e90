# SPDX-License-Identifier: MIT
"""Functions that a model defines itself, put in place of their calls (QC01).

Each call gets its own copy of the function's nodes, with names of its own.
Calls may nest, not recurse; the number of nodes is bounded before they exist,
since functions that call one another twice grow with every level.
"""

from __future__ import annotations

from typing import Iterator

import onnx

from .graph import INPUT, LIMIT, UNSUPPORTED, fail

MAX_NODES = 1 << 17
MAX_DEPTH = 32
Functions = dict[tuple[str, str], onnx.FunctionProto]


def inline(model: onnx.ModelProto, opset: int) -> list[tuple[onnx.NodeProto, int]]:
    """All nodes with calls replaced, each with the index of its source node."""
    known: Functions = {}
    for function in model.functions:
        if (function.domain, function.name) in known:
            raise fail(INPUT, f"function '{function.name}' is defined twice")
        known[function.domain, function.name] = function
    nodes: list[tuple[onnx.NodeProto, int]] = []
    for index, node in enumerate(model.graph.node):
        for item in expand(node, known, opset, 0, str(index)):
            nodes.append((item, index))
            if len(nodes) > MAX_NODES:
                raise fail(LIMIT, f"more than {MAX_NODES} nodes")
    return nodes


def expand(
    node: onnx.NodeProto, known: Functions, opset: int, depth: int, path: str
) -> Iterator[onnx.NodeProto]:
    """The node itself, or the nodes of the function that it calls."""
    function = known.get((node.domain, node.op_type))
    if function is None or node.domain in ("", "ai.onnx"):
        yield node
        return
    where = f"function '{function.name}'"
    if len(node.input) > len(function.input) or len(node.output) > len(function.output):
        raise fail(INPUT, f"{where}: a call has more operands or results than it")
    if depth == MAX_DEPTH:
        raise fail(INPUT, f"{where}: calls nest deeper than {MAX_DEPTH}")
    for entry in function.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version != opset:
            text = f"{where} imports opset {entry.version}, the model {opset}"
            raise fail(UNSUPPORTED, text)
    names = {"": ""}
    for i, name in enumerate(function.input):
        names[name] = node.input[i] if i < len(node.input) else ""
    for name, result in zip(function.output, node.output):
        if name in names:  # handed through
            yield onnx.helper.make_node("Identity", [names[name]], [result])
        elif result:
            names[name] = result
    for step, inner in enumerate(function.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        for field in (copy.input, copy.output):
            field[:] = [names.setdefault(n, f"{path}/{n}") for n in field]
        bind_attributes(copy, node, function)
        yield from expand(copy, known, opset, depth + 1, f"{path}/{step}")


def bind_attributes(
    inner: onnx.NodeProto, call: onnx.NodeProto, function: onnx.FunctionProto
) -> None:
    """Attributes that refer to the function's own: the call's, the default, none."""
    given = {item.name: item for item in getattr(function, "attribute_proto", ())}
    given.update({item.name: item for item in call.attribute})
    for i in reversed(range(len(inner.attribute))):
        item = inner.attribute[i]
        if not item.ref_attr_name:
            continue
        name, value = item.name, given.get(item.ref_attr_name)
        if value is None:
            del inner.attribute[i]
        else:
            item.CopyFrom(value)
            item.name = name
