# SPDX-License-Identifier: MIT
"""Enumerations and value types."""

import copy
import enum
import pickle

import pytest
from runtime_cases import enumerators

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import BufferInfo, CacheInfo, Core, CoreId, Cluster  # noqa: E402
from qbruntime import CoreMode, DataType, LogLevel, Scale, StatusCode  # noqa: E402

ENUMS = {
    # Q560
    "Cluster": {"Cluster0": 65536, "Cluster1": 131072, "Error": 0x7FFF0000},
    # Q561
    "Core": {
        "Core0": 1,
        "Core1": 2,
        "Core2": 3,
        "Core3": 4,
        "All": 0xFFFC,
        "GlobalCore": 0xFFFE,
        "Error": 0xFFFF,
    },
    # Q562 Q872
    "CoreMode": {
        "Single": 0,
        "Multi": 1,
        "Global": 2,
        "Global4": 3,
        "Global8": 4,
        "Auto": 5,
        "Error": 15,
    },
    # Q563
    "CoreAllocationPolicy": {"Auto": 0, "Manual": 1},
    # Q564
    "CacheType": {"Default": 0, "Batch": 1, "Error": 15},
    # Q565 Q873
    "DataType": {
        "Float32": 0,
        "Uint8": 1,
        "Int8": 2,
        "Float16": 3,
        "Int16": 4,
        "Uint16": 5,
        "Int32": 6,
        "Uint32": 7,
        "Int64": 8,
        "Uint64": 9,
        "Float64": 10,
        "Bool": 11,
        "BFloat16": 12,
        "Error": 15,
    },
    # Q566
    "LogLevel": {"Debug": 1, "Info": 2, "Warn": 3, "Err": 4, "Fatal": 5, "Off": 6},
}
C_PREFIX = {"CoreAllocationPolicy": "QBRT_CORE_POLICY_", "DataType": "QBRT_DTYPE_"}


def upper_snake(name):
    """As the specification turns the name of a status into an enumerator."""
    text = ""
    for i, letter in enumerate(name):
        before, after = name[i - 1 : i], name[i + 1 : i + 2]
        if letter.isupper() and before.isalpha():
            text += "_" * (before.islower() or after.islower())
        text += letter.upper()
    return text


@pytest.mark.parametrize("name", ENUMS)
def test_members_and_values(name):
    members = getattr(qbruntime, name)
    assert {member.name: member.value for member in members} == ENUMS[name]


# Q570 Q571 Q572
@pytest.mark.parametrize("name", [*ENUMS, "StatusCode"])
def test_members_are_ints_with_a_text_of_their_own(name):
    members = getattr(qbruntime, name)
    assert issubclass(members, enum.IntEnum)
    for member in members:
        assert getattr(members, member.name) is member
        assert isinstance(member, members) and {member: 1}[member] == 1
        assert type(member.value) is int and int(member) == member.value
        assert str(member) == repr(member) == f"{name}.{member.name}"
        assert f"{member}" == str(member) and f"{member:d}" == str(member.value)
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member


# Q566
def test_log_levels_have_two_spellings():
    for level in LogLevel:
        assert LogLevel[level.name.upper()] is level


# Q573
def test_the_known_trap_of_core_ids_as_text():
    core = CoreId(Cluster.Cluster0, Core.Core0)
    assert f"{core.cluster.value}:{core.core.value}" == "65536:1"


def test_enumerations_are_those_of_the_header():
    for name, members in ENUMS.items():
        prefix = C_PREFIX.get(name, f"QBRT_{upper_snake(name)}_")
        theirs = enumerators(prefix)
        if name == "Core":
            theirs = {
                key: value
                for key, value in theirs.items()
                if not key.startswith(
                    ("QBRT_CORE_ACTIVITY", "QBRT_CORE_MODE", "QBRT_CORE_POLICY")
                )
            }
        assert sorted(theirs.values()) == sorted(members.values()), name


# Q568
def test_status_codes_are_those_of_the_header():
    theirs = enumerators("QBRT_")
    for code in StatusCode:
        assert theirs["QBRT_" + upper_snake(code.name)] == code.value
    own = [value for value in theirs.values() if 1000 <= value < 2000]
    assert sorted(own) == [code.value for code in StatusCode if code.value >= 1000]
    assert [c.value for c in StatusCode if c.value < 1000] == [
        *range(31),
        *range(32, 66),
    ]


# Q533
def test_core_ids_are_made_whole_or_piece_by_piece():
    core = CoreId(Cluster.Cluster1, Core.Core2)
    other = CoreId()
    assert (other.cluster, other.core) == (Cluster.Error, Core.Error)
    other.cluster = Cluster.Cluster1
    assert core != other
    other.core = Core.Core2
    assert core == other and str(core) == str(other) == repr(core)
    assert str(core) == "CoreId(cluster=Cluster.Cluster1, core=Core.Core2)"
    assert CoreId(Cluster.Cluster0, Core.Core3) < core
    assert sorted([core, CoreId(65536, 2), CoreId(65536, 1)])[0].core is Core.Core0
    assert core != (Cluster.Cluster1, Core.Core2) and isinstance(core, CoreId)


# Q534
def test_core_ids_hash_by_value_and_hold_members():
    core = CoreId(65536, core=1)
    assert core.cluster is Cluster.Cluster0 and core.core is Core.Core0
    assert {core: "x"}[CoreId(Cluster.Cluster0, Core.Core0)] == "x"
    for bad in ((0, 1), (65536, 9), (2**70, 1)):
        with pytest.raises(ValueError):
            CoreId(*bad)
    for bad in (("a", 1), (65536, True), (65536.0, 1), (None, None)):
        with pytest.raises(TypeError, match="(cluster|core) is a C.* or an int, got"):
            CoreId(*bad)


# Q535 Q536
def test_scales():
    scale = Scale(0.5, True, [0.5], 3, True)
    assert (scale.scale, scale.is_uniform, scale.scale_list) == (0.5, True, [0.5])
    assert scale[0] == scale[7] == 0.5
    assert (scale.zero_point, scale.is_asymmetric) == (3, True)
    assert scale.zero_points == [3]
    each = Scale(0.0, False, [0.5, 0.25])
    assert each.scale == 0.0 and each[1] == 0.25
    assert (each.zero_point, each.zero_points) == (0, [0, 0])
    assert not each.is_asymmetric
    assert repr(Scale(1, False, (2, 3))) == (
        "Scale(scale=1.0, is_uniform=False, scale_list=[2.0, 3.0], "
        "zero_point=0, is_asymmetric=False)"
    )


# Q538 Q539
def test_buffer_infos():
    info = BufferInfo(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    assert (info.original_height, info.reshaped_width, info.channel) == (1, 5, 9)
    assert (info.max_height, info.max_cache_size) == (10, 13)
    assert info.original_shape() == (1, 2, 3) and info.original_size() == 6
    assert info.original_shape_chw() == (3, 1, 2)
    assert info.reshaped_shape() == (4, 5, 6) and info.reshaped_size() == 120
    assert info.reshaped_shape_chw() == (6, 4, 5)
    assert info.shape() == (7, 8, 9) and info.size() == 504
    assert info.shape_chw() == (9, 7, 8)
    assert type(info.shape()) is tuple


@pytest.mark.parametrize(
    "value",
    [
        CoreId(Cluster.Cluster0, Core.Core1),
        Scale(0.0, False, [1.0, 2.0], 1, True),
        BufferInfo(*range(13)),
        CacheInfo(qbruntime.CacheType.Batch, "k", "00", 64, 2),
        qbruntime.DeviceInfo(*range(32)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_compared_copied_pickled_and_shown(value):
    for same in (copy.copy(value), copy.deepcopy(value)):
        assert same == value and type(same) is type(value)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert repr(value).startswith(type(value).__name__ + "(")


def test_texts_that_programs_look_for():
    assert str(DataType.Uint8) == "DataType.Uint8"
    assert "float16" in str(DataType.Float16).lower()
    assert str(CoreMode.Auto) == "CoreMode.Auto"
