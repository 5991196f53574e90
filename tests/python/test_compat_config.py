# SPDX-License-Identifier: MIT
"""Compatibility point: what programs rely on of ModelConfig."""

import pytest
from runtime_cases import COPY64

qbruntime = pytest.importorskip("qbruntime")


# Q834
def test_the_default_is_auto_with_no_cores_named():
    config = qbruntime.ModelConfig()
    assert str(config.get_core_mode()) == "CoreMode.Auto"
    assert config.get_num_cores() == 0 and config.get_core_ids() == []


CORE_IDS = [
    qbruntime.CoreId(qbruntime.Cluster.Cluster0, qbruntime.Core.Core1),
    qbruntime.CoreId(qbruntime.Cluster.Cluster1, qbruntime.Core.Core0),
]


# Q834
@pytest.mark.parametrize(
    "args, names, num_cores",
    [
        ((), {}, 8),
        ((1,), {}, 1),
        ((), {"num_cores": 3}, 3),
        ((None, []), {}, 8),
        ((None, CORE_IDS), {}, 2),
        ((), {"core_ids": CORE_IDS}, 2),
    ],
)
def test_forms_of_single_are_accepted_and_run(args, names, num_cores):
    config = qbruntime.ModelConfig()
    # as programs test it
    if config.set_single_core_mode(*args, **names) is False:
        pytest.fail("rejected")
    model = qbruntime.Model(str(COPY64), config)
    model.launch(qbruntime.Accelerator())
    try:
        cores = model.get_target_cores()
        assert len(cores) == num_cores
        if num_cores == 2:
            assert [str(core) for core in cores] == [str(core) for core in CORE_IDS]
        model.infer_speedrun()
    finally:
        model.dispose()


# Q834
def test_every_setter_of_the_mode_answers_true_or_false():
    config = qbruntime.ModelConfig()
    clusters = [qbruntime.Cluster.Cluster0]
    for answer in (
        config.set_auto_core_mode(),
        config.set_multi_core_mode(),
        config.set_multi_core_mode(clusters),
        config.set_global4_core_mode(clusters),
        config.set_global8_core_mode(),
        config.force_single_npu_bundle(-1),
        config.set_single_core_mode(None, []),
    ):
        assert answer is True
    for answer in (
        config.set_single_core_mode(0),
        config.set_multi_core_mode(clusters * 2),
        config.force_single_npu_bundle(-2),
    ):
        assert answer is False
    assert str(config.get_core_mode()) == "CoreMode.Single"


# Q876
def test_single_without_arguments_is_all_local_cores_of_the_device(acc):
    config = qbruntime.ModelConfig()
    assert config.set_single_core_mode() and config.get_num_cores() == 0
    assert str(config.get_core_mode()) == "CoreMode.Single"
    with qbruntime.Model(COPY64, config) as model:
        model.launch(acc)
        assert model.get_target_cores() == acc.get_available_cores()
