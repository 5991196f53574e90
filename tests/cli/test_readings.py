# SPDX-License-Identifier: MIT
"""Firmware, sensors, counters, events and health (docs/spec/qbinfo.md, 7)."""

import json

import cases
import pytest
import trees

REPLY = "replies/dev-accel-accel0.json"


def _edit(root, change, path=REPLY):
    """The tree with a reply that change(query) has edited."""
    file = root / path
    reply = json.loads(file.read_text())
    change(reply["query"])
    file.write_text(json.dumps(reply))
    return root


def _first(root, command="show"):
    document = cases.data(command, "--sysroot", root)
    reasons = {line["path"]: line["reason"] for line in document["unavailable"]}
    return document["devices"][0], reasons


# U67
def test_recorded_readings_have_their_units(roots):
    device, reasons = _first(roots / "one-aries")
    assert device["temperature"] == {
        "celsius": 58.125,
        "throttle_celsius": 95,
        "shutdown_celsius": 105,
        "throttling": False,
    }
    assert device["clocks"]["npu_hz"] == 800_000_000
    assert device["clocks"]["noc_hz"] is None
    assert reasons["devices[0].clocks.noc_hz"] == "not_supported"
    assert device["power"]["watts"] == 9.8 and device["power"]["volts"] is None
    assert device["power"]["fan_ratio"] == 0.35
    firmware = {"version": "1.4.0", "build": "a1b2c3", "crc": 0x12345678}
    firmware.update({"secure": True, "heartbeat_age_ns": 12_500_000})
    assert device["firmware"] == firmware
    assert device["queue"] == {
        "in_flight": 132453 - 132440 - 3 - 1,
        "open": None,
        "mean_wait_ns": 821146600000 // 132443,
        "mean_run_ns": 1417132601000 // 132443,
    }
    assert device["errors"]["resets"] == 3 and device["errors"]["ecc_corrected"] is None
    # 12 s before the clock of the tree
    assert device["errors"]["last_time"] == "2026-01-02T03:03:53.000000006Z"
    assert device["errors"]["last_text"] == "job error"
    assert device["health"] == {"state": "ok", "reasons": []}
    assert reasons["devices[0].utilization.busy_ratio"] == "needs_interval"
    row, _ = _first(roots / "one-aries", "summary")
    assert row["temperature"]["celsius"] == 58.125 and row["queue"]["in_flight"] == 9


# one look tells no rate, whatever the device is
@pytest.mark.parametrize("name", [*trees.names(), None])
def test_utilization_needs_an_interval(roots, name):
    root = ["--sysroot", name] if name else []
    document = cases.data("show", *root, cwd=roots)
    reasons = {line["path"]: line["reason"] for line in document["unavailable"]}
    for number, device in enumerate(document["devices"]):
        assert set(device["utilization"].values()) == {None}
        for field in ("busy_ratio", "window_ns", "per_core"):
            path = f"devices[{number}].utilization.{field}"
            assert reasons[path] == "needs_interval"


# U67: absent is absent, not 0
def test_a_software_npu_has_counters_and_no_sensors():
    document = cases.data("show")
    device = document["devices"][0]
    for group in ("clocks", "power", "temperature"):
        assert set(device[group].values()) == {None}
    assert set(device["firmware"].values()) == {None}
    assert device["errors"]["ecc_corrected"] is None
    assert device["counters"]["submitted"] == device["queue"]["in_flight"] == 0
    assert device["queue"]["mean_run_ns"] is None
    assert device["health"] == {"state": "ok", "reasons": []}
    reasons = {line["path"]: line["reason"] for line in document["unavailable"]}
    assert reasons["devices[0].power.watts"] == "not_supported"
    # null is the answer
    assert "devices[0].errors.last_time" not in reasons
    assert "devices[0].queue.mean_run_ns" not in reasons


@pytest.mark.parametrize(
    "value,reason",
    [("hot", "invalid"), (None, "invalid"), (1 << 64, "invalid"), ([], "invalid")],
)
def test_a_reading_that_is_no_number_is_invalid(tree, value, reason):
    def change(query):
        query["SENSORS"][0]["value"] = value
        query["COUNTERS"][0]["value"] = value
        query["EVENTS"][1]["time_ns"] = value

    device, reasons = _first(_edit(tree("one-aries"), change))
    assert device["temperature"]["celsius"] is None
    assert reasons["devices[0].temperature.celsius"] == reason
    assert device["counters"]["submitted"] is None
    assert reasons["devices[0].counters.submitted"] == reason
    assert device["power"]["watts"] == 9.8 and device["counters"]["completed"] == 132440


# I84
def test_a_sum_is_whole_or_none(tree):
    def change(query):
        values = (
            (6, 2**63 - 1),
            (7, 2**63 - 1),
            (8, 2**63 - 1),
            (3, 2**63 - 1),
        )
        query["COUNTERS"] += [{"id": i, "index": 0, "value": v} for i, v in values]
        query["COUNTERS"].append({"id": 13, "index": 0, "value": -1})

    device, reasons = _first(_edit(tree("one-aries"), change))
    assert device["errors"]["resets"] is device["counters"]["copy_job_bytes"] is None
    assert reasons["devices[0].errors.resets"] == "invalid"
    assert device["queue"]["in_flight"] == 0


@pytest.mark.parametrize("name", ["SENSORS", "COUNTERS", "EVENTS"])
def test_a_query_that_is_no_list_is_invalid(tree, name):
    root = _edit(tree("one-aries"), lambda query: query.update({name: 7}))
    _, reasons = _first(root)
    field = {"SENSORS": "power.watts", "COUNTERS": "counters.macs"}
    place = field.get(name, "errors.last_text")
    assert reasons[f"devices[0].{place}"] == "invalid"


@pytest.mark.parametrize(
    "state,counter,value,health,words",
    [
        (0, None, 0, "ok", None),
        (1, None, 0, "warning", "resetting"),
        (2, None, 0, "warning", "degraded"),
        (3, None, 0, "failed", "lost"),
        (0, 5, 3, "warning", "3 jobs timed out"),
        (0, 20, 1, "warning", "1 memory errors were not mended"),
        (0, 21, 2, "warning", "2 accesses"),
        (0, 23, 1, "warning", "1 answers"),
        (3, 5, 3, "failed", "timed out"),
    ],
)
def test_health_is_of_state_errors_and_readings(
    tree, state, counter, value, health, words
):
    def change(query):
        query["DEVICE"]["state"] = state
        if counter:
            query["COUNTERS"] = [{"id": counter, "index": 0, "value": value}]

    root = _edit(tree("one-aries"), change)
    device, _ = _first(root)
    assert device["health"]["state"] == health
    assert bool(device["health"]["reasons"]) == (health != "ok")
    marks = [line for line in cases.text("--sysroot", root).splitlines() if "!" in line]
    assert bool(marks) == (health != "ok")
    if words:
        assert any(words in reason for reason in device["health"]["reasons"])
        assert any(words in line and "-t health --sysroot" in line for line in marks)


def test_throttling_is_a_warning(tree):
    def change(query):
        query["SENSORS"] = [{"id": 13, "index": 0, "value": 1}]

    root = _edit(tree("one-aries"), change)
    device, _ = _first(root)
    assert device["temperature"]["throttling"] is True
    assert device["health"] == {"state": "warning", "reasons": ["it is slowed down"]}


BAD = [
    "node accel accel2 pci 0000:05:00.0 qbnpu 0x209f 0x0001 261:2",
    'replies/dev-accel-accel2.json = {"open": -13}',
    "node accel accel3 pci 0000:06:00.0 qbnpu 0x209f 0x0001 261:3",
    'replies/dev-accel-accel3.json = {"open": 0, "version": {"name": "qbnpu", '
    '"major": 0, "minor": 9, "patchlevel": 0}, "query": {}}',
    "node accel accel4 pci 0000:07:00.0 qbnpu 0x209f 0x0001 261:4",
    'replies/dev-accel-accel4.json = {"open": 0, "version": {"name": "qbnpu", '
    '"major": 1, "minor": 0, "patchlevel": 0}, "query": {"DEVICE": {"kind": 1, '
    '"name": "aries-rb", "state": 3}, "SENSORS": 5}}',
]


# I33
def test_bad_devices_do_not_hide_the_others(tree):
    root = tree("one-aries", *BAD)
    for command in ("summary", "show", "list"):
        devices = cases.data(command, "--sysroot", root)["devices"]
        assert [device["id"] for device in devices] == ["aries-rb:0", "aries-rb:4"]
    out = cases.text("--sysroot", root)
    rows = [line.split() for line in out.splitlines() if line.startswith("aries-rb:")]
    assert "ready" in rows[0] and "58.1C" in rows[0]
    assert "lost" in rows[1] and "?" in rows[1]
    marks = [line for line in out.splitlines() if line.startswith("!")]
    for word in (
        "accel2: it may not",
        "accel3: its driver",
        "aries-rb:4: the device is",
    ):
        assert any(word in line for line in marks), word


# I19
@pytest.mark.parametrize(
    "lines,code,word",
    [
        (BAD, 7, "lost"),
        (BAD[:4], 5, "version"),
        (BAD[:2], 4, "permission"),
        (BAD[2:4], 5, "version"),
        (BAD[4:], 7, "lost"),
        (BAD[:2] + BAD[4:], 7, "lost"),
        ([], 0, ""),
    ],
)
def test_of_several_causes_the_first_decides(tree, lines, code, word):
    root = tree("one-aries", *lines)
    done = cases.run("doctor", "--json", "--sysroot", root)
    assert done.returncode == code, done
    document = json.loads(done.stdout)
    if code:
        error = document["error"]
        assert (error["exit"], error["name"]) == (code, word)


# I15: the library says once that it opens the software NPU for want of hardware
@pytest.mark.parametrize(
    "words,opens",
    [
        (["show"], True),
        (["summary"], True),
        (["list"], False),
        (["list", "-l"], False),
        (["version"], False),
        (["caps"], False),
        (["model", str(cases.DIGITS)], False),
        (["schema", "show"], False),
        (["show", "--sysroot", "soft"], False),
        (["summary", "--sysroot", "mixed"], False),
        (["stat", "--sysroot", "mixed"], False),
        (["doctor", "--sysroot", "one-aries"], False),
    ],
)
def test_only_readings_open_a_device(roots, words, opens):
    if cases.pathlib.Path("/dev/accel").exists():
        pytest.skip("there may be hardware")
    done = cases.run(*words, cwd=roots, env={"QBRUNTIME_LOG_LEVEL": "Info"})
    assert (b"accelerator: no NPU in this machine" in done.stderr) == opens, done
