# SPDX-License-Identifier: MIT
"""What is left of the tensor bridge when the interpreter ends."""

import pytest
from runtime_cases import COPY64, run_child

pytest.importorskip("qbruntime")

START = """
import atexit, gc, sys, threading
import qbruntime
from qbruntime.payload import Tensor
from qbruntime.streams import bridge_stats
import fake_dlpack
from fakes import consume, producer
acc = qbruntime.Accelerator()
def make_own():
    return acc.allocate_pinned_memory(16, "u1").tensor()
def make_foreign():
    return Tensor.as_tensor(producer(owns=True))
"""


def run(code, **environ):
    child = run_child(START + code, COPY64, **environ)
    assert child.stderr == ""
    return child.stdout


# B03 L5: ours end whenever they are dropped, Python's stay where they are
def test_exports_are_dropped_after_python_has_ended():
    said = run(
        """
for tensor in (make_own(), make_foreign(), make_foreign().copy()):
    consume(tensor, max_version=(1, 0)).drop_at_exit()
    fake_dlpack.exchange_export(tensor).drop_at_exit()
consume(make_own()).drop_at_exit()
del tensor
assert bridge_stats()["deferred_releases"] == 0
"""
    )
    assert said == "0 exports 0 deferred 1\n"


# B12
@pytest.mark.parametrize("number", range(50))
def test_the_interpreter_exits_with_everything_alive(number):
    said = run(
        """
kept = [make_own(), make_foreign()]
capsules = [tensor.__dlpack__(max_version=(1, 0)) for tensor in kept]
consumers = [consume(tensor, max_version=(1, 0)) for tensor in kept]
owned = [fake_dlpack.exchange_export(tensor) for tensor in kept]
cycle = [make_own(), make_foreign(), make_own().__dlpack__()]
cycle.append(cycle)
fake = producer()
fake.tensor = Tensor.as_tensor(producer("array"))
class Late:
    def __init__(self):
        self.tensor = make_foreign()
    def __del__(self):
        consume(self.tensor, max_version=(1, 0)).drop_without_gil()
        del self.tensor
late = Late()
late.itself = late
def work(tensors, started):
    while True:
        tensors.append(make_foreign())
        fake_dlpack.drop_on_threads([consume(tensors[-1], max_version=(1, 0))], 1)
        tensors[:] = tensors[-5:]
        started.set()
for _ in range(2):
    started = threading.Event()
    threading.Thread(target=work, args=([], started), daemon=True).start()
    started.wait()
"""
    )
    assert said == ""


# L5 L7: from the atexit function on nothing is released
def test_releases_end_with_the_interpreter():
    said = run(
        """
records = []
def drop(step):
    fake = producer()
    consume(Tensor.as_tensor(fake), max_version=(1, 0)).drop_without_gil()
    stats = bridge_stats()
    print(step, fake.deleter_calls, stats["deferred_releases"])
drop("running")
# who registered earlier is called later
atexit.register(drop, "ending")
class Late:
    def __del__(self):
        drop("ended")
late = Late()
"""
    )
    assert said == "running 1 0\\nending 1 0\\nended 0 1\\n".replace("\\n", "\n")


# B12: a pending call that nobody runs any more
def test_a_pending_call_at_the_end():
    said = run(
        """
consumer = consume(make_foreign(), max_version=(1, 0))
atexit.register(fake_dlpack.drop_on_threads, [consumer], 1)
"""
    )
    assert said == ""


# B06: with a job in flight
def test_the_interpreter_exits_while_a_job_writes():
    said = run(
        """
config = qbruntime.ModelConfig()
config.set_async_pipeline_enabled(True)
model = qbruntime.Model(sys.argv[1], config)
model.launch(acc)
x, y = model.allocate_inputs(), model.allocate_outputs()
tensors = [y[0].tensor(), Tensor.as_tensor(x[0])]
consume(tensors[0]).drop_at_exit()
future = model.infer_pinned_memory_async(x, y)
""",
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert said.startswith("0 exports 0 ")
