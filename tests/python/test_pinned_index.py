# SPDX-License-Identifier: MIT
"""Indexing of PinnedMemory, compared with an ndarray of the same contents."""

import random

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from runtime_cases import run_child  # noqa: E402

SHAPE = (3, 4, 5)
KEYS = [
    (0, 0, 0),
    (-1, -2, -3),
    (2, 3, 4),
    0,
    -1,
    (1, 2),
    slice(None),
    slice(1, 3),
    slice(None, None, -1),
    slice(2, 0, -2),
    slice(5, 9),
    slice(-2, None),
    (slice(None), 1),
    (slice(None), slice(1, 4, 2), -1),
    Ellipsis,
    (Ellipsis, 2),
    (1, Ellipsis),
    (0, Ellipsis, 1),
    (0, 1, 2, Ellipsis),
    (),
    None,
    (None, 1),
    (0, None, 1),
    [0, 2],
    ([0, 1], [2, 3]),
    (np.int64(1), 0, np.uint8(2)),
    np.array([True, False, True]),
    (slice(None), np.array([0, 0, 3])),
    True,
]
BAD_KEYS = [
    3,
    -4,
    (0, 4),
    (0, 0, 5),
    (0, 0, 0, 0),
    (Ellipsis, Ellipsis),
    2**70,
    1.0,
    "x",
    (0, "x"),
    [5],
    slice(None, None, 0),
    slice("a"),
]


def pair(acc, dtype="f4", shape=SHAPE):
    """Pinned memory and an array, of equal contents."""
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    pinned = acc.allocate_pinned_memory(shape, dtype)
    pinned[...] = array
    return pinned, array


def same(pinned, array):
    return np.array_equal(np.asarray(pinned), array)


# Q453
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_reading_is_numpys(acc, key):
    pinned, array = pair(acc)
    ours, theirs = pinned[key], array[key]
    assert type(ours) is type(theirs) and same(ours, theirs)
    if isinstance(theirs, np.ndarray):
        views = np.shares_memory(theirs, array)
        assert np.shares_memory(ours, np.asarray(pinned)) == views


# Q453
@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
def test_bad_keys_are_refused_as_numpy_does(acc, key):
    pinned, array = pair(acc)
    with pytest.raises(Exception) as theirs:
        array[key]
    with pytest.raises(type(theirs.value)) as ours:
        pinned[key]
    assert str(ours.value) == str(theirs.value)
    with pytest.raises(type(theirs.value)):
        pinned[key] = 1
    assert same(pinned, array)


# Q454 PM03
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_writing_is_numpys(acc, key):
    pinned, array = pair(acc)
    values = [7, 2.5, np.float64(3.5), np.uint8(4), True]
    values.append(np.ones_like(array[key]) * 9)
    values.append(array[key].astype("i8") + 1)
    values.append(np.ones((1, 1) + np.shape(array[key])))
    for value in values:
        # from NumPy 2.4 on an element takes no array, not even of one element
        try:
            array[key] = value
        except ValueError:
            with pytest.raises(ValueError):
                pinned[key] = value
        else:
            pinned[key] = value
        assert same(pinned, array), value
    with pytest.raises(ValueError):
        pinned[key] = np.zeros((2, 7))
    assert same(pinned, array)


# Q454
@pytest.mark.parametrize("dtype", "f4 u1 i1 f2 i2 u2 i4 u4 i8 u8 f8 ?".split())
def test_values_are_cast_as_numpy_does(acc, dtype):
    pinned, array = pair(acc, dtype, (4,))
    low, high = 0, 1
    if array.dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for value in (0, 1, low, high, 0.0, 1.0, 0.1, np.float32(0.5), "1", [1], True):
        for key in (2, (2,), slice(2, 3), slice(2, 9)):
            try:
                array[key] = value
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    pinned[key] = value
            else:
                pinned[key] = value
            assert same(pinned, array), (key, value)


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error)


ODD = [
    np.uint64(2**63),
    np.datetime64(0, "s"),
    1e39,
    -(2**70),
    2**63,
    None,
    [1],
    [],
]
ODD += [range(4), bytearray(3), np.array(2**63, "u8"), np.array([3]), "7", [[1], [2]]]


# Q454: the classes of errors too
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", "f4 u1 i2 i8 u8 f8 ?".split())
def test_odd_values_are_what_they_are_to_numpy(acc, dtype):
    for shape, keys in (((4,), (2, slice(None), slice(1, 3), ...)), ((), ((), ...))):
        for value in ODD:
            pinned, array = pair(acc, dtype, shape)
            for key in keys:
                expected = outcome(lambda: array.__setitem__(key, value))
                assert outcome(lambda: pinned.__setitem__(key, value)) is expected
                assert pinned._array.tobytes() == array.tobytes(), (key, value)
            expected = outcome(lambda: array.fill(value))
            assert outcome(lambda: pinned.fill(value)) is expected, value
            assert pinned._array.tobytes() == array.tobytes(), value


# a program may have replaced numpy.empty
def test_arrays_of_another_size_are_refused():
    run_child(
        """
        import numpy as np, qbruntime
        pinned = qbruntime.Accelerator().allocate_pinned_memory(4, "i8")
        empty, np.empty = np.empty, lambda shape, dtype: empty(0, dtype)
        for call in (lambda: pinned[0], lambda: pinned.fill("1")):
            try:
                call()
            except RuntimeError as error:
                assert "numpy.empty gave" in str(error)
            else:
                raise AssertionError
        np.empty = empty
        assert pinned[0] == 0
        """
    )


@pytest.mark.filterwarnings("ignore")
def test_what_does_not_fit_is_left_to_numpy(acc):
    pinned, array = pair(acc, "f4", (4,))
    for value in (1e300, -1e300, float("inf"), float("nan"), 2**200):
        for target in (pinned, array):
            target[0] = value
        assert np.array_equal(pinned._array, array, equal_nan=True)
    octets, array = pair(acc, "u1", (4,))
    for value in (256, -1, 2**70):
        results = []
        for target in (octets, array):
            try:
                target[0] = value
                results.append(int(target[0]))
            except Exception as error:
                results.append(type(error))
        assert results[0] == results[1]
    with pytest.raises((TypeError, ValueError)):
        octets[0] = "words"
    with pytest.raises(ValueError):
        del octets[0]


# Q454
def test_a_source_may_overlap_or_be_strided_or_pinned(acc):
    for key, source in (
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None), slice(None, None, -1)),
    ):
        pinned, array = pair(acc)
        array[key] = array[source].copy()
        pinned[key] = pinned[source]
        assert same(pinned, array)
    pinned, array = pair(acc)
    other, _ = pair(acc, "f4", SHAPE[::-1])
    pinned[:] = other[:].T
    assert same(pinned, np.asarray(other).T)
    third = acc.allocate_pinned_memory(SHAPE)
    third[:] = pinned
    assert same(third, np.asarray(pinned))


def test_random_keys_and_values(acc):
    draw = random.Random(20)
    pinned, array = pair(acc, "i4")
    parts = [0, -1, 2, slice(None), slice(0, 2), slice(None, None, -1), Ellipsis, None]
    for number in range(3000):
        key = tuple(draw.choice(parts) for _ in range(draw.randrange(4)))
        try:
            theirs = array[key]
        except IndexError:
            with pytest.raises(IndexError):
                pinned[key]
            continue
        assert same(pinned[key], theirs), key
        value = np.full(np.shape(theirs)[draw.randrange(3) :], number)
        try:
            array[key] = value
        except ValueError:
            with pytest.raises(ValueError):
                pinned[key] = value
        else:
            pinned[key] = value
        assert same(pinned, array), (key, value)


def test_fill(acc):
    pinned, array = pair(acc)
    for value in (3, 2.5, np.float64(1.5), "7"):
        pinned.fill(value)
        assert (np.asarray(pinned) == float(value)).all()
    for bad in ([1, 2], np.zeros(3)):
        with pytest.raises(ValueError):
            pinned.fill(bad)
    with pytest.raises(ValueError):
        pinned.fill("words")
    assert (np.asarray(pinned) == 7).all()


def test_a_point_is_one_element(acc):
    point = acc.allocate_pinned_memory(())
    point[()] = 4
    assert point[()] == 4.0 and type(point[()]) is np.float32
    point[...] = 5
    assert point[...].shape == () and float(np.asarray(point)) == 5.0


def test_a_value_may_free_the_memory_it_is_written_to(acc):
    class Traitor:
        def __init__(self, pinned):
            self.pinned = pinned

        def __array__(self, dtype=None, copy=None):
            self.pinned.free()
            return np.ones(4, "f4")

    for key in (slice(None), [0, 1, 2, 3]):
        pinned = acc.allocate_pinned_memory(4)
        try:
            pinned[key] = Traitor(pinned)
        except qbruntime.QbClosedError:
            pass
        assert not pinned.is_available()
        with pytest.raises(qbruntime.QbClosedError):
            pinned[0]
