# SPDX-License-Identifier: MIT
"""Compatibility points: enumerations, CoreId and Scale, as programs use them."""

import pytest

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Cluster, Core, CoreId, LogLevel, Scale  # noqa: E402


# Q835
def test_numbers_that_programs_assert():
    assert [Cluster.Cluster0.value, Cluster.Cluster1.value] == [65536, 131072]
    cores = [Core.Core0, Core.Core1, Core.Core2, Core.Core3]
    assert [core.value for core in cores] == [1, 2, 3, 4]
    value = Cluster.Cluster1
    while hasattr(value, "value"):  # releases of the vendor's nested them
        value = value.value
    assert type(value) is int and value == 131072


# Q835
@pytest.mark.parametrize(
    "name", ["Cluster", "Core", "CoreMode", "DataType", "LogLevel"]
)
def test_members_are_keys_and_have_names(name):
    members = getattr(qbruntime, name)
    table = {member: member.name for member in members}
    for member in members:
        assert isinstance(member, members) and table[member] == member.name
        assert str(member) == f"{member}" == f"{name}.{member.name}"
        assert getattr(members, member.name) is member


# Q835
def test_a_core_id_is_made_both_ways():
    whole, pieces = CoreId(Cluster.Cluster0, Core.Core3), CoreId()
    pieces.cluster = Cluster.Cluster0
    pieces.core = Core.Core3
    assert whole == pieces and str(whole) == str(pieces) and len({whole, pieces}) == 1
    assert isinstance(whole, CoreId) and whole != CoreId(Cluster.Cluster1, Core.Core3)


# Q835
def test_both_spellings_of_log_levels():
    for old, new in zip("DEBUG INFO WARN ERR FATAL OFF".split(), LogLevel):
        assert getattr(LogLevel, old) is new and new.name == old.capitalize()


# Q878 Q967: what programs of the 1.5 era read
def test_a_scale_has_zero_points():
    scale = Scale(0.0, False, [0.5, 0.25])
    assert (scale.zero_point, scale.is_asymmetric) == (0, False)
    assert scale.zero_points == [0, 0]
    scale = Scale(0.5, True, [0.5], 3, True)
    assert (scale.zero_point, scale.is_asymmetric, scale.zero_points) == (3, True, [3])
