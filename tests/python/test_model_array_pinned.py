# SPDX-License-Identifier: MIT
"""Inference on plain arrays that lie in pinned memory."""

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime.payload import Tensor  # noqa: E402
from runtime_cases import COPY64, LASTS, run_child  # noqa: E402

X = np.arange(64, dtype="u1")
VIEWS = {
    "pinned memory": lambda pinned: pinned,
    "numpy.asarray": np.asarray,
    "numpy.from_dlpack": np.from_dlpack,
    "memoryview": memoryview,
    "tensor": lambda pinned: pinned.tensor(),
    "imported": Tensor.as_tensor,
    "cast": lambda pinned: np.asarray(pinned).view("i1").view("u1"),
    "batch": lambda pinned: np.asarray(pinned).reshape(1, 64),
}


def count(model):
    return model.counters()["copied_nbytes"]


# P58 H112
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_pinned_memory_are_inputs_without_a_copy(launched, name):
    (pinned,) = launched.allocate_inputs()
    pinned[:] = X
    view, outputs = VIEWS[name](pinned), [np.zeros(64, "u1")]
    if name == "batch":
        outputs[0] = outputs[0].reshape(1, 64)
    assert launched.infer([view], outputs) is None
    assert outputs[0].ravel().tolist() == X.tolist()
    assert count(launched) == 64  # of the output


# P58
def test_views_of_pinned_memory_are_outputs_without_a_copy(launched):
    (x,), (y,) = launched.allocate_inputs(), launched.allocate_outputs()
    x[:] = X
    view = np.asarray(y)
    for _ in range(3):
        assert launched.infer([np.asarray(x)], [view]) is None
        assert view.tolist() == y[:].tolist() == X.tolist()
        view[:] = 0
    assert count(launched) == 0
    assert launched.infer(x, [y]) is None and count(launched) == 0
    assert y[:].tolist() == X.tolist()
    # other host memory: exactly its bytes, once
    assert launched.infer([X.copy()], [view]) is None and count(launched) == 64
    assert launched.infer([np.asarray(x)])[0].tolist() == X.tolist()
    assert count(launched) == 128


# H112: a slice of it, where the device can begin; any other is copied
def test_slices_of_pinned_memory(acc, launched):
    x, y = (acc.allocate_pinned_memory(512, "u1") for _ in range(2))
    x[:] = np.arange(512) % 251
    for at, copied in ((64, 0), (128, 0), (100, 64)):
        before = count(launched)
        view, out = np.asarray(x)[at : at + 64], np.asarray(y)[64:128]
        assert launched.infer([view], [out]) is None
        assert out.tolist() == view.tolist() == y[64:128].tolist()
        assert count(launched) - before == copied
    assert not y[:64].any() and not y[128:].any()


# H112: what is used, is used
def test_an_input_that_the_host_writes_is_copied(launched):
    (x,), (y,) = launched.allocate_inputs(), launched.allocate_outputs()
    with x.cpu_access(write=True) as view:
        view[:] = X
        assert launched.infer([view], [np.asarray(y)]) is None
    assert y[:].tolist() == X.tolist() and count(launched) == 64


# Q485 H112 Q331
def test_what_a_failed_job_left_is_no_input():
    run_child(
        """
        import sys, numpy as np, qbruntime
        from qbruntime import QbRuntimeError, StatusCode
        model = qbruntime.load(sys.argv[1])
        (x,), (y,) = model.allocate_inputs(), model.allocate_outputs()
        view, array = np.asarray(y), np.ones(64, "u1")
        view[:] = 7
        try:
            model.infer([x], [view])
        except qbruntime.QbRuntimeError as error:
            first = error
        else:
            raise AssertionError
        assert not view.any()
        for call in (lambda: model.infer([view], [array]), lambda: y[0]):
            try:
                call()
            except QbRuntimeError as error:
                assert error.status is StatusCode.Tensor_Invalid
            else:
                raise AssertionError
        assert array.all()
        x.fill(5)
        assert model.infer([x], [view]) is None and (view == 5).all() and y[0] == 5
        assert model.counters()["copied_nbytes"] == 0
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT="error:count=1",
    )


# H44 PM11: a wait for the job of another thread's arrays leaves the GIL, too
def test_what_is_used_in_place_is_waited_for_without_the_gil():
    run_child(
        """
        import operator, sys, threading, numpy as np, qbruntime
        from functools import partial
        model = qbruntime.load(sys.argv[1])
        (x,), (y,) = model.allocate_inputs(), model.allocate_outputs()
        arrays = [np.asarray(x)], [np.asarray(y)]
        written = memoryview(y)
        x.fill(7)
        count = [0]
        def work():
            while True:
                count[0] += 1
        threading.Thread(target=work, daemon=True).start()
        read = partial(operator.getitem, count, 0)
        for wait in (
            partial(operator.getitem, y, 63), partial(memoryview, y),
            partial(getattr, y, "__array_interface__"), partial(x.fill, 7),
        ):
            y.fill(0)
            thread = threading.Thread(target=model.infer, args=arrays)
            thread.start()
            # the bytes come first, the end of the job later
            while written[63] != 7:
                pass
            before, _, after = map(operator.call, (read, wait, read))
            assert after > before, wait
            thread.join()
        assert model.counters()["copied_nbytes"] == 0
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT=LASTS + ",every=1,count=4",
    )
