# SPDX-License-Identifier: MIT
"""What is tested with each library: a class of tests each, in a file each, says
how that library does the steps."""

import gc
import threading

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from fakes import count_exports  # noqa: E402
from qbruntime import streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402
from runtime_cases import COPY64, DIGITS, TOP  # noqa: E402

LOADS = (Tensor.as_tensor, Tensor.from_dlpack)
BASE = np.arange(24, dtype="f4").reshape(4, 6)
PARTS = {
    "whole": np.s_[...],
    "offset": np.s_[1:, ...],
    "part": np.s_[1:, 2:],
    "steps": np.s_[::2, ::3],
    "column": np.s_[:, 3],
    "one": np.s_[2:3, 1:2],
    "scalar": np.s_[1, 2, ...],
    "empty": np.s_[:0, ...],
    "backwards": np.s_[::-1, ::-2],
}


class Spy:
    """Hands on what source exports, and keeps what was asked."""

    def __init__(self, source):
        self.source, self.asked = source, []

    def __dlpack__(self, *arguments, **keywords):
        self.asked.append((arguments, keywords))
        return self.source.__dlpack__(*arguments, **keywords)

    def __dlpack_device__(self):
        return self.source.__dlpack_device__()


def long_strides(shape, strides):
    """Of extents of 0 and 1 a stride says nothing."""
    if 0 in shape:
        return []
    return [step for extent, step in zip(shape, strides) if extent > 1]


def count_alive():
    gc.collect()
    stats = streams.bridge_stats()
    return stats["storages"], stats["tensors"], *count_exports()


def drop_elsewhere(items):
    """The last references, on a thread of its own."""
    thread = threading.Thread(target=items.clear)
    thread.start()
    thread.join()


def fill(acc, values=BASE):
    pinned = acc.allocate_pinned_memory(values.shape, values.dtype)
    pinned[...] = values
    return pinned


def stretch(row):
    """Four times the same row of memory."""
    return np.lib.stride_tricks.as_strided(row, (4, 6), (0, 4))


def scribble(acc):
    """Over memory that was given back."""
    return [fill(acc, np.full((4, 6), 77, "f4")) for _ in range(20)]


class Library:
    """NAME is what is imported; without it the tests skip, one by one."""

    NAME = DISTRIBUTION = ""

    @pytest.fixture(autouse=True, scope="class")
    def library(self, request):
        request.cls.lib = pytest.importorskip(self.NAME)

    def read(self, array):
        """NumPy's array of the same values."""
        return np.asarray(array)


class Exchanges(Library):
    ASKS = {}  # the keywords of its call of __dlpack__
    READ_ONLY = True  # it takes memory that is read-only
    IMMUTABLE = ""  # why it cannot write to what it took
    FREED = BufferError, "freed"  # what it raises where ours raises that
    REFUSED = {}  # parts that it does not take: why
    DTYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?"

    def take(self, source):
        """Its array of memory of ours."""
        return self.lib.from_dlpack(source)

    def make(self, values):
        """An array in memory of its own."""
        return self.lib.asarray(values)

    def give(self, array):
        """What the library hands to others of an array that it took."""
        return array

    def view(self, part):
        """An array of its own, and the strides in bytes that it should have."""
        return self.make(BASE)[PARTS[part]], BASE[PARTS[part]].strides

    def broadcast(self):
        """An array of shape (4, 6) and strides (0, 4)."""
        pytest.skip(f"{self.NAME} has no strides of 0")

    def address(self, array):
        raise NotImplementedError

    def write(self, array, values):
        """All elements, in place."""
        array[...] = values

    def sees_read_only(self, array):
        """None where it does not say."""
        return None

    # PM09 PM16 B32 H71
    def test_takes_pinned_memory_and_writable_tensors(self, acc):
        pinned = fill(acc)
        for source in (pinned, pinned.tensor(), pinned.tensor().copy()):
            array = self.take(source)
            address = source.__array_interface__["data"][0]
            assert self.address(array) == address and address % 64 == 0
            assert (self.read(array) == BASE).all()
            assert not self.sees_read_only(array)
        array = self.take(pinned)
        pinned[1, 2] = 99
        assert self.read(array)[1, 2] == 99

    # PM09 PM16
    def test_what_it_writes_is_in_the_memory(self, acc):
        if self.IMMUTABLE:
            pytest.skip(self.IMMUTABLE)
        pinned = fill(acc)
        for source in (pinned, pinned.tensor()):
            values = np.random.default_rng(5).random((4, 6), "f4")
            self.write(self.take(source), values)
            assert (np.asarray(pinned) == values).all()

    # H54 H55 H81 B16 B17 PM10
    def test_memory_that_is_read_only(self, acc, record_property):
        pinned = fill(acc)
        tensor = Tensor.as_tensor(pinned)
        if not self.READ_ONLY:
            with pytest.raises(qbruntime.QbBufferError, match="max_version") as caught:
                self.take(tensor)
            assert "copy" in str(caught.value)
            record_property("found", "it cannot take it, and is told what to do")
            array = self.take(tensor.copy())
            assert (self.read(array) == BASE).all()
            return
        array = self.take(tensor)
        assert self.address(array) == tensor.data
        seen = self.sees_read_only(array)
        if seen is None:
            record_property("found", "it takes it and has no such flag")
        else:
            assert seen
            record_property("found", "it takes it, and knows")

    # H51 H52 H72 B18 B19
    def test_what_it_asks(self, acc, record_property):
        spy = Spy(fill(acc))
        assert (self.read(self.take(spy)) == BASE).all()
        assert spy.asked == [((), self.ASKS)]
        versioned = self.ASKS.get("max_version", (0, 0)) >= (1, 0)
        kind = "versioned" if versioned else "legacy"
        asked = ", ".join(f"{name}={value}" for name, value in self.ASKS.items())
        record_property("found", f"{kind}: `__dlpack__({asked})`")

    # H24 H25 H26 H27 H30 H31 H32 H33 H77 H81 B22 B28
    @pytest.mark.parametrize("part", PARTS)
    def test_its_arrays_become_tensors(self, part):
        array, strides = self.view(part)
        values = BASE[PARTS[part]]
        for load in LOADS:
            tensor = load(array)
            if values.size:
                assert tensor.data + tensor.byte_offset == self.address(array)
            assert tensor.shape == values.shape and tensor.size == values.size
            assert tensor.dtype == (2, 32, 1) and tensor.nbytes == values.nbytes
            assert tensor.device == (1, 0) and tensor.is_read_only
            assert long_strides(tensor.shape, tensor.strides) == long_strides(
                values.shape, strides
            )
            assert np.array_equal(np.asarray(tensor), values)

    # H31 H33 H35
    def test_its_strides_of_0_are_kept(self):
        array = self.broadcast()
        for load in LOADS:
            tensor = load(array)
            assert tensor.strides == (0, 4) and tensor.shape == (4, 6)
            assert tensor.nbytes == 96 and not tensor.is_contiguous()
            assert np.array_equal(np.asarray(tensor), np.broadcast_to(BASE[0], (4, 6)))

    # H25 H71 B28
    @pytest.mark.parametrize("part", [*PARTS, "turned", "spread"])
    def test_it_takes_any_layout(self, acc, part):
        if part in self.REFUSED:
            pytest.skip(self.REFUSED[part])
        whole = np.asarray(fill(acc))
        views = {"turned": whole.T, "spread": stretch(whole[1])}
        view = views[part] if part in views else whole[PARTS[part]]
        tensor = Tensor.as_tensor(view)
        if not self.READ_ONLY:
            # what is writable is compact
            tensor = tensor.copy()
        array = self.take(tensor)
        assert tuple(array.shape) == view.shape
        assert np.array_equal(self.read(array), view)
        if view.size:
            assert self.address(array) == tensor.data + tensor.byte_offset

    # H27 H29
    def test_types_in_both_directions(self, acc):
        for name in self.DTYPES.split():
            values = np.array([[0, 1, 1], [1, 0, 1]], name)
            array = self.take(fill(acc, values))
            assert self.read(array).dtype == values.dtype, name
            assert np.array_equal(self.read(array), values)
            code = {"f": 2, "i": 0, "u": 1, "b": 6}[values.dtype.kind]
            for load in LOADS:
                tensor = load(self.make(values))
                assert tensor.dtype == (code, values.itemsize * 8, 1), name
                assert tensor.itemsize == values.itemsize
                assert np.array_equal(np.asarray(tensor), values)

    # B10 L1 L8
    def test_its_array_outlives_our_memory(self, acc):
        before = count_alive()
        pinned = fill(acc)
        array = self.take(pinned)
        del pinned
        others = scribble(acc)
        assert (self.read(array) == BASE).all()
        del array, others
        assert count_alive() == before

    # H101 B06 B10 L1
    def test_our_tensor_outlives_its_array(self, acc):
        for load in LOADS:
            before = count_alive()
            array = self.make(BASE.copy())
            tensor = load(array)
            del array
            others = [self.make(np.full((4, 6), 77, "f4")) for _ in range(20)]
            assert (np.asarray(tensor) == BASE).all()
            del tensor, others
            assert count_alive() == before

    # B01 B11 L5
    def test_the_last_of_each_may_go_on_another_thread(self, acc):
        before = count_alive()
        for _ in range(50):
            drop_elsewhere([self.take(fill(acc))])
            drop_elsewhere([load(self.make(BASE.copy())) for load in LOADS])
        assert count_alive() == before

    # PM07 L8 D10
    def test_memory_that_was_freed_is_refused(self, acc):
        pinned = fill(acc)
        array = self.take(pinned)
        pinned.free()
        assert (self.read(array) == BASE).all()
        error, words = self.FREED
        with pytest.raises(error, match=words):
            self.take(pinned)

    # H112 H23
    def test_memory_that_comes_back_is_known(self, acc):
        pinned = fill(acc)
        array = self.take(pinned)
        before = count_alive()[0]
        for load in LOADS:
            tensor = load(self.give(array))
            assert count_alive()[0] == before
            assert tensor.is_read_only
            assert tensor.data == pinned.__array_interface__["data"][0]

    # PM09 PM16
    def test_an_inference_on_its_arrays_copies_nothing(self, acc):
        pictures = np.fromfile(TOP / "examples/digits-16.u8", "u1").reshape(-1, 8, 8, 1)
        with qbruntime.Model(DIGITS) as model:
            model.launch(acc)
            (x,), (y,) = model.allocate_inputs(), model.allocate_outputs()
            for picture in pictures[:4]:
                x[...] = picture
                model.infer_pinned_memory(x, y)
                expected = np.asarray(y).tobytes()
                x[...] = y[...] = 0
                if self.IMMUTABLE:
                    x[...] = picture
                else:
                    self.write(self.take(x), picture)
                model.infer_pinned_memory(x, y)
                assert self.read(self.take(y)).tobytes() == expected
            assert model.counters()["copied_nbytes"] == 0
            assert np.frombuffer(expected, "f4").any()

    # P58 H112
    def test_its_view_of_pinned_memory_is_an_input_without_a_copy(self, acc):
        with qbruntime.Model(COPY64) as model:
            model.launch(acc)
            x = acc.allocate_pinned_memory(64, "u1")
            x[...] = range(64)
            given, output = self.give(self.take(x)), np.zeros(64, "u1")
            assert model.infer([given], [output]) is None
            assert output.tolist() == list(range(64))
            assert model.counters()["copied_nbytes"] == 64  # of the output


class Copies:
    """Of libraries whose from_dlpack() has the argument copy."""

    # H68 H71
    def test_it_copies_where_it_is_told(self, acc):
        pinned = fill(acc)
        address = pinned.__array_interface__["data"][0]
        same = self.take(pinned, copy=False)
        copied = self.take(pinned, copy=True)
        assert self.address(same) == address != self.address(copied)
        pinned[...] = 0
        assert (self.read(copied) == BASE).all() and not self.read(same).any()
