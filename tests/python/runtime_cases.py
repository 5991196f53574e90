# SPDX-License-Identifier: MIT
"""What the tests of the package qbruntime share: models, and other processes."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TOP = Path(os.environ.get("QBRUNTIME_TEST_TOP", Path(__file__).parents[2]))
COPY64 = TOP / "tests/data/golden/copy64.qbm"
CORPUS = TOP / "tests/data/corpus"
DIGITS = TOP / "examples/digits.qbm"
# edits of variants.txt that leave core mode Single alone
ONE_MODE = [("mode_mask=3", "mode_mask=1")] + [
    (f"program={i},{i},-", f"program={i},-,-") for i in range(3)
]
# from 3.12 on these are never freed, and their counts say nothing
COUNTED = (None, True, ()) if sys.version_info < (3, 12) else ()
SANITIZER = re.search("lib[at]san|$", Path("/proc/self/maps").read_text("utf-8"))[0]
SANITIZED = bool(SANITIZER)
# a job that still runs when a test looks at it, on a slow machine too
LASTS = "slow:ns=1000000000"
# random ones, of each of 8 threads
OPERATIONS = 100000 if os.environ.get("QBRUNTIME_TEST_LONG") else 2000


def skip_if_rounded():
    """Sizes on the device are sums of 4 KiB pages where no larger ones are reserved."""
    pages = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    if pages.exists() and int(pages.read_text(encoding="utf-8")):
        pytest.skip("2 MiB pages are reserved: sizes are rounded")


def run_child(code, *arguments, check=True, **environ):
    """Runs Python code in a process of its own; gives the finished process."""
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=dict(os.environ, **environ),
        timeout=300,  # of what hangs
    )
    assert not check or child.returncode == 0, child.stdout + child.stderr
    return child


def check_sentences(text, num, rows=()):
    """Below each of the sentences of a module's text, num of them, are names of tests
    that exist, or of these rows."""
    code = "".join(path.read_text("utf-8") for path in TOP.glob("tests/*/test_*.py"))
    known = {*re.findall(r"^def (test_\w+)", code, re.MULTILINE), *rows}
    items = [item.partition(":\n    ") for item in re.split(r"\n(?=\S)", text)]
    sentences = [(sentence, names) for sentence, colon, names in items if colon]
    assert len(sentences) == num
    for sentence, names in sentences:
        assert set(re.findall(r"\w+", names)) <= known, sentence


def run_script(name, *arguments):
    """Runs a script of this folder with COPY64; gives what it printed."""
    child = subprocess.run(
        [
            sys.executable,
            TOP / "tests/concurrency" / name,
            COPY64,
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        # from 3.12 on: of a fork beside threads
        env=dict(os.environ, PYTHONWARNINGS="ignore::DeprecationWarning"),
        timeout=600,  # of what hangs
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert child.stderr == ""
    return child.stdout


# For run_child(): one model whose inferences run one after the other.
ASYNC = """
import gc, sys, threading, numpy as np, qbruntime
from qbruntime import Future, Model, QbRuntimeError, StatusCode
config = qbruntime.ModelConfig()
config.set_async_pipeline_enabled(True)
config.set_single_core_mode(1)
config.set_activation_slots(1)
acc = qbruntime.Accelerator()
model = Model(sys.argv[1], config)
model.launch(acc)
x = np.arange(64, dtype="u1")
def refused(call, *arguments):
    try:
        call(*arguments)
    except QbRuntimeError as error:
        return error.status
"""


def run_async(code, **environ):
    return run_child(ASYNC + textwrap.dedent(code), COPY64, **environ)


def enumerators(prefix):
    """Name and value of the enumerators of the C header with that prefix."""
    text = (TOP / "include/qbruntime/qbrt.h").read_text(encoding="utf-8")
    pairs = re.findall(rf"\b({prefix}\w+) = (0x\w+|\d+)", text)
    return {name: int(value, 0) for name, value in pairs}


def count_fds():
    return len(os.listdir("/proc/self/fd"))


def has_fds(num):
    """So many, soon: the driver closes its own of a job after it has told its end."""
    for _ in range(100000):
        if count_fds() == num:
            return True
    return False


def resident_kib():
    """What of this process is in memory; a sanitizer keeps what was freed."""
    if SANITIZED:
        return 0
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s*(\d+) kB", status)[1])
