# SPDX-License-Identifier: MIT
"""bench: records, verdicts, earlier runs, whole models. No time is judged."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys

import cases
import pytest

SPEC = (cases.TOP / "docs" / "spec" / "performance.md").read_text()
INLINE = ["bench", "--seconds", "0.001", "--set", "dispatch", "--placement", "one"]
MODEL = ["bench", "--seconds", "0.001", "--set", "model"]
# a job takes this much longer, so its time has a lower bound
SLOW_NS = 3_000_000


def _results(*words, **more):
    found = cases.data(*words, **more)["results"]
    return {(record["metric"], record["placement"]): record for record in found}


@pytest.fixture(scope="module")
def whole():
    """All sets, once."""
    return cases.data("bench", "--seconds", "0.001", "--seed", "41")


def _measured(document):
    return [record for record in document["results"] if record["reason"] is None]


# I58
def test_every_set_stands_beside_its_floor_with_a_verdict(whole):
    rows = {record["row"] for record in whole["results"]}
    assert {f"F{number}" for number in (*range(1, 12), 19)} <= rows
    assert {"P20", "P21", "P22", "P23", "P24", "P31", "P36"} <= rows
    assert {"P60", "P61", "P62", "P67", None} <= rows
    for record in whole["results"]:
        row = record["row"]
        assert row is None or re.search(rf"^\| {row} \|", SPEC, re.M), row
        if not record["target"]:
            assert record["verdict"] is None or record["reason"]
        elif record["reason"] is None:
            assert record["verdict"] in ("met", "missed", "noisy")
            assert record["floor"]["p50"] > 0 and record["ratio"]["value"] > 0


# I58
def test_a_slow_result_is_missed_and_no_failure():
    env = {"QBRUNTIME_SOFT_FAULT": f"slow:ns={SLOW_NS},count=0"}
    record = _results(*INLINE, env=env)["infer.inline", "one"]
    assert record["min"] >= SLOW_NS and record["ratio"]["low"] > 1
    assert record["verdict"] in ("missed", "noisy")
    assert record["floor"]["p50"] < SLOW_NS


# I58
@pytest.mark.parametrize("fault", ["error:job=1", "error:job=9", "error:count=0"])
def test_a_failed_call_is_a_failure_and_no_figure(fault):
    words = [*INLINE, *MODEL[3:], "--placement", "free"]
    document = cases.data(*words, code=1, env={"QBRUNTIME_SOFT_FAULT": fault})
    assert document["error"]["exit"] == 1
    assert "infer.inline one: a failed call: " in document["error"]["message"]
    first, *others = document["results"]
    assert first["reason"].startswith("a failed call: ")
    assert first["samples"] is first["p50"] is first["ratio"]["value"] is None
    assert first["verdict"] == "not_measured"
    paths = {entry["path"] for entry in document["unavailable"]}
    assert {"results[0].samples", "results[0].p50"} <= paths
    # the rest is measured all the same
    assert len(others) == 13
    shown = cases.run(*words, env={"QBRUNTIME_SOFT_FAULT": fault})
    assert shown.returncode == 1
    assert b"infer.inline one was not measured: a failed call: " in shown.stdout


# I58: a job that fails while a metric is set up is told as any other
def test_a_job_that_always_fails_is_told_everywhere():
    words = ["bench", "--seconds", "0.001", "--set", "dispatch", "--placement", "same"]
    env = {"QBRUNTIME_SOFT_FAULT": "error:count=0"}
    found = _results(*words, code=1, env=env)
    assert len(found) == 3
    for record in found.values():
        assert re.match("a failed (call|job): .", record["reason"]), record["metric"]


# I58: the library's last sentence is not about it
def test_a_floor_that_fails_says_why_by_itself(tmp_path):
    words = ["bench", "--set", "floor", "--placement", "one", "--seconds", "0.001"]
    path = tmp_path / "document"
    with path.open("wb") as out:
        cases.strace(
            tmp_path,
            "mlock",
            *words,
            "-J",
            inject=["mlock:error=EAGAIN:when=8"],
            stdout=out,
        )
    found = json.loads(path.read_text("utf-8"))["results"]
    reasons = [record["reason"] for record in found if record["reason"]]
    assert reasons == ["F10 memfd, mmap and mlock: Resource temporarily unavailable"]


# I26: what failed is a line of its own at the end
def test_a_failure_is_the_last_line():
    env = {"QBRUNTIME_SOFT_FAULT": "error:job=5"}
    done = cases.run(*INLINE, "--jsonl", env=env)
    *records, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == last["error"]["exit"] == 1
    assert [record["metric"] for record in records] == ["infer.inline", "infer.first"]


# I20
def test_what_was_not_measured_is_not_available():
    assert cases.text(*INLINE)
    words = [*INLINE, "--strict", "-o"]
    assert cases.run(*words, "metric,floor.name").returncode == 0
    assert cases.run(*words, "metric,p50").returncode == 9
    lines = cases.run(*words, "metric,p50", "--jsonl").stdout.splitlines()
    assert json.loads(lines[-1])["error"]["exit"] == 9 and len(lines) == 3


# I59, P07
def test_a_record_is_all_that_a_reader_recomputes_from(whole):
    measured = _measured(whole)
    assert len(measured) > 50
    for record in measured:
        samples, blocks = record["samples"], record["environment"]["blocks"]
        assert len(samples) == len(record["block"]) == record["count"] >= 10
        assert record["min"] == min(samples)
        assert record["p50"] == sorted(samples)[int(0.5 * (len(samples) - 1) + 0.5)]
        sides = [block["side"] for block in blocks]
        assert all(sides[block] == "subject" for block in record["block"])
        floor = record["floor"]
        if floor["name"]:
            assert all(sides[block] == "floor" for block in floor["block"])
            assert floor["min"] == min(floor["samples"])
        assert sides.count("subject") >= 10
        environment = record["environment"]
        assert environment["seed"] == 41
        assert environment["command"].startswith("qbinfo bench --seconds 0.001")
        assert environment["cpus_allowed"] == len(os.sched_getaffinity(0))
        assert environment["noisy_blocks"] == sum(block["noisy"] for block in blocks)
        for block in blocks:
            psi = block["psi_before_ratio"]
            assert (
                0 <= psi <= 1 if os.path.exists("/proc/pressure/cpu") else psi is None
            )


# I59, P02
def test_the_order_comes_from_the_seed():
    def sides(seed):
        record = _results(*INLINE, "--seed", seed)["infer.inline", "one"]
        return [block["side"] for block in record["environment"]["blocks"][:20]]

    assert sides(7) == sides(7)
    assert sides(7) != sides(8)


def _change(record, factor):
    for side in (record, record["floor"], record["peer"]):
        side["samples"] = [factor * value for value in side["samples"] or []]
    return record


# I59
@pytest.mark.parametrize(
    "factor,verdict,bound", [(1000, "faster", 0.5), (0.001, "slower", 2)]
)
def test_an_earlier_run_is_compared_with(tmp_path, factor, verdict, bound):
    document = cases.data(*INLINE)
    for record in document["results"]:
        _change(record, factor)
    (tmp_path / "earlier").write_text(json.dumps(document))
    baseline = ["--baseline", tmp_path / "earlier"]
    found = _results(*INLINE, *baseline)
    record = found["infer.inline", "one"]["baseline"]
    assert record["verdict"] in (verdict, "noisy")
    assert record["low"] <= record["ratio"] <= record["high"]
    assert (record["ratio"] < bound) == (factor > 1)
    # what was not measured is not compared
    assert found["infer.first", "one"]["baseline"]["ratio"] is None
    shown = cases.text(*INLINE, *baseline)
    assert " CHANGE" in shown and (verdict in shown or "noisy" in shown)


# I59: one block at each end makes the interval hold every ratio
def test_a_comparison_with_itself_is_within_noise(tmp_path):
    lines = cases.text(*INLINE, "--jsonl").splitlines()
    record = json.loads(lines[0])
    half = len(record["samples"]) // 2
    record["block"] = [0] * half + [1] * (len(record["samples"]) - half)
    record["samples"] = [1e-3 if block else 1e12 for block in record["block"]]
    record["environment"]["noisy_blocks"] = 0
    (tmp_path / "earlier").write_text("\n".join([json.dumps(record), *lines[1:]]))
    baseline = ["--baseline", tmp_path / "earlier"]
    found = _results(*INLINE, *baseline)["infer.inline", "one"]["baseline"]
    assert found["low"] < 1 < found["high"]
    assert found["verdict"] in ("within_noise", "noisy")
    out = cases.text(*INLINE, *baseline)
    assert re.search(
        r"^against .*: [01] within noise, 0 faster or slower, [01] not", out, re.M
    )


# I59
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "7", '{"results": []}', '{"results": [{}]}', "x\ny"]
)
def test_what_is_no_earlier_run_is_refused(tmp_path, text):
    (tmp_path / "earlier").write_text(text)
    for path in (tmp_path / "earlier", tmp_path / "none", tmp_path):
        done = cases.run(*INLINE, "--baseline", path)
        assert done.returncode == 8 and done.stdout == b""
        assert str(path) in done.stderr.decode()


# I62: what was left behind would use up descriptors and memory
def test_the_device_is_left_as_it_was_found():
    before = cases.data("show")["devices"]
    words = ["bench", "--set", "memory", "--set", "dispatch", "--set", "model"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 80; exec "$@"', "sh", cases.QBINFO, *words, "--jsonl"]
        + ["--seconds", "2"],
        capture_output=True,
        env=cases.environment(QBRUNTIME_SOFT_MEMORY="48M"),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        record = json.loads(line)
        assert record["reason"] is None or record["metric"] == "infer.first"
    after = cases.data("show")["devices"]
    for device in (*before, *after):
        # what other processes of this machine leave
        for name in ("pinned_limit_bytes", "device_total_bytes", "device_used_bytes"):
            device["memory"].pop(name)
        device.pop("limits")
    assert before == after


# I86
def test_a_captured_system_is_refused(roots):
    done = cases.run("bench", "--sysroot", roots / "mixed")
    assert done.returncode == 2 and b"--sysroot" in done.stderr


def test_metrics_are_listed_and_nothing_is_measured(whole):
    out = cases.text("bench", "--list").splitlines()
    assert out[0].split() == ["METRIC", "ROW", "PLACEMENT", "TARGET"]
    names = [(record["metric"], record["placement"]) for record in whole["results"]]
    assert len(out) == len(names) + 1
    for line, (metric, placement) in zip(out[1:], names):
        assert line.startswith(f"{metric} ") and f" {placement}" in line
    out = cases.text("bench", "--list", "-n", "--set", "memory")
    assert out.startswith("alloc.cold 4 KiB")
    # no device is asked for it either
    env = {"QBRUNTIME_SOFT_DEVICES": "none"}
    assert cases.text("bench", "--list", env=env)
    assert cases.run(*INLINE, env=env).returncode == 3


def test_text_has_a_banner_a_table_and_notes():
    out = cases.text(*INLINE, "--seed", "41").splitlines()
    assert re.fullmatch(
        r"aries-rb:0, software, backend \S+; \d+ CPUs?; PSI \S+; seed 41", out[0]
    )
    assert out[2].split()[:5] == ["METRIC", "PLACEMENT", "MIN", "P50", "P99"]
    assert re.search(r"^first call of infer.inline one: .* not part", out[5])
    assert "infer.first one was not measured: takes a second device" in out[6]
    bare = cases.text(*INLINE, "-n").splitlines()
    assert [line.split()[0] for line in bare] == ["infer.inline", "infer.first"]
    plain = cases.text(*INLINE, "-n", "-b").splitlines()[0]
    assert re.match(r"infer.inline one( +\d+(\.\d+)?){4} <= 0.3 x F1 ", plain)
    for env in ({}, {"NO_COLOR": "1"}):
        assert "\033" not in cases.in_terminal(*INLINE, env=env)


def test_verbose_says_what_is_measured():
    done = cases.run(*INLINE, "-v")
    assert b"qbinfo: measuring infer.inline one\n" in done.stderr
    assert b"measuring" not in done.stdout + cases.run(*INLINE).stderr


def test_a_device_is_chosen():
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:2,regulus"}
    for name in ("aries-rb:1", "regulus-ra:0"):
        found = _results(*INLINE, "-d", name, env=env)["infer.inline", "one"]
        assert (found["device"], found["kind"]) == (name, "software")
        assert found["counters"]["jobs"] > 10
        assert found["counters"]["copied_bytes"] == 0
    assert cases.run(*INLINE, "-d", "aries-rb:7", env=env).returncode == 3


def test_a_device_that_does_not_open_is_a_failure():
    env = {"QBRUNTIME_NPU_TIMEOUT_MS": "900000"}
    error = cases.data(*INLINE, env=env, code=1)["error"]
    assert error["device"] == "aries-rb:0" and error["status"]


# ---- whole models ----


def test_a_model_of_the_user_is_measured(tmp_path):
    shutil.copy(cases.DIGITS, tmp_path / "mine.qbm")
    found = _results("bench", "--seconds", "0.001", "-m", tmp_path / "mine.qbm")
    phases = ("queue", "submit", "device", "wait", "copy")
    depths = tuple(f"depth.{number}" for number in (1, 2, 4, 8))
    names = ("load", "infer", "arrays", *depths, *phases)
    assert list(found) == [(f"model.{name}", "free") for name in names]
    assert all(record["p50"] >= 0 for record in found.values())
    for name in ("load", "infer", "arrays", "submit", "device", "wait", *depths):
        assert found[f"model.{name}", "free"]["p50"] > 0, name
    for name in depths:
        record = found[f"model.{name}", "free"]
        assert record["rate_hz"] == pytest.approx(1e9 / record["p50"], rel=1e-3)
    assert found["model.infer", "free"]["first"] > 0
    assert found["model.infer", "free"]["floor"]["name"] == "time on cores"


# what gives the time never gives the same twice
CLOCK = """qbm 1.0 isa 1.0 producer="test"
meta "model.name" = "clock"
variant "default" inputs=0+1 outputs=1+1 bundles=0+1 batch=1 mode_mask=1
bundle "main" mode_mask=1 program=0,-,-,-,-
io 0 "in" role=input device_dtype=u8 host_dtype=u8 flags=1 shape=[64]
io 1 "out" role=output device_dtype=u64 host_dtype=u64 flags=1 shape=[1]
program 0 flags=1
  binding 0 input tensor=0 io=0 size=64
  binding 1 output tensor=1 io=1 size=8
  tensor 0 "in" u8 [1,64] binding=0 scale=1.0
  tensor 1 "out" u64 [1,1] binding=1
  tensor 2 "word" u64 [1] binding=1
  list 0
    timestamp dst=2
"""


# I58
def test_another_output_is_a_wrong_result(tmp_path):
    (tmp_path / "clock.txt").write_text(CLOCK)
    path = tmp_path / "clock.qbm"
    package = next(cases.STAGE.rglob("qbcompile/qbm.py")).parents[1]
    subprocess.run(
        [sys.executable, "-m", "qbcompile.qbm", "asm", path.with_suffix(".txt")]
        + ["-o", path],
        env=cases.environment(PYTHONPATH=str(package)),
        check=True,
    )
    found = _results("bench", "-m", path, "--seconds", "0.001", code=1)
    for (name, _), record in found.items():
        if name != "model.load":
            assert "another output" in record["reason"], name
            assert record["p50"] is None


def test_each_copy_has_its_bytes_and_reason():
    found = _results(*MODEL)
    pinned, arrays = found["model.infer", "free"], found["model.arrays", "free"]
    assert pinned["counters"]["copied_bytes"] == 0
    copies = [(copy["tensor"], copy["size_bytes"]) for copy in arrays["copies"]]
    assert copies == [("image", 64), ("logits", 40)]
    assert all("pinned memory" in copy["reason"] for copy in arrays["copies"])
    counters = arrays["counters"]
    assert counters["copied_bytes"] == counters["jobs"] * (64 + 40)
    assert "model.arrays copies image, 64: " in cases.text(*MODEL)


@pytest.mark.parametrize("words", [[], ["--jsonl"], ["--json"]])
def test_a_bad_model_is_refused(tmp_path, words):
    bad = bytearray(cases.DIGITS.read_bytes())
    bad[400] ^= 1
    (tmp_path / "bad.qbm").write_bytes(bad)
    for path in (tmp_path / "bad.qbm", tmp_path / "none.qbm", tmp_path):
        done = cases.run("bench", "-m", path, *words)
        assert done.returncode == 8, done
        assert done.stderr.count(b"\n") == 1
        if words:
            assert json.loads(done.stdout)["error"]["exit"] == 8


@pytest.mark.parametrize("memory,words", [("1", "33640"), ("64K", "40960")])
def test_a_model_that_does_not_fit_is_refused(memory, words):
    env = {"QBRUNTIME_SOFT_MEMORY": memory}
    error = cases.data(*MODEL, env=env, code=1)["error"]
    assert words in error["message"] and "aries-rb:0" in error["message"]


# ---- ends ----


# I13: the limit is for a step, not for the measuring
def test_the_limit_is_for_what_hangs():
    words = ["bench", "--set", "floor", "--placement", "one", "--seconds", "3"]
    assert cases.run(*words, "--timeout", "2").returncode == 0
    env = {"QBRUNTIME_SOFT_FAULT": "hang:job=3"}
    done = cases.run(*INLINE, "--timeout", "0.2", "--json", env=env)
    assert done.returncode == 6, done
    error = json.loads(done.stdout)["error"]
    assert error["name"] == "busy"
    assert error["message"].endswith("ran out in infer.inline one")


def _start(*words):
    return subprocess.Popen(
        [cases.QBINFO, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cases.environment(),
        restore_signals=True,
    )


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


# I64
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_the_process_that_it_measures_with(number):
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        pytest.skip("this kernel does not list children")
    words = ["bench", "-v", "--set", "floor", "--placement", "same", "--seconds", "6"]
    with _start(*words) as process:
        children = []
        while not children:
            # the partner comes with the first of those between processes
            children = _children(process.pid)
            assert process.poll() is None
        watches = [os.pidfd_open(child) for child in children]
        process.send_signal(number)
        assert process.wait() == -number
        for watch in watches:
            assert select.select([watch], [], [], 60)[0], "a process was left"
            os.close(watch)
        process.communicate()


# I26
def test_a_line_comes_as_soon_as_it_is_measured():
    words = ["bench", "--jsonl", "--set", "floor", "--seconds", "5"]
    with _start(*words) as process:
        assert json.loads(process.stdout.readline())["metric"] == "null system call"
        assert process.poll() is None
        process.stdout.close()
        # I11: the next line finds nobody
        assert process.wait() == -signal.SIGPIPE
        assert process.stderr.read() == b""


def _shape(lines):
    """What does not depend on the machine: metrics, places, targets, notes."""
    row = re.compile(r"^([a-z.]+ +(?:one|same) ).*(<= .*?)  +\w+$")
    rows = [row.sub(r"\1\2", line) for line in lines[2:]]
    return [re.sub(r": [\d.]+us,", ": us,", " ".join(line.split())) for line in rows]


# I92, but for what is this machine's
def test_the_guide_shows_what_it_prints():
    guide = (cases.TOP / "docs" / "operating.md").read_text()
    command, _, shown = guide.split("    $ qbinfo bench --set")[1].partition("\n")
    shown = shown.split("\nAfter a change")[0].rstrip().splitlines()
    words = ["bench", "--set", *command.split(), "--seconds", "0.001"]
    assert _shape([line.strip() for line in shown]) == _shape(
        cases.text(*words).splitlines()
    )
