# SPDX-License-Identifier: MIT
"""Runs qbinfo: on trees, live, in a terminal, under strace."""

import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import fcntl
import termios
import time

import pytest

TOP = pathlib.Path(os.environ["QBRUNTIME_TEST_TOP"])
STAGE = pathlib.Path(os.environ["QBRUNTIME_TEST_STAGE"])
PACKAGES = os.environ["QBRUNTIME_TEST_PACKAGES"]
QBINFO = os.environ["QBRUNTIME_TEST_QBINFO"]
BENT = os.environ["QBRUNTIME_TEST_BENT"]  # tests/qbinfo-bent.c
SOURCES = TOP / "tools" / "qbinfo"
DIGITS = TOP / "examples" / "digits.qbm"
LIBRARY = pathlib.Path(os.environ["LD_LIBRARY_PATH"])
BENT_LIBRARY = pathlib.Path(os.environ["QBRUNTIME_TEST_BENT_LIBRARY"])
IS_SANITIZED = bool(os.environ["QBRUNTIME_TEST_SANITIZER"])

# an installed library beside the staged one is what doctor must find
_INSTALLED = [
    path
    for folder in ("/usr/local/lib", "/usr/lib", "/lib")
    for path in pathlib.Path(folder).glob("libqbruntime.so*")
]
one_library = pytest.mark.skipif(
    bool(_INSTALLED), reason="another libqbruntime is installed on this machine"
)

# every command with what it needs, and its modes
COMMANDS = {
    "list": [["list"], ["list", "-l"], ["list", "--drm"]],
    "show": [["show"]],
    "summary": [["summary"], []],
    "version": [["version"]],
    "doctor": [["doctor"]],
    "model": [["model", str(DIGITS)], ["model", "--commands", str(DIGITS)]],
    "caps": [["caps"]],
    "stat": [["stat"]],
}
# those that run a device, so that no captured system will do; a slow machine,
# or a build with a sanitizer, gets its time
LIVE_COMMANDS = {
    "validate": [["validate", "--timeout", "60"]],
    "bench": [
        ["bench", "--seconds", "0.001", "--set", "dispatch", "--placement", "one"]
    ],
}
NO_JSONL = {"version"}
NO_JSON = {("list", "-l")}
# it watches hardware: live it has tests of its own
NOT_LIVE = {"stat"}


def environment(**more):
    """Ours without what steers the runtime, and with a locale of no language."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("QBRUNTIME_", "MBLT_", "MACCEL_", "LC_"))
    }
    kept["LANG"] = "C"
    kept["PATH"] = "/usr/bin:/bin"
    kept.update(more)
    return {name: value for name, value in kept.items() if value is not None}


def run(*words, env=None, **more):
    """The ended process; out and err are bytes."""
    return subprocess.run(
        [more.pop("tool", QBINFO), *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=more.pop("stdout", subprocess.PIPE),
        stderr=more.pop("stderr", subprocess.PIPE),
        env=environment(**(env or {})),
        timeout=120,
        check=False,
        **more,
    )


def text(*words, code=0, **more):
    """What it printed, which ended with code."""
    done = run(*words, **more)
    assert done.returncode == code, (words, done)
    return done.stdout.decode()


def data(*words, code=0, **more):
    """The same as a JSON document."""
    return json.loads(text(*words, "--json", code=code, **more))


def in_terminal(*words, columns=80, env=None):
    """What it writes to a terminal of that width."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [QBINFO, *map(str, words)],
        stdin=child,
        stdout=child,
        stderr=subprocess.DEVNULL,
        env=environment(**{"TERM": "xterm-256color", **(env or {})}),
    ):
        os.close(child)
        out = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
    os.close(parent)
    return out.replace(b"\r\n", b"\n").decode()


def strace(
    tmp_path, calls, *words, env=None, cwd=None, inject=(), stdout=subprocess.PIPE
):
    """The calls that it made, a line each, of all its threads and children. inject:
    strace's expressions of calls that fail."""
    if IS_SANITIZED:
        pytest.skip("the leak check of a sanitizer cannot be traced")
    if not shutil.which("strace"):
        pytest.skip("strace is missing")
    out = tmp_path / "strace"
    done = subprocess.run(
        [
            "strace",
            "-f",
            "-qq",
            "-e",
            f"trace={calls}",
            "-o",
            out,
            *(f"--inject={expression}" for expression in inject),
            QBINFO,
            *map(str, words),
        ],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(**(env or {})),
        cwd=cwd,
        check=False,
    )
    if b"ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")
    return out.read_text(errors="replace").splitlines()


def monotonic():
    """What the tool calls monotonic_ns, now."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def table(name):
    """The entries of fields.def or options.def: lists of their words."""
    entries = []
    for line in (SOURCES / f"{name}.def").read_text().splitlines():
        match = re.match(r"([A-Z]+)\((.*)\)$", line)
        if match:
            words = re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s][^,]*', match[2])
            entries.append([match[1]] + [word.strip('"') for word in words])
    return entries


def modes(command):
    """Word lists of every mode of a command."""
    found = []
    for words in (COMMANDS | LIVE_COMMANDS)[command]:
        found.append(words)
        if tuple(words) not in NO_JSON:
            found.append([*words, "--json"])
            if command not in NO_JSONL:
                found.append([*words, "--jsonl"])
    return found
