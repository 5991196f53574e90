# SPDX-License-Identifier: MIT
"""Recorded JSON, a member at a time: absent, invalid or a value (I82, I84)."""

import json

import cases
import pytest

NODE = "/dev/accel/accel0"
NAME = "replies/dev-accel-accel0.json"
LARGE = 10**30


@pytest.fixture
def shown(tree, validate):
    """show of one-aries with its reply changed; why its null members are null."""
    root = tree("one-aries")
    reply = json.loads((root / NAME).read_text())

    def show(change):
        changed = json.loads(json.dumps(reply))
        change(changed)
        (root / NAME).write_text(json.dumps(changed))
        document = cases.data("show", "--sysroot", root)
        validate(document)
        why = {line["path"]: line["reason"] for line in document["unavailable"]}
        return document, why

    return show


def _find(document, path):
    value = document["devices"][0]
    for name in path.split("."):
        value = value[name]
    return value


DEVICE = {
    "state": "state",
    "clusters": "cores.clusters",
    "max_jobs": "caps.max_jobs",
    "core_modes": "caps.core_modes",
    "features": "caps.memfd_export",
    "isa_features": "caps.isa_features",
    "isa_minor": "caps.isa_version",
    "profile": "family",
    "kind": "kind",
}


# I82, I84
@pytest.mark.parametrize("member", DEVICE)
@pytest.mark.parametrize(
    "value", ["four", -1, -(2**63) - 1, 2**64, LARGE, 2.5, True]
)
def test_no_member_is_bent_to_a_value(shown, member, value):
    path = DEVICE[member]

    def change(reply):
        reply["query"]["DEVICE"][member] = value

    document, why = shown(change)
    assert _find(document, path) is None
    assert why[f"devices[0].{path}"] == "invalid"


# I82
@pytest.mark.parametrize("words", [["summary"], ["list"], ["caps"], ["doctor"]])
def test_a_device_of_no_kind_stops_nothing(tree, words):
    root = tree("one-aries")
    reply = json.loads((root / NAME).read_text())
    reply["query"]["DEVICE"]["kind"] = "x"
    (root / NAME).write_text(json.dumps(reply))
    assert cases.text(*words, "--sysroot", root)


# I84
@pytest.mark.parametrize("value", [4, 2**32, 2**32 + 1, 2**64 - 1])
def test_a_state_is_one_of_four(shown, value):
    document, why = shown(lambda reply: reply["query"]["DEVICE"].update(state=value))
    assert document["devices"][0]["state"] is None
    assert why["devices[0].state"] == "invalid"


MEMORY = [
    (0, "total", "device_used_bytes"),
    (0, "free", "device_used_bytes"),
    (0, "region", "device_total_bytes"),
    (1, "total", "pinned_limit_bytes"),
    (1, "client_limit", "pinned_limit_bytes"),
    (1, "flags", "pinned_limit_bytes"),
    (1, "region", "pinned_limit_bytes"),
]


# I82, I84
@pytest.mark.parametrize("region,member,field", MEMORY)
@pytest.mark.parametrize("value", ["x", -5, LARGE, None])
def test_memory_is_made_of_sound_members_alone(shown, region, member, field, value):
    def change(reply):
        memory = reply["query"]["MEMORY"][region]
        if value is None:
            del memory[member]
        else:
            memory[member] = value

    document, why = shown(change)
    assert document["devices"][0]["memory"][field] is None
    if value is not None:
        assert why[f"devices[0].memory.{field}"] == "invalid"


# I84
def test_more_free_memory_than_there_is_gives_no_use(shown):
    def change(reply):
        reply["query"]["MEMORY"][0]["free"] = 2**63

    document, why = shown(change)
    assert document["devices"][0]["memory"]["device_used_bytes"] is None
    assert why["devices[0].memory.device_used_bytes"] == "invalid"


# I84
@pytest.mark.parametrize(
    "value", ["x", 1, 5, -4096, -(2**31), -(2**40), -LARGE, 0.5]
)
def test_what_open_cannot_have_said_is_an_error(tree, value):
    root = tree("one-aries")
    reply = json.loads((root / NAME).read_text())
    reply["open"] = value
    (root / NAME).write_text(json.dumps(reply))
    document = cases.data("--sysroot", root)
    assert [line["text"] for line in document["warnings"]] == [
        f"{NODE}: it cannot be opened: Input/output error"
    ]


# I84
@pytest.mark.parametrize("member", ["major", "minor", "patchlevel"])
@pytest.mark.parametrize("value", ["1", -1, 2**32 + 1, 2**64 + 1, None])
def test_a_version_is_three_numbers(tree, member, value):
    root = tree("mixed")
    for path in (root / NAME, root / "replies/dev-dri-renderD128.json"):
        reply = json.loads(path.read_text())
        reply["version"][member] = value
        path.write_text(json.dumps(reply))
    document = cases.data("--sysroot", root)
    assert document["devices"] == [] and document["driver"]["version"] is None
    assert document["drm_nodes"][0]["version"] is None


# I84
def test_a_reading_of_no_id_is_none(shown):
    def change(reply):
        reply["query"]["SENSORS"] = [
            {"id": 2**32 + 1, "index": 0, "value": 1},
            {"id": 7, "index": 2**32, "value": 1},
            {"id": 4, "index": 0, "value": -1},
        ]
        reply["query"]["EVENTS"][1]["kind"] = "lost"

    document, why = shown(change)
    device = document["devices"][0]
    assert device["temperature"]["celsius"] is None
    assert device["power"]["watts"] is None
    assert device["clocks"]["npu_hz"] is None
    assert why["devices[0].clocks.npu_hz"] == "invalid"
    assert why["devices[0].errors.last_text"] == "invalid"


# I82
@pytest.mark.parametrize("text", ["[]", "5", "null", "true", '{"open": 0, "query": 1}'])
def test_a_reply_that_is_no_object_is_no_device(tree, text):
    root = tree("one-aries")
    (root / NAME).write_text(text)
    document = cases.data("--sysroot", root)
    assert document["devices"] == [] and len(document["warnings"]) == 1


LISTED = """[
  {"id": "a:0", "name": "a", "number": -3, "power": {"watts": NaN, "volts": 1e999},
   "temperature": {"celsius": -Infinity}, "cores": {"clusters": 18446744073709551616,
   "local_per_cluster": 18446744073709551615},
   "counters": {"submitted": 18446744073709551615, "completed": 18446744073709551615,
   "failed": 1}},
  7
]"""


# I82, I84
def test_listed_devices_have_sound_numbers_alone(tree):
    root = tree("soft")
    (root / "devices.json").write_text(LISTED)
    document = cases.data("show", "--sysroot", root)
    why = {line["path"]: line["reason"] for line in document["unavailable"]}
    assert [device["id"] for device in document["devices"]] == ["a:0"]
    for path in (
        "number",
        "power.watts",
        "power.volts",
        "temperature.celsius",
        "cores.clusters",
    ):
        assert _find(document, path) is None
        assert why[f"devices[0].{path}"] == "invalid"
    assert _find(document, "cores.local_per_cluster") == 2**64 - 1
    # the sum of jobs does not go round, and without those cancelled none fly
    assert _find(document, "queue.in_flight") is None
    assert _find(document, "queue.mean_run_ns") is None
    warnings = cases.data("--sysroot", root)["warnings"]
    assert "entries are no objects" in warnings[0]["text"]


VERSION = '"version": {"name": "qbnpu", "major": 1, "minor": 0, "patchlevel": 0}'


# I48, I54
@pytest.mark.parametrize(
    "text",
    [
        None,
        '{"open": 0}',
        "junk",
        '{"open": -110}',
        f'{{"open": 0, {VERSION}}}',
        f'{{"open": 0, {VERSION}, "query": {{"DEVICE": []}}}}',
    ],
)
def test_a_node_that_does_not_answer_is_a_failure(tree, text):
    root = tree("one-aries")
    (root / NAME).unlink()
    if text:
        (root / NAME).write_text(text)
    document = cases.data("doctor", "--sysroot", root, code=3)
    check = document["checks"][0]
    assert (check["id"], check["state"], check["code"]) == ("node", "fail", "E-NODE-2")
    assert NODE in check["text"] and document["error"]["doc"] == "E-NODE-2"
    driver = cases.data("version", "--sysroot", root)["parts"][3]
    asked = text and "version" in text
    assert driver["version"] == (
        "qbnpu 1.0.0" if asked else "qbnpu, could not be asked"
    )
    assert NODE in cases.data("--sysroot", root)["warnings"][0]["text"]


def test_a_node_that_a_variable_may_hide_is_none(tree):
    root = tree("one-aries", "env = QBRUNTIME_VISIBLE_DEVICES=5")
    (root / NAME).write_text(f'{{"open": 0, {VERSION}}}')
    check = cases.data("doctor", "--sysroot", root, code=3)["checks"][0]
    assert (check["id"], check["state"]) == ("node", "ok")


# I83: text behind the value is no JSON, blanks are nothing
@pytest.mark.parametrize("rest", ["]", "[]", "x", '{"a": 1}', "\x00", "\v", "//"])
def test_text_behind_the_value_is_invalid(tree, rest):
    root = tree("soft")
    file = root / "devices.json"
    whole = file.read_text()
    file.write_text(whole + " \t\r\n")
    assert len(cases.data("list", "--sysroot", root)["devices"]) == 1
    file.write_text(whole + rest)
    done = cases.run("list", "--json", "--sysroot", root)
    assert done.returncode == 8, done
    assert "no JSON array" in json.loads(done.stdout)["error"]["message"]


# I83
def test_text_behind_a_reply_is_invalid(tree):
    root = tree("one-aries")
    (root / NAME).write_text((root / NAME).read_text() + "}")
    document = cases.data("show", "--sysroot", root)
    assert document["devices"] == []
    assert "cannot be opened" in document["warnings"][0]["text"]
