# SPDX-License-Identifier: MIT
"""scripts/test: what of its steps fails, or did not run, fails the whole."""

import os
import pathlib
import subprocess

import pytest

TEST = pathlib.Path(os.environ["QBRUNTIME_TEST_TOP"]) / "scripts" / "test"
COUNTS = {"TOTAL": 5, "PASS": 5, "SKIP": 0, "XFAIL": 0, "FAIL": 0, "XPASS": 0}
LOG = "".join(f"# {name}: {num}\\n" for name, num in {**COUNTS, "ERROR": 0}.items())


def run_steps(tmp_path, steps, *words):
    """The last line of a copy that has these steps in the place of its own."""
    functions, rest = TEST.read_text(encoding="utf-8").split("\nsh scripts/setup")
    ci = rest[rest.index("\nif [ $ci") : rest.index('\nstep "demo')]
    end = rest[rest.index('\necho "[$((SECONDS - started)) s] in all') :]
    copy = tmp_path / "scripts" / "test"
    copy.parent.mkdir()
    copy.write_text(functions + "\n" + steps + ci + end, encoding="utf-8")
    child = subprocess.run(
        ["bash", copy, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
    )
    last = child.stdout.splitlines()[-1]
    assert child.returncode == (", 0 failed" not in last), child.stdout
    return last


# where a test does not compile the log of the run before is still there, and
# where something else than a test fails all tests have passed
@pytest.mark.parametrize(
    "recipe, last",
    [
        (f"printf '{LOG}' >tests/test-suite.log", "5 passed, 0 failed, 0 skipped"),
        ("false", "0 passed, 1 failed, 0 skipped"),
        (
            f"printf '{LOG}' >tests/test-suite.log; false",
            "5 passed, 1 failed, 0 skipped",
        ),
    ],
    ids=["tests pass", "no test is run", "make fails beside the tests"],
)
def test_a_suite_counts_what_it_has_run_itself(tmp_path, recipe, last):
    folder = tmp_path / "build" / "tests"
    folder.mkdir(parents=True)
    (folder / "test-suite.log").write_text(LOG.replace("\\n", "\n"))
    (tmp_path / "build" / "Makefile").write_text(f"check:\n\t@{recipe}\n")
    assert run_steps(tmp_path, "suite tests build") == last


# bash goes on behind a file that it cannot read, or not to its end
@pytest.mark.parametrize(
    "steps, last",
    [
        ("step one true\n", "2 passed, 0 failed, 0 skipped"),
        ("step one true\nif true; then\n", "2 passed, 1 failed, 0 skipped"),
        (None, "1 passed, 1 failed, 0 skipped"),
    ],
    ids=["whole", "not to be parsed", "missing"],
)
def test_steps_of_ci_that_cannot_be_read_are_a_failure(tmp_path, steps, last):
    if steps:
        (tmp_path / ".ci").mkdir()
        (tmp_path / ".ci" / "steps").write_text(steps)
    assert run_steps(tmp_path, "step zero true", "--ci") == last
