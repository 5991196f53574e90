# SPDX-License-Identifier: MIT
"""The Python side of the benches, with probes that say a time instead of taking it."""

import json
import os
from pathlib import Path

import pytest
from runtime_cases import TOP, run_child

NATIVE = (
    Path(os.environ.get("QBRUNTIME_TEST_BUILD", TOP / "build")) / "tests/bench/.libs"
)
if not (NATIVE / "bench_native.abi3.so").exists():
    pytest.skip("the benches are not built", allow_module_level=True)

PROGRAM = """
import sys
from subject import Probe, main
class Said:
    def __init__(self, ns):
        self.ns = ns
    def run(self, num):
        return self.ns * num
    def close(self):
        print("closed", file=sys.stderr)
class Wrong(Said):
    def run(self, num):
        raise ValueError("a wrong result")
def absent(placement):
    import no_such_module
def broken(placement):
    raise ImportError("broken")
def measure(subject, floor, **more):
    sys.argv[1:] = ["--json", "--seconds", "0.0001", "--seed", "7"]
    main([{"name": "said", "row": "P40", "placements": ["one"], "target": "t",
           "subject": subject, "floor": floor, "factor": 1, "extra_ns": 400, **more}])
def said(ns):
    return Probe(f"{ns} ns", lambda placement: Said(ns), "CPython")
"""


def measure(code, check=True):
    path = os.pathsep.join(
        [str(TOP / "tests/bench"), str(NATIVE), os.environ.get("PYTHONPATH", "")]
    )
    child = run_child(PROGRAM + code, check=check, PYTHONPATH=path)
    return child, [json.loads(line) for line in child.stdout.splitlines()]


# P01 P07 P40
def test_a_row_is_judged_by_its_floor_and_becomes_a_record():
    for ns, verdict in ((1390, "met"), (1410, "missed")):
        child, (record,) = measure(f"measure(said({ns}), said(1000))")
        assert record["row"] == "P40" and record["placement"] == "one"
        assert record["p50"] == record["min"] == ns
        assert record["floor"]["name"] == "1000 ns"
        assert record["difference_ns"]["value"] == ns - 1000
        assert record["environment"]["seed"] == 7
        assert record["verdict"] in (verdict, "noisy")
        assert child.stderr.count("closed") == 2


def test_what_is_not_installed_is_not_measured_and_says_so():
    _, (record,) = measure("measure(said(5), Probe('peer', absent))")
    assert record["verdict"] == "not_measured" and record["p50"] is None
    assert "no_such_module" in record["reason"]


def test_a_wrong_result_fails_the_program():
    for code in (
        "measure(Probe('wrong', lambda placement: Wrong(5)), said(5))",
        "measure(Probe('broken', broken), said(5))",
    ):
        child, _ = measure(code, check=False)
        assert child.returncode == 1
        assert "a wrong result" in child.stderr or "broken" in child.stderr


def test_a_metric_that_lacks_something_is_refused():
    for lacking in ("subject=None", "placements=[]", "placements=['moon']", "row=None"):
        key, value = lacking.split("=")
        code = f"measure(**{{'subject': said(5), 'floor': None, {key!r}: {value}}})"
        child, records = measure(code, check=False)
        assert not records and "ValueError" in child.stderr, lacking
