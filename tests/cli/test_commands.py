# SPDX-License-Identifier: MIT
"""model --commands: what each program does, as the compiler's tools read it."""

import re
import shutil
import subprocess
import sys

import cases
import pytest

sys.path.insert(0, str(cases.TOP / "tools"))
from qbcompile import container, isa_tables as isa  # noqa: E402

CORPUS = cases.TOP / "tests" / "fuzz" / "corpus" / "model-file"
MODES = {0: "single", 1: "multi", 3: "global4", 4: "global8"}


def _listing(path, variant=0):
    models = cases.data("model", "--commands", path)["models"]
    return models[0]["variants"][variant]["listing"]


def _names(program, command, fields):
    numbers = [command.fields.get(name, isa.NONE16) for name in fields]
    tensors = program.tensors
    return [tensors[n].name or str(n) for n in numbers if n != isa.NONE16]


def _expected(program, number, modes):
    for index, command in enumerate(program.commands):
        opcode = isa.OPCODES[command.opcode]
        entry = program.debug[command.debug - 1] if command.debug else None
        written = command.fields.get(next(iter(opcode.destinations), None))
        tensor = None if written is None else program.tensors[written]
        yield {
            "program": number,
            "core_modes": modes,
            "index": index,
            "opcode": command.opcode,
            "reads": _names(program, command, opcode.sources),
            "writes": _names(program, command, opcode.destinations),
            "shape": tensor and list(tensor.dims),
            "dtype": tensor and DTYPES[tensor.dtype],
            "nodes": entry.nodes.split("\n") if entry else [],
            "op_types": entry.op_types.split("\n") if entry else [],
        }


DTYPES = {
    number: name.lower()
    for number, name in enumerate(
        "FLOAT32 UINT8 INT8 FLOAT16 INT16 UINT16 INT32 UINT32 INT64 UINT64 FLOAT64 "
        "BOOL BFLOAT16".split()
    )
}
MODELS = [cases.DIGITS, *sorted(CORPUS.glob("*.qbm"))]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_it_lists_what_the_compilers_reader_reads(path, validate):
    document = cases.data("model", "--commands", path)
    validate(document)
    file = container.read(path.read_bytes())
    variants = document["models"][0]["variants"]
    assert len(variants) == len(file.bundles)
    for variant, bundle in zip(variants, file.bundles):
        modes = {}
        for mode, number in enumerate(bundle.program):
            if number != isa.NONE32:
                modes.setdefault(number, []).append(MODES[mode])
        wanted = [
            line
            for number, words in modes.items()
            for line in _expected(file.programs[number], number, words)
        ]
        assert variant["listing"] == wanted
        assert variant["commands"] == max(
            len(file.programs[number].commands) for number in modes
        )


# one table of opcodes here, one there
def test_opcodes_have_the_operands_of_the_instruction_set():
    text = (cases.SOURCES / "collect-commands.c").read_text()
    found = {}
    for line in re.findall(r"\{ 0x\w{4}, .*?\} \},", text, re.S):
        code, name, reads, writes = re.fullmatch(
            r'\{ (0x\w+), "(\w+)", \{ ([\d, ]+) \}, \{ ([\d, ]+) \} \},',
            " ".join(line.split()),
        ).groups()
        places = [
            [int(n) for n in part.split(",") if int(n)] for part in (reads, writes)
        ]
        found[name] = (int(code, 16), *places)
    wanted = {
        name: (
            op.code,
            [op.layout.fields[field].offset for field in op.sources],
            [op.layout.fields[field].offset for field in op.destinations],
        )
        for name, op in isa.OPCODES.items()
    }
    assert found == wanted


def test_the_text_has_a_table_for_each_variant():
    out = cases.text("model", "--commands", cases.DIGITS).splitlines()
    start = out.index("  commands of variant default")
    assert out[start - 1] == ""
    assert out[start + 1].split() == (
        "PROGRAM MODES COMMAND OPCODE READS WRITES SHAPE DTYPE NODES".split()
    )
    row = "0 single 1 conv2d image#1,conv1.w#5,conv1.b relu1 1x8x8x16 float32"
    assert out[start + 3].split() == [*row.split(), "conv1,relu1"]
    assert len(out) == start + 2 + len(_listing(cases.DIGITS))
    assert all(len(line) <= 100 for line in out)
    two = cases.text("model", "--commands", CORPUS / "full.qbm")
    assert two.count("commands of variant ") == 2
    bare = cases.text("model", "--commands", "-n", cases.DIGITS)
    assert "OPCODE" not in bare and "commands of" not in bare and "conv2d" in bare


def test_without_the_option_there_is_no_listing():
    variant = cases.data("model", cases.DIGITS)["models"][0]["variants"][0]
    assert variant["listing"] is None and variant["commands"] == 8
    assert "OPCODE" not in cases.text("model", cases.DIGITS)
    words = ["model", "--strict", "-J", cases.DIGITS]
    assert cases.run(*words).returncode == 0


def test_a_table_of_chosen_fields_has_no_place_for_it():
    done = cases.run("model", "--commands", "-o", "path", cases.DIGITS)
    assert done.returncode == 2 and b"-o" in done.stderr
    document = cases.data("model", "--commands", "-o", "variants", cases.DIGITS)
    assert document["models"][0]["variants"][0]["listing"]


# the names were for people: the commands are there without them
def test_a_stripped_model_is_listed_by_numbers(tmp_path):
    shutil.copy(cases.DIGITS, tmp_path / "in.qbm")
    words = [sys.executable, "-m", "qbcompile.qbm", "strip", "in.qbm", "-o", "out.qbm"]
    env = cases.environment(PYTHONPATH=str(cases.TOP / "tools"))
    subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True)
    listing = _listing(tmp_path / "out.qbm")
    assert [line["nodes"] for line in listing] == [[]] * 8
    assert "NODES" not in cases.text("model", "--commands", tmp_path / "out.qbm")
