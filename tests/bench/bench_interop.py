#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports and imports of tensors by DLPack, beside NumPy's and torch's own."""
# Rows: P50 P51 P52 P53 P57
import subject
from subject import check, statement

SHAPE = (64,)
KEYWORDS = "max_version=(1, 0), dl_device=(1, 0), copy=False, stream=None"


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
    return {"np": numpy, "buf": buf, "array": array, "as_tensor": Tensor.as_tensor}


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


def metric(name, row, measured, floor, factor, **more):
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


METRICS = [
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
