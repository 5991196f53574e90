#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls of other libraries that do the same job, each where it is installed."""
# Rows: P41
import subject
from subject import Probe, Statement


def open_tvm_ffi(placement):
    """A call that does nothing with three tensors of its own."""
    import tvm_ffi
    import numpy

    names = {"call": tvm_ffi.get_global_func("testing.nop")}
    for name in "abc":
        names[name] = tvm_ffi.from_dlpack(numpy.zeros(64, "u1"))
    return Statement("call(a, b, c)", names)


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
]

if __name__ == "__main__":
    subject.main(METRICS)
