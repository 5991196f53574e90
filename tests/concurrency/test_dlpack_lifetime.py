# SPDX-License-Identifier: MIT
"""Exports by DLPack: capsules, deleters, threads, leaks."""

import gc
import sys
import threading

import pytest
from runtime_cases import COPY64, LASTS, resident_kib, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import (  # noqa: E402
    UINT8,
    consume,
    count_exports,
    name_of,
    producer,
)
from qbruntime import streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
as_tensor = Tensor.as_tensor


# H74 B04 L1 L3 PM16
def test_a_capsule_frees_what_nobody_consumed(writable):
    before = count_exports()
    capsule = writable.__dlpack__()
    versioned = writable.__dlpack__(max_version=(1, 0))
    assert count_exports() == (before[0] + 1, before[1] + 1, before[2])
    del capsule, versioned
    assert count_exports() == before


# B04 L1 L2
@pytest.mark.parametrize("keywords", [{}, {"max_version": (1, 0)}], ids=["0", "1"])
@pytest.mark.parametrize("is_capsule_first", [True, False])
def test_a_consumed_capsule_is_the_consumers(writable, keywords, is_capsule_first):
    before = count_exports()
    capsule = writable.__dlpack__(**keywords)
    consumer = fake_dlpack.consume(capsule)
    assert name_of(capsule).startswith("used_dltensor")
    assert sum(count_exports()) == sum(before) + 1
    if is_capsule_first:
        del capsule
        assert sum(count_exports()) == sum(before) + 1
        consumer.drop()
    else:
        consumer.drop()
        assert count_exports() == before
        del capsule
    assert count_exports() == before


# B05 H74 L4
@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"max_version": (1, 3)},
        {"copy": True},
        {"copy": True, "max_version": (1, 0)},
    ],
    ids=str,
)
def test_nothing_leaks(acc, keywords):
    pinned = acc.allocate_pinned_memory(64)
    foreign = as_tensor(np.arange(16)).copy()
    for source in (pinned, pinned.tensor(), foreign):
        for _ in range(1000):
            source.__dlpack__(**keywords)
        gc.collect()
        stats, resident = streams.bridge_stats(), resident_kib()
        for _ in range(10000 if "copy" in keywords else 100000):
            source.__dlpack__(**keywords)
        assert streams.bridge_stats() == stats
        assert resident_kib() - resident < 2048


# L9 L10: whichever allocation of Python's fails
def test_an_export_or_import_for_which_there_is_no_memory():
    pytest.importorskip("_testcapi")
    run_child(
        """
        import gc, _testcapi, numpy as np, fake_dlpack, qbruntime
        from functools import partial
        from fakes import ALL, DLPACK, producer
        from qbruntime.payload import Tensor
        from qbruntime.streams import bridge_stats
        acc = qbruntime.Accelerator()
        pinned = acc.allocate_pinned_memory((2, 3))
        foreign = Tensor.as_tensor(np.zeros((2, 3)))
        fakes = [producer(*names) for names in (ALL, DLPACK, ("array",))]
        calls = [partial(Tensor.as_tensor, fake) for fake in fakes]
        for source in pinned, pinned.tensor(), foreign.copy():
            calls += [source.__dlpack__, partial(source.__dlpack__, copy=True)]
            calls += [partial(source.__dlpack__, max_version=(1, 3))]
            calls += [partial(fake_dlpack.exchange_export, source)]
            calls += [partial(getattr, source, "__array_interface__")]
            calls += [partial(Tensor.as_tensor, source)]
        calls += [foreign.copy, pinned.tensor, partial(repr, foreign)]
        for call in calls:
            call()
        gc.collect()
        gc.disable()
        before, num_failed = bridge_stats(), 0
        for call in calls:
            for first in range(40):
                _testcapi.set_nomemory(first, first + 1)
                try:
                    call()
                except MemoryError:
                    num_failed += 1
                finally:
                    _testcapi.remove_mem_hooks()
            gc.collect()
            assert bridge_stats() == before, call
        assert num_failed > 2 * len(calls)
        # one of whose capsule there was none is still the fake's
        assert all(r.deleter_calls <= 1 for r in fakes[1].records)
        records = fakes[0].records
        assert len(records) > 9 and all(r.deleter_calls == 1 for r in records)
        """
    )


# L3: a capsule that ends while an exception unwinds a frame
def test_an_exception_survives_a_capsule():
    fake = producer(owns=True, leaves_error=True)
    records = fake.records

    def work(fake):
        tensor = as_tensor(fake)
        capsule = tensor.__dlpack__(max_version=(1, 0))
        del tensor, fake
        assert name_of(capsule) == "dltensor_versioned"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        work(fake)
    del fake
    gc.collect()
    streams.bridge_stats()
    assert [record.deleter_calls for record in records] == [1]
    assert records[0].had_gil and not records[0].had_error


# B08
def test_a_second_consumption_is_an_error(writable):
    class Once:
        capsule = writable.__dlpack__()

        def __dlpack__(self, **keywords):
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

    source = Once()
    first = as_tensor(source)
    for load in (Tensor.as_tensor, Tensor.from_dlpack):
        with pytest.raises(ValueError, match="consumed"):
            load(source)
    assert np.asarray(first).tolist() == [[0, 1, 2], [3, 4, 5]]


# B01 B11 B69 L5 L6 L7
@pytest.mark.parametrize("is_ours", [True, False])
def test_consumers_drop_where_they_like(acc, is_ours):
    fake = producer(shape=(16,), dtype=UINT8, owns=True)
    before, exports = streams.bridge_stats(), sum(count_exports())
    count = sys.getrefcount(fake)
    tensor = (
        acc.allocate_pinned_memory(16, "u1").tensor() if is_ours else as_tensor(fake)
    )
    keywords = {} if is_ours else {"max_version": (1, 0)}

    consume(tensor, **keywords).drop_without_gil()
    fake_dlpack.drop_on_threads([consume(tensor, **keywords)], 1)
    # somebody else's thread must not ask for the GIL, which this one keeps
    fake_dlpack.drop_on_threads([consume(tensor, **keywords)], 1, True)
    many = [consume(tensor, **keywords) for _ in range(1000)]
    assert sum(count_exports()) == 1000 + exports
    fake_dlpack.drop_on_threads(many, 8)
    assert sum(count_exports()) == exports

    last = consume(tensor, **keywords)
    del tensor
    assert fake.deleter_calls == 0
    fake_dlpack.drop_on_threads([last], 1, True)
    # by the pending call, or else by this
    assert streams.bridge_stats() == before
    if not is_ours:
        (record,) = fake.records
        assert record.deleter_calls == 1 and record.had_gil
        assert record.deleter_thread == threading.get_native_id()
    assert sys.getrefcount(fake) == count


# B11: where Python looks for what was written outside
def test_eight_threads_drop_under_the_debug_allocator():
    run_child(
        """
        import fake_dlpack
        from fakes import consume, producer
        from qbruntime.payload import Tensor
        from qbruntime.streams import bridge_stats
        for _ in range(20):
            tensors = [Tensor.as_tensor(producer(owns=True)) for _ in range(200)]
            many = [consume(tensor, max_version=(1, 0)) for tensor in tensors]
            tensors.clear()
            fake_dlpack.drop_on_threads(many, 8)
        assert not any(bridge_stats().values())
        """,
        PYTHONMALLOC="debug",
    )


# B01 L7: nobody calls the bridge meanwhile
def test_a_pending_call_releases():
    fake = producer()
    last = consume(as_tensor(fake), max_version=(1, 0))
    assert fake.deleter_calls == 0
    last.drop_without_gil()
    for _ in range(100000):
        if fake.deleter_calls:
            break
    assert fake.deleter_calls == 1 and fake.records[0].had_gil


# B32 PM09
def test_default_buffers_go_into_numpy(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    array = np.from_dlpack(pinned)
    pinned[1, 2] = 5
    assert array[1, 2] == 5 and array.ctypes.data == pinned.tensor().data
    if array.flags.writeable:  # NumPy 1 reads alone
        array[0, 0] = 3
        assert pinned[0, 0] == 3
    again = np.from_dlpack(pinned.tensor())
    assert again.ctypes.data == array.ctypes.data
    del pinned
    assert array[1, 2] == again[1, 2] == 5


# B32 PM09
def test_default_buffers_go_into_torch(acc):
    torch = pytest.importorskip("torch")
    pinned = acc.allocate_pinned_memory((2, 3))
    for source in (pinned, pinned.tensor()):
        tensor = torch.from_dlpack(source)
        tensor[0, 1] += 2
        assert (
            pinned[0, 1] == tensor[0, 1] and tensor.data_ptr() == pinned.tensor().data
        )


# L8 PM14: what a job has left that failed, took too long, or was cancelled
@pytest.mark.parametrize(
    "status, fault, limit_ms",
    [
        ("Model_PredictError", "error:every=1,count=1", 60000),
        ("Acc_NPUTimeout", "hang:every=1,count=1", 100),
        ("Cancelled", LASTS + ",every=1,count=1", 60000),
    ],
)
def test_what_a_failed_job_left_is_not_exported(status, fault, limit_ms):
    run_child(
        """
        import sys, numpy as np, fake_dlpack, qbruntime
        from qbruntime.payload import Tensor
        config = qbruntime.ModelConfig()
        config.set_async_pipeline_enabled(True)
        model = qbruntime.Model(sys.argv[1], config)
        model.launch(qbruntime.Accelerator())
        x, y = model.allocate_inputs(), model.allocate_outputs()
        tensor, part = y[0].tensor(), Tensor.as_tensor(np.asarray(y[0])[:32])
        future = model.infer_pinned_memory_async(x, y)
        if sys.argv[2] == "Cancelled":
            future.cancel()
        try:
            future.get()
        except qbruntime.QbRuntimeError as error:
            assert error.code_name == sys.argv[2], error
            words = error.detail
        else:
            raise AssertionError
        exports = (
            tensor.__dlpack__, y[0].__dlpack__, lambda: memoryview(y[0]),
            lambda: tensor.__array_interface__, lambda: y[0].__array_interface__,
            lambda: part.__array_interface__, lambda: Tensor.as_tensor(tensor),
            lambda: fake_dlpack.exchange_export(part),
            lambda: fake_dlpack.exchange_borrow(y[0]),
        )
        others = (
            tensor.copy, part.copy, lambda: y[0][0], lambda: y[0][:3],
            # half of it
            lambda: y[0].__setitem__(slice(32), 1),
            lambda: y[0].__setitem__(slice(None, None, 2), 1),
            lambda: model.infer_pinned_memory(y, model.allocate_outputs()),
        )
        for call in exports + others:
            try:
                call()
            except qbruntime.QbRuntimeError as error:
                assert error.status is qbruntime.StatusCode.Tensor_Invalid, error
                assert sys.argv[2] in str(error) and words in str(error), error
                assert call in others or isinstance(error, BufferError)
            else:
                raise AssertionError(call)
        # a job that succeeds writes all of it
        x[0].fill(3)
        model.infer_pinned_memory(x, y)
        for call in exports + others:
            call()
        assert np.asarray(tensor)[63] == 3
        """,
        COPY64,
        status,
        QBRUNTIME_SOFT_FAULT=fault,
        QBRUNTIME_NPU_TIMEOUT_MS=str(limit_ms),
    )
