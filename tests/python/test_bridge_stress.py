# SPDX-License-Identifier: MIT
"""The tensor bridge under random operations of eight threads."""

import gc
import random
import sys
import threading

import pytest
from runtime_cases import COPY64, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import DLPACK, UINT8, consume, producer  # noqa: E402
from qbruntime import streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

NUM_THREADS, NUM_OPERATIONS = 8, 2000
PROTOCOLS = (("exchange",), DLPACK, ("array",))


class Stage:
    """What the threads share, and what each may do with it."""

    def __init__(self, acc, model):
        self.acc, self.model = acc, model
        self.pinned = [acc.allocate_pinned_memory(64, "u1") for _ in range(6)]
        self.tensors = [pinned.tensor() for pinned in self.pinned]
        self.consumers, self.errors = [], []

    def replace(self, draw):
        self.pinned[draw.randrange(6)] = self.acc.allocate_pinned_memory(64, "u1")

    def free(self, draw):
        draw.choice(self.pinned).free()

    def make_tensor(self, draw):
        pinned = draw.choice(self.pinned)
        kind = draw.randrange(5)
        if kind == 0:
            made = pinned.tensor()
        elif kind == 1:
            made = Tensor.as_tensor(pinned)
        elif kind == 2:
            made = Tensor.as_tensor(np.asarray(pinned)[draw.randrange(64) :])
        elif kind == 3:
            fake = producer(*draw.choice(PROTOCOLS), shape=(64,), dtype=UINT8)
            fake.interface["typestr"] = "|u1"
            made = Tensor.as_tensor(fake)
        else:
            made = Tensor.as_tensor(draw.choice(self.tensors))
        self.tensors[draw.randrange(6)] = made

    def copy(self, draw):
        self.tensors[draw.randrange(6)] = draw.choice(self.tensors).copy()

    def export(self, draw):
        tensor, pinned = draw.choice(self.tensors), draw.choice(self.pinned)
        for made in (
            lambda: consume(tensor, max_version=(1, 0)),
            lambda: consume(pinned),
            lambda: fake_dlpack.exchange_export(tensor),
        ):
            self.consumers.append(made())

    def drop(self, draw):
        taken = []
        while self.consumers and len(taken) < 5:
            try:
                taken.append(self.consumers.pop())
            except IndexError:  # another thread was first
                break
        fake_dlpack.drop_on_threads(taken, 2, draw.random() < 0.5)

    def lend(self, draw):
        fake_dlpack.exchange_borrow(draw.choice(self.pinned))

    def infer(self, draw):
        self.model.infer_pinned_memory(
            draw.choice(self.pinned), draw.choice(self.pinned)
        )

    def infer_array(self, draw):
        self.model.infer([draw.choice(self.tensors)])

    def look(self, draw):
        np.asarray(draw.choice(self.tensors)).sum()

    def run(self, seed):
        draw = random.Random(seed)
        calls = [
            getattr(self, name)
            for name in "replace free make_tensor make_tensor copy export drop lend "
            "infer infer_array look".split()
        ]
        for _ in range(NUM_OPERATIONS):
            try:
                draw.choice(calls)(draw)
            except (qbruntime.QbRuntimeError, BufferError):
                pass  # freed, in use, read-only, of other extents
            except Exception as error:
                self.errors.append(error)


# B01 B11 L1 L8: while memory is freed, exported, borrowed and computed on
def test_eight_threads_of_random_operations():
    with qbruntime.Accelerator() as acc, qbruntime.Model(COPY64) as model:
        model.launch(acc)
        model.infer([np.zeros(64, "u1")])
        gc.collect()
        before = streams.bridge_stats()
        stage = Stage(acc, model)
        threads = [
            threading.Thread(target=stage.run, args=(seed,))
            for seed in range(NUM_THREADS)
        ]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert stage.errors == []
        del stage, threads
        gc.collect()
        after = streams.bridge_stats()
        for name in ("tensors", "exports_legacy", "exports_versioned"):
            assert after[name] == before[name]
        assert after["exports_owned_c"] == after["deferred_releases"] == 0


# B69: closing the device joins the thread that is about to ask for the GIL
def test_the_last_accelerator_goes_while_memory_is_released():
    run_child(
        """
        import gc, sys, numpy as np, qbruntime
        from fakes import producer
        from qbruntime.payload import Tensor
        from qbruntime.streams import bridge_stats
        config = qbruntime.ModelConfig()
        config.set_async_pipeline_enabled(True)
        fakes = [producer() for _ in range(60)]
        def start(fake):
            with qbruntime.Accelerator() as acc:
                model = qbruntime.Model(sys.argv[1], config)
                model.launch(acc)
                future = model.infer_async(np.zeros(64, "u1"))
                tensor = Tensor.as_tensor(fake)
                future.add_done_callback(lambda _: tensor.copy())
        for fake in fakes:
            start(fake)
            gc.collect()
        while any(fake.deleter_calls != 1 for fake in fakes):
            gc.collect()
        assert not bridge_stats()["deferred_releases"]
        """,
        COPY64,
    )
