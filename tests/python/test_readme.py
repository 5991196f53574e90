# SPDX-License-Identifier: MIT
"""What README.md says about the package; tests/test-pages.sh runs its example."""

import ast
import re

import pytest
from runtime_cases import COPY64, TOP, run_child

README = (TOP / "README.md").read_text(encoding="utf-8")


# Q002
def test_the_first_example_has_four_steps():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    calls = [
        ast.unparse(node.func).split(".")[-1]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
    ]
    steps = ["Accelerator", "Model", "launch", "infer_pinned_memory"]
    assert [name for name in calls if name in steps] == steps


def test_the_second_example_prints_what_stands_below_it():
    pytest.importorskip("numpy")
    pytest.importorskip("qbruntime")
    code, output = re.findall(
        r"```python\n(.*?)```\n+(?:prints `(.*?)`)?", README, re.DOTALL
    )[1]
    child = run_child(code.replace("examples/", f"{TOP}/examples/"))
    assert "model.infer(" in code and child.stdout == f"{output}\n"


# Q503
def test_pinned_memory_is_stable_and_every_device_has_it():
    pytest.importorskip("qbruntime")
    assert "experimental and for REGULUS alone" in " ".join(README.split())
    child = run_child(
        """
        import sys, warnings
        warnings.simplefilter("error")
        import qbruntime
        for name in qbruntime.get_available_devices():
            acc = qbruntime.Accelerator(name, 0)
            with acc, qbruntime.Model(sys.argv[1]) as model:
                model.launch(acc)
                x, y = model.allocate_inputs()[0], model.allocate_outputs()[0]
                memoryview(x)[:] = bytes(range(64))
                model.infer_pinned_memory(x, y)
                assert bytes(memoryview(y)) == bytes(range(64))
                print(name)
        """,
        COPY64,
        QBRUNTIME_SOFT_DEVICES="aries:1,regulus:1",
    )
    assert child.stdout.split() == ["aries-rb", "regulus-ra"] and child.stderr == ""
