# SPDX-License-Identifier: MIT
"""ModelConfig: its deprecated forms, and what models make of one."""

import pytest
from runtime_cases import COPY64, DIGITS, skip_if_rounded

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Cluster, Core, CoreAllocationPolicy, CoreId  # noqa: E402
from qbruntime import CoreMode, Model, ModelConfig, StatusCode  # noqa: E402

C0, C1 = Cluster.Cluster0, Cluster.Cluster1
CORES = [CoreId(c, core) for c in (C0, C1) for core in list(Core)[:4]]


def call(config, name, *args):
    """A deprecated method, which says so."""
    with pytest.warns(DeprecationWarning, match=rf"^{name}\(.*set_\w+_core_mode"):
        return getattr(config, name)(*args)


# Q233
def test_global_is_global4():
    same, config = ModelConfig(), ModelConfig()
    for args in ((), ([C1],), (None,)):
        assert same.set_global4_core_mode(*args)
        assert call(config, "set_global_core_mode", *args) is True
        assert config == same and config.get_core_mode() is CoreMode.Global4
    assert call(config, "set_global_core_mode", [C0, C0]) is False


# Q246
def test_cores_are_included_and_excluded():
    config = ModelConfig()
    assert call(config, "exclude_all_cores") is True
    assert config.get_core_mode() is CoreMode.Single and config.get_core_ids() == []
    assert config.get_core_allocation_policy() is CoreAllocationPolicy.Manual
    assert call(config, "include", C1, Core.Core2) is True
    assert call(config, "include", C1, Core.Core2) is True
    assert call(config, "include", C0, Core.Core0) is True
    assert config.get_core_ids() == [CORES[6], CORES[0]]
    assert call(config, "include", C1) is True
    assert config.get_core_ids() == [CORES[6], CORES[0], CORES[4], CORES[5], CORES[7]]
    assert call(config, "exclude", C1, Core.All) is True
    assert config.get_core_ids() == [CORES[0]] and config.get_num_cores() == 1
    assert call(config, "exclude", C0, Core.Core0) is True
    assert config.get_core_ids() == []
    assert config.get_core_allocation_policy() is CoreAllocationPolicy.Manual
    assert call(config, "include_all_cores") is True
    everything = ModelConfig()
    assert everything.set_single_core_mode() and config == everything


# Q246
def test_without_a_list_all_are_excluded_from_and_none_included():
    config = ModelConfig()
    assert call(config, "exclude", C1) is True
    assert config.get_core_ids() == CORES[:4]
    assert call(config, "include", C1) is True
    everything = ModelConfig()
    assert everything.set_single_core_mode() and config == everything
    assert call(config, "include", C1, Core.Core1) is True and config == everything
    for prepare in (ModelConfig.set_auto_core_mode, ModelConfig.set_global8_core_mode):
        prepare(config)
        assert call(config, "include", C1, Core.Core1) is True
        assert config.get_core_ids() == [CORES[5]]


# Q246
def test_auto_and_manual():
    config = ModelConfig()
    assert call(config, "set_auto_mode") is True
    assert (config.get_core_mode(), config.get_num_cores()) == (CoreMode.Single, 1)
    assert call(config, "set_auto_mode", 4) is True and config.get_num_cores() == 4
    assert call(config, "set_auto_mode", 9) is False and config.get_num_cores() == 4
    everything = ModelConfig()
    assert everything.set_single_core_mode()
    assert call(config, "set_manual_mode") is True and config == everything
    config.set_single_core_mode(core_ids=CORES[3:5])
    assert call(config, "set_manual_mode") is True
    assert config.get_core_ids() == CORES[3:5]
    call(config, "exclude_all_cores")
    assert call(config, "set_manual_mode") is True and config.get_core_ids() == []
    assert config != everything


# Q246
@pytest.mark.parametrize(
    "args", [(C0, Core.GlobalCore), (C0, Core.Error), (Cluster.Error,), (0,), (C0, -1)]
)
@pytest.mark.parametrize("name", ["include", "exclude"])
def test_what_is_no_local_core_is_rejected(name, args):
    config = ModelConfig()
    assert call(config, name, *args) is False
    assert config == ModelConfig()


def test_deprecated_methods_check_types_and_heed_the_warning():
    config = ModelConfig()
    for name in ("include", "exclude"):
        for args in ((), ("a",), (C0, "a"), (C0, 1.0), (None,)):
            with pytest.raises(TypeError), pytest.warns(DeprecationWarning):
                getattr(config, name)(*args)
    with pytest.raises(TypeError):
        config.set_auto_mode("1")


# Q246
@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_a_warning_that_is_an_error_changes_nothing():
    config = ModelConfig()
    for name, *args in (
        ["include", C0],
        ["exclude", C0],
        ["include_all_cores"],
        ["exclude_all_cores"],
        ["set_auto_mode"],
        ["set_manual_mode"],
        ["set_global_core_mode", [C0]],
    ):
        with pytest.raises(DeprecationWarning):
            getattr(config, name)(*args)
    assert config == ModelConfig()


# Q246
def test_a_model_takes_no_configuration_without_a_core():
    config = ModelConfig()
    call(config, "exclude_all_cores")
    config.set_activation_slots(2)
    for function in (Model, qbruntime.load, qbruntime.estimate_memory):
        with pytest.raises(qbruntime.QbRuntimeError, match="excludes every") as caught:
            function(COPY64, config)
        assert caught.value.status is StatusCode.Model_NoTargetCores
    call(config, "include", C0)
    assert Model(COPY64, config).get_target_cores() == CORES[:4]


# Q260
def test_a_model_is_loaded_with_a_configuration(acc, corpus_model):
    path = corpus_model("modes")
    config = ModelConfig()
    for name in ("single", "multi", "global4", "global8"):
        assert getattr(config, f"set_{name}_core_mode")()
        model = Model(path, config)
        assert model.get_core_mode().name.lower() == name
        assert Model(path, model_config=config).get_core_mode() is model.get_core_mode()
    with pytest.raises(TypeError, match="a ModelConfig or None for model_config"):
        Model(path, 3)
    assert config.set_multi_core_mode()
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        Model(COPY64, config)
    assert caught.value.status is StatusCode.Model_MXQAndModelConfigNotMatch
    assert Model(COPY64, None).get_core_mode() is CoreMode.Single


# Q234
def test_a_bundle_that_the_file_lacks_is_refused():
    config = ModelConfig()
    for index in (1, 2**31 - 1, 2**40):
        assert config.force_single_npu_bundle(index) is True
        with pytest.raises(qbruntime.QbInvalidArgumentError, match="bundles is 1"):
            Model(COPY64, config)
    assert config.force_single_npu_bundle(0) and Model(COPY64, config)


# Q223 Q237 Q273
def test_the_model_has_a_copy(acc):
    config = ModelConfig()
    config.set_single_core_mode(core_ids=[CORES[6], CORES[1]])
    config.set_activation_slots(3)
    model = Model(COPY64, config)
    config.set_single_core_mode(1)
    config.set_activation_slots(5)
    other = Model(COPY64, config)
    del config
    assert model.get_target_cores() == [CORES[1], CORES[6]]
    assert other.get_target_cores() == []
    for one, cores, slots in ((model, [CORES[1], CORES[6]], 3), (other, CORES[:1], 5)):
        with one:
            one.launch(acc)
            assert one.get_target_cores() == cores
            assert one.get_activation_slots() == slots
            one.infer_speedrun()


# Q173
def test_load_takes_a_configuration():
    config = ModelConfig()
    config.set_single_core_mode(2)
    for args, names in (
        ((str(COPY64), config), {}),
        ((COPY64,), {"model_config": config}),
    ):
        with qbruntime.load(*args, **names) as model:
            assert len(model.get_target_cores()) == 2
    with qbruntime.load(COPY64, None) as model:
        assert len(model.get_target_cores()) == 8
    with pytest.raises(TypeError):
        qbruntime.load(COPY64, 1)


# Q290
def test_the_estimate_is_that_of_the_configuration(acc):
    skip_if_rounded()
    for config in (None, ModelConfig(), single(1), single(8)):
        estimate = qbruntime.estimate_memory(DIGITS, config)
        before = acc.info().memory_free
        with Model(DIGITS, config) as model:
            model.launch(acc)
            assert before - acc.info().memory_free == estimate > 0
    assert qbruntime.estimate_memory(DIGITS, model_config=single(1)) < estimate


def single(num_cores):
    config = ModelConfig()
    assert config.set_single_core_mode(num_cores)
    return config
