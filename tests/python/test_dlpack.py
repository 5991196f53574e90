# SPDX-License-Identifier: MIT
"""Exports by DLPack, of Tensor and of PinnedMemory: arguments, flags, fields."""

import ctypes
import enum
import gc

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import (  # noqa: E402
    IS_COPIED,
    READ_ONLY,
    UINT8,
    compact,
    consume,
    count_exports,
    fields,
    name_of,
    producer,
)
from qbruntime import StatusCode, streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
as_tensor = Tensor.as_tensor
# What is writable, of both types (PM16), is the fixture of that name.


@pytest.fixture(params=["pinned", "foreign"])
def read_only(acc, request):
    if request.param == "foreign":
        return as_tensor(np.arange(6, dtype="f4").reshape(2, 3))
    pinned = acc.allocate_pinned_memory((2, 3))
    pinned[:] = np.arange(6).reshape(2, 3)
    return as_tensor(pinned)


# H51 PM16
def test_without_arguments_it_is_a_legacy_capsule(writable):
    assert name_of(writable.__dlpack__()) == "dltensor"
    assert fields(writable)["version"] is None


# H52 H56 PM16
@pytest.mark.parametrize(
    "asked, version",
    [
        (None, None),
        ((0, 8), None),
        ((0, 0), None),
        ((1, 0), (1, 0)),
        ((1, 1), (1, 1)),
        ((1, 3), (1, 3)),
        ((1, 9), (1, 3)),
        ((2, 0), (1, 3)),
        ((2**40, 2**70), (1, 3)),
    ],
)
def test_max_version_selects_the_capsule(writable, asked, version):
    exported = fields(writable, max_version=asked)
    assert exported["version"] == version
    assert exported["flags"] == (None if version is None else 0)


# H53 B20 PM16
@pytest.mark.parametrize("bad", [3, (1,), (1, "0"), "10", [1, 0], (1, 0, 0), (True, 0)])
def test_pairs_are_tuples_of_two_ints(writable, bad):
    before = count_exports()
    for name in ("max_version", "dl_device"):
        with pytest.raises(TypeError) as caught:
            writable.__dlpack__(**{name: bad})
        assert str(caught.value) == f"{name} is {bad!r}, expected a tuple of two ints"
    assert count_exports() == before
    with pytest.raises(ValueError, match="max_version"):
        writable.__dlpack__(max_version=(-1, 0))


# H52 H56: what is remembered of the last call holds for the same arguments alone
def test_each_call_is_read_anew(writable):
    calls = [
        ((1, 1), 0, lambda: writable.__dlpack__(max_version=(1, 1), copy=False)),
        ((1, 2), 0, lambda: writable.__dlpack__(copy=False, max_version=(1, 2))),
        ((1, 1), IS_COPIED, lambda: writable.__dlpack__(copy=True, max_version=(1, 1))),
        ((1, 2), 0, lambda: writable.__dlpack__(None, copy=False, max_version=(1, 2))),
        ((1, 3), 0, lambda: writable.__dlpack__(None, (1, 3), copy=False)),
        (None, None, lambda: writable.__dlpack__(copy=False)),
    ]
    for version, flags, call in calls + [calls[0], calls[0], *reversed(calls)]:
        for _ in range(2):
            consumer = fake_dlpack.consume(call())
            found = consumer.fields()
            consumer.drop()
            assert (found["version"], found["flags"]) == (version, flags)
    for _ in range(2):
        with pytest.raises(TypeError, match="no argument 'obj'"):
            writable.__dlpack__(obj=None)
        with pytest.raises(TypeError, match="'stream' twice"):
            writable.__dlpack__(None, stream=None)
        with pytest.raises(TypeError, match="at most 4 arguments, got 5"):
            writable.__dlpack__(None, None, None, None, None)


# H51 H78: one place in the code, two functions
def test_names_are_each_functions_own(writable):
    def call(function):
        return function(None, stream=None)

    with pytest.raises(TypeError, match="offers no tensor"):
        call(as_tensor)
    with pytest.raises(TypeError, match="'stream' twice"):
        call(writable.__dlpack__)


class Changing:
    """An int that is another one each time."""

    def __init__(self, answers, also=lambda: None):
        self.answers, self.also = iter(answers), also

    def __index__(self):
        self.also()
        return next(self.answers)


# H72: the names of the call before die in the next one, and may call themselves
def test_a_name_that_calls_when_it_dies_leaves_nothing_behind(writable):
    died = []

    class Name(str):
        def __del__(self):
            died.append(str(self))
            if self == "copy":
                writable.__dlpack__(**{Name("stream"): None})

    writable.__dlpack__(**{Name("copy"): None})
    writable.__dlpack__(stream=None)
    writable.__dlpack__(copy=None)
    assert died == ["copy", "stream"]


# H52 H53: its own call in between, too
def test_a_pair_that_changes_is_read_anew(writable):
    asked = (1, Changing([1, 2], lambda: writable.__dlpack__(max_version=(0, 8))))
    for version in ((1, 1), (1, 2)):
        assert fields(writable, max_version=asked)["version"] == version
    assert fields(writable, max_version=(0, 8))["version"] is None


# H54 H55 H70 H81 B16 B17 D2
@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("asked", [None, (0, 8), (1, 0), (1, 3)])
def test_read_only_memory_needs_a_versioned_capsule(read_only, asked, copy):
    before = count_exports()
    if asked is None or asked < (1, 0):
        with pytest.raises(qbruntime.QbBufferError) as caught:
            read_only.__dlpack__(max_version=asked, copy=copy)
        assert isinstance(caught.value, BufferError)
        assert caught.value.status is StatusCode.Tensor_ReadOnly
        assert "max_version" in str(caught.value) and "copy" in str(caught.value)
        assert count_exports() == before
        return
    exported = fields(read_only, max_version=asked, copy=copy)
    assert exported["flags"] == (IS_COPIED if copy else READ_ONLY)
    assert (exported["address"] == read_only.data) is not bool(copy)
    assert count_exports() == before


# H55: as NumPy 2 takes it
def test_numpy_sees_whether_it_may_write(writable, read_only):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        with pytest.raises(BufferError):
            np.from_dlpack(read_only)
        return
    assert np.from_dlpack(writable).flags.writeable
    assert not np.from_dlpack(read_only).flags.writeable


# H61 H62 D15 PM16
@pytest.mark.parametrize("stream", [None, 0, 1, 2, 7, -1, 2**64 - 1, np.int64(5)])
def test_a_stream_has_no_effect_on_host_memory(writable, stream):
    expected = fields(writable)
    assert fields(writable, stream=stream) == fields(writable, stream) == expected
    assert name_of(writable.__dlpack__(stream)) == "dltensor"


class Stream:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Attribute:
    __cuda_stream__ = (0, 7)


class Index:
    def __index__(self):
        return 7


# H61
def test_a_stream_may_be_an_object(writable):
    for answer in ((0, 0), (0, 7), (0, 2**64 - 1)):
        assert fields(writable, stream=Stream(answer)) == fields(writable)


# H62 H63 B21
@pytest.mark.parametrize(
    "stream, error",
    [
        (True, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (object(), TypeError),
        (-2, ValueError),
        (-(2**70), ValueError),
        (2**64, ValueError),
        (Attribute(), TypeError),
        (Stream(None), TypeError),
        (Stream(7), TypeError),
        (Stream((0,)), TypeError),
        (Stream((0, 7, 7)), TypeError),
        (Stream([0, 7]), TypeError),
        (Stream((1, 7)), ValueError),
        (Stream((-1, 7)), ValueError),
        (Stream((0, 7.0)), TypeError),
        (Stream((0, None)), TypeError),
        (Stream((0, Index())), TypeError),
        (Stream((0, True)), TypeError),
        (Stream((False, 7)), TypeError),
        (Stream((0, 2**64)), ValueError),
        (Stream((0, 2**70)), ValueError),
        (Stream((0, -1)), ValueError),
        (Stream(LookupError("mine")), LookupError),
        (Stream(AttributeError("mine")), AttributeError),
    ],
    ids=lambda value: str(getattr(value, "answer", value)),
)
def test_a_broken_stream_exports_nothing(writable, stream, error):
    before = count_exports()
    with pytest.raises(error) as caught:
        writable.__dlpack__(stream=stream)
    assert type(caught.value) is error and str(caught.value)
    for load in (Tensor.as_tensor, Tensor.from_dlpack):
        fake = producer()
        with pytest.raises(error):
            load(fake, stream)
        assert fake.log == []
    assert count_exports() == before


class Pair(tuple):
    pass


class Device(enum.IntEnum):
    CPU = 1


# H64 H71 B20 PM16
@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize(
    "device", [None, (1, 0), Pair((1, 0)), (Device.CPU, 0)], ids=str
)
def test_its_own_device_needs_no_copy(writable, device, copy):
    exported = fields(writable, dl_device=device, copy=copy, max_version=(1, 0))
    assert exported["address"] == fields(writable)["address"]
    assert exported["device"] == (1, 0) == writable.__dlpack_device__()
    assert exported["flags"] == 0


# H66 H67 PM16
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize(
    "device",
    [(0, 0), (7, 0), (2, 0), (2, 99), (3, 0), (1, 1), (12, 0), (-1, 0), (2**40, 0)],
)
def test_another_device_is_refused(writable, device, copy):
    before = count_exports()
    with pytest.raises(qbruntime.QbBufferError) as caught:
        writable.__dlpack__(dl_device=device, copy=copy)
    assert caught.value.status is StatusCode.Tensor_Refused
    assert f"{device}" in caught.value.detail and "(1, 0)" in caught.value.detail
    assert count_exports() == before


# H66: a number that Python does not write is one too
def test_a_device_of_thousands_of_digits_is_refused(writable):
    with pytest.raises(qbruntime.QbBufferError, match="digits"):
        writable.__dlpack__(dl_device=(10**5000, 0))


# H64 H65 H66: pinned memory of CUDA is the host's, and can be had as that
def test_memory_pinned_for_cuda_is_copied_to_the_cpu():
    tensor = as_tensor(producer(shape=(6,), dtype=UINT8, device=(3, 0)))
    same = fields(tensor, dl_device=(3, 0), max_version=(1, 0))
    assert same["device"] == (3, 0) and same["address"] == tensor.data
    before = streams.bridge_stats()["storages"]
    for copy in (None, True):
        consumer = consume(tensor, dl_device=(1, 0), copy=copy, max_version=(1, 0))
        copied = consumer.fields()
        assert streams.bridge_stats()["storages"] == before + 1
        assert copied["device"] == (1, 0) and copied["address"] != tensor.data
        assert copied["flags"] == IS_COPIED
        assert ctypes.string_at(copied["address"], 6) == bytes(range(6))
        consumer.drop()
    with pytest.raises(BufferError, match="copy is never"):
        tensor.__dlpack__(dl_device=(1, 0), copy=False, max_version=(1, 0))
    assert streams.bridge_stats()["storages"] == before


# H68 H70 PM16
def test_a_copy_owns_its_memory(acc):
    pinned = acc.allocate_pinned_memory((4, 6))
    pinned[:] = np.arange(24).reshape(4, 6)
    part = as_tensor(np.asarray(pinned)[::2, ::-1])
    expected = np.arange(24).reshape(4, 6)[::2, ::-1].tolist()
    for source in (part, pinned.tensor(), pinned):
        consumer = consume(source, copy=True, max_version=(1, 0))
        found = consumer.fields()
        assert found["address"] != fields(source, max_version=(1, 0))["address"]
        assert found["flags"] == IS_COPIED
        assert found["strides"] == compact(found["shape"])
        consumer.drop()
    whole = np.asarray(pinned).tolist()
    copies = [as_tensor(Copied(source)) for source in (part, pinned.tensor(), pinned)]
    pinned[:] = 0
    pinned.free()
    del pinned, part, source
    gc.collect()
    assert [np.asarray(copy).tolist() for copy in copies] == [expected, whole, whole]


class Copied:
    """A producer of one capsule, that of a copy."""

    def __init__(self, tensor):
        self.capsule = tensor.__dlpack__(copy=True, max_version=(1, 0))

    def __dlpack__(self, **keywords):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


# H72 H115
def test_arguments_by_place_and_by_name(writable):
    place = writable.__dlpack__(None, (1, 0), (1, 0), False)
    name = writable.__dlpack__(
        stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False
    )
    assert name_of(place) == name_of(name) == "dltensor_versioned"
    assert name_of(writable.__dlpack__(1, max_version=(1, 0))) == name_of(name)
    for call in (
        lambda: writable.__dlpack__(None, None, None, None, None),
        lambda: writable.__dlpack__(None, stream=None),
        lambda: writable.__dlpack__(other=1),
        lambda: writable.__dlpack__(copy=1),
        lambda: writable.__dlpack__(copy="no"),
        lambda: writable.__dlpack_device__(1),
    ):
        with pytest.raises(TypeError):
            call()


# B25
@pytest.mark.parametrize(
    "shape, strides",
    [
        ((1, 77), (-5, 1)),
        ((1,), (9,)),
        ((3, 1, 2), (2, 999, 1)),
        ((1, 1), (0, 0)),
        ((0, 5), (7, 1)),
        ((2, 1), (1, 2**40)),
    ],
)
def test_strides_of_unit_extents_are_the_compact_ones(shape, strides):
    tensor = as_tensor(producer(shape=shape, strides=strides, byte_offset=32))
    assert fields(tensor, max_version=(1, 0))["strides"] == compact(shape)
    assert tensor.is_contiguous() and tensor.shape == shape


# B24 PM16
def test_strides_are_always_there(acc):
    for shape in ((), (3,), (2, 3), (2, 0, 3)[:1], (1, 2, 3, 4)):
        pinned = acc.allocate_pinned_memory(shape, "u1")
        for source in (pinned, pinned.tensor(), pinned.tensor().copy()):
            assert fields(source)["strides"] == (compact(shape) if shape else None)


def test_a_stride_that_is_no_multiple_is_refused():
    array = np.zeros(4, np.dtype([("a", "u1"), ("b", "f4")]))["b"]
    tensor = as_tensor(Interface(array))
    assert tensor.strides == (5,) and np.asarray(tensor).strides == (5,)
    with pytest.raises(BufferError, match="copy"):
        tensor.__dlpack__(max_version=(1, 0))
    assert fields(tensor.copy())["strides"] == (1,)
    assert fields(tensor, copy=True, max_version=(1, 0))["strides"] == (1,)


class Interface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


# PM16 Q498
def test_other_protocols_of_pinned_memory(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    assert not memoryview(pinned).readonly
    assert pinned.__array_interface__["data"][1] is False
    assert pinned.__dlpack_device__() == (1, 0)
    exported = fields(pinned, max_version=(1, 0))
    assert exported["address"] == pinned.__array_interface__["data"][0]
    assert exported["shape"] == (2, 3) and exported["dtype"] == (2, 32, 1)


@pytest.mark.parametrize("name", "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split())
def test_dtypes_of_pinned_memory(acc, name):
    pinned = acc.allocate_pinned_memory(3, name)
    dtype = np.dtype(name)
    code = {"f": 2, "i": 0, "u": 1, "b": 6}[dtype.kind]
    assert fields(pinned)["dtype"] == (code, dtype.itemsize * 8, 1)
    assert pinned.tensor().dtype == (code, dtype.itemsize * 8, 1)
