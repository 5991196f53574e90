#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What it costs to await an inference, beside the ways that asyncio has to wait.

The partner that answers an eventfd is a thread in C; the ones of
call_soon_threadsafe and of an executor are Python's.
"""
# Rows: P43 P44
import asyncio
import concurrent.futures
import os
import pathlib
import threading
import time

import bench_native
import subject
from subject import Probe, check

NUM_IN_FLIGHT = 10000
LAST = 1 << 32  # ends a partner
TASKS = pathlib.Path("/proc/self/task")


class OnLoop:
    """Awaits once(), again and again."""

    def __init__(self, placement):
        self.placement = placement
        self.loop = asyncio.new_event_loop()
        self.waiter = None

    async def repeat(self, num):
        begin = time.monotonic_ns()
        for _ in range(num):
            await self.once()
        return time.monotonic_ns() - begin

    def run(self, num):
        return self.loop.run_until_complete(self.repeat(num))

    def close(self):
        self.loop.close()


class AddReader(OnLoop):
    def __init__(self, placement):
        super().__init__(placement)
        self.echo, self.ask, self.answer = bench_native.start_echo(placement)
        self.loop.add_reader(self.answer, self.wake)

    def wake(self):
        os.eventfd_read(self.answer)
        self.waiter.set_result(None)

    async def once(self):
        self.waiter = self.loop.create_future()
        os.eventfd_write(self.ask, 1)
        await self.waiter

    def close(self):
        self.loop.remove_reader(self.answer)
        super().close()
        self.echo = None


class CallSoon(OnLoop):
    def __init__(self, placement):
        super().__init__(placement)
        self.ask = os.eventfd(0)
        self.partner = threading.Thread(target=self.answer)
        self.partner.start()

    def answer(self):
        bench_native.place(self.placement, 1, threading.get_native_id())
        while os.eventfd_read(self.ask) < LAST:
            self.loop.call_soon_threadsafe(self.waiter.set_result, None)

    async def once(self):
        self.waiter = self.loop.create_future()
        os.eventfd_write(self.ask, 1)
        await self.waiter

    def close(self):
        os.eventfd_write(self.ask, LAST)
        self.partner.join()
        os.close(self.ask)
        super().close()


class Executor(OnLoop):
    def __init__(self, placement):
        super().__init__(placement)
        self.executor = concurrent.futures.ThreadPoolExecutor(1, initializer=self.place)

    def place(self):
        bench_native.place(self.placement, 1, threading.get_native_id())

    async def once(self):
        await self.loop.run_in_executor(self.executor, bench_native.nothing)

    def close(self):
        self.executor.shutdown()
        super().close()


class Infer(OnLoop):
    """Awaits an inference; the partner is the core, beside us is who calls back."""

    def __init__(self, placement):
        import numpy

        super().__init__(placement)
        self.model = subject.open_model(is_async=True)
        self.array = numpy.frombuffer(subject.BYTES, "u1")
        check(bytes(self.loop.run_until_complete(self.ask())) == subject.BYTES, "await")
        for task in TASKS.iterdir():
            name = (task / "comm").read_text(encoding="utf-8")
            if name.startswith("qbrt-"):
                is_core = name.startswith("qbrt-core")
                bench_native.place(placement, int(is_core), int(task.name))

    async def ask(self):
        return (await self.model.infer_async(self.array))[0]

    async def once(self):
        await self.model.infer_async(self.array)

    def close(self):
        super().close()
        self.model.dispose()


class Many(Infer):
    """All of them are in flight at once; a round is one call."""

    async def once(self):
        await asyncio.gather(*(self.ask() for _ in range(NUM_IN_FLIGHT)))


class ManyPlain(OnLoop):
    """The same of asyncio alone."""

    async def ask(self):
        waiter = self.loop.create_future()
        self.loop.call_soon(waiter.set_result, None)
        await waiter

    async def once(self):
        await asyncio.gather(*(self.ask() for _ in range(NUM_IN_FLIGHT)))


add_reader = Probe("F17 add_reader", AddReader, subject.PYTHON)
call_soon = Probe("F17 call_soon_threadsafe", CallSoon, subject.PYTHON)
executor = Probe("F17 executor", Executor, subject.PYTHON)
infer = Probe("await infer_async()", Infer)
TWO = ["same", "cross"]


def floor(name, probe):
    return {"name": name, "row": "F17", "placements": TWO, "subject": probe}


METRICS = [
    floor("add_reader", add_reader),
    floor("call_soon_threadsafe", call_soon),
    floor("executor", executor),
    {
        "name": "py.await",
        "row": "P43",
        "placements": TWO,
        "subject": infer,
        "floor": add_reader,
        "peer": call_soon,
        "factor": 1.5,
        "target": "<= 1.5 x F17 add_reader",
    },
    {
        "name": "py.await, executor",
        "row": "P43",
        "placements": TWO,
        "subject": infer,
        "floor": executor,
        "factor": 0.6,
        "target": "<= 0.6 x F17 executor",
    },
    {
        "name": "py.await10k",
        "row": "P44",
        "placements": ["free"],
        "subject": Probe("10,000 inferences", Many),
        "floor": Probe("10,000 futures of asyncio's", ManyPlain, subject.PYTHON),
    },
]

if __name__ == "__main__":
    subject.main(METRICS)
