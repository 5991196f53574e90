# SPDX-License-Identifier: MIT
"""ModelVariantHandle."""

import gc
import weakref

import pytest
from runtime_cases import COPY64, ONE_MODE

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Model, ModelVariantHandle, Scale, StatusCode  # noqa: E402


@pytest.fixture
def model(corpus_model):
    return Model(corpus_model("variants", ONE_MODE))


# Q275 Q531
def test_a_table_of_lengths_is_made_of_the_variants(model):
    handles = [
        model.get_model_variant_handle(i) for i in range(model.get_num_model_variants())
    ]
    assert [type(handle) for handle in handles] == [ModelVariantHandle] * 3
    assert [handle.get_variant_idx() for handle in handles] == [0, 1, 2]
    for handle, length in zip(handles, (4, 40, 400)):
        assert handle.get_model_input_shape() == [(length,)]
        assert handle.get_model_output_shape() == [(length,)]
        (info,) = handle.get_input_buffer_info()
        assert info.original_size() == length and type(info) is qbruntime.BufferInfo
        (info,) = handle.get_output_buffer_info()
        assert info.size() == length
        assert [type(scale) for scale in handle.get_input_scale()] == [Scale]
        assert [type(scale) for scale in handle.get_output_scale()] == [Scale]
    assert model.get_model_input_shape() == handles[0].get_model_input_shape()


# Q531
def test_each_side_has_its_own_number_of_tensors(corpus_model):
    model = Model(corpus_model("int8"))
    handle = model.get_model_variant_handle(variant_idx=0)
    assert handle.get_model_input_shape() == [(2, 2, 4)]
    assert handle.get_model_output_shape() == [(2, 2, 4)] * 2
    assert handle.get_output_scale() == model.get_output_scale()
    assert handle.get_input_scale() == model.get_input_scale()
    assert handle.get_output_buffer_info() == model.get_output_buffer_info()


# Q275
def test_an_index_that_the_model_lacks_is_refused(model):
    for bad in (3, -1, 2**70, -(2**70)):
        with pytest.raises(qbruntime.QbRuntimeError, match="the model has 3") as caught:
            model.get_model_variant_handle(bad)
        assert caught.value.status is StatusCode.Model_InvalidVariantIdx
    for bad in ("0", 0.0, True, None):
        with pytest.raises(TypeError):
            model.get_model_variant_handle(bad)
    with pytest.raises(TypeError):
        ModelVariantHandle()


# Q594: of none there is no last one
@pytest.mark.parametrize("index", [-1, 0, 1])
def test_a_model_that_is_not_loaded_has_no_variant(index):
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        Model.__new__(Model).get_model_variant_handle(index)
    assert caught.value.status is StatusCode.Model_InvalidVariantIdx
    assert caught.value.detail == (
        f"variant_idx is {index}, expected a model that is loaded"
    )


# Q532
def test_a_handle_keeps_its_model(acc):
    model = Model(COPY64)
    alive = weakref.ref(model)
    handle = model.get_model_variant_handle(0)
    model.launch(acc)
    model.dispose()
    assert handle.get_model_output_shape() == [(64,)]
    del model
    gc.collect()
    assert alive() is not None
    assert handle.get_input_buffer_info()[0].size() == 64
    assert repr(handle) == f"ModelVariantHandle(0, Model({str(COPY64)!r}))"
    del handle
    gc.collect()
    assert alive() is None


class Sub(Model):
    pass


def test_a_model_that_holds_its_handles_is_collected():
    model = Sub(COPY64)
    model.handles = [model.get_model_variant_handle(0) for _ in range(3)]
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
