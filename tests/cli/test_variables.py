# SPDX-License-Identifier: MIT
"""doctor on variables, judged as the library does; fixes that a shell can take."""

import shlex

import cases
import pytest

VISIBLE = "QBRUNTIME_VISIBLE_DEVICES"
SOFT = "QBRUNTIME_SOFT_DEVICES"


def _checks(document, name):
    return [check for check in document["checks"] if check["id"] == name]


def _live(env, name, code=0):
    found = _checks(cases.data("doctor", "-q", env=env, code=code), name)
    return [(check["state"], check["code"]) for check in found], found


# I48: the library sees no device then, and doctor says the same
@pytest.mark.parametrize(
    "value,is_malformed",
    [
        ("aries:0", True),
        ("0x0", True),
        ("aries-rb:0x0", True),
        ("aries-rb:0:0", True),
        ("0,", True),
        (",", True),
        ("0 0", True),
        ("-0", True),
        ("2147483648", True),
        ("99999999999999999999", True),
        (",".join(map(str, range(257))), True),
        (",".join(map(str, range(256))), False),
        ("00", False),
        (" 0 ,\taries-rb:0", False),
        ("ARIES-RB:00", False),
    ],
)
@cases.one_library
def test_malformed_is_what_the_library_calls_so(value, is_malformed):
    env = {SOFT: "aries", VISIBLE: value}
    assert bool(cases.data("list", "-q", env=env)["devices"]) != is_malformed
    seen, found = _live(env, "visibility", 3 if is_malformed else 0)
    assert (("fail", "E-VIS-1") in seen) == is_malformed
    if is_malformed:
        assert found[0]["fix"] == f"unset {VISIBLE}"


# I48: so is it with software devices
@pytest.mark.parametrize(
    "value,is_malformed",
    [
        ("aries:0", True),
        ("aries:17", True),
        ("aries:1:1", True),
        ("first", True),
        ("aries,", True),
        ("none,aries", True),
        (",".join(["aries:16"] * 9), True),
        ("aries:016", False),
        (" Aries , regulus-rb-usb:2", False),
    ],
)
@cases.one_library
def test_malformed_software_devices_are_told(value, is_malformed):
    env = {SOFT: value}
    assert bool(cases.data("list", "-q", env=env)["devices"]) != is_malformed
    seen, found = _live(env, "visibility")
    assert (("warn", "E-VIS-6") in seen) == is_malformed
    if is_malformed:
        assert seen == [("warn", "E-VIS-6")] and found[0]["fix"] == f"unset {SOFT}"


# I48: nothing is hidden where nothing is
@pytest.mark.parametrize("value", ["none", ""])
@cases.one_library
def test_no_device_is_hidden_where_there_is_none(tree, value):
    seen, _ = _live({SOFT: value, VISIBLE: "0"}, "visibility")
    assert seen == [("ok", None)]
    root = tree("bare", f"env = {SOFT}={value}\\n{VISIBLE}=0")
    found = _checks(cases.data("doctor", "--sysroot", root), "visibility")
    assert [check["state"] for check in found] == ["ok"]


# I48
@pytest.mark.parametrize(
    "value,fix",
    [
        ("0, 1", f"export {VISIBLE}='0, 1'"),
        ("aries-rb:0", f"export {VISIBLE}=aries-rb:0"),
        ("0; rm -rf ~", "unset MBLT_VISIBLE_DEVICES"),
        ("$(id)", "unset MBLT_VISIBLE_DEVICES"),
        ("", "unset MBLT_VISIBLE_DEVICES"),
    ],
)
def test_only_a_value_that_works_is_proposed(tree, value, fix):
    root = tree("soft", f"env = MBLT_VISIBLE_DEVICES={value}")
    found = _checks(cases.data("doctor", "--sysroot", root), "visibility")
    assert [check["fix"] for check in found] == [fix]


# I48: names of groups are the captured system's
@pytest.mark.parametrize("group", ["x; rm -rf ~", "$(id)", "it's", "`id`"])
def test_words_of_a_fix_are_quoted(tree, group):
    root = tree(
        "one-aries",
        "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
        'replies/dev-accel-accel7.json = {"open": -13, "node": '
        f'{{"mode": 432, "owner": "root", "group": "{group}"}}}}',
    )
    found = _checks(cases.data("doctor", "--sysroot", root, code=4), "permission")
    words = shlex.split(found[0]["fix"].split(", then")[0])
    assert words == ["sudo", "usermod", "-aG", group, "user1"]


# I48: of several that are set, the one that the sentence is about
@pytest.mark.parametrize(
    "name,value",
    [("QBRUNTIME_SOFT_FAULT", "infer#1"), ("QBRUNTIME_SOFT_MEMORY", "1K")],
)
@cases.one_library
def test_the_variable_of_the_sentence_is_named(name, value):
    env = {"QBRUNTIME_SOFT_BACKEND": "ref", name: value}
    _, found = _live(env, "software", 10)
    assert found[0]["code"] == "E-SOFT-1"
    assert found[0]["fix"] == f"unset {name}"
