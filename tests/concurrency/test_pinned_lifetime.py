# SPDX-License-Identifier: MIT
"""Who keeps pinned memory, invalid contents, uses, brackets, threads, leaks."""

import gc
import random
import sys
import threading
import weakref

import pytest
from runtime_cases import COPY64, COUNTED, LASTS, count_fds, resident_kib, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import PinnedMemory, StatusCode  # noqa: E402


# Q495
def test_views_outlive_everything():
    acc = qbruntime.Accelerator()
    model = qbruntime.Model(COPY64)
    model.launch(acc)
    x = model.allocate_inputs()[0]
    x[:] = range(64)
    y = model.infer_pinned_memory(x)[0]
    views = [y[1:], memoryview(y), np.asarray(y)[::2], y._array]
    y.free()
    model.dispose()
    acc.close()
    del acc, model, x, y
    gc.collect()
    # memory of the same size would be the first to be reused
    other = qbruntime.Accelerator().allocate_pinned_memory(64, "u1")
    other[:] = 255
    assert views[0].tolist() == list(range(1, 64))
    assert views[1].tolist() == list(range(64))
    assert views[2].tolist() == list(range(0, 64, 2))
    views[3][5] = 77
    assert views[1][5] == 77


# Q496 PM07
def test_free(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    pinned[:] = 5
    view = pinned[1]
    pinned.free()
    pinned.free()
    assert pinned.is_available() is False
    assert pinned.shape() == (2, 3) and pinned.dtype() == np.float32
    assert pinned.size() == pinned.nbytes == 24 and pinned.ndim == 2
    assert repr(pinned).endswith(", freed)")
    assert view.tolist() == [5, 5, 5]
    for call in (
        lambda: pinned[0],
        lambda: pinned[0, 0],
        lambda: pinned[[0]],
        lambda: pinned.__setitem__((0, 0), 1.0),
        lambda: pinned.__setitem__(slice(None), 1.0),
        lambda: len(pinned),
        lambda: iter(pinned),
        lambda: pinned.fill(1),
        lambda: pinned._array,
        lambda: pinned.__array__(),
        lambda: pinned.cpu_access(),
        lambda: pinned.__enter__(),
        pinned.export_fd,
        pinned.device_address,
    ):
        with pytest.raises(qbruntime.QbClosedError) as caught:
            call()
        assert caught.value.status is StatusCode.PinnedMemory_NotAvailable
    for call in (
        lambda: memoryview(pinned),
        lambda: memoryview(pinned._pinned_memory),
        lambda: np.asarray(pinned),
        lambda: pinned.__array_interface__,
    ):
        with pytest.raises(BufferError) as caught:
            call()
        assert caught.value.status is StatusCode.PinnedMemory_NotAvailable
    model = qbruntime.Model(COPY64)
    with pytest.raises(qbruntime.QbClosedError):
        model.infer_pinned_memory(pinned)


def test_a_context_frees(acc):
    with acc.allocate_pinned_memory(4) as pinned:
        pinned[0] = 1
    assert not pinned.is_available()


def test_two_that_share_memory_are_freed_together(acc):
    pinned = acc.allocate_pinned_memory(4)
    other = PinnedMemory(pinned._pinned_memory)
    array = other._array
    pinned.free()
    assert not other.is_available()
    with pytest.raises(qbruntime.QbClosedError):
        other[0]
    array[0] = 1


# Q473
def test_memory_goes_back_at_the_last_export(acc):
    pinned = acc.allocate_pinned_memory(1 << 20, "u1")
    free = acc.info().memory_free
    fds = count_fds()
    for _ in range(200):
        pinned = acc.allocate_pinned_memory(2 << 20, "u1")
        view = memoryview(pinned)
        pinned.free()
        view.release()
    assert count_fds() <= fds + 1
    assert acc.info().memory_free >= free - (2 << 20)


# Q485
def test_what_a_failed_job_left_raises_until_it_is_rewritten():
    run_child(
        """
        import sys, numpy as np, qbruntime
        from qbruntime import QbRuntimeError, StatusCode
        model = qbruntime.load(sys.argv[1])
        x = model.allocate_inputs()
        def fail():
            y = model.allocate_outputs()[0]
            held.append(y._array)
            try:
                model.infer_pinned_memory(x, y)
            except QbRuntimeError as error:
                assert error.status is StatusCode.Model_PredictError
                return y
        def refused(call):
            try:
                call()
            except QbRuntimeError as error:
                assert error.status is StatusCode.Tensor_Invalid, error
                assert "injected" in str(error)
                return isinstance(error, BufferError)
            raise AssertionError(call)
        held = []
        y = fail()
        for call in (
            lambda: y[0], lambda: y[:], lambda: y[[0]],
            lambda: y.__setitem__(0, 1), lambda: y.__setitem__(slice(3), 1),
            lambda: y.__setitem__([1, 2], 1), lambda: y.__array__(),
            lambda: model.infer_pinned_memory(y),
            lambda: y.cpu_access().__enter__(),
        ):
            assert not refused(call)
        for call in (
            lambda: memoryview(y), lambda: y.__array_interface__,
            lambda: memoryview(y._pinned_memory),
        ):
            assert refused(call)
        y.fill(3)
        assert y[63] == 3
        y = fail()
        y[:] = 4
        assert y[63] == 4
        y = fail()
        y[...] = np.arange(64)
        assert y[63] == 63
        y = fail()
        with y.cpu_access(write=True):
            pass
        assert len(y[:]) == 64
        y = fail()
        try:
            y[:] = np.zeros(3)
        except QbRuntimeError as error:
            assert error.status is StatusCode.Tensor_Invalid
        assert not refused(lambda: y[0])
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT="error:every=1,count=5",
    )


# Q489
def test_the_cpu_bracket(acc, launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    array = x[0]._array

    def refused():
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            launched.infer_pinned_memory(x, y)
        return caught.value.status is StatusCode.PinnedMemory_InUse

    access = x[0].cpu_access(write=True)
    with access as pinned:
        assert pinned is x[0]
        array[:] = 3
        assert refused()
        # within it the memory is kept
        with access:
            assert refused()
        assert refused()
    assert launched.infer_pinned_memory(x, y)[0][63] == 3
    with y[0].cpu_access():
        assert refused()
    with x[0].cpu_access():
        launched.infer_pinned_memory(x, y)
    with pytest.raises(RuntimeError):
        access.__exit__(None, None, None)
    with y[0].cpu_access():
        y[0].free()
        assert not y[0].is_available()
    # one that nobody ended ends with its object
    access = x[0].cpu_access(write=True)
    access.__enter__()
    del access
    launched.infer_pinned_memory(x, launched.allocate_outputs())


# B65: whatever comes of the access
def test_no_access_leaves_a_bracket_open(launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    kept = []
    for pinned in (*x, *y):
        tensor = pinned.tensor()
        for call in (
            lambda: pinned[5],
            lambda: pinned[2:4],
            lambda: pinned[[0, 1]],
            lambda: pinned[[99]],
            lambda: pinned["x"],
            lambda: pinned.__setitem__(5, 1),
            lambda: pinned.__setitem__(5, "words"),
            lambda: pinned.__setitem__([0, 1], 1),
            lambda: pinned.__setitem__([99], 1),
            lambda: pinned.__setitem__([0, 1], [1, 2, 3]),
            lambda: pinned.__setitem__(slice(2), [1, 2, 3]),
            lambda: pinned.fill("words"),
            lambda: memoryview(pinned),
            lambda: np.asarray(tensor),
            lambda: (pinned.__dlpack__(), tensor.__dlpack__(copy=True)),
            lambda: pinned.is_available() and pinned == pinned,
        ):
            try:
                kept.append(call())
            except (IndexError, ValueError):
                pass
            assert launched.infer_pinned_memory(x, y) == y
    assert len(kept) == 18


# In the calls of one map() Python switches threads inside a call alone
def test_other_threads_run_while_a_job_runs():
    run_child(
        """
        import operator, sys, threading, qbruntime
        from functools import partial
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        count = [0]
        is_done = []
        def work():
            while not is_done:
                count[0] += 1
        thread = threading.Thread(target=work)
        thread.start()
        read = partial(operator.getitem, count, 0)
        infer = partial(model.infer_pinned_memory, x, y)
        before, _, after = map(operator.call, (read, infer, read))
        is_done.append(1)
        thread.join()
        assert after > before
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# Q499
def test_memory_in_use_is_accessed_in_order():
    run_child(
        """
        import sys, threading, qbruntime
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        x[0].fill(7)
        written = memoryview(y[0])
        thread = threading.Thread(target=model.infer_pinned_memory, args=(x, y))
        thread.start()
        # the bytes come first, the end of the job later
        while written[63] != 7:
            pass
        assert x[0][5] == 7
        assert y[0][63] == 7
        x[0][5] = 1
        y[0].free()
        assert written[5] == 7
        thread.join()
        y = model.allocate_outputs()
        thread = threading.Thread(target=model.infer_pinned_memory, args=(x, y))
        written = memoryview(y[0])
        thread.start()
        while written[63] != 7:
            pass
        y[0].free()
        x[0].free()
        del y, x
        thread.join()
        assert written[5] == 1
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT=LASTS + ",every=1,count=2",
    )


def run_operations(seed, model, acc, shared, errors):
    draw = random.Random(seed)
    x, y = model.allocate_inputs(), model.allocate_outputs()
    x[0].fill(seed)
    for number in range(5000):
        index = draw.randrange(len(shared))
        pinned = shared[index]
        try:
            kind = draw.randrange(12)
            if kind == 0:
                shared[index] = acc.allocate_pinned_memory(64, "u1")
            elif kind == 1:
                pinned.free()
            elif kind == 2:
                pinned[draw.randrange(64)] = number & 255
            elif kind == 3:
                pinned[draw.randrange(64)]
            elif kind == 4:
                pinned[8:] = seed
            elif kind == 5:
                view = pinned[: draw.randrange(64)]
                view[:1] = view[:1]
            elif kind == 6:
                memoryview(pinned).tolist()
            elif kind == 7:
                model.infer_pinned_memory(pinned, y)
            elif kind == 8:
                model.infer_pinned_memory(x, pinned)
            elif kind == 9:
                with pinned.cpu_access(write=draw.random() < 0.5):
                    np.asarray(pinned)[0]
            elif kind == 10:
                pinned[[1, 2, 3]] = pinned[[3, 2, 1]]
            else:
                assert model.infer_pinned_memory(x, y)[0][63] == seed
        except qbruntime.QbRuntimeError as error:
            if error.status not in (1010, 1013):
                errors.append(error)
        except Exception as error:
            errors.append(error)


# Q740
def test_eight_threads_of_random_operations(acc, launched):
    shared = [acc.allocate_pinned_memory(64, "u1") for _ in range(6)]
    errors = []
    threads = [
        threading.Thread(
            target=run_operations, args=(seed, launched, acc, shared, errors)
        )
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


def cycle(acc, number):
    pinned = acc.allocate_pinned_memory((16, 16))
    pinned[3, 4] = number
    pinned[5] = number
    assert pinned[3, 4] == pinned[5][1] == number
    try:
        pinned[16]
    except IndexError:
        pass
    try:
        pinned[:] = "words"
    except ValueError:
        pass
    memoryview(pinned).release()
    with pinned.cpu_access():
        pass
    repr(pinned), pinned.shape(), pinned.dtype(), pinned.__array__(), list(pinned)
    view = pinned[1:]
    if number % 2:
        pinned.free()
        try:
            pinned[0]
        except qbruntime.QbClosedError:
            pass
    return view


def test_nothing_leaks(acc):
    for number in range(500):
        cycle(acc, number)
    gc.collect()
    fds, objects, before = count_fds(), len(gc.get_objects()), resident_kib()
    counted = (*COUNTED, PinnedMemory, np.dtype("f4"), np.asarray, cycle)
    references = [sys.getrefcount(item) for item in counted]
    for number in range(10000):
        cycle(acc, number)
    gc.collect()
    for item, count in zip(counted, references):
        assert abs(sys.getrefcount(item) - count) < 50, item
    assert count_fds() == fds
    assert abs(len(gc.get_objects()) - objects) < 100
    assert resident_kib() - before < 4096


class Frees:
    """As an argument: frees the memory while it is asked for its truth."""

    def __init__(self, pinned):
        self.pinned = pinned

    def __bool__(self):
        self.pinned.free()
        self.kept = [np.full((4, 4), 7.0) for _ in range(100)]
        return False


# Q496
def test_memory_that_is_freed_by_an_argument_gives_no_array(acc):
    pinned = acc.allocate_pinned_memory((4, 4))
    np.asarray(pinned)
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        pinned.__array__(None, Frees(pinned))
    assert caught.value.status is qbruntime.StatusCode.PinnedMemory_NotAvailable


class Pinned(PinnedMemory):
    pass


# Q496
def test_a_cycle_through_an_access_is_collected(acc):
    pinned = Pinned(acc.allocate_pinned_memory((4, 4))._pinned_memory)
    pinned.access = pinned.cpu_access(True)
    alive = weakref.ref(pinned)
    del pinned
    gc.collect()
    assert alive() is None
