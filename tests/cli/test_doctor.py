# SPDX-License-Identifier: MIT
"""doctor: finds what was planted, mends nothing itself, captures (12.2)."""

import os
import re
import shutil
import subprocess
import sys

import cases
import pytest
import trees


def _denied(err, mode, group):
    node = f'{{"mode": {mode}, "owner": "root", "group": "{group}"}}'
    return f'replies/dev-accel-accel7.json = {{"open": {err}, "node": {node}}}'


def _version(number, major, minor):
    version = f'"major": {major}, "minor": {minor}, "patchlevel": 0'
    path = f"replies/dev-accel-accel{number}.json"
    return f'{path} = {{"open": 0, "version": {{"name": "qbnpu", {version}}}}}'


def _in_state(number):
    path, name = "replies/dev-accel-accel0.json", '"name": "aries-rb"'
    version = '"version": {"name": "qbnpu", "major": 1, "minor": 0, "patchlevel": 0}'
    sensors = '[{"id": 13, "index": 0, "value": 1}]' if number == 0 else "[]"
    query = f'"DEVICE": {{"kind": 1, {name}, "state": {number}}}, "SENSORS": {sensors}'
    return f'{path} = {{"open": 0, {version}, "query": {{{query}}}}}'


# check, tree, lines that plant the cause, state, code, exit, words
PLANTED = [
    ("health", "one-aries", [_in_state(3)], "fail", "E-HW-1", 7, "modprobe qbnpu"),
    ("health", "one-aries", [_in_state(2)], "fail", "E-HW-2", 10, "degraded"),
    ("health", "one-aries", [_in_state(0)], "warn", "E-HW-3", 0, "-t thermal"),
    (
        "node",
        "bare",
        ["sys/bus/pci/devices/0000:03:00.0/vendor = 0x209f"],
        "fail",
        "E-NODE-1",
        3,
        "0000:03:00.0",
    ),
    ("node", "bare", ["dev/aries0 = x"], "warn", "E-NODE-3", 0, "/dev/aries0"),
    (
        "permission",
        "one-aries",
        [
            "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
            _denied(-13, 432, "npu"),
        ],
        "fail",
        "E-PERM-1",
        4,
        "usermod -aG npu user1",
    ),
    (
        "permission",
        "one-aries",
        [
            "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
            _denied(-13, 384, "root"),
        ],
        "fail",
        "E-PERM-2",
        4,
        "setfacl -m u:user1:rw /dev/accel/accel7",
    ),
    (
        "permission",
        "one-aries",
        [
            "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
            _denied(-1, 438, "root"),
        ],
        "fail",
        "E-PERM-3",
        4,
        "--device /dev/accel/accel7",
    ),
    (
        "permission",
        "one-aries",
        [
            "proc/self/status = Name: x\\nUid: 1 1\\nGroups: 4 105 ",
            "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
            _denied(-13, 432, "npu").replace('"mode"', '"gid": 105, "mode"'),
        ],
        "fail",
        "E-PERM-4",
        4,
        "setfacl -m u:user1:rw /dev/accel/accel7",
    ),
    (
        "permission",
        "one-aries",
        [
            "node accel accel7 pci 0000:07:00.0 qbnpu 0x209f 0x1 261:7",
            _denied(-13, 438, "render"),
        ],
        "fail",
        "E-PERM-5",
        4,
        "findmnt -T /dev/accel/accel7",
    ),
    ("version", "old-driver", [], "fail", "E-VER-1", 5, "has uapi 0.9, the library"),
    (
        "version",
        "old-driver",
        [_version(1, 2, 0)],
        "fail",
        "E-VER-2",
        5,
        "update the library",
    ),
    (
        "memlock",
        "soft",
        ["proc/self/limits = Max locked memory         65536    65536    bytes"],
        "warn",
        "E-MEM-1",
        0,
        "64K",
    ),
    (
        "contiguous",
        "soft",
        [
            "proc/meminfo = HugePages_Total: 100\\nHugePages_Free: 3"
            "\\nHugePages_Rsvd: 1\\nHugepagesize: 2048 kB"
        ],
        "warn",
        "E-CMA-2",
        0,
        "sysctl vm.nr_hugepages=106",
    ),
    (
        "contiguous",
        "soft",
        [
            "proc/meminfo = HugePages_Total: 0\\nHugePages_Free: 0"
            "\\nHugepagesize: 2048 kB",
            "proc/buddyinfo = Node 0, zone Normal 9 9 9 9 9 9 9 9 9 5 1",
        ],
        "warn",
        "E-CMA-3",
        0,
        "vm.compact_memory=1 vm.nr_hugepages=8",
    ),
    (
        "contiguous",
        "soft",
        [
            "proc/meminfo = HugePages_Total: 0\\nHugePages_Free: 0"
            "\\nHugepagesize: 2048 kB",
            "proc/buddyinfo = Node 0, zone Normal 9 9 9 9 9 9 9 9 9 4 2",
        ],
        "warn",
        "E-CMA-2",
        0,
        "sysctl vm.nr_hugepages=8",
    ),
    (
        "contiguous",
        "one-aries",
        ["proc/meminfo = CmaTotal: 65536 kB\\nCmaFree: 1024 kB"],
        "warn",
        "E-CMA-1",
        0,
        "1M of the contiguous area",
    ),
    (
        "iommu",
        "one-aries",
        [
            "remove sys/devices/pci0/0000:03:00.0/iommu_group",
            "sys/devices/pci0/0000:03:00.0/removable = removable",
        ],
        "warn",
        "E-IOM-1",
        0,
        "0000:03:00.0",
    ),
    (
        "cgroup",
        "soft",
        [
            "sys/fs/cgroup/memory.max = 104857600",
            "sys/fs/cgroup/memory.current = 52428800",
        ],
        "warn",
        "E-CGR-1",
        0,
        "100M",
    ),
    (
        "cgroup",
        "soft",
        ["sys/fs/cgroup/pids.max = 20", "sys/fs/cgroup/pids.current = 10"],
        "warn",
        "E-CGR-2",
        0,
        "TasksMax=74",
    ),
    ("container", "subset", [], "ok", "E-CON-1", 0, "elsewhere: 3"),
    (
        "visibility",
        "soft",
        ["env = QBRUNTIME_VISIBLE_DEVICES=first"],
        "fail",
        "E-VIS-1",
        3,
        "malformed",
    ),
    (
        "visibility",
        "bare",
        ["env = QBRUNTIME_VISIBLE_DEVICES=7"],
        "fail",
        "E-VIS-2",
        3,
        "hides all",
    ),
    ("visibility", "soft", ["env = MBLT_DEVICES=0,7"], "warn", "E-VIS-3", 0, "7"),
    (
        "visibility",
        "soft",
        ["env = QBRUNTIME_VISIBLE_DEVICES=0\\nMBLT_DEVICES=1"],
        "warn",
        "E-VIS-4",
        0,
        "contradicts",
    ),
    (
        "visibility",
        "soft",
        ["env = MBLT_VISIBLE_DEVICES=0"],
        "warn",
        "E-VIS-5",
        0,
        "no effect",
    ),
]


def _found(document):
    return [
        check
        for check in document["checks"]
        if check["state"] in ("warn", "fail") or check["code"]
    ]


# I48, I50
@pytest.mark.parametrize(
    "check,name,lines,state,code,exit_code,words",
    PLANTED,
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_the_planted_cause_is_found_and_no_other(
    tree, check, name, lines, state, code, exit_code, words
):
    root = tree(name, *lines)
    document = cases.data("doctor", "--sysroot", root, code=exit_code)
    found = _found(document)
    assert [(c["id"], c["state"], c["code"]) for c in found] == [
        (check, state, code)
    ], found
    if state != "ok":
        assert found[0]["fix"] and not re.search(
            r"[<>]|\.\.\.|\(null\)", found[0]["fix"]
        )
    assert words in f"{found[0]['text']} {found[0]['fix']}"
    assert found[0]["doc"] == "qbinfo-doctor(7)"
    shown = cases.run("doctor", "--sysroot", root)
    assert shown.returncode == exit_code and f"({code})" in shown.stdout.decode()


# I48
def test_trees_without_a_fault_are_found_sound(roots):
    for name in (
        "bare",
        "soft",
        "one-aries",
        "four-chips",
        "regulus",
        "mixed",
        "accel-only",
    ):
        document = cases.data("doctor", "--sysroot", roots / name)
        assert _found(document) == [], name


# I48: what only a live system can have
@cases.one_library
def test_a_software_npu_that_fails_is_found():
    env = {"QBRUNTIME_SOFT_FAULT": "infer#1=EIO"}
    document = cases.data("doctor", env=env, code=10)
    found = [check for check in document["checks"] if check["id"] == "software"]
    assert (found[0]["state"], found[0]["code"]) == ("fail", "E-SOFT-1")


# I48
def test_two_libraries_are_found(tmp_path):
    file = next(
        path
        for path in cases.LIBRARY.glob("libqbruntime.so.*")
        if not path.is_symlink()
    )
    shutil.copy(file, tmp_path / "libqbruntime.so.0")
    env = {"LD_LIBRARY_PATH": f"{cases.LIBRARY}:{tmp_path}"}
    document = cases.data("doctor", env=env, code=5)
    found = [check for check in document["checks"] if check["id"] == "libraries"]
    assert (found[0]["state"], found[0]["code"]) == ("fail", "E-LIB-1")
    assert str(tmp_path) in found[0]["fix"]


def _python3(folder, script):
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


# I48
@pytest.mark.parametrize(
    "code,script",
    [
        ("E-PY-1", "exit 1"),
        ("E-PY-2", "echo /nowhere; echo 9; echo"),
        ("E-PY-3", "echo /p; echo 0.1.0; echo /bin/sh"),
    ],
)
@cases.one_library
def test_a_package_that_does_not_fit_is_found(tmp_path, code, script):
    document = cases.data("doctor", env=_python3(tmp_path, script))
    found = [check for check in document["checks"] if check["id"] == "python"]
    assert (found[0]["state"], found[0]["code"]) == ("warn", code), found


# memfd_create answers EPERM from here on: BPF, without a library for it
DENIED = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
words = [0x20, 0, 0, 0, 0x15, 0, 1, 319, 0x06, 0, 0, 0x50001, 0x06, 0, 0, 0x7FFF0000]
code = struct.pack("HBBI" * 4, *words)
keep = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(keep))
assert libc.prctl(38, 1, 0, 0, 0) == 0
if libc.prctl(22, 2, ctypes.create_string_buffer(program)):
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""


# I48
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the number of a system call"
)
def test_export_that_cannot_be_is_found():
    if os.path.exists("/dev/udmabuf"):
        pytest.skip("/dev/udmabuf is there")
    done = subprocess.run(
        [sys.executable, "-c", DENIED, cases.QBINFO, "doctor"],
        capture_output=True,
        env=cases.environment(),
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this machine takes no filter of system calls")
    assert b"(E-EXP-1)" in done.stdout, done


# I49
@cases.one_library
def test_every_code_has_its_section_in_the_manual():
    codes = set()
    for path in cases.SOURCES.glob("*.c"):
        codes |= set(re.findall(r'"(E-[A-Z]+-\d+)"', path.read_text()))
    page = (cases.TOP / "man" / "qbinfo-doctor.7.scd").read_text()
    assert set(re.findall(r"^## (E-[A-Z]+-\d+)", page, re.M)) == codes
    names = {entry[0] for entry in PLANTED}
    names |= {"software", "libraries", "python", "export", "firmware"}
    checks = [check["id"] for check in cases.data("doctor")["checks"]]
    assert set(checks) == names


# I51
@cases.one_library
def test_a_machine_without_npu_and_gpu_is_sound():
    document = cases.data("doctor")
    assert not any(check["state"] == "fail" for check in document["checks"])
    software = [check for check in document["checks"] if check["id"] == "software"]
    if not os.path.exists("/dev/accel"):
        assert software[0]["text"].endswith("works: digits 16/16 right")


def _state(*folders):
    seen = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                info = os.lstat(os.path.join(place, name))
                seen[os.path.join(place, name)] = (
                    info.st_size,
                    info.st_mtime_ns,
                    info.st_mode,
                )
    return seen


# I52
def test_doctor_changes_nothing(tmp_path):
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": cases.PACKAGES}
    env["PYTHONDONTWRITEBYTECODE"] = None
    before = _state(tmp_path, cases.STAGE)
    kept = [
        open(path).read()
        for path in ("/proc/self/limits", "/proc/modules")
        if os.path.exists(path)
    ]
    cases.run("doctor", env=env, cwd=tmp_path)
    assert _state(tmp_path, cases.STAGE) == before
    assert kept == [
        open(path).read()
        for path in ("/proc/self/limits", "/proc/modules")
        if os.path.exists(path)
    ]


VOLATILE = ("time", "monotonic_ns", "hostname", "sysroot")


# I53
@pytest.mark.parametrize(
    "env", [{}, {"QBRUNTIME_SOFT_DEVICES": "aries:2", "QBRUNTIME_VISIBLE_DEVICES": "1"}]
)
@cases.one_library
def test_a_capture_shows_the_same_and_nobody(tmp_path, env):
    secret = {
        "HOME": "/home/somebody",
        "USER": "somebody",
        "QBRUNTIME_LOG_LEVEL": "Warn",
    }
    cases.text("doctor", "--capture", tmp_path / "captured", env={**env, **secret})
    live = cases.data("show", env={**env, **secret})
    again = cases.data("show", "--sysroot", tmp_path / "captured")
    for document in (live, again):
        for name in VOLATILE:
            del document["qbinfo"][name]
        for device in document["devices"]:
            # what was hidden is not captured
            device["env"] = [[line["name"], line["value"]] for line in device["env"]]
            device["memory"]["device_total_bytes"] = device["memory"][
                "pinned_limit_bytes"
            ] = 0
    assert live == again
    words = [
        b"somebody",
        os.uname().nodename.encode(),
        str(tmp_path).encode(),
        b"pytest",
    ]
    for path in sorted((tmp_path / "captured").rglob("*")):
        if path.is_file() and not path.is_symlink():
            for word in words:
                assert word not in path.read_bytes(), (path, word)
    assert (tmp_path / "captured" / "proc/sys/kernel/hostname").read_text() == "host\n"
    again = cases.run("doctor", "--capture", tmp_path / "captured", env=env)
    assert again.returncode == 1 and b"exists" in again.stderr
    other = cases.run(
        "doctor", "--capture", tmp_path / "x", "--sysroot", tmp_path / "captured"
    )
    assert other.returncode == 2


def test_what_must_be_mended_first_decides(tree):
    root = tree("noperm")
    trees.add(root, "env = QBRUNTIME_VISIBLE_DEVICES=first")
    assert cases.run("doctor", "--sysroot", root).returncode == 4
    trees.add(root, "node accel accel8 pci 0000:08:00.0 qbnpu 0x209f 0x1 261:8")
    trees.add(
        root,
        _version(8, 0, 1),
    )
    document = cases.data("doctor", "--sysroot", root, code=5)
    assert document["error"]["exit"] == 5
    assert document["error"]["doc"] == "E-VER-1"
    assert len([check for check in document["checks"] if check["state"] == "fail"]) == 3
