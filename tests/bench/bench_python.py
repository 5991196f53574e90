#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What Python adds: a call, access to elements, the import.

A statement is timed in the loop that timeit makes of it, its floor in the same.
The C call under infer_pinned_memory() is measured beside it, in this process, by
the same library, on a model of its own of the same file: one round has both.
"""
# Rows: P40 P42 P45 P46 P47 P48 P49 Q821
import subprocess
import sys

import bench_native
import subject
from subject import Probe, check, statement


class Call:
    """The C call under infer_pinned_memory()."""

    def __init__(self, placement):
        self.call = bench_native.open_call(str(subject.MODEL), subject.DEVICE)

    def run(self, num):
        return bench_native.run_call(self.call, num)

    def close(self):
        self.call = None


class PinnedAndCopies(subject.Statement):
    """infer_pinned_memory(), and copies of what infer() has to copy (F11)."""

    def __init__(self, placement):
        super().__init__(subject.INFER_PINNED, subject.name_pinned())
        self.copy = bench_native.open_copy(len(subject.BYTES))

    def run(self, num):
        copies = bench_native.run_copy(self.copy, 2 * num)
        return super().run(num) + copies


class Gil:
    """Given up and taken, in a loop in C."""

    def __init__(self, placement):
        pass

    def run(self, num):
        return bench_native.run_gil(num)

    def close(self):
        pass


IMPORT = """
import sys
from time import monotonic_ns
begin = monotonic_ns()
import {0}
end = monotonic_ns()
assert "numpy" not in sys.modules, "NumPy was imported"
print(end - begin)
"""


class Import:
    """The import alone, each time in a new process."""

    def __init__(self, module):
        self.command = [sys.executable, "-c", IMPORT.format(module)]

    def run(self, num):
        return sum(
            int(subprocess.run(self.command, check=True, capture_output=True).stdout)
            for _ in range(num)
        )

    def close(self):
        pass


def name_infer():
    import numpy

    model, array = subject.open_model(), numpy.frombuffer(subject.BYTES, "u1")
    check(bytes(model.infer(array)[0]) == subject.BYTES, "infer")
    return {"model": model, "array": array}


def name_buffers():
    """A buffer and an ndarray of one axis and of two, with the same elements."""
    import numpy
    import qbruntime

    acc = qbruntime.Accelerator(subject.DEVICE, 0)
    names = {"np": numpy}
    for which, shape in (("1", (64,)), ("2", (64, 64))):
        array = numpy.arange(numpy.prod(shape), dtype="f4").reshape(shape)
        buf = acc.allocate_pinned_memory(shape, "float32")
        buf[:] = array
        check((numpy.asarray(buf) == array).all(), "buf[:] = array")
        names |= {"buf" + which: buf, "array" + which: array}
    read, read_2d = names["buf1"][5], names["buf2"][5, 7]
    check((read, read_2d) == (5, 5 * 64 + 7), "buf[i]")
    check(type(read) is type(read_2d) is numpy.float32, "the type of buf[i]")
    check((names["buf1"][:10] == names["array1"][:10]).all(), "buf[:10]")
    return names | {"view": memoryview(names["buf1"]), "list": list(range(64))}


def numpy_version():
    try:
        import numpy
    except ModuleNotFoundError:
        return None
    return f"{numpy.__version__}, {subject.PYTHON}"


def ours(text):
    return statement(text, text, name_buffers)


def theirs(text):
    return statement(f"NumPy: {text}", text, name_buffers, numpy_version())


def floor_call(name, text):
    return statement(
        name, text, lambda: {"native": bench_native, "a": bytearray(64), "b": b"1"}
    )


nothing = floor_call("F12 call, no argument", "native.nothing()")
one_buffer = floor_call("F12 call, one buffer", "native.one_buffer(a)")
two_buffers = floor_call("F12 call, two buffers", "native.two_buffers(a, b)")
view_item = statement("F16 memoryview[i]", "view[5]", name_buffers)
list_item = statement("F16 list[i]", "list[5]", name_buffers)
importing = {
    name: Probe(f"import {name}", lambda placement, name=name: Import(name))
    for name in ("qbruntime", "ctypes")
}


def metric(name, row, probe, floor=None, peer=None, **target):
    return {
        "name": name,
        "row": row,
        "placements": ["one"],
        "subject": probe,
        "floor": floor,
        "peer": peer,
        **target,
    }


def times_numpy(factor):
    return {"factor": factor, "target": f"<= {factor} x NumPy's own"}


METRICS = [
    metric("call, no argument", "F12", nothing),
    metric("call, one buffer", "F12", one_buffer),
    metric("call, two buffers, GIL", "F12", two_buffers),
    metric("GIL", "F13", Probe("F13 GIL given up and taken", Gil)),
    metric("memoryview[i]", "F16", view_item),
    metric("list[i]", "F16", list_item),
    metric(
        "py.infer_pinned",
        "P40",
        subject.pinned,
        Probe("the C call", Call),
        two_buffers,
        factor=1,
        extra_ns=400,
        target="<= the C call + 0.4 us",
    ),
    metric(
        "py.infer",
        "P42",
        statement("infer", "model.infer(array)", name_infer),
        Probe("infer_pinned_memory and F11", PinnedAndCopies),
        factor=1,
        extra_ns=2000,
        target="<= P40's call + F11 of its bytes + 2.0 us",
    ),
    metric(
        "py.read",
        "P45",
        ours("buf1[5]"),
        theirs("array1[5]"),
        view_item,
        **times_numpy(1.5),
    ),
    metric(
        "py.read, 2-D",
        "P45",
        ours("buf2[5, 7]"),
        theirs("array2[5, 7]"),
        view_item,
        **times_numpy(1.5),
    ),
    metric(
        "py.write",
        "P46",
        ours("buf1[5] = 5.0"),
        theirs("array1[5] = 5.0"),
        list_item,
        **times_numpy(1.0),
    ),
    metric(
        "py.write, 2-D",
        "P46",
        ours("buf2[5, 7] = 5.0"),
        theirs("array2[5, 7] = 5.0"),
        list_item,
        **times_numpy(1.0),
    ),
    metric(
        "py.slice",
        "P47",
        ours("buf1[:10]"),
        theirs("array1[:10]"),
        **times_numpy(1.5),
    ),
    metric(
        "py.asarray",
        "P48",
        ours("np.asarray(buf1)"),
        theirs("np.asarray(view)"),
        factor=1.2,
        target="<= 1.2 x np.asarray(memoryview)",
    ),
    metric("py.import", "P49", importing["qbruntime"], importing["ctypes"]),
]

if __name__ == "__main__":
    subject.main(METRICS)
