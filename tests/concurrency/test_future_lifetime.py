# SPDX-License-Identifier: MIT
"""Who keeps what of a Future, its threads, dispose, fork and exit."""

import gc
import sys
import threading
import weakref

import pytest
from runtime_cases import (
    COPY64,
    COUNTED,
    LASTS,
    SANITIZED,
    count_fds,
    has_fds,
    resident_kib,
    run_async,
)

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import Model, StatusCode  # noqa: E402

X = np.arange(64, dtype="u1")


# Q382
def test_a_future_keeps_its_model():
    run_async(
        """
        import weakref
        first, second = model.infer_async(x), model.infer_async(x)
        alive = weakref.ref(model)
        acc.close()
        del model, acc
        gc.collect()
        assert alive() is not None
        assert second.get()[0][63] == 63
        del first, second
        assert alive() is None
        """,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q382
def test_dropped_ones_run_to_their_end_and_leak_nothing(asynchronous):
    def drop():
        for _ in range(1000):
            future = asynchronous.infer_async(X)
            future.fileno()
        return weakref.ref(future)

    assert drop()() is None
    fds = count_fds()
    drop()
    while asynchronous.counters()["completed"] < 2000:
        pass
    assert asynchronous.counters()["submitted"] == 2000
    # what is queued at once, and so has memory, is not always the same
    assert count_fds() < fds + 200


class Holder(Model):
    pass


# Q382
def test_cycles_are_collected(acc):
    config = qbruntime.ModelConfig()
    config.set_async_pipeline_enabled(True)
    model = Holder(COPY64, config)
    model.launch(acc)
    model.future = model.infer_async(X)
    model.future.wait_for(-1)
    model.dispose()
    alive = weakref.ref(model), weakref.ref(model.future)
    del model
    gc.collect()
    assert alive[0]() is None and alive[1]() is None


# Q382 Q598
def test_a_cycle_with_a_callback_stays_until_it_was_called():
    run_async(
        """
        import weakref
        called = threading.Event()
        def start():
            gate, future = model.infer_async(x), model.infer_async(x)
            cycle = [future]
            future.add_done_callback(lambda _: called.set() or cycle)
            return gate, weakref.ref(future)
        gate, alive = start()
        gc.collect()
        assert alive() is not None
        alive().cancel()
        called.wait()
        while alive() is not None:
            gc.collect()
        gate.cancel()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q383
def test_of_many_who_get_at_once_one_wins(asynchronous):
    interval = sys.getswitchinterval()
    results = []

    def take(future, barrier):
        barrier.wait()
        try:
            results.append(future.get()[0][63])
        except qbruntime.QbRuntimeError as error:
            results.append(error.status)

    sys.setswitchinterval(1e-5)
    try:
        for _ in range(50):
            arguments = asynchronous.infer_async(X), threading.Barrier(4)
            threads = [threading.Thread(target=take, args=arguments) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert results.count(63) == 50
    assert results.count(StatusCode.Future_NotValid) == 150


def use(seed, model, futures, errors):
    for number in range(400):
        try:
            future = futures[(seed + number) % len(futures)]
            kind = (seed * 7 + number) % 9
            if kind < 3:
                futures[number % len(futures)] = model.infer_async(X)
            elif kind == 3:
                future.cancel()
            elif kind == 4:
                future.wait_for(0)
            elif kind == 5:
                future.add_done_callback(lambda given: given.exception(0))
            elif kind == 6:
                future.fileno()
            elif kind == 7:
                assert future.get()[0][63] == 63
            else:
                repr(future), future.done(), future.exception()
        except qbruntime.QbRuntimeError as error:
            if error.status not in (StatusCode.Future_NotValid, StatusCode.Cancelled):
                errors.append(error)
        except Exception as error:
            errors.append(error)


# Q383 Q740
def test_any_thread_may_do_anything(asynchronous):
    futures = [asynchronous.infer_async(X) for _ in range(16)]
    errors = []
    threads = [
        threading.Thread(target=use, args=(seed, asynchronous, futures, errors))
        for seed in range(8)
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
    assert errors == []


# Q369 Q268 Q742
def test_dispose_ends_them():
    run_async(
        """
        running, *queued = [model.infer_async(x) for _ in range(6)]
        waiting = []
        def wait():
            waiting.append(refused(queued[0].get))
        thread = threading.Thread(target=wait)
        thread.start()
        calls = []
        queued[1].add_done_callback(calls.append)
        model.dispose()
        thread.join()
        assert waiting == [StatusCode.Model_AsyncPipelineNotAlive]
        for future in queued[1:]:
            assert isinstance(future.exception(), qbruntime.QbNotAliveError)
            assert refused(future.get) is StatusCode.Model_AsyncPipelineNotAlive
        assert isinstance(running.exception(), qbruntime.QbNotAliveError)
        while not calls:
            pass
        assert calls == [queued[1]]
        model.launch(acc)
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q744
@pytest.mark.parametrize("fault", ("", "slow:ns=1000000,count=0", "hang:count=0"))
def test_the_interpreter_exits_with_futures_alive(fault):
    child = run_async(
        """
        futures = [model.infer_async(x) for _ in range(60)]
        for future in futures[::2]:
            future.add_done_callback(lambda given: given.exception(0))
        futures[0].fileno()
        awaiting = futures[1].__await__()
        cycle = [acc, model, futures]
        cycle.append(cycle)
        def work():
            while True:
                try:
                    future = model.infer_async(x)
                    future.add_done_callback(lambda given: given.get())
                except RuntimeError:  # also that the interpreter ends
                    return
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        """,
        QBRUNTIME_SOFT_FAULT=fault,
    )
    assert child.stdout == child.stderr == ""


# Q744
def test_callbacks_that_run_at_exit_are_waited_for():
    child = run_async(
        """
        import atexit
        is_inside = threading.Event()
        def late(future):
            is_inside.set()
            for _ in range(200000):
                pass
            print("ended")
        gate, future = model.infer_async(x), model.infer_async(x)
        future.add_done_callback(late)
        gate.add_done_callback(lambda _: print("too late"))
        future.cancel()
        is_inside.wait()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert (child.stdout, child.stderr) == ("ended\n", "")


# Q376 Q748
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator hangs in the child")
def test_a_child_of_fork_has_none_of_them():
    child = run_async(
        """
        import os
        future, other = model.infer_async(x), model.infer_async(x)
        other.add_done_callback(lambda _: print("of the parent"))
        pid = os.fork()
        if not pid:
            forked = StatusCode.ForkedProcess
            for call in (future.done, future.get, future.cancel, future.exception,
                         future.fileno, lambda: future.wait_for(0),
                         lambda: future.add_done_callback(print),
                         lambda: model.infer_async(x)):
                assert refused(call) is forked, call
            del future, other
            model = Model(sys.argv[1], config)
            model.launch(qbruntime.Accelerator())
            told = threading.Event()
            first, second = model.infer_async(x), model.infer_async(x)
            second.add_done_callback(lambda _: told.set())
            second.cancel()
            told.wait()
            first.cancel()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        told = threading.Event()
        other.add_done_callback(lambda _: told.set())
        other.cancel()
        future.cancel()
        told.wait()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=2",
        PYTHONWARNINGS="ignore::DeprecationWarning",  # of fork, from 3.12 on
    )
    assert (child.stdout, child.stderr) == ("of the parent\n", "")


def cycle(model, number):
    future = model.infer_async(X)
    if number % 2:
        future.add_done_callback(lambda given: given.done())
    if number % 3 == 0:
        future.fileno()
    if number % 5 == 0:
        future.exception()
    try:
        future.get(), future.get()
    except qbruntime.QbRuntimeError:
        pass
    try:
        model.infer_async(X[:5])
    except qbruntime.QbShapeError:
        pass


def call_all_back(model):
    """Until the callbacks of all that was submitted before have been called."""
    told = threading.Event()
    model.infer_async(X).add_done_callback(lambda _: told.set())
    told.wait()
    gc.collect()


# Q747
def test_nothing_leaks(asynchronous):
    for number in range(500):
        cycle(asynchronous, number)
    call_all_back(asynchronous)
    fds, objects, before = count_fds(), len(gc.get_objects()), resident_kib()
    counted = (*COUNTED, X, asynchronous, qbruntime.Future, cycle)
    references = [sys.getrefcount(item) for item in counted]
    for number in range(5000):
        cycle(asynchronous, number)
    call_all_back(asynchronous)
    for item, count in zip(counted, references):
        assert abs(sys.getrefcount(item) - count) < 50, item
    assert has_fds(fds)
    assert abs(len(gc.get_objects()) - objects) < 200
    assert resident_kib() - before < 4096
