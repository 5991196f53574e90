# SPDX-License-Identifier: MIT
"""Model: lifecycle, getters, load, estimate_memory."""

import copy
import gc
import os
import shutil
import warnings
from pathlib import Path

import pytest
from runtime_cases import COPY64, DIGITS, ONE_MODE, count_fds, run_child
from runtime_cases import skip_if_rounded

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Accelerator, BufferInfo, CacheInfo, CacheType  # noqa: E402
from qbruntime import Core, CoreId, CoreMode, Cluster, DataType, Model  # noqa: E402
from qbruntime import Scale, StatusCode  # noqa: E402


# Q292
def test_getters_work_without_a_device():
    child = run_child(
        """
        import sys, qbruntime
        model = qbruntime.Model(sys.argv[1], None)
        print(model.get_model_input_shape(), model.get_model_output_shape())
        print(model.get_input_names(), model.get_activation_slots())
        """,
        COPY64,
        QBRUNTIME_SOFT_DEVICES="none",
    )
    assert child.stdout == "[(64,)] [(64,)]\n['x'] 0\n"
    assert "[(64,)]" == str(
        Model(model_config=None, path=COPY64).get_model_input_shape()
    )


# Q276 Q277 Q278 Q279 Q280 Q286 Q287 Q491
def test_what_a_model_tells(corpus_model):
    model = Model(corpus_model("two_inputs"))
    assert model.get_model_input_shape() == [(3, 5), (5,)]
    assert model.get_model_output_shape() == [(3, 5), (3, 5)]
    assert model.get_input_names() == ["a", "b"]
    assert model.get_output_names() == ["sum", "difference"]
    assert model.get_model_input_data_type() is DataType.Float32
    assert str(model.get_model_output_data_type()) == "DataType.Float32"
    assert model.get_input_data_types() == [DataType.Float32] * 2
    assert model.get_output_data_types() == [DataType.Float32] * 2
    assert model.get_input_pinned_data_types() == [DataType.Float32] * 2
    assert model.get_output_pinned_data_types() == [DataType.Float32] * 2
    assert [type(scale) for scale in model.get_input_scale()] == [Scale, Scale]
    infos = model.get_input_buffer_info()
    assert [type(info) for info in infos] == [BufferInfo, BufferInfo]
    assert infos[0].original_size() == 15 and infos[1].size() == 5
    assert len(model.get_output_buffer_info()) == len(model.get_output_scale()) == 2
    assert model.get_cache_infos() == []


# Q287 Q491
def test_types_of_arrays_and_of_pinned_memory_differ_where_quantised(corpus_model):
    model = Model(corpus_model("int8"))
    assert model.get_output_data_types() == [DataType.Float32] * 2
    assert model.get_output_pinned_data_types() == [DataType.Uint8, DataType.Float32]
    codes, values = model.get_output_scale()
    assert (codes.scale, codes.is_uniform, codes[2]) == (0.25, True, 0.25)
    assert (codes.zero_point, codes.is_asymmetric) == (3, True)
    assert (values.scale, values.is_uniform) == (0.0, False)
    assert values.scale_list == [0.25] * 4 and values[3] == 0.25


# Q274 Q276
def test_variants_are_counted_and_the_first_is_described(corpus_model):
    model = Model(corpus_model("variants", ONE_MODE))
    assert model.get_num_model_variants() == 3
    assert model.get_model_input_shape() == [(4,)]
    assert Model(COPY64).get_num_model_variants() == 1


# Q276 Q277
@pytest.mark.parametrize("multiple", (1, 4))
def test_a_variable_axis_is_negative(corpus_model, multiple):
    edits = [
        ("shape=[-1,", f"shape=[-{multiple},"),
        ("min=1 max=8 multiple=1", f"min={multiple} max=8 multiple={multiple}"),
    ]
    model = Model(corpus_model("kv_cache", edits))
    assert model.get_model_input_shape() == [(-multiple, 32)] * 3
    assert model.get_model_output_shape() == [(-multiple, 32)]


# Q283 Q411 Q540
def test_cache_layers(corpus_model):
    infos = Model(corpus_model("kv_cache")).get_cache_infos()
    assert infos and all(type(info) is CacheInfo for info in infos)
    for info in infos:
        assert type(info.cache_type) is CacheType and info.name
        assert len(info.layer_hash) == 16 and int(info.layer_hash, 16) >= 0
        assert info.size > 0 and info.num_batches >= 1


# Q272 Q273 Q271 Q288 Q289
def test_cores_of_a_launched_model(acc):
    model = Model(COPY64)
    assert model.get_core_mode() is CoreMode.Single
    assert model.supported_core_modes() == [CoreMode.Single]
    assert model.get_target_cores() == []
    model.launch(acc)
    cores = model.get_target_cores()
    assert cores == acc.get_available_cores()
    assert model.is_target(cores[3]) and model.is_target(core_id_of(1, 4))
    assert not model.is_target(CoreId(Cluster.Cluster0, Core.GlobalCore))
    assert model.get_activation_slots() == 16
    with pytest.warns(DeprecationWarning):
        assert model.target_cores == cores
    model.dispose()
    assert model.get_activation_slots() == 0


def core_id_of(cluster, core):
    return CoreId(cluster << 16, core)


# Q145
def test_a_file_of_several_modes_needs_a_configuration(corpus_model):
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        Model(corpus_model("modes"))
    assert caught.value.status is StatusCode.Model_MXQAndModelConfigNotMatch
    for text in ("CoreMode::Auto", "StatusCode(16)", "ConfigNotMatch"):
        assert text in str(caught.value)


# Q281 Q282 Q182
def test_identifier_and_path(tmp_path):
    name = tmp_path / "näme.mxq"
    shutil.copy(COPY64, name)
    first, second = Model(name), Model(str(name))
    assert second.get_identifier() == first.get_identifier() + 1
    assert first.get_model_path() == second.get_model_path() == str(name)
    assert Model(os.fsencode(name)).get_model_path() == str(name)


class Raising:
    def __getattribute__(self, name):
        if name == "__fspath__":
            raise LookupError("which path?")
        return super().__getattribute__(name)


def test_what_a_path_raises_is_not_lost():
    with pytest.raises(LookupError, match="which path?"):
        Model(Raising())


# Q261
def test_bad_files_are_refused(tmp_path):
    missing = tmp_path / "missing.qbm"
    with pytest.raises(qbruntime.QbModelFileError, match="No such file") as caught:
        Model(missing)
    assert caught.value.status is StatusCode.Model_FailedToLoadMXQ
    for empty in ("", b""):
        with pytest.raises(
            qbruntime.QbModelFileError, match='"": .* is empty'
        ) as caught:
            Model(empty)
        assert caught.value.status is StatusCode.Model_FailedToLoadMXQ
    other = tmp_path / "other.mxq"
    other.write_bytes(b"something else" * 100)
    with pytest.raises(qbruntime.QbModelFileError, match="qbcompile"):
        Model(other)


# Q293
def test_the_file_is_not_needed_any_more(tmp_path, acc):
    name = tmp_path / "x.qbm"
    shutil.copy(COPY64, name)
    fds = count_fds()
    model = Model(name)
    assert count_fds() == fds
    name.unlink()
    with model:
        model.launch(acc)
        model.infer_speedrun()


# Q263 Q265 Q266 Q267
def test_lifecycle(acc):
    model = Model(COPY64)
    model.dispose()
    with pytest.raises(qbruntime.QbNotAliveError) as caught:
        model.allocate_inputs()
    assert caught.value.status is StatusCode.Model_NotLaunched
    for _ in range(3):
        model.launch(acc)
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            model.launch(acc)
        assert caught.value.status is StatusCode.Model_AlreadyLaunched
        model.infer_speedrun()
        model.dispose()
        model.dispose()
        for call in (model.infer_speedrun, model.allocate_outputs):
            with pytest.raises(qbruntime.QbNotAliveError) as caught:
                call()
            assert caught.value.status is StatusCode.Model_NotAlive
    with Accelerator() as other:
        model.launch(other)
    assert model._acc is other
    model.dispose()


# Q206
def test_programs_that_probe_find_dispose_first():
    model = Model(COPY64)
    names = ["dispose", "release", "unload", "close"]
    assert [hasattr(model, name) for name in names] == [True, False, False, False]


# Q269
def test_an_undisposed_model_is_disposed_with_a_warning(acc):
    model = Model(COPY64)
    model.launch(acc)
    with pytest.warns(ResourceWarning, match="copy64.qbm was not disposed"):
        del model
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for is_launched in (False, True):
            model = Model(COPY64)
            if is_launched:
                model.launch(acc)
            model.dispose()
            del model
            gc.collect()


# Q270 Q852
def test_the_context_disposes(acc):
    with Model(COPY64) as model:
        assert isinstance(model, Model) and model.get_activation_slots() == 0
        model.launch(acc)
    assert model.get_activation_slots() == 0


# Q285
def test_copies_are_the_same_object(acc):
    model = Model(COPY64)
    assert copy.copy(model) is model and copy.deepcopy([model])[0] is model
    assert {model: 1}[model] == 1 and model == model and model != Model(COPY64)

    def annotated(model: qbruntime.Model) -> None:
        pass

    assert annotated.__annotations__["model"] is Model


def test_load_opens_and_launches():
    for model in (
        qbruntime.load(str(COPY64)),
        qbruntime.load(Path(COPY64), None),
        qbruntime.model.load(path=COPY64, model_config=None),
    ):
        gc.collect()
        model.infer_speedrun()
        assert model._acc.get_device_name() == "aries-rb"
        model.dispose()
    assert qbruntime.load is qbruntime.model.load


# Q174
def test_a_load_that_fails_leaves_nothing(tmp_path):
    fds = count_fds()
    for _ in range(3):
        with pytest.raises(qbruntime.QbModelFileError):
            qbruntime.load(tmp_path / "missing.qbm")
        gc.collect()
        assert count_fds() == fds
    child = run_child(
        """
        import sys, qbruntime
        try:
            qbruntime.load(sys.argv[1])
        except qbruntime.QbRuntimeError as error:
            print(error.status)
        """,
        COPY64,
        QBRUNTIME_SOFT_DEVICES="none",
    )
    assert child.stdout == "StatusCode.Acc_DeviceNotFound\n"
    child = run_child(
        """
        import os, sys, qbruntime
        before = os.listdir("/proc/self/fd")
        for _ in range(3):
            try:
                qbruntime.load(sys.argv[1])
            except qbruntime.QbOutOfMemoryError as error:
                print(error)
            assert os.listdir("/proc/self/fd") == before
        """,
        COPY64,
        QBRUNTIME_SOFT_MEMORY="1",
    )
    assert child.stdout.count("BadAlloc occurred. [StatusCode(39)]") == 3


def test_the_memory_estimate_is_what_a_launch_takes(acc):
    skip_if_rounded()
    for path in (COPY64, DIGITS):
        estimate = qbruntime.estimate_memory(path)
        before = acc.info().memory_free
        model = Model(path)
        model.launch(acc)
        assert before - acc.info().memory_free == estimate > 0
        model.dispose()
        assert acc.info().memory_free == before
    assert qbruntime.estimate_memory(path=str(COPY64), model_config=None) > 0


# Q787
def test_counters(launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    for _ in range(3):
        launched.infer_pinned_memory(x, y)
    counters = launched.counters()
    assert counters["submitted"] == counters["completed"] == 3
    assert counters["failed"] == counters["cancelled"] == 0
    assert counters["input_nbytes"] == counters["output_nbytes"] == 3 * 64
    assert counters["copied_nbytes"] == 0 and counters["device_time_ns"] > 0


def test_a_model_is_loaded_once():
    model = Model(COPY64)
    with pytest.raises(RuntimeError):
        model.__init__(COPY64)
    empty = Model.__new__(Model)
    assert repr(empty) == "Model(not loaded)"
    assert empty.get_input_names() == [] and empty.get_model_path() == ""
    with pytest.raises(qbruntime.QbRuntimeError):
        empty.infer_speedrun()


def test_repr(acc):
    model = Model(COPY64)
    assert repr(model) == f"Model({str(COPY64)!r})"
    model.launch(acc)
    assert repr(model) == f"Model({str(COPY64)!r}, aries-rb:0)"
    model.dispose()
