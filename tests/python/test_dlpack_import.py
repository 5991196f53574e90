# SPDX-License-Identifier: MIT
"""Imports: which protocol is chosen, what it is asked, what comes of it."""

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
import fake_dlpack  # noqa: E402
from fakes import ALL, DLPACK, LEGACY, READ_ONLY, fields, producer  # noqa: E402
from qbruntime import StatusCode  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
as_tensor, from_dlpack = Tensor.as_tensor, Tensor.from_dlpack
LOADS = [as_tensor, from_dlpack]
ASKED = ("__dlpack__", {"max_version": (1, 3)})
WHOLE = [("__dlpack_device__", {}), ASKED]


@pytest.fixture(params=LOADS, ids=["as_tensor", "from_dlpack"])
def load(request):
    return request.param


# H77 PM10
def test_nothing_is_copied(load, acc):
    array = np.arange(6, dtype="f4").reshape(2, 3)
    tensor = load(array)
    assert type(tensor) is Tensor and tensor.data == array.ctypes.data
    array[1, 2] = 9
    assert np.asarray(tensor)[1, 2] == 9
    pinned = acc.allocate_pinned_memory(3)
    assert load(pinned).data == pinned.tensor().data
    assert load(pinned).is_read_only and not pinned.tensor().is_read_only
    pinned[0] = 1


# H115
def test_arguments_by_name():
    array = np.zeros(3)
    for load in LOADS:
        assert load(obj=array, stream=None).size == load(array, 1).size == 3
        tensor = load(array)
        assert tensor.as_tensor(tensor) is tensor.from_dlpack(obj=tensor) is tensor
        for args, kw in (((), {}), ((1, 2, 3), {}), ((array,), {"other": 1})):
            with pytest.raises(TypeError):
                load(*args, **kw)


# H78 B09
def test_what_offers_no_protocol_is_a_type_error(load):
    for thing in (3, None, "text", object(), [1.0], fake_dlpack):
        with pytest.raises(TypeError) as caught:
            load(thing)
        assert type(thing).__name__ in str(caught.value)
        assert "__dlpack__" in str(caught.value)


# H78 B09
@pytest.mark.parametrize("name", DLPACK)
def test_dlpack_needs_both_methods(name):
    (missing,) = set(DLPACK) - {name}
    for load in LOADS:
        fake = producer(name)
        with pytest.raises(TypeError, match=f"{missing}.*|.*FakeProducer") as caught:
            load(fake)
        assert missing in str(caught.value) and "FakeProducer" in str(caught.value)
        assert fake.log == []
    fake = producer(name, "array")
    assert as_tensor(fake).data == fake.address
    assert {call[0] for call in fake.log} == {"__array_interface__"}
    with pytest.raises(TypeError):
        from_dlpack(producer(name, "array"))


# H79 D3 D20
def test_the_protocol_is_chosen_by_presence():
    fake = producer(*ALL, members={"__c_dlpack_exchange_api__": 7})
    assert as_tensor(fake).data == fake.address
    assert fake.log == [("exchange", {})]
    fake = producer(*ALL[1:], members={"__c_dlpack_exchange_api__": 7})
    assert as_tensor(fake).data == fake.address
    assert fake.log == WHOLE
    fake = producer("cuda", "array")
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        as_tensor(fake)
    assert caught.value.status is StatusCode.Bridge_NoDriver
    assert {call[0] for call in fake.log} == {"__cuda_array_interface__"}
    fake = producer("array")
    assert as_tensor(fake).data == fake.address
    assert {call[0] for call in fake.log} == {"__array_interface__"}
    # that one promises __dlpack__
    fake = producer(*ALL)
    assert from_dlpack(fake).data == fake.address
    assert fake.log == WHOLE


# H80
def test_a_failure_of_the_chosen_protocol_is_final():
    fake = producer(*DLPACK, "cuda", "array", error=BufferError("mine"))
    for load in LOADS:
        with pytest.raises(BufferError, match="mine"):
            load(fake)
    assert fake.log == 2 * WHOLE
    fake = producer(*ALL, dtype=(3, 64, 1))
    with pytest.raises(BufferError):
        as_tensor(fake)
    assert fake.log == [("exchange", {})] and fake.deleter_calls == 1
    fake = producer(*ALL, members={"_exchange": lambda self: 1 / 0})
    with pytest.raises(ZeroDivisionError):
        as_tensor(fake)
    assert fake.log == []


def broken(self):
    raise LookupError("mine")


# H80: an attribute that raises is there
@pytest.mark.parametrize("name", [*DLPACK, "__array_interface__"])
def test_what_asking_for_a_protocol_raises_is_passed_on(name):
    fake = producer("__dlpack__", "array", members={name: property(broken)})
    with pytest.raises(LookupError, match="mine"):
        as_tensor(fake)


# H80: also once, as a signal does
def test_what_getattr_raises_is_passed_on():
    class Interrupted:
        def __getattr__(self, name):
            names.append(name)
            if len(names) == 1:
                raise KeyboardInterrupt
            raise AttributeError(name)

    names = []
    with pytest.raises(KeyboardInterrupt):
        as_tensor(Interrupted())
    assert names == ["__dlpack__"]


def with_exchange(**capsule):
    name = "__dlpack_c_exchange_api__"
    return producer(
        *DLPACK, members={name: fake_dlpack.exchange_capsule(**capsule)}, shape=(3,)
    )


# H79 H80 D3
def test_an_exchange_table_of_another_version():
    newer = with_exchange(major=2)
    assert as_tensor(newer).data == newer.address and newer.log == WHOLE
    # an older one behind it is used
    behind = with_exchange(major=2, previous=fake_dlpack.exchange_capsule())
    assert as_tensor(behind).size == 3 and behind.log == [("exchange", {})]
    none = producer(members={"__dlpack_c_exchange_api__": None}, shape=(3,))
    assert as_tensor(none).size == 3 and none.log == WHOLE
    with pytest.raises(TypeError):
        as_tensor(type("E", (), {"__dlpack_c_exchange_api__": None})())
    with pytest.raises(TypeError, match="dlpack_exchange_api"):
        as_tensor(with_exchange(name="another"))
    with pytest.raises(TypeError, match="dlpack_exchange_api"):
        as_tensor(with_exchange(name=None))
    with pytest.raises(BufferError, match="exchange"):
        as_tensor(with_exchange(has_export=False))
    number = producer(*DLPACK, members={"__dlpack_c_exchange_api__": 7})
    with pytest.raises(TypeError, match="dlpack_exchange_api"):
        as_tensor(number)
    assert number.log == []


# H79: the table is the type's
def test_an_exchange_table_of_an_object_is_none():
    fake = producer()
    fake.__dlpack_c_exchange_api__ = fake_dlpack.exchange_capsule()
    as_tensor(fake)
    assert fake.log == WHOLE


# H81 H84
@pytest.mark.parametrize("protocol", [("exchange",), DLPACK, ("array",)], ids=str)
@pytest.mark.parametrize("version", [LEGACY, (1, 0)])
def test_an_import_is_read_only_for_good(protocol, version):
    if protocol == ("exchange",) and version == LEGACY:
        version = (1, 1)
    tensor = as_tensor(producer(*protocol, version=version))
    assert tensor.is_read_only is True
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    assert fields(tensor, max_version=(1, 0))["flags"] == READ_ONLY
    assert fake_dlpack.exchange_export(tensor).fields()["flags"] == READ_ONLY
    assert not np.asarray(tensor).flags.writeable
    for writable in (tensor.copy(), as_tensor(tensor.copy()).copy()):
        assert not writable.is_read_only and fields(writable)["flags"] is None
        assert np.asarray(writable).flags.writeable
    assert fields(tensor, copy=True, max_version=(1, 0))["flags"] & READ_ONLY == 0


# H82 H83
def test_a_tensor_that_is_imported_again(load, acc):
    tensor = as_tensor(np.zeros(3))
    assert load(tensor) is tensor
    pinned = acc.allocate_pinned_memory(3)
    for writable in (pinned.tensor(), tensor.copy(), pinned.tensor().copy()):
        again = load(writable)
        assert again is not writable and again.data == writable.data
        assert again.is_read_only and not writable.is_read_only
        assert load(again) is again
        np.asarray(writable)[1] = 8
        del writable
        assert np.asarray(again)[1] == 8


# H85 H86 D4 D22
@pytest.mark.parametrize("stream", [0, -1, np.int64(0)])
def test_streams_that_order_nothing_are_refused(load, stream, acc):
    for source in (
        producer(*ALL),
        as_tensor(np.zeros(3)),
        acc.allocate_pinned_memory(3),
    ):
        with pytest.raises(ValueError, match="stream"):
            load(source, stream=stream)
        assert getattr(source, "log", []) == []


# H63 H85 H88: of an object 0 is the default stream
@pytest.mark.parametrize("handle", [0, 1, 2, 12345, 2**64 - 1])
def test_a_stream_may_be_an_object(load, handle):
    class Stream:
        num_calls = 0

        def __cuda_stream__(self):
            self.num_calls += 1
            return (0, handle)

    stream, fake = Stream(), producer()
    assert load(fake, stream=stream).data == fake.address
    assert stream.num_calls == 1 and fake.log == WHOLE


# H90 H92 B18 B19
@pytest.mark.parametrize("stream", [None, 1, 2, 12345])
@pytest.mark.parametrize("kind", [1, 3])
def test_a_host_producer_is_asked_once_and_without_a_stream(load, stream, kind):
    fake = producer(device=(kind, 0))
    tensor = load(fake, stream)
    assert fake.log == WHOLE
    del tensor
    assert fake.deleter_calls == 1


# H91
def test_an_older_producer_is_asked_again_without_the_keywords(load):
    fake = producer(rejects=("max_version",), version=LEGACY)
    tensor = load(fake)
    assert fake.log == [*WHOLE, ("__dlpack__", {})]
    assert tensor.data == fake.address and tensor.is_read_only
    newer = producer()
    load(newer)
    assert newer.log == WHOLE
    error = TypeError("for another reason")
    fake = producer(error=error)
    with pytest.raises(TypeError) as caught:
        load(fake)
    assert caught.value is error and len(fake.log) == 3
    for error in (BufferError("no"), ValueError("no"), KeyboardInterrupt("no")):
        fake = producer(error=error)
        with pytest.raises(type(error)) as caught:
            load(fake)
        assert caught.value is error and fake.log == WHOLE


class Forwarder(fake_dlpack.Forwarder):
    """Its __dlpack__ is in C, and knows no max_version."""

    def __init__(self):
        self.fake, self.asked = producer(version=LEGACY), []

    def __dlpack_device__(self):
        return (1, 0)

    def answer(self, names):
        self.asked.append(names)
        if names:
            raise TypeError("no keywords")
        return self.fake.__dlpack__()


# H91
def test_a_method_in_c_is_asked_for_a_version_once():
    first, second = Forwarder(), Forwarder()
    assert as_tensor(first).data == first.fake.address
    assert as_tensor(second).data == second.fake.address
    assert first.asked == [("max_version",), None]
    assert second.asked == [None]
