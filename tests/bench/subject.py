# SPDX-License-Identifier: MIT
"""What the Python programs of this folder measure: see subject.c and native.c.

They need PYTHONPATH=BUILD/python/stage:BUILD/tests/bench/.libs, which report,
counts and test-bench.sh set.
"""
import os
import pathlib
import platform
import signal
import sys
import time
import timeit
import typing

import bench_native

# one core, and the reference kernels
DEVICE = "regulus-ra"
os.environ["QBRUNTIME_SOFT_DEVICES"] = DEVICE
os.environ["QBRUNTIME_SOFT_BACKEND"] = "ref"
# 64 bytes in, the same 64 bytes out
MODEL = pathlib.Path(__file__).resolve().parent.parent / "data/golden/copy64.qbm"
BYTES = bytes(range(64))
PYTHON = f"CPython {platform.python_version()}"
# of __dlpack__()
KEYWORDS = "max_version=(1, 0), dl_device=(1, 0), copy=False, stream=None"


class Probe(typing.NamedTuple):
    """What is measured: open(placement) gives an object with run() and close()."""

    name: str
    open: typing.Callable
    version: typing.Optional[str] = None


class Statement:
    """A line of Python, in the loop that timeit makes of it."""

    def __init__(self, text, names):
        self.timer = timeit.Timer(text, globals=names, timer=time.monotonic_ns)

    def run(self, num):
        return self.timer.timeit(num)

    def close(self):
        self.timer = None


def statement(name, text, make_names, version=PYTHON):
    """A probe of a line; make_names gives what it names, and sees that it works."""
    return Probe(name, lambda placement: Statement(text, make_names()), version)


def check(is_right, what):
    if not is_right:
        raise ValueError(f"a wrong result: {what}")


def open_model(is_async=False):
    """A launched model."""
    import qbruntime

    config = qbruntime.ModelConfig()
    config.set_async_pipeline_enabled(is_async)
    model = qbruntime.Model(str(MODEL), config)
    model.launch(qbruntime.Accelerator(DEVICE, 0))
    return model


def name_pinned():
    model = open_model()
    (x,), (y,) = model.allocate_inputs(), model.allocate_outputs()
    memoryview(x)[:] = BYTES
    model.infer_pinned_memory([x], [y])
    check(bytes(y) == BYTES, "infer_pinned_memory")
    return {"model": model, "x": x, "y": y}


INFER_PINNED = "model.infer_pinned_memory([x], [y])"
pinned = statement("infer_pinned_memory", INFER_PINNED, name_pinned)


def main(metrics, device=f"{DEVICE}:0"):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(bench_native.main(sys.argv, metrics, device))
