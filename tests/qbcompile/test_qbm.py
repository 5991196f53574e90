# SPDX-License-Identifier: MIT
"""The tool qbm: what each command does, exit codes, bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from qbm_samples import CORPUS, GOLDEN, copy64

import qbcompile
from qbcompile import asm, container, qbm, sections

COPY64 = (GOLDEN / "copy64.txt").read_text()
TEXTS = sorted(CORPUS.glob("*.txt"))


def load(name: str) -> bytes:
    """Weights files of the corpus."""
    return (CORPUS / name).read_bytes()


def assemble(source: str) -> bytes:
    return container.write(asm.parse(source, load))


def run(*arguments: str | Path) -> int:
    return qbm.main([str(argument) for argument in arguments])


def make(path: Path, name: str = "conv_net") -> Path:
    """Assembles a corpus text with the tool."""
    assert run("asm", CORPUS / f"{name}.txt", "-o", path) == 0
    return path


def test_dump_to_stdout_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path / "x.qbm")
    assert run("dump", path) == 0
    source = tmp_path / "x.txt"
    source.write_text(capsys.readouterr().out)
    assert run("asm", source, "-o", tmp_path / "y.qbm") == 0
    assert (tmp_path / "y.qbm").read_bytes() == path.read_bytes()


def test_strip_leaves_out_debug_entries_and_names(tmp_path: Path) -> None:
    path, out = make(tmp_path / "x.qbm"), tmp_path / "y.qbm"
    assert run("strip", path, "-o", out) == 0
    data = out.read_bytes()
    [program] = container.read(data).programs
    assert {tensor.name for tensor in program.tensors} == {""}
    assert not program.debug and all(c.debug == 0 for c in program.commands)
    assert b"DBGI" not in data and b"Conv_1" not in data and b"logits" in data


def test_diff_shows_changed_lines_and_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = make(tmp_path / "a.qbm"), tmp_path / "b.qbm"
    assert run("diff", a, a) == 0 and capsys.readouterr().out == ""
    file = container.read(a.read_bytes())
    file.programs[0].commands[3].fields["alpha"] = 2.0
    b.write_bytes(container.write(file))
    assert run("diff", a, b) == 9
    out = capsys.readouterr().out
    assert "alpha=1.0" in out and "+" in out and "alpha=2.0" in out
    file.weights = bytes(5000)
    a.write_bytes(container.write(file))
    file.weights = bytes(4999) + b"\1"
    b.write_bytes(container.write(file))
    assert run("diff", a, b) == 9
    assert capsys.readouterr().out.count("weights: 5000 bytes") == 2


# VP01
def test_add_section_adds_one_that_readers_skip(tmp_path: Path) -> None:
    path, data = make(tmp_path / "x.qbm"), tmp_path / "data"
    data.write_bytes(b"news")
    assert run("add-section", path, "NEWS", data) == 0
    [section] = container.read(path.read_bytes()).extra
    assert (section.kind, section.data, section.flags) == (b"NEWS", b"news", 0)
    assert run("add-section", "--required", path, "MUST", data) == 0
    assert run("dump", path) == 3
    for kind in ("PROG", "SIGN", "PACK", "abc", "a\u00e9bc"):
        assert run("add-section", path, kind, data) == 2


def test_verify_accepts_good_and_refuses_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("qbcompile._isa")
    path = make(tmp_path / "x.qbm")
    assert run("verify", path) == 0 and capsys.readouterr().out == f"{path}: ok\n"
    source = tmp_path / "bad.txt"
    text = (CORPUS / "conv_net.txt").read_text()
    source.write_text(text.replace("program 0\n", "program 0 mac_count=1\n", 1))
    assert run("asm", source, "-o", path) == 0
    assert run("verify", path) == 9
    assert "PROG 0 is refused by rule V44" in capsys.readouterr().err
    source.write_text(text.replace("kh=2", "kind=9 kh=2"))
    assert run("asm", source, "-o", path) == 0
    assert run("verify", path) == 9
    assert "rule V37, command 2" in capsys.readouterr().err


def test_verify_checks_sha256_and_content_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("qbcompile._isa")
    file = copy64()
    file.given["content_id"] = b"\1"
    path = tmp_path / "x.qbm"
    path.write_bytes(container.write(file))
    assert run("verify", path) == 9
    assert "content_id is wrong" in capsys.readouterr().err


# FM21
def test_verify_compares_the_programs_of_a_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (CORPUS / "modes.txt").read_text()
    data = assemble(source)
    file, found = container.read(data), sections.read_sections(data)[1]
    assert qbm.check_bundles(file, found) == []
    changed = assemble("scale=2.0".join(source.rsplit("scale=1.0", 1)))
    file, found = container.read(changed), sections.read_sections(changed)[1]
    assert qbm.check_bundles(file, found) == [
        "bundle 0: its programs differ in more than core_mode"
    ]
    pytest.importorskip("qbcompile._isa")
    path = tmp_path / "x.qbm"
    path.write_bytes(changed)
    assert run("verify", path) == 9
    assert "differ in more than core_mode" in capsys.readouterr().err


# 3.4
def test_verify_compares_bindings_with_their_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("qbcompile._isa")
    file, path = copy64(), tmp_path / "x.qbm"
    for io in file.ios:
        io.flags = 0
    file.ios[1].alias = 0
    path.write_bytes(container.write(file))
    assert run("verify", path) == 9
    assert "alias of binding 1" in capsys.readouterr().err
    file.programs[0].bindings[1].alias = 0
    assert qbm.check_bindings(file) == []


def test_verify_without_the_validator_is_no_success(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = make(tmp_path / "x.qbm")
    absent: Any = None  # what import takes for a module that is not there
    monkeypatch.setitem(sys.modules, "qbcompile._isa", absent)
    monkeypatch.delattr(qbcompile, "_isa", raising=False)
    assert run("verify", path) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "nothing is verified" in captured.err


def test_exit_codes_of_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path / "x.qbm")
    onnx = tmp_path / "model.onnx"
    onnx.write_bytes(b"\x08\x08\x12\x07pytorch" * 9)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    names = ("missing", ".", "fifo", "empty", "model.onnx")
    for name in names:
        for command in ("dump", "verify"):
            assert run(command, tmp_path / name) == 3
            assert capsys.readouterr().err.count("\n") == 1
    assert run("asm", tmp_path / "binary.txt", "-o", path) == 3
    assert run("asm", onnx, "-o", path) == 3
    assert run("strip", path, "-o", tmp_path / "no" / "y.qbm") == 8
    assert container.read(path.read_bytes())
    assert run("explode", path) == 2
    for name in (".", "/", ""):
        assert run("dump", path, "-o", name) == 8
        assert run("asm", CORPUS / "conv_net.txt", "-o", name) == 8


def test_failed_output_leaves_the_old_file(tmp_path: Path) -> None:
    path = make(tmp_path / "x.qbm")
    before = path.read_bytes()
    bad = tmp_path / "bad.txt"
    bad.write_text("qbm 9")
    assert run("asm", bad, "-o", path) == 3
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bad.txt", "x.qbm"]


def test_module_runs_as_a_program(tmp_path: Path) -> None:
    folder = str(Path(qbcompile.__file__).parents[1])
    command = [sys.executable, "-m", "qbcompile.qbm", "dump"]
    done = subprocess.run(
        [*command, str(GOLDEN / "copy64.qbm")],
        env={**os.environ, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == COPY64
    with open("/dev/full", "w") as full:
        full_disk = subprocess.run(
            [*command, str(GOLDEN / "copy64.qbm")],
            env={**os.environ, "PYTHONPATH": folder},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert full_disk.returncode == 8 and "Traceback" not in full_disk.stderr


def test_package_needs_neither_onnx_nor_numpy() -> None:
    folder = str(Path(qbcompile.__file__).parents[1])
    code = (
        "import sys; sys.modules.update(onnx=None, numpy=None);"
        "import qbcompile.qbm, qbcompile.asm, qbcompile.container"
    )
    environment = {**os.environ, "PYTHONPATH": folder}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_launchers_say_when_they_are_not_installed(tmp_path: Path) -> None:
    folder = os.environ.get("QBRUNTIME_TEST_BIN")
    if not folder:
        pytest.skip("QBRUNTIME_TEST_BIN does not say where qbm is installed")
    for name in ("qbm", "qbcompile"):
        installed = Path(folder) / name
        moved = tmp_path / "bin" / name
        moved.parent.mkdir(exist_ok=True)
        moved.write_bytes(installed.read_bytes())
        for path, code, words in (
            (installed, 0, ""),
            (moved, 1, f"{name}: is not installed: run make install\n"),
        ):
            python = [sys.executable, str(path), "--help"]
            done = subprocess.run(python, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (code, words)
