# SPDX-License-Identifier: MIT
"""Text and JSON of captured systems, byte for byte (golden/NAME/COMMAND).

QBINFO_UPDATE_GOLDEN=1 writes them anew: look at the difference before it is kept.
"""

import os
import re

import cases
import pytest
import trees

GOLDEN = trees.HERE / "golden"
# crowd is about numbers, broken about not failing: test_sysroot.py
NAMES = [name for name in trees.names() if name not in ("crowd", "broken")]
VIEWS = {
    "summary.txt": ["summary"],
    "list.txt": ["list"],
    "tree.txt": ["list", "-l"],
    "drm.txt": ["list", "--drm"],
    "show.txt": ["show"],
    "version.txt": ["version"],
    "doctor.txt": ["doctor"],
    "caps.txt": ["caps"],
    "stat.txt": ["stat"],
}
JSON_VIEWS = {
    "summary.json": ["summary", "--json"],
    "show.json": ["show", "--json"],
    "doctor.json": ["doctor", "--json"],
    "caps.json": ["caps", "--json"],
    "stat.json": ["stat", "--json"],
}


def _compare(path, out):
    version = cases.text("--version").split()[1]
    out = out.replace(version, "@VERSION@")
    if "QBINFO_UPDATE_GOLDEN" in os.environ:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(out, encoding="utf-8")
    assert out == path.read_text(encoding="utf-8")


# I34, I36, I39, I71, I76: each file says more than a word here could
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("view", VIEWS)
def test_text_is_as_stored(roots, name, view):
    done = cases.run(*VIEWS[view], "--sysroot", name, cwd=roots)
    _compare(GOLDEN / name / view, done.stdout.decode())


@pytest.mark.parametrize("name", ["bare", "soft", "mixed", "noperm"])
@pytest.mark.parametrize("view", JSON_VIEWS)
def test_json_is_as_stored(roots, name, view):
    done = cases.run(*JSON_VIEWS[view], "--sysroot", name, cwd=roots)
    _compare(GOLDEN / name / view, done.stdout.decode())


# I07
def test_text_fits_100_columns_and_nothing_is_cut():
    for path in sorted(GOLDEN.glob("*/*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert len(line) <= 100 or path.parent.name == "hostile", (path, line)


# I50
def test_every_fix_is_complete():
    fixes = [
        line.strip()
        for path in sorted(GOLDEN.glob("*/doctor.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith("fix:")
    ]
    assert fixes
    for fix in fixes:
        assert not any(
            mark in fix for mark in ("<", ">", "...", "(null)", "?", "%")
        ), fix


# I32
def test_each_warning_ends_with_the_command_that_says_more(roots):
    lines = []
    for name in ("mixed", "lost", "noperm", "old-driver"):
        out = cases.text("--sysroot", name, cwd=roots).splitlines()
        marked = [line for line in out if line.startswith("!")]
        assert out[len(out) - len(marked) :] == marked
        lines += marked
    assert len(lines) == 4
    for line in lines:
        command = re.search(r"\(qbinfo (.* --sysroot .*)\)$", line)[1].split()
        # it runs as it stands
        assert cases.run(*command, cwd=roots).stdout


# I31
def test_without_hardware_the_software_npu_is_named(roots):
    out = cases.text("--sysroot", roots / "soft")
    assert "software" in out and "the software NPU is used" in out
    assert "No NPU, neither" in cases.text("--sysroot", roots / "bare")
    live = cases.data("list")["devices"]
    assert [device["kind"] for device in live] == ["software"]
    env = {"QBRUNTIME_SOFT_DEVICES": "none"}
    assert cases.data("list", env=env)["devices"] == []
