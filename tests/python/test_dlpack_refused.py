# SPDX-License-Identifier: MIT
"""Imports by DLPack that are refused: capsules, structs, devices, dtypes."""

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import (  # noqa: E402
    DLPACK,
    IS_PADDED,
    LEGACY,
    NEWEST,
    PROTOCOLS,
    producer,
)
from qbruntime import StatusCode, streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

as_tensor, from_dlpack = Tensor.as_tensor, Tensor.from_dlpack
LOADS = [as_tensor, from_dlpack]
EXCHANGE = as_tensor, ("exchange",)


@pytest.fixture(params=LOADS, ids=["as_tensor", "from_dlpack"])
def load(request):
    return request.param


# H98 B08 L2 L10
@pytest.mark.parametrize("version", [LEGACY, (1, 0)])
def test_a_used_capsule_is_refused(load, version):
    fake = producer(is_used=True, version=version)
    with pytest.raises(ValueError, match="consumed"):
        load(fake)
    assert fake.deleter_calls == 0


def test_what_is_no_capsule_is_refused(load):
    for answer in (3, np.zeros(3), PROTOCOLS["exchange"]["__dlpack_c_exchange_api__"]):
        fake = producer(answer=answer)
        with pytest.raises(TypeError, match="capsule"):
            load(fake)
    for device in ((1,), 1, [1, 0], (1, 0, 0), ("1", 0), (True, 0), (None, 0)):
        fake = producer(device=device)
        with pytest.raises(TypeError, match="__dlpack_device__"):
            load(fake)
        assert len(fake.log) == 1


# What Tensor's own entry of the exchange table refuses stays its caller's (L10).
def check_entry_3(fake):
    record = fake.make_record()
    with pytest.raises(qbruntime.QbBufferError) as caught:
        fake_dlpack.exchange_import(Tensor, record)
    assert record.deleter_calls == 0
    fake_dlpack.consume(record.capsule()).drop()
    return caught.value.detail


# H99: only what every major version has is there
@pytest.mark.parametrize("major", [0, 2, 7, 2**31 - 1])
def test_an_unknown_major_version(major):
    knobs = {"version": (major, 5), "is_prefix": True, "shape": (3,)}
    words = f"version is {major}.5, expected 1.x: ask the producer for max_version="
    for load, protocols in (*((load, DLPACK) for load in LOADS), EXCHANGE):
        fake = producer(*protocols, **knobs)
        with pytest.raises(qbruntime.QbBufferError) as caught:
            load(fake)
        assert words in caught.value.detail and fake.deleter_calls == 1
    assert words in check_entry_3(producer(**knobs))


HUGE, MOST = 1 << 62, 2**63 - 1
TOO_MANY = "shape has more bytes than there are addresses, up to shape[{}] = {} "
OUTSIDE = "leaves the addresses that there are"
# what is wrong, and the words for it
BAD = [
    *(
        ({"dtype": dtype}, "dtype has code {} with {} bits and {} lanes".format(*dtype))
        for dtype in (
            (0, 0, 1),
            (0, 128, 1),
            (1, 9, 1),
            (2, 0, 1),
            (2, 7, 1),
            (2, 8, 1),
            (2, 33, 1),
            (2, 32, 0),
            (3, 64, 1),
            (4, 32, 1),
            (5, 16, 1),
            (5, 48, 1),
            (6, 1, 1),
            (6, 16, 1),
            (7, 16, 1),
            (14, 4, 1),
            (17, 8, 1),
            (18, 8, 1),
            (255, 8, 1),
        )
    ),
    ({"dtype": (17, 4, 1)}, "4 bits in 1 lanes share bytes, expected whole bytes"),
    ({"dtype": (0, 4, 3)}, "4 bits in 3 lanes share bytes, expected whole bytes"),
    ({"shape": (1,) * 65}, "ndim is 65, expected 0 to 64"),
    ({"ndim": -2}, "ndim is -2, expected 0 to 64"),
    ({"ndim": 2**31 - 1}, "ndim is 2147483647, expected 0 to 64"),
    ({"ndim": -(2**31)}, "ndim is -2147483648, expected 0 to 64"),
    ({"shape": None, "ndim": 3}, "shape is NULL, expected 3 extents"),
    ({"shape": (-1,)}, "shape[0] is -1, expected 0 or more"),
    ({"shape": (2, -3)}, "shape[1] is -3, expected 0 or more"),
    ({"shape": (0, -MOST - 1)}, f"shape[1] is {-MOST - 1}, expected 0 or more"),
    ({"shape": (-HUGE, -HUGE)}, f"shape[0] is {-HUGE}, expected 0 or more"),
    ({"shape": (HUGE, 4)}, TOO_MANY.format(0, HUGE)),
    ({"shape": (3, HUGE), "strides": (0, 1)}, TOO_MANY.format(1, HUGE)),
    ({"shape": (1 << 32, 1 << 32)}, TOO_MANY.format(1, 1 << 32)),
    ({"shape": (MOST,)}, TOO_MANY.format(0, MOST)),
    ({"dtype": (2, 128, 1), "shape": (HUGE,)}, TOO_MANY.format(0, HUGE)),
    ({"shape": (3, 2), "strides": (HUGE, 1)}, f"strides[0] is {HUGE}, more elements"),
    ({"shape": (3, 2), "strides": (1, -HUGE)}, f"strides[1] is {-HUGE}, more elements"),
    ({"shape": (4, 2), "strides": (MOST // 8, 1)}, OUTSIDE),
    ({"shape": (2, 2), "strides": (-MOST // 8, 1)}, OUTSIDE),
    ({"address": 2**64 - 8}, "data 0xfffffffffffffff8 with byte_offset 0"),
    ({"address": 0}, "data is NULL, expected the address of 6 elements"),
    (
        {"byte_offset": 2**64 - 1},
        "byte_offset 18446744073709551615 and these strides",
    ),
    ({"shape": (0,), "byte_offset": 2**64 - 9}, "byte_offset 18446744073709551607"),
]


# H100 L10
@pytest.mark.parametrize("version", [LEGACY, (1, 3)])
@pytest.mark.parametrize("knobs, words", BAD, ids=lambda item: str(item)[:60])
def test_a_bad_struct_is_refused_and_deleted_once(knobs, words, version):
    for load, protocols in (*((load, DLPACK) for load in LOADS), EXCHANGE):
        is_exchange = protocols == EXCHANGE[1]
        fake = producer(*protocols, version=NEWEST if is_exchange else version, **knobs)
        with pytest.raises(qbruntime.QbBufferError) as caught:
            load(fake)
        assert caught.value.status is StatusCode.Tensor_Refused
        assert words in caught.value.detail and words in str(caught.value)
        assert fake.deleter_calls == 1
    assert words in check_entry_3(producer(**knobs))


# H100 L1: NULL is a deleter too
def test_a_struct_without_a_deleter(load):
    fake = producer(has_deleter=False)
    tensor = load(fake)
    assert tensor.data == fake.address
    del tensor
    assert streams.bridge_stats()["deferred_releases"] == 0
    with pytest.raises(BufferError):
        load(producer(has_deleter=False, dtype=(3, 64, 1)))
    with pytest.raises(BufferError):
        as_tensor(producer("exchange", has_deleter=False, dtype=(3, 64, 1)))


# H113
@pytest.mark.parametrize("kind", [0, *range(4, 12), *range(14, 19), 99, -1])
def test_devices_out_of_reach(load, kind):
    fake = producer(device=(kind, 7))
    with pytest.raises(BufferError) as caught:
        load(fake)
    words = f"device is ({kind}, 7), expected memory of the host"
    assert words in str(caught.value) and fake.deleter_calls == 1
    assert words in check_entry_3(producer(device=(kind, 7)))


# H113: before anything is exported
@pytest.mark.parametrize("kind", [2, 13])
def test_memory_of_cuda_needs_its_driver(load, kind):
    fake = producer(device=(kind, 0))
    for stream in (None, 1, 2, 12345):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            load(fake, stream)
        assert caught.value.status is StatusCode.Bridge_NoDriver
        assert f"gave device type {kind}, memory of CUDA" in str(caught.value)
        assert not isinstance(caught.value, BufferError)
    assert fake.log == 4 * [("__dlpack_device__", {})]
    # whatever the methods say, the struct decides
    lies = producer(
        members={"__dlpack_device__": lambda self: (1, 0)}, device=(kind, 0)
    )
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        load(lies)
    assert caught.value.status is StatusCode.Bridge_NoDriver
    assert lies.deleter_calls == 1


# H113: of ours there is none outside the host's reach
def test_memory_of_an_extension_device_is_taken_if_it_is_ours(load):
    fake = producer(device=(12, 0))
    with pytest.raises(BufferError, match=r"\(12, 0\)"):
        load(fake)
    assert fake.deleter_calls == 1


# H113: with bits that make no byte, each in one
@pytest.mark.parametrize(
    "dtype",
    [*((code, bits, 1) for code in (0, 1) for bits in (1, 2, 4)), (15, 6, 1)]
    + [(16, 6, 1), (17, 4, 1)],
    ids=str,
)
def test_dtypes_that_are_taken_padded(dtype):
    tensor = as_tensor(producer(shape=(3,), dtype=dtype, flags=IS_PADDED))
    assert tensor.dtype == dtype and tensor.nbytes == 3
    with pytest.raises(BufferError, match=f"{dtype[1]} bits"):
        as_tensor(producer(shape=(3,), dtype=dtype))


# H113
@pytest.mark.parametrize(
    "dtype",
    [
        *((code, bits, 1) for code in (0, 1) for bits in (8, 16, 32, 64)),
        *((2, bits, lanes) for bits in (16, 32, 64, 128) for lanes in (1, 4, 65535)),
        *((5, bits, 1) for bits in (32, 64, 128)),
        (4, 16, 1),
        (6, 8, 1),
        *((code, 8, 1) for code in range(7, 15)),
    ],
    ids=str,
)
def test_dtypes_that_are_taken(dtype):
    tensor = as_tensor(producer(shape=(1,), dtype=dtype))
    assert tensor.dtype == dtype
    assert tensor.itemsize == -(-dtype[1] * dtype[2] // 8)
