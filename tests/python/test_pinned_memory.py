# SPDX-License-Identifier: MIT
"""PinnedMemory: the seed's surface, allocation, protocols, descriptors."""

import copy
import os
import pickle
import struct
import sys
import weakref

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from runtime_cases import COPY64, run_child  # noqa: E402
import fake_dlpack  # noqa: E402
from fakes import BFLOAT16, READ_ONLY, fields  # noqa: E402
from qbruntime import DataType, PinnedMemory, StatusCode  # noqa: E402
from qbruntime import qbruntime as native_module  # noqa: E402

DTYPES = "f4 u1 i1 f2 i2 u2 i4 u4 i8 u8 f8 ?".split()


# Q450 PM01
def test_it_is_made_by_an_accelerator_or_of_a_native_object(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    other = PinnedMemory(pinned._pinned_memory)
    other[1, 2] = 5
    assert pinned[1, 2] == 5 and other is not pinned
    assert PinnedMemory(_pinned_memory=pinned._pinned_memory)[1, 2] == 5
    for bad in (None, pinned, np.zeros(3, "f4"), b"1234"):
        with pytest.raises(TypeError):
            PinnedMemory(bad)
    with pytest.raises(TypeError):
        PinnedMemory()


# Q451
def test_native_classes(acc):
    floats = acc.allocate_pinned_memory(4)._pinned_memory
    octets = acc.allocate_pinned_memory(4, "u1")._pinned_memory
    halves = acc.allocate_pinned_memory(4, "f2")._pinned_memory
    assert type(floats) is native_module.PinnedMemoryFloat
    assert type(octets) is native_module.PinnedMemoryUint8
    assert type(halves) is native_module.PinnedMemoryBase
    for native in (floats, octets, halves):
        assert isinstance(native, native_module.PinnedMemoryBase)
        assert memoryview(native).nbytes == 4 * memoryview(native).itemsize
        for make in (type(native), lambda: object.__new__(type(native))):
            with pytest.raises(TypeError):
                make()

    class Mine(native_module.PinnedMemoryBase):
        pass

    for make in (Mine, lambda: Mine.__new__(Mine), lambda: object.__new__(Mine)):
        with pytest.raises(TypeError):
            make()


# Q452
def test_the_array_is_a_view_of_the_same_bytes(acc):
    pinned = acc.allocate_pinned_memory((2, 2))
    assert type(pinned._array) is np.ndarray
    pinned._array[1, 1] = 3
    assert pinned[1, 1] == 3


# Q455 PM04
def test_length_and_iteration(acc):
    pinned = acc.allocate_pinned_memory((3, 2))
    assert len(pinned) == 3
    for row in pinned:
        row += 1
    assert np.asarray(pinned).sum() == 6
    assert [x for x in acc.allocate_pinned_memory(2)] == [0.0, 0.0]
    point = acc.allocate_pinned_memory(())
    for call in (len, iter):
        with pytest.raises(TypeError):
            call(point)


# Q456 Q457 Q458 Q459 Q460 Q542 Q881 PM06
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (1, 2, 3, 4)])
def test_facts(acc, dtype, shape):
    pinned = acc.allocate_pinned_memory(shape, dtype)
    same = np.zeros(shape, dtype)
    assert pinned.shape() == shape and type(pinned.shape()) is tuple
    assert pinned.dtype() == same.dtype and isinstance(pinned.dtype(), np.dtype)
    assert pinned.size() == pinned.nbytes == same.nbytes
    assert pinned.is_available() is True
    assert pinned.ndim == same.ndim and pinned.itemsize == same.itemsize
    assert pinned.strides == same.strides


# Q461 Q467
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_reads_as_zeros_and_writes(acc, dtype):
    pinned = acc.allocate_pinned_memory(3, dtype)
    assert pinned[0] == 0 and type(pinned[0]) is np.dtype(dtype).type
    pinned[1] = 1
    pinned[2] = pinned[1]
    assert np.asarray(pinned).tolist() == [0, 1, 1]


# Q197 Q465 Q870
def test_shapes_and_types_that_allocation_takes(acc):
    assert acc.allocate_pinned_memory(3).shape() == (3,)
    assert acc.allocate_pinned_memory([2, np.int64(3)]).shape() == (2, 3)
    assert acc.allocate_pinned_memory(shape=(2,)).dtype() == np.float32
    assert acc.allocate_pinned_memory(2, None).dtype() == np.float32
    for dtype in (np.uint8, "uint8", np.dtype("u1"), DataType.Uint8, "|u1"):
        assert acc.allocate_pinned_memory(2, dtype).dtype() == np.uint8
    assert acc.allocate_pinned_memory(2, dtype=float).dtype() == np.float64
    pinned = acc.allocate_pinned_memory((1,) * 8, alignment=np.int64(4096))
    assert pinned.ndim == 8
    with pytest.raises(TypeError):
        acc.allocate_pinned_memory(2, "f4", True)
    with pytest.raises(qbruntime.QbInvalidArgumentError):
        acc.allocate_pinned_memory((1 << 40, 1 << 40))
    with pytest.raises(qbruntime.QbInvalidArgumentError):
        acc.allocate_pinned_memory((1 << 34) + 1, "u1")


# Q466
@pytest.mark.parametrize("alignment", [64, 128, 4096, 1 << 21])
def test_alignment(acc, alignment):
    pinned = acc.allocate_pinned_memory(5, alignment=alignment)
    assert np.asarray(pinned).ctypes.data % alignment == 0
    assert pinned.device_address() is None or pinned.device_address() % alignment == 0


# Q468 Q470
def test_contiguity(acc):
    pinned = acc.allocate_pinned_memory(5)
    assert pinned.contiguity() in ("driver", "hugepage", "locked")
    try:
        proven = acc.allocate_pinned_memory(5, require_contiguous=True)
    except qbruntime.QbRuntimeError as error:
        assert error.status is StatusCode.PinnedMemory_NotContiguous
    else:
        assert proven.contiguity() in ("driver", "hugepage")


# Q501
def test_repr_and_identity(acc):
    pinned = acc.allocate_pinned_memory((4, 8))
    assert repr(pinned) == (
        "PinnedMemory(shape=(4, 8), dtype=float32, device=aries-rb:0, "
        f"{pinned.contiguity()})"
    )
    other = PinnedMemory(pinned._pinned_memory)
    assert pinned != other and pinned == pinned and {pinned: 1}[pinned] == 1
    assert (np.asarray(pinned) == other).all()


# Q502
def test_it_is_not_pickled(acc):
    pinned = acc.allocate_pinned_memory(4)
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="export_fd"):
            call(pinned)


@pytest.mark.parametrize("dtype", DTYPES)
def test_buffer_protocol(acc, dtype):
    pinned = acc.allocate_pinned_memory((2, 3), dtype)
    array = np.zeros((2, 3), dtype)
    for source in (pinned, pinned._pinned_memory):
        view, theirs = memoryview(source), memoryview(array)
        assert view.format == theirs.format and view.shape == theirs.shape
        assert view.strides == theirs.strides and view.itemsize == theirs.itemsize
        assert view.c_contiguous and not view.readonly
        assert np.asarray(source).dtype == array.dtype
        assert np.shares_memory(np.asarray(source), np.asarray(pinned))


def test_orders_that_the_buffer_protocol_asks_for(acc):
    testbuffer = pytest.importorskip("_testbuffer")
    square, line = acc.allocate_pinned_memory((2, 3)), acc.allocate_pinned_memory(
        (1, 3)
    )
    for flags in (
        testbuffer.PyBUF_SIMPLE,
        testbuffer.PyBUF_WRITABLE,
        testbuffer.PyBUF_ND,
        testbuffer.PyBUF_C_CONTIGUOUS,
        testbuffer.PyBUF_ANY_CONTIGUOUS,
        testbuffer.PyBUF_FULL_RO,
    ):
        assert testbuffer.ndarray(square, getbuf=flags).nbytes == 24
    with pytest.raises(qbruntime.QbBufferError):
        testbuffer.ndarray(square, getbuf=testbuffer.PyBUF_F_CONTIGUOUS)
    assert testbuffer.ndarray(line, getbuf=testbuffer.PyBUF_F_CONTIGUOUS).nbytes == 12
    assert np.asfortranarray(square).shape == (2, 3)


def test_bytes_go_in_and_out_without_numpy(acc):
    pinned = acc.allocate_pinned_memory((2, 2))
    memoryview(pinned).cast("B")[:] = struct.pack("4f", 1, 2, 3, 4)
    assert memoryview(pinned).tolist() == [[1, 2], [3, 4]]
    assert bytes(pinned) == struct.pack("4f", 1, 2, 3, 4)


def test_array_interface(acc):
    pinned = acc.allocate_pinned_memory((2, 3), "i2")
    for source in (pinned, pinned._pinned_memory):
        interface = source.__array_interface__
        assert interface["version"] == 3 and interface["shape"] == (2, 3)
        assert interface["typestr"] == "<i2"
        address = np.asarray(pinned).ctypes.data
        assert interface["data"] == (address, False)
    # who has the address is not counted, so the pages stay
    pinned[1, 2] = 7

    class Borrower:
        __array_interface__ = pinned.__array_interface__
        keeps = pinned

    array = np.asarray(Borrower())
    pinned.free()
    assert array[1, 2] == 7 and not pinned.is_available()


# PM16: an address that was told is good, also where free() came while it was
def test_memory_that_is_freed_while_its_address_is_told_stays():
    run_child(
        """
        import ctypes
        import numpy
        import qbruntime

        def free(*args):
            pinned.free()
            return make(*args)

        pinned = qbruntime.Accelerator().allocate_pinned_memory(4096, "i2")
        memoryview(pinned)[4095] = 7
        make, numpy.empty = numpy.empty, free
        interface = pinned._pinned_memory.__array_interface__
        numpy.empty = make
        assert not pinned.is_available()
        address, is_read_only = interface["data"]
        assert ctypes.c_int16.from_address(address + 2 * 4095).value == 7
        """
    )


def test_array_method(acc):
    pinned = acc.allocate_pinned_memory(3)
    pinned[:] = [1, 2, 3]
    array = pinned.__array__()
    assert np.shares_memory(array, pinned._array) and array is not pinned._array
    assert pinned.__array__("i4").dtype == np.int32
    assert not np.shares_memory(pinned.__array__(copy=True), array)
    assert not np.shares_memory(pinned.__array__("f4", copy=True), array)
    assert np.shares_memory(pinned.__array__("f4", copy=False), array)
    with pytest.raises(ValueError):
        pinned.__array__("i4", copy=False)
    assert np.array(pinned).tolist() == [1, 2, 3]


# Q500
def test_a_descriptor_leads_back_to_the_same_bytes(acc):
    pinned = acc.allocate_pinned_memory((16, 64), "u1")
    pinned[1, 2] = 9
    fd = pinned.export_fd()
    try:
        other = acc.import_pinned_memory(fd, (64,), "u1", offset=64)
        assert other[2] == 9
        other[3] = 8
        assert pinned[1, 3] == 8
        assert os.get_inheritable(fd) is False
        for call in (
            lambda: acc.import_pinned_memory(fd, (1 << 24,), "u1"),
            lambda: acc.import_pinned_memory(fd, 4, "u1", offset=1),
            lambda: acc.import_pinned_memory(fd, 4, "u1", offset=-64),
            lambda: acc.import_pinned_memory(-1, 4, "u1"),
        ):
            with pytest.raises(qbruntime.QbRuntimeError) as caught:
                call()
            assert caught.value.status in (1000, 1011)
        with pytest.raises(TypeError):
            acc.import_pinned_memory(fd, 4)
    finally:
        os.close(fd)


# Q846
@pytest.mark.parametrize("profile", ["aries", "regulus"])
def test_each_way_to_the_memory_is_there_on_every_device(profile):
    run_child(
        """
        import ctypes, os, sys, numpy as np, qbruntime
        from fakes import fields
        with qbruntime.Accelerator() as acc, qbruntime.Model(sys.argv[1]) as model:
            model.launch(acc)
            (x,), (y,) = model.allocate_inputs(), model.allocate_outputs()
            memoryview(x)[0] = 10
            np.asarray(x.tensor())[1] = 11
            ctypes.memset(fields(x)["address"] + 2, 12, 1)
            with x.cpu_access(write=True) as opened:
                opened._array[3] = 13
            fd = x.export_fd()
            with acc.import_pinned_memory(fd, 8, "u1") as other:
                other[4:] = [14, 15, 16, 17]
            os.close(fd)
            with x:
                assert model.infer_pinned_memory(x, y) == [y]
            assert y[:8].tolist() == list(range(10, 18))
            assert model.counters()["copied_nbytes"] == 0
            assert not x.is_available() and sys.argv[2] in repr(y)
        """,
        COPY64,
        profile,
        QBRUNTIME_SOFT_DEVICES=profile,
    )


def test_a_read_only_import_is_read_only_everywhere(acc):
    fcntl = pytest.importorskip("fcntl")
    fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, 4096)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | 0x10)
        pinned = acc.import_pinned_memory(fd, 4, "f4")
    finally:
        os.close(fd)
    assert memoryview(pinned).readonly and not np.asarray(pinned).flags.writeable
    assert pinned.__array_interface__["data"][1] is True
    # H54 H55 H76 H81 PM16
    assert pinned.tensor().is_read_only
    assert fields(pinned, max_version=(1, 0))["flags"] == READ_ONLY
    assert fake_dlpack.exchange_export(pinned).fields()["flags"] == READ_ONLY
    for call in (pinned.__dlpack__, lambda: fake_dlpack.exchange_borrow(pinned)):
        with pytest.raises(qbruntime.QbBufferError) as caught:
            call()
        assert caught.value.status is StatusCode.Tensor_ReadOnly
    for call in (
        lambda: pinned.__setitem__(0, 1.0),
        lambda: pinned.__setitem__(slice(None), 1.0),
        lambda: pinned.__setitem__([0, 1], 1.0),
        lambda: pinned.fill(1.0),
        lambda: pinned.cpu_access(write=True).__enter__(),
    ):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            call()
        assert caught.value.status is StatusCode.PinnedMemory_ReadOnly
    assert pinned[0] == 0


# H49 PM16
def test_bfloat16_is_allocated_and_says_that_numpy_lacks_it(acc):
    pinned = acc.allocate_pinned_memory(4, DataType.BFloat16)
    assert pinned.size() == 8 and "bfloat16" in repr(pinned)
    for call in (memoryview, np.asarray, lambda pinned: pinned[0]):
        with pytest.raises(BufferError, match="bfloat16: use DLPack"):
            call(pinned)
    with pytest.raises(AttributeError, match="bfloat16: use DLPack"):
        pinned.__array_interface__
    assert not hasattr(pinned, "__array_interface__")
    assert fields(pinned)["dtype"] == pinned.tensor().dtype == BFLOAT16
    if "ml_dtypes" in sys.modules:
        pytest.skip("this NumPy has bfloat16 from ml_dtypes")
    for call in (pinned.dtype, lambda: pinned.fill(0)):
        with pytest.raises(TypeError, match="bfloat16"):
            call()


def test_weak_references_and_subclasses(acc):
    class Mine(PinnedMemory):
        pass

    mine = Mine(acc.allocate_pinned_memory(4)._pinned_memory)
    mine.label = "x"
    assert mine[0] == 0
    watched = weakref.ref(mine)
    del mine
    assert watched() is None
