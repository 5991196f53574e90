# SPDX-License-Identifier: MIT
"""Imports by NumPy's array interface."""

import gc
import struct
import sys
import weakref

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from fakes import FLOAT32, UINT8, producer  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

as_tensor = Tensor.as_tensor
HUGE = 1 << 62


# H96
@pytest.mark.parametrize(
    "items",
    [
        {"mask": object()},
        {"version": 2},
        {"version": 1},
        {"version": 0},
        {"version": None},
        {"typestr": ">f4" if sys.byteorder == "little" else "<f4"},
        {"typestr": ">i2" if sys.byteorder == "little" else "<i2"},
        {"typestr": "|V8"},
        {"typestr": "<U3"},
        {"typestr": "|O8"},
        {"typestr": "<M8"},
        {"typestr": "<f"},
        {"typestr": "<f-4"},
        {"typestr": "f4"},
        {"typestr": ""},
        {"typestr": "<f400"},
        {"typestr": "<f3"},
        {"typestr": "<f4\0"},
        {"typestr": "\0u1"},
        {"typestr": "<i16"},
        {"typestr": "|b2"},
        {"typestr": "|u\udc80"},
        {"typestr": None},
        {"shape": None},
        {"shape": (2, -3)},
        {"shape": (1,) * 65},
        {"shape": (2**70,)},
        {"shape": (HUGE, HUGE)},
        {"strides": (4,)},
        {"strides": (2**63 - 8, 4)},
        {"data": ()},
        {"data": (1,)},
        {"data": (2**70, False)},
        {"data": (-1, False)},
        {"data": (0, False)},
    ],
    ids=ascii,
)
def test_a_bad_array_interface_is_refused(items):
    fake = producer("array", interface=items)
    alive = weakref.ref(fake)
    with pytest.raises(BufferError) as caught:
        as_tensor(fake)
    assert isinstance(caught.value, qbruntime.QbBufferError) and str(caught.value)
    del fake, caught
    gc.collect()
    assert alive() is None


# H96: Python itself does not write such an int, which is a ValueError of its own
@pytest.mark.parametrize("name", ["shape", "strides", "version", "data"])
def test_an_array_interface_of_thousands_of_digits_is_refused(name):
    huge = -(10**5000)
    value = {"version": huge, "data": (huge, False)}.get(name, (huge, 1))
    with pytest.raises(qbruntime.QbBufferError, match="digits"):
        as_tensor(producer("array", interface={name: value}))


def test_an_array_interface_of_wrong_types():
    class Bad:
        __array_interface__ = 3

    with pytest.raises(TypeError, match="a dict for __array_interface__, got.*int"):
        as_tensor(Bad())
    for items, words in (
        ({"version": "3"}, "version of __array_interface__ is an int, got.*str"),
        ({"shape": ("2",)}, "each number of shape .*is an int, got.*str"),
        ({"strides": (1.0, 4)}, "each number of .*strides .*is an int, got.*float"),
        ({"typestr": 4}, "a str such as .* for typestr of .*, got.*int"),
        ({"shape": 3}, "shape 3, expected a tuple of ints"),
        ({"shape": [2, 3]}, "shape .2, 3., expected a tuple of ints"),
        ({"strides": 4}, "strides 4, expected a tuple of ints"),
        ({"data": ("1", False)}, "an int for the address in data .*, got.*str"),
        ({"data": 5}, "for data of __array_interface__, got.*int"),
        ({"data": None}, "for data of __array_interface__, got.*FakeProducer"),
        ({"data": b"x" * 24, "offset": "1"}, "offset of .*is an int, got.*str"),
    ):
        with pytest.raises(TypeError, match=words):
            as_tensor(producer("array", interface=items))


# H101 B15 B24
def test_array_interfaces(acc):
    array = np.arange(24, dtype="i2").reshape(4, 6)
    for source in (array, array[::-1, ::2], array.T, array[1:1], np.array(5, "f8")):
        holder = Interface(source.__array_interface__)
        tensor = as_tensor(holder)
        assert tensor.is_read_only and tensor.strides == source.strides
        assert np.array_equal(np.asarray(tensor), source)
    fake = producer("array", interface={"strides": None, "descr": [("", "<f4")]})
    assert as_tensor(fake).strides == (12, 4)
    for typestr, dtype in (("|b1", (6, 8, 1)), ("|u1", UINT8), ("=f4", FLOAT32)):
        fake = producer("array", interface={"typestr": typestr})
        assert as_tensor(fake).dtype == dtype


class Interface:
    def __init__(self, interface):
        self.__array_interface__ = interface


# B15
@pytest.mark.parametrize("name", ["version", "shape", "strides", "offset"])
def test_a_dictionary_that_changes_while_it_is_read(name):
    class Number:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            for kept in (items, interface):
                kept.clear()
            gc.collect()
            return self.value

    items = {"version": 3, "shape": (2, 3), "strides": (12, 4), "offset": 4}
    value = items[name]
    items[name] = (
        tuple(map(Number, value)) if isinstance(value, tuple) else Number(value)
    )
    interface = {**items, "typestr": "=f4", "data": bytearray(28)}
    np.frombuffer(interface["data"], "f4")[1:] = range(6)
    tensor = as_tensor(Interface(interface))
    assert interface == {} and np.asarray(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]


# B15
def test_an_interface_whose_data_is_a_buffer():
    data = bytearray(struct.pack("=6f", *range(6)))
    base = {"version": 3, "shape": (2, 2), "typestr": "=f4", "data": data}
    tensor = as_tensor(Interface({**base, "offset": 8}))
    assert np.asarray(tensor).tolist() == [[2, 3], [4, 5]]
    with pytest.raises(BufferError):
        data.append(1)  # it is exported
    backwards = Interface({**base, "offset": 20, "strides": (-8, -4)})
    assert np.asarray(as_tensor(backwards)).tolist() == [[5, 4], [3, 2]]
    del tensor
    gc.collect()
    data.append(1)
    for more in (
        {"offset": 12},
        {"offset": -4},
        {"offset": 2**62},
        {"strides": (-8, 4)},
        {"strides": (32, 4)},
        {"shape": (2**40, 2**40)},
        {"shape": (0,), "offset": 2**63 - 1},
    ):
        with pytest.raises(BufferError):
            as_tensor(Interface({**base, **more}))
    data.append(1)  # nothing has kept it
    with pytest.raises(TypeError):
        as_tensor(Interface({**base, "data": object()}))

    class Own(bytearray):
        pass

    own = Own(data)
    own.__array_interface__ = {**base, "data": None}
    assert np.asarray(as_tensor(own)).tolist() == [[0, 1], [2, 3]]
