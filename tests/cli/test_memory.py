# SPDX-License-Identifier: MIT
"""A process that may have little memory: a whole document, or none and exit 1."""

import json
import resource

import pytest
from cases import DIGITS, IS_SANITIZED, run

pytestmark = pytest.mark.skipif(
    IS_SANITIZED, reason="a sanitizer takes more of the address space than that"
)
WORDS = ["model", "--commands", *[DIGITS] * 200]
MANY_LINES = run(*WORDS).stdout.count(b"\n")


def is_whole(mode, out):
    if mode == "--json":
        return len(json.loads(out)["models"]) == 200
    if mode == "--jsonl":
        return len([json.loads(line) for line in out.splitlines()]) == 200
    return out.count(b"\n") == MANY_LINES


# neither a stream in memory nor json-c nor libsmartcols tells what it leaves out
@pytest.mark.parametrize("mode", ["--json", "--jsonl", "--color=never"])
def test_what_memory_does_not_suffice_for_is_not_told_by_halves(mode):
    few = enough = 0
    limit = 10 << 20
    while enough < 3:
        child = run(
            mode,
            *WORDS,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        if child.returncode == 127:
            pass  # the loader's own refusal
        elif child.returncode:
            said = (child.returncode, child.stdout, child.stderr)
            assert said == (1, b"", b"qbinfo: out of memory\n"), limit
            few += 1
        else:
            assert is_whole(mode, child.stdout), (limit, len(child.stdout))
            enough += 1
        limit += 512 << 10
    assert few > 3


# each value's text was once copied for the next: 40,000 took gigabytes
@pytest.mark.parametrize("words", [["caps"], ["show", "-t", "caps"]], ids=str)
def test_a_long_list_of_a_capture_takes_memory_for_itself_alone(roots, tree, words):
    devices = json.loads((roots / "soft" / "devices.json").read_text())
    devices[0]["caps"]["isa_features"] = ["diag"] * 40000
    root = tree("soft", f"devices.json = {json.dumps(devices)}")
    most = 256 << 20
    child = run(
        *words,
        "--sysroot",
        root,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.count(b"diag") == 40000
