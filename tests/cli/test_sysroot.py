# SPDX-License-Identifier: MIT
"""Captured systems that are hostile, broken or partly missing (12.4)."""

import json
import os
import re
import resource

import cases
import pytest
import trees

VIEWS = [["summary"], ["list"], ["list", "--drm"], ["show"], ["version"], ["doctor"]]


# I13
@pytest.mark.parametrize("words", VIEWS)
def test_nothing_waits_for_what_is_no_file(roots, words):
    done = cases.run(*words, "--timeout", "20", "--sysroot", roots / "broken")
    assert done.returncode in (0, 3), done


# I13
def test_a_python_that_hangs_is_left_behind(tmp_path):
    os.mkfifo(tmp_path / "never")
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\nexec cat '{tmp_path}/never'\n")
    python.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    out = cases.text("version", "--timeout", "0.5", env=env)
    assert "it did not answer in time" in out


# I80
@pytest.mark.parametrize("words", [*VIEWS, ["stat"]])
def test_nothing_outside_the_tree_is_opened(roots, tmp_path, words):
    calls = "open,openat,openat2,execve,readlink,readlinkat,access,newfstatat"
    lines = cases.strace(tmp_path, calls, *words, "--sysroot", "mixed", cwd=roots)
    assert any("RESOLVE_IN_ROOT" in line for line in lines)
    usual = "/etc/ld.so|/lib|/usr/lib|/proc/self/task|/usr/share/locale|/dev/null"
    loader = re.compile(f'"({usual})')
    for line in lines:
        if "RESOLVE_IN_ROOT" in line or "execve(" in line or "ENOENT" in line:
            continue
        path = re.search(r'"([^"]*)"', line)
        if path is None or path[1] in ("mixed", "") or loader.search(line):
            continue
        assert path[1].startswith(str(cases.LIBRARY)), line


# I80: the kernel asks to try again when anybody renames anything meanwhile
def test_a_rename_elsewhere_loses_nothing(roots, tmp_path):
    words = ["list", "-l", "--sysroot", roots / "crowd"]
    again = ["openat2:error=EAGAIN:when=2+3"]
    path = tmp_path / "out"
    with path.open("wb") as out:
        lines = cases.strace(tmp_path, "openat2", *words, inject=again, stdout=out)
    assert any("EAGAIN" in line for line in lines)
    assert path.read_text("utf-8") == cases.text(*words)


# I81
def test_links_cannot_leave_the_tree(tree, tmp_path):
    (tmp_path / "canary").write_text("canary\n")
    (tmp_path / "replies").write_text('{"open": 0, "version": {"name": "canary"}}')
    deep = "../" * 12
    root = tree(
        "mixed",
        f"proc/sys/kernel/hostname -> {tmp_path}/canary",
        f"sys/devices/pci0/0000:00:02.0/vendor -> {deep}{tmp_path}/canary",
        f"replies/dev-dri-renderD128.json -> {tmp_path}/replies",
        f"replies/dev-accel-accel1.json -> {deep}{tmp_path}/replies",
        f"env -> {tmp_path}/canary",
    )
    for words in VIEWS:
        out = cases.run(*words, "--json", "--sysroot", root).stdout.decode()
        assert "canary" not in out.replace(str(tmp_path), "")


def _files(root):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                yield os.path.relpath(path, root)


# I82
def test_what_is_missing_or_damaged_stops_nothing(roots, tmp_path, validate):
    names = sorted(_files(roots / "mixed"))
    assert len(names) > 20
    for number, name in enumerate(names):
        root = trees.unpack("mixed", tmp_path / str(number))
        path = root / name
        for damage in (b"\xff\x00\x1b[nonsense", b"", None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            for command in ("show", "summary", "doctor"):
                done = cases.run(command, "--json", "--sysroot", root)
                assert done.returncode in (0, 3, 4, 5), (name, damage, done)
                document = json.loads(done.stdout)
                validate(document)
                if command == "show":
                    told = [entry["reason"] for entry in document["unavailable"]]
                    assert set(told) <= {
                        "not_supported",
                        "invalid",
                        "no_permission",
                        "suspended",
                        "not_loaded",
                        "needs_interval",
                    }


# I82, I84
def test_broken_values_are_null_and_invalid(roots):
    document = cases.data("--sysroot", roots / "broken")
    why = {entry["path"]: entry for entry in document["unavailable"]}
    nodes = document["drm_nodes"]
    assert nodes[0]["vendor_id"] is None and nodes[0]["numa_node"] is None
    for path in ("vendor_id", "numa_node"):
        assert why[f"drm_nodes[0].{path}"]["reason"] == "invalid"
        assert why[f"drm_nodes[0].{path}"]["detail"].startswith(
            "sys/class/drm/renderD128"
        )
    for path in (
        "drm_nodes[1].vendor_id",
        "drm_nodes[1].device_id",
        "drm_nodes[2].vendor_id",
    ):
        assert why[path]["reason"] == "invalid"
    device = document["devices"][1]
    assert device["cores"]["clusters"] is None
    assert device["cores"]["local_per_cluster"] is None
    assert why["devices[1].cores.clusters"]["reason"] == "invalid"
    shown = cases.data("show", "--sysroot", roots / "broken")["unavailable"]
    entry = {
        "path": "devices[0].limits.cgroup_memory_bytes",
        "reason": "invalid",
        "detail": "sys/fs/cgroup/group/memory.max",
    }
    assert entry in shown


# I83
def test_a_broken_reply_hides_its_device_alone(roots, tree):
    document = cases.data("--sysroot", roots / "broken")
    assert [device["id"] for device in document["devices"]] == [
        "aries-rb:0",
        "aries-rb:4",
    ]
    words = [warning["text"] for warning in document["warnings"]]
    assert any("devices.json" in text for text in words)
    assert any("/dev/accel/accel3" in text for text in words)
    nothing = tree("bare", "devices.json = [")
    assert cases.run("list", "--sysroot", nothing).returncode == 8
    assert cases.run("list", "--sysroot", nothing / "nowhere").returncode == 8


# I85
def test_long_files_are_not_read_to_the_end(roots, tmp_path):
    lines = cases.strace(tmp_path, "openat2,read", "--sysroot", roots / "broken")
    found = [
        i
        for i, line in enumerate(lines)
        if "device/uevent" in line and "accel1" in line
    ]
    assert found
    total = 0
    for line in lines[found[0] + 1 :]:
        if "openat2(" in line:
            break
        total += int(line.rsplit("= ", 1)[1].split()[0])
    assert 0 < total <= (64 << 10) + 1
    limit = (32 << 20, 32 << 20)
    done = cases.run(
        "--sysroot",
        roots / "broken",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit),
    )
    assert done.returncode == 0, done
