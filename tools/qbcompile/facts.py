# SPDX-License-Identifier: MIT
"""What a rule may ask about one ONNX node: operands, constants, attributes.

Every answer is checked: an attribute of the wrong type, an operand that had to
be constant, an axis that is not there raise Refused, which names the reason.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from .graph import INPUT, SHAPE, UNSUPPORTED, Array, Graph, Node, Refused

Shape = tuple[int, ...]


class Facts:
    """What is known about a node's operands and attributes."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node
        self.opset = graph.opset

    def has(self, index: int) -> bool:
        return len(self.node.inputs) > index and bool(self.node.inputs[index])

    def shape(self, index: int) -> Shape:
        return self.graph.shapes[self.node.inputs[index]]

    def dtype(self, index: int) -> int:
        return self.graph.dtypes[self.node.inputs[index]]

    def is_constant(self, index: int) -> bool:
        return self.node.inputs[index] in self.graph.constants

    def constant(self, index: int, what: str) -> Array:
        """Values of an operand that must not depend on run-time data."""
        if not self.is_constant(index):
            raise Refused(UNSUPPORTED, f"input {what} is not a constant")
        return self.graph.constants[self.node.inputs[index]]

    def whole(self, index: int, what: str) -> list[int]:
        """A constant operand as a list of whole numbers."""
        array = self.constant(index, what)
        if array.dtype.kind not in "iu" or array.size > 64:
            raise Refused(INPUT, f"input {what} is not a short list of integers")
        return [int(v) for v in array.ravel()]

    def attr(self, name: str, default: Any) -> Any:
        """An attribute of the default's type."""
        value = self.node.attrs.get(name, default)
        if default is not None and type(value) is not type(default):
            raise Refused(INPUT, "has the wrong type", name)
        return value

    def number(self, name: str, default: float) -> float:
        value: float = self.attr(name, default)
        if not np.isfinite(value):
            raise Refused(UNSUPPORTED, "not a finite number", name)
        return value

    def ints(self, name: str, default: Optional[Sequence[int]]) -> Optional[Shape]:
        value = self.node.attrs.get(name)
        if value is None:
            return None if default is None else tuple(default)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise Refused(INPUT, "has the wrong type", name)
        return value

    def axis(self, value: int, rank: int, name: str = "axis") -> int:
        if not -rank <= value < rank:
            raise Refused(SHAPE, f"axis {value} of a tensor with {rank} axes", name)
        return value % rank
