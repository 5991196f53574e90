# SPDX-License-Identifier: MIT
"""Pass `fuse`: fewer commands for the same numbers (14.3).

Fusions work on the nodes of canon and keep every tensor that someone else
reads. Constants that change are kept in f64 until lower rounds them once, so
that a chain of factors costs one rounding, and the same in every NumPy.
"""

from __future__ import annotations

import copy
import math
from typing import Callable, Optional

import numpy as np

from . import isa_tables as isa
from .canon import ADD, DIV, MUL, SUB
from .graph import Array, Graph, Node

# Names for --no-fuse.
FUSIONS = {
    "batchnorm": "QC20",
    "scale": "QC21",
    "activation": "QC22",
    "residual": "QC24",
    "normalise": "QC47",
}

FUSED_FUNCTIONS = range(1, 7)  # of section 5.6, as far as canon makes them


def fuse(graph: Graph, off: frozenset[str]) -> None:
    """off: names of fusions that shall not happen."""
    for name, rule in RULES:
        if name in off:
            continue
        fusion = Fusion(graph, name)
        # normalise meets std before mean: from the convolution outwards.
        for node in graph.nodes[::-1] if name == "normalise" else graph.nodes:
            if id(node) not in fusion.gone:
                rule(fusion, node)
        left = [n for n in graph.nodes if id(n) not in fusion.gone]
        graph.nodes = sorted(left, key=lambda n: fusion.order[id(n)])
        if fusion.count:
            graph.fused[name] = graph.fused.get(name, 0) + fusion.count
    graph.drop_dead()


def idle(graph: Graph, off: frozenset[str]) -> list[str]:
    """Warnings for fusions that are switched off and would not happen anyway."""
    if not off:
        return []
    trial = copy.copy(graph)
    trial.nodes = [
        Node(n.op, list(n.inputs), list(n.outputs), dict(n.attrs), list(n.sources))
        for n in graph.nodes
    ]
    for part in ("constants", "shapes", "dtypes", "fused"):
        setattr(trial, part, dict(getattr(graph, part)))
    trial.not_fused = []
    trial.sources = copy.deepcopy(graph.sources)
    fuse(trial, frozenset())
    if off == frozenset(FUSIONS):
        return [] if trial.fused else ["W04: -O0: there is nothing to fuse"]
    missed = sorted(off - trial.fused.keys())
    return [f"W04: --no-fuse {name}: there is nothing to fuse" for name in missed]


class Fusion:
    """One rule's run over the graph, and who reads what meanwhile."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.users = graph.users()
        self.makers = graph.makers()
        self.order = {id(node): i for i, node in enumerate(graph.nodes)}
        self.gone: set[int] = set()
        self.count = 0

    def sum_before(self, name: str, reader: Node) -> Optional[Node]:
        """The sum command that makes a tensor which only reader needs."""
        maker = self.makers.get(name)
        if maker is None or maker.op not in ("conv", "matmul"):
            return None
        if len(self.users[name]) > 1 or name in self.graph.results:
            self.refuse([maker, reader], f"'{name}' is read by others too")
            return None
        return maker

    def refuse(self, nodes: list[Node], reason: str) -> None:
        sources = [self.graph.sources[s].name for n in nodes for s in n.sources]
        entry = {"name": self.name, "nodes": sources, "reason": reason}
        self.graph.not_fused.append(entry)

    def absorb(self, keep: Node, other: Node) -> None:
        """keep makes other's result from now on, and in its place."""
        for source in other.sources:
            self.graph.sources[source].rules.append(FUSIONS[self.name])
        keep.sources += other.sources
        keep.outputs = list(other.outputs)
        self.makers[keep.output] = keep
        self.gone.add(id(other))
        self.order[id(keep)] = self.order[id(other)]
        self.count += 1


def plain(node: Node) -> bool:
    """A sum command that has nothing behind its bias yet."""
    return "act" not in node.attrs and not node.inputs[3]


def per_channel(array: Array, node: Node, graph: Graph) -> Optional[Array]:
    """A constant operand as f64 values per output channel of a sum command."""
    shape = graph.shapes[node.output]
    axis = 1 if node.op == "conv" else len(shape) - 1
    if array.ndim > len(shape):
        return None
    wide = (1,) * (len(shape) - array.ndim) + array.shape
    if any(n != 1 for i, n in enumerate(wide) if i != axis):
        return None
    return np.broadcast_to(array.astype(np.float64).ravel(), (shape[axis],))


def fits(f: Fusion, nodes: list[Node], *constants: Array) -> bool:
    """Whether new constants are numbers when they are stored, else refuses.

    What the separate commands compute from the old ones may well be finite.
    """
    if all(np.isfinite(c.astype(np.float32)).all() for c in constants):
        return True
    f.refuse(nodes, "a weight or bias would not be finite in float32")
    return False


def scale_sum(
    f: Fusion, node: Node, other: Node, scale: Optional[Array], shift: Optional[Array]
) -> bool:
    """other, which is y * scale + shift, into node's weights and bias, if it can."""
    graph = f.graph
    weights, bias = node.inputs[1:3]
    if weights not in graph.constants or (bias and bias not in graph.constants):
        return False
    w = graph.constants[weights].astype(np.float64)
    new = graph.constants[bias].astype(np.float64) if bias else np.zeros(1)
    if scale is not None:
        wide = (-1, *[1] * (w.ndim - 1)) if node.op == "conv" else (-1,)
        w, new = w * scale.reshape(wide), new * scale
    new = new if shift is None else new + shift
    if not fits(f, [node, other], w, new):
        return False
    if scale is not None:
        node.inputs[1] = graph.new_constant(weights, w, isa.F32)
    if bias or shift is not None:
        node.inputs[2] = graph.new_constant(bias or "bias", new, isa.F32)
    return True


def batchnorm(f: Fusion, node: Node) -> None:
    """QC20."""
    if node.op != "affine":
        return
    target = f.sum_before(node.inputs[0], node)
    if target is None:
        return
    scale, shift = (
        per_channel(node.attrs[k], target, f.graph) for k in ("scale", "shift")
    )
    if not plain(target) or scale is None or shift is None:
        f.refuse([target, node], "not per output channel")
    elif scale_sum(f, target, node, scale, shift):
        f.absorb(target, node)


def scale(f: Fusion, node: Node) -> None:
    """QC21."""
    graph = f.graph
    if node.op != "binary" or node.attrs["fn"] not in (ADD, SUB, MUL, DIV):
        return
    fn = node.attrs["fn"]
    constant = [i for i in (0, 1) if node.inputs[i] in graph.constants]
    if len(constant) != 1 or (constant == [0] and fn == DIV):
        return
    target = f.sum_before(node.inputs[1 - constant[0]], node)
    if target is None or graph.shapes[target.output] != graph.shapes[node.output]:
        return
    value = per_channel(graph.constants[node.inputs[constant[0]]], target, graph)
    if not plain(target) or value is None:
        f.refuse([target, node], "not a scalar or per output channel")
        return
    one = np.ones(1)
    if fn == MUL:
        done = scale_sum(f, target, node, value, None)
    elif fn == DIV:
        done = scale_sum(f, target, node, one / value, None)
    elif fn == ADD:
        done = scale_sum(f, target, node, None, value)
    elif constant == [0]:
        done = scale_sum(f, target, node, -one, value)
    else:
        done = scale_sum(f, target, node, None, -value)
    if done:
        f.absorb(target, node)


def residual(f: Fusion, node: Node) -> None:
    """QC24: of two sums the later one takes the other as its residual."""
    graph = f.graph
    if node.op != "binary" or node.attrs["fn"] != ADD:
        return
    if graph.dtypes[node.output] != isa.F32:
        return
    found = []
    for i in (0, 1):
        target = f.sum_before(node.inputs[i], node)
        if target is not None:
            found.append((f.order[id(target)], i, target))
    if not found:
        return
    _, i, target = max(found)
    other = node.inputs[1 - i]
    if not graph.shapes[node.inputs[0]] == graph.shapes[node.inputs[1]]:
        f.refuse([target, node], "the summand has other extents")
    elif not plain(target):
        f.refuse([target, node], "the sum has an activation or a residual already")
    else:
        target.inputs[3] = other
        f.absorb(target, node)


def activation(f: Fusion, node: Node) -> None:
    """QC22."""
    if node.op != "unary" or node.attrs["fn"] not in FUSED_FUNCTIONS:
        return
    target = f.sum_before(node.inputs[0], node)
    if target is None:
        return
    if "act" in target.attrs:
        f.refuse([target, node], "a command has one activation")
        return
    target.attrs["act"] = (node.attrs["fn"], node.attrs["a"], node.attrs["b"])
    f.absorb(target, node)


def normalise(f: Fusion, node: Node) -> None:
    """QC47: 1 / std into the first convolution's weights, mean into its bias."""
    graph = f.graph
    if node.op != "binary" or "norm" not in node.attrs:
        return
    users = f.users.get(node.output, [])
    convs = [n for n in users if n.op == "conv" and n.inputs[0] == node.output]
    if len(convs) != 1 or len(users) != 1 or node.output in graph.results:
        f.refuse([*users], "not one convolution alone reads the input")
        return
    (target,) = convs
    value = graph.constants[node.inputs[1]].astype(np.float64)
    window = target.attrs["window"]
    if value.shape[1:2] not in ((1,), (graph.shapes[node.output][1],)):
        return
    if node.attrs["fn"] == SUB and any(window.before + window.after):
        f.refuse([target], "a border of zeros is not a border of means")
        return
    weights = graph.constants[target.inputs[1]].astype(np.float64)
    groups = target.attrs["groups"]
    factor = np.broadcast_to(value.ravel(), (graph.shapes[node.output][1],))
    # Channel of the input that each weight [k, c] meets.
    outer = len(weights) // groups
    channel = np.add.outer(
        np.arange(len(weights)) // outer * weights.shape[1], np.arange(weights.shape[1])
    )
    wide = factor[channel].reshape(*channel.shape, *[1] * (weights.ndim - 2))
    new = weights / wide if node.attrs["fn"] == DIV else weights * wide
    if not fits(f, [target], new):
        return
    if node.attrs["fn"] == DIV:
        target.inputs[1] = graph.new_constant(target.inputs[1], new, isa.F32)
    else:
        # fsum: exact, so the order of summation cannot matter (QC14).
        sums = [math.fsum(row.ravel()) for row in new]
        old = graph.constants[target.inputs[2]] if target.inputs[2] else np.zeros(1)
        bias = old.astype(np.float64) - np.array(sums)
        if not fits(f, [target], bias):
            return
        target.inputs[2] = graph.new_constant("bias", bias, isa.F32)
    target.inputs[0] = node.inputs[0]
    f.users[node.inputs[0]] = [target]
    f.gone.add(id(node))
    f.count += 1


RULES: list[tuple[str, Callable[[Fusion, Node], None]]] = [
    ("batchnorm", batchnorm),
    ("scale", scale),
    ("residual", residual),
    ("activation", activation),
    ("normalise", normalise),
]
