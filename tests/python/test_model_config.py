# SPDX-License-Identifier: MIT
"""ModelConfig: setters and what they answer, getters, and as a value."""

import copy
import pickle

import pytest
from runtime_cases import run_child

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Cluster, Core, CoreAllocationPolicy, CoreId  # noqa: E402
from qbruntime import CoreMode, ModelConfig  # noqa: E402

C0, C1 = Cluster.Cluster0, Cluster.Cluster1
FIRST, LAST = CoreId(C0, Core.Core0), CoreId(C1, Core.Core3)


def described(config):
    """Mode, policy, number, cores and clusters."""
    return (
        config.get_core_mode(),
        config.get_core_allocation_policy(),
        config.get_num_cores(),
        config.get_core_ids(),
        config.get_clusters(),
    )


ALL = (CoreMode.Single, CoreAllocationPolicy.Auto, 0, [], [])


def listed(*core_ids):
    policy = CoreAllocationPolicy.Manual
    return (CoreMode.Single, policy, len(core_ids), list(core_ids), [])


# Q221 Q235 Q242 Q245
def test_the_defaults():
    config = ModelConfig()
    assert described(config) == (CoreMode.Auto, CoreAllocationPolicy.Auto, 0, [], [])
    assert config.get_core_mode() is CoreMode.Auto
    assert config.get_forced_npu_bundle_index() == -1
    assert config.get_async_pipeline_enabled() is False
    assert config.get_activation_slots() == 0


# Q220
def test_the_constructor_takes_a_number_of_cores():
    for config in (ModelConfig(None), ModelConfig(num_cores=None)):
        assert config == ModelConfig()
    same = ModelConfig()
    assert same.set_single_core_mode(3)
    with pytest.warns(DeprecationWarning, match="set_single_core_mode"):
        assert ModelConfig(3) == same
    with pytest.warns(DeprecationWarning):
        assert ModelConfig(num_cores=3) == same
    for bad in (0, -1, 9, 2**70):
        with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="1 to"):
            ModelConfig(bad)
    for bad in ("1", 1.0, True, [FIRST]):
        with pytest.warns(DeprecationWarning), pytest.raises(TypeError):
            ModelConfig(bad)


# Q222
def test_setters_of_the_mode_answer_a_bool():
    config = ModelConfig()
    for name in ("auto", "single", "multi", "global4", "global8"):
        setter = getattr(config, f"set_{name}_core_mode")
        assert setter() is True
        assert config.get_core_mode().name.lower() == name
    assert config.force_single_npu_bundle(0) is True
    assert config.get_forced_npu_bundle_index() == 0
    assert config.force_single_npu_bundle(npu_bundle_index=2**40) is True
    assert config.force_single_npu_bundle(-1) is True
    assert config.get_forced_npu_bundle_index() == -1


# Q227 Q226 Q237 Q238 Q239
@pytest.mark.parametrize(
    "args, names, expected",
    [
        ((1,), {}, (CoreMode.Single, CoreAllocationPolicy.Auto, 1, [], [])),
        ((), {"num_cores": 8}, (CoreMode.Single, CoreAllocationPolicy.Auto, 8, [], [])),
        ((2, []), {}, (CoreMode.Single, CoreAllocationPolicy.Auto, 2, [], [])),
        ((None, [LAST, FIRST]), {}, listed(LAST, FIRST)),
        ((), {"core_ids": (FIRST,)}, listed(FIRST)),
        ((), {}, ALL),
        ((None, []), {}, ALL),
        ((), {"num_cores": None, "core_ids": None}, ALL),
    ],
)
def test_forms_of_single(args, names, expected):
    config = ModelConfig()
    assert config.set_multi_core_mode([C1]) is True
    assert config.set_single_core_mode(*args, **names) is True
    assert described(config) == expected


# Q228
def test_a_number_and_a_list_are_too_much():
    config = ModelConfig()
    for args in ((1, [FIRST]), (0, [FIRST])):
        with pytest.raises(ValueError, match="got both"):
            config.set_single_core_mode(*args)
    assert config == ModelConfig()


# Q230 Q231 Q236 Q240
@pytest.mark.parametrize("name", ["multi", "global4"])
def test_cluster_modes(name):
    config = ModelConfig()
    setter = getattr(config, f"set_{name}_core_mode")
    for clusters in ([C1], (C1, C0), [65536]):
        assert setter(clusters) is True
        assert config.get_clusters() == list(clusters)
        assert all(type(cluster) is Cluster for cluster in config.get_clusters())
    for args in ((), (None,), ([],)):
        assert setter([C0]) and setter(*args) is True
        assert config.get_clusters() == []
    assert setter(clusters=[C0]) is True


REJECTED = {
    "none": lambda config: config.set_single_core_mode(0),
    "negative": lambda config: config.set_single_core_mode(num_cores=-(2**70)),
    "nine": lambda config: config.set_single_core_mode(9),
    "twice": lambda config: config.set_single_core_mode(None, [FIRST, LAST, FIRST]),
    "nine listed": lambda config: config.set_single_core_mode(core_ids=[FIRST] * 9),
    "global": lambda config: config.set_single_core_mode(
        core_ids=[CoreId(C0, Core.GlobalCore)]
    ),
    "all": lambda config: config.set_single_core_mode(core_ids=[CoreId(C0, Core.All)]),
    "error": lambda config: config.set_single_core_mode(core_ids=[CoreId()]),
    "clusters twice": lambda config: config.set_multi_core_mode([C0, C0]),
    "cluster error": lambda config: config.set_global4_core_mode([Cluster.Error]),
    "no cluster": lambda config: config.set_global4_core_mode([2**80]),
    "bundle": lambda config: config.force_single_npu_bundle(-2),
    "far below": lambda config: config.force_single_npu_bundle(-(2**70)),
}


# Q222 Q229 Q234
@pytest.mark.parametrize("name", REJECTED)
def test_what_is_rejected_is_false_and_changes_nothing(name):
    config = ModelConfig()
    assert config.set_single_core_mode(core_ids=[LAST]) is True
    before = copy.copy(config)
    assert REJECTED[name](config) is False
    assert config == before


# Q222
def test_the_reason_of_a_false_is_logged():
    child = run_child(
        """
        import qbruntime
        config = qbruntime.ModelConfig()
        for number in (0, 9):
            assert config.set_single_core_mode(number) is False
        assert config.set_single_core_mode(8)
        """
    )
    first, second = child.stderr.splitlines()
    assert "num_cores is below 1" in first and "num_cores is 9" in second


def test_wrong_types_raise():
    config = ModelConfig()
    for args in (("1",), (1.5,), (True,), (None, FIRST), (None, "ab"), (None, [1])):
        with pytest.raises(TypeError):
            config.set_single_core_mode(*args)
    for clusters in (C0, "ab", [1.5], [True], [None], {C0}):
        with pytest.raises(TypeError):
            config.set_multi_core_mode(clusters)
    for bad in (None, 0, 1, "yes"):
        with pytest.raises(TypeError, match="enable is a bool, got"):
            config.set_async_pipeline_enabled(bad)
    for bad in ("0", 0.0, None, False):
        with pytest.raises(TypeError):
            config.force_single_npu_bundle(bad)
    assert config == ModelConfig()


# Q241 Q242
def test_the_async_pipeline():
    config = ModelConfig()
    assert config.set_async_pipeline_enabled(True) is None
    assert config.get_async_pipeline_enabled() is True
    assert config.set_single_core_mode(1) and config.get_async_pipeline_enabled()
    assert config.set_async_pipeline_enabled(enable=False) is None
    assert config.get_async_pipeline_enabled() is False


# Q243 Q245
def test_activation_slots():
    config = ModelConfig()
    for count in (1, 64):
        assert config.set_activation_slots(count) is None
        assert config.get_activation_slots() == count
    for bad in (0, 65, -1, 2**70):
        with pytest.raises(ValueError, match="count is -?[0-9]+, expected 1 to 64"):
            config.set_activation_slots(bad)
    with pytest.raises(TypeError):
        config.set_activation_slots("2")
    assert config.get_activation_slots() == 64


def test_lists_are_fresh():
    config = ModelConfig()
    given = [LAST]
    config.set_single_core_mode(core_ids=given)
    given.append(FIRST)
    config.get_core_ids().append(FIRST)
    assert config.get_core_ids() == [LAST]


def settings():
    """Configurations that differ in one setting each."""
    calls = [
        ("set_single_core_mode", ()),
        ("set_single_core_mode", (2,)),
        ("set_single_core_mode", (None, [FIRST, LAST])),
        ("set_single_core_mode", (None, [LAST, FIRST])),
        ("set_multi_core_mode", ()),
        ("set_multi_core_mode", ([C1],)),
        ("set_global4_core_mode", ([C1, C0],)),
        ("set_global8_core_mode", ()),
        ("force_single_npu_bundle", (0,)),
        ("set_async_pipeline_enabled", (True,)),
        ("set_activation_slots", (3,)),
    ]
    configs = [ModelConfig()]
    for name, args in calls:
        configs.append(ModelConfig())
        assert getattr(configs[-1], name)(*args) in (True, None)
    with pytest.warns(DeprecationWarning):
        configs.append(ModelConfig())
        assert configs[-1].exclude_all_cores()
    return configs


class Named(ModelConfig):
    pass


# Q223
def test_copies_and_pickles_are_equal_and_independent():
    configs = settings()
    for number, config in enumerate(configs):
        assert [config == other for other in configs].index(True) == number
        assert sum(config == other for other in configs) == 1
        for same in (
            copy.copy(config),
            copy.deepcopy(config),
            pickle.loads(pickle.dumps(config)),
        ):
            assert same == config and same is not config and not same != config
            assert repr(same) == repr(config)
            same.set_activation_slots(9)
            assert same != config
    assert ModelConfig() != 1 and not ModelConfig() == "x"
    with pytest.raises(TypeError):
        hash(ModelConfig())
    named = Named()
    named.name = ["a"]
    assert copy.copy(named).name is named.name and type(copy.copy(named)) is Named


def test_a_state_of_something_else_is_refused():
    config = ModelConfig()
    for bad in ([], (), (77, 0, [], [], -1, False, 0, 0, None)):
        with pytest.raises((TypeError, ValueError)):
            config.__setstate__(bad)
    good = ModelConfig().__reduce__()[2]
    with pytest.raises(TypeError, match="a dict of attributes"):
        config.__setstate__((*good[:-1], 5))


# Q248
def test_repr_lists_the_settings():
    config = ModelConfig()
    config.set_single_core_mode(core_ids=[LAST])
    assert repr(config) == (
        "ModelConfig(core_mode=CoreMode.Single, "
        "core_allocation_policy=CoreAllocationPolicy.Manual, "
        "core_ids=[CoreId(cluster=Cluster.Cluster1, core=Core.Core3)], num_cores=1, "
        "clusters=[], forced_npu_bundle_index=-1, async_pipeline_enabled=False, "
        "activation_slots=0)"
    )
    assert len({repr(config) for config in settings()}) == len(settings())


class Raises(ModelConfig):
    def __getstate__(self):
        raise LookupError("mine")


class RaisesLater(ModelConfig):
    def get_clusters(self):
        raise LookupError("mine")


@pytest.mark.parametrize("kind", (Raises, RaisesLater))
def test_what_a_subclass_raises_is_not_lost(kind):
    with pytest.raises(LookupError, match="mine"):
        pickle.dumps(kind())
