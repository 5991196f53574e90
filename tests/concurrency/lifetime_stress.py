# SPDX-License-Identifier: MIT
"""Threads that allocate, index, view, export, free, infer, close and open at random.

    lifetime_stress.py MODEL OPERATIONS SEED

The model copies 64 bytes. What a thread makes any other may use, free or drop.
Prints what was done; a wrong exception or a wrong byte ends it with status 1.
"""

import collections
import gc
import operator
import os
import random
import sys
import threading
import traceback

import numpy as np
import qbruntime
from qbruntime import StatusCode

NUM_THREADS = 8
NUM_SLOTS = 12
SIZE = 64


class Shared:
    """What all threads have: the device and its model, buffers, and views."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.errors = []
        self.done = collections.Counter()
        self.held = []
        self.opened = None
        self.reopen()
        acc = self.opened[0]
        self.slots = [acc.allocate_pinned_memory(SIZE, "u1") for _ in range(NUM_SLOTS)]

    def reopen(self):
        acc, model = qbruntime.Accelerator(), qbruntime.Model(self.path)
        model.launch(acc)
        with self.lock:
            last, self.opened = self.opened, (acc, model)
        if last:
            last[1].dispose()
            last[0].close()

    def close(self):
        self.opened[1].dispose()
        self.opened[0].close()
        self.opened = None

    def drop(self):
        self.slots.clear()
        self.held.clear()


class Worker:
    # what others have freed, use, or have closed, then in the middle of a job
    expected = (
        StatusCode.PinnedMemory_NotAvailable,
        StatusCode.PinnedMemory_InUse,
        StatusCode.Model_NotAlive,
        StatusCode.Model_AsyncPipelineNotAlive,
        StatusCode.Stream_Failed,
        StatusCode.Tensor_Invalid,
    )

    def __init__(self, shared, seed, operations):
        self.shared = shared
        self.draw = random.Random(seed)
        self.operations = operations
        self.value = seed & 255
        self.done = collections.Counter()
        self.kinds = [
            self.allocate,
            self.read,
            self.write,
            self.view,
            self.export,
            self.access,
            self.free,
            self.drop,
            self.hold_freed,
            self.hold_freed,
            self.check_held,
            self.check_held,
            self.infer,
            self.infer_into_shared,
            self.queue,
            self.infer_array,
        ]

    def step(self):
        kind = self.draw.choice(self.kinds)
        if self.draw.randrange(500) == 0:
            kind = self.shared.reopen
        try:
            kind()
            self.done[kind.__name__] += 1
        except qbruntime.QbRuntimeError as error:
            is_closed = type(error) is qbruntime.QbClosedError
            if not is_closed and error.status not in self.expected:
                self.shared.errors.append(traceback.format_exc())
        except BaseException:
            self.shared.errors.append(traceback.format_exc())

    def run(self):
        for _ in range(self.operations):
            self.step()
        with self.shared.lock:
            self.shared.done.update(self.done)

    def pick(self):
        return self.draw.choice(self.shared.slots)

    def allocate(self, size=SIZE):
        pinned = self.shared.opened[0].allocate_pinned_memory(size, "u1")
        if size == SIZE:
            self.shared.slots[self.draw.randrange(NUM_SLOTS)] = pinned
        return pinned

    def read(self):
        assert 0 <= self.pick()[self.draw.randrange(SIZE)] <= 255
        assert self.pick()[[3, 2, 1]].shape == (3,)

    def write(self):
        self.pick()[self.draw.randrange(SIZE)] = self.value
        self.pick()[8:] = self.value

    def view(self):
        view = self.pick()[self.draw.randrange(SIZE) :]
        view[:1] = view[:1]

    def export(self):
        with memoryview(self.pick()) as view:
            assert len(view.tolist()) == SIZE

    def access(self):
        pinned = self.pick()
        with pinned.cpu_access(write=self.draw.random() < 0.5):
            np.asarray(pinned)[0]

    def free(self):
        self.pick().free()

    def drop(self):
        self.allocate()
        gc.collect(0)

    def hold_freed(self):
        """Freed memory with a pattern, of which a view is left for any thread."""
        size = self.draw.choice((SIZE, 4096, 70000))
        pinned = self.allocate(size + 1)
        pattern = self.draw.randbytes(size + 1)
        pinned[:] = np.frombuffer(pattern, "u1")
        views = [
            lambda: memoryview(pinned),
            lambda: memoryview(pinned)[1:],
            lambda: pinned[1:],
            lambda: np.asarray(pinned)[::2],
            lambda: np.asarray(memoryview(pinned)[1:])[3:].view("i1"),
        ]
        parts = [slice(0, None), slice(1, None), slice(1, None)]
        parts += [slice(0, None, 2), slice(4, None)]
        which = self.draw.randrange(len(views))
        view = views[which]()
        if self.draw.random() < 0.75:
            pinned.free()
            assert not pinned.is_available()
        self.shared.held.append((view, pattern[parts[which]]))

    def check_held(self):
        held = self.shared.held
        # a list's pop is one step; its length may be another's by then
        try:
            view, expected = held.pop(self.draw.randrange(len(held) or 1))
        except IndexError:
            return
        assert bytes(view) == expected
        if len(held) < 100 and self.draw.random() < 0.5:
            held.append((view, expected))

    def infer(self):
        model = self.shared.opened[1]
        x = model.allocate_inputs()
        x[0].fill(self.value)
        y = model.infer_pinned_memory(x)[0]
        view = y[1:]
        y.free()
        assert bytes(view) == bytes([self.value]) * (SIZE - 1)

    def infer_into_shared(self):
        x, y = self.draw.sample(self.shared.slots, 2)
        self.shared.opened[1].infer_pinned_memory(x, y)

    def queue(self):
        x, y = self.draw.sample(self.shared.slots, 2)
        future = self.shared.opened[1].infer_pinned_memory_async(x, y)
        self.draw.choice((x, y)).free()
        y.is_available() and y[3]
        assert future.get()[0] is y

    def infer_array(self):
        array = np.frombuffer(self.draw.randbytes(SIZE), "u1")
        (result,) = self.shared.opened[1].infer(array)
        assert np.array_equal(result, array)


def count(folder):
    return len(os.listdir(f"/proc/self/{folder}"))


def measure():
    """Descriptors, threads, and mappings of memory files: of each buffer one."""
    gc.collect()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = sum("memfd:" in line or "/dev/" in line for line in maps)
    return count("fd"), count("task"), files


def report(shared):
    """Prints what was done; what was wrong ends the process."""
    print("".join(shared.errors[:3]), end="", file=sys.stderr)
    for name, number in sorted(shared.done.items()):
        print(name, number)
    assert not shared.errors, len(shared.errors)


def check_no_more_than(before):
    # a thread that was joined may still be on its way out
    for _ in range(1000):
        now = measure()
        if all(map(operator.le, now, before)):
            return
    raise AssertionError((now, before))


def run(path, operations, seed):
    shared = Shared(path)
    threads = [
        threading.Thread(target=Worker(shared, seed + i, operations).run)
        for i in range(NUM_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for view, expected in shared.held:
        assert bytes(view) == expected
    shared.close()
    shared.drop()
    return shared


def main(path, operations, seed):
    sys.setswitchinterval(1e-5)
    run(path, 50, seed)
    before = measure()
    shared = run(path, operations, seed)
    report(shared)
    assert len(shared.done) == 15
    del shared
    check_no_more_than(before)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
