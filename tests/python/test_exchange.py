# SPDX-License-Identifier: MIT
"""The table by which C libraries exchange tensors, of Tensor and PinnedMemory."""

import array
import ctypes
import gc
import sys
import threading
import types

import pytest
from runtime_cases import COPY64, LASTS, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import (  # noqa: E402
    BFLOAT16,
    FLOAT32,
    READ_ONLY,
    UINT8,
    fields,
    producer,
)
from qbruntime import PinnedMemory, StatusCode, streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
TYPES = [Tensor, PinnedMemory]
NAME = "__dlpack_c_exchange_api__"


# H75 PM16 D20
def test_the_table_is_one_capsule_of_the_types(acc):
    capsule = vars(Tensor)[NAME]
    assert type(capsule).__name__ == "PyCapsule"
    assert '"dlpack_exchange_api"' in repr(capsule)
    objects = [acc.allocate_pinned_memory(3), acc.allocate_pinned_memory(3).tensor()]
    for thing in (*TYPES, *objects):
        assert getattr(thing, NAME) is capsule
        assert not hasattr(thing, "__c_dlpack_exchange_api__")

    class Mine(PinnedMemory):
        pass

    address, version = fake_dlpack.exchange_address(Tensor)
    assert version == (1, 3)
    found = []

    def work():
        for cls in (*TYPES, Mine):
            found.append(fake_dlpack.exchange_address(cls)[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    work()
    assert found == 15 * [address]


# H75 H56 PM16
def test_an_owning_export(writable):
    before = streams.bridge_stats()
    consumer = fake_dlpack.exchange_export(writable)
    found, expected = consumer.fields(), fields(writable, max_version=(1, 3))
    assert found == expected and found["flags"] == 0
    counts = streams.bridge_stats()
    assert counts["exports_owned_c"] == before["exports_owned_c"] + 1
    assert counts["exports_versioned"] == before["exports_versioned"]
    fake_dlpack.drop_on_threads([consumer], 1, True)
    assert streams.bridge_stats()["exports_owned_c"] == before["exports_owned_c"]


# H76 H81
def test_read_only_memory_is_exported_but_not_lent(acc):
    foreign = Tensor.as_tensor(producer())
    for tensor in (foreign, Tensor.as_tensor(acc.allocate_pinned_memory((2, 3)))):
        consumer = fake_dlpack.exchange_export(tensor)
        assert consumer.fields()["flags"] == READ_ONLY
        with pytest.raises(qbruntime.QbBufferError) as caught:
            fake_dlpack.exchange_borrow(tensor)
        assert caught.value.status is StatusCode.Tensor_ReadOnly


# L7: the last use of imported memory
def test_the_last_export_releases():
    fake = producer("exchange")
    consumer = fake_dlpack.exchange_export(Tensor.as_tensor(fake))
    assert fake.deleter_calls == 0
    fake_dlpack.drop_on_threads([consumer], 1)
    streams.bridge_stats()
    assert fake.deleter_calls == 1 and fake.records[0].had_gil


# H75 PM16: entry 4
def test_a_borrowed_tensor(writable):
    before = streams.bridge_stats()
    lent = fake_dlpack.exchange_borrow(writable)
    exported = fields(writable)
    assert lent == {name: exported[name] for name in lent}
    after = streams.bridge_stats()
    assert after["exports_borrowed"] == before["exports_borrowed"] + 1
    live = ("storages", "exports_legacy", "exports_versioned", "exports_owned_c")
    assert all(after[name] == before[name] for name in live)


# PM07 L8
def test_memory_that_is_freed_meanwhile_is_not_lent():
    run_child(
        """
        import sys, threading, fake_dlpack, qbruntime
        from qbruntime.streams import bridge_stats
        config = qbruntime.ModelConfig()
        config.set_async_pipeline_enabled(True)
        model = qbruntime.Model(sys.argv[1], config)
        model.launch(qbruntime.Accelerator())
        x, y = model.allocate_inputs(), model.allocate_outputs()
        future = model.infer_pinned_memory_async(x, y)
        caught = []
        def work():
            try:
                fake_dlpack.exchange_borrow(y[0])
            except qbruntime.QbBufferError as error:
                caught.append(error.code_name)
        thread = threading.Thread(target=work)
        thread.start()
        while not bridge_stats()["host_blocks"]:
            pass
        y[0].free()
        thread.join()
        assert caught == ["PinnedMemory_NotAvailable"], caught
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )


# The object must be of a type that has the table.
def test_other_objects_are_type_errors():
    for thing in (3, None, np.zeros(3), Tensor):
        with pytest.raises(TypeError):
            fake_dlpack.exchange_borrow(thing, Tensor)


# H81: entry 3
def test_a_struct_becomes_a_tensor():
    fake = producer(shape=(3,), dtype=UINT8, owns=True)
    count = streams.bridge_stats()["storages"]
    for cls in TYPES:
        tensor = fake_dlpack.exchange_import(cls, fake.make_record())
        assert type(tensor) is Tensor and tensor.is_read_only
        assert np.asarray(tensor).tolist() == [0, 1, 2]
        assert streams.bridge_stats()["storages"] == count + 1
        del tensor
    assert [record.deleter_calls for record in fake.records] == [1, 1]


# 1.8 L10: the struct that was refused is the caller's
def test_a_refused_struct_stays_the_callers():
    fake = producer(dtype=(3, 64, 1))
    record = fake.make_record()
    with pytest.raises(BufferError):
        fake_dlpack.exchange_import(Tensor, record)
    assert record.deleter_calls == 0
    fake_dlpack.consume(record.capsule()).drop()
    assert record.deleter_calls == 1
    fake = producer(device=(2, 0))
    record = fake.make_record()
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        fake_dlpack.exchange_import(Tensor, record)
    assert caught.value.status is StatusCode.Bridge_NoDriver
    fake_dlpack.consume(record.capsule()).drop()


# L10: what a program puts in the module's place is not taken for it
@pytest.mark.parametrize("module", [types.ModuleType("qbruntime"), array, 3], ids=str)
def test_another_module_imports_nothing(monkeypatch, module):
    record = producer(shape=(3,), dtype=UINT8).make_record()
    monkeypatch.setitem(sys.modules, "qbruntime.qbruntime", module)
    with pytest.raises(TypeError, match=r"qbruntime\.qbruntime, got"):
        fake_dlpack.exchange_import(Tensor, record)
    assert record.deleter_calls == 0
    fake_dlpack.consume(record.capsule()).drop()


# 1.8: entry 1
@pytest.mark.parametrize("dtype", [FLOAT32, UINT8, BFLOAT16, (6, 8, 1), (0, 64, 1)])
def test_pinned_memory_is_allocated(dtype):
    consumer = fake_dlpack.exchange_allocate(Tensor, (4, 5), dtype, (1, 0))
    found = consumer.fields()
    assert found["shape"] == (4, 5) and found["strides"] == (5, 1)
    assert found["dtype"] == dtype and found["device"] == (1, 0)
    assert found["flags"] == 0 and found["address"] % 64 == 0
    nbytes = 20 * dtype[1] // 8
    ctypes.memset(found["address"], 3, nbytes)
    tensor = fake_dlpack.exchange_import(Tensor, consumer)
    # it is recognised
    assert f"device={streams.current_device()}" in repr(tensor)
    assert tensor.data == found["address"] and tensor.nbytes == nbytes
    assert ctypes.string_at(tensor.data, nbytes) == nbytes * b"\3"


# 1.8: entry 1
@pytest.mark.parametrize(
    "shape, dtype, device, kind",
    [
        ((3,), FLOAT32, (2, 0), "BufferError"),
        ((3,), FLOAT32, (1, 1), "BufferError"),
        ((3,), FLOAT32, (12, 0), "BufferError"),
        ((3,), (2, 32, 4), (1, 0), "BufferError"),
        ((3,), (5, 64, 1), (1, 0), "BufferError"),
        ((0,), FLOAT32, (1, 0), "ValueError"),
        ((-1,), FLOAT32, (1, 0), "ValueError"),
        ((2**40,), FLOAT32, (1, 0), "ValueError"),
    ],
)
def test_what_is_not_allocated_is_told_once(shape, dtype, device, kind):
    before = streams.bridge_stats()
    with pytest.raises(RuntimeError, match=f"^{kind}: .+") as caught:
        fake_dlpack.exchange_allocate(PinnedMemory, shape, dtype, device)
    assert type(caught.value) is RuntimeError
    if kind == "BufferError":
        assert str(dtype if device == (1, 0) else device) in str(caught.value)
    assert streams.bridge_stats() == before


def test_no_device_allocates_nothing():
    run_child(
        """
        import fake_dlpack
        from qbruntime.payload import Tensor
        try:
            fake_dlpack.exchange_allocate(Tensor, (3,), (2, 32, 1), (1, 0))
        except RuntimeError as error:
            assert str(error) == "RuntimeError: no device is visible"
        else:
            raise AssertionError
        """,
        QBRUNTIME_SOFT_DEVICES="none",
    )


# 1.8: entry 5
def test_the_work_stream_of_a_device():
    for device in ((1, 0), (3, 0)):
        assert fake_dlpack.exchange_stream(Tensor, device) == 0
    for device in ((2, 0), (12, 0), (99, 7)):
        with pytest.raises(BufferError, match=str(device[0])):
            fake_dlpack.exchange_stream(PinnedMemory, device)
