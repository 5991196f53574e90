# SPDX-License-Identifier: MIT
"""What both tools do with files and standard streams that are not as usual."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable

import pytest
from compile_cases import Outcome, model, node
from qbm_samples import CORPUS, GOLDEN

from qbcompile import asm, cli, container, files, qbm

RELU = model([node("Relu", "x", "y")], {"x": (2, 3)})
COPY64 = (GOLDEN / "copy64.qbm").read_bytes()


def qbcompile(*arguments: str | Path) -> int:
    return cli.main([str(argument) for argument in arguments])


def run(*arguments: str | Path) -> int:
    return qbm.main([str(argument) for argument in arguments])


def big() -> bytes:
    """A container whose weights stand beside its text."""
    file = container.read(COPY64)
    file.weights = bytes(range(256)) * 20
    return container.write(file)


@pytest.fixture(name="net")
def fixture_net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(RELU)
    return path


def read_fifo(path: Path, write: Callable[[], int]) -> tuple[int, bytes]:
    """Exit code of a tool that writes into this FIFO, and what came out."""
    found: list[bytes] = []
    # a daemon: if nobody writes, it waits beyond the test
    reader = threading.Thread(
        target=lambda: found.append(path.read_bytes()), daemon=True
    )
    reader.start()
    code = write()
    if not stat.S_ISFIFO(path.lstat().st_mode):  # replaced: nobody will write
        path.unlink()
    reader.join(timeout=20)
    return code, b"".join(found)


def test_fifo_is_written_and_stays(net: Path, tmp_path: Path) -> None:
    source, fifo = tmp_path / "x.qbm", tmp_path / "fifo"
    source.write_bytes(big())
    os.mkfifo(fifo)
    for write in (
        lambda: qbcompile(net, "-o", fifo),
        lambda: qbcompile(net, "-o", tmp_path / "y.qbm", "--report", fifo),
        lambda: run("strip", source, "-o", fifo),
        lambda: run("asm", CORPUS / "conv_net.txt", "-o", fifo),
        lambda: run("dump", source, "-o", fifo),
    ):
        code, data = read_fifo(fifo, write)
        assert code == 0 and len(data) > 100
        assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_device_is_written_in_place(net: Path, tmp_path: Path) -> None:
    device = tmp_path / "device"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError:
        pytest.skip("device nodes cannot be made or opened here")
    assert qbcompile(net, "-o", device, "--report", device) == 0
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_what_cannot_be_written_is_refused(net: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in (".", "/", "loop", "new/"):
        target = name if name in "./" else f"{tmp_path}/{name}"
        assert qbcompile(net, "-o", target) == 8
        assert qbcompile(net, "-o", tmp_path / "y", "--report", target) == 8
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loop", "net.onnx"]


def test_link_stays_and_leads_to_the_result(net: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there/x.qbm"
    link.symlink_to(target)
    for _ in "new", "old":
        assert qbcompile(net, "-o", link) == 0
        assert link.is_symlink() and container.read(target.read_bytes())


def test_name_of_the_longest_length_can_be_written(net: Path, tmp_path: Path) -> None:
    assert qbcompile(net, "-o", tmp_path / ("x" * 255)) == 0
    assert qbcompile(net, "-o", tmp_path / ("x" * 256)) == 8


def test_no_input_is_replaced(net: Path, tmp_path: Path) -> None:
    labels, plain = tmp_path / "labels", tmp_path / "model.qbm"
    labels.write_text("cat")
    plain.write_bytes(RELU)
    (tmp_path / "link").symlink_to(net)
    os.link(net, tmp_path / "hard")
    y = tmp_path / "y.qbm"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments in (
        [plain],
        [net, "-o", net],
        [net, "-o", tmp_path / "link"],
        [net, "-o", tmp_path / "hard"],
        [net, "-o", y, "--report", net],
        [net, "-o", y, "--report", y],
        [net, "-o", y, "--report", f"{tmp_path}/./y.qbm"],
        [net, "-o", labels, "--labels", labels],
        [net, "-o", y, "--report", labels, "--labels", labels],
    ):
        assert qbcompile(*arguments) == 2
        assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_external_data_are_not_replaced(tmp_path: Path) -> None:
    item = model([node("Add", "x w", "y")], {"x": (2,)})
    proto = cli.load.onnx.ModelProto.FromString(item)
    tensor = proto.graph.initializer.add(name="w", data_type=1, dims=[2])
    tensor.data_location = 1
    tensor.external_data.add(key="location", value="w.bin")
    net, data = tmp_path / "net.onnx", tmp_path / "w.bin"
    data.write_bytes(bytes(8))
    # A model that is refused for another reason must not cost the data either.
    for change in (lambda: None, lambda: proto.graph.node.add(op_type="TopK")):
        change()
        net.write_bytes(proto.SerializeToString())
        for arguments in (["-o", data], ["--report", data]):
            assert qbcompile(net, *arguments) == 2
            assert data.read_bytes() == bytes(8)


def test_qbm_replaces_nothing_that_it_reads(tmp_path: Path) -> None:
    source, text, data = tmp_path / "x.wght", tmp_path / "x.txt", tmp_path / "data"
    source.write_bytes(big())
    data.write_bytes(b"news")
    weights = tmp_path / "y.wght"
    assert run("dump", source, "-o", tmp_path / "y.txt") == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments in (
        ["dump", source, "-o", source],
        ["dump", source, "-o", text],
        ["dump", source, "-o", tmp_path / "z.wght"],
        ["asm", tmp_path / "y.txt", "-o", tmp_path / "y.txt"],
        ["asm", tmp_path / "y.txt", "-o", weights],
        ["add-section", source, "NEWS", data, "-o", data],
        ["add-section", source, "NEWS", source],
    ):
        assert run(*arguments) == 2, arguments
        assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


# QE04
def test_all_results_or_none(net: Path, tmp_path: Path) -> None:
    source = tmp_path / "x.qbm"
    source.write_bytes(big())
    (tmp_path / "z.txt").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run("dump", source, "-o", tmp_path / "z.txt") == 8
    assert qbcompile(net, "-o", tmp_path / "y", "--report", tmp_path / "z.txt") == 8
    assert qbcompile(net, "-o", tmp_path / "y", "--report", tmp_path / "no/z") == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    source = tmp_path / "x.qbm"
    source.write_bytes(COPY64)
    assert run("strip", source, "-o", tmp_path / "y.qbm") == 130
    assert [path.name for path in tmp_path.iterdir()] == ["x.qbm"]


# QM04
def test_weights_come_from_the_texts_own_folder(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "in"
    folder.mkdir()
    secret.write_bytes(bytes(64))
    (folder / "own").write_bytes(bytes(64))
    (folder / "out.wght").symlink_to(secret)
    (folder / "in.wght").symlink_to("own")
    (folder / "loop.wght").symlink_to("loop.wght")
    text = asm.dump(container.read(COPY64), "")
    for name, code in (("in", 0), ("out", 3), ("loop", 3), ("none", 3)):
        path = folder / f"{name}.txt"
        path.write_text(text + f'weights file="{name}.wght"\n')
        assert run("asm", path, "-o", folder / "x.qbm") == code


def shell(script: str, cwd: Path) -> tuple[int, str]:
    """Exit code and stderr of a script; $C and $Q are the tools."""
    tools = {"C": f"{sys.executable} -m qbcompile"}
    tools["Q"] = f"{sys.executable} -m qbcompile.qbm"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        env={**os.environ, **tools},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    text = done.stderr.decode()
    assert "Traceback" not in text and "ignored" not in text
    return done.returncode, text


@pytest.mark.parametrize(
    "script, code",
    [
        ("$C net.onnx >&-", 0),
        ("$C net.onnx --explain >&-", 8),
        ("$C net.onnx -o - >&-", 8),
        ("$C --list-ops >&-", 8),
        ("$C net.onnx --explain >/dev/full", 8),
        ("$C net.onnx -o - >/dev/full", 8),
        ("$C --list-ops >/dev/full", 8),
        ("$C --help >/dev/full", 8),
        ("$C - -o y.qbm <&-", 3),
        ("$Q dump x.qbm >&-", 8),
        ("$Q diff x.qbm z.qbm >/dev/full", 8),
        ("$Q --help >/dev/full", 8),
    ],
)
def test_stream_that_is_closed_or_full(
    script: str, code: int, net: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.qbm").write_bytes(COPY64)
    (tmp_path / "z.qbm").write_bytes(big())
    found, text = shell(script, tmp_path)
    assert found == code and text.count("\n") == (code != 0)


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_error_that_nobody_hears_keeps_its_code(
    stderr: str, net: Path, tmp_path: Path
) -> None:
    assert shell(f"$C none.onnx {stderr}", tmp_path)[0] == 3
    assert shell(f"$C {stderr}", tmp_path)[0] == 2
    assert shell(f"$C net.onnx -v {stderr}", tmp_path)[0] == 0
    assert shell(f"$Q dump none {stderr}", tmp_path)[0] == 3


def test_reader_that_goes_away_is_no_news(tmp_path: Path) -> None:
    (tmp_path / "x.qbm").write_bytes(COPY64)
    for command in (["qbcompile.qbm", "dump", "x.qbm"], ["qbcompile", "--list-ops"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(write)
        assert (done.returncode, done.stderr) == (8, b"")


def test_output_goes_through_a_stream_that_knows_ascii_alone(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y")]
    nodes[0].name = "n\u00e9"
    (tmp_path / "net.onnx").write_bytes(model(nodes, {"x": (2, 3)}))
    ascii_only = "PYTHONIOENCODING=ascii:strict"
    assert shell(f"{ascii_only} $C net.onnx --explain", tmp_path) == (0, "")
    code, text = shell(f"{ascii_only} $C n\u00e9.onnx", tmp_path)
    assert code == 3 and "n\\xe9.onnx" in text


# FM04
def test_words_of_arguments_are_not_printed_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = "\x1b]0;owned\x07"
    a, b = tmp_path / f"a{word}", tmp_path / f"b{word}"
    a.write_bytes(COPY64)
    b.write_bytes(big())
    for arguments in (["diff", a, b], [word], ["verify", a], ["dump", a, word]):
        run(*arguments)
    for options in ([word, "--report", ""], [f"--{word}"], ["--target", word]):
        qbcompile(*options)
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "\\x1b]0;owned" in captured.out and "\\x1b]0;owned" in captured.err


def test_interrupt_is_quiet(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.load, "parse", interrupt)
    assert qbcompile(net) == 130 and not net.with_suffix(".qbm").exists()
    assert capsys.readouterr() == ("", "")


def test_clash_names_both(tmp_path: Path) -> None:
    with pytest.raises(files.Clash, match="-o names the file of --report"):
        files.check_apart([], [("--report", tmp_path / "a"), ("-o", tmp_path / "a")])


def test_outcome_of_a_refused_model_is_its_own(tmp_path: Path) -> None:
    refused = Outcome(tmp_path, b"no model", ["--report", str(tmp_path / "r.json")])
    assert refused.code == 3 and (tmp_path / "r.json").exists()
