#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is counted of the Python package, and does not depend on time.

Without an argument: P44 and P49, each at most its limit.  count_python.py METRIC:
one loop for callgrind, 100 calls of warm-up and 1,000 that count (see counts).
"""
# Rows: P44 P49 P133 P154 P155 P156 P157 P158
import asyncio
import gc
import os
import subprocess
import sys
import threading

import bench_native
import subject
from subject import check

NUM_IN_FLIGHT = 10000
WARM_UPS = 100
CALLS = 1000
BUFFER = "acc.allocate_pinned_memory((64,), 'float32')"
# set-up of further names, and the call
METRICS = {
    "py.infer": ("", subject.INFER_PINNED),
    "py.read": (f"buf = {BUFFER}", "buf[5]"),
    "py.write": (f"buf = {BUFFER}", "buf[5] = 5.0"),
    "dlpack.export": (f"buf = {BUFFER}", "buf.__dlpack__()"),
    "dlpack.keywords": (f"buf = {BUFFER}", f"buf.__dlpack__({subject.KEYWORDS})"),
    "exchange.borrow": (f"buf = {BUFFER}", "bench_native.run_borrow(buf, 1)"),
    "exchange.own": (f"buf = {BUFFER}", "bench_native.run_own(buf, 1)"),
}
MODULES = """
import sys
import qbruntime
acc = qbruntime.Accelerator("{device}", 0)
model = qbruntime.Model("{model}")
model.launch(acc)
(x,), (y,) = model.allocate_inputs(), model.allocate_outputs()
model.infer_pinned_memory([x], [y])
before = "numpy" in sys.modules
y[5]
print(int(before), int("numpy" in sys.modules))
"""


def loop(name):
    import qbruntime

    setup, call = METRICS[name]
    names = subject.name_pinned()
    names["acc"] = qbruntime.Accelerator(subject.DEVICE, 0)
    names["bench_native"] = bench_native
    exec(setup, names)
    line = compile(f"for _ in range(num): {call}", name, "exec")
    gc.disable()
    exec(line, names | {"num": WARM_UPS})
    bench_native.count_begin()
    exec(line, names | {"num": CALLS})


def show(what, row, value, limit):
    print(f"{what:34} {row} {value}, at most {limit}")
    return value <= limit


def count_modules():
    """NumPy is imported when a scalar is needed, and not before."""
    text = MODULES.format(device=subject.DEVICE, model=subject.MODEL)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    check(after == 1, "a scalar without NumPy")
    return show("import, pinned inference: NumPy", "P49", before, 0)


def count_threads():
    return len(os.listdir("/proc/self/task"))


class Awaits:
    """Many awaits in flight on one loop, all done and none of them resumed yet."""

    def __init__(self):
        import numpy

        self.model = subject.open_model(is_async=True)
        self.array = numpy.frombuffer(subject.BYTES, "u1")

    async def infer(self, kept):
        future = self.model.infer_async(self.array)
        if kept is not None:
            kept.append(future)
        return bytes((await future)[0])

    async def plain(self, kept):
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        loop.call_soon(waiter.set_result, subject.BYTES)
        return await waiter

    async def count(self, ask):
        """Threads and heap bytes more than before."""
        last = []
        found = []

        async def look():
            # its callbacks come after all others
            if last:
                told = threading.Event()
                last[-1].add_done_callback(lambda _: told.set())
                told.wait()
            found.extend((count_threads(), bench_native.heap()))

        threads, heap = count_threads(), bench_native.heap()
        asked = [ask(None) for _ in range(NUM_IN_FLIGHT - 1)] + [ask(last)]
        answers = await asyncio.gather(*asked, look())
        check(answers == [subject.BYTES] * NUM_IN_FLIGHT + [None], "await")
        return found[0] - threads, found[1] and found[1] - heap


def count_awaits():
    """10,000 inferences, less what as many futures of asyncio's own take."""
    # a job that has ended before it is awaited is not in flight
    os.environ["QBRUNTIME_SOFT_FAULT"] = "slow:count=0,ns=10000"
    awaits = Awaits()
    # the library's own threads are there from then on
    asyncio.run(awaits.count(awaits.infer))
    threads, heap = asyncio.run(awaits.count(awaits.infer))
    is_good = show("10,000 awaits, threads", "P44", threads, 0)
    if heap is None:
        print(f"{'an await, heap bytes':34} P44 not counted: a sanitizer has its own")
        return is_good
    _, heap_plain = asyncio.run(awaits.count(awaits.plain))
    each = (heap - heap_plain) // NUM_IN_FLIGHT
    return show("an await, heap bytes", "P44", each, 1024) and is_good


def main():
    if len(sys.argv) == 2 and sys.argv[1] in METRICS:
        loop(sys.argv[1])
        return 0
    if len(sys.argv) > 1:
        print(f"usage: count_python.py [{'|'.join(METRICS)}]", file=sys.stderr)
        return 2
    # all objects of Python's are malloc's then
    if os.environ.get("PYTHONMALLOC") != "malloc":
        environment = os.environ | {"PYTHONMALLOC": "malloc"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    is_good = count_modules()
    is_good = count_awaits() and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
