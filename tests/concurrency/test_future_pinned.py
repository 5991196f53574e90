# SPDX-License-Identifier: MIT
"""Queued inference on pinned memory: its Future, its buffers, its threads."""

import asyncio
import gc
import select
import sys
import threading
import weakref

import pytest
from runtime_cases import (
    COPY64,
    LASTS,
    count_fds,
    has_fds,
    resident_kib,
    run_async,
    run_child,
)

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import Future, Model, PinnedMemory, StatusCode  # noqa: E402

X = np.arange(64, dtype="u1")

# for run_child(): inferences run one after the other, and a thread keeps the GIL
# until a call lets go of it
PINNED = """
import gc, sys, threading, weakref, numpy as np, qbruntime
from qbruntime import Model, QbRuntimeError, StatusCode
config = qbruntime.ModelConfig()
config.set_single_core_mode(1)
config.set_activation_slots(1)
acc = qbruntime.Accelerator()
model = Model(sys.argv[1], config)
model.launch(acc)
x, y, z = (acc.allocate_pinned_memory(64, "u1") for _ in range(3))
x[:] = np.arange(64)
sys.setswitchinterval(1000)
def status_of(call, *arguments):
    try:
        call(*arguments)
    except QbRuntimeError as error:
        return error.status
def start(target, *arguments):
    is_started = threading.Event()
    def run():
        is_started.set()
        target(*arguments)
    thread = threading.Thread(target=run)
    thread.start()
    is_started.wait()
    return thread
"""


def run_pinned(code, **environ):
    lines = [line[8:] for line in code.splitlines()]
    return run_child(PINNED + "\n".join(lines), COPY64, **environ)


def status_of(call, *arguments):
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        call(*arguments)
    return caught.value.status


@pytest.fixture
def x(launched):
    (x,) = launched.allocate_inputs()
    x[:] = X
    return x


# Q486: no pipeline is needed
def test_get_gives_the_outputs_that_were_given(launched, x):
    (y,) = launched.allocate_outputs()
    for inputs in (x, [x], (x,)):
        for outputs in (y, [y], (y,)):
            y.fill(0)
            future = launched.infer_pinned_memory_async(inputs, outputs)
            assert type(future) is Future
            answer = future.get()
            assert type(answer) is list and len(answer) == 1 and answer[0] is y
            assert answer is not outputs
            assert np.array_equal(y, X)
    assert launched.infer_pinned_memory_async(inputs=x, outputs=y).get()[0] is y
    assert launched.counters()["copied_nbytes"] == 0


# Q486
def test_without_outputs_there_are_new_ones(launched, x):
    futures = [launched.infer_pinned_memory_async(x) for _ in range(5)]
    futures.append(launched.infer_pinned_memory_async([x], None))
    answers = [future.get() for future in futures]
    assert len({id(y) for (y,) in answers}) == 6
    for (y,) in answers:
        assert type(y) is PinnedMemory and y.shape() == (64,)
        assert np.array_equal(y, X)


# Q486: streams are to come, and nothing is accepted and ignored
def test_no_other_argument_is_taken(launched, x):
    for call in (
        lambda: launched.infer_pinned_memory_async(),
        lambda: launched.infer_pinned_memory_async(x, None, None),
        lambda: launched.infer_pinned_memory_async(x, stream=None),
        lambda: launched.infer_pinned_memory_async(x, cache_size=0),
        lambda: launched.infer_pinned_memory_async(X),
        lambda: launched.infer_pinned_memory_async(x, X),
    ):
        with pytest.raises(TypeError):
            call()
    assert launched.counters()["submitted"] == 0


# Q486
def test_the_checks_are_those_of_the_call_that_waits(acc, launched, x):
    floats = acc.allocate_pinned_memory(64, "f4")
    short = acc.allocate_pinned_memory(63, "u1")
    freed = acc.allocate_pinned_memory(64, "u1")
    freed.free()
    (y,) = launched.allocate_outputs()
    for inputs, outputs in (
        (floats, y),
        (x, floats),
        (short, y),
        (x, short),
        ([], y),
        ([x, x], y),
        (x, []),
        (x, [y, y]),
        (freed, y),
        (x, freed),
        (x, x),
    ):
        with pytest.raises(qbruntime.QbRuntimeError) as expected:
            launched.infer_pinned_memory(inputs, outputs)
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            launched.infer_pinned_memory_async(inputs, outputs)
        assert repr(caught.value) == repr(expected.value)
        assert caught.value.args == expected.value.args
    with y.cpu_access():
        refused = status_of(launched.infer_pinned_memory_async, x, y)
        assert refused is StatusCode.PinnedMemory_InUse
    launched.dispose()
    for outputs in (y, None):
        refused = status_of(launched.infer_pinned_memory_async, x, outputs)
        assert refused is StatusCode.Model_NotAlive
    refused = status_of(Model(COPY64).infer_pinned_memory_async, x)
    assert refused is StatusCode.Model_NotLaunched


# Q486 Q374 Q383
def test_outputs_belong_to_the_future_until_they_are_taken(launched, x):
    (y,) = launched.allocate_outputs()
    future = launched.infer_pinned_memory_async(x, y)
    assert future.wait_for(-1) and np.array_equal(y, X)
    for infer in (launched.infer_pinned_memory, launched.infer_pinned_memory_async):
        assert status_of(infer, x, y) is StatusCode.PinnedMemory_InUse
    assert future.get()[0] is y
    assert status_of(future.get) is StatusCode.Future_NotValid
    assert future.exception() is None and future.done()
    launched.infer_pinned_memory(x, y)
    # what is dropped lets go too
    launched.infer_pinned_memory_async(x, y).wait_for(-1)
    launched.infer_pinned_memory(x, y)
    count = sys.getrefcount(y)
    future = launched.infer_pinned_memory_async(x, y)
    assert sys.getrefcount(y) == count + 1
    future.get()
    assert sys.getrefcount(y) == count


# Q383
def test_of_many_who_get_at_once_one_wins(launched, x):
    results = []

    def take(future, barrier):
        barrier.wait()
        try:
            results.append(future.get()[0][63])
        except qbruntime.QbRuntimeError as error:
            results.append(error.status)

    for _ in range(50):
        arguments = launched.infer_pinned_memory_async(x), threading.Barrier(4)
        threads = [threading.Thread(target=take, args=arguments) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results.count(63) == 50
    assert results.count(StatusCode.Future_NotValid) == 150


# Q380 Q381 Q378
def test_await_callbacks_and_descriptor(launched, x):
    async def run():
        answers = await asyncio.gather(
            *(launched.infer_pinned_memory_async(x) for _ in range(50))
        )
        assert all(np.array_equal(y, X) for (y,) in answers)

    asyncio.run(run())
    future = launched.infer_pinned_memory_async(x)
    assert select.select([future], [], []) == ([future], [], [])
    called, answers = threading.Event(), []
    future.add_done_callback(lambda given: answers.append(given.get()))
    future.add_done_callback(lambda given: called.set())
    called.wait()
    assert np.array_equal(answers[0][0], X)


# Q486: an input that another inference writes is waited for on the device
def test_a_chain_needs_no_wait_between():
    run_pinned(
        """
        gate = model.infer_pinned_memory_async(x, y)
        futures = [gate, model.infer_pinned_memory_async(y, z)]
        assert not futures[1].done()
        assert futures[1].get()[0].shape() == (64,)
        assert z[63] == 63 and futures[0].get()[0] is y
        """,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q379 Q485
def test_what_a_cancelled_one_leaves_raises_until_it_is_rewritten():
    run_pinned(
        """
        first, queued = (model.infer_pinned_memory_async(x, out) for out in (y, z))
        assert queued.cancel() is True
        try:
            queued.get()
        except qbruntime.QbCancelledError as error:
            assert error.status is StatusCode.Cancelled
        assert status_of(z.__getitem__, 0) is StatusCode.Tensor_Invalid
        z.fill(9)
        assert z[0] == 9 and z[63] == 9
        # it runs, or is about to
        assert first.cancel() in (True, False)
        assert status_of(first.get) is StatusCode.Cancelled
        assert status_of(y.__getitem__, 0) is StatusCode.Tensor_Invalid
        y[:] = 5
        assert y[63] == 5
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q486 Q336: nobody is made to let go of the GIL
def test_access_to_memory_of_one_in_flight_waits_without_the_gil():
    run_pinned(
        """
        seen = []
        accesses = (
            lambda: y[3],
            lambda: y[1:3].tolist(),
            lambda: y[[1, 2]],
            lambda: y.fill(1),
            lambda: y.__setitem__(0, 1),
            lambda: y.__setitem__(slice(1, 3), np.array([1, 2], "u1")),
            lambda: np.asarray(y)[0],
            lambda: memoryview(y)[0],
            lambda: y.__array_interface__,
            lambda: y.cpu_access(write=True).__enter__(),
            lambda: x.__setitem__(0, 5),
            lambda: x.__setitem__(slice(None), 5),
            lambda: x.fill(5),
        )
        def work(access):
            try:
                access()
            except QbRuntimeError as error:
                seen.append(error.status)
            else:
                seen.append(None)
        for access in accesses:
            y = acc.allocate_pinned_memory(64, "u1")
            future = model.infer_pinned_memory_async(x, y)
            thread = start(work, access)
            # who reaches this has the GIL back
            future.cancel()
            thread.join()
            assert status_of(future.get) is StatusCode.Cancelled
        # what rewrites all needs no valid bytes, inputs are as they were
        invalid = StatusCode.Tensor_Invalid
        assert seen.count(None) + seen.count(invalid) == len(accesses), seen
        assert seen[0] is seen[2] is invalid and seen[3] is None
        assert seen[-3:] == [None] * 3 and x[0] == x[63] == 5
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q382
def test_buffers_may_be_freed_while_it_is_in_flight():
    run_pinned(
        """
        view = np.asarray(y)
        pattern = acc.allocate_pinned_memory(64, "u1")
        future = model.infer_pinned_memory_async(x, y)
        after = model.infer_pinned_memory_async(x, z)
        x.free(), y.free(), z.free()
        more = [acc.allocate_pinned_memory(64, "u1") for _ in range(20)]
        for pinned in more:
            pinned.fill(200)
        (answer,) = future.get()
        assert answer is y and not y.is_available()
        assert view.tolist() == list(range(64))
        try:
            y[0]
        except qbruntime.QbClosedError:
            pass
        else:
            raise AssertionError
        after.get()
        assert all((np.asarray(pinned) == 200).all() for pinned in more)
        """,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q382 Q366
def test_all_may_be_dropped_while_it_is_in_flight():
    run_pinned(
        """
        view = np.asarray(y)
        alive = [weakref.ref(item) for item in (model, y)]
        future = model.infer_pinned_memory_async(x, y)
        del x, y, z
        acc.close()
        model = None
        gc.collect()
        assert alive[0]() is not None and alive[1]() is not None
        last = future
        del future
        assert last.wait_for(0) is False
        del last
        gc.collect()
        assert alive[0]() is None and alive[1]() is None
        # with the model it was disposed; the array keeps the pages
        assert view.tolist() in ([0] * 64, list(range(64)))
        """,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q369 Q742
def test_dispose_ends_them():
    run_pinned(
        """
        first, *queued = [model.infer_pinned_memory_async(x) for _ in range(5)]
        statuses = []
        thread = start(lambda: statuses.append(status_of(queued[0].get)))
        model.dispose()
        thread.join()
        assert statuses == [StatusCode.Model_AsyncPipelineNotAlive]
        for future in queued[1:]:
            assert status_of(future.get) is StatusCode.Model_AsyncPipelineNotAlive
        assert status_of(first.get) in (StatusCode.Model_NotAlive,
                                        StatusCode.Model_AsyncPipelineNotAlive)
        x[0] = 9
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q365 Q336
def test_a_full_queue_waits_without_the_gil():
    run_pinned(
        """
        futures = [model.infer_pinned_memory_async(x) for _ in range(65)]
        more = []
        thread = start(lambda: more.append(model.infer_pinned_memory_async(x)))
        assert model.counters()["submitted"] == 65
        futures[0].cancel()
        thread.join()
        for future in futures[1:] + more:
            future.cancel()
            assert status_of(future.get) is StatusCode.Cancelled
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q744
@pytest.mark.parametrize("fault", ("", "hang:count=0"))
def test_the_interpreter_exits_with_them_alive(fault):
    child = run_pinned(
        """
        futures = [model.infer_pinned_memory_async(x) for _ in range(60)]
        for future in futures[::2]:
            future.add_done_callback(lambda given: given.exception(0))
        cycle = [model, futures, y]
        cycle.append(cycle)
        """,
        QBRUNTIME_SOFT_FAULT=fault,
    )
    assert child.stdout == child.stderr == ""


class Holder(PinnedMemory):
    pass


# Q382
def test_cycles_are_collected(acc, launched, x):
    y = Holder(acc.allocate_pinned_memory(64, "u1")._pinned_memory)
    y.future = launched.infer_pinned_memory_async(x, y)
    y.future.wait_for(-1)
    alive = weakref.ref(y), weakref.ref(y.future)
    del y
    gc.collect()
    assert alive[0]() is None and alive[1]() is None


def cycle(model, x, y, number):
    future = model.infer_pinned_memory_async(x, None if number % 2 else y)
    if number % 3 == 0:
        future.fileno()
    if number % 5 == 0:
        future.cancel()
    try:
        future.get()
        future.get()
    except qbruntime.QbRuntimeError:
        pass
    try:
        model.infer_pinned_memory_async(x, x)
    except qbruntime.QbRuntimeError:
        pass


# Q747
def test_nothing_leaks(launched, x):
    (y,) = launched.allocate_outputs()
    for number in range(500):
        cycle(launched, x, y, number)
    gc.collect()
    fds, objects, before = count_fds(), len(gc.get_objects()), resident_kib()
    counted = (None, x, y, launched, PinnedMemory, Future, cycle)
    references = [sys.getrefcount(item) for item in counted]
    for number in range(5000):
        cycle(launched, x, y, number)
    gc.collect()
    for item, count in zip(counted, references):
        assert abs(sys.getrefcount(item) - count) < 50, item
    assert has_fds(fds) and abs(len(gc.get_objects()) - objects) < 200
    assert resident_kib() - before < 4096


# NumPy drops what ends an export, and asks anew by __array_interface__.
# Q339
@pytest.mark.parametrize(
    "call",
    (
        "np.asarray(y[0])",
        "np.add(y[0], 1)",
        "y[0]._array",
        "y[0].__array__()",
        "other[0].__setitem__(slice(None), y[0])",
        "np.zeros(64, 'u1').__setitem__(slice(None), y[0])",
    ),
)
def test_one_ctrl_c_ends_a_conversion(call):
    child = run_async(
        f"""
        import os, signal
        y, other = model.allocate_outputs(), model.allocate_inputs()
        future = model.infer_pinned_memory_async(model.allocate_inputs(), y)
        def interrupt():
            # all but a call that waits without the GIL shows up as running
            state = f"/proc/self/task/{{os.getpid()}}/stat"
            while open(state).read().split()[2] != "S":
                pass
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            {call}
        except KeyboardInterrupt:
            print("interrupted")
        future.cancel()
        future.wait_for(-1)
        print("goes on")
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
        QBRUNTIME_NPU_TIMEOUT_MS="600000",
    )
    assert child.stdout.split() == ["interrupted", "goes", "on"]
