# SPDX-License-Identifier: MIT
"""Queued inference, and what a Future tells of it."""

import operator
import os
import select

import pytest
from runtime_cases import LASTS, count_fds, has_fds, run_async

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import Future, Model, StatusCode  # noqa: E402

X = np.arange(64, dtype="u1")

# copies 24 numbers of 8 bits that stand for others
QUANTISED = """
qbm 1.0 isa 1.0 producer="hand"
meta "model.name" = "quantised"
variant "default" inputs=0+1 outputs=1+1 bundles=0+1 batch=1 mode_mask=1
bundle "main" mode_mask=1 program=0,-,-,-,-
io 0 "x" role=input device_dtype=i8 host_dtype=f32 {form}
io 1 "y" role=output device_dtype=i8 host_dtype=f32 {form}
program 0
  binding 0 input tensor=%x io=0
  binding 1 output tensor=%y io=1
  tensor %x i8 [2,3,4] binding=0 {scale}
  tensor %y i8 [2,3,4] binding=1 {scale}
  list 0
    copy src=%x dst=%y
"""


def status_of(call, *arguments):
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        call(*arguments)
    return caught.value.status


# Q351 Q360 Q374
def test_arrays_are_queued_and_a_list_comes_back(acc, asynchronous):
    pinned = acc.allocate_pinned_memory(64, "u1")
    pinned[:] = X
    for inputs in (X, [X], (X,), pinned, [pinned], bytearray(X), X[::-1][::-1]):
        future = asynchronous.infer_async(inputs)
        assert type(future) is Future
        answer = future.get()
        assert type(answer) is list and type(answer[0]) is np.ndarray
        assert np.array_equal(answer[0], X) and answer[0].dtype == np.uint8
    assert asynchronous.infer_async(inputs=X).get()[0][63] == 63
    assert asynchronous.try_infer_async(inputs=X).get()[0][63] == 63
    for call in (
        lambda: asynchronous.infer_async(),
        lambda: asynchronous.infer_async(X, X),
        lambda: asynchronous.infer_async(X, outputs=[X]),
        lambda: asynchronous.infer_async([[1] * 64]),
        lambda: asynchronous.infer_async(None),
    ):
        with pytest.raises(TypeError):
            call()


# Q375 Q877
def test_results_are_independent_arrays(asynchronous):
    futures = [asynchronous.infer_async(np.full(64, i, "u1")) for i in range(20)]
    results = [future.get()[0] for future in futures]
    del futures
    asynchronous.dispose()
    for number, result in enumerate(results):
        assert (result == number).all()
        assert result.flags.writeable and result.flags.c_contiguous
        assert result.ctypes.data % 64 == 0
        result[:] = 255
        assert all((other != 255).all() for other in results[number + 1 :])


# Q361
def test_it_needs_the_pipeline(launched):
    for call in (
        launched.infer_async,
        launched.infer_async_to_float,
        launched.try_infer_async,
    ):
        assert status_of(call, X) is StatusCode.Model_AsyncPipelineCheckFailed
    assert launched.counters()["submitted"] == 0


def test_it_needs_a_launch(asynchronous):
    asynchronous.dispose()
    assert status_of(asynchronous.infer_async, X) is StatusCode.Model_NotAlive


# Q362
def test_one_inference_a_call(asynchronous):
    (answer,) = asynchronous.infer_async(X[None]).get()
    assert answer.shape == (1, 64) and np.array_equal(answer[0], X)
    for inputs in (X[:63], [X, X], [], X[None, None]):
        with pytest.raises(qbruntime.QbShapeError, match="^Input shape is invalid"):
            asynchronous.infer_async(inputs)
    with pytest.raises(qbruntime.QbShapeError, match="a batch of 2"):
        asynchronous.infer_async(np.zeros((2, 64), "u1"))
    with pytest.raises(qbruntime.QbDtypeError):
        asynchronous.infer_async(np.zeros(64, "f4"))
    assert asynchronous.counters()["submitted"] == 1


# Q364
def test_many_results_are_not_mixed(asynchronous):
    futures = [
        asynchronous.infer_async(np.full(64, i % 251, "u1")) for i in range(2000)
    ]
    for number, future in reversed(list(enumerate(futures))):
        assert (future.get()[0] == number % 251).all()


# Q365
def test_a_full_queue():
    run_async(
        """
        futures = [model.infer_async(x) for _ in range(65)]
        before = model.counters()
        assert model.try_infer_async(x) is None
        assert model.counters() == before and before["submitted"] == 65
        more = []
        thread = threading.Thread(target=lambda: more.append(model.infer_async(x)))
        thread.start()
        assert not any(future.done() for future in futures)
        futures[0].cancel()
        thread.join()
        assert more[0].done() is False
        for future in futures[1:] + more:
            future.cancel()
            assert refused(future.get) is StatusCode.Cancelled
        assert model.try_infer_async(x).cancel() in (True, False)
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q367
def test_inputs_may_be_written_once_they_are_queued():
    run_async(
        """
        first, second = model.infer_async(x), model.infer_async(x)
        x[:] = 9
        del x
        assert second.get()[0].tolist() == first.get()[0].tolist() == list(range(64))
        """,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q368
def test_stored_numbers_go_in_and_floats_come_out(acc, tmp_path):
    qbm = pytest.importorskip("qbcompile.qbm")
    scale = "scale=0.5 zero_point=-7"
    text = QUANTISED.format(form=f"layout=1 shape=[2,3,4] {scale}", scale=scale)
    source, path = tmp_path / "quantised.txt", tmp_path / "quantised.qbm"
    source.write_text(text, encoding="utf-8")
    assert qbm.main(["asm", str(source), "-o", str(path)]) == 0
    config = qbruntime.ModelConfig()
    config.set_async_pipeline_enabled(True)
    stored = np.arange(-12, 12, dtype="i1").reshape(2, 3, 4)
    with Model(path, config) as model:
        model.launch(acc)
        for given in (stored, stored.transpose(2, 0, 1), stored[None]):
            (answer,) = model.infer_async_to_float(given).get()
            assert answer.dtype == np.float32 and answer.shape == given.shape
            assert np.array_equal(answer, (given.astype("f4") + 7) / 2)
            (answer,) = model.infer_async(given).get()
            assert answer.dtype == np.int8 and np.array_equal(answer, given)


# Q372
def test_a_future_made_by_hand_is_not_valid():
    future = Future()
    assert repr(future) == "Future(not valid)"
    for call in (
        future.get,
        lambda: future.wait_for(0),
        lambda: future.wait_for(timeout_ms=-1),
        future.done,
        future.exception,
        future.cancel,
        future.fileno,
        lambda: future.add_done_callback(print),
        lambda: next(future.__await__()),
    ):
        with pytest.raises(qbruntime.QbRuntimeError, match="Future_NotValid") as caught:
            call()
        assert caught.value.status is StatusCode.Future_NotValid
    for call in (lambda: Future(1), lambda: Future(model=1)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):

        class Other(Future):
            pass


# Q373 Q374 Q376 Q379
def test_waits_end_and_one_get_takes_the_result(asynchronous):
    future = asynchronous.infer_async(X)
    assert future.wait_for(-1) is True
    assert future.wait_for(0) is True and future.wait_for(timeout_ms=5) is True
    assert future.done() is True and repr(future) == "Future(done)"
    assert future.cancel() is False
    assert np.array_equal(future.get()[0], X)
    assert status_of(future.get) is StatusCode.Future_NotValid
    assert status_of(future.wait_for, 0) is StatusCode.Future_NotValid
    assert future.done() is True
    for bad in (1.0, "1", None, True):
        with pytest.raises(TypeError):
            future.wait_for(bad)


# Q373 Q376 Q379 Q730 Q891: negative limits among the waits
def test_one_that_stands():
    run_async(
        """
        first, second = model.infer_async(x), model.infer_async(x)
        assert repr(second) == "Future(in flight)"
        for future in (first, second):
            assert future.done() is False
            assert future.wait_for(0) is False and future.wait_for(1) is False
        assert second.cancel() is True
        assert second.done() is True and second.wait_for(0) is True
        assert second.cancel() is True
        # 2**58 ms are 0 ns in 64 bits
        waits = []
        def wait(ms):
            waits.append(first.wait_for(ms))
        threads = [threading.Thread(target=wait, args=(ms,))
                   for ms in (2**58, 2**63 - 1, 2**70, -1, -(2**70))]
        for thread in threads: thread.start()
        assert first.done() is False and waits == []
        first.cancel()
        for thread in threads: thread.join()
        assert waits == [True] * 5
        for future in (first, second):
            try:
                future.get()
            except qbruntime.QbCancelledError as error:
                assert error.status is StatusCode.Cancelled
                assert error.device == "aries-rb:0"
            assert refused(future.get) is StatusCode.Future_NotValid
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q377
def test_the_exception_of_one_that_went_well(asynchronous):
    future = asynchronous.infer_async(X)
    assert future.exception() is None
    assert future.exception(0) is None and future.exception(timeout=None) is None
    future.get()
    assert future.exception(1e300) is None
    for bad in (-1, -0.5, float("nan")):
        with pytest.raises(ValueError):
            future.exception(bad)
    for bad in ("1", [], True):
        with pytest.raises(TypeError):
            future.exception(bad)


# Q377 Q374
def test_the_exception_of_one_that_failed():
    run_async(
        """
        future = model.infer_async(x)
        for error in (future.exception(), future.exception(timeout=0)):
            assert type(error) is QbRuntimeError and error.__traceback__ is None
            assert error.status is StatusCode.Model_PredictError
            assert error.device == "aries-rb:0" and "injected" in error.detail
        try:
            future.get()
        except QbRuntimeError as raised:
            assert raised.args == error.args and raised is not error
        assert refused(future.get) is StatusCode.Future_NotValid
        assert future.exception().args == error.args
        assert model.infer_async(x).get()[0][63] == 63
        """,
        QBRUNTIME_SOFT_FAULT="error:count=1",
    )
    run_async(
        """
        future = model.infer_async(x)
        for timeout in (0, 0.001, np.float32(0.0)):
            try:
                future.exception(timeout)
            except qbruntime.QbTimeoutError as error:
                assert isinstance(error, TimeoutError)
                assert error.status is StatusCode.TimedOut
            else:
                raise AssertionError(timeout)
        future.cancel()
        error = future.exception()
        assert type(error) is qbruntime.QbCancelledError
        assert error.status is StatusCode.Cancelled
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q381
def test_the_descriptor_is_readable_when_it_is_done(asynchronous):
    # the first one has memory made for it
    asynchronous.infer_async(X).get()
    fds = count_fds()
    future = asynchronous.infer_async(X)
    fd = future.fileno()
    assert type(fd) is int and fd > 2 and future.fileno() == fd
    assert select.select([future], [], []) == ([future], [], [])
    assert not os.get_inheritable(fd)
    future.get()
    assert select.select([future], [], [], 0) == ([future], [], [])
    assert future.fileno() == fd and has_fds(fds + 1)
    del future
    assert count_fds() == fds


# Q381
def test_the_descriptor_of_one_that_stands():
    run_async(
        """
        import select
        futures = [model.infer_async(x) for _ in range(3)]
        assert select.select(futures, [], [], 0) == ([], [], [])
        # one that comes after another which stands
        assert futures[1].cancel() and not futures[0].done()
        assert select.select(futures, [], []) == ([futures[1]], [], [])
        futures[0].cancel()
        assert select.select(futures[:1], [], []) == ([futures[0]], [], [])
        assert select.select(futures[2:], [], [], 0) == ([], [], [])
        futures[2].cancel()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q485 Q340: the limit is the job's
def test_a_time_limit_ends_it():
    run_async(
        """
        futures = [model.infer_async(x) for _ in range(2)]
        try:
            futures[0].get()
        except qbruntime.QbTimeoutError as error:
            assert error.status is StatusCode.Acc_NPUTimeout
            assert "npu_watchdog" in str(error)
        assert model.infer_async(x).get()[0][63] == 63
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=1",
        QBRUNTIME_NPU_TIMEOUT_MS="100",
    )


# Q739
def test_ctrl_c_ends_a_get_and_the_inference_goes_on():
    child = run_async(
        """
        import operator, os, signal
        from functools import partial
        future = model.infer_async(x)
        is_started, handled = [], []
        def handler(number, frame):
            handled.append(bool(is_started))
            if is_started:
                raise KeyboardInterrupt
        def interrupt():
            sent = 0
            while True not in handled:
                os.kill(os.getpid(), signal.SIGINT)
                sent += 1
                while len(handled) < sent:
                    pass
        signal.signal(signal.SIGINT, handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            list(map(operator.call, (partial(is_started.append, 1), future.get)))
        except KeyboardInterrupt:
            print("interrupted")
        thread.join()
        assert future.done() is False
        future.cancel()
        assert refused(future.get) is StatusCode.Cancelled
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert child.stdout == "interrupted\n"


def test_futures_compare_by_identity(asynchronous):
    one, two = asynchronous.infer_async(X), asynchronous.infer_async(X)
    assert one == one and one != two and len({one, two}) == 2
    with pytest.raises(TypeError):
        operator.lt(one, two)
