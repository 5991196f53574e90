# SPDX-License-Identifier: MIT
"""validate: what its tests say, and that each of them can fail (I60 to I64)."""

import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess

import cases
import jsonschema
import pytest

VALIDATE = cases.LIVE_COMMANDS["validate"][0]
TESTS = (
    "open alloc index loopback noop order fence export repeat digits ops fault reset"
    " accounting"
).split()


def _failed(code=1, **more):
    """Names of the tests that failed, of a run that ended with code."""
    done = cases.run(*VALIDATE, "--json", **more)
    assert done.returncode == code, done
    tests = json.loads(done.stdout)["tests"]
    assert [test["name"] for test in tests] == TESTS
    return [test["name"] for test in tests if test["state"] == "fail"]


# I60
def test_every_test_of_the_page_passes_or_says_why_not():
    page = (cases.TOP / "docs" / "spec" / "qbinfo.md").read_text()
    table = page.split("| validate test |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == TESTS
    tests = cases.data(*VALIDATE)["tests"]
    assert [test["name"] for test in tests] == TESTS
    for test in tests:
        is_skipped = test["name"] == "reset"
        assert test["state"] == ("skip" if is_skipped else "ok"), test
        assert test["reason"] == ("not_supported" if is_skipped else None)
        assert test["device"] == "aries-rb:0"
        assert test["text"] and test["duration_ns"] > 0


# I60
def test_a_line_for_each_and_their_sums():
    lines = cases.text(*VALIDATE).splitlines()
    assert lines[-1] == "13 passed, 0 failed, 1 skipped"
    assert [line.split()[1] for line in lines[:-1]] == TESTS
    assert lines[3].startswith("ok    loopback    1M both ways, 0 bytes copied")
    assert lines[12].startswith("skip  reset       not_supported: queue and core level")
    assert all(len(line) <= 100 for line in lines)
    bare = cases.text(*VALIDATE, "-n").splitlines()
    assert [line.split()[:2] for line in bare] == [
        line.split()[:2] for line in lines[:-1]
    ]


# I92, but for what is this machine's
def test_the_guide_shows_what_it_prints():
    guide = (cases.TOP / "docs" / "operating.md").read_text()
    shown = guide.split("$ qbinfo validate\n")[1].split("\n\n")[0].splitlines()
    shown = [line.strip() for line in shown]
    machine = re.compile(r"^ok +(alloc|noop|export) .*")
    lines = cases.text(*VALIDATE).splitlines()
    assert [machine.sub(r"\1", line) for line in lines] == [
        machine.sub(r"\1", line) for line in shown
    ]


# I60
def test_chosen_tests_run_once_and_in_their_order():
    words = ["--test", "reset", "--test=digits", "--test", "digits", "--destructive"]
    tests = cases.data("validate", *words)["tests"]
    assert [test["name"] for test in tests] == ["digits", "reset"]
    assert tests[1]["text"].startswith("queue, core and device level")
    words = ["--test", "repeat", "--repeat"]
    for number in ("1", "17", "0300"):
        (test,) = cases.data("validate", *words, number)["tests"]
        assert test["text"] == f"digits x {int(number)}: identical"
    table = cases.text("validate", "--test", "digits", "-b", "-o", "name,duration_ns")
    assert re.fullmatch(r"TEST +TIME\ndigits +\d{4,}\n", table)


# I60
def test_the_device_is_the_chosen_one():
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:2,regulus"}
    for words, wanted in (
        (["aries-rb:1"], "aries-rb:1"),
        (["-d", "soft:1"], "aries-rb:1"),
        (["regulus"], "regulus-ra:0"),
    ):
        tests = cases.data(*VALIDATE, *words, env=env)["tests"]
        assert {test["device"] for test in tests} == {wanted}
        assert sum(test["state"] == "ok" for test in tests) == 13
    for words in (["auto"], ["7"], ["--require-device"]):
        assert cases.run("validate", *words, env=env).returncode == 3
    none = cases.run("validate", env={"QBRUNTIME_SOFT_DEVICES": "none"})
    assert none.returncode == 3
    assert b"no device auto, nor any other; qbinfo doctor tells why" in none.stderr


# I60
def test_a_device_that_does_not_open_has_no_tests():
    done = cases.run("validate", "-J", env={"QBRUNTIME_SOFT_FAULT": "x"})
    error = json.loads(done.stdout)["error"]
    assert done.returncode == error["exit"] == 1
    assert error["status"] == "InvalidArgument" and error["device"] == "aries-rb:0"
    assert error["message"].startswith("aries-rb:0 cannot be opened: ")


# I22
def test_every_field_can_be_asked_for():
    for line in cases.text("validate", "-o", "help").splitlines()[1:]:
        words = ["validate", "--test", "reset", "-n", "-o", line.split()[0]]
        assert cases.text(*words)


def test_words_go_where_they_do_in_every_command():
    quiet = cases.run(*VALIDATE, "-q", "--strict")
    assert (quiet.returncode, quiet.stderr) == (0, b"")
    told = cases.run(*VALIDATE, "-v").stderr.decode()
    assert re.findall(r"^qbinfo: test (\w+): ", told, re.M) == TESTS
    assert re.search(r"test repeat: 116 jobs, [\d.]+[mu]?s$", told, re.M)


# I26, I02
def test_lines_are_tests_and_then_the_failure():
    schema = json.loads(cases.text("schema", "validate", "--strict"))
    items = schema["properties"]["tests"]["items"]
    validator = jsonschema.Draft202012Validator(items)
    done = cases.run(
        *VALIDATE, "--jsonl", env={"QBRUNTIME_TEST_BEND": "conv2d"}, tool=cases.BENT
    )
    *lines, last = map(json.loads, done.stdout.splitlines())
    assert [line["name"] for line in lines] == TESTS
    for line in lines:
        validator.validate(line)
    assert done.returncode == last["error"]["exit"] == 1
    assert last["error"]["message"] == "1 of 14 tests failed: ops"
    assert last["error"]["device"] == "aries-rb:0"
    assert done.stderr == b"qbinfo: 1 of 14 tests failed: ops\n"


# I61: an answer of the library that is wrong
@pytest.mark.parametrize(
    "bend,name",
    [
        ("cores", "open"),
        ("class", "alloc"),
        ("element", "index"),
        ("loopback", "loopback"),
        ("copied", "loopback"),
        ("order", "order"),
        ("fence", "fence"),
        ("import", "export"),
        ("repeat", "repeat"),
        ("digits", "digits"),
        ("conv2d", "ops"),
        ("events", "fault"),
        ("descriptor", "accounting"),
    ],
)
def test_a_wrong_answer_fails_its_test_alone(bend, name):
    assert _failed(env={"QBRUNTIME_TEST_BEND": bend}, tool=cases.BENT) == [name]


# I61: one run is compared, too
def test_a_single_run_is_compared():
    words = ["validate", "--test", "repeat", "--repeat", "1"]
    done = cases.run(*words, env={"QBRUNTIME_TEST_BEND": "repeat"}, tool=cases.BENT)
    assert done.returncode == 1
    assert b"run 1 gives other bits than the first one of digit 0" in done.stdout


# I60: what /proc would tell is not taken for proven without it
def test_without_proc_nothing_is_said_of_it():
    if cases.IS_SANITIZED:
        pytest.skip("a sanitizer needs /proc")
    words = ["validate", "--test", "alloc", "--test", "accounting", "-J"]
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs x /proc && exec "$0" "$@"']
    if subprocess.run([*hide, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace can be had here")
    done = subprocess.run(
        [*hide, cases.QBINFO, *words],
        check=False,
        capture_output=True,
        env=cases.environment(),
    )
    alloc, accounting = json.loads(done.stdout)["tests"]
    assert done.returncode == 0 and alloc["state"] == "ok"
    assert alloc["text"].endswith("no /proc tells what came back")
    assert (accounting["state"], accounting["reason"]) == ("skip", "error")


# I61: those above the ones that are remembered are counted
def test_a_descriptor_is_missed_among_many():
    def open_many():
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
        for _ in range(1100):
            os.set_inheritable(os.dup(0), True)

    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2048:
        pytest.skip("fewer than 2048 descriptors may be open")
    words = ["validate", "--test", "accounting"]
    for bend, code in (("descriptor", 1), ("", 0)):
        done = cases.run(
            *words,
            env={"QBRUNTIME_TEST_BEND": bend},
            tool=cases.BENT,
            preexec_fn=open_many,
            close_fds=False,
        )
        assert done.returncode == code, done


def test_without_a_bend_it_is_qbinfo():
    assert _failed(code=0, tool=cases.BENT) == []


# I61: a job of the device that fails, by its number
def test_a_failed_job_fails_its_test_alone():
    told = cases.run(*VALIDATE, "-v").stderr.decode()
    counts = re.findall(r"^qbinfo: test (\w+): (\d+) jobs", told, re.M)
    last, plans = 0, {}
    for name, number in counts:
        last += int(number)
        if int(number):
            plans[name] = last
    # the only job of the only test whose jobs are not told
    plans["accounting"] = last + 1
    assert list(plans) == (
        "loopback noop order fence export repeat digits ops accounting".split()
    )
    for name, number in plans.items():
        env = {"QBRUNTIME_SOFT_FAULT": f"error:job={number}"}
        assert _failed(env=env) == [name]


# I61: a time limit that is over is a failure, too
def test_a_hanging_job_fails_its_test_alone():
    # the first one would strike the child of export, too
    env = {"QBRUNTIME_SOFT_FAULT": "hang:job=2", "QBRUNTIME_NPU_TIMEOUT_MS": "2000"}
    assert _failed(env=env) == ["loopback"]


# I61: the model that the tests compare with
def test_a_missing_model_fails_the_tests_of_it(tmp_path):
    shutil.copy(cases.LIBRARY / "libqbruntime.so.0", tmp_path)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert _failed(env=env) == ["repeat", "digits", "fault"]


# validate's part of what the page says of both, it and bench
def test_the_device_is_left_as_found():
    def show():
        document = cases.data("show")
        for name in ("time", "monotonic_ns"):
            del document["qbinfo"][name]
        return document

    before = show()
    assert _failed(code=0) == []
    assert show() == before


# I63
def test_others_on_the_device_keep_their_results():
    words = ["--test", "repeat", "--repeat", "20000", "--test", "order"]
    with subprocess.Popen(
        [cases.QBINFO, *VALIDATE, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=cases.environment(),
    ) as other:
        assert _failed(code=0) == []
        assert _failed(code=0) == []
        out, _ = other.communicate()
    assert other.returncode == 0 and b"digits x 20000: identical" in out


def _limit_memory():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


# I17
def test_little_memory_that_may_be_locked_is_enough():
    if os.geteuid():
        pytest.skip("only root can become another user")
    done = cases.run(*VALIDATE, preexec_fn=_limit_memory, cwd="/")
    assert done.returncode == 0, done
    assert b"4K both ways" in done.stdout


# I11
def test_a_closed_pipe_ends_it_silently():
    parent, child = os.pipe()
    os.close(parent)
    with os.fdopen(child, "wb") as out:
        done = cases.run(*VALIDATE, stdout=out, restore_signals=True)
    assert done.returncode == -signal.SIGPIPE and done.stderr == b""


# I13, I19, I64: the end of qbinfo is that of its children, whatever ends it
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_a_child_ends_with_qbinfo(end):
    ours, theirs = os.pipe()
    words = ["validate", "--test", "fault", "--json"]
    words += ["--timeout", "3" if end is None else "600"]
    with subprocess.Popen(
        [cases.BENT, *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cases.environment(QBRUNTIME_TEST_BEND="hold"),
    ) as process:
        os.close(theirs)
        if end is not None:
            assert select.select([ours], [], [], 60)[0] and os.read(ours, 1) == b"x"
            process.send_signal(end)
        out, words = process.communicate(timeout=60)
        assert process.returncode == (6 if end is None else -end)
    if end is None:
        assert b"the limit of 3 s (--timeout) ran out in the test fault" in words
        assert json.loads(out)["error"]["exit"] == 6
        os.read(ours, 1)
    assert select.select([ours], [], [], 60)[0] and os.read(ours, 1) == b""
    os.close(ours)


# I13, I26: a test that hangs takes nothing from those before it
@pytest.mark.parametrize("mode", ["--jsonl", "--noheadings"])
def test_each_test_is_told_as_it_ends(mode):
    words = ["validate", "--test", "open", "--test", "fault", "--timeout", "3", mode]
    done = cases.run(*words, env={"QBRUNTIME_TEST_BEND": "hold"}, tool=cases.BENT)
    assert done.returncode == 6
    first, *rest = done.stdout.decode().splitlines()
    if mode == "--jsonl":
        assert json.loads(first)["name"] == "open"
        assert [json.loads(line)["error"]["exit"] for line in rest] == [6]
    else:
        assert first.startswith("ok    open") and not rest
