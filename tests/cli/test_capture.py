# SPDX-License-Identifier: MIT
"""doctor --capture: what is kept of variables, markers, and of half a capture."""

import json
import shlex
import shutil

import cases
import pytest

VISIBLE = "QBRUNTIME_VISIBLE_DEVICES"


# I53: what nobody knows, and what is a path, is named and no more
def test_values_are_kept_of_known_variables_without_paths(tmp_path):
    env = {
        VISIBLE: "0",
        "QBRUNTIME_LOG_LEVEL": "/home/somebody/log",
        "QBRUNTIME_TOKEN": "secret",
        "MBLT_OTHER": "",
    }
    cases.run("doctor", "--capture", tmp_path / "c", env=env)
    lines = (tmp_path / "c" / "env").read_text().splitlines()
    assert sorted(lines) == [
        "MBLT_OTHER=",
        "QBRUNTIME_LOG_LEVEL=set",
        "QBRUNTIME_TOKEN=set",
        f"{VISIBLE}=0",
    ]


# I53
@pytest.mark.parametrize("value", ["0\nMBLT_DEVICES=7", "a\\nb", "\\", "x\\\n"])
def test_a_line_feed_makes_no_other_variable(tmp_path, value):
    cases.run("doctor", "--capture", tmp_path / "c", env={VISIBLE: value})
    assert len((tmp_path / "c" / "env").read_text().splitlines()) == 1
    again = cases.data("show", "-t", "env", "--sysroot", tmp_path / "c")
    for device in again["devices"]:
        assert [(line["name"], line["value"]) for line in device["env"]] == [
            (VISIBLE, value)
        ]
    document = cases.run("doctor", "--json", "--sysroot", tmp_path / "c")
    assert b"E-VIS-1" in document.stdout and b"E-VIS-4" not in document.stdout


# I53: the time ran out, so nobody takes it for a system
def test_half_a_capture_is_none(tmp_path):
    done = cases.run("doctor", "--capture", tmp_path / "c", "--timeout", "0.000001")
    assert done.returncode == 6
    assert f"what is in {tmp_path}/c is not whole".encode() in done.stderr
    cases.run("doctor", "--capture", tmp_path / "whole")
    assert not (tmp_path / "whole" / "partial").exists()
    (tmp_path / "whole" / "partial").write_text("")
    done = cases.run("list", "--sysroot", tmp_path / "whole")
    assert done.returncode == 8 and b"is not whole" in done.stderr


# I53: -v tells what it told without --capture
def test_verbose_is_told_beside_a_capture(tmp_path):
    plain = cases.run("doctor", "-v").stderr.decode().splitlines()
    both = cases.run("doctor", "-v", "--capture", tmp_path / "c").stderr.decode()
    told = [line.split(":")[1] for line in plain if line.startswith("qbinfo: read")]
    assert told and all(words in both for words in told)
    assert (tmp_path / "c" / "devices.json").exists()


# I40: what is pinned lies in the memory of the host
@cases.one_library
def test_pinned_memory_is_the_hosts_and_not_the_devices():
    env = {"QBRUNTIME_SOFT_MEMORY": "8M"}
    memory = cases.data("show", env=env)["devices"][0]["memory"]
    assert memory["device_total_bytes"] == 8 << 20
    without = cases.data("show")["devices"][0]["memory"]
    assert memory["pinned_limit_bytes"] == without["pinned_limit_bytes"]


# I06
@pytest.mark.parametrize("term,is_painted", [("xterm", True), ("dumb", False)])
def test_a_dumb_terminal_has_no_colour(roots, term, is_painted):
    words = ["doctor", "--sysroot", roots / "noperm"]
    out = cases.in_terminal(*words, env={"TERM": term})
    assert ("\033[3" in out) == is_painted
    out = cases.in_terminal(*words, "--color=always", env={"TERM": term})
    assert "\033[3" in out


# I48: what a warning says to run can be run
def test_the_command_of_a_broken_model_names_it(tmp_path):
    path = tmp_path / "it's a model.qbm"
    shutil.copy(cases.DIGITS, path)
    path.write_bytes(path.read_bytes()[:100])
    document = cases.run("model", path, cases.DIGITS, "--json")
    command = json.loads(document.stdout)["warnings"][0]["command"]
    assert shlex.split(command) == ["qbm", "verify", str(path)]
    # no name is taken for an option
    path.rename(tmp_path / "-o.qbm")
    words = ["model", "--json", "--", "-o.qbm", cases.DIGITS]
    document = json.loads(cases.run(*words, cwd=tmp_path).stdout)
    assert document["warnings"][0]["command"] == "qbm verify ./-o.qbm"
