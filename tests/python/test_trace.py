# SPDX-License-Identifier: MIT
"""A trace file as other programs read it: Python's json, keys, types, rows.

The file is recorded by tests/trace-run, which make check builds.
"""

import json
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

TOP = Path(os.environ.get("QBRUNTIME_TEST_TOP", Path(__file__).parents[2]))
FIRST_DEVICE_PID = 4194304
NUM_CALLS = 100


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    build = os.environ.get("QBRUNTIME_TEST_BUILD")
    if not build:
        pytest.skip("QBRUNTIME_TEST_BUILD does not say where tests/trace-run is")
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    model = TOP / "tests/data/golden/copy64.qbm"
    environ = dict(os.environ, QBRUNTIME_SOFT_DEVICES="aries")
    subprocess.run([f"{build}/tests/trace-run", model, path], check=True, env=environ)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def events(text):
    return json.loads(text)


def to_ns(microseconds):
    return round(microseconds * 1000)


# Q782
def test_every_event_has_the_keys_and_types_of_the_format(events):
    assert isinstance(events, list)
    for event in events:
        assert isinstance(event["name"], str) and event["name"]
        assert isinstance(event["cat"], str) and event["cat"]
        assert event["ph"] in ("X", "M", "b", "e")
        assert type(event["pid"]) is int and event["pid"] > 0
        assert type(event["tid"]) is int and event["tid"] >= 0
        assert type(event["ts"]) is float and event["ts"] >= 0
        assert isinstance(event["args"], dict)
        assert ("dur" in event) == (event["ph"] == "X")
        assert ("id" in event) == (event["ph"] in "be")
        if event["ph"] == "X":
            assert type(event["dur"]) is float and event["dur"] >= 0
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)


# Q782: CLOCK_MONOTONIC in microseconds with three decimals
def test_times_have_three_decimals(text):
    times = re.findall(r'"(?:ts|dur)":([^,}]*)', text)
    assert len(times) > NUM_CALLS
    for time in times:
        assert re.fullmatch(r"[0-9]+\.[0-9]{3}", time)


# Q782
def test_events_of_a_row_nest_or_are_apart(events):
    rows = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = to_ns(event["ts"])
            row = (event["pid"], event["tid"])
            rows[row].append((begin, -begin - to_ns(event["dur"])))
    assert len(rows) >= 2
    for row in rows.values():
        open_ends = []
        for begin, negative_end in sorted(row):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or -negative_end <= open_ends[-1]
            open_ends.append(-negative_end)


# Q783
def test_every_event_is_a_line_and_each_beginning_can_be_read(text):
    lines = text.splitlines()
    assert lines[0].startswith('[{"name":"process_name"')
    assert lines[-1] == "]"
    for line in lines[1:-1]:
        assert line.startswith(",{")
        assert isinstance(json.loads(line[1:]), dict)
    for num in (1, 2, len(lines) // 2, len(lines) - 1):
        assert len(json.loads("\n".join(lines[:num]) + "]")) == num


# Q784
def test_every_inference_has_its_events(events):
    by_name = defaultdict(list)
    for event in events:
        by_name[event["name"]].append(event)
    assert len(by_name["run"]) == NUM_CALLS
    assert len(by_name["submit"]) == len(by_name["wait"]) == NUM_CALLS
    assert len(by_name["launch"]) == len(by_name["dispose"]) == 1
    jobs = {(e["args"]["queue"], e["args"]["job"]) for e in by_name["run"]}
    assert len(jobs) == NUM_CALLS
    for name in ("submit", "wait"):
        for event in by_name[name]:
            assert (event["args"]["queue"], event["args"]["job"]) in jobs
    assert all(e["pid"] == FIRST_DEVICE_PID for e in by_name["run"])
    begun = {e["id"]: e["ts"] for e in by_name["queue"] if e["ph"] == "b"}
    ended = {e["id"]: e["ts"] for e in by_name["queue"] if e["ph"] == "e"}
    assert len(begun) == NUM_CALLS and begun.keys() == ended.keys()
    assert all(begun[key] <= ended[key] for key in begun)


# Q784 Q116
def test_every_row_has_a_name_and_the_device_says_what_it_is(events):
    names = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    rows = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    assert rows <= names
    (device,) = (
        e["args"]
        for e in events
        if e["name"] == "process_name" and e["pid"] >= FIRST_DEVICE_PID
    )
    assert device["name"] == "aries-rb:0"
    assert device["kind"] == "software"
    assert device["driver"] == "qbnpu"
    assert device["driver_version"] and device["uapi_version"]
    assert device["cores"] == 8
