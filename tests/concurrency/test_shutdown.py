# SPDX-License-Identifier: MIT
"""What is left of the tensor bridge when the interpreter ends."""

import pytest
from runtime_cases import COPY64, LASTS, SANITIZED, run_child

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
LAUNCH = """
config = qbruntime.ModelConfig()
config.set_async_pipeline_enabled(True)
model = qbruntime.Model(sys.argv[1], config)
model.launch(acc)
x, y = model.allocate_inputs(), model.allocate_outputs()
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
        LAUNCH
        + """
tensors = [y[0].tensor(), Tensor.as_tensor(x[0])]
consume(tensors[0]).drop_at_exit()
future = model.infer_pinned_memory_async(x, y)
""",
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert said.startswith("0 exports 0 ")


# B13: the job ends when nobody may come in any more
def test_the_retirement_thread_is_busy_at_the_end():
    said = run(
        LAUNCH
        + """
from functools import partial
tensors = [y[0].tensor(), make_foreign()]
future = model.infer_pinned_memory_async(x, y)
# a function of here would keep all that is here
future.add_done_callback(partial(print, make_foreign()))
class Late:
    def __init__(self):
        self.future = future
    def __del__(self):
        print(self.future.done(), self.future.wait_for(-1))
late = Late()
""",
        QBRUNTIME_SOFT_FAULT=LASTS,
    )
    assert said == "False True\n"


# B70 L11: beside a retirement thread that watches a job
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator hangs in the child")
@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)"])
def test_a_child_of_fork_ends_with_what_it_inherited(leave):
    said = run(
        LAUNCH
        + f"""
import os
from runtime_cases import count_fds
kept = [make_own(), make_foreign(), x[0].tensor()]
consumers = [consume(tensor, max_version=(1, 0)) for tensor in kept]
capsules = [tensor.__dlpack__(max_version=(1, 0)) for tensor in kept]
future = model.infer_pinned_memory_async(x, y)
future.add_done_callback(lambda _: print("told"))
fds = count_fds()
pid = os.fork()
if not pid:
    for call in (
        kept[0].copy, kept[0].__dlpack__, lambda: kept[0].__array_interface__,
        lambda: Tensor.as_tensor(kept[0]), y[0].tensor, y[0].__dlpack__,
    ):
        try:
            call()
        except qbruntime.QbRuntimeError as error:
            assert error.code_name == "ForkedProcess", error
        else:
            raise AssertionError(call)
    # what is not the device's goes on
    assert kept[1].copy().size == 6
    consumers.pop().drop_without_gil()
    fake_dlpack.drop_on_threads([consumers.pop()], 1)
    kept.pop(), capsules.pop()
    {leave}
assert os.waitpid(pid, 0)[1] == 0
assert count_fds() == fds
assert [tensor.copy().size for tensor in kept] == [16, 6, 64]
consumers += [consume(tensor, max_version=(1, 0)) for tensor in kept]
for consumer in consumers:
    consumer.drop()
future.cancel()
future.wait_for(-1)
told = threading.Event()
future.add_done_callback(lambda _: told.set())
told.wait()
""",
        QBRUNTIME_SOFT_FAULT="hang:count=1",
        PYTHONWARNINGS="ignore::DeprecationWarning",  # of fork, from 3.12 on
    )
    assert said == "told\n"
