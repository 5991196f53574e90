# SPDX-License-Identifier: MIT
"""version: every part on its own line, and whether they fit (I54, I55)."""

import os
import pty
import shutil
import signal

import cases
import pytest


def _parts(out):
    return {line[:14].strip(): line[14:] for line in out.splitlines()}


# I54, U68
def test_each_part_has_a_line(roots):
    parts = _parts(cases.text("version"))
    assert list(parts) == [
        "qbinfo",
        "libqbruntime",
        "uapi",
        "driver",
        "python",
        "verdict",
    ]
    assert (
        "ABI 0" in parts["libqbruntime"] and str(cases.LIBRARY) in parts["libqbruntime"]
    )
    assert parts["verdict"] == "all parts fit"
    parts = _parts(cases.text("version", "--sysroot", roots / "one-aries"))
    assert parts["uapi"] == "wants 1.0 to 1.x   driver 1.0"
    assert parts["driver"] == "qbnpu 1.0.0   srcversion 5C1DAA0123456789ABCDEF0"
    assert parts["firmware"] == "aries-rb:0 1.4.0"


# I54
def test_an_old_driver_is_the_part_to_change(roots):
    out = cases.text("version", "--sysroot", roots / "old-driver", code=5)
    assert "update the driver" in _parts(out)["verdict"]
    document = cases.data("version", "--sysroot", roots / "old-driver", code=5)
    assert document["verdict"]["state"] == "mismatch"
    assert document["error"]["name"] == "version"


# I54
def test_a_library_of_another_release_is_named(tmp_path):
    version = cases.text("-V").split()[1]
    file = next(
        path
        for path in cases.LIBRARY.glob("libqbruntime.so.*")
        if not path.is_symlink()
    )
    text = file.read_bytes()
    old, new = version.encode() + b"\0", b"9" + version[1:].encode() + b"\0"
    assert old in text
    (tmp_path / "libqbruntime.so.0").write_bytes(text.replace(old, new))
    out = cases.text("version", env={"LD_LIBRARY_PATH": str(tmp_path)}, code=5)
    assert "install both of one release" in _parts(out)["verdict"]


# I55
def test_the_python_package_and_its_library_are_named(tmp_path):
    if not cases.PACKAGES:
        pytest.skip("the Python package is not built")
    if cases.IS_SANITIZED:
        pytest.skip("Python is not built with the sanitizer")
    env = {"PYTHONPATH": cases.PACKAGES}
    parts = _parts(cases.text("version", env=env))
    assert parts["python"].endswith(f"in {cases.PACKAGES}/qbruntime, same library")
    # a second copy of the library, which this python3 takes
    for path in cases.LIBRARY.glob("libqbruntime.so*"):
        shutil.copy(path, tmp_path / path.name, follow_symlinks=False)
    shutil.copytree(cases.LIBRARY / "qbruntime", tmp_path / "qbruntime")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH={tmp_path} exec /usr/bin/python3 "$@"\n'
    )
    python.chmod(0o755)
    env["PATH"] = f"{tmp_path}/bin:/usr/bin:/bin"
    parts = _parts(cases.text("version", env=env))
    assert f"library {tmp_path}/libqbruntime.so" in parts["python"]
    assert "same library" not in parts["python"]


# I55
@pytest.mark.parametrize("command", ["version", "doctor"])
def test_nothing_of_the_current_folder_is_run(tmp_path, command):
    for name in ("qbruntime", "os", "importlib/__init__", "importlib/util"):
        module = tmp_path / f"{name}.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w').close()\n")
    for env in ({}, {"PYTHONPATH": ""}):
        assert cases.run(command, cwd=tmp_path, env=env).stdout
        assert not (tmp_path / "was_run").exists()


# I64
def test_ctrl_c_ends_it_and_what_it_started(tmp_path):
    for name in ("begun", "never"):
        os.mkfifo(tmp_path / name)
    python = tmp_path / "python3"
    # holds its end of begun open for as long as it lives
    begin = f"exec 3>'{tmp_path}/begun'\necho begun >&3"
    python.write_text(f"#!/bin/sh\n{begin}\nexec cat '{tmp_path}/never'\n")
    python.chmod(0o755)
    child, terminal = pty.fork()
    if not child:
        # who runs the tests in the background has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        env = cases.environment(PATH=f"{tmp_path}:/usr/bin:/bin")
        os.execve(cases.QBINFO, ["qbinfo", "version", "--timeout", "100"], env)
    with open(tmp_path / "begun", encoding="utf-8") as begun:
        assert begun.readline() == "begun\n"
        os.write(terminal, b"\x03")
        _, status = os.waitpid(child, 0)
        assert begun.read() == ""
    os.close(terminal)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
