# SPDX-License-Identifier: MIT
"""Names of the vendor's that are not offered: each raises, and says what to do."""

import importlib
import inspect

import pytest
from runtime_cases import COPY64

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Model, ModelConfig  # noqa: E402

# Q543 Q567: enumerations and a class
MODULE = {
    "LatencySet": "nothing replaces it",
    "LatencySetPolicy": "nothing replaces it",
    "MaintenancePolicy": "nothing replaces it",
    "SchedulePolicy": "nothing replaces it",
}
# Q284
MODEL = {
    "get_latency_consumed": r"use counters\(\)",
    "get_latency_finished": r"use counters\(\)",
    "get_latency_set_policy": "nothing replaces it",
    "get_maintenance_policy": "nothing replaces it",
    "get_schedule_policy": "nothing replaces it",
    "reset_cache_memory": "use cache_size=0",
}
# Q247
MODEL_CONFIG = {
    "early_latencies": "nothing replaces it",
    "finish_latencies": "nothing replaces it",
    "latency_set_policy": "nothing replaces it",
    "maintenance_policy": "nothing replaces it",
    "schedule_policy": "nothing replaces it",
}


# Q015
def test_the_package_has_the_table():
    refused = importlib.import_module("qbruntime._refused")
    assert set(refused.MODULE) == set(MODULE)
    assert set(refused.MODEL) == set(MODEL)
    assert set(refused.MODEL_CONFIG) == set(MODEL_CONFIG)


# Q015 Q543 Q567
@pytest.mark.parametrize("module", ["qbruntime", "qbruntime.type"])
@pytest.mark.parametrize("name", MODULE)
def test_a_name_of_a_module_raises_when_it_is_read(module, name):
    owner = importlib.import_module(module)
    with pytest.raises(AttributeError, match=f"^{module} has no {name}: .*") as caught:
        getattr(owner, name)
    assert caught.match(MODULE[name]) and caught.value.name == name
    assert not hasattr(owner, name) and name not in dir(owner)
    with pytest.raises(ImportError, match=name):
        exec(f"from {module} import {name}")


# Q015 Q284
@pytest.mark.parametrize("name", MODEL)
def test_a_name_of_a_model_raises_when_it_is_read(name):
    model = Model(COPY64)
    for owner in (model, Model):
        with pytest.raises(AttributeError, match=f"^Model has no {name}: ") as caught:
            getattr(owner, name)
        assert caught.match(MODEL[name]) and not hasattr(owner, name)


class Sub(ModelConfig):
    pass


# Q015 Q247
@pytest.mark.parametrize("name", MODEL_CONFIG)
def test_a_name_of_a_configuration_raises_when_it_is_read_or_assigned(name):
    for config in (ModelConfig(), Sub()):
        text = f"^ModelConfig has no {name}: "
        with pytest.raises(AttributeError, match=text) as caught:
            getattr(config, name)
        assert caught.match(MODEL_CONFIG[name])
        with pytest.raises(AttributeError, match=text):
            setattr(config, name, 1)
        assert not hasattr(config, name) and config == ModelConfig()


def test_another_name_is_unknown_as_ever():
    for module in ("qbruntime", "qbruntime.type"):
        owner = importlib.import_module(module)
        with pytest.raises(AttributeError, match="has no attribute 'Policy'"):
            owner.Policy
    with pytest.raises(AttributeError, match="no attribute 'policy'"):
        ModelConfig().policy = 1


def test_tools_that_list_members_are_not_disturbed():
    for cls in (Model, ModelConfig):
        names = {name for name, _ in inspect.getmembers(cls)}
        assert {"get_core_mode", "get_activation_slots"} <= names
        assert inspect.getdoc(cls)
