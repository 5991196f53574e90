# SPDX-License-Identifier: MIT
"""The wheel's backend, without building; tests/test-wheel.sh builds one."""

import importlib.util
import re
import subprocess
import sys
import sysconfig
import tomllib

import pytest
from runtime_cases import TOP

SOURCE = TOP / "python/build_wheel.py"


@pytest.fixture(scope="module")
def backend():
    spec = importlib.util.spec_from_file_location("build_wheel", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def add(tmp_path):
    """Adds an installed distribution to tmp_path, with these files."""

    def write(name, record, top_level=None):
        info = tmp_path / f"{re.sub('[-.]', '_', name)}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in record))
        for file in record:  # from 3.12 on what is not there is not listed
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).touch()
        if top_level:
            (info / "top_level.txt").write_text(top_level)

    return write


def ask(folder):
    return subprocess.run(
        [sys.executable, "-I", SOURCE, folder], capture_output=True, text=True
    )


# Q003
def test_another_distribution_with_the_package_is_named(add, tmp_path):
    add("harmless", ["harmless.py", "other/qbruntime/__init__.py"])
    assert ask(tmp_path).returncode == 0
    add("Some.Runtime", ["some.pth", "qbruntime/__init__.py"])
    done = ask(tmp_path)
    assert done.returncode == 1
    assert "distribution Some.Runtime is installed" in done.stderr
    assert "OVERWRITE=yes" in done.stderr and done.stderr.count("\n") == 1


# Q003
def test_a_distribution_that_lists_packages_alone_is_named(add, tmp_path):
    add("packaged", [], "qbruntime\n")
    assert "distribution packaged is installed" in ask(tmp_path).stderr


# Q003
def test_ours_and_nobodys_are_replaced(add, tmp_path):
    add("qbruntime", ["qbruntime/__init__.py"])
    done = ask(tmp_path)
    assert done.returncode == 0 and done.stdout == done.stderr == ""
    assert ask(tmp_path / "missing").returncode == 0


# Q002
def test_the_distribution_is_ours_for_every_python_from_3_11_on(backend, tmp_path):
    name = backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert name == f"qbruntime-{backend.read_version()}.dist-info"
    head = (tmp_path / name / "METADATA").read_text(encoding="utf-8").split("\n\n")[0]
    assert {
        "Name: qbruntime",
        f"Version: {backend.read_version()}",
        "Requires-Python: >=3.11",
        "Requires-Dist: numpy",
    } <= set(head.splitlines())
    wheel = (tmp_path / name / "WHEEL").read_text(encoding="utf-8")
    machine = sysconfig.get_platform().replace("-", "_")
    assert f"Tag: cp311-abi3-{machine}\n" in wheel and wheel.count("Tag:") == 1
    assert "Root-Is-Purelib: false\n" in wheel


def test_the_version_is_the_librarys(backend):
    qbruntime = pytest.importorskip("qbruntime")
    assert backend.read_version() == qbruntime.__version__


# Q002
def test_building_asks_nothing_of_a_network():
    with open(TOP / "pyproject.toml", "rb") as file:
        system = tomllib.load(file)["build-system"]
    assert system["requires"] == []
    assert system["build-backend"] == "build_wheel"
    assert system["backend-path"] == ["python"]


def test_unknown_settings_are_refused(backend):
    for settings in ({"jobs": "2"}, {"overwrite": "no"}, {"overwrite": "yes", "a": ""}):
        with pytest.raises(SystemExit, match="the one setting is overwrite=yes"):
            backend.build_wheel("/nonexistent", settings)
