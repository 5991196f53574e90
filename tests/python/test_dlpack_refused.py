# SPDX-License-Identifier: MIT
"""Imports by DLPack that are refused: capsules, structs, devices, dtypes."""

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from fakes import IS_PADDED, LEGACY, PROTOCOLS, producer  # noqa: E402
from qbruntime import StatusCode, streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

as_tensor, from_dlpack = Tensor.as_tensor, Tensor.from_dlpack
LOADS = [as_tensor, from_dlpack]


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


# H99: only what every major version has is there
def test_an_unknown_major_version(load):
    fake = producer(version=(7, 0), is_prefix=True, shape=(3,))
    with pytest.raises(BufferError, match="7"):
        load(fake)
    assert fake.deleter_calls == 1
    fake = producer("exchange", version=(7, 0), is_prefix=True, shape=(3,))
    with pytest.raises(BufferError, match="7"):
        as_tensor(fake)
    assert fake.deleter_calls == 1


HUGE = 1 << 62
BAD = [
    {"dtype": (3, 64, 1)},
    {"dtype": (18, 8, 1)},
    {"dtype": (255, 8, 1)},
    {"dtype": (2, 7, 1)},
    {"dtype": (2, 0, 1)},
    {"dtype": (2, 128, 1), "shape": (HUGE,)},
    {"dtype": (2, 33, 1)},
    {"dtype": (2, 32, 0)},
    {"dtype": (0, 0, 1)},
    {"dtype": (1, 9, 1)},
    {"dtype": (4, 32, 1)},
    {"dtype": (5, 48, 1)},
    {"dtype": (6, 1, 1)},
    {"dtype": (6, 16, 1)},
    {"dtype": (7, 16, 1)},
    {"dtype": (14, 4, 1)},
    {"dtype": (17, 8, 1)},
    {"shape": (1,) * 65},
    {"ndim": -2},
    {"ndim": 2**31 - 1},
    {"ndim": -(2**31)},
    {"shape": (-1,)},
    {"shape": (2, -3)},
    {"shape": (-HUGE, -HUGE)},
    {"shape": (HUGE, 4)},
    {"shape": (HUGE, HUGE, HUGE)},
    {"shape": (2**63 - 1,)},
    {"shape": (3, HUGE), "strides": (0, 1)},
    {"shape": (3, 2), "strides": (HUGE, 1)},
    {"shape": (3, 2), "strides": (-HUGE, 1)},
    {"address": 0},
    {"shape": None, "ndim": 3},
    {"byte_offset": 2**64 - 1},
]


# H100 L10
@pytest.mark.parametrize("version", [LEGACY, (1, 3)])
@pytest.mark.parametrize("knobs", BAD, ids=str)
def test_a_bad_struct_is_refused_and_deleted_once(knobs, version):
    for load in LOADS:
        fake = producer(version=version, **knobs)
        with pytest.raises(qbruntime.QbBufferError) as caught:
            load(fake)
        assert caught.value.status is StatusCode.Tensor_Refused and caught.value.detail
        assert fake.deleter_calls == 1
    fake = producer("exchange", version=(1, 3), **knobs)
    with pytest.raises(qbruntime.QbBufferError):
        as_tensor(fake)
    assert fake.deleter_calls == 1


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
    assert f"({kind}, 7)" in str(caught.value) and fake.deleter_calls == 1


# H113: before anything is exported
@pytest.mark.parametrize("kind", [2, 13])
def test_memory_of_cuda_needs_its_driver(load, kind):
    fake = producer(device=(kind, 0))
    for stream in (None, 1, 2, 12345):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            load(fake, stream)
        assert caught.value.status is StatusCode.Bridge_NoDriver
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
