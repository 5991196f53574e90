# SPDX-License-Identifier: MIT
"""doctor's limits: what was not read is not fine, and every group above binds."""

import os

import cases
import pytest


def _check(root, name, code=0):
    document = cases.data("doctor", "--sysroot", root, code=code)
    found = [check for check in document["checks"] if check["id"] == name]
    return [(check["state"], check["code"], check["text"]) for check in found], found


GROUPS = "proc/self/cgroup = 0::/a/b"
MIB = 1 << 20


# I48: a file that is not there, is no file, or holds no number
@pytest.mark.parametrize(
    "check,lines,words",
    [
        ("memlock", ["remove proc/self/limits"], "/proc/self/limits"),
        ("memlock", ["remove proc/self/limits", "proc/self/limits/"], "limits"),
        ("memlock", ["proc/self/limits = Max locked memory  abc  1 bytes"], "limits"),
        (
            "memlock",
            [
                "remove proc/self/status",
                "proc/self/limits = Max locked memory  65536  65536 bytes",
            ],
            "/proc/self/status",
        ),
        ("cgroup", ["remove proc/self/cgroup"], "/proc/self/cgroup"),
        ("cgroup", ["remove sys/fs/cgroup"], "/sys/fs/cgroup cannot be read"),
        ("cgroup", [GROUPS, "sys/fs/cgroup/a/memory.max/"], "a/memory.max cannot"),
        ("cgroup", [GROUPS, "sys/fs/cgroup/a/memory.max = 1x"], "is no number"),
        ("cgroup", [GROUPS, "sys/fs/cgroup/a/pids.max = -1"], "is no number"),
        ("cgroup", [GROUPS, "sys/fs/cgroup/a/memory.max = 9"], "memory.current"),
        ("cgroup", ["proc/self/cgroup = 4:memory:/a"], "cgroup/memory cannot"),
        ("container", ["remove proc/1/cgroup"], "/proc/1/cgroup"),
        ("contiguous", ["remove proc/meminfo"], "/proc/meminfo"),
        ("contiguous", ["proc/meminfo = MemTotal: 1 kB"], "huge pages"),
        (
            "contiguous",
            [
                "proc/meminfo = HugePages_Total: 9\\nHugePages_Free: 9"
                "\\nHugepagesize: 99999999999999999999 kB"
            ],
            "huge pages",
        ),
    ],
)
def test_what_was_not_read_is_skipped_with_the_reason(tree, check, lines, words):
    seen, _ = _check(tree("soft", *lines), check)
    assert [state for state, _, _ in seen].count("ok") == 0, seen
    assert any(state == "skip" and words in text for state, _, text in seen), seen


# I48
def test_export_is_what_a_device_tells(tree):
    seen, _ = _check(tree("bare", "dev/udmabuf = x"), "export")
    assert seen[0][0] == "skip"
    seen, _ = _check(tree("soft", "dev/udmabuf = x"), "export")
    assert seen == [("ok", None, "buffers can be exported as memfd, not as dma-buf")]


def _limits(folder, most, used):
    return [f"{folder}/memory.max = {most}", f"{folder}/memory.current = {used}"]


# I48: each group above binds too, of either version; numbers are decimal
@pytest.mark.parametrize(
    "lines",
    [
        _limits("sys/fs/cgroup/a", 100 * MIB, 90 * MIB),
        _limits("sys/fs/cgroup/a", f"0{100 * MIB}", f"0{90 * MIB}"),
        _limits("sys/fs/cgroup", 100 * MIB, 90 * MIB),
        _limits("sys/fs/cgroup/a", 100 * MIB, (1 << 64) - 1),
        [
            "proc/self/cgroup = 7:cpu,memory:/a/b\\n0::/a",
            f"sys/fs/cgroup/cpu,memory/a/memory.limit_in_bytes = {100 * MIB}",
            f"sys/fs/cgroup/cpu,memory/a/memory.usage_in_bytes = {90 * MIB}",
        ],
    ],
)
def test_the_tightest_of_all_groups_is_found(tree, lines):
    lines = [
        GROUPS,
        *_limits("sys/fs/cgroup/a/b", 900 * MIB, 10 * MIB),
        *lines,
    ]
    root = tree("soft", *lines)
    seen, found = _check(root, "cgroup")
    assert [(state, code) for state, code, _ in seen] == [("warn", "E-CGR-1")], seen
    assert "100M" in found[0]["text"] and "MemoryMax=" in found[0]["fix"]
    if "usage" not in str(lines):
        device = cases.data("show", "--sysroot", root)["devices"][0]
        assert device["limits"]["cgroup_memory_bytes"] == 100 * MIB


# I48: "no limit" of version 1 is a number
def test_the_largest_number_of_version_1_is_no_limit(tree):
    root = tree(
        "soft",
        "proc/self/cgroup = 4:memory:/a",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes = 9223372036854771712",
    )
    assert _check(root, "cgroup")[0] == [("ok", None, "no limit of a control group")]


# I48: nobody else's pages are taken, and those that are promised are not free
@pytest.mark.parametrize(
    "total,free,reserved,pages",
    [(100, 2, 0, 106), (10, 10, 10, 18), (10, 9, 2, 11), (0, 0, 0, 8)],
)
def test_the_pool_of_huge_pages_only_grows(tree, total, free, reserved, pages):
    root = tree(
        "soft",
        f"proc/meminfo = HugePages_Total: {total}\\nHugePages_Free: {free}"
        f"\\nHugePages_Rsvd: {reserved}\\nHugepagesize: 2048 kB",
        "proc/buddyinfo = Node 0, zone Normal 9 9 9 9 9 9 9 9 9 9 9",
    )
    found = _check(root, "contiguous")[1]
    assert found[0]["code"] == "E-CMA-2"
    assert found[0]["fix"] == f"sudo sysctl vm.nr_hugepages={pages}"


# I48: without a marker nobody is in a container
def test_other_nodes_are_elsewhere_only_in_a_container(tree):
    root = tree("subset", "remove run/.containerenv")
    assert _check(root, "container")[0] == [("ok", None, "not in a container")]
    root = tree("subset", "remove run/.containerenv", ".dockerenv = x")
    assert _check(root, "container")[0][0][:2] == ("ok", "E-CON-1")


# I53: limits and markers are captured, the names of groups are not
@pytest.mark.skipif(
    not os.path.exists("/proc/self/cgroup"), reason="no control groups here"
)
def test_a_capture_keeps_limits_and_no_name_of_a_group(tmp_path):
    cases.run("doctor", "--capture", tmp_path / "c")
    paths = [
        line.split(":", 2)[2] for line in open("/proc/self/cgroup", encoding="utf-8")
    ]
    names = {name for path in paths for name in path.strip().split("/") if name}
    for path in (tmp_path / "c").rglob("*"):
        assert not names & set(path.relative_to(tmp_path / "c").parts), path
    live = {check["id"]: check for check in cases.data("doctor")["checks"]}
    again = cases.data("doctor", "--sysroot", tmp_path / "c")
    for check in again["checks"]:
        if check["id"] in ("memlock", "container"):
            assert check["state"] == live[check["id"]]["state"], check
