# SPDX-License-Identifier: MIT
"""What scripts may rely on (docs/spec/qbinfo.md, 12.1)."""

import json
import os
import re
import subprocess
import time

import cases
import jsonschema
import pytest
import trees

ALL = [(command, name) for command in cases.COMMANDS for name in trees.names()]

LIVE = [
    pytest.param(name, marks=cases.one_library if name == "doctor" else ())
    for name in [*cases.COMMANDS, *cases.LIVE_COMMANDS]
    if name not in cases.NOT_LIVE
]


def _check_out(words, out):
    """stdout is of its mode, and nothing else."""
    if "--jsonl" in words:
        for line in out.splitlines():
            assert isinstance(json.loads(line), dict)
    elif "--json" in words:
        json.loads(out)
    else:
        assert not out.startswith("{")


# I01, I18 (in a build with a sanitizer), U65
@pytest.mark.parametrize("command,name", ALL)
def test_stdout_is_data_and_stderr_is_words(roots, command, name):
    for words in cases.modes(command):
        done = cases.run(*words, "-q", "--sysroot", name, cwd=roots)
        _check_out(words, done.stdout.decode())
        assert bool(done.stderr) == bool(done.returncode), (words, done)
        closed = subprocess.run(
            [
                "sh",
                "-c",
                'exec 2>&-; exec "$@"',
                "sh",
                cases.QBINFO,
                *words,
                "--sysroot",
                name,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=roots,
            env=cases.environment(),
            check=False,
        )
        assert (closed.stdout, closed.returncode) == (done.stdout, done.returncode)


# I01: what is measured differs from run to run
@pytest.mark.parametrize("command", cases.LIVE_COMMANDS)
def test_live_stdout_is_data_and_stderr_is_words(command):
    for words in cases.modes(command):
        done = cases.run(*words, "-q")
        _check_out(words, done.stdout.decode())
        assert (done.stderr, done.returncode) == (b"", 0)
        closed = ["sh", "-c", 'exec 2>&-; exec "$@"', "sh", cases.QBINFO, *words]
        out = subprocess.run(
            closed, stdout=subprocess.PIPE, env=cases.environment(), check=True
        )
        _check_out(words, out.stdout.decode())


# I02, U66
@pytest.mark.parametrize(
    "code,words,env",
    [
        (1, cases.LIVE_COMMANDS["bench"][0], {"QBRUNTIME_SOFT_FAULT": "error:job=5"}),
        (2, ["lst"], {}),
        (3, ["show", "aries-rb:7", "--sysroot", "mixed"], {}),
        (3, ["list", "--require-device", "--sysroot", "soft"], {}),
        (4, ["show", "/dev/accel/accel2", "--sysroot", "noperm"], {}),
        (4, ["doctor", "--sysroot", "noperm"], {}),
        (5, ["version", "--sysroot", "old-driver"], {}),
        (5, ["doctor", "--sysroot", "old-driver"], {}),
        (6, ["doctor", "--timeout", "0.000001"], {}),
        (7, ["doctor", "--sysroot", "lost"], {}),
        (8, ["model", "/dev/null"], {}),
        (8, ["bench", "-m", "/dev/null"], {}),
        (8, ["list", "--sysroot", "nowhere"], {}),
        (9, ["show", "--strict", "--sysroot", "soft"], {}),
        pytest.param(
            10,
            ["doctor"],
            {"QBRUNTIME_SOFT_FAULT": "infer#1=EIO"},
            marks=cases.one_library,
        ),
    ],
)
def test_failures_are_one_document_and_one_sentence(roots, code, words, env):
    done = cases.run(*words, "--json", cwd=roots, env=env)
    assert done.returncode == code, done
    error = json.loads(done.stdout)["error"]
    assert error["exit"] == code
    assert error["name"] and error["message"]
    assert done.stderr.decode().count("\n") == 1


# I03, U66
@pytest.mark.parametrize("command,name", ALL)
def test_documents_are_valid_under_their_strict_schema(roots, validate, command, name):
    for words in cases.modes(command):
        if "--json" in words:
            done = cases.run(*words, "--sysroot", name, cwd=roots)
            validate(json.loads(done.stdout))


# I03
@pytest.mark.parametrize("command", LIVE)
def test_live_documents_are_valid_too(validate, command):
    validate(cases.data(*cases.modes(command)[0]))
    done = cases.run("show", "nothing", "--json")
    validate(json.loads(done.stdout))


def _as_other(roots, words, **more):
    return cases.run(*words, "--sysroot", "mixed", cwd=roots, **more).stdout


# I04, I05
@pytest.mark.parametrize(
    "command", [name for name in cases.COMMANDS if name != "model"]
)
def test_the_same_tree_gives_the_same_bytes(roots, command):
    for words in cases.modes(command):
        first = _as_other(roots, words)
        for env in (
            {"TZ": "Asia/Tokyo", "COLUMNS": "20"},
            {"LANG": "de_DE.UTF-8"},
            {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"},
        ):
            assert _as_other(roots, words, env=env) == first
        assert _as_other(roots, words, umask=0o077) == first
        if not os.geteuid():
            other = {"user": 65534, "group": 65534, "extra_groups": []}
            assert _as_other(roots, words, **other) == first
        assert not re.search(rb"\d,\d+[KMG%CW]", first)


# I06, Q818
def test_a_terminal_changes_lines_and_colour_alone(roots):
    words = ["doctor", "--sysroot", roots / "noperm"]
    plain = cases.run(*words).stdout.decode()
    for columns in (40, 80, 200):
        shown = cases.in_terminal(*words, columns=columns)
        assert "\033[31m" in shown
        assert re.sub(r"\033\[\d+m", "", shown) == plain
    assert "\033" not in cases.in_terminal(*words, env={"NO_COLOR": "1"})
    assert "\033" not in cases.in_terminal(*words, "--color=never")
    assert "\033[31m" in cases.run(*words, "--color=always").stdout.decode()
    summary = ["--sysroot", roots / "mixed"]
    for columns in (40, 200):
        assert cases.in_terminal(*summary, columns=columns) == cases.text(*summary)
    tree = ["list", "-l", "--sysroot", roots / "mixed"]
    assert "|-Cluster0" in cases.text(*tree)
    assert "├─Cluster0" in cases.in_terminal(*tree)


def _paths(schema, prefix=""):
    for name, member in schema["properties"].items():
        if name == "extra":
            continue
        if member.get("type") == "object":
            yield from _paths(member, f"{prefix}{name}.")
        else:
            yield prefix + name


# I08, I22
def test_one_list_of_fields_is_used_everywhere():
    fields = [entry[1:] for entry in cases.table("fields") if entry[0] == "FIELD"]
    places = [(entry[0], entry[2]) for entry in fields]
    assert len(places) == len(set(places))
    letters = {"list": "L", "show": "R", "summary": "S", "model": "M", "doctor": "D"}
    letters.update({"caps": "C", "validate": "A", "bench": "B", "stat": "T"})
    lists = {"model": "MODELS", "doctor": "CHECKS", "validate": "TESTS"}
    lists["stat"] = "SAMPLES"
    lists["bench"] = "RESULTS"
    for command, letter in letters.items():
        name = lists.get(command, "DEVICES")
        wanted = [
            entry[2] for entry in fields if entry[0] == name and letter in entry[8]
        ]
        argument = ["nothing"] if command == "model" else []
        lines = cases.text(command, *argument, "-o", "help").splitlines()
        assert lines[0].split() == ["PATH", "HEADING", "TYPE", "UNIT", "COMMANDS"]
        assert [line.split()[0] for line in lines[1:]] == wanted
        key = name.lower()
        schema = json.loads(cases.text("schema", command))["properties"][key]["items"]
        assert sorted(_paths(schema)) == sorted(wanted)


# I22
def test_every_path_of_help_is_accepted(roots):
    for command in ("list", "show", "summary", "doctor", "caps", "stat"):
        for line in cases.text(command, "-o", "help").splitlines()[1:]:
            path, *rest = line.split()
            words = [command, "--sysroot", roots / "mixed", "-n", "-o"]
            assert cases.run(*words, path).returncode == 0
            if command != "list":
                continue
            assert cases.text(*words, rest[0].lower()) == cases.text(*words, path)
    for command, words in cases.LIVE_COMMANDS.items():
        lines = cases.text(command, "-o", "help").splitlines()[1:]
        paths = ",".join(line.split()[0] for line in lines)
        assert cases.text(*words[0], "-o", paths)


# I09, K031
def test_what_a_newer_driver_adds_is_extra(roots):
    old = cases.data("show", "--sysroot", "mixed", cwd=roots)
    new = cases.data("show", "--sysroot", "new-driver", cwd=roots)
    extra = new["devices"][0].pop("extra")
    assert extra == {
        "query.WEATHER": '{"degrees":21}',
        "device.turbo": "true",
        "device.slots": "3",
    }
    new["qbinfo"]["sysroot"] = "mixed"
    assert new == old


# I11
def test_a_closed_pipe_ends_it_silently(roots):
    parent, child = os.pipe()
    os.close(parent)
    with os.fdopen(child, "wb") as out:
        done = cases.run(
            "list", "--sysroot", roots / "crowd", stdout=out, restore_signals=True
        )
    assert done.returncode == -13 and done.stderr == b""


# I12
@pytest.mark.parametrize("command", [*cases.COMMANDS, *cases.LIVE_COMMANDS])
def test_a_failed_write_is_a_failure(roots, command):
    root = ["--sysroot", roots / "mixed"] if command in cases.COMMANDS else []
    for words in cases.modes(command):
        with open("/dev/full", "wb") as out:
            done = cases.run(*words, *root, stdout=out)
        assert done.returncode == 1
        assert done.stderr.count(b"standard output cannot be written") == 1


# I12, I19: the exit has its sentence, also where there is another cause
@pytest.mark.parametrize("words", [["doctor"], ["doctor", "-J"], ["show", "x", "-J"]])
def test_a_failed_write_is_told_after_another_failure(roots, words):
    with open("/dev/full", "wb") as out:
        done = cases.run(*words, "--sysroot", roots / "noperm", stdout=out)
    first, last = done.stderr.decode().splitlines()
    assert done.returncode == 1 and "cannot be written" not in first
    assert "standard output cannot be written" in last


# I14
@pytest.mark.parametrize("command", cases.COMMANDS)
def test_hostile_names_never_reach_a_terminal(roots, command):
    for words in cases.modes(command):
        out = cases.run(*words, "--sysroot", roots / "hostile", cwd=roots).stdout
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out), words
        assert not re.search(r"[\x80-\x9f]", out.decode("utf-8"))
    out = cases.text("list", "--drm", "--sysroot", roots / "hostile")
    assert "evil\\x1b[31m" in out
    node = cases.data("list", "--drm", "--sysroot", roots / "hostile")["drm_nodes"][3]
    assert node["module"] == "evil\x1b[31m"
    assert node["compatible"] == ['a"b$(touch canary)\x1b]0;title\x07\ufffd\ufffd']
    assert not (roots / "canary").exists()


# I14, I32
def test_a_hostile_name_is_one_word_of_a_command(tree, tmp_path):
    name = "a\x1b[31m $(touch canary)'; touch canary"
    root = tree("lost")
    for path in (root / "replies").iterdir():
        text = path.read_text().replace("aries-rb", name.replace("\x1b", "\\u001b"))
        path.write_text(text)
    odd = root.rename(tmp_path / "odd\x1b[31m")
    done = cases.run("-v", "--sysroot", odd)
    for out in (done.stdout, done.stderr):
        assert b"\\x1b" in out and b"\x1b" not in out
    warnings = cases.data("--sysroot", odd)["warnings"]
    commands = [line["command"] for line in warnings]
    commands += re.findall(r"^! .*\((qbinfo .*)\)$", done.stdout.decode(), re.M)
    assert len(commands) == 4
    for command in commands:
        words = ["sh", "-c", f"set -- {command}; echo $#"]
        out = subprocess.run(words, capture_output=True, cwd=tmp_path, check=True)
        assert out.stdout == b"7\n"
    assert not (tmp_path / "canary").exists()


# I16
def test_a_suspended_device_is_not_woken(roots):
    document = cases.data("--sysroot", roots / "mixed")
    gpu = document["drm_nodes"][2]
    assert (gpu["driver"], gpu["version"]) == ("amdgpu", None)
    entry = {"path": "drm_nodes[2].version", "reason": "suspended", "detail": None}
    assert entry in document["unavailable"]


# I17
@pytest.mark.parametrize("command", LIVE)
def test_ordinary_users_get_results(command):
    if os.geteuid():
        pytest.skip("only root can become another user")
    done = cases.run(
        *cases.modes(command)[0], user=65534, group=65534, extra_groups=[], cwd="/"
    )
    assert done.returncode == 0, done
    assert done.stdout


# I20, U64
@pytest.mark.parametrize("name", ["soft", "regulus"])
def test_what_is_not_available_fails_with_strict_alone(roots, name):
    words = ["show", "--sysroot", roots / name]
    assert cases.run(*words).returncode == 0
    assert cases.run(*words, "--strict").returncode == 9
    assert cases.run(*words, "--strict", "-o", "id,kind,cores.clusters").returncode == 0
    assert cases.run(*words, "--strict", "-o", "power.watts").returncode == 9


# I23
def test_headings_go_and_numbers_get_plain(roots):
    words = ["--sysroot", roots / "mixed"]
    full = cases.text(*words).splitlines()
    bare = cases.text(*words, "-n").splitlines()
    assert bare and set(bare) < set(full)
    assert not any(line.startswith(("qbinfo", "DEVICE", "DRM", "!")) for line in bare)
    plain = cases.text("show", *words, "-bn", "-o", "memory.pinned_limit_bytes").strip()
    memory = cases.data("show", *words)["devices"][0]["memory"]
    assert int(plain) == memory["pinned_limit_bytes"]
    report = cases.text("show", *words, "-b", "-t", "memory")
    for name in ("pinned_limit_bytes", "device_total_bytes", "device_used_bytes"):
        assert str(memory[name]) in report
    model = cases.data("model", cases.DIGITS)["models"][0]
    out = cases.text("model", "-bn", cases.DIGITS)
    assert str(model["variants"][0]["weights_bytes"]) in out and "VARIANT" not in out


# I26
def test_lines_are_whole_objects_of_the_item_type(roots):
    schemas = {}
    keys = {"list": "devices", "show": "devices", "summary": "devices"}
    keys.update({"doctor": "checks", "model": "models", "caps": "devices"})
    keys["stat"] = "samples"
    for command, key in keys.items():
        schema = json.loads(cases.text("schema", command, "--strict"))
        schemas[command] = jsonschema.Draft202012Validator(
            schema["properties"][key]["items"]
        )
    for command, validator in schemas.items():
        name = "mixed" if command == "stat" else "four-chips"
        words = [*cases.COMMANDS[command][0], "--sysroot", roots / name]
        out = cases.text(*words, "--jsonl")
        document = cases.data(*words)
        lines = [json.loads(line) for line in out.splitlines()]
        assert lines == document[keys[command]] and out.endswith("\n")
        for line in lines:
            validator.validate(line)
    schema = json.loads(cases.text("schema", "bench", "--strict"))
    validator = jsonschema.Draft202012Validator(
        schema["properties"]["results"]["items"]
    )
    out = cases.text(*cases.LIVE_COMMANDS["bench"][0], "--jsonl")
    assert len(out.splitlines()) == 2 and out.endswith("\n")
    for line in out.splitlines():
        validator.validate(json.loads(line))


# I27
def test_large_integers_come_out_exactly(roots):
    device = cases.data("show", "aries-rb:4", "--sysroot", roots / "broken")["devices"][
        0
    ]
    assert device["memory"]["device_total_bytes"] == 2**53 + 1
    assert device["cores"]["global_per_cluster"] == 2**64 - 1


# I28
def test_times_are_rfc_3339_with_nine_digits(roots):
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
    tool = cases.data("list", "--sysroot", roots / "soft")["qbinfo"]
    assert tool["time"] == "2026-01-02T03:04:05.000000006Z"
    assert tool["monotonic_ns"] == 123456789000
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    live = cases.data("list")["qbinfo"]
    assert re.fullmatch(pattern, live["time"])
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert before <= live["monotonic_ns"] <= after


# I65
def test_the_summary_reads_each_file_once_and_starts_nothing(roots, tmp_path):
    calls = "openat,openat2,clone,clone3,fork,vfork,execve"
    lines = cases.strace(tmp_path, calls, "--sysroot", roots / "mixed")
    assert len([line for line in lines if "execve(" in line]) == 1
    assert not any("clone" in line or "fork(" in line for line in lines)
    read = [
        re.search(r'"([^"]*)"', line)[1]
        for line in lines
        if "openat2(" in line and "O_PATH" not in line and "O_DIRECTORY" not in line
    ]
    assert read and len(read) == len(set(read))
