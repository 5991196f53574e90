# SPDX-License-Identifier: MIT
"""The manual says what the tool does: tables and examples (I91, I92)."""

import re
import shutil

import cases
import pytest

PAGE = (cases.TOP / "man" / "qbinfo.1.scd").read_text()
DOCTOR = (cases.TOP / "man" / "qbinfo-doctor.7.scd").read_text()
GUIDE = (cases.TOP / "docs" / "operating.md").read_text()


def _section(name):
    return re.search(rf"^# {name}\n(.*?)(?=^# |\Z)", PAGE, re.M | re.S)[1]


# I87, I91
def test_options_and_commands_are_those_of_the_table():
    entries = cases.table("options")
    commands = [entry[3] for entry in entries if entry[0] == "COMMAND"]
    assert sorted(re.findall(r"^\*(\w+)\*", _section("COMMANDS"), re.M)) == sorted(
        commands
    )
    wanted = []
    for entry in entries:
        if entry[0] == "OPTION":
            letter, name, argument = entry[2].strip("'"), entry[3], entry[4]
            line = f"*-{letter}*, *--{name}*" if letter != "0" else f"*--{name}*"
            wanted.append(line + (f" _{argument}_" if argument != "NULL" else ""))
    assert re.findall(r"^(\*-.*)$", _section("OPTIONS"), re.M) == wanted


# I91
def test_codes_topics_variables_and_files_are_documented():
    for number, name in re.findall(r"^ +(\d+) (\w+) ", cases.text("--help"), re.M):
        assert re.search(
            rf"\*{number}\*\n: ?\[? *{name}\n", _section("EXIT STATUS")
        ), name
    topics = cases.run("show", "-t", "?").stderr.decode().rsplit("are ", 1)[1].split()
    for topic in topics:
        assert f"_{topic}_" in _section("TOPICS")
    for name in (
        "QBRUNTIME_VISIBLE_DEVICES",
        "MACCEL_VISIBLE_DEVICES",
        "MBLT_DEVICES",
        "NO_COLOR",
    ):
        assert name in _section("ENVIRONMENT")
    for name in ("/sys/class/accel", "/sys/class/drm", "/proc/self/limits"):
        assert name in _section("FILES")


# I91
@cases.one_library
def test_every_check_is_in_the_manual_and_the_guide():
    for check in cases.data("doctor")["checks"]:
        assert re.search(rf"^\*{check['id']}\*$", DOCTOR, re.M)
        assert re.search(rf"^\| `{check['id']}` \|", GUIDE, re.M)


def _examples(text):
    pattern = r"fixture: ([\w-]+)[^\n]*\n```\n(.*?)^```"
    for name, block in re.findall(pattern, text, re.M | re.S):
        for example in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, out = example.partition("\n")
            yield name, line.split(), out


# I92
@pytest.mark.parametrize("text", [PAGE, GUIDE], ids=["qbinfo.1", "operating.md"])
def test_examples_print_what_the_page_shows(roots, text):
    shutil.copy(cases.DIGITS, roots)
    examples = list(_examples(text))
    assert len(examples) >= 4
    for name, words, out in examples:
        assert words[0] == "qbinfo"
        done = cases.run(*words[1:], "--sysroot", name, cwd=roots)
        assert done.stdout.decode() == out, words
