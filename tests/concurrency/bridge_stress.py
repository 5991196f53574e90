# SPDX-License-Identifier: MIT
"""The tensor bridge under random operations of eight threads.

    bridge_stress.py MODEL OPERATIONS SEED stay|return|exit

What a thread makes any other may export, import again, view, compute on or drop,
while accelerators are closed and the process forks. stay: at the end each deleter
has run once, and nothing is left. Else the interpreter ends under the threads.
"""

import gc
import itertools
import os
import signal
import sys
import threading

import fake_dlpack
import numpy as np
import qbruntime
from fakes import DLPACK, LEGACY, UINT8, consume, producer
from lifetime_stress import (
    NUM_SLOTS,
    NUM_THREADS,
    SIZE,
    Shared,
    Worker,
    check_no_more_than,
    measure,
    report,
)
from qbruntime import StatusCode, streams
from qbruntime.payload import Tensor
from runtime_cases import SANITIZER

NUM_ROUNDS = 3
PATTERN = bytes(range(SIZE))
# of each thread: structs that it may hold where a fork finds it
NUM_HELD = 8
as_tensor, from_dlpack = Tensor.as_tensor, Tensor.from_dlpack


def make_fake(*protocols, **knobs):
    interface = {"typestr": "|u1"}
    return producer(
        *protocols, shape=(SIZE,), dtype=UINT8, interface=interface, **knobs
    )


class Stage(Shared):
    """tensors: with the bytes they hold, or None where they change."""

    def __init__(self, path):
        super().__init__(path)
        self.barrier = threading.Barrier(NUM_THREADS + 1)
        self.tensors = [(pinned.tensor(), None) for pinned in self.slots]
        self.exports, self.capsules, self.views = [], [], []
        self.fakes = [make_fake()]
        # what children of fork look at
        self.own = self.opened[0].allocate_pinned_memory(SIZE, "u1")
        self.own_tensor, self.foreign = self.own.tensor(), as_tensor(self.fakes[0])

    def drop(self):
        super().drop()
        for kept in (self.tensors, self.exports, self.capsules, self.views):
            kept.clear()
        self.own = self.own_tensor = self.foreign = None
        gc.collect()
        streams.bridge_stats()  # releases what was deferred

    def check_inherited(self):
        (acc, model), pinned = self.opened, self.own
        tensor, foreign = self.own_tensor, self.foreign
        for call in (
            acc.info,
            model.dispose,
            lambda: acc.allocate_pinned_memory(4),
            lambda: model.infer([tensor]),
            lambda: model.infer([foreign]),
            lambda: np.asarray(tensor),
            lambda: as_tensor(tensor),
            lambda: as_tensor(pinned),
            lambda: from_dlpack(pinned),
            lambda: fake_dlpack.exchange_export(tensor),
            lambda: fake_dlpack.exchange_borrow(pinned),
            lambda: tensor.__dlpack__(copy=True),
            tensor.__dlpack__,
            tensor.copy,
            pinned.__dlpack__,
            pinned.tensor,
        ):
            try:
                call()
            except qbruntime.QbRuntimeError as error:
                assert error.status is StatusCode.ForkedProcess, error
            else:
                raise AssertionError(call)
        consume(foreign, max_version=(1, 0)).drop_without_gil()
        assert np.asarray(foreign.copy()).tobytes() == PATTERN

    def work_alone(self):
        with qbruntime.Accelerator() as acc, qbruntime.Model(self.path) as model:
            model.launch(acc)
            tensor = acc.allocate_pinned_memory(SIZE, "u1").tensor()
            consume(tensor).drop()
            (y,) = model.infer([as_tensor(make_fake())])
            assert y.tobytes() == PATTERN

    def count_alive(self):
        return sum(
            not record.deleter_calls for fake in self.fakes for record in fake.records
        )

    def fork(self, number, num_held):
        pid = os.fork()
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
            return
        signal.alarm(100)  # of what hangs
        self.check_inherited()
        fake_dlpack.drop_on_threads(self.exports[::2], 2, number % 3 == 0)
        self.opened[0].close()
        self.opened = None
        self.drop()
        assert self.count_alive() <= num_held
        self.work_alone()
        (sys.exit, os._exit)[number % 2](0)


class Bridge(Worker):
    expected = (*Worker.expected, StatusCode.Tensor_ReadOnly)

    def __init__(self, shared, seed, operations):
        super().__init__(shared, seed, operations)
        self.fakes = [
            make_fake("exchange"),
            make_fake(*DLPACK, owns=True),
            make_fake(*DLPACK, version=LEGACY),
            make_fake("array"),
        ]
        self.mirrors = [make_fake("exchange"), make_fake(*DLPACK)]
        self.carrier = make_fake()
        shared.fakes += [*self.fakes, *self.mirrors]
        self.kinds = [
            self.allocate,
            self.allocate,
            self.free,
            self.view_pinned,
            self.own_tensor,
            self.foreign_tensor,
            self.foreign_tensor,
            self.mirror,
            self.again,
            self.copy,
            self.export,
            self.export,
            self.lend,
            self.make_capsule,
            self.take_capsule,
            self.drop,
            self.view,
            self.infer_into_shared,
            self.queue,
            self.infer_tensor,
        ]

    def run(self):
        for _ in range(NUM_ROUNDS):
            for _ in range(self.operations // NUM_ROUNDS):
                self.step()
            # between the two the process forks with all at rest
            self.shared.barrier.wait()
            self.shared.barrier.wait()
        with self.shared.lock:
            self.shared.done.update(self.done)

    def pick_tensor(self):
        return self.draw.choice(self.shared.tensors)

    def put_tensor(self, tensor, pattern=None):
        self.shared.tensors[self.draw.randrange(NUM_SLOTS)] = tensor, pattern

    def take(self, items):
        """One of them, or None; the list's end is any thread's."""
        try:
            return items.pop()
        except IndexError:
            return None

    def view_pinned(self):
        pinned = self.pick()
        make = self.draw.choice((memoryview, np.asarray, np.from_dlpack))
        self.shared.views.append(make(pinned))
        self.take(self.shared.views)

    def own_tensor(self):
        pinned = self.pick()
        how = self.draw.randrange(5)
        if how == 0:
            tensor = pinned.tensor()
        elif how == 1:
            tensor = as_tensor(pinned)
        elif how == 2:
            tensor = from_dlpack(pinned)
        elif how == 3:
            tensor = as_tensor(np.asarray(pinned)[self.draw.randrange(SIZE) :])
        else:
            tensor = as_tensor(np.frombuffer(memoryview(pinned), "u1"))
        self.put_tensor(tensor)

    def foreign_tensor(self):
        self.put_tensor(as_tensor(self.draw.choice(self.fakes)), PATTERN)

    def mirror(self):
        """Memory of ours that comes back is given back at once."""
        tensor, mirror = self.pick().tensor(), self.draw.choice(self.mirrors)
        mirror.address = tensor.data
        self.put_tensor(as_tensor(mirror))
        assert mirror.records[-1].deleter_calls == 1

    def again(self):
        tensor, pattern = self.pick_tensor()
        self.put_tensor(self.draw.choice((as_tensor, from_dlpack))(tensor), pattern)

    def copy(self):
        tensor, pattern = self.pick_tensor()
        self.put_tensor(tensor.copy(), pattern)

    def pick_source(self):
        return self.draw.choice((self.pick(), self.pick_tensor()[0]))

    def export(self):
        source, how = self.pick_source(), self.draw.randrange(4)
        if how == 0:
            export = fake_dlpack.exchange_export(source)
        elif how == 1:
            export = consume(source)
        elif how == 2:
            export = consume(source, copy=True, max_version=(1, 0))
        else:
            export = consume(source, max_version=(1, 0))
        self.shared.exports.append(export)

    def lend(self):
        fake_dlpack.exchange_borrow(self.pick_source())

    def make_capsule(self):
        self.shared.capsules.append(self.pick_source().__dlpack__(max_version=(1, 3)))

    def take_capsule(self):
        capsule, how = self.take(self.shared.capsules), self.draw.randrange(3)
        if capsule and how == 0:
            self.shared.exports.append(fake_dlpack.consume(capsule))
        elif capsule and how == 1:
            self.carrier.answer = capsule
            self.put_tensor(as_tensor(self.carrier))
            self.carrier.answer = None

    def drop(self):
        taken = [self.take(self.shared.exports) for _ in range(4)]
        taken = [export for export in taken if export]
        how = self.draw.randrange(8)
        if how < 2:
            fake_dlpack.drop_on_threads(taken, 2, how == 0)
        while taken:
            export = taken.pop()
            if how == 2:
                export.drop()
            elif how < 6:
                export.drop_without_gil()

    def view(self):
        tensor, pattern = self.pick_tensor()
        view = np.asarray(tensor)
        del tensor
        # what jobs may be writing is looked at by nobody
        assert not pattern or view.tobytes() == pattern
        self.shared.views.append(view)
        self.take(self.shared.views)

    def infer_tensor(self):
        tensor, pattern = self.pick_tensor()
        if tensor.size == SIZE:
            (y,) = self.shared.opened[1].infer([tensor])
            assert not pattern or y.tobytes() == pattern


def start(path, operations, seed):
    shared = Stage(path)
    workers = [Bridge(shared, seed + i, operations) for i in range(NUM_THREADS)]
    # daemons: the interpreter ends whatever they do
    threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    return shared, threads


def run(path, operations, seed):
    shared, threads = start(path, operations, seed)
    numbers = itertools.count(seed)
    for _ in range(NUM_ROUNDS):
        # the allocator of a sanitizer may stand still in the child
        if not SANITIZER:
            shared.fork(next(numbers), NUM_THREADS * NUM_HELD)
        shared.barrier.wait()
        # which TSan lets start no threads
        if SANITIZER != "libtsan":
            shared.fork(next(numbers), NUM_THREADS * NUM_HELD)
        shared.barrier.wait()
    for thread in threads:
        thread.join()
    shared.close()
    shared.drop()
    return shared


def get_alive():
    stats = streams.bridge_stats()
    totals = "exports_borrowed", "host_blocks"
    return {name: stats[name] for name in stats if name not in totals}


def stay(path, operations, seed):
    run(path, NUM_ROUNDS, seed)
    before, alive = measure(), get_alive()
    shared = run(path, operations, seed)
    report(shared)
    assert len(shared.done) == 18
    for fake in shared.fakes:
        ends = {(record.deleter_calls, record.had_gil) for record in fake.records}
        assert ends <= {(1, True)}
    del shared, fake
    check_no_more_than(before)
    assert get_alive() == alive


def leave(path, operations, seed):
    shared, _ = start(path, operations * NUM_ROUNDS, seed)
    shared.barrier.wait()
    shared.barrier.wait()
    worker = Bridge(shared, seed, 0)
    for _ in range(seed):
        worker.step()
    assert not shared.errors, shared.errors[0]


if __name__ == "__main__":
    sys.setswitchinterval(1e-5)
    path, operations, seed, end = sys.argv[1:]
    (stay if end == "stay" else leave)(path, int(operations), int(seed))
    if end == "exit":
        sys.exit(0)
