# SPDX-License-Identifier: MIT
"""tests/pytest-tap: what of the tests did not run is a failure."""

import os
import subprocess
import sys

import pytest

TAP = os.path.join(os.environ["QBRUNTIME_TEST_TOP"], "tests", "pytest-tap")


def run_tap(tmp_path, *bodies):
    names = [f"def test_{i}():\n    {body}\n" for i, body in enumerate(bodies)]
    file = tmp_path / "test_some.py"
    file.write_text("import pytest\n\n\n" + "\n\n".join(names), encoding="utf-8")
    return subprocess.run(
        [sys.executable, TAP, "-q", "-p", "no:cacheprovider", str(file)],
        cwd=tmp_path,
        env=dict(os.environ, LD_PRELOAD=""),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        timeout=120,
    )


# an interrupt that a test lets out, or pytest.exit, ends pytest without a report
@pytest.mark.parametrize("body", ["raise KeyboardInterrupt", "pytest.exit('x')"])
def test_a_test_that_ends_pytest_is_a_failure(tmp_path, body):
    child = run_tap(tmp_path, "pass", body, "assert False")
    assert child.returncode == 1, child.stdout
    assert child.stdout.count("\nnot ok ") == 1
    assert child.stdout.endswith("1..2\n")


# else a run that nothing has ended would fail, too
def test_tests_that_pass_or_skip_are_no_failure(tmp_path):
    child = run_tap(tmp_path, "pass", "pytest.skip('x')")
    assert child.returncode == 0, child.stdout
    assert child.stdout.endswith("1..2\n")
