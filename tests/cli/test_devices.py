# SPDX-License-Identifier: MIT
"""list, show and the choice of devices (docs/spec/qbinfo.md, 2 and 12.2)."""

import os
import re
import resource
import subprocess
import sys

import cases
import pytest


# I34
def test_list_is_for_while_read(roots):
    script = 'qbinfo=$1; "$qbinfo" list | while read -r id bus kind node rest; do\n'
    script += '    echo "$id|$bus|$kind|$node|$rest"; done'
    out = subprocess.run(
        ["sh", "-c", script, "sh", cases.QBINFO],
        capture_output=True,
        check=True,
        env=cases.environment(QBRUNTIME_SOFT_DEVICES="aries:2,regulus:1"),
    ).stdout.decode()
    assert out.splitlines() == [
        "aries-rb:0|-|software|-|",
        "aries-rb:1|-|software|-|",
        "regulus-ra:0|-|software|-|",
    ]
    assert cases.text("list", "--sysroot", roots / "bare") == ""
    crowd = cases.text("list", "--sysroot", roots / "crowd").splitlines()
    assert [line.split()[0] for line in crowd] == [f"aries-rb:{i}" for i in range(64)]
    assert all(len(line.split()) == 4 for line in crowd)


# I34: a person learns what to do, and by doctor why
def test_no_device_is_told_beside_the_lines():
    env = {"QBRUNTIME_SOFT_DEVICES": "none"}
    done = cases.run("list", env=env)
    assert (done.returncode, done.stdout) == (0, b"")
    told = done.stderr.decode()
    assert "QBRUNTIME_SOFT_DEVICES=aries asks for a software NPU" in told
    assert told.count("\n") == 1 and "qbinfo doctor tells why" in told
    quiet = cases.run("list", "-q", env=env)
    assert (quiet.stdout, quiet.stderr) == (b"", b"")
    why = cases.run("doctor", env=env).stdout.decode()
    assert "QBRUNTIME_SOFT_DEVICES is none" in why


# I35
def test_the_order_is_that_of_names_and_numbers(roots, tree):
    ids = [
        line.split()[0]
        for line in cases.text("list", "--sysroot", roots / "four-chips").splitlines()
    ]
    assert ids == [f"aries-rb:{i}" for i in range(4)]
    reply = (roots / "regulus" / "replies" / "dev-accel-accel0.json").read_text()
    both = tree("four-chips", "node accel accel9 platform 2f0.npu qbnpu - - 261:9")
    (both / "replies" / "dev-accel-accel9.json").write_text(reply)
    for name in ("regulus-rb", "aries-rb", "another"):
        more = f"dev-accel-accel{len(name)}.json"
        node = (
            f"node accel accel{len(name)} pci 0000:f0:00.{len(name)} qbnpu - - 261:50"
        )
        import trees

        trees.add(both, node)
        (both / "replies" / more).write_text(reply.replace("regulus-ra", name))
    ids = [
        line.split()[0] for line in cases.text("list", "--sysroot", both).splitlines()
    ]
    assert [i.split(":")[0] for i in ids] == ["aries-rb"] * 5 + [
        "regulus-ra",
        "regulus-rb",
        "another",
    ]


# I36
def test_core_names_are_the_librarys(roots):
    names = (cases.TOP / "python" / "qbruntime" / "type.py").read_text()
    out = cases.text("list", "-l", "--sysroot", roots / "one-aries")
    words = set(re.findall(r"[A-Za-z]+\d?$", out, re.M))
    assert words == {
        "Cluster0",
        "Cluster1",
        "Core0",
        "Core1",
        "Core2",
        "Core3",
        "GlobalCore",
    }
    for word in words:
        assert re.search(rf"\b{word} = ", names), word
    assert out.isascii()


PROGRAM = """
import qbruntime as q, sys
for name in q.get_available_devices():
    for number in q.get_available_device_numbers(name):
        with q.Accelerator(name, number) as acc:
            print(f"{acc.get_device_name()}:{number}")
for arguments in ((), (0,), (3,)):
    try:
        with q.Accelerator(*arguments) as acc:
            print(acc.info().id)
    except q.QbRuntimeError as error:
        print(error.code_name)
"""


def _python(env):
    if not cases.PACKAGES:
        pytest.skip("the Python package is not built")
    if cases.IS_SANITIZED:
        pytest.skip("Python is not built with the sanitizer")
    return (
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            check=True,
            env=cases.environment(PYTHONPATH=cases.PACKAGES, **env),
        )
        .stdout.decode()
        .splitlines()
    )


# I37
@pytest.mark.parametrize("devices", ["aries:4", "aries:2,regulus:1", "none"])
def test_list_equals_the_library(devices):
    env = {"QBRUNTIME_SOFT_DEVICES": devices}
    *ids, default, zero, three = _python(env)
    assert [line.split()[0] for line in cases.text("list", env=env).splitlines()] == ids
    for word, answer in (("auto", default), ("0", zero), ("3", three)):
        done = cases.run("list", "-d", word, env=env)
        if ":" in answer:
            assert done.stdout.decode().split()[0] == answer
        else:
            assert done.returncode == 3, (word, answer)


VISIBLE = "QBRUNTIME_VISIBLE_DEVICES"


# I38
@pytest.mark.parametrize(
    "env,ids,effect",
    [
        (
            {VISIBLE: "1"},
            ["aries-rb:1"],
            {VISIBLE: "decides, hides aries-rb:0, regulus-ra:0"},
        ),
        ({"MACCEL_VISIBLE_DEVICES": "aries-rb:0"}, ["aries-rb:0"], None),
        ({"MBLT_DEVICES": "0"}, ["aries-rb:0", "regulus-ra:0"], None),
        (
            {VISIBLE: "0", "MACCEL_VISIBLE_DEVICES": "1", "MBLT_DEVICES": "1"},
            ["aries-rb:0", "regulus-ra:0"],
            {"MBLT_DEVICES": f"none: {VISIBLE} decides"},
        ),
        ({VISIBLE: ""}, [], None),
        ({VISIBLE: "first"}, [], None),
        (
            {"MBLT_VISIBLE_DEVICES": "1"},
            ["aries-rb:0", "aries-rb:1", "regulus-ra:0"],
            None,
        ),
    ],
)
def test_visibility_limits_as_in_the_library(env, ids, effect):
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:2,regulus:1", **env}
    for command in ("list", "summary", "show"):
        devices = cases.data(command, "-q", env=env)["devices"]
        assert [device["id"] for device in devices] == ids
    if effect:
        shown = cases.data("show", "-t", "env", env=env)["devices"][0]["env"]
        effects = {line["name"]: line["effect"] for line in shown}
        for name, words in effect.items():
            assert effects[name] == words
        assert words in cases.text("show", "-t", "env", env=env)


# I38: no device is left to say it of
@pytest.mark.parametrize("value", ["", "7", "first"])
def test_what_hides_all_is_said(value):
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:2", VISIBLE: value}
    words = f"{VISIBLE}={value} decides, hides aries-rb:0, aries-rb:1"
    for topics in ([], ["-t", "env"]):
        warnings = cases.data("show", *topics, env=env)["warnings"]
        assert [warning["text"] for warning in warnings] == [words]
        assert words in cases.text("show", *topics, env=env)
    assert words not in cases.text("show", "-t", "limits", env=env)


# I38: what was not asked for is not hidden
@pytest.mark.parametrize("words", [["show", "0"], ["show", "-d", "aries-rb:0"]])
def test_a_chosen_device_hides_no_other(words):
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:3", VISIBLE: "0,1"}
    shown = cases.data(*words, "-t", "env", env=env)["devices"]
    effects = {line["name"]: line["effect"] for line in shown[0]["env"]}
    assert len(shown) == 1 and effects[VISIBLE] == "decides, hides aries-rb:2"


# I39
def test_topics_are_chosen_and_listed(roots):
    out = cases.text(
        "show", "-t", "topology", "-t", "memory", "--sysroot", roots / "mixed"
    )
    assert re.findall(r"^  (\w+)$", out, re.M) == ["Memory", "Topology"]
    done = cases.run("show", "-t", "weather")
    assert done.returncode == 2
    for topic in ("device", "firmware", "driver", "caps", "memory", "env"):
        assert topic in done.stderr.decode()
    # nothing but titles with something below
    lines = cases.text("show", "--sysroot", roots / "soft").splitlines()
    for line, after in zip(lines, [*lines[1:], ""]):
        if re.match(r"  \w", line):
            assert after.startswith("    ")


LIMITS = "Max locked memory         {}                    {}                    bytes"


# I40
def test_the_smallest_limit_of_pinned_memory_is_named(tree):
    root = tree("soft")

    def limit():
        memory = cases.data("show", "--sysroot", root)["devices"][0]["memory"]
        return memory["pinned_limit_bytes"], memory["pinned_limit_from"]

    assert limit() == (8 << 30, "memory")
    group = root / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True, exist_ok=True)
    (group / "memory.max").write_text(f"{1 << 30}\n")
    assert limit() == (1 << 30, "cgroup")
    (root / "proc" / "self" / "limits").write_text(LIMITS.format(65536, 65536) + "\n")
    assert limit() == (65536, "memlock")
    status = root / "proc" / "self" / "status"
    status.write_text(
        status.read_text().replace("0000000000000000", "0000000000004000")
    )
    assert limit() == (1 << 30, "cgroup")
    (group / "memory.max").write_text(f"{8 << 30}\n")
    assert limit() == (8 << 30, "cgroup")


# I40
def test_a_limit_that_the_device_has_already_is_named():
    def restrict():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        if not os.getuid():
            os.setuid(65534)

    words = ["show", "-t", "memory"]
    env = {"QBRUNTIME_SOFT_DEVICES": "aries"}
    device = cases.data(*words, env=env, cwd="/", preexec_fn=restrict)["devices"][0]
    assert device["memory"]["pinned_limit_bytes"] == 65536
    assert device["memory"]["pinned_limit_from"] == "memlock"
    out = cases.text(*words, env=env, cwd="/", preexec_fn=restrict)
    assert re.search(r"pinned limit +64K +by RLIMIT_MEMLOCK\n", out)


@pytest.mark.parametrize(
    "word,found",
    [
        ("aries-rb:2", "aries-rb:2"),
        ("ARIES-RB:2", "aries-rb:2"),
        ("2", "aries-rb:2"),
        ("aries", "aries-rb:0"),
        ("aries:3", "aries-rb:3"),
        ("auto", "aries-rb:0"),
        ("npu", "aries-rb:0"),
        ("npu:1", "aries-rb:1"),
        ("0000:05:00.0", "aries-rb:2"),
        ("/dev/accel/accel1", "aries-rb:1"),
        ("regulus", None),
        ("soft", None),
        ("aries-rb:4", None),
        ("aries-rb:-1", None),
        ("0x2", None),
        ("aries:0x2", None),
        ("+2", None),
        ("aries:02", "aries-rb:2"),
    ],
)
def test_ids_mean_one_device(roots, word, found):
    done = cases.run("list", "-d", word, "--sysroot", roots / "four-chips")
    if found:
        assert done.stdout.decode().split()[0] == found
    else:
        assert done.returncode == 3 and b"aries-rb:3" in done.stderr, done


def test_an_ambiguous_id_lists_what_it_means():
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:1,regulus:1"}
    for word in ("auto", "0", "npu:0"):
        done = cases.run("show", word, env=env)
        assert done.returncode == 3
        assert b"aries-rb:0, regulus-ra:0" in done.stderr
    assert cases.text("list", "-d", "soft:1", env=env).startswith("regulus-ra:0 ")
    both = cases.text("list", "-d", "regulus", "-d", "aries", env=env)
    assert [line.split()[0] for line in both.splitlines()] == [
        "aries-rb:0",
        "regulus-ra:0",
    ]


# I78
def test_nodes_of_others_are_no_devices(roots):
    for word in ("/dev/dri/renderD129", "/dev/accel/accel1"):
        done = cases.run("show", word, "--sysroot", roots / "mixed")
        assert done.returncode == 3
        assert b"is a node of the driver" in done.stderr
    assert (
        b"amdgpu"
        in cases.run("show", "/dev/dri/renderD129", "--sysroot", roots / "mixed").stderr
    )


def test_strict_json_has_the_error_too(roots):
    document = cases.data("show", "--strict", "--sysroot", roots / "soft", code=9)
    assert document["error"]["exit"] == 9 and document["devices"]


def test_quiet_and_verbose(roots):
    words = ["list", "--sysroot", roots / "mixed"]
    told = cases.run(*words, "-v")
    assert told.stdout == cases.run(*words).stdout
    lines = told.stderr.decode().splitlines()
    assert any(
        "read " in line and "replies/dev-accel-accel0.json" in line for line in lines
    )
    assert re.fullmatch(r"qbinfo: took \d+\.\d{3} s", lines[-1])
    env = {VISIBLE: "first", "QBRUNTIME_LOG_LEVEL": "Debug"}
    assert cases.run("list", env=env).stderr
    assert cases.run("list", "-q", env=env).stderr == b""


def test_other_users_need_no_home(roots):
    done = cases.run(
        "list", "--sysroot", roots / "mixed", env={"HOME": None, "USER": None}
    )
    assert done.returncode == 0 and os.path.basename(cases.QBINFO) == "qbinfo"
