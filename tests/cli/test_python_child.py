# SPDX-License-Identifier: MIT
"""The python3 that is asked: any answer is told, and it never outlives qbinfo."""

import os
import select
import shutil
import signal
import subprocess

import cases
import pytest


def _python3(folder, script, mode=0o755, first="#!/bin/sh"):
    path = folder / "python3"
    path.write_text(f"{first}\n{script}\n")
    path.chmod(mode)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def _python(document):
    return [check for check in document["checks"] if check["id"] == "python"][0]


# I48, I54
@pytest.mark.parametrize(
    "script,first,words,fix",
    [
        ("exit 3", "#!/bin/sh", "import qbruntime fails", "-c 'import qbruntime'"),
        ("exit 127", "#!/bin/sh", "cannot be started", "--version"),
        ("", "#!/nowhere/sh", "cannot be started", "--version"),
        ("kill -9 $$", "#!/bin/sh", "ended by signal 9", "-c 'import qbruntime'"),
    ],
)
@cases.one_library
def test_a_python_that_fails_is_no_part_that_fits(tmp_path, script, first, words, fix):
    env = _python3(tmp_path, script, first=first)
    check = _python(cases.data("doctor", env=env))
    assert (check["state"], check["code"]) == ("warn", "E-PY-1")
    assert words in check["text"]
    assert check["fix"] == f"{tmp_path}/python3 {fix}"
    out = cases.text("version", env=env)
    assert "all parts fit" not in out and "Python did not answer" in out


# I48
@cases.one_library
def test_a_folder_of_that_name_is_passed_over(tmp_path):
    (tmp_path / "python3").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    env = _python3(other, "exit 0")
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    check = _python(cases.data("doctor", env=env))
    assert check["text"] == f"{other}/python3 has no package qbruntime"


@pytest.fixture
def held(tmp_path):
    """A python3 that says that it runs, and holds a FIFO as its helper does."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    keeper = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    os.mkfifo(tmp_path / "never")

    def make(closes, helper="cat never &"):
        script = (
            f"cd {tmp_path}; exec 3>fifo; trap '' TERM INT HUP; printf x >&3; {closes}"
            f"\n{helper}\nexec cat never"
        )
        return _python3(tmp_path, script), keeper

    yield make
    os.close(keeper)


def _wait_for_start(keeper):
    assert select.select([keeper], [], [], 60)[0]
    assert os.read(keeper, 1) == b"x"


def _is_gone(keeper):
    assert select.select([keeper], [], [], 60)[0]
    return os.read(keeper, 1) == b""


# I48: whether or not it has closed its output
@pytest.mark.parametrize("closes", ["", "exec 1>/dev/null"])
def test_a_python_that_does_not_end_is_ended(held, closes):
    env, keeper = held(closes)
    document = cases.data("version", "--timeout", "2", env=env)
    part = [part for part in document["parts"] if part["name"] == "python"][0]
    assert part["detail"] == "it did not answer in time"
    _wait_for_start(keeper)
    assert _is_gone(keeper)


# I48: a signal to qbinfo ends what it has started
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_python_does_not_outlive_qbinfo(held, number):
    # of a signal that cannot be caught only the child itself learns
    env, keeper = held("", "" if number == signal.SIGKILL else "cat never &")
    with subprocess.Popen(
        [cases.QBINFO, "version", "--timeout", "60"],
        env=cases.environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        _wait_for_start(keeper)
        process.send_signal(number)
        assert process.wait(60) == -number
    assert _is_gone(keeper)


# I48: only names that a loader asks for, in every folder that it looks at
@pytest.mark.parametrize(
    "name,is_found",
    [
        ("libqbruntime.so", True),
        ("libqbruntime.so.0", True),
        ("libqbruntime.so.0.1.2", True),
        ("libqbruntime.so.bak", False),
        ("libqbruntime.so.0.debug", False),
        ("libqbruntime.so.", False),
        ("libqbruntime.so-gdb.py", False),
    ],
)
@pytest.mark.parametrize("folder", ["{}", "here", ""])
@cases.one_library
def test_libraries_are_those_of_the_loader(tmp_path, name, is_found, folder):
    place = tmp_path / "here"
    place.mkdir()
    shutil.copy("/bin/true", place / name)
    env = {"LD_LIBRARY_PATH": f"{cases.LIBRARY}:{folder.format(place)}"}
    done = cases.run("doctor", env=env, cwd=tmp_path if folder else place)
    assert (b"(E-LIB-1)" in done.stdout) == is_found, done
