# SPDX-License-Identifier: MIT
"""model FILE: by content, without a device, and what it says of bad files."""

import json
import os
import re
import shutil
import subprocess
import sys

import cases
import pytest

COPY64 = cases.TOP / "tests" / "data" / "golden" / "copy64.qbm"


def test_a_model_is_shown_as_in_the_specification():
    out = cases.text("model", "digits.qbm", cwd=cases.TOP / "examples").splitlines()
    assert re.fullmatch(
        r"digits\.qbm: qbm 1\.0, isa 1\.0, [\d.]+K, content [0-9a-f]{12}, checksums ok",
        out[0],
    )
    assert re.fullmatch(r"  made by qbcompile \S+ from digits\.onnx", out[1])
    assert (
        out[2].split()
        == "VARIANT MODES I/O NAME SHAPE DTYPE LAYOUT NORM MACS WEIGHTS SCRATCH".split()
    )
    assert (
        out[3].split()[:9] == "default single input image 8x8x1 uint8 HWC x /".split()
    )
    assert out[4].split() == "default single output logits 10 float32 - -".split()
    model = cases.data("model", cases.DIGITS)["models"][0]
    assert model["metadata"]["model.name"] == "digits"
    assert [section["kind"] for section in model["sections"]][:4] == [
        "STRS",
        "META",
        "VARI",
        "IOTB",
    ]
    assert all(section["crc_ok"] for section in model["sections"])
    assert model["size_bytes"] == cases.DIGITS.stat().st_size
    image = model["variants"][0]["inputs"][0]
    assert (image["mean"], image["std"], image["strides_bytes"]) == (
        [0],
        [16],
        [8, 1, 1],
    )


# I43
def test_it_opens_no_device_and_maps_no_code(tmp_path, roots):
    words = ["model", cases.DIGITS, "--sysroot", roots / "bare"]
    lines = cases.strace(tmp_path, "open,openat,openat2,mmap,mprotect,execve", *words)
    begin = [
        i for i, line in enumerate(lines) if "digits.qbm" in line and "open" in line
    ]
    assert begin
    for line in lines[begin[0] :]:
        assert "PROT_EXEC" not in line, line
        assert "/dev/" not in line, line


# I44
def test_bad_files_are_refused_and_nothing_crashes():
    corpus = sorted((cases.TOP / "tests" / "fuzz").rglob("*"))
    files = [
        path for path in corpus if path.is_file() and b"QBM" in path.read_bytes()[:8]
    ]
    files += sorted((cases.TOP / "tests" / "data").rglob("*.qbm"))
    assert files
    for path in files:
        done = cases.run("model", "--commands", path)
        assert done.returncode in (0, 5, 8), (path, done)
        if done.returncode:
            assert done.stderr.decode().startswith("qbinfo: ")


# I44
def test_the_sentence_names_the_offset_and_the_rule(tmp_path):
    whole = cases.DIGITS.read_bytes()
    bad = tmp_path / "bad.qbm"
    for offset in (9, 64, 300, 900, 5000, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[offset] ^= 0x40
        bad.write_bytes(damaged)
        done = cases.run("model", bad, "--json")
        assert done.returncode in (5, 8), (offset, done)
        error = json.loads(done.stdout)["error"]
        assert re.search(r"\d", error["message"].replace(str(bad), "")), error
        assert error["status"].startswith("Model_")
    bad.write_bytes(whole[:-5])
    assert cases.run("model", bad).returncode == 8
    assert b"No such file" in cases.run("model", tmp_path / "none").stderr
    assert b"no regular file" in cases.run("model", tmp_path).stderr


# I15
def test_what_is_no_file_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    paths = ["/dev/null", "/dev/zero", tmp_path / "fifo", tmp_path]
    lines = cases.strace(tmp_path, "open,openat", "model", *paths)
    assert lines
    for path in paths:
        assert not any(f'"{path}"' in line for line in lines)
        assert b"no regular file" in cases.run("model", path).stderr


# I45
def test_the_name_means_nothing_and_other_formats_are_explained(tmp_path):
    shutil.copy(cases.DIGITS, tmp_path / "digits.mxq")
    words = cases.data("model", tmp_path / "digits.mxq")["models"][0]
    assert words["format"] == "qbm 1.0"
    (tmp_path / "vendor.mxq").write_bytes(b"MXQ\0" + bytes(4096))
    done = cases.run("model", tmp_path / "vendor.mxq")
    assert done.returncode == 8
    assert b"another runtime, compile its source model with qbcompile" in done.stderr
    shutil.copy(cases.DIGITS.with_suffix(".onnx"), tmp_path / "digits.qbm")
    done = cases.run("model", tmp_path / "digits.qbm")
    assert done.returncode == 8 and b"ONNX" in done.stderr


PROGRAM = """
import json, qbruntime as q, sys
def words(types):
    return [str(dtype).rsplit(".", 1)[-1].lower() for dtype in types]
with q.Model(sys.argv[1]) as model:
    print(json.dumps({
        "variants": model.get_num_model_variants(),
        "in": [list(shape) for shape in model.get_model_input_shape()],
        "out": [list(shape) for shape in model.get_model_output_shape()],
        "names": [model.get_input_names(), model.get_output_names()],
        "dtypes": words(model.get_input_data_types()),
        "pinned": words(model.get_input_pinned_data_types()),
    }))
"""


# I46
@pytest.mark.parametrize("path", [cases.DIGITS, COPY64], ids=lambda path: path.name)
def test_it_agrees_with_the_library(path):
    if not cases.PACKAGES:
        pytest.skip("the Python package is not built")
    if cases.IS_SANITIZED:
        pytest.skip("Python is not built with the sanitizer")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path],
        capture_output=True,
        check=True,
        env=cases.environment(PYTHONPATH=cases.PACKAGES),
    )
    told = json.loads(done.stdout)
    variants = cases.data("model", path)["models"][0]["variants"]
    inputs, outputs = variants[0]["inputs"], variants[0]["outputs"]
    assert told["variants"] == len(variants)
    assert told["in"] == [tensor["shape"] for tensor in inputs]
    assert told["out"] == [tensor["shape"] for tensor in outputs]
    assert told["names"] == [[t["name"] for t in inputs], [t["name"] for t in outputs]]
    assert told["dtypes"] == [tensor["dtype"] for tensor in inputs]
    assert told["pinned"] == [tensor["pinned_dtype"] for tensor in inputs]


# I47
def test_one_bad_file_does_not_stop_the_others(tmp_path, validate):
    bad = tmp_path / "bad.qbm"
    bad.write_bytes(cases.DIGITS.read_bytes()[:100])
    words = ["model", bad, cases.DIGITS, tmp_path / "none", COPY64]
    done = cases.run(*words)
    assert done.returncode == 8
    assert done.stdout.count(b"checksums ok") == 2
    document = cases.data(*words, code=8)
    validate(document)
    assert len(document["models"]) == 2 and document["error"]["exit"] == 8
    texts = [warning["text"] for warning in document["warnings"]]
    assert len(texts) == 2 and str(tmp_path / "none") in texts[1]
    lines = cases.text(*words, "--jsonl", code=8).splitlines()
    assert len(lines) == 3 and "error" in json.loads(lines[-1])


# a newer container is a matter of versions, not of bad input
def test_a_newer_container_gives_5(tmp_path):
    newer = bytearray(cases.DIGITS.read_bytes())
    newer[28] = 9
    import zlib

    newer[252:256] = zlib.crc32(newer[:252]).to_bytes(4, "little")
    (tmp_path / "newer.qbm").write_bytes(newer)
    assert cases.run("model", tmp_path / "newer.qbm").returncode == 5


# section 9: the error that is told is the one that the exit is of
@pytest.mark.parametrize("mode", ["--json", "--jsonl"])
@pytest.mark.parametrize("good", [[], [COPY64]], ids=["none is good", "one is"])
def test_of_several_bad_files_the_worst_is_told(tmp_path, mode, good):
    newer = bytearray(cases.DIGITS.read_bytes())
    newer[8] = 9
    (tmp_path / "newer.qbm").write_bytes(newer)
    (tmp_path / "bad.qbm").write_bytes(b"bad")
    words = [mode, tmp_path / "newer.qbm", tmp_path / "bad.qbm", *good]
    done = cases.run("model", *words)
    last = done.stdout if mode == "--json" else done.stdout.splitlines()[-1]
    assert json.loads(last)["error"]["exit"] == done.returncode == 8
    assert b"bad.qbm" in done.stderr
