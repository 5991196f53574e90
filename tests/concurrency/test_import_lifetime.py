# SPDX-License-Identifier: MIT
"""Imports: who keeps what, and when it is released."""

import gc
import itertools
import sys
import threading
import weakref

import pytest
from runtime_cases import COPY64, COUNTED, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from fakes import DLPACK, UINT8, consume, producer  # noqa: E402
from qbruntime import streams  # noqa: E402
from qbruntime.payload import Tensor  # noqa: E402

pytestmark = pytest.mark.usefixtures("counted")
as_tensor = Tensor.as_tensor


class Interface:
    def __init__(self, interface):
        self.__array_interface__ = interface


# H101 B15
def test_who_is_kept_by_an_import():
    fake = producer(owns=False)
    alive, memory = weakref.ref(fake), fake.memory
    tensor = as_tensor(fake)
    del fake
    gc.collect()
    assert alive() is None and tensor.data == memory.address
    fake = producer("array")
    alive, interface = weakref.ref(fake), fake.__array_interface__
    tensor = as_tensor(fake)
    del fake, interface
    gc.collect()
    assert alive() is not None
    del tensor
    assert alive() is None

    class Kept(dict):
        pass

    # and the dictionary, whose data may be another's
    holder = Interface(Kept(version=3, shape=(4,), typestr="|u1", data=b"abcd"))
    alive = weakref.ref(holder.__array_interface__)
    tensor = as_tensor(holder)
    del holder.__array_interface__
    gc.collect()
    assert np.asarray(tensor).tobytes() == b"abcd" and alive() is not None
    del tensor
    assert alive() is None


# B14 L4
@pytest.mark.parametrize("protocol", [("exchange",), DLPACK, ("array",)], ids=str)
def test_one_lifetime_through_each_protocol(protocol):
    gc.collect()
    before = streams.bridge_stats()
    fake = producer(*protocol, owns=True)
    counted = (fake, fake.memory, fake.shape, *COUNTED)
    references = [sys.getrefcount(item) for item in counted]
    for number in range(100):
        tensor = as_tensor(fake)
        assert tensor.shape == (2, 3) and np.asarray(tensor)[1, 2] is not None
        views = [as_tensor(tensor), tensor.copy(), consume(tensor, max_version=(1, 0))]
        if number % 2:
            del tensor
            views.clear()
        tensor = views = None
    # a consumer's end is told by a pending call
    assert streams.bridge_stats() == before
    after = [sys.getrefcount(item) for item in counted]
    assert after[:3] == references[:3]
    assert all(abs(a - b) < 50 for a, b in zip(after, references))
    if protocol != ("array",):
        assert [record.deleter_calls for record in fake.records] == 100 * [1]
        assert all(record.had_gil for record in fake.records)


# L6 L7: releases that come while others run
def test_a_release_may_drop_a_tensor():
    inner = producer(shape=(3,))

    class Owner:
        def __init__(self):
            self.tensor = as_tensor(inner)

        def __del__(self):
            del self.tensor
            as_tensor(np.zeros(3))

    middle = producer(owns=True)
    middle.owner = Owner()
    records = middle.records
    tensor = as_tensor(middle)
    del middle
    gc.collect()
    assert inner.deleter_calls == 0 and records[0].deleter_calls == 0
    del tensor
    gc.collect()
    assert inner.deleter_calls == 1 and records[0].deleter_calls == 1
    assert streams.bridge_stats()["deferred_releases"] == 0


# B06
def test_an_import_as_an_input(acc):
    fake = producer(shape=(64,), dtype=UINT8)
    with qbruntime.Model(COPY64) as model:
        model.launch(acc)
        tensor = as_tensor(fake)
        (y,) = model.infer([tensor])
    del model
    assert y.tolist() == list(range(64)) and fake.deleter_calls == 0
    del tensor
    assert fake.deleter_calls == 1


# H112 L10: the deleter of memory that is ours runs in the call
def test_recognised_memory_is_given_back_at_once(acc):
    pinned = acc.allocate_pinned_memory((2, 3))
    address = pinned.tensor().data
    for protocol in (("exchange",), DLPACK):
        fake = producer(*protocol, address=address, leaves_error=True)
        tensor = as_tensor(fake)
        assert "aries-rb" in repr(tensor) and fake.deleter_calls == 1
        (record,) = fake.records
        assert record.had_gil and not record.had_error
        pinned[1, 1] += 1
        assert np.asarray(tensor)[1, 1] == pinned[1, 1]


# What a deleter leaves behind is nobody's exception.
def test_a_deleter_that_raises():
    for protocol in (("exchange",), DLPACK):
        fake = producer(*protocol, leaves_error=True)
        tensor = as_tensor(fake)
        del tensor
        assert fake.deleter_calls == 1
        fake = producer(*protocol, leaves_error=True, dtype=(3, 64, 1))
        with pytest.raises(BufferError):
            as_tensor(fake)
        assert fake.deleter_calls == 1


def test_another_interpreter_imports_what_is_its_own():
    code = """
        import qbruntime
        from qbruntime.payload import Tensor
        pinned = qbruntime.Accelerator().allocate_pinned_memory(4)
        tensor = Tensor.as_tensor(pinned)
        assert Tensor.as_tensor(pinned.tensor()).data == tensor.data
        pinned.__dlpack__()
        class Producer:
            __array_interface__ = {}
        for load in Tensor.as_tensor, Tensor.from_dlpack:
            try:
                load(Producer())
            except qbruntime.QbUnsupportedError:
                pass
            else:
                raise AssertionError
        """
    child = run_child(
        """
        import sys, textwrap
        import _xxsubinterpreters as interpreters
        other = interpreters.create(isolated=False)
        interpreters.run_string(other, textwrap.dedent(sys.argv[1]))
        interpreters.destroy(other)
        """,
        code,
        check=False,
    )
    if "No module named '_xxsubinterpreters'" in child.stderr:
        pytest.skip("this Python names its interpreters otherwise")
    assert child.returncode == 0, child.stderr


def test_threads_import_and_export_together():
    gc.collect()
    before = streams.bridge_stats()
    fakes = [producer(*protocol) for protocol in (("exchange",), DLPACK)]
    failed = []

    def work(number):
        try:
            for i in itertools.islice(itertools.count(number), 300):
                tensor = as_tensor(fakes[i % 2])
                consumer = consume(tensor, max_version=(1, 0))
                if i % 3:
                    del tensor
                consumer.drop_without_gil()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and streams.bridge_stats() == before
    for fake in fakes:
        assert [record.deleter_calls for record in fake.records] == 900 * [1]
