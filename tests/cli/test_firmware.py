# SPDX-License-Identifier: MIT
"""doctor's check of firmware: its instruction set and its heartbeat (12.2)."""

import json

import cases
import pytest


def _firmware(isa, flags, heartbeat):
    path, name = "replies/dev-accel-accel0.json", '"name": "aries-rb"'
    version = '"version": {"name": "qbnpu", "major": 1, "minor": 0, "patchlevel": 0}'
    told = f'"isa_major": {isa[0]}, "isa_minor": {isa[1]}, "state": 0'
    firmware = f'"flags": {flags}, "heartbeat_ns": {heartbeat}, "version": "0.9.2"'
    query = f'"DEVICE": {{"kind": 1, {name}, {told}}}, "FIRMWARE": {{{firmware}}}'
    return f'{path} = {{"open": 0, {version}, "query": {{{query}}}}}'


# two seconds before the clock of the trees
SILENT = 123456789000 - 2 * 10**9


def _findings(document):
    return [check for check in document["checks"] if check["state"] in ("warn", "fail")]


# I48, I50
@pytest.mark.parametrize(
    "line,code,exit_code,words",
    [
        (
            _firmware((0, 9), 1, 0),
            "E-FW-1",
            5,
            "version 0.9.2, has instruction set 0.9, models need 1.0",
        ),
        (_firmware((1, 0), 9, SILENT), "E-FW-2", 7, "for 2 s sudo modprobe -r"),
    ],
    ids=["old", "silent"],
)
def test_firmware_that_is_old_or_silent_is_found(tree, line, code, exit_code, words):
    root = tree("one-aries", line)
    document = cases.data("doctor", "--sysroot", root, code=exit_code)
    (check,) = _findings(document)
    assert (check["id"], check["state"], check["code"]) == ("firmware", "fail", code)
    assert words in f"{check['text']} {check['fix']}"
    shown = cases.run("doctor", "--sysroot", root)
    assert shown.returncode == exit_code and f"({code})" in shown.stdout.decode()


# I48: what is not offered, not known, a moment ago or later than the clock
@pytest.mark.parametrize(
    "flags,heartbeat",
    [(1, SILENT), (9, 0), (9, SILENT + 1), (9, 2**62), (9, '"x"'), ('"x"', SILENT)],
)
def test_firmware_that_gives_no_cause_is_sound(tree, flags, heartbeat):
    root = tree("one-aries", _firmware((1, 0), flags, heartbeat))
    assert _findings(cases.data("doctor", "--sysroot", root)) == []


# I48
def test_firmware_that_is_old_and_silent_has_two_findings(tree):
    root = tree("one-aries", _firmware((0, 1), 9, 1))
    document = cases.data("doctor", "--sysroot", root, code=7)
    codes = [check["code"] for check in _findings(document)]
    assert sorted(codes) == ["E-FW-1", "E-FW-2"]
    assert document["error"]["doc"] == "E-FW-2"


# I48: of a device that is asked
@pytest.mark.parametrize("silent,state", [(None, "ok"), ("1", "fail")])
def test_live_firmware_is_judged(bent, silent, state):
    env = {**bent, "QBRUNTIME_TEST_SILENT": silent}
    document = json.loads(cases.run("doctor", "--json", env=env).stdout)
    checks = [check for check in document["checks"] if check["id"] == "firmware"]
    assert {check["state"] for check in checks} == {state}
    assert (checks[0]["code"] == "E-FW-2") == (state == "fail")
