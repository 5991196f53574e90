# SPDX-License-Identifier: MIT
"""The operators that the compiler takes: versions, operand counts, types.

One OpDef per ONNX operator; --list-ops prints this table and check() holds a
node against it. The shape rules stand in shapes.py.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

import onnx

from . import isa_tables as isa
from . import shapes
from .graph import INPUT, LIMIT, MAX_AXES, MAX_EXTENT, MAX_SPAN, UNSUPPORTED
from .graph import Graph, Node, Refused, elements
from .facts import Facts
from .shapes import Outputs

OLDEST_OPSET, NEWEST_OPSET = 7, 23


@dataclasses.dataclass(frozen=True)
class OpDef:
    """types: what may come at run time; "" for operators that must fold."""

    versions: tuple[int, ...]
    operands: tuple[int, int]
    attrs: str
    shape: Callable[[Facts], Outputs]
    types: str = "float32"
    note: str = ""
    outputs: int = 1


NUMBERS = "float32 int32 int64"
ANY = "any"
MANY = 1 << 16
_WINDOW = "auto_pad dilations kernel_shape pads strides"
_POOL = _WINDOW + " ceil_mode storage_order"

OPS = {
    "Abs": OpDef((6, 13), (1, 1), "", shapes.same, NUMBERS),
    "Add": OpDef((7, 13, 14), (2, 2), "", shapes.elementwise, NUMBERS),
    "BatchNormalization": OpDef(
        (7, 9, 14, 15),
        (5, 5),
        "epsilon momentum training_mode spatial",
        shapes.batch_norm,
        note="constant parameters, inference",
        outputs=5,
    ),
    "Cast": OpDef((6, 9, 13, 19, 21, 23), (1, 1), "to saturate", shapes.cast, ANY),
    "Clip": OpDef((6, 11, 12, 13), (1, 3), "min max", shapes.clip, NUMBERS),
    "Concat": OpDef((4, 11, 13), (1, MANY), "axis", shapes.concat, ""),
    "Constant": OpDef(
        (1, 9, 11, 12, 13, 19, 21, 23),
        (0, 0),
        "value value_float value_floats value_int value_ints value_string "
        "value_strings sparse_value",
        shapes.constant,
        "",
        "dense numbers",
    ),
    "ConstantOfShape": OpDef(
        (9, 20, 21, 23), (1, 1), "value", shapes.constant_of_shape, ""
    ),
    "Conv": OpDef(
        (1, 11, 22),
        (2, 3),
        _WINDOW + " group",
        shapes.conv,
        note="1 or 2 spatial axes, constant weights and bias",
    ),
    "Div": OpDef((7, 13, 14), (2, 2), "", shapes.elementwise, NUMBERS),
    "Dropout": OpDef(
        (7, 10, 12, 13, 22), (1, 3), "ratio seed", shapes.dropout, ANY, "inference", 2
    ),
    "Erf": OpDef((9, 13), (1, 1), "", shapes.same),
    "Exp": OpDef((6, 13), (1, 1), "", shapes.same),
    "Flatten": OpDef((1, 9, 11, 13, 21, 23), (1, 1), "axis", shapes.flatten, ANY),
    "Gather": OpDef((1, 11, 13), (2, 2), "axis", shapes.gather, ""),
    "Gemm": OpDef((7, 9, 11, 13), (2, 3), "alpha beta transA transB", shapes.gemm),
    "HardSigmoid": OpDef((6, 22), (1, 1), "alpha beta", shapes.same),
    "HardSwish": OpDef((14, 22), (1, 1), "", shapes.same),
    "Identity": OpDef((1, 13, 14, 16, 19, 21, 23), (1, 1), "", shapes.same, ANY),
    "LeakyRelu": OpDef((6, 16), (1, 1), "alpha", shapes.same),
    "Log": OpDef((6, 13), (1, 1), "", shapes.same),
    "MatMul": OpDef((1, 9, 13), (2, 2), "", shapes.matmul),
    "Max": OpDef((6, 8, 12, 13), (1, MANY), "", shapes.elementwise, NUMBERS),
    "MaxPool": OpDef(
        (1, 8, 10, 11, 12, 22),
        (1, 1),
        _POOL,
        shapes.max_pool,
        note="1 or 2 spatial axes, first output only",
        outputs=2,
    ),
    "Min": OpDef((6, 8, 12, 13), (1, MANY), "", shapes.elementwise, NUMBERS),
    "Mul": OpDef((7, 13, 14), (2, 2), "", shapes.elementwise, NUMBERS),
    "Neg": OpDef((6, 13), (1, 1), "", shapes.same, NUMBERS),
    "Reciprocal": OpDef((6, 13), (1, 1), "", shapes.same),
    "Relu": OpDef((6, 13, 14), (1, 1), "", shapes.same),
    "Reshape": OpDef(
        (5, 13, 14, 19, 21, 23),
        (2, 2),
        "allowzero",
        shapes.reshape,
        ANY,
        "constant shape",
    ),
    "Shape": OpDef((1, 13, 15, 19, 21, 23), (1, 1), "start end", shapes.shape_of, ANY),
    "Sigmoid": OpDef((6, 13), (1, 1), "", shapes.same),
    "Slice": OpDef((1, 10, 11, 13), (1, 5), "starts ends axes", shapes.slice_, ""),
    "Sqrt": OpDef((6, 13), (1, 1), "", shapes.same),
    "Squeeze": OpDef(
        (1, 11, 13, 21, 23), (1, 2), "axes", shapes.squeeze, ANY, "constant axes"
    ),
    "Sub": OpDef((7, 13, 14), (2, 2), "", shapes.elementwise, NUMBERS),
    "Sum": OpDef((6, 8, 13), (1, MANY), "", shapes.elementwise, NUMBERS),
    "Tanh": OpDef((6, 13), (1, 1), "", shapes.same),
    "Transpose": OpDef((1, 13, 21, 23), (1, 1), "perm", shapes.transpose, ANY),
    "Unsqueeze": OpDef(
        (1, 11, 13, 21, 23), (1, 2), "axes", shapes.unsqueeze, ANY, "constant axes"
    ),
}


def check(graph: Graph, node: Node) -> OpDef:
    """The definition of a node's operator, or why there is none."""
    if node.op not in OPS:
        raise Refused(UNSUPPORTED, "this operator is not supported")
    known = OPS[node.op]
    if graph.opset < known.versions[0]:
        text = f"the operator came with opset {known.versions[0]}"
        raise Refused(INPUT, text)
    if graph.opset > NEWEST_OPSET:
        newest = onnx.defs.onnx_opset_version()
        if newest < graph.opset:
            text = f"supported: opset {OLDEST_OPSET} to {NEWEST_OPSET}"
            raise Refused(UNSUPPORTED, text)
        since = onnx.defs.get_schema(node.op, graph.opset).since_version
        if since not in known.versions:
            text = f"version {since} of the operator; supported: {known.versions}"
            raise Refused(UNSUPPORTED, text)
    low, high = known.operands
    required = node.inputs if high == MANY else node.inputs[:low]
    if not low <= len(node.inputs) <= high or not all(required):
        raise Refused(INPUT, f"{len(node.inputs)} operands, or an empty one")
    for name in node.attrs:
        if name not in known.attrs.split():
            raise Refused(UNSUPPORTED, "unknown attribute", name)
    if any(node.outputs[1:]) and node.op == "Constant":
        raise Refused(INPUT, "more than one output")
    return known


def check_sizes(outputs: Outputs) -> None:
    """Extents and sizes that no view of the device could have."""
    for dtype, shape in outputs:
        if len(shape) > MAX_AXES:
            raise Refused(LIMIT, f"{len(shape)} axes; at most {MAX_AXES}")
        if max(shape, default=1) > MAX_EXTENT:
            raise Refused(LIMIT, f"{list(shape)}: an extent above {MAX_EXTENT}")
        # An extent of 0 does not make the others any better.
        if elements(n or 1 for n in shape) * isa.DTYPE_SIZES[dtype] > MAX_SPAN:
            raise Refused(LIMIT, f"{list(shape)}: a tensor above 4 GiB")
