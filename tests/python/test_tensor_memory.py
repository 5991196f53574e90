# SPDX-License-Identifier: MIT
"""Tensor: copies, memory that comes back, who keeps it and how long."""

import ctypes
import gc
import sys
import weakref

import pytest
from runtime_cases import COUNTED

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import IS_COPIED, IS_PADDED, UINT8, fields, producer  # noqa: E402
from qbruntime import streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
as_tensor = Tensor.as_tensor


def alias(pinned):
    """An array by DLPack, but NumPy 1 makes those read-only, and exports none such."""
    array = np.from_dlpack(pinned)
    assert array.ctypes.data == pinned.tensor().data
    return array if array.flags.writeable else np.asarray(pinned)


SOURCES = [
    np.arange(24, dtype="f4").reshape(2, 3, 4),
    np.arange(24, dtype="i2").reshape(2, 3, 4)[::-1, 1:, ::2],
    np.arange(24, dtype="f8").reshape(4, 6).T,
    np.array(7, "u1"),
    np.zeros((3, 0, 2), "f4"),
    np.broadcast_to(np.arange(3, dtype="c8"), (4, 3)).copy(),
]


# H84 H111
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.shape))
def test_a_copy_is_writable_and_contiguous(source):
    tensor = as_tensor(source)
    copied = tensor.copy()
    assert not copied.is_read_only and copied.is_contiguous()
    assert copied.shape == source.shape and copied.device == (1, 0)
    assert copied.data != tensor.data or not source.size
    assert copied.data % 64 == 0
    array = np.asarray(copied)
    assert np.array_equal(array, source) and array.flags.writeable
    if source.size:
        before = source.flat[0]
        array.flat[0] = before + 1
        assert source.flat[0] == before


# H111
def test_a_copy_of_pinned_memory_is_pinned_memory(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    pinned[:] = np.arange(6).reshape(2, 3)
    part = as_tensor(np.asarray(pinned)[:, ::2])
    for tensor in (pinned.tensor(), as_tensor(pinned), part):
        copied = tensor.copy(stream=None)
        assert "device=aries-rb:0" in repr(copied) and not copied.is_read_only
        assert np.array_equal(np.asarray(copied), np.asarray(tensor))
    pinned.free()
    assert np.asarray(part.copy()).tolist() == [[0, 2], [3, 5]]


# H61 H62 H63 H111 D15
def test_the_stream_of_a_copy_is_checked():
    tensor = as_tensor(np.zeros(3))
    for stream in (None, 0, 1, 2, 7, -1, 2**64 - 1):
        assert tensor.copy(stream).size == tensor.copy(stream=stream).size == 3
    for stream, error in ((True, TypeError), ("1", TypeError), (-2, ValueError)):
        with pytest.raises(error, match="stream"):
            tensor.copy(stream)
    for call in (lambda: tensor.copy(None, None), lambda: tensor.copy(other=1)):
        with pytest.raises(TypeError):
            call()


# H112
def test_memory_that_comes_back_is_recognised(acc):
    pinned = acc.allocate_pinned_memory((4, 6))
    pinned[:] = np.arange(24).reshape(4, 6)
    array = alias(pinned)
    before = streams.bridge_stats()
    for source in (
        array,
        array[1:3, ::2],
        np.asarray(pinned)[2],
        pinned[::-1],
        pinned[:, 1:2],
    ):
        tensor = as_tensor(source)
        assert "device=aries-rb:0" in repr(tensor)
        after = streams.bridge_stats()
        assert after["storages"] == before["storages"]
        assert after["tensors"] == before["tensors"] + 1
        assert after["deferred_releases"] == 0
        assert tensor.is_read_only and np.array_equal(np.asarray(tensor), source)
        pinned[2, 2] += 1
        assert np.array_equal(np.asarray(tensor), source)
        del tensor
    assert streams.bridge_stats() == before


# H112: the storage is kept, whoever gave its memory back
def test_recognised_memory_is_kept_without_its_source(acc):
    pinned = acc.allocate_pinned_memory(8)
    pinned[:] = range(8)
    tensor = as_tensor(alias(pinned)[2:4])
    address = tensor.data
    pinned.free()
    del pinned
    other = acc.allocate_pinned_memory(8)
    other[:] = 255
    assert tensor.data == address and np.asarray(tensor).tolist() == [2, 3]


# H112: as an input of a model, where plain arrays are taken
def test_a_tensor_is_a_model_input(launched):
    x = launched.allocate_inputs()[0]
    x[:] = range(64)
    for tensor in (x.tensor(), as_tensor(x), as_tensor(np.arange(64, dtype="u1"))):
        (y,) = launched.infer([tensor])
        assert y.tolist() == list(range(64))


# PM05 PM08 D9
def test_methods_of_pinned_memory_are_attributes_of_a_tensor(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    tensor = pinned.tensor()
    assert pinned.shape() == tensor.shape == (2, 3)
    assert pinned.size() == tensor.nbytes == 24 and tensor.size == 6
    assert pinned.dtype() == "f4" and tensor.dtype == (2, 32, 1)
    assert pinned.is_available() is True and not hasattr(tensor, "is_available")


# PM07 L8 D10
def test_freed_memory_makes_no_new_tensor(acc):
    pinned = acc.allocate_pinned_memory(3)
    pinned[:] = 5
    tensor, array = pinned.tensor(), np.from_dlpack(pinned)
    pinned.free()
    assert pinned.is_available() is False
    with pytest.raises(qbruntime.QbClosedError):
        pinned.tensor()
    for call in (
        lambda: as_tensor(pinned),
        lambda: Tensor.from_dlpack(pinned),
        pinned.__dlpack__,
        pinned.__dlpack_device__,
        lambda: fake_dlpack.exchange_export(pinned),
        lambda: fake_dlpack.exchange_borrow(pinned),
    ):
        with pytest.raises(qbruntime.QbBufferError) as caught:
            call()
        assert caught.value.code_name == "PinnedMemory_NotAvailable"
    # what was there stays
    assert np.asarray(tensor).tolist() == array.tolist() == [5, 5, 5]
    assert np.asarray(tensor.copy()).tolist() == [5, 5, 5]


# H104 B10
def test_views_outlive_everything(acc):
    own = qbruntime.Accelerator()
    pinned = own.allocate_pinned_memory(64, "u1")
    pinned[:] = range(64)
    fake = producer(shape=(64,), dtype=UINT8, owns=True)
    records, alive = fake.records, weakref.ref(fake)
    views = [as_tensor(pinned), np.from_dlpack(pinned), as_tensor(fake)]
    own.close()
    del own, pinned, fake
    gc.collect()
    scribble = [bytes([255]) * 1000000 for _ in range(100)]
    other = acc.allocate_pinned_memory(64, "u1")
    other[:] = 255
    assert [np.asarray(view).tolist() for view in views] == [list(range(64))] * 3
    assert alive() and len(scribble) == 100
    del views
    gc.collect()
    assert alive() is None and [r.deleter_calls for r in records] == [1]


# B14
def test_attributes_that_are_read_often_leave_counts_alone(acc):
    big = producer(shape=(1 << 31, 3), dtype=UINT8, strides=(0, 1))
    tensors = [as_tensor(big), as_tensor(np.zeros((2, 3)))]
    counted = (*COUNTED, *range(5), Tensor, type(tensors[0].dtype))
    before = [sys.getrefcount(item) for item in counted]
    for _ in range(10**5):
        for tensor in tensors:
            shape, strides, data = tensor.shape, tensor.strides, tensor.data
            dtype, device = tensor.dtype, tensor.device
    assert tensors[0].shape == (1 << 31, 3)
    del shape, strides, data, dtype, device
    for item, count in zip(counted, before):
        assert abs(sys.getrefcount(item) - count) < 50


# B26
def test_alignment(acc):
    for shape in (1, 3, (5, 7)):
        pinned = acc.allocate_pinned_memory(shape, "u1")
        assert pinned.tensor().data % 64 == 0
        assert fields(pinned)["address"] % 64 == 0
    array = np.arange(9, dtype="u1")
    for source in (array[1:], as_tensor(array[1:])):
        tensor = as_tensor(source)
        assert tensor.data == array.ctypes.data + 1
        assert np.from_dlpack(tensor.copy()).tolist() == list(range(1, 9))


# B28
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_arrays_of_no_element(shape):
    fake = producer(shape=shape, address=0)
    tensor = as_tensor(fake)
    assert tensor.shape == shape and tensor.data == 0 and tensor.size == 0
    assert tensor.__array_interface__["data"][0] != 0  # NumPy 1 takes that for an error
    for array in (np.asarray(tensor), np.from_dlpack(tensor.copy())):
        assert array.shape == shape and array.dtype == np.float32
    assert fields(tensor.copy())["shape"] == shape
    again = as_tensor(np.zeros(shape, "f4"))
    assert again.shape == shape and as_tensor(again) is again


def test_a_padded_copy_stays_padded():
    fake = producer(shape=(6,), dtype=(15, 6, 1), flags=IS_PADDED)
    copied = as_tensor(fake).copy()
    exported = fields(copied, max_version=(1, 1))
    assert exported["flags"] == IS_PADDED and exported["dtype"] == (15, 6, 1)
    assert ctypes.string_at(copied.data, 6) == bytes(range(6))
    with pytest.raises(BufferError, match="padded"):
        copied.__dlpack__()
    flags = fields(copied, max_version=(1, 1), copy=True)["flags"]
    assert flags == IS_PADDED | IS_COPIED
