# SPDX-License-Identifier: MIT
"""Inference on plain arrays: forms of the call, what is taken, what is refused."""

import sys
import threading

import pytest
from runtime_cases import COPY64, DIGITS, ONE_MODE, TOP, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import Model, StatusCode  # noqa: E402

X = np.arange(64, dtype="u1")


# Q300 Q321
def test_one_or_several_are_given_and_a_new_list_comes_back(launched):
    for call in (
        lambda: launched.infer(X),
        lambda: launched.infer([X]),
        lambda: launched.infer((X,)),
        lambda: launched.infer(inputs=X),
        lambda: launched.infer(X, None, 0),
        lambda: launched.infer([X], None, 0, None),
        lambda: launched.infer(X, None, np.int64(0), params=None),
        lambda: launched.infer([X], outputs=None, cache_size=0, layout="auto"),
    ):
        answer = call()
        assert type(answer) is list and len(answer) == 1
        assert type(answer[0]) is np.ndarray and answer[0].dtype == np.uint8
        assert np.array_equal(answer[0], X)


# Q300 Q323
def test_several_inputs_and_outputs(acc, corpus_model):
    with Model(corpus_model("two_inputs")) as model:
        model.launch(acc)
        a = np.arange(15, dtype="f4").reshape(3, 5) - 7
        b = np.arange(5, dtype="f4")
        for inputs in ([a, b], (a, b)):
            sums, differences = model.infer(inputs)
            assert np.array_equal(sums, np.maximum(a + b, 0))
            assert np.array_equal(differences, a - b)


# Q305 Q310
def test_variants_are_chosen_by_shape(acc, corpus_model):
    with Model(corpus_model("variants", ONE_MODE)) as model:
        model.launch(acc)
        for size in (4, 40, 400):
            x = np.full(size, -size, "i4")
            (y,) = model.infer(x)
            assert y.shape == (size,) and (y == size).all()
        with pytest.raises(ValueError, match="^Input shape is invalid. ") as caught:
            model.infer(np.zeros(5, "i4"))
        for word in ("short", "middle", "long"):
            assert word in str(caught.value)


# Q300 Q301
@pytest.mark.parametrize(
    "inputs",
    [
        None,
        5,
        "words",
        {"x": X},
        iter([X]),
        X.tolist(),
        [X.tolist()],
        [[X]],
        (None,),
        [X, 3],
        set(),
    ],
    ids=repr,
)
def test_what_is_no_array_is_a_type_error(launched, inputs):
    with pytest.raises(TypeError, match="inputs.*host array, got") as caught:
        launched.infer(inputs)
    assert not isinstance(caught.value, qbruntime.QbRuntimeError)


def test_other_arguments_are_checked(launched):
    for call in (
        lambda: launched.infer(),
        lambda: launched.infer(X, None, 0, None, "hwc"),
        lambda: launched.infer(X, stream=None),
        lambda: launched.infer(X, cache_size="0"),
        lambda: launched.infer(X, cache_size=True),
        lambda: launched.infer(X, outputs=X.copy()),
        lambda: launched.infer(X, outputs=(X.copy(),)),
        lambda: launched.infer(X, layout=None),
        lambda: launched.infer_chw(X, layout="chw"),
        lambda: launched.infer_to_float(X, None),
        lambda: launched.infer_to_float(X, outputs=None),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="there is no BatchParam yet"):
        launched.infer([X], None, 0, [object()])
    with pytest.raises(ValueError, match='"auto", "hwc" or "chw", got \'nhwc\''):
        launched.infer(X, layout="nhwc")
    for cache_size in (1, -1, 2**70):
        with pytest.raises(qbruntime.QbInvalidArgumentError, match="cache"):
            launched.infer(X, None, cache_size)


# Q302 Q303 Q304 Q310 Q810
def test_shapes_that_do_not_fit_are_value_errors(launched):
    for inputs, status in (
        ([], StatusCode.Model_InputCountMismatched),
        ([X, X], StatusCode.Model_InputCountMismatched),
        (X[:63], StatusCode.Model_ShapeMismatched),
        (X.reshape(8, 8), StatusCode.Model_ShapeMismatched),
        (X[:0], StatusCode.Model_ShapeMismatched),
        (np.zeros((0, 64), "u1"), StatusCode.Model_ShapeMismatched),
        (np.uint8(3), StatusCode.Model_ShapeMismatched),
        (X.reshape((1,) * 20 + (64,)), StatusCode.Model_ShapeMismatched),
    ):
        with pytest.raises(qbruntime.QbShapeError) as caught:
            launched.infer(inputs)
        assert isinstance(caught.value, ValueError)
        assert caught.value.status is status
        assert str(caught.value) == (
            f"Input shape is invalid. {status.name} occurred. "
            f"[StatusCode({int(status)})] {caught.value.detail}"
        )
    with pytest.raises(ValueError, match="one array with a leading axis"):
        launched.infer([X] * 4)


# Q311
def test_nothing_is_cast(launched):
    for dtype in ("i1", "f4", "f8", "i8", "?"):
        with pytest.raises(qbruntime.QbDtypeError) as caught:
            launched.infer(X.astype(dtype))
        assert caught.value.status is StatusCode.Model_DtypeMismatched
        assert str(caught.value).startswith("Model_DtypeMismatched occurred. ")


# Q313
def test_other_endian_and_structured_arrays_are_refused(acc, corpus_model):
    foreign = ">" if sys.byteorder == "little" else "<"
    with Model(corpus_model("variants", ONE_MODE)) as model:
        model.launch(acc)
        assert model.infer(np.ones(4, "=i4"))[0].tolist() == [-1] * 4
        for dtype in (
            f"{foreign}i4",
            [("a", "i4")],
            [("a", "i2"), ("b", "i2")],
            "O",
            "S4",
            "c8",
            "M8[s]",
            "(2,)i4",
        ):
            if dtype == "(2,)i4":
                x = np.zeros(4, np.dtype([("a", "i2", (2,))]))
            else:
                x = np.zeros(4, dtype)
            with pytest.raises(
                qbruntime.QbDtypeError, match="inputs has elem"
            ) as caught:
                model.infer(x)
            assert caught.value.status is StatusCode.Model_DtypeMismatched


# Q303 Q322 Q335
def test_a_leading_axis_is_a_batch(launched):
    x = np.random.default_rng(1).integers(0, 256, (35, 64)).astype("u1")
    (y,) = launched.infer(x)
    assert y.shape == (35, 64) and np.array_equal(y, x)
    assert launched.infer(x[:1])[0].shape == (1, 64)


# Q322 Q335
def test_a_batch_of_digits_is_read_as_each_alone(acc):
    images = np.fromfile(TOP / "examples/digits-16.u8", "u1").reshape(16, 8, 8, 1)
    answers = np.loadtxt(TOP / "examples/digits-16.txt", "i8", usecols=2)
    with Model(DIGITS) as model:
        model.launch(acc)
        (scores,) = model.infer(images)
        assert np.array_equal(scores.reshape(16, 10).argmax(axis=1), answers)
        for image, row in zip(images, scores):
            assert np.array_equal(model.infer(image)[0], row)
        (chw,) = model.infer_chw(images.transpose(0, 3, 1, 2))
        assert np.array_equal(chw.reshape(scores.shape), scores)


# Q329 Q330
def test_results_are_independent(acc):
    kept = []
    with Model(COPY64) as model:
        model.launch(acc)
        for number in range(1000):
            (y,) = model.infer(np.full(64, number % 256, "u1"))
            kept.append(y)
    for number, y in enumerate(kept):
        assert (y == number % 256).all()
        assert y.flags.writeable and y.flags.c_contiguous and y.flags.aligned
        assert y.ctypes.data % 64 == 0
        assert not any(np.shares_memory(y, other) for other in kept[:number][-3:])
        y[:] = 1
    assert len({y.ctypes.data for y in kept}) == 1000


# Q314
def test_nothing_of_the_inputs_is_kept_or_written(launched):
    x, buffer = X.copy(), bytearray(X)
    count = sys.getrefcount(x)
    for _ in range(3):
        launched.infer(x)
        launched.infer([buffer])
        with pytest.raises(ValueError):
            launched.infer([x, buffer])
        with pytest.raises(TypeError):
            launched.infer([x, buffer, None])
    assert sys.getrefcount(x) == count and np.array_equal(x, X)
    assert buffer == bytes(X)
    buffer.append(0)  # which an export would forbid
    x.flags.writeable = False
    assert launched.infer(x)[0][63] == 63


# Q266 Q329
def test_a_model_that_is_not_on_a_device():
    model = Model(COPY64)
    with pytest.raises(qbruntime.QbNotAliveError) as caught:
        model.infer(X)
    assert caught.value.status is StatusCode.Model_NotLaunched
    with qbruntime.Accelerator() as acc:
        model.launch(acc)
        (y,) = model.infer(X)
        model.dispose()
    assert np.array_equal(y, X)
    outputs = []
    with pytest.raises(qbruntime.QbNotAliveError) as caught:
        model.infer(X, outputs)
    assert caught.value.status is StatusCode.Model_NotAlive and outputs == []


# Q337 Q338
def test_threads_share_a_model(launched):
    errors = []

    def work(seed):
        outputs = [np.empty(64, "u1")]
        for number in range(200):
            x = np.full(64, (seed * 31 + number) % 256, "u1")
            launched.infer(x, outputs)
            if not np.array_equal(launched.infer(x)[0], x):
                errors.append((seed, number))
            if not np.array_equal(outputs[0], x):
                errors.append((seed, number, "given"))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert launched.counters()["completed"] == 6 * 400


# A thread that has the GIL keeps it here until it waits for something. So only
# if the call lets go of it can the main thread see that the input is copied and
# the job, which hangs until its time is over, has not ended.
# Q336
def test_other_threads_run_meanwhile():
    child = run_child(
        """
        import os, sys, threading, numpy, qbruntime
        model = qbruntime.load(sys.argv[1])
        ended = []
        def work():
            try:
                model.infer(numpy.zeros(64, "u1"))
            except TimeoutError:
                ended.append("timeout")
        sys.setswitchinterval(1000)
        thread = threading.Thread(target=work)
        thread.start()
        while not model.counters()["copied_nbytes"]:
            os.stat(".")
        print(ended)
        thread.join()
        print(ended)
        model.dispose()
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT="hang:count=1",
        QBRUNTIME_NPU_TIMEOUT_MS="1000",
    )
    assert child.stdout == "[]\n['timeout']\n"
