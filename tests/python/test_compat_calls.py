# SPDX-License-Identifier: MIT
"""Compatibility points: the life of a model, forms of infer, shapes and types."""

import gc
import shutil

import pytest
from runtime_cases import COPY64, ONE_MODE, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
qbm = pytest.importorskip("qbcompile.qbm")
from array_cases import write_image_model  # noqa: E402

X = np.arange(64, dtype="u1")


# Q830
@pytest.mark.parametrize("device", [(), (0,), ("aries-rb", 0)], ids=repr)
@pytest.mark.parametrize("config", [(), (None,), (qbruntime.ModelConfig(),)], ids=len)
def test_a_model_is_opened_made_launched_run_and_disposed(device, config):
    model = qbruntime.Model(str(COPY64), *config)
    assert model.get_model_input_shape() == [(64,)]
    acc = qbruntime.Accelerator(*device)
    model.launch(acc)
    del acc
    gc.collect()
    for _ in range(2):
        assert np.array_equal(model.infer([X])[0], X)
    model.dispose()
    model.dispose()
    model.launch(qbruntime.Accelerator())
    assert model.infer(X)[0][63] == 63
    model.dispose()


# Q830
def test_parsing_needs_no_device_and_load_does_it_all():
    child = run_child(
        """
        import sys, qbruntime
        print(qbruntime.Model(sys.argv[1]).get_model_output_shape())
        """,
        COPY64,
        QBRUNTIME_SOFT_DEVICES="none",
    )
    assert child.stdout == "[(64,)]\n"
    for config in (None, qbruntime.ModelConfig()):
        model = qbruntime.load(str(COPY64), config)
        gc.collect()
        assert np.array_equal(model.infer(X)[0], X)
        model.dispose()


# Q831
def test_a_list_comes_back_or_none_with_outputs(launched):
    for call in (
        lambda: launched.infer(X),
        lambda: launched.infer([X]),
        lambda: launched.infer(X, None, 0),
        lambda: launched.infer([X], None, 0, None),
        lambda: launched.infer(inputs=[X], outputs=None, cache_size=0, params=None),
    ):
        answer = call()
        assert type(answer) is list and np.array_equal(answer[0], X)
    outputs = []
    assert launched.infer(X, outputs) is None
    (first,) = outputs
    assert np.array_equal(first, X)
    given = np.empty_like(first)
    assert launched.infer([X[::-1]], outputs=[given], cache_size=0) is None
    assert np.array_equal(given, X[::-1])


@pytest.fixture
def image_model(acc, tmp_path):
    """Copies an int8 image of 2 by 3 points and 4 channels."""
    with qbruntime.Model(write_image_model(qbm, tmp_path, (2, 3, 4))) as model:
        model.launch(acc)
        yield model


# Q832
def test_orders_of_axes_are_found_and_kept(image_model):
    hwc = np.arange(24, dtype="i1").reshape(2, 3, 4)
    chw = hwc.transpose(2, 0, 1)  # a view, as programs pass it
    for inputs in (hwc, chw, hwc[None], chw[None], np.stack([chw, chw + 1])):
        image, stored = image_model.infer(inputs)
        assert np.array_equal(image, inputs) and image.flags.c_contiguous
        assert np.array_equal(stored.reshape(-1, 24)[0], hwc.ravel())
    with pytest.raises(ValueError, match="^Input shape is invalid."):
        image_model.infer(hwc.transpose(1, 0, 2))


# Q832
def test_variants_are_tried_in_order_and_a_misfit_is_a_value_error(acc, corpus_model):
    with qbruntime.Model(corpus_model("variants", ONE_MODE)) as model:
        model.launch(acc)
        for size in (400, 4, 40):
            for inputs in (np.ones(size, "i4"), np.ones((3, size), "i4")):
                assert model.infer(inputs)[0].shape == inputs.shape
        for shape in ((5,), (4, 1), (0, 4), (1, 1, 4)):
            with pytest.raises(ValueError, match="^Input shape is invalid."):
                model.infer(np.ones(shape, "i4"))


# Q833
def test_types_are_strict_and_have_their_texts(launched, image_model):
    assert str(launched.get_model_input_data_type()) == "DataType.Uint8"
    assert str(image_model.get_model_input_data_type()) == "DataType.Float32"
    stored = np.arange(24, dtype="i1").reshape(2, 3, 4)
    real = stored * np.float32(0.5)
    for inputs, dtype in ((real, np.float32), (stored, np.int8)):
        assert {y.dtype for y in image_model.infer(inputs)} == {np.dtype(dtype)}
    for y in image_model.infer_to_float(stored):
        assert y.dtype == np.float32
    for wrong in (stored.astype("u1"), real.astype("f8"), stored.astype("i4")):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            image_model.infer(wrong)
        assert "Model_DtypeMismatched occurred." in str(caught.value)
    for wrong in (X.astype("f4"), X.astype("i1")):
        with pytest.raises(qbruntime.QbRuntimeError, match="Model_DtypeMismatched"):
            launched.infer(wrong)


# Q845
def test_arrays_are_owned_and_what_is_closed_is_an_error(acc):
    model = qbruntime.Model(COPY64)
    model.launch(acc)
    (x,) = model.allocate_inputs()
    x[:] = X
    (array,), (pinned,) = model.infer(x), model.infer_pinned_memory(x)
    view = pinned[8:]
    assert model.infer(X[::-1].copy())[0][0] == 63
    pinned.free()
    model.dispose()
    del model
    gc.collect()
    # memory of the same size would be the first to be reused
    other = acc.allocate_pinned_memory(64, "u1")
    other.fill(255)
    array[0] = 9
    assert array.tolist() == [9, *range(1, 64)] and view.tolist() == list(range(8, 64))
    for call in (lambda: pinned[0], lambda: memoryview(pinned), lambda: len(pinned)):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            call()
        assert caught.value.status is qbruntime.StatusCode.PinnedMemory_NotAvailable
    with qbruntime.Model(COPY64) as idle, pytest.raises(qbruntime.QbNotAliveError):
        idle.infer(X)


# Q875 Q960
def test_orders_of_axes_have_methods_of_their_own(image_model):
    hwc = np.arange(24, dtype="i1").reshape(2, 3, 4)
    chw = np.ascontiguousarray(hwc.transpose(2, 0, 1))
    for infer, to_float, inputs, other in (
        ("infer_hwc", "infer_hwc_to_float", hwc, chw),
        ("infer_chw", "infer_chw_to_float", chw, hwc),
    ):
        call = getattr(image_model, infer)
        assert np.array_equal(call(inputs)[0], inputs)
        assert np.array_equal(call([inputs], None, 0, None)[1], hwc.ravel())
        real = getattr(image_model, to_float)(inputs, cache_size=0)[0]
        assert real.dtype == np.float32 and np.array_equal(real, inputs * 0.5)
        for name in (infer, to_float):
            with pytest.raises(ValueError, match="^Input shape is invalid."):
                getattr(image_model, name)(other)


# Q960
def test_slots_any_suffix_and_no_reset_of_caches(acc, tmp_path):
    path = tmp_path / "copy64.mxq"
    shutil.copy(COPY64, path)
    config = qbruntime.ModelConfig()
    config.set_activation_slots(3)
    models = [qbruntime.Model(str(path), config) for _ in range(20)]
    for model in models:  # as many on a core as there is memory for
        model.launch(acc)
        assert model.get_activation_slots() == 3
    for model in models:
        assert np.array_equal(model.infer(X)[0], X)
        model.dispose()
    with pytest.raises(AttributeError, match="cache_size=0"):
        models[0].reset_cache_memory


# Q352
def test_pinned_inference_gives_what_infer_gives_and_copies_nothing(launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    x[0][:] = X[::-1]
    assert launched.infer_pinned_memory(x, y)[0] is y[0]
    assert launched.counters()["copied_nbytes"] == 0
    assert np.array_equal(np.asarray(y[0]), launched.infer(X[::-1].copy())[0])
    assert launched.counters()["copied_nbytes"] > 0
