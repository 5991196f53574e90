# SPDX-License-Identifier: MIT
"""Futures in asyncio."""

import asyncio
import os

import pytest
from runtime_cases import LASTS, count_fds, run_async

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import StatusCode  # noqa: E402

X = np.arange(64, dtype="u1")


# Q380
def test_await_gives_the_result(asynchronous):
    async def run():
        (answer,) = await asynchronous.infer_async(X)
        assert np.array_equal(answer, X)
        future = asynchronous.infer_async(X)
        assert future.wait_for(-1)
        (answer,) = await future
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            await future
        return caught.value.status

    assert asyncio.run(run()) is StatusCode.Future_NotValid


# Q380 Q364
def test_many_are_awaited_without_threads_or_descriptors(asynchronous):
    async def ask(number):
        (answer,) = await asynchronous.infer_async(np.full(64, number % 251, "u1"))
        return (answer == number % 251).all()

    async def run(num):
        assert all(await asyncio.gather(*map(ask, range(num))))
        # the library's own threads, and its memory for 64 that are queued
        assert len(os.listdir("/proc/self/task")) < 100 and count_fds() < 1000

    asyncio.run(run(3000))


# Q380
def test_failures_are_raised_in_the_task():
    run_async(
        """
        import asyncio
        async def run():
            answers = await asyncio.gather(
                *(model.infer_async(x) for _ in range(3)), return_exceptions=True)
            assert answers[0].status is StatusCode.Model_PredictError
            assert answers[1][0][63] == answers[2][0][63] == 63
        asyncio.run(run())
        """,
        QBRUNTIME_SOFT_FAULT="error:count=1",
    )


# Q380 Q382
def test_a_task_that_is_cancelled_leaves_the_inference_alone():
    run_async(
        """
        import asyncio
        async def run():
            futures = [model.infer_async(x) for _ in range(3)]
            async def wait(future):
                return await future
            tasks = [asyncio.create_task(wait(future)) for future in futures]
            await asyncio.sleep(0)
            for task in tasks[:2]:
                task.cancel()
            answers = await asyncio.gather(*tasks[:2], return_exceptions=True)
            assert [type(a) for a in answers] == [asyncio.CancelledError] * 2
            assert not any(future.done() for future in futures)
            try:
                await asyncio.wait_for(wait(futures[1]), 0.001)
            except asyncio.TimeoutError:
                pass
            for future in futures:
                future.cancel()
            for waiting in (futures[1], tasks[2]):
                try:
                    await waiting
                except qbruntime.QbCancelledError:
                    continue
                raise AssertionError(waiting)
            # a loop that has ended is told no more
            future = model.infer_async(x)
            task = asyncio.create_task(wait(future))
            await asyncio.sleep(0)
            return future
        future = asyncio.run(run())
        told = threading.Event()
        future.add_done_callback(lambda _: told.set())
        future.cancel()
        told.wait()
        assert refused(future.get) is StatusCode.Cancelled
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q380
def test_two_tasks_await_one_future():
    run_async(
        """
        import asyncio
        async def run():
            future = model.infer_async(x)
            async def wait():
                return await future
            answers = await asyncio.gather(wait(), wait(), return_exceptions=True)
            assert answers[0][0][63] == 63
            assert answers[1].status is StatusCode.Future_NotValid
        asyncio.run(run())
        """,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q381
def test_a_loop_watches_the_descriptor(asynchronous):
    async def run():
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        future = asynchronous.infer_async(X)
        loop.add_reader(future, is_over.set)
        await is_over.wait()
        assert loop.remove_reader(future)
        return future.get()[0][63]

    assert asyncio.run(run()) == 63


def test_without_a_loop_it_says_so():
    run_async(
        """
        future = model.infer_async(x)
        try:
            next(future.__await__())
        except RuntimeError as error:
            assert "no running event loop" in str(error)
        else:
            raise AssertionError
        future.cancel()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
