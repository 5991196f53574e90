# SPDX-License-Identifier: MIT
"""Inference on plain arrays: outputs that a program gives."""

import pytest

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from array_cases import DLPack, Interface, ToArray  # noqa: E402
from qbruntime import Model, StatusCode  # noqa: E402
from runtime_cases import COPY64, run_child  # noqa: E402

X = np.arange(64, dtype="u1")


@pytest.fixture
def sums(acc, corpus_model):
    """Gives the sums, with ReLU, and the differences of (3, 5) and (5,) floats."""
    with Model(corpus_model("two_inputs")) as model:
        model.launch(acc)
        yield model


A = np.arange(15, dtype="f4").reshape(3, 5)
B = np.arange(5, dtype="f4")


# Q325
def test_an_empty_list_is_filled(launched, sums):
    for call in (
        lambda outputs: sums.infer([A, B], outputs),
        lambda outputs: sums.infer([A, B], outputs=outputs, cache_size=0),
        lambda outputs: sums.infer_hwc([A, B], outputs),
    ):
        outputs = []
        assert call(outputs) is None
        assert np.array_equal(outputs[0], A + B)
        assert np.array_equal(outputs[1], A - B)
        assert len(outputs) == 2 and outputs[0].flags.writeable
    with pytest.raises(ValueError):
        launched.infer(X[:3], outputs := [])
    assert outputs == []


# Q326 Q330
def test_arrays_are_written_in_place(launched, sums):
    outputs = [np.empty_like(item) for item in sums.infer([A, B])]
    given = list(outputs)
    for factor in (1, 2, 3):
        assert sums.infer([A * factor, B], outputs) is None
        assert outputs[0] is given[0] and outputs[1] is given[1]
        assert np.array_equal(given[0], A * factor + B)
        assert np.array_equal(given[1], A * factor - B)
    batch = [np.zeros((9, 64), "u1")]
    assert launched.infer(np.ones((9, 64), "u1"), batch) is None
    assert (batch[0] == 1).all()


# Q326
def test_other_memory_is_written_in_place(acc, launched):
    array, buffer, memory = np.zeros(64, "u1"), bytearray(64), bytearray(64)
    pinned = acc.allocate_pinned_memory(64, "u1")
    for output, bytes_of in (
        (Interface(array), array.tobytes),
        (buffer, buffer.copy),
        (memoryview(memory), memory.copy),
        (pinned, lambda: bytes(np.asarray(pinned))),
    ):
        outputs = [output]
        assert launched.infer(X, outputs) is None
        assert outputs[0] is output and bytes_of() == X.tobytes()
    buffer.append(0)  # which an export would forbid
    assert launched.infer(pinned)[0][63] == 63
    pinned.free()
    with pytest.raises(qbruntime.QbClosedError):
        launched.infer(X, [pinned])


# Q326
@pytest.mark.parametrize(
    "outputs, sentence, status",
    [
        ([A.copy()], "The number of outputs is different.", 1031),
        ([A.copy()] * 3, "The number of outputs is different.", 1031),
        ([A.copy(), A.astype("i4")], "Output dtype mismatch.", 22),
        ([A.copy(), A.astype(">f4")], "Output dtype mismatch.", 22),
        ([A.copy(), A.astype("M8[s]")], "Output dtype mismatch.", 22),
        ([A.copy(), A.copy().reshape((1,) * 9 + (3, 5))], "Output shape mismatch.", 21),
        ([A.copy(), A.ravel()], "Output shape mismatch.", 21),
        ([A.copy(), A[None].copy()], "Output shape mismatch.", 21),
        ([A.copy(), np.zeros((5, 3), "f4").T[:2]], "Output shape mismatch.", 21),
    ],
)
def test_outputs_that_do_not_fit_are_value_errors(sums, outputs, sentence, status):
    given, before = list(outputs), [item.copy() for item in outputs]
    with pytest.raises(ValueError) as caught:
        sums.infer([A, B], outputs)
    error = caught.value
    assert isinstance(error, qbruntime.QbRuntimeError) and error.status == status
    assert str(error) == (
        f"{sentence} {error.code_name} occurred. [StatusCode({status})] {error.detail}"
    )
    assert all(item is other for item, other in zip(outputs, given))
    assert all(map(np.array_equal, outputs, before))


# Q326
def test_what_would_be_a_copy_is_a_type_error(launched):
    for output in (DLPack(X), ToArray(X), None, X.tolist(), 5, [X.copy()]):
        with pytest.raises(TypeError, match=r"outputs\[0\]: .*writable buffer, got"):
            launched.infer(X, [output])


# Q327
def test_an_array_that_is_not_in_C_order_is_replaced(sums):
    strided = [np.zeros((5, 3), "f4").T, np.zeros((3, 10), "f4")[:, ::2]]
    plain = np.zeros((3, 5), "f4")
    for outputs in ([strided[0], strided[1]], [plain, strided[1]], [strided[0], plain]):
        given = list(outputs)
        assert sums.infer([A, B], outputs) is None
        assert len(outputs) == 2
        for item, before, expected in zip(outputs, given, (A + B, A - B)):
            assert np.array_equal(item, expected) and item.flags.c_contiguous
            assert (item is plain) == (before is plain)
        assert not strided[0].any() and not strided[1].any()
    outputs = [strided[0], A[0]]
    with pytest.raises(ValueError, match="^Output shape mismatch."):
        sums.infer([A, B], outputs)
    assert outputs[0] is strided[0]


# Q328
def test_read_only_and_overlapping_outputs_are_value_errors(launched, sums):
    frozen = X.copy()
    frozen.flags.writeable = False
    for output in (frozen, bytes(X), Interface(frozen), frozen[::-1]):
        with pytest.raises(ValueError, match=r"outputs\[0\] is read-only"):
            launched.infer(X, [output])
    x, both = X.copy(), np.zeros((4, 5), "f4")
    for model, inputs, outputs in (
        (launched, x, [x]),
        (launched, x, [x[:]]),
        (sums, [A, B], [both[:3], both[1:]]),
        (sums, [A, B], [both[:3], both[:3]]),
    ):
        with pytest.raises(
            qbruntime.QbInvalidArgumentError, match="overlaps"
        ) as caught:
            model.infer(inputs, outputs)
        assert caught.value.status is StatusCode.PinnedMemory_Aliased
    assert np.array_equal(x, X) and not both.any()


# Q326: and none is made room for before
def test_an_output_of_a_huge_shape_is_a_value_error(launched):
    huge = np.lib.stride_tricks.as_strided(X.copy(), (1 << 40,), (0,))
    with pytest.raises(ValueError, match="^Output shape mismatch."):
        launched.infer(X, [huge])


# Q326 Q327
def test_a_list_that_changes_during_the_call_gets_its_results(sums):
    class Clears(ToArray):
        def __array__(self, dtype=None, copy=None):
            outputs.clear()
            return self.array

    plain, strided = np.zeros((3, 5), "f4"), np.zeros((5, 3), "f4").T
    outputs = [plain, plain.copy()]
    assert sums.infer([Clears(A), B], outputs) is None
    assert outputs == [] and np.array_equal(plain, A + B)
    outputs = [plain, strided]
    assert sums.infer([Clears(A), B], outputs) is None
    assert outputs[0] is plain and np.array_equal(outputs[1], A - B)
    assert len(outputs) == 2 and not strided.any()


INVALID = """
import sys, numpy as np, qbruntime
from qbruntime import Model, QbRuntimeError, StatusCode
x = np.arange(64, dtype="u1")
acc = qbruntime.Accelerator()
model = Model(sys.argv[1])
model.launch(acc)
def refused(call, status):
    try:
        call()
    except QbRuntimeError as error:
        assert error.status is status, error
    else:
        raise AssertionError(status)
def fail(outputs):
    refused(lambda: model.infer(x, outputs), StatusCode.Model_PredictError)
def make_invalid():
    p = acc.allocate_pinned_memory(64, "u1")
    p.fill(5)
    view = np.asarray(p)
    refused(
        lambda: model.infer_pinned_memory(model.allocate_inputs(), p),
        StatusCode.Model_PredictError,
    )
    return p, view
def is_invalid(p):
    refused(lambda: p[0], StatusCode.Tensor_Invalid)
    refused(lambda: p[:], StatusCode.Tensor_Invalid)
    return True
"""


# Q485
def test_a_refused_call_leaves_invalid_memory_invalid():
    run_child(
        INVALID
        + """
p, view = make_invalid()
other = np.zeros(3, "f4")
frozen = np.frombuffer(bytes(64), "u1")
for outputs in ([p, other], [p, other, p], [p.__class__(p._pinned_memory), frozen]):
    try:
        model.infer(x, outputs)
    except ValueError:
        assert is_invalid(p)
    else:
        raise AssertionError(outputs)
refused(lambda: model.infer(view, [p]), StatusCode.PinnedMemory_Aliased)
assert is_invalid(p)
model.dispose()
refused(lambda: model.infer(x, [p]), StatusCode.Model_NotAlive)
assert is_invalid(p)
model.launch(acc)
outputs = [p]
assert model.infer(x, outputs) is None
assert outputs[0] is p and p[:].tolist() == x.tolist()
""",
        COPY64,
        QBRUNTIME_SOFT_FAULT="error:count=1",
    )


# Q485: and one of which the job fails; until a later one does not
def test_a_failed_call_leaves_invalid_memory_invalid():
    run_child(
        INVALID
        + """
p, view = make_invalid()
fail([p])
assert is_invalid(p)
model.infer(x, [p])
assert p[63] == 63
""",
        COPY64,
        QBRUNTIME_SOFT_FAULT="error:every=1,count=2",
    )


# Q328 Q485
def test_invalid_memory_is_not_given_twice(corpus_model):
    run_child(
        """
        import sys, numpy as np, qbruntime
        from qbruntime import QbInvalidArgumentError, QbRuntimeError, StatusCode
        model = qbruntime.load(sys.argv[1])
        outputs = model.allocate_outputs()
        views = [np.asarray(output) for output in outputs]
        try:
            model.infer_pinned_memory(model.allocate_inputs(), outputs)
        except QbRuntimeError as error:
            assert error.status is StatusCode.Model_PredictError
        a, b = np.arange(15, dtype="f4").reshape(3, 5), np.arange(5, dtype="f4")
        p, q = outputs
        for pair in ([p, p], [p, views[0]], [views[1], q]):
            try:
                model.infer([a, b], pair)
            except QbInvalidArgumentError as error:
                assert error.status is StatusCode.PinnedMemory_Aliased
            else:
                raise AssertionError(pair)
        assert model.infer([a, b], outputs) is None
        assert (p[:] == a + b).all() and (views[1] == a - b).all()
        """,
        corpus_model("two_inputs"),
        QBRUNTIME_SOFT_FAULT="error:count=1",
    )
