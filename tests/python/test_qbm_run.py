# SPDX-License-Identifier: MIT
"""qbm run: a model on the device, over the package qbruntime."""

import hashlib
import os
import subprocess
import sys
import zlib

import pytest
from runtime_cases import COPY64, DIGITS

qbm = pytest.importorskip("qbcompile.qbm")
np = pytest.importorskip("numpy")


@pytest.fixture
def save(tmp_path):
    """Gives an .npy file of an array."""

    def write(name, array):
        np.save(tmp_path / name, array)
        return f"{tmp_path / name}.npy"

    return write


def run(*arguments):
    return qbm.main(["run", *map(str, arguments)])


def say(array, name, index=0):
    shape, digest = list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()
    line = f'output {index} "{name}" dtype={array.dtype} shape={shape} sha256={digest}'
    return line + "\n"


# QM08
@pytest.mark.parametrize("shape", [(64,), (1, 64)])
def test_an_input_goes_through_the_model(save, capsys, shape):
    pytest.importorskip("qbruntime")
    data = np.arange(64, dtype="u1") * 3
    assert run(COPY64, "--input", f"x={save('in', data.reshape(shape))}") == 0
    assert capsys.readouterr() == (say(data, "y"), "")


# QM08
def test_every_output_is_told_and_inputs_not_given_are_zeros(capsys, corpus_model):
    pytest.importorskip("qbruntime")
    assert run(corpus_model("fill_crc")) == 0
    filled = np.full((4, 16), 0xA5, "u1")
    crc = np.array([zlib.crc32(bytes(300))], "u4")
    expected = say(filled, "filled") + say(crc, "crc", 1)
    assert capsys.readouterr().out == expected


# QM08
def test_several_inputs_are_told_apart_by_name(save, capsys, corpus_model):
    pytest.importorskip("qbruntime")
    a = np.arange(15, dtype="f4").reshape(3, 5) - 7
    b = np.arange(5, dtype="f4")
    inputs = ["--input", f"b={save('b', b)}", "--input", f"a={save('a', a)}"]
    assert run(corpus_model("two_inputs"), *inputs) == 0
    sums = say(np.maximum(a + b, 0), "sum")
    assert capsys.readouterr().out == sums + say(a - b, "difference", 1)


# QM08
def test_arrays_that_do_not_fit_are_refused_by_name(save, capsys, tmp_path):
    pytest.importorskip("qbruntime")
    text = tmp_path / "text.npy"
    text.write_text("no array")
    huge = tmp_path / "huge.npy"
    with open(huge, "wb") as file:
        form = {"descr": "|u1", "fortran_order": False, "shape": (1 << 60,)}
        np.lib.format.write_array_header_1_0(file, form)
    os.mkfifo(tmp_path / "fifo.npy")
    for argument, words in (
        (f"x={save('f', np.zeros(64, 'f4'))}", "input 'x' is uint8 [64], "),
        (f"x={save('s', np.zeros(32, 'u1'))}", "has uint8 [32]"),
        (f"x={save('t', np.zeros((64, 1), 'u1'))}", "has uint8 [64, 1]"),
        (f"z={save('z', np.zeros(64, 'u1'))}", "there is no input 'z', but x"),
        (f"x={tmp_path / 'missing.npy'}", "missing.npy: no such file or folder"),
        (f"x={tmp_path / 'fifo.npy'}", "fifo.npy: not a regular file"),
        (f"x={huge}", "huge.npy is not read as .npy"),
        (f"x={text}", "text.npy is not read as .npy"),
    ):
        assert run(COPY64, "--input", argument) == 3
        out, err = capsys.readouterr()
        assert out == "" and words in err
        assert err.startswith(f"{COPY64}: error[3]: ") and err.count("\n") == 1


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


# QM08 QL02
def test_pickles_are_never_executed(save, capsys, tmp_path):
    pytest.importorskip("qbruntime")
    touched = tmp_path / "touched"
    pickled = save("p", np.array([Touch(str(touched))], dtype=object))
    assert run(COPY64, "--input", f"x={pickled}") == 3
    assert "is not read as .npy" in capsys.readouterr().err
    assert not touched.exists()


def test_inputs_are_named_once(capsys):
    for arguments in (["x.npy"], ["x="], ["x=a.npy", "x=b.npy"]):
        options = [part for text in arguments for part in ("--input", text)]
        assert run(COPY64, *options) == 2
        assert "--input is NAME=ARRAY.npy" in capsys.readouterr().err


def test_a_file_that_is_no_model_is_refused(capsys, tmp_path):
    pytest.importorskip("qbruntime")
    path = tmp_path / "bad.qbm"
    path.write_bytes(DIGITS.read_bytes()[:-100])
    for name in (path, tmp_path / "missing.qbm"):
        assert run(name) == 3
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"{name}: error[3]: ")


# QM08
def test_without_the_package_the_sentence_names_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "qbruntime", None)
    monkeypatch.delitem(sys.modules, "qbcompile.run", raising=False)
    assert run(COPY64) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(
        f"{COPY64}: error[1]: the Python package qbruntime is needed to run a model"
    )


# QM08
def test_without_a_device_the_sentence_says_so():
    pytest.importorskip("qbruntime")
    child = subprocess.run(
        [sys.executable, "-m", "qbcompile.qbm", "run", COPY64],
        capture_output=True,
        text=True,
        env=dict(os.environ, QBRUNTIME_SOFT_DEVICES="none"),
    )
    assert child.returncode == 1 and child.stdout == ""
    assert child.stderr.startswith(f"{COPY64}: error[1]: ")
    assert child.stderr.count("\n") == 1 and "please report" not in child.stderr
