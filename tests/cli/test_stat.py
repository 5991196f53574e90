# SPDX-License-Identifier: MIT
"""stat: ticks, rows and rates (docs/spec/qbinfo.md, 13).

Rates are those of captured systems, on their own clock. What only a live run has
(waiting, stopping, pipes) runs above a driver of the tests, qbinfo-bent.c.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess

import cases
import pytest

REPLY = "replies/dev-accel-accel0.json"
SECOND = 10**9


def _lines(*words, code=0, **more):
    out = cases.text("stat", *words, "--jsonl", code=code, **more)
    return [json.loads(line) for line in out.splitlines()]


def _later(root, *entries, path=REPLY):
    """The tree with other replies for later ticks."""
    file = root / path
    reply = json.loads(file.read_text())
    reply["later"] = list(entries)
    file.write_text(json.dumps(reply))
    return root


def _counters(**values):
    ids = {"submitted": 1, "completed": 2, "failed": 3, "busy": 15, "wait": 16}
    return [{"id": ids[n], "index": 0, "value": v} for n, v in values.items()]


# ---- captured systems ----


# I102: counters of one-aries, over its measured second
def test_rates_are_differences_over_measured_time(roots):
    first, second, _ = _lines("--sysroot", roots / "one-aries")
    assert first["rates"] == {
        "submitted_hz": 532,
        "completed_hz": 532,
        "failed_hz": 0,
    }
    assert first["queue"]["mean_wait_ns"] == 6_200_000
    assert first["queue"]["mean_run_ns"] == 5_692_400_000 // 532
    busy = first["utilization"]
    assert busy["window_ns"] == SECOND and busy["busy_ratio"] == 0.56924
    cores = [(core["cluster"], core["core"]) for core in busy["per_core"]]
    local = [(cluster, core) for cluster in (0, 1) for core in range(4)]
    assert cores == [*local, (0, 4), (1, 4)]
    assert busy["per_core"][3]["busy_ratio"] == 0.69
    assert busy["per_core"][8]["busy_ratio"] == 0
    assert second["rates"]["completed_hz"] == 17 and second["rates"]["failed_hz"] == 2
    assert second["queue"]["mean_wait_ns"] == 41_000_000 // 19
    assert second["temperature"]["celsius"] == 54.5
    # what an entry does not name is as before
    assert first["temperature"]["celsius"] == 58.125
    assert first["counters"]["submitted"] == 132985


# I102
@pytest.mark.parametrize(
    "window", [1, SECOND // 2, 3 * SECOND], ids=["1ns", "half", "three"]
)
def test_the_time_is_the_measured_one(tree, window):
    entry = {
        "monotonic_ns": 123456789000 + window,
        "query": {"COUNTERS": _counters(completed=132440 + 600), "CORES": []},
    }
    (line,) = _lines("--sysroot", _later(tree("one-aries"), entry))
    assert line["utilization"]["window_ns"] == window
    assert line["rates"]["completed_hz"] == pytest.approx(600 * SECOND / window)
    assert line["rates"]["submitted_hz"] is None


# I102
def test_a_counter_that_went_back_gives_null(roots):
    document = cases.data("stat", "--sysroot", roots / "one-aries")
    last = document["samples"][2]
    assert set(last["rates"].values()) == {None}
    assert last["queue"]["mean_wait_ns"] is last["queue"]["mean_run_ns"] is None
    assert last["utilization"]["busy_ratio"] is None
    assert {c["busy_ratio"] for c in last["utilization"]["per_core"]} == {None}
    assert last["queue"]["in_flight"] == 1 and last["counters"]["submitted"] == 4
    why = {entry["path"]: entry for entry in document["unavailable"]}
    entry = why["samples[2].rates.completed_hz"]
    assert entry["reason"] == "needs_interval"
    assert entry["detail"] == "counters.completed went back"
    text = cases.text("stat", "--sysroot", roots / "one-aries")
    assert not re.search(r" -\d", text)


# I102: one core alone
def test_a_core_that_went_back_leaves_the_others_theirs(tree):
    root = tree("one-aries")
    cores = json.loads((root / REPLY).read_text())["query"]["CORES"]
    for core in cores:
        core["busy_ns"] += SECOND // 4
    cores[2]["busy_ns"] = 1
    entry = {"query": {"CORES": cores}}
    (line,) = _lines("--sysroot", _later(root, entry))
    ratios = [core["busy_ratio"] for core in line["utilization"]["per_core"]]
    assert ratios == [0.25, 0.25, None] + [0.25] * 7
    assert line["utilization"]["busy_ratio"] is None


def test_without_cores_the_counter_of_all_tells(roots):
    lines = _lines("--sysroot", roots / "watched", code=7)
    line = next(line for line in lines if line["id"] == "aries-rb:1")
    # 5 of the 10 seconds that 10 cores had
    assert line["utilization"]["busy_ratio"] == 0.5
    assert line["utilization"]["per_core"] is None
    assert line["rates"]["completed_hz"] == 90 and line["queue"]["in_flight"] == 10


# no job ended: no mean, and nothing is wrong
def test_a_mean_of_no_jobs_is_null_without_a_reason(tree):
    root = _later(tree("one-aries"), {"query": {"SENSORS": []}})
    document = cases.data("stat", "--sysroot", root)
    line = document["samples"][0]
    assert line["rates"]["completed_hz"] == 0
    assert line["queue"]["mean_wait_ns"] is None
    why = [entry["path"] for entry in document["unavailable"]]
    assert "samples[0].queue.mean_wait_ns" not in why


# I84: sums of what a device may count
def test_sums_of_large_counters_do_not_wrap(tree):
    half = 1 << 63
    base = [{"cluster": 0, "core": core, "kind": 0, "busy_ns": 0} for core in range(2)]
    busy = [{**core, "busy_ns": half} for core in base]
    names = ("submitted", "completed", "failed", "busy", "wait")
    zero = _counters(**dict.fromkeys(names, 0))
    large = _counters(**dict.fromkeys(names, half))
    root = _later(
        tree("one-aries"),
        {"query": {"CORES": base, "COUNTERS": zero}},
        {"query": {"CORES": busy, "COUNTERS": large}},
    )
    line = _lines("--sysroot", root)[1]
    assert line["utilization"]["busy_ratio"] == 1
    assert line["queue"]["mean_wait_ns"] is line["queue"]["mean_run_ns"] is None


def test_a_little_below_zero_has_no_sign(tree):
    entry = {"query": {"SENSORS": [{"id": 1, "index": 0, "value": -1}]}}
    root = _later(tree("one-aries"), entry)
    text = cases.text("stat", "--sysroot", root, "-n", "-o", "temperature.celsius")
    assert text.split() == ["0C"]


# I100: readings that are late, on the clock of the capture
def test_a_late_tick_is_skipped_and_counted(tree):
    start = 123456789000
    ends = [start + SECOND, start + int(4.5 * SECOND), start + 5 * SECOND]
    root = _later(tree("one-aries"), *({"monotonic_ns": end} for end in ends))
    lines = _lines("-i", "1", "--sysroot", root)
    assert [line["monotonic_ns"] for line in lines] == ends
    assert [line["seq"] for line in lines] == [1, 2, 3]
    # the second reading began at 2 s and ended at 4.5 s: tick 3 was over
    assert [line["missed"] for line in lines] == [0, 0, 1]
    assert lines[1]["utilization"]["window_ns"] == 3.5 * SECOND
    assert lines[0]["time"] == "2026-01-02T03:04:06.000000006Z"


def test_time_goes_over_midnight_and_the_end_of_february(tree):
    root = tree(
        "one-aries", "clock = time 2028-02-29T23:59:59.500000000Z\\nmonotonic_ns 7"
    )
    day = 86400 * SECOND
    entries = [{"monotonic_ns": SECOND + 7}, {"monotonic_ns": 32 * day + 7}]
    lines = _lines("--sysroot", _later(root, *entries))
    assert lines[0]["time"] == "2028-03-01T00:00:00.500000000Z"
    assert lines[1]["time"] == "2028-04-01T23:59:59.500000000Z"


def test_a_device_that_goes_away_is_told_once(roots):
    done = cases.run("stat", "--jsonl", "--sysroot", roots / "watched")
    assert done.returncode == 7
    *lines, error = map(json.loads, done.stdout.splitlines())
    ids = [(line["seq"], line["id"][-1]) for line in lines]
    assert ids == [(1, "0"), (1, "1"), (2, "0"), (2, "1"), (3, "0")]
    gone = lines[3]
    assert gone["time"] and gone["counters"]["submitted"] is None
    assert error["error"]["name"] == "lost" and "aries-rb:1" in done.stderr.decode()
    assert b"aries-rb:2 is left out" in done.stderr
    document = json.loads(
        cases.run("stat", "--json", "--sysroot", roots / "watched").stdout
    )
    assert document["error"]["exit"] == 7 and len(document["samples"]) == 5
    why = {entry["path"]: entry["reason"] for entry in document["unavailable"]}
    assert why["samples[3].power.watts"] == "gone"


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {"monotonic_ns": "soon"},
        {"monotonic_ns": -1},
        {"monotonic_ns": 2**63 - 1},
        {"query": {"CORES": 7, "COUNTERS": {}, "SENSORS": "hot"}},
        {"query": {"CORES": [7, {"cluster": 0, "core": 0, "busy_ns": "x"}]}},
        {"query": {"COUNTERS": _counters(completed=-1, busy=2**64)}},
        {"open": "no"},
    ],
)
def test_a_broken_entry_gives_nulls_and_no_crash(tree, validate, entry):
    root = _later(tree("one-aries"), entry)
    done = cases.run("stat", "--json", "--sysroot", root)
    assert done.returncode == (7 if entry == {"open": "no"} else 0), done
    document = json.loads(done.stdout)
    validate(document)
    assert len(document["samples"]) == 1


@pytest.mark.parametrize("later", [7, [], "soon", None])
def test_one_reading_has_no_interval(tree, later):
    root = tree("one-aries")
    reply = json.loads((root / REPLY).read_text())
    reply["later"] = later
    (root / REPLY).write_text(json.dumps(reply))
    done = cases.run("stat", "--sysroot", root)
    assert done.returncode == 8 and b"one reading" in done.stderr


# ---- which devices ----


def test_software_devices_are_left_out_and_refused(tree):
    root = tree("one-aries")
    listed = cases.data("show", "--sysroot", root)["devices"][0]
    soft = {**listed, "id": "aries-rb:1", "number": 1, "kind": "software"}
    (root / "devices.json").write_text(json.dumps([soft]))
    done = cases.run("stat", "--sysroot", root)
    words = b"a software device is private to its process"
    assert done.returncode == 0 and done.stderr.count(words) == 1
    assert b"aries-rb:1" not in done.stdout
    assert cases.run("stat", "-q", "--sysroot", root).stderr == b""
    assert cases.run("stat", "0", "--sysroot", root).stderr == b""
    for more in (["aries-rb:1"], ["soft"], ["-d", "1"], ["0", "1"]):
        done = cases.run("stat", *more, "--sysroot", root)
        assert done.returncode == 2 and words in done.stderr, more


# a watcher that would print nothing for ever does not start
@pytest.mark.parametrize("name", ["bare", "soft", "accel-only", "noperm"])
def test_without_hardware_there_is_nothing_to_watch(roots, name):
    if name == "noperm":
        words = ["stat", "/dev/accel/accel2", "--sysroot", roots / name]
        assert cases.run(*words).returncode == 4
        return
    done = cases.run("stat", "--sysroot", roots / name)
    assert done.returncode == 3 and done.stdout == b""
    assert b"no hardware device to watch" in done.stderr
    assert done.stderr.count(b"\n") == 1


# ---- rows ----


# I101
def test_a_pipe_has_one_heading(tree):
    root = _later(tree("one-aries"), *[{}] * 45)
    out = cases.text("stat", "--sysroot", root).splitlines()
    assert len(out) == 46 and out[0].startswith("TIME ")
    assert not any(line.startswith("TIME") for line in out[1:])
    assert cases.text("stat", "-n", "--sysroot", root).splitlines() == out[1:]


# I101
def test_a_terminal_has_a_heading_every_20_rows(tree):
    root = _later(tree("one-aries"), *[{}] * 45)
    out = cases.in_terminal("stat", "--sysroot", root).splitlines()
    headings = [n for n, line in enumerate(out) if line.startswith("TIME")]
    assert headings == [0, 21, 42] and len(out) == 48
    assert "TIME" not in cases.in_terminal("stat", "-n", "--sysroot", root)


# I101
@pytest.mark.parametrize("mode", [[], ["--jsonl"], ["--json"]])
def test_count_ends_exactly(tree, mode):
    root = _later(tree("one-aries"), *[{}] * 9)
    for count in (1, 7):
        out = cases.text("stat", "-n", "-c", count, *mode, "--sysroot", root)
        if mode == ["--json"]:
            assert len(json.loads(out)["samples"]) == count
        else:
            assert len(out.splitlines()) == count


# it may run for a year: a tick leaves nothing behind
@pytest.mark.parametrize("mode", [[], ["--jsonl"]])
def test_it_does_not_grow(tree, mode):
    if cases.IS_SANITIZED:
        pytest.skip("a sanitizer keeps what was freed")
    root = _later(tree("one-aries"), *[{}] * 5000)
    most = []
    for count in (100, 5000):
        words = ["-c", count, *mode, "--sysroot", root]
        with _start(*words, env={}, stdout=subprocess.DEVNULL) as done:
            _, status, usage = os.wait4(done.pid, 0)
            done.returncode = status
        assert status == 0
        most.append(usage.ru_maxrss)
    assert most[1] < most[0] + 2048, most


def test_fields_are_chosen_and_plain(roots):
    words = ["stat", "--sysroot", roots / "one-aries", "-c", "1", "-n"]
    fields = "seq,queue.mean_run_ns,power.watts"
    assert cases.text(*words, "-b", "-o", fields).split() == ["1", "10700000", "9.8W"]
    cores = cases.text(*words, "-o", "utilization.per_core").strip()
    assert cores == "71.2%,71.2%,70.2%,69%,72%,71.8%,71.2%,72.7%,0%,0%"
    assert cases.text(*words, "-o", "time").strip() == "2026-01-02T03:04:06.000000006Z"
    assert cases.text(*words).startswith("03:04:06 aries-rb:0 ")
    assert cases.run(*words, "--strict", "-o", "power.watts").returncode == 0
    done = cases.run(*words, "--strict", "-o", "power.energy_joules")
    assert done.returncode == 9 and done.stdout == b"      -\n"


# ---- live ----


def _start(*words, env, **more):
    return subprocess.Popen(
        [cases.QBINFO, "stat", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=more.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        env=cases.environment(**env),
        **more,
    )


# I100, I26
def test_live_readings_are_rates_and_valid(bent, validate):
    words = ["stat", "-i", "0.1", "-c", "2"]
    document = cases.data(*words, env=bent)
    validate(document)
    samples = document["samples"]
    ids = [(line["seq"], line["id"]) for line in samples]
    assert [line[1] for line in ids] == ["aries-rb:0", "aries-rb:1"] * 2
    assert [line[0] for line in ids] == [1, 1, 2, 2]
    for line in samples:
        assert line["rates"]["completed_hz"] > 0 == line["rates"]["failed_hz"]
        cores = line["utilization"]["per_core"]
        assert len(cores) == 10
        assert cores[8] == {**cores[0], "core": 4} and cores[9]["cluster"] == 1
        for ratio in [line["utilization"]["busy_ratio"], cores[0]["busy_ratio"]]:
            assert 0 < ratio <= 1
        assert line["utilization"]["window_ns"] > 0
        assert line["power"]["watts"] is None
    done = cases.run(*words, "-v", "-c", "1", env=bent)
    assert re.search(rb"qbinfo: 1 ticks were read in \d", done.stderr)


# I26, I101: a line is there before the next tick, and -q has no other words
@pytest.mark.parametrize("mode", [[], ["--jsonl"]])
def test_each_row_is_flushed(bent, mode):
    with _start("-n", "-q", "-i", "0.1", *mode, "0", env=bent) as going:
        for _ in range(3):
            line = going.stdout.readline()
            assert b"aries-rb:0" in line and line.endswith(b"\n")
        assert going.poll() is None
        going.kill()


# I100: what was stopped goes on, and says what it missed
def test_stopped_and_continued_it_counts_what_it_missed(bent):
    with _start("-i", "0.1", "--jsonl", "0", env=bent) as going:
        first = json.loads(going.stdout.readline())
        os.kill(going.pid, signal.SIGSTOP)
        os.waitpid(going.pid, os.WUNTRACED)
        # it stands still: three more ticks are over, by the clock it counts by
        end = cases.monotonic() + 4 * SECOND // 10
        while cases.monotonic() < end:
            select.select([], [], [], 0.01)
        os.kill(going.pid, signal.SIGCONT)
        lines = [first]
        while lines[-1]["missed"] == first["missed"]:
            lines.append(json.loads(going.stdout.readline()))
        going.kill()
    assert [line["seq"] for line in lines] == list(
        range(first["seq"], first["seq"] + len(lines))
    )
    assert lines[-1]["missed"] >= first["missed"] + 3


# I64
def test_ctrl_c_ends_it_by_the_signal(bent):
    with _start("-i", "0.1", "0", env=bent, restore_signals=True) as going:
        assert going.stdout.readline().startswith(b"TIME")
        going.send_signal(signal.SIGINT)
        assert going.wait() == -signal.SIGINT
        assert going.stderr.read() == b""


# I11
def test_a_reader_that_leaves_ends_it_silently(bent):
    with _start("-i", "0.1", "0", env=bent, restore_signals=True) as going:
        assert going.stdout.readline()
        going.stdout.close()
        assert going.wait() == -signal.SIGPIPE
        assert going.stderr.read() == b""


# I13: waiting for a tick is no hanging
def test_the_limit_is_about_readings_alone(bent):
    words = ["stat", "-i", "2", "-c", "1", "--timeout", "1.5", "0"]
    assert len(cases.text(*words, env=bent).splitlines()) == 2


def test_a_live_device_that_goes_away_ends_it(bent):
    env = {**bent, "QBRUNTIME_TEST_LOST": "5"}
    done = cases.run("stat", "-i", "0.1", "--jsonl", "1", env=env)
    assert done.returncode == 7
    *lines, gone, error = map(json.loads, done.stdout.splitlines())
    assert error["error"]["name"] == "lost" and lines
    assert gone["counters"]["submitted"] is None
    assert all(line["counters"]["submitted"] > 0 for line in lines)
    # the other one goes on
    words = ["stat", "-i", "0.1", "-c", "3", "--jsonl"]
    out = cases.text(*words, code=7, env=env)
    ids = [json.loads(line).get("id") for line in out.splitlines()]
    assert ids.count("aries-rb:0") == 3 and ids.count("aries-rb:1") == 2


# ---- the line ----


@pytest.mark.parametrize(
    "line,words",
    [
        ("-i 0.05", "--interval takes seconds from 0.1 to 86400, but got 0.05"),
        ("-i 86401", "--interval"),
        ("-i 1s", "--interval"),
        ("-c 0", "--count takes a number from 1 to 4294967295, but got 0"),
        ("-c 1.5", "--count"),
        ("-c -3", "--count"),
        ("-c 4294967296", "--count"),
        ("--json", "--jsonl"),
    ],
)
def test_what_cannot_be_is_refused(line, words):
    done = cases.run("stat", *line.split())
    assert done.returncode == 2 and words in done.stderr.decode(), done


def test_in_a_terminal_it_writes_as_it_goes(bent):
    parent, child = pty.openpty()
    with _start("-i", "0.1", "0", env=bent, stdout=child) as going:
        os.close(child)
        out = b""
        while out.count(b"\n") < 3:
            out += os.read(parent, 4096)
        going.kill()
    os.close(parent)
    assert out.startswith(b"TIME") and out.count(b"TIME") == 1
