# SPDX-License-Identifier: MIT
"""Tensor: what it says, array interfaces, devices and counters."""

import sys
import weakref

import pytest
from runtime_cases import COPY64, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from fakes import BFLOAT16, IS_PADDED, LEGACY, UINT8, fields, producer  # noqa: E402
from qbruntime import streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
as_tensor = Tensor.as_tensor
DTYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 c8 c16".split()
CODES = {"i": 0, "u": 1, "f": 2, "c": 5}
ATTRIBUTES = (
    "byte_offset data device dtype is_read_only itemsize nbytes ndim shape size strides"
).split()


def live():
    """The counters of what is alive."""
    stats = streams.bridge_stats()
    return {
        name: stats[name]
        for name in stats
        if name in ("storages", "tensors")
        or name.startswith(("exports_l", "exports_v"))
    }


# H23 PM10
def test_handles_share_a_storage(acc):
    before = live()
    pinned = acc.allocate_pinned_memory((2, 3))
    one, other = as_tensor(pinned), as_tensor(pinned)
    assert one is not other and one.data == other.data
    assert one.is_read_only and other.is_read_only
    assert live()["storages"] == before["storages"] + 1
    assert pinned.tensor().is_read_only is False
    pinned[1, 2] = 5
    del one
    assert np.asarray(other)[1, 2] == 5
    del other, pinned
    assert live() == before


# H24 H25 B22 D1
@pytest.mark.parametrize("version", [LEGACY, (1, 0)])
def test_data_and_byte_offset(version):
    fake = producer(shape=(4,), dtype=UINT8, version=version, byte_offset=8)
    tensor = as_tensor(fake)
    assert (tensor.data, tensor.byte_offset) == (fake.address, 8)
    assert [type(tensor.data), type(tensor.byte_offset)] == [int, int]
    interface = tensor.__array_interface__
    assert interface["data"] == (fake.address + 8, True)
    assert np.asarray(tensor).tolist() == [8, 9, 10, 11]
    exported = fields(tensor, max_version=(1, 0))
    assert (exported["address"], exported["byte_offset"]) == (fake.address + 8, 0)
    copied = tensor.copy()
    assert copied.byte_offset == 0 and np.asarray(copied).tolist() == [8, 9, 10, 11]


def test_memory_of_ours_has_no_byte_offset(acc):
    pinned = acc.allocate_pinned_memory(16, "u1")
    tensor = pinned.tensor()
    assert tensor.byte_offset == 0
    assert tensor.data == pinned.__array_interface__["data"][0]
    assert tensor.data == fields(pinned)["address"]


# H26 H73
@pytest.mark.parametrize("kind, number", [(1, 0), (1, 5), (3, 0), (3, 5)])
def test_the_device_is_a_pair(kind, number):
    tensor = as_tensor(producer(device=(kind, number)))
    assert tensor.device == (kind, 0) == tensor.__dlpack_device__()
    assert (tensor.device.device_type, tensor.device.device_id) == (kind, 0)
    assert type(tensor.__dlpack_device__()) is tuple
    assert [type(number) for number in tensor.__dlpack_device__()] == [int, int]
    assert fields(tensor, max_version=(1, 0))["device"] == (kind, 0)


# H27 H29 H31 H41
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_of_numpy(name):
    array = np.zeros((2, 3), name)
    tensor = as_tensor(array)
    dtype = tensor.dtype
    assert dtype == (CODES[name[0]], array.itemsize * 8, 1)
    assert (dtype.code, dtype.bits, dtype.lanes) == tuple(dtype)
    assert tensor.itemsize == array.itemsize and tensor.nbytes == array.nbytes
    assert np.asarray(tensor).dtype == array.dtype


# H27 H29 H49
def test_dtypes_that_numpy_lacks():
    for dtype, itemsize in (
        (BFLOAT16, 2),
        ((2, 32, 4), 16),
        ((10, 8, 1), 1),
        ((6, 8, 3), 3),
        ((5, 32, 1), 4),
    ):
        tensor = as_tensor(producer(shape=(2,), dtype=dtype))
        assert tensor.dtype == dtype and tensor.itemsize == itemsize
        assert tensor.nbytes == 2 * itemsize
        with pytest.raises(AttributeError, match="DLPack"):
            tensor.__array_interface__
        assert not hasattr(tensor, "__array_interface__")
        assert not hasattr(tensor, "__cuda_array_interface__")
        assert fields(tensor, max_version=(1, 0))["dtype"] == dtype


# H27 H41: by what NumPy 1.24 does not export
def test_bool():
    tensor = as_tensor(producer(shape=(3,), dtype=(6, 8, 1)))
    assert tensor.itemsize == 1 and tensor.__array_interface__["typestr"] == "|b1"
    assert np.asarray(tensor).tolist() == [False, True, True]


# B30
def test_packed_elements_are_not_taken_for_padded_ones():
    padded = as_tensor(producer(shape=(6,), dtype=(17, 4, 1), flags=IS_PADDED))
    assert padded.itemsize == 1 and padded.nbytes == 6
    assert fields(padded, max_version=(1, 1))["flags"] & IS_PADDED
    with pytest.raises(BufferError, match="4"):
        as_tensor(producer(shape=(6,), dtype=(17, 4, 1)))


# H28
def test_read_only_never_changes(acc):
    array = np.zeros(4, "f4")
    tensor = as_tensor(array)
    for _ in range(3):
        assert tensor.is_read_only is True
        array[0] += 1
        fields(tensor, max_version=(1, 0))
        tensor.copy()
    array.flags.writeable = False
    assert tensor.is_read_only is True
    writable = acc.allocate_pinned_memory(4).tensor()
    for _ in range(3):
        assert writable.is_read_only is False
        as_tensor(writable)
        fields(writable)


# H30 H32
@pytest.mark.parametrize(
    "shape, size", [((), 1), ((0,), 0), ((3, 0, 2), 0), ((2, 3), 6), ((1, 1), 1)]
)
def test_size_and_shape(shape, size):
    tensor = as_tensor(producer(shape=shape))
    assert tensor.size == size and tensor.nbytes == 4 * size
    assert tensor.shape == shape and type(tensor.shape) is tuple
    assert tensor.ndim == len(shape)
    for number in (tensor.size, tensor.ndim, *tensor.shape, *tensor.strides):
        assert type(number) is int


# H31 H33
def test_strides_are_bytes():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    assert as_tensor(array).strides == (12, 4)
    assert as_tensor(array.T).strides == (4, 12)
    assert as_tensor(array[:, ::-1]).strides == (12, -4)
    fake = producer(shape=(4, 2), strides=(0, 1))
    tensor = as_tensor(fake)
    assert tensor.strides == (0, 4) and tensor.nbytes == 32
    assert np.asarray(tensor).strides == (0, 4)


# H34 B24
@pytest.mark.parametrize("version", [LEGACY, (1, 0)])
@pytest.mark.parametrize("ndim", range(5))
def test_missing_strides_are_the_compact_ones(ndim, version):
    shape = (2, 3, 4, 5)[:ndim]
    tensor = as_tensor(producer(shape=shape, version=version))
    assert tensor.strides == np.zeros(shape, "f4").strides
    exported = fields(tensor, max_version=(1, 0))
    expected = tuple(stride // 4 for stride in tensor.strides)
    assert exported["strides"] == (expected if ndim else None)


# H35
@pytest.mark.parametrize(
    "shape, strides, answer",
    [
        ((), (), True),
        ((0,), (7,), True),
        ((3, 0, 2), (1, 5, 9), True),
        ((4,), (1,), True),
        ((4,), (2,), False),
        ((4,), (-1,), False),
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((2, 3), (4, 1), False),
        ((2, 1, 3), (3, 99, 1), True),
        ((1, 5), (-7, 1), True),
        ((5, 1), (1, 5), True),
        ((2, 2), (0, 1), False),
    ],
)
def test_contiguity(shape, strides, answer):
    tensor = as_tensor(producer(shape=shape, strides=strides, byte_offset=16))
    assert tensor.is_contiguous() is answer


# H36 H115
def test_attributes_are_not_settable(acc):
    for tensor in (as_tensor(np.zeros(3)), acc.allocate_pinned_memory(3).tensor()):
        for name in (*ATTRIBUTES, "__array_interface__", "other"):
            with pytest.raises(AttributeError):
                setattr(tensor, name, 1)
        assert {name for name in dir(tensor) if name[0] != "_"} == {
            *ATTRIBUTES,
            "as_tensor",
            "copy",
            "from_dlpack",
            "is_contiguous",
        }


# H37 H40 H41
@pytest.mark.parametrize("kind", [1, 3])
def test_the_array_interface_of_host_memory(kind):
    fake = producer(shape=(2, 3), device=(kind, 0), version=(1, 0))
    tensor = as_tensor(fake)
    assert tensor.__array_interface__ == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<f4" if sys.byteorder == "little" else ">f4",
        "strides": (12, 4),
        "data": (fake.address, True),
    }
    assert hasattr(tensor, "__array_interface__")
    assert not hasattr(tensor, "__cuda_array_interface__")
    with pytest.raises(AttributeError) as caught:
        tensor.__cuda_array_interface__
    assert type(caught.value) is AttributeError
    view = np.asarray(tensor)
    assert view.ctypes.data == fake.address and not view.flags.writeable


# H41
def test_a_writable_tensor_gives_a_writable_view(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    tensor = pinned.tensor()
    assert tensor.__array_interface__["data"][1] is False
    np.asarray(tensor)[1, 1] = 7
    assert pinned[1, 1] == 7


# H42 H43 H44 H54 H69 PM11
def test_what_a_job_writes_is_waited_for_without_the_gil():
    run_child(
        """
        import ctypes, operator, sys, threading
        import numpy as np, fake_dlpack, qbruntime
        from functools import partial
        from qbruntime.payload import Tensor
        from qbruntime.streams import bridge_stats
        config = qbruntime.ModelConfig()
        config.set_async_pipeline_enabled(True)
        model = qbruntime.Model(sys.argv[1], config)
        acc = qbruntime.Accelerator()
        model.launch(acc)
        x, y = model.allocate_inputs(), model.allocate_outputs()
        x[0].fill(7)
        tensor, read_only = y[0].tensor(), Tensor.as_tensor(y[0])
        # a slice that came back
        part = Tensor.as_tensor(np.asarray(y[0])[60:])
        for source in tensor, part, x[0].tensor(), Tensor.as_tensor(np.zeros(3)):
            source.__array_interface__, source.copy()
            source.__dlpack__(max_version=(1, 0))
        waited = ("events_created", "device_waits", "host_blocks")
        assert not any(bridge_stats()[name] for name in waited)
        count = [0]
        is_done = []
        def work():
            while not is_done:
                count[0] += 1
        threading.Thread(target=work, daemon=True).start()
        read = partial(operator.getitem, count, 0)
        waits = [
            partial(getattr, source, "__array_interface__")
            for source in (tensor, part, y[0])
        ]
        waits += [
            tensor.__dlpack__,
            y[0].__dlpack__,
            partial(fake_dlpack.exchange_export, read_only),
            partial(fake_dlpack.exchange_borrow, y[0]),
            partial(memoryview, y[0]),
            partial(operator.getitem, y[0], 63),
            partial(operator.getitem, y[0], slice(60, None)),
            partial(x[0].fill, 7),
        ]
        copies = [part.copy, partial(tensor.__dlpack__, copy=True)]
        for number, wait in enumerate(waits + copies):
            y[0].fill(0)
            future = model.infer_pinned_memory_async(x, y)
            # what is refused whatever the memory holds does not wait for it
            for refused in read_only.__dlpack__, partial(tensor.__dlpack__, copy=1):
                try:
                    refused()
                except (BufferError, TypeError):
                    pass
                else:
                    raise AssertionError(refused)
            assert bridge_stats()["host_blocks"] == number
            before, found, after = map(operator.call, (read, wait, read))
            assert after > before, wait
            assert bridge_stats()["host_blocks"] == number + 1, wait
            assert future.done() and future.get() == y
            assert np.from_dlpack(tensor)[63] == 7
            if wait is copies[0]:
                assert np.asarray(found).tolist() == [7] * 4
            elif wait is copies[1]:
                copied = fake_dlpack.consume(found)
                address = copied.fields()["address"]
                assert ctypes.string_at(address, 64) == bytes([7]) * 64
                copied.drop()
        is_done.append(1)
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT="slow:ns=300000000,every=1,count=99",
    )


# H50
def test_the_dictionary_does_not_keep_the_memory():
    fake = producer()
    interface = as_tensor(fake).__array_interface__
    assert fake.deleter_calls == 1 and interface["data"][0] == fake.address


# H110 H114
def test_users_do_not_construct_tensors(acc):
    for args, kw in (((), {}), ((np.zeros(3),), {}), ((), {"shape": (3,)})):
        with pytest.raises(TypeError):
            Tensor(*args, **kw)
    with pytest.raises(TypeError):
        type("Mine", (Tensor,), {})
    with pytest.raises(TypeError):
        object.__new__(Tensor)
    array = np.arange(3, dtype="f4")
    tensor = as_tensor(array)
    for call in (
        lambda: memoryview(tensor),
        lambda: tensor[0],
        lambda: len(tensor),
        lambda: iter(tensor),
        lambda: bytes(tensor),
    ):
        with pytest.raises(TypeError):
            call()
    array[1] = 9
    assert np.asarray(tensor)[1] == 9 and np.asarray(tensor).base is not None
    assert repr(tensor) == "<Tensor shape=(3,) dtype=(2, 32, 1) read-only>"
    pinned = acc.allocate_pinned_memory(3)
    assert repr(pinned.tensor()).endswith("device=aries-rb:0>")


def test_a_tensor_can_be_weakly_referred_to():
    tensor = as_tensor(np.zeros(3))
    alive = weakref.ref(tensor)
    assert alive() is tensor
    del tensor
    assert alive() is None


def test_the_names_of_streams():
    ours = {name for name in vars(streams) if not name.startswith("_")}
    assert ours == set(streams.__all__) == {"Device", "bridge_stats", "current_device"}
    assert all(getattr(streams, name).__doc__ for name in ours)


def test_devices_and_counters():
    device = streams.current_device()
    number = qbruntime.get_available_device_numbers()[0]
    name = qbruntime.get_available_devices()[0]
    assert (device.type, device.name, device.index) == ("npu", name, number)
    assert str(device) == f"{name}:{number}" and str(device) in repr(device)
    same = streams.current_device()
    assert device == same and hash(device) == hash(same) and not device != same
    assert device != str(device) and {device: 1}[same] == 1
    for name in ("type", "name", "index"):
        with pytest.raises(AttributeError):
            setattr(device, name, 1)
    with pytest.raises(TypeError):
        streams.Device()
    stats = streams.bridge_stats()
    assert len(stats) == 21 and {type(value) for value in stats.values()} == {int}
    run_child(
        """
        import qbruntime
        from qbruntime import streams
        try:
            streams.current_device()
        except qbruntime.QbDeviceNotFoundError as error:
            assert error.status is qbruntime.StatusCode.Acc_DeviceNotFound
        else:
            raise AssertionError
        """,
        QBRUNTIME_SOFT_DEVICES="none",
    )
