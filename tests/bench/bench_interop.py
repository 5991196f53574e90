#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports and imports of tensors by DLPack, beside NumPy's and torch's own.

The floors are of a C type that does no more than it must (native-dlpack.c).
"""
# Rows: P50 P51 P52 P53 P55 P56 P57
import bench_native
import subject
from subject import KEYWORDS, Probe, check, statement

SHAPE = (64,)


def name_arrays():
    """A buffer and an ndarray with the same elements."""
    import numpy
    import qbruntime
    from qbruntime.payload import Tensor

    acc = qbruntime.Accelerator(subject.DEVICE, 0)
    buf, array = acc.allocate_pinned_memory(SHAPE), numpy.arange(64, dtype="f4")
    buf[:] = array
    taken, tensor = numpy.from_dlpack(buf), Tensor.as_tensor(array)
    check((taken == array).all(), "from_dlpack(buf)")
    check(taken.ctypes.data == numpy.asarray(buf).ctypes.data, "a copy was made")
    check(tensor.data == array.ctypes.data, "as_tensor(array)")
    return {
        "np": numpy,
        "buf": buf,
        "array": array,
        "as_tensor": Tensor.as_tensor,
        "minimal": bench_native.Minimal(),
        "native": bench_native,
    }


def name_torch():
    import torch

    names = name_arrays()
    taken = torch.from_dlpack(names["buf"])
    check(taken.tolist() == names["array"].tolist(), "torch.from_dlpack(buf)")
    return names | {"torch": torch}


def version_of(library):
    try:
        return f"{__import__(library).__version__}, {subject.PYTHON}"
    except ModuleNotFoundError:
        return None


def probe(text, names=name_arrays, library=None):
    """A line, which is a library's own where one is named."""
    if library is None:
        return statement(text, text, names)
    return statement(f"{library}: {text}", text, names, version_of(library))


class Exchange:
    """A call of bench_native, over the exchange table of an object's type."""

    def __init__(self, run, object_name):
        self.loop = run
        self.object = name_arrays()[object_name]

    def run(self, num):
        return self.loop(self.object, num)

    def close(self):
        self.object = None


def exchange(name, run, object_name):
    return Probe(name, lambda placement: Exchange(run, object_name))


def metric(name, row, measured, floor=None, factor=0, **more):
    return {
        "name": name,
        "row": row,
        "placements": ["one"],
        "subject": measured,
        "floor": floor,
        "peer": None,
        "factor": factor,
        **more,
    }


minimal_borrow = exchange("F15 borrowed", bench_native.run_borrow, "minimal")
minimal_own = exchange("F15 owned", bench_native.run_own, "minimal")

METRICS = [
    metric("capsule", "F14", probe("native.capsule()")),
    metric("__dlpack__", "F14", probe("minimal.__dlpack__()")),
    metric(
        "__dlpack__, four keywords",
        "F14",
        probe(f"minimal.__dlpack__({KEYWORDS})"),
    ),
    metric("exchange, borrowed", "F15", minimal_borrow),
    metric("exchange, owned", "F15", minimal_own),
    metric(
        "dlpack.export",
        "P50",
        probe("buf.__dlpack__()"),
        probe("array.__dlpack__()", library="numpy"),
        1.5,
        target="<= 1.5 x NumPy's own",
    ),
    metric(
        "dlpack.export, four keywords",
        "P51",
        probe(f"buf.__dlpack__({KEYWORDS})"),
        probe("buf.__dlpack__()"),
        1,
        extra_ns=30,
        target="<= P50 + 30 ns",
    ),
    metric(
        "np.from_dlpack",
        "P52",
        probe("np.from_dlpack(buf)"),
        probe("np.from_dlpack(array)", library="numpy"),
        1.3,
        target="<= 1.3 x of an ndarray",
    ),
    metric(
        "torch.from_dlpack",
        "P53",
        probe("torch.from_dlpack(buf)", name_torch),
        probe("torch.from_dlpack(array)", name_torch, "torch"),
        1.15,
        target="<= 1.15 x of an ndarray",
    ),
    metric(
        "exchange.borrow",
        "P55",
        exchange("borrowed", bench_native.run_borrow, "buf"),
        minimal_borrow,
        extra_ns=10,
        target="<= 10 ns",
    ),
    metric(
        "exchange.own",
        "P56",
        exchange("owned, and its deleter", bench_native.run_own, "buf"),
        minimal_own,
        extra_ns=40,
        target="<= 40 ns",
    ),
    metric(
        "as_tensor",
        "P57",
        probe("as_tensor(array)"),
        probe("np.from_dlpack(array)", library="numpy"),
        2,
        target="<= 2.0 x np.from_dlpack(ndarray)",
    ),
]

if __name__ == "__main__":
    subject.main(METRICS)
