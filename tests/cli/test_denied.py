# SPDX-License-Identifier: MIT
"""Nodes that may not be opened, or that another version drives: one answer."""

import os
import tempfile
from pathlib import Path

import cases
import pytest
import trees


# I48: a node is explained by the same code wherever it is asked for
@pytest.mark.parametrize(
    "code,err,node",
    [
        ("E-PERM-1", -13, '{"mode": 432, "owner": "root", "group": "npu"}'),
        ("E-PERM-2", -13, '{"mode": 384, "owner": "root", "group": "root"}'),
        ("E-PERM-2", -13, "{}"),
        ("E-PERM-3", -1, '{"mode": 438, "owner": "root", "group": "root"}'),
        ("E-PERM-4", -13, '{"mode": 432, "owner": "a", "group": "npu", "gid": 105}'),
        ("E-PERM-5", -13, '{"mode": 438, "owner": "a", "group": "npu", "gid": 105}'),
    ],
)
def test_show_and_doctor_give_one_code(tree, code, err, node):
    root = tree(
        "one-aries",
        "proc/self/status = Name: x\\nUid: 1 1 1 1\\nGid: 105 105 105 105",
        "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
        f'replies/dev-accel-accel7.json = {{"open": {err}, "node": {node}}}',
    )
    document = cases.data("doctor", "--sysroot", root, code=4)
    found = [check for check in document["checks"] if check["id"] == "permission"]
    assert [check["code"] for check in found] == [code]
    assert "0000" not in found[0]["text"] and "?" not in found[0]["text"]
    shown = cases.data("show", "/dev/accel/accel7", "--sysroot", root, code=4)
    assert shown["error"]["doc"] == code


# I48: who asks is known without /proc/self/status
def test_an_unread_status_is_not_root(tree):
    root = tree(
        "one-aries",
        "remove proc/self/status",
        "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
        'replies/dev-accel-accel7.json = {"open": -13, "node": '
        '{"mode": 384, "owner": "root", "group": "root"}}',
    )
    document = cases.data("doctor", "--sysroot", root, code=4)
    found = [check for check in document["checks"] if check["id"] == "permission"]
    assert found[0]["text"].startswith("user1 cannot open"), found


@pytest.mark.parametrize("major,code", [(0, "E-VER-1"), (2, "E-VER-2")])
def test_show_and_doctor_give_one_code_of_versions(tree, major, code):
    version = f'"major": {major}, "minor": 0, "patchlevel": 0'
    root = tree(
        "old-driver",
        'replies/dev-accel-accel1.json = {"open": 0, "version": {"name": "qbnpu", '
        + version
        + "}}",
    )
    document = cases.data("show", "/dev/accel/accel1", "--sysroot", root, code=5)
    assert document["error"]["doc"] == code


# I17, I82: what may not be read is not taken for what is not there
def test_an_unreadable_bus_is_not_an_empty_one():
    # which another user reaches, as pytest's folders are not
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = trees.unpack("bare", Path(folder) / "denied")
        (root / "sys/bus/pci/devices").mkdir(parents=True, mode=0)
        other = {"user": 65534, "group": 65534, "extra_groups": []}
        words = ["doctor", "--jsonl", "--sysroot", root]
        done = cases.run(*words, cwd="/", **({} if os.geteuid() else other))
        (root / "sys/bus/pci/devices").rmdir()
    assert done.returncode == 0, done
    assert b'"skip","code":null,"text":"/sys/bus/pci/devices cannot be' in done.stdout
    assert b"whether there is NPU hardware is not known" in done.stdout
