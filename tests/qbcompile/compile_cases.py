# SPDX-License-Identifier: MIT
"""Models for the tests of qbcompile, and the comparison that most of them make.

agree() compiles a model and evaluates both sides in f64: the graph as ONNX
words its nodes, the program as the device would run it. Only rounding of
constants to f32 separates them.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any, Optional, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qbcompile import cli, container, evaluate, fold, load

TOP = Path(os.environ.get("QBRUNTIME_TEST_TOP", Path(__file__).parents[2]))
DIGITS = TOP / "examples/digits.onnx"
TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "h": TensorProto.FLOAT16}


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    """Names are separated by blanks; `-` is an operand that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=f"n_{outputs}", **attrs)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[Any]],
    outputs: Sequence[str] = ("y",),
    constants: Optional[dict[str, np.ndarray]] = None,
    opset: int = 13,
    kind: str = "f",
) -> bytes:
    """Inputs by name with their shapes; outputs need no shape."""
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes),
        "g",
        [tensor(name, TYPES[kind], shape) for name, shape in inputs.items()],
        [tensor(name, TYPES[kind], None) for name in outputs],
        [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 7
    return proto.SerializeToString()


class Outcome:
    """What qbcompile did: exit code, its words, and the file if there is one."""

    def __init__(
        self, folder: Path, data: bytes, options: Sequence[str], older: bytes = b""
    ) -> None:
        """older: what stands in the result's place before."""
        source, self.path = folder / "m.onnx", folder / "m.qbm"
        source.write_bytes(data)
        self.path.unlink(missing_ok=True)
        if older:
            self.path.write_bytes(older)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.code = cli.main([str(source), "-o", str(self.path), *options])
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def file(self) -> container.File:
        assert self.code == 0, self.err
        return container.read(self.path.read_bytes())

    @property
    def opcodes(self) -> list[str]:
        return [command.opcode for command in self.file.programs[0].commands]


def permutation(io_entry: container.Io) -> list[int]:
    """Source axes in the order of the device's; identity where none is stored."""
    if io_entry.source_perm is None:
        return list(range(len(io_entry.shape) + (io_entry.flags & 1)))
    return [axis for axis in io_entry.source_perm if axis != 255]


def to_device(io_entry: container.Io, array: np.ndarray) -> np.ndarray:
    """An array in the model's axes as the pinned buffer holds it."""
    return np.ascontiguousarray(array.transpose(permutation(io_entry)))


def from_device(io_entry: container.Io, array: np.ndarray) -> np.ndarray:
    perm = permutation(io_entry)
    source = array.shape if io_entry.source_shape is None else io_entry.source_shape
    return array.reshape([source[axis] for axis in perm]).transpose(np.argsort(perm))


def both(
    folder: Path,
    data: bytes,
    feeds: dict[str, np.ndarray],
    options: Sequence[str] = (),
    sizes: Optional[load.Sizes] = None,
) -> tuple[Outcome, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Outcome, outputs of the program, outputs of the graph."""
    outcome = Outcome(folder, data, options)
    file = outcome.file
    entries = {entry.name: entry for entry in file.ios}
    device = {name: to_device(entries[name], array) for name, array in feeds.items()}
    got = {
        name: from_device(entries[name], array)
        for name, array in evaluate.run(file, device).items()
    }
    graph = load.load(data, None, sizes or load.Sizes())
    fold.infer(graph)
    return outcome, got, evaluate.run_graph(graph, feeds)


def agree(
    folder: Path,
    data: bytes,
    feeds: dict[str, np.ndarray],
    options: Sequence[str] = (),
    tolerance: float = 1e-5,
) -> Outcome:
    """The program gives what the graph gives; returns the outcome."""
    outcome, got, expected = both(folder, data, feeds, options)
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert got[name].shape == array.shape
        scale = max(1.0, float(np.abs(array).max()))
        assert np.abs(got[name] - array).max() <= tolerance * scale, name
    return outcome


def random_net(seed: int) -> tuple[bytes, dict[str, np.ndarray]]:
    """A small network of convolutions, pools, branches and a head."""
    rng = np.random.default_rng(seed)
    size, channels = int(rng.integers(5, 10)), int(rng.integers(1, 5))
    nodes, constants = [], {}
    names = iter(f"t{i}" for i in range(1000))

    def weight(*shape: int) -> str:
        name = next(names)
        constants[name] = rng.normal(0, 0.5, shape).astype(np.float32)
        return name

    def add(op: str, inputs: str, **attrs: Any) -> str:
        out = next(names)
        nodes.append(node(op, inputs, out, **attrs))
        return out

    def conv(x: str, old: int, new: int, **attrs: Any) -> str:
        groups = attrs.get("group", 1)
        bias = weight(new) if rng.random() < 0.7 else ""
        w = weight(new, old // groups, 3, 3)
        y = add("Conv", f"{x} {w} {bias}", pads=[1, 1, 1, 1], **attrs)
        if rng.random() < 0.3:
            constants[v := next(names)] = rng.uniform(0.5, 2, new).astype(np.float32)
            parts = f"{y} {weight(new)} {weight(new)} {weight(new)} {v}"
            y = add("BatchNormalization", parts)
        return y

    shape = [1, channels, size, size]
    x = "x"
    for _ in range(int(rng.integers(2, 6))):
        kind = rng.integers(0, 7)
        if kind == 0:
            new = int(rng.integers(1, 9))
            x, channels = conv(x, channels, new), new
            x = add(str(rng.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu"])), x)
        elif kind == 1:
            other = conv(x, channels, channels)
            x = add("Add", f"{other} {x}" if rng.random() < 0.5 else f"{x} {other}")
            x = add("Relu", x) if rng.random() < 0.5 else x
        elif kind == 2:
            x = conv(x, channels, channels, group=channels)
        elif kind == 3 and size >= 4:
            ceil = int(rng.integers(0, 2))
            shape_of_pool = {
                "kernel_shape": [3, 2],
                "strides": [2, 1],
                "ceil_mode": ceil,
            }
            x = add("MaxPool", x, **shape_of_pool)
            x = conv(x, channels, channels, strides=[1, 2])
            size = 0
        elif kind == 4:
            op = str(rng.choice(["Mul", "Add", "Sub"]))
            operands = [x, weight(channels, 1, 1)]
            x = add(op, " ".join(operands if rng.random() < 0.5 else operands[::-1]))
        elif kind == 5:
            x = add("Max", f"{x} {conv(x, channels, channels)}")
        else:
            x = add("Transpose", x, perm=[0, 1, 3, 2])
            x = conv(x, channels, channels)
        if size == 0:
            break
    x = add("Flatten", x)
    nodes.append(node("Relu", x, "y"))
    feeds = {"x": rng.normal(0, 1, shape).astype(np.float32)}
    return model(nodes, {"x": shape}, constants=constants), feeds
