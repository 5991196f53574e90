# SPDX-License-Identifier: MIT
"""bench: earlier runs that are none, and what it lacks (I02, I13, I59)."""

import copy
import json
import os
import subprocess

import cases
import pytest

INLINE = ["bench", "--seconds", "0.001", "--set", "dispatch", "--placement", "one"]


@pytest.fixture(scope="module")
def earlier():
    return cases.data(*INLINE)


def _refuse(path, code=8):
    """The one sentence, and nothing was measured."""
    done = cases.run(*INLINE, "-v", "--baseline", path)
    assert done.returncode == code and done.stdout == b"", done
    words = done.stderr.decode()
    assert "measuring" not in words
    return words


def _change(**members):
    return lambda document: document["results"][0].update(members)


# I59: each is as good as the earlier run but for one thing
@pytest.mark.parametrize(
    "change,told",
    [
        (_change(samples=[float("nan")], block=[0]), "samples in ns were expected"),
        (_change(samples=[float("inf")], block=[0]), "samples in ns were expected"),
        (_change(samples=[-1.0], block=[0]), "samples in ns were expected"),
        (_change(samples=["1"], block=[0]), "samples in ns were expected"),
        (_change(samples=[1.0], block=[]), "with the block of each"),
        (_change(samples=[1.0], block=["0"]), "with the block of each"),
        (_change(samples=[], block=[]), "samples in ns were expected"),
        (_change(unit="s"), "samples in ns were expected"),
        (_change(environment=None), "expected what bench --json or --jsonl prints"),
        (_change(metric="other"), "none of the metrics that are measured now"),
        (lambda document: document.update(schema="qbinfo/bench/2"), "bench/1 was exp"),
        (lambda document: document.pop("schema"), "its schema is none"),
        (
            lambda document: document["results"].append(document["results"][0]),
            "it has infer.inline one twice",
        ),
    ],
)
def test_an_earlier_run_is_looked_at_before_anything_is_measured(
    earlier, tmp_path, change, told
):
    document = copy.deepcopy(earlier)
    change(document)
    (tmp_path / "earlier").write_text(json.dumps(document))
    assert told in _refuse(tmp_path / "earlier")


# I59: no number in the document that JSON has not
@pytest.mark.parametrize("value", [0, 5e-324])
def test_what_cannot_be_divided_by_is_not_compared_with(earlier, tmp_path, value):
    document = copy.deepcopy(earlier)
    _change(samples=[value] * 2, block=[0, 1])(document)
    (tmp_path / "earlier").write_text(json.dumps(document))
    found = cases.data(*INLINE, "--baseline", tmp_path / "earlier")["results"][0]
    assert found["baseline"]["ratio"] is found["baseline"]["verdict"] is None


# I13: nobody writes to it
def test_an_earlier_run_that_never_comes_is_waited_for_within_the_limit(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = cases.run(*INLINE, "--timeout", "0.1", "--baseline", tmp_path / "pipe")
    assert done.returncode == 6
    assert f"ran out in reading {tmp_path}/pipe" in done.stderr.decode()


# I62: each floor takes back what it opened before it failed
def test_a_floor_without_descriptors_says_so():
    if cases.IS_SANITIZED:
        pytest.skip("the sanitizer takes descriptors of its own")
    words = ["bench", "--set", "floor", "--placement", "same", "--seconds", "0.001"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 6; exec "$@"', "sh", cases.QBINFO, *words, "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=cases.environment(),
        check=False,
    )
    assert done.returncode == 0, done
    reasons = {
        record["metric"]: record["reason"]
        for record in json.loads(done.stdout)["results"]
    }
    for name in ("socket", "socket, descriptor"):
        assert reasons.pop(name).endswith("could be started: Too many open files")
    assert set(reasons.values()) == {None}


# I20: a metric without a row of the specification lacks nothing
def test_the_list_of_metrics_is_whole():
    assert cases.text("bench", "--list", "--strict")


def test_several_devices_are_told_with_what_to_do():
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:2,regulus-ra"}
    done = cases.run(*INLINE, env=env)
    assert done.returncode == 3
    assert b"name one of them: aries-rb:0, aries-rb:1, regulus-ra:0" in done.stderr
