# SPDX-License-Identifier: MIT
"""What a Future calls when its inference has ended."""

import sys
import threading

import pytest
from runtime_cases import ASYNC, COPY64, LASTS, run_async, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")

X = np.arange(64, dtype="u1")


# Q378
def test_one_that_is_done_is_called_at_once(asynchronous):
    future = asynchronous.infer_async(X)
    assert future.wait_for(-1)
    calls = []

    def note(given):
        calls.append((given, threading.get_ident()))

    assert future.add_done_callback(note) is None
    assert future.add_done_callback(fn=note) is None
    assert calls == [(future, threading.get_ident())] * 2
    assert future.get()[0][63] == 63
    future.add_done_callback(note)
    assert len(calls) == 3
    for bad in (None, 1, "print"):
        with pytest.raises(TypeError):
            future.add_done_callback(bad)
    for call in (
        lambda: future.add_done_callback(),
        lambda: future.add_done_callback(note, note),
    ):
        with pytest.raises(TypeError):
            call()


# Q378
def test_all_are_called_once_and_in_order():
    run_async(
        """
        first, second = model.infer_async(x), model.infer_async(x)
        calls, is_over = [], threading.Event()
        for number in range(5):
            second.add_done_callback(lambda _, n=number: calls.append(n))
        def more(future):
            assert future is second
            calls.append(threading.current_thread() is threading.main_thread())
            future.add_done_callback(lambda _: calls.append("later"))
            future.add_done_callback(lambda _: is_over.set())
            calls.append("sooner")
        second.add_done_callback(more)
        assert calls == [] and not second.done()
        assert second.cancel()
        is_over.wait()
        assert calls == [0, 1, 2, 3, 4, False, "sooner", "later"]
        first.cancel()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q378
def test_what_a_callback_raises_is_reported_and_stops_no_other():
    child = run_async(
        """
        reports, is_over = [], threading.Event()
        def report(unraisable):
            reports.append((unraisable.exc_type, str(unraisable.exc_value),
                            unraisable.object is fail))
        sys.unraisablehook = report
        def fail(future):
            raise ValueError("of a callback")
        gate, future = model.infer_async(x), model.infer_async(x)
        future.add_done_callback(fail)
        future.add_done_callback(fail)
        future.add_done_callback(lambda _: is_over.set())
        assert future.cancel()
        is_over.wait()
        future.add_done_callback(fail)
        assert reports == [(ValueError, "of a callback", True)] * 3
        gate.cancel()
        sys.unraisablehook = sys.__unraisablehook__
        future.add_done_callback(fail)
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert child.stderr.count("ValueError: of a callback") == 1


# Q378 Q741
def test_a_callback_may_use_the_library():
    run_async(
        """
        results, is_over = [], threading.Event()
        def finish(future):
            results.append(future.get()[0][63])
            model.dispose()
            results.append(refused(model.infer_async, x))
            is_over.set()
        def go_on(future):
            results.append(future.get()[0][63])
            results.append(model.infer_async(x).get()[0][5])
            model.infer_async(x).add_done_callback(finish)
        model.infer_async(x).add_done_callback(go_on)
        is_over.wait()
        assert results == [63, 5, 63, StatusCode.Model_NotAlive]
        """,
        QBRUNTIME_SOFT_FAULT="slow:ns=1000000,count=0",
    )


# Q382 Q378
def test_a_dropped_future_calls_all_the_same(asynchronous):
    results = []
    is_over = threading.Event()

    def take(future):
        results.append(future.get()[0][0])
        if len(results) == 500:
            is_over.set()

    for number in range(500):
        inputs = np.full(64, number % 256, "u1")
        asynchronous.infer_async(inputs).add_done_callback(take)
    is_over.wait()
    assert sorted(results) == sorted(number % 256 for number in range(500))


# Q378 Q383
def test_threads_add_callbacks_while_jobs_end(asynchronous):
    counts = [0] * 8
    interval = sys.getswitchinterval()

    def work(seed):
        for _ in range(200):
            future = asynchronous.infer_async(X)
            barrier = threading.Semaphore(0)

            def count(_):
                counts[seed] += 1
                barrier.release()

            for _ in range(3):
                future.add_done_callback(count)
            for _ in range(3):
                barrier.acquire()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert counts == [600] * 8


# Q746
def test_another_interpreter_has_no_callbacks():
    child = run_async(
        """
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            print("no interpreters")
            raise SystemExit
        code = '''
        import qbruntime
        config = qbruntime.ModelConfig()
        config.set_async_pipeline_enabled(True)
        with qbruntime.Model(path, config) as model:
            model.launch(qbruntime.Accelerator())
            future = model.infer_async(bytes(64))
            try:
                future.add_done_callback(print)
            except qbruntime.QbUnsupportedError as error:
                assert "wait_for" in str(error)
            else:
                raise AssertionError
            assert future.wait_for(-1)
        '''
        import textwrap
        other = interpreters.create(isolated=False)
        path = f"path = {sys.argv[1]!r}\\n"
        interpreters.run_string(other, path + textwrap.dedent(code))
        interpreters.destroy(other)
        print("refused")
        """
    )
    if child.stdout == "no interpreters\n":
        pytest.skip("this Python names its interpreters otherwise")
    assert child.stdout == "refused\n"


# Runs after what the package has registered, since it comes before it.
LATE = """
import asyncio, atexit
def late():
    async def wait():
        await future
    for call in (lambda: future.add_done_callback(print), lambda: asyncio.run(wait())):
        try:
            call()
        except RuntimeError as error:
            print(error)
    print(future.wait_for(-1), future.get()[0][63])
atexit.register(late)
"""


# Q378 Q380
def test_at_the_end_nothing_more_is_called_or_awaited():
    child = run_child(
        LATE + ASYNC + "future = model.infer_async(x)",
        COPY64,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )
    *refused, got = child.stdout.splitlines()
    assert len(refused) == 2
    assert all("the interpreter ends" in line for line in refused)
    assert got == "True 63"


# Q378: it never ends, and the process does
def test_the_end_does_not_wait_for_ever_for_a_callback():
    child = run_async(
        """
        is_inside = threading.Event()
        def stand(_):
            is_inside.set()
            threading.Event().wait()
        future = model.infer_async(x)
        future.add_done_callback(stand)
        model.dispose()
        is_inside.wait()
        print("inside")
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert child.stdout == "inside\n"
