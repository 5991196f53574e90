#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls of other libraries that do the same job, each where it is installed."""
# Rows: P41 P54
import subject
from subject import Probe, Statement, check, statement


def open_tvm_ffi(placement):
    """A call that does nothing with three tensors of its own."""
    import tvm_ffi
    import numpy

    names = {"call": tvm_ffi.get_global_func("testing.nop")}
    for name in "abc":
        names[name] = tvm_ffi.from_dlpack(numpy.zeros(64, "u1"))
    return Statement("call(a, b, c)", names)


def name_takers():
    import numpy
    import qbruntime
    import tvm_ffi

    acc = qbruntime.Accelerator(subject.DEVICE, 0)
    buf, array = acc.allocate_pinned_memory((64,), "u1"), numpy.zeros(64, "u1")
    taken = tvm_ffi.from_dlpack(buf)
    check(taken.data_ptr() == buf.tensor().data, "tvm_ffi.from_dlpack(buf)")
    return {"from_dlpack": tvm_ffi.from_dlpack, "buf": buf, "array": array}


METRICS = [
    {
        "name": "py.infer_pinned, tvm-ffi",
        "row": "P41",
        "placements": ["one"],
        "subject": subject.pinned,
        "floor": Probe("tvm-ffi, three tensors", open_tvm_ffi, subject.PYTHON),
        "factor": 1,
        "target": "<= 1.0 x a tvm-ffi call with three tensors",
    },
    {
        "name": "tvm_ffi.from_dlpack",
        "row": "P54",
        "placements": ["one"],
        "subject": statement("from_dlpack(buf)", "from_dlpack(buf)", name_takers),
        "floor": statement(
            "tvm-ffi: from_dlpack(array)", "from_dlpack(array)", name_takers
        ),
        "factor": 1.1,
        "target": "<= 1.1 x of an ndarray",
    },
]

if __name__ == "__main__":
    subject.main(METRICS)
