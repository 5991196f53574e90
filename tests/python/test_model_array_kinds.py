# SPDX-License-Identifier: MIT
"""Inference on plain arrays: host arrays of other libraries, types, orders of axes."""

import array
import ctypes
import warnings

import pytest
from runtime_cases import COPY64

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
qbm = pytest.importorskip("qbcompile.qbm")
from array_cases import (  # noqa: E402
    DLPack,
    Interface,
    OddDLPack,
    ToArray,
    write_image_model,
)
from qbruntime import Model  # noqa: E402

X = np.arange(64, dtype="u1")


@pytest.fixture
def image_model(acc, tmp_path):
    """Makes a launched model of an int8 image of that shape, of scale 0.5."""
    models = []

    def make(*shape):
        model = Model(write_image_model(qbm, tmp_path, shape))
        models.append(model)
        model.launch(acc)
        return model

    yield make
    for model in models:
        model.dispose()


# Q301
@pytest.mark.parametrize(
    "kind",
    [
        bytes,
        bytearray,
        memoryview,
        lambda x: array.array("B", x.tobytes()),
        lambda x: (ctypes.c_uint8 * 64).from_buffer_copy(x),
        lambda x: x.view(np.memmap),
        Interface,
        DLPack,
        lambda x: DLPack(x, device=(3, 1)),
        ToArray,
        OddDLPack,
    ],
    ids=lambda kind: kind.__name__,
)
def test_what_NumPy_can_read_is_an_array(launched, kind):
    for inputs in (kind(X), [kind(X)]):
        assert np.array_equal(launched.infer(inputs)[0], X)


# Q301
def test_pinned_memory_is_an_array(acc, launched):
    x = acc.allocate_pinned_memory(64, "u1")
    x[:] = X
    for inputs in (x, [x], x._pinned_memory, np.asarray(x)):
        assert np.array_equal(launched.infer(inputs)[0], X)
    x.free()
    with pytest.raises(qbruntime.QbClosedError):
        launched.infer(x)


class Both(Interface):
    def __dlpack__(self, **arguments):
        raise AssertionError

    __dlpack_device__ = __dlpack__
    __array__ = __dlpack__


class Failing(DLPack):
    def __dlpack__(self, **arguments):
        raise BufferError("no gradient, please")


class Gone(DLPack):
    def __dlpack_device__(self):
        raise RuntimeError("it is gone")


# Q301
def test_protocols_are_tried_in_order_and_say_why_not(launched):
    assert np.array_equal(launched.infer(Both(X))[0], X)
    with pytest.raises(BufferError, match="no gradient, please"):
        launched.infer(Failing(X))
    with pytest.raises(RuntimeError, match="it is gone"):
        launched.infer([Gone(X)])


# Q301
@pytest.mark.parametrize("device", [None, 1, (), (1,), ("1", 0), (1.0, 0)], ids=str)
def test_a_device_that_is_none_is_a_type_error(launched, device):
    with pytest.raises(TypeError, match=r"__dlpack_device__\(\)"):
        launched.infer([DLPack(X, device)])


class OneRaises:
    def __init__(self, which):
        self.which = which

    def __getattr__(self, name):
        if name == self.which:
            raise LookupError(f"no {name} today")
        raise AttributeError(name)


# Q301
def test_what_a_protocol_raises_is_not_lost(launched):
    for name in (
        "__array_interface__",
        "__dlpack__",
        "__cuda_array_interface__",
        "__array__",
    ):
        with pytest.raises(LookupError, match=f"no {name} today"):
            launched.infer(OneRaises(name))
    with pytest.raises(LookupError, match="no __array_interface__ today"):
        launched.infer(X, [OneRaises("__array_interface__")])


class Half:
    """Only one of the two methods that DLPack asks for."""

    def __dlpack__(self, **_):
        raise AssertionError("without its device it is not asked")


class HalfAndArray(Half, ToArray):
    pass


# Q301: DLPack begins with both of its methods
def test_an_object_without_its_device_is_none_of_dlpack(launched):
    with pytest.raises(TypeError, match="host array, got.*no __dlpack_device__"):
        launched.infer([Half()])
    assert np.array_equal(launched.infer([HalfAndArray(X)])[0], X)


class CudaArray(ToArray):
    __cuda_array_interface__ = {"version": 3}


# Q301
@pytest.mark.parametrize(
    "tensor",
    [DLPack(X, (2, 0)), DLPack(X, (2**70, 0)), OddDLPack(X, (10, 1)), CudaArray(X)],
    ids=lambda tensor: type(tensor).__name__,
)
def test_device_memory_is_refused(launched, tensor):
    with pytest.raises(TypeError, match=r"inputs\[0\] is in the memory .*bridge"):
        launched.infer([tensor])


# Q309
def test_any_strides_are_taken(acc, corpus_model):
    x = np.arange(256, dtype="u1").reshape(64, 4)
    with Model(COPY64) as model:
        model.launch(acc)
        for view in (x[:, 1], x[::-1, 3], x.T[2], x[::-1].T):
            assert np.array_equal(model.infer(view)[0], view)
        same = np.broadcast_to(np.uint8(7), (64,))
        assert (model.infer(same)[0] == 7).all()
    with Model(corpus_model("two_inputs")) as model:
        model.launch(acc)
        a = np.asfortranarray(np.arange(15, dtype="f4").reshape(3, 5))
        b = np.arange(10, dtype="f4")[::2]
        assert np.array_equal(model.infer([a, b])[1], a - b)


# Q312 Q320 Q345
def test_types_of_the_results_follow_the_inputs(image_model):
    model = image_model(2, 2, 4)
    stored = np.arange(-8, 8, dtype="i1").reshape(2, 2, 4)
    real = stored * np.float32(0.5)
    for inputs, infer, expected in (
        (real, model.infer, real),
        (stored, model.infer, stored),
        (stored, model.infer_to_float, real),
        (real, model.infer_to_float, real),
        ([stored], model.infer_hwc, stored),
        (stored, model.infer_hwc_to_float, real),
    ):
        answer = infer(inputs)
        assert type(answer) is list and len(answer) == 2
        assert {item.dtype for item in answer} == {expected.dtype}
        assert np.array_equal(answer[0], expected)
        assert np.array_equal(answer[1], expected.ravel())
    for call in (
        lambda: model.infer_to_float(stored, 0),
        lambda: model.infer_to_float(inputs=[stored], cache_size=0),
        lambda: model.infer_hwc_to_float((stored,), cache_size=0),
    ):
        assert np.array_equal(call()[0], real)


# Q306 Q324 Q346 Q347 Q348
def test_orders_of_axes(image_model):
    model = image_model(2, 3, 4)
    hwc = np.arange(24, dtype="i1").reshape(2, 3, 4)
    chw = np.ascontiguousarray(hwc.transpose(2, 0, 1))
    for inputs, calls, to_float in (
        (hwc, (model.infer, model.infer_hwc), model.infer_hwc_to_float),
        (chw, (model.infer, model.infer_chw), model.infer_chw_to_float),
    ):
        for infer in calls:
            image, stored = infer(inputs)
            assert np.array_equal(image, inputs)
            assert np.array_equal(stored, hwc.ravel())
        image, stored = to_float(inputs)
        assert image.dtype == np.float32 and np.array_equal(image, inputs * 0.5)
        assert np.array_equal(stored, hwc.ravel() * 0.5)
        image, stored = calls[1]([inputs[None]], None, 0, None)
        assert np.array_equal(image, inputs[None]) and stored.shape == (1, 24)
    for call in (
        lambda: model.infer(hwc, layout="chw"),
        lambda: model.infer(chw, layout="hwc"),
        lambda: model.infer_chw(hwc),
        lambda: model.infer_hwc(chw),
        lambda: model.infer_chw_to_float(hwc),
        lambda: model.infer_hwc_to_float(chw),
    ):
        with pytest.raises(ValueError, match="^Input shape is invalid. "):
            call()
    outputs = [np.zeros((4, 2, 3), "i1"), np.zeros(24, "i1")]
    assert model.infer_chw(chw, outputs) is None
    assert np.array_equal(outputs[0], chw)
    assert np.array_equal(outputs[1], hwc.ravel())


# Q307 Q346 Q348 Q849
def test_a_cube_is_HWC_unless_it_is_said_and_warns_once(image_model):
    x = np.arange(27, dtype="i1").reshape(3, 3, 3)
    models = [image_model(3, 3, 3), image_model(3, 3, 3)]
    as_chw = x.transpose(1, 2, 0).ravel()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in models:
            assert np.array_equal(model.infer_hwc(x)[1], x.ravel())
            assert np.array_equal(model.infer(x, layout="hwc")[1], x.ravel())
            assert np.array_equal(model.infer_chw(x)[1], as_chw)
            assert np.array_equal(model.infer(x, layout="chw")[1], as_chw)
            real = model.infer_chw_to_float(x)[1]
            assert np.array_equal(real, as_chw * np.float32(0.5))
    for model in models:
        with pytest.warns(qbruntime.QbLayoutWarning, match="as HWC and as CHW"):
            assert np.array_equal(model.infer(x)[1], x.ravel())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.array_equal(model.infer(x)[1], x.ravel())
            assert np.array_equal(model.infer_to_float(x)[0], x * 0.5)
    assert issubclass(qbruntime.QbLayoutWarning, UserWarning)
    model = image_model(3, 3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(qbruntime.QbLayoutWarning):
            model.infer(x)
        model.infer(x)
    assert model.counters()["submitted"] == 1
