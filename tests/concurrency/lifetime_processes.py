# SPDX-License-Identifier: MIT
"""Processes that begin while threads are inside inferences.

    lifetime_processes.py MODEL os.fork|fork|spawn

The children of fork use what they inherited, then their own; the others have
their own alone. Wrong answers end it with status 1.
"""

import gc
import multiprocessing
import os
import sys
import threading

import numpy as np
import qbruntime
from qbruntime import Cluster, Core, CoreId, QbRuntimeError, StatusCode

NUM_THREADS = 8
ROUNDS = 20


def infer_alone(path, number):
    """On an accelerator, and a core, of this process's own."""
    acc = qbruntime.Accelerator(0)
    config = qbruntime.ModelConfig()
    core = CoreId(Cluster.Cluster0, Core(number % 4 + 1))
    assert config.set_single_core_mode(core_ids=[core])
    with qbruntime.Model(path, config) as model:
        model.launch(acc)
        assert model.get_target_cores() == [core]
        for i in range(20):
            array = np.full(64, i + number, "u1")
            assert np.array_equal(model.infer(array)[0], array)
    acc.close()


class Parent:
    def __init__(self, path):
        self.path = path
        self.acc = qbruntime.Accelerator()
        self.model = qbruntime.Model(path)
        self.model.launch(self.acc)
        self.x = self.model.allocate_inputs()
        self.x[0].fill(5)
        self.freed = self.acc.allocate_pinned_memory(64, "u1")
        self.freed.fill(6)
        self.views = memoryview(self.x[0]), self.freed[1:]
        self.freed.free()
        self.threads = []
        self.is_done = False
        self.errors = []

    def work(self):
        try:
            y, array = self.model.allocate_outputs(), np.full(64, 7, "u1")
            while not self.is_done:
                assert self.model.infer_pinned_memory(self.x, y)[0][63] == 5
                assert self.model.infer(array)[0][63] == 7
        except Exception as error:
            self.errors.append(error)

    def check_inherited(self):
        acc, model, x = self.acc, self.model, self.x[0]
        for call in (
            acc.info,
            acc.get_available_cores,
            lambda: acc.allocate_pinned_memory(4),
            lambda: model.infer(np.zeros(64, "u1")),
            lambda: model.infer_pinned_memory(x),
            model.infer_speedrun,
            model.allocate_inputs,
            model.allocate_outputs,
            lambda: model.launch(acc),
            model.dispose,
            lambda: x[3],
            lambda: x[:],
            lambda: x.__setitem__(3, 1),
            lambda: x.fill(1),
            lambda: memoryview(x),
            lambda: np.asarray(x),
            x.export_fd,
            x.device_address,
        ):
            try:
                call()
            except QbRuntimeError as error:
                assert error.status is StatusCode.ForkedProcess, error
                assert "anew" in str(error)
            else:
                raise AssertionError(call)
        assert not x.is_available()
        assert bytes(self.views[0]) == bytes([5]) * 64
        assert bytes(self.views[1]) == bytes([6]) * 63
        assert repr(acc) and repr(model) and repr(x)

    def run_child(self, number):
        self.check_inherited()
        infer_alone(self.path, number)
        acc, model, x = self.acc, self.model, self.x
        self.acc = self.model = self.x = None
        acc.close()
        x[0].free()
        del acc, model, x
        gc.collect()
        # the views keep their bytes without their objects
        assert bytes(self.views[0]) == bytes([5]) * 64
        infer_alone(self.path, number)

    def start_child(self, method, number):
        if method == "os.fork":
            pid = os.fork()
            if pid:
                assert os.waitpid(pid, 0)[1] == 0
                return
            self.threads.clear()
            self.run_child(number)
            (sys.exit, os._exit)[number % 2](0)
        target, arguments = self.run_child, ()
        if method != "fork":
            target, arguments = infer_alone, (self.path,)
        context = multiprocessing.get_context(method)
        children = [
            context.Process(target=target, args=(*arguments, 2 * number + i))
            for i in range(2)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0

    def run(self, method):
        self.threads = [threading.Thread(target=self.work) for _ in range(NUM_THREADS)]
        for thread in self.threads:
            thread.start()
        try:
            while self.model.counters()["completed"] < 100 and not self.errors:
                pass
            for number in range(ROUNDS if "fork" in method else 2):
                self.start_child(method, number)
        finally:
            self.is_done = True
            for thread in self.threads:
                thread.join()
        assert not self.errors, self.errors
        counters = self.model.counters()
        assert counters["completed"] == counters["submitted"]


if __name__ == "__main__":
    parent = Parent(sys.argv[1])
    parent.run(sys.argv[2])
