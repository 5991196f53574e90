# SPDX-License-Identifier: MIT
"""Options, words and files of qbcompile."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compile_cases import DIGITS, TOP, Outcome, model, node

from qbcompile import __version__, cli, container, ops
from qbcompile import isa_tables as isa

RELU = model([node("Relu", "x", "y")], {"x": (2, 3)})
IMAGE = model([node("Relu", "x", "y")], {"x": (1, 3, 2, 2)})
DIGITS_SHAPE = ["--shape", "image=1,1,8,8"]


def call(
    *options: str, cwd: Path, data: bytes = b"", **settings: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "qbcompile", *options],
        cwd=cwd,
        input=data,
        capture_output=True,
        check=False,
        **settings,
    )


UNKNOWN = ["--check", "--quantize", "--calib", "--variant", "--batch", "--seq-dim"]
UNKNOWN += ["--kv", "--state", "--bind", "--allow-cast", "--output-dtype", "--shap"]
WRONG: list[tuple[list[str], str]] = [
    (["--shape", "x"], "expected NAME=VALUE"),
    (["--shape", "x=1,-1"], "not a list of extents"),
    (["--shape", "x=0"], "at least 1"),
    (["--shape", "x=1", "--shape", "x=2"], "given twice"),
    (["--shape", "z=1"], "no input 'z'"),
    (["--dim", "N=1,2"], "not one extent"),
    (["--outputs", "z"], "no node makes 'z'"),
    (["--outputs", "y,y"], "named twice"),
    (["--input-dtype", "x=int4"], "'int4' is not supported"),
    (["--input-dtype", "z=uint8"], "no input 'z'"),
    (["--input-layout", "x=nchwc"], "'nchwc' is not supported"),
    (["--input-layout", "z=nchw"], "no input 'z'"),
    (["--mean", "1,a"], "not a list of numbers"),
    (["--mean", "nan"], "not a list of numbers"),
    (["--mean", "1_0"], "not a list of numbers"),
    (["--mean", "1e999"], "out of range"),
    (["--std", "0"], "not positive"),
    (["--io-rank", "9"], "1 to 6"),
    (["--io-rank", "\u0663"], "not a whole number"),
    (["--outputs", ","], "an empty name"),
    (["--name", "\udcff"], "encoding of the locale"),
    (["-o", ""], "name of the output file is empty"),
    (["--report", ""], "name of the report file is empty"),
    (["--target", "regulus-ra", "--core-modes", "multi"], "has no mode 'multi'"),
    (["--core-modes", "double"], "'double'"),
    (["--target", "gpu"], "invalid choice"),
    (["--no-fuse", "everything"], "invalid choice"),
    (["-O2"], "invalid choice"),
    (["-v", "-q"], "not allowed with"),
    (["--meta", "a"], "expected NAME=VALUE"),
    (["--meta", "source.file=x"], "the compiler's own"),
    (["--meta", "a=\x1b[31m"], "control characters"),
    (["--name", "a", "--meta", "model.name=b"], "--name"),
    (["second.onnx"], "unrecognized arguments"),
]


@pytest.mark.parametrize("option", UNKNOWN)
def test_option_that_is_not_built_is_unknown(option: str, tmp_path: Path) -> None:
    outcome = Outcome(tmp_path, RELU, [f"{option}=1"])
    assert outcome.code == 2
    assert "unrecognized arguments" in outcome.err and not outcome.path.exists()


@pytest.mark.parametrize("options, words", WRONG, ids=lambda v: " ".join(v)[:30])
def test_wrong_option_is_a_usage_error(
    options: list[str], words: str, tmp_path: Path
) -> None:
    outcome = Outcome(tmp_path, RELU, options)
    assert outcome.code == 2, outcome.err
    assert "error[2]" in outcome.err and words in outcome.err
    assert not outcome.path.exists() and not outcome.out


def test_no_model_is_a_usage_error(tmp_path: Path) -> None:
    done = call(cwd=tmp_path)
    assert done.returncode == 2 and b"no model" in done.stderr


def test_absent_file_and_folder_are_input_errors(tmp_path: Path) -> None:
    for name, words in (
        ("none.onnx", b"no such file"),
        (".", b"not a regular file"),
        ("/", b"not a regular file"),
        ("", b"no such file"),
    ):
        done = call(name, "-o", "y.qbm", cwd=tmp_path)
        assert done.returncode == 3 and words in done.stderr
        assert call(name, cwd=tmp_path).returncode == 3


def test_help_and_version(tmp_path: Path) -> None:
    done = call("--version", cwd=tmp_path)
    assert done.stdout.decode() == f"qbcompile {__version__}\n"
    done = call("--help", cwd=tmp_path)
    assert done.returncode == 0
    for option in UNKNOWN[:-1]:
        assert option + " " not in done.stdout.decode()
    assert "--input-layout" in done.stdout.decode()


def test_default_output_stands_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "net.v2.onnx").write_bytes(RELU)
    assert call("net.v2.onnx", cwd=tmp_path).returncode == 0
    assert (tmp_path / "net.v2.qbm").exists()


# QL01
def test_stdin_and_stdout(tmp_path: Path) -> None:
    done = call("-", "-o", "-", cwd=tmp_path, data=RELU)
    assert done.returncode == 0 and not done.stderr
    file = container.read(done.stdout)
    assert file.meta["source.file"] == "stdin"
    assert call("-", cwd=tmp_path, data=RELU).returncode == 2
    assert call("-", "-o", "-", "--explain", cwd=tmp_path, data=RELU).returncode == 2


# QL01
def test_terminal_gets_no_model(tmp_path: Path) -> None:
    primary, secondary = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "qbcompile", "-", "-o", "-"],
            input=RELU,
            stdout=secondary,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(secondary)
        os.close(primary)
    assert done.returncode == 2 and b"terminal" in done.stderr


def test_model_is_not_overwritten_by_its_result(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(RELU)
    done = call("m.onnx", "-o", "./m.onnx", cwd=tmp_path)
    assert done.returncode == 2 and b"the model itself" in done.stderr
    assert (tmp_path / "m.onnx").read_bytes() == RELU


def test_result_that_cannot_be_written_is_exit_8(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(RELU)
    done = call("m.onnx", "-o", "none/y.qbm", cwd=tmp_path)
    assert done.returncode == 8 and b"cannot be written" in done.stderr
    (tmp_path / "folder").mkdir()
    done = call("m.onnx", "-o", "folder", cwd=tmp_path)
    assert done.returncode == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "m.onnx"]


def test_list_may_begin_with_a_minus_sign(tmp_path: Path) -> None:
    options = ["--mean", "-1,2,-3", "--std", "2"]
    file = Outcome(tmp_path, IMAGE, options).file
    assert file.ios[0].mean[:3] == (-1.0, 2.0, -3.0)
    assert file.ios[0].std[:3] == (2.0, 2.0, 2.0)


# FM31
def test_image_is_not_padded_to_more_axes(tmp_path: Path) -> None:
    outcome = Outcome(tmp_path, IMAGE, ["--io-rank", "4"])
    assert outcome.code == 2 and "'x' is an image" in outcome.err
    assert Outcome(tmp_path, IMAGE, ["--io-rank", "3"]).file.ios[0].layout == 1
    assert Outcome(tmp_path, RELU, ["--io-rank", "4"]).file.ios[0].layout == 0


# QE02
def test_float16_is_warned_of(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "h", to=10), node("Cast", "h", "y", to=1)]
    outcome = Outcome(tmp_path, model(nodes, {"x": (2, 3)}), [])
    assert outcome.code == 0 and "warning: W03: float16" in outcome.err
    assert "W03" not in Outcome(tmp_path, RELU, []).err


def test_result_has_the_users_permissions(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(RELU)
    assert call("m.onnx", cwd=tmp_path, umask=0o027).returncode == 0
    assert (tmp_path / "m.qbm").stat().st_mode & 0o777 == 0o640


# FM11 FM03
def test_meta(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("cat\ndog\n")
    options = [*DIGITS_SHAPE, "--labels", str(names), "--name", "pets"]
    options += ["--meta", "model.author=A = B", "--std", "2", "--no-fuse", "scale"]
    data = DIGITS.read_bytes()
    meta = Outcome(tmp_path, data, options).file.meta
    assert meta.pop("source.producer") == "train_digits.py"
    assert meta == {
        "compiler.options": "--shape image=1,1,8,8 --std 2 --no-fuse scale",
        "compiler.version": __version__,
        "labels": "cat\ndog",
        "model.author": "A = B",
        "model.name": "pets",
        "source.file": "m.onnx",
        "source.opset": "13",
        "source.sha256": hashlib.sha256(data).hexdigest(),
    }


def test_labels_that_cannot_be_read_or_stored(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    assert Outcome(tmp_path, RELU, ["--labels", str(path)]).code == 3
    path.write_bytes(b"\xff\n")
    assert Outcome(tmp_path, RELU, ["--labels", str(path)]).code == 3
    path.write_text("x" * 5000)
    assert Outcome(tmp_path, RELU, ["--labels", str(path)]).code == 6
    path.write_bytes(bytes((1 << 20) + 1))
    assert Outcome(tmp_path, RELU, ["--labels", str(path)]).code == 3
    os.mkfifo(tmp_path / "fifo")
    for name in (str(tmp_path / "fifo"), ".", "/"):
        assert Outcome(tmp_path, RELU, ["--labels", name]).code == 3


# QC60 QC65 FM20 FM21
@pytest.mark.parametrize(
    "options, mask, programs",
    [
        ([], 1, 1),
        (["--core-modes", "single,multi"], 3, 1),
        (["--core-modes", "global4"], 8, 1),
        (["--core-modes", "all"], 27, 3),
        (["--target", "aries-rb"], 1, 1),
        (["--target", "regulus-rb"], 1, 1),
        (["--target", "aries-rb", "--core-modes", "all"], 27, 3),
        (["--target", "regulus-ra-usb", "--core-modes", "all"], 1, 1),
    ],
)
def test_core_modes(
    options: list[str], mask: int, programs: int, tmp_path: Path
) -> None:
    outcome = Outcome(tmp_path, RELU, options)
    file = outcome.file
    assert file.bundles[0].mode_mask == mask and len(file.programs) == programs
    assert ("W02" in outcome.err) == (mask.bit_count() > 1)
    for mode in (isa.SINGLE, isa.MULTI, isa.GLOBAL4, isa.GLOBAL8):
        number = file.bundles[0].program[mode]
        assert (number != isa.NONE32) == bool(mask >> mode & 1)
        if number != isa.NONE32:
            expected = isa.SINGLE if mode == isa.MULTI else mode
            assert file.programs[number].core_mode == expected
    target = options[options.index("--target") + 1] if "--target" in options else "any"
    assert isa.TARGET_NAMES[file.target] == target


# QC02
def test_dim_fixes_a_symbol_everywhere(tmp_path: Path) -> None:
    data = model([node("Add", "x z", "y")], {"x": ("N", 3), "z": ("N", 3)})
    file = Outcome(tmp_path, data, ["--dim", "N=5"]).file
    assert [entry.shape for entry in file.ios] == [(5, 3)] * 3
    assert (
        Outcome(tmp_path, data, ["--dim", "N=5", "--dim", "M=1"]).err.count("W04") == 1
    )


# QC02
def test_shape_overrides_the_file(tmp_path: Path) -> None:
    file = Outcome(tmp_path, RELU, ["--shape", "x=7,2"]).file
    assert file.ios[1].shape == (7, 2)


# QE03
def test_unknown_extent_of_a_rankless_input(tmp_path: Path) -> None:
    data = model([node("Relu", "x", "y")], {"x": None})  # type: ignore[dict-item]
    outcome = Outcome(tmp_path, data, [])
    assert outcome.code == 5 and "--shape x=" in outcome.err
    assert Outcome(tmp_path, data, ["--shape", "x=2,2"]).code == 0


def test_outputs_cut_the_graph(tmp_path: Path) -> None:
    outcome = Outcome(
        tmp_path, DIGITS.read_bytes(), [*DIGITS_SHAPE, "--outputs", "pool2,relu3"]
    )
    names = [entry.name for entry in outcome.file.ios]
    assert names == ["image", "pool2", "relu3"] and "matmul" not in outcome.opcodes


# QL03 QE02
@pytest.mark.parametrize(
    "options",
    [
        ["--mean", "1"],
        ["--std", "2"],
        ["--input-layout", "x=nhwc"],
        ["--input-dtype", "x=float32"],
        ["--io-rank", "2"],
        ["--no-fuse", "residual"],
        ["-O0"],
    ],
    ids=lambda v: v[0],
)
def test_option_without_effect_is_a_warning(options: list[str], tmp_path: Path) -> None:
    outcome = Outcome(tmp_path, RELU, options)
    assert outcome.code == 0 and "warning: W04: " + options[0] in outcome.err


# QC12
def test_report(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    options = [*DIGITS_SHAPE, "--input-dtype", "image=uint8", "--std", "16"]
    outcome = Outcome(tmp_path, DIGITS.read_bytes(), [*options, "--report", str(path)])
    report = json.loads(path.read_text())
    assert (
        list(report)
        == (
            "schema source options variants weights_bytes file_bytes nodes fusions "
            "refused_fusions quantisation warnings errors check seconds"
        ).split()
    )
    assert report["schema"] == "qbcompile/report/1"
    assert report["source"]["nodes"] == len(report["nodes"]) == 11
    assert report["file_bytes"] == outcome.path.stat().st_size
    assert report["weights_bytes"] == len(outcome.file.weights)
    assert report["fusions"] == {"activation": 3, "normalise": 1, "residual": 1}
    (bundle,) = report["variants"][0]["bundles"]
    assert bundle["by_opcode"] == {
        "cast": 1,
        "conv2d": 3,
        "copy": 1,
        "matmul": 1,
        "pool": 2,
    }
    assert bundle["commands"] == 8
    products = 64 * 16 * 9 + 64 * 16 * 144 + 16 * 32 * 144 + 1280
    assert bundle["macs"] == outcome.file.programs[0].mac_count == products
    assert set(report["seconds"]) >= {"load", "fold", "fuse", "plan", "emit"}


EXPLAINED = """\
conv1 Conv: command 1
relu1 Relu: fused into command 1 (QC22)
conv2 Conv: command 2
add2 Add: fused into command 2 (QC24)
relu2 Relu: fused into command 2 (QC22)
pool2 MaxPool: command 3
conv3 Conv: command 4
relu3 Relu: fused into command 4 (QC22)
pool3 MaxPool: command 5
flat Flatten: command 6
logits Gemm: command 7
"""


def test_explain_tells_each_nodes_fate(tmp_path: Path) -> None:
    options = [
        *DIGITS_SHAPE,
        "--input-dtype",
        "image=uint8",
        "--std",
        "16",
        "--explain",
    ]
    assert Outcome(tmp_path, DIGITS.read_bytes(), options).out == EXPLAINED
    nodes = [
        node("Shape", "x", "s"),
        node("Reshape", "x s", "r"),
        node("Identity", "r", "i"),
        node("Transpose", "i", "t", perm=[1, 0]),
        node("Clip", "t lo hi", "c"),
        node("Neg", "x", "unused"),
        node("Relu", "c", "y"),
    ]
    data = model(nodes, {"x": (2, 3), "lo": (), "hi": ()})
    lines = Outcome(tmp_path, data, ["--explain"]).out.splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [
        "folded",
        "view of x",
        "view of x",
        "view of x",
        "commands 0..1",
        "not needed",
        "command 2",
    ]


def test_explain_works_on_a_refused_model(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a"), node("TopK", "a", "y")]
    outcome = Outcome(tmp_path, model(nodes, {"x": (2, 3)}), ["--explain"])
    assert outcome.code == 4
    assert outcome.out.splitlines() == [
        "n_a Relu: supported",
        "n_y TopK: refused: this operator is not supported",
    ]


# FM04
def test_words_of_a_model_are_not_printed_raw(tmp_path: Path) -> None:
    item = node("TopK", "x", "y")
    item.name = "\x1b]0;owned\x07"
    outcome = Outcome(tmp_path, model([item], {"x": (2, 3)}), ["--explain"])
    assert outcome.code == 4
    assert "\x1b" not in outcome.out + outcome.err


# FM04
def test_names_with_control_characters_are_stored_clean(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a"), node("Neg", "a", "y")]
    nodes[0].output[0] = nodes[1].input[0] = "a\tb"
    nodes[0].name = "line\nfeed"
    file = Outcome(tmp_path, model(nodes, {"x": (2, 3)}), ["-O0"]).file
    assert "a_b" in [tensor.name for tensor in file.programs[0].tensors]
    assert file.programs[0].debug[0].nodes == "line_feed"


def test_list_ops(tmp_path: Path) -> None:
    lines = call("--list-ops", cwd=tmp_path).stdout.decode().splitlines()
    entries = json.loads(call("--list-ops", "json", cwd=tmp_path).stdout)
    assert [line.split()[0] for line in lines] == [entry["op"] for entry in entries]
    assert [entry["op"] for entry in entries] == sorted(ops.OPS)
    conv = next(entry for entry in entries if entry["op"] == "Conv")
    assert conv["since"] == 7 and "constant weights" in conv["restrictions"]


@pytest.mark.parametrize("options, code", [(["--explain"], 0), (["-o", "-"], 8)])
def test_reader_that_goes_away_causes_no_traceback(
    options: list[str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").write_bytes(RELU)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "qbcompile", "m.onnx", *options]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr and b"ignored" not in done.stderr


# QL04
def test_verbose_names_each_pass_and_quiet_says_nothing(tmp_path: Path) -> None:
    err = Outcome(tmp_path, RELU, ["-v"]).err
    passes = [line.split(":")[0] for line in err.splitlines()]
    assert passes == "load fold canon fuse lower plan emit validate".split()
    assert Outcome(tmp_path, RELU, ["-q"]).err == ""
    assert Outcome(tmp_path, RELU, []).err == ""


# QL04
def test_terminal_is_told_about_slow_work_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    (tmp_path / "m.onnx").write_bytes(RELU)
    out = str(tmp_path / "m.qbm")
    for slow, silent in ((-1.0, False), (1e9, True)):
        terminal = Terminal()
        monkeypatch.setattr(cli, "SLOW", slow)
        monkeypatch.setattr(sys, "stderr", terminal)
        assert cli.main([str(tmp_path / "m.onnx"), "-o", out]) == 0
        text = terminal.getvalue()
        assert (text == "") == silent
        if not silent:
            assert "fuse" in text and "%" in text and "\n" not in text
            assert text.endswith("\r")


# QL02
def test_nothing_is_fetched_or_unpickled() -> None:
    folder = Path(cli.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text().replace("allow_pickle=False", "")
        for word in ("urllib", "http", "socket", "pickle", "exec(", "eval("):
            assert word not in text.replace("_eval(", ""), (path, word)


# MO07
def test_train_script_and_spec_name_the_same_data() -> None:
    text = (TOP / "examples/train_digits.py").read_text()
    page = (TOP / "docs/spec/device-and-format.md").read_text()
    checksum = text.split('CSV_SHA256 = "')[1].split('"')[0]
    assert len(checksum) == 64 and checksum in page
