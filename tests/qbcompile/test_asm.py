# SPDX-License-Identifier: MIT
"""Text form and the tool qbm: round trips, given numbers, hostile text, exit codes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from qbm_samples import CORPUS, GOLDEN, random_file

from qbcompile import asm, container, qbm, text
from qbcompile import isa_tables as isa
from qbcompile.layout import Struct, float_bits, float_of_bits

COPY64 = (GOLDEN / "copy64.txt").read_text()
TEXTS = sorted(CORPUS.glob("*.txt"))


def load(name: str) -> bytes:
    """Weights files of the corpus."""
    return (CORPUS / name).read_bytes()


def assemble(source: str) -> bytes:
    return container.write(asm.parse(source, load))


def edited(old: str, new: str) -> str:
    """The text of copy64 with one place changed."""
    assert COPY64.count(old) == 1
    return COPY64.replace(old, new)


def fails(source: str) -> asm.TextError:
    """The error for a text."""
    with pytest.raises(asm.TextError) as caught:
        asm.parse(source, load)
    return caught.value


def run(*arguments: str | Path) -> int:
    return qbm.main([str(argument) for argument in arguments])


# QM01
def test_golden_text_gives_the_golden_bytes_and_back() -> None:
    data = (GOLDEN / "copy64.qbm").read_bytes()
    assert assemble(COPY64) == data
    assert asm.dump(container.read(data)) == COPY64


# QM01
def test_golden_text_is_that_of_the_page() -> None:
    page = (GOLDEN.parents[2] / "docs/spec/device-and-format.md").read_text()
    start = page.index('    qbm 1.0 isa 1.0 producer="hand"')
    block = page[start:].split("\n\n")[0]
    lines = [line.strip() for line in block.splitlines()]
    assert [line.strip() for line in COPY64.splitlines()] == lines


# QM01
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_corpus_survives_the_round_trip(path: Path) -> None:
    data = assemble(path.read_text())
    dumped = asm.dump(container.read(data), "weights_file.wght")
    assert assemble(dumped) == data
    assert asm.dump(asm.parse(dumped, load), "weights_file.wght") == dumped


# QM01
@pytest.mark.parametrize("seed", range(100))
def test_random_file_survives_the_round_trip(seed: int) -> None:
    file = random_file(seed)
    data = container.write(file)
    dumped = asm.dump(container.read(data), "w")
    assert container.write(asm.parse(dumped, lambda name: file.weights)) == data


# QM01
def test_dump_says_what_is_not_canonical(tmp_path: Path) -> None:
    file = container.read(assemble(COPY64))
    file.extra.append(container.Section(b"NEWS", b"text"))
    path, out = tmp_path / "x.qbm", tmp_path / "x.txt"
    path.write_bytes(container.write(file))
    assert run("dump", path, "-o", out) == 0
    assert out.read_text() == "# section NEWS, 4 bytes, is left out\n" + COPY64
    assert assemble(out.read_text()) == (GOLDEN / "copy64.qbm").read_bytes()


# QM02
@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x3F800000, "1.0"),
        (0x80000000, "-0.0"),
        (0x3DCCCCCD, "0.1"),
        (0x3EAAAAAB, "0.33333334"),
        (0x00000001, "1e-45"),
        (0x7F7FFFFF, "3.4028235e+38"),
        (0x7F800000, "f32:7f800000"),
        (0x7FC00000, "f32:7fc00000"),
        (0xFF800001, "f32:ff800001"),
    ],
)
def test_float_is_the_shortest_decimal_or_its_bits(bits: int, expected: str) -> None:
    line = text.Line(1, "x", [])
    value = float_of_bits(bits, 32)
    assert text.format_float(value, 32) == expected
    assert float_bits(text.parse_float(line, expected, 32), 32) == bits


# QM02
def test_random_floats_keep_their_bits() -> None:
    rng, line = random.Random(1), text.Line(1, "x", [])
    for width in (32, 64):
        for _ in range(2000):
            bits = rng.getrandbits(width)
            written = text.format_float(float_of_bits(bits, width), width)
            assert float_bits(text.parse_float(line, written, width), width) == bits


# QM02
def test_layout_of_the_text_has_no_meaning() -> None:
    loose = "\n\n# comment\n" + "".join(
        f"\t {'  '.join(line.split(' '))}   # {index}\n"
        for index, line in enumerate(COPY64.splitlines())
    )
    hexadecimal = loose.replace("size=64", "size=0x40").replace("[64]", "[ 0x40 ]")
    assert assemble(loose) == assemble(hexadecimal) == assemble(COPY64)


# QM02
def test_strings_are_those_of_json() -> None:
    source = edited('"copy64"', r'"\u00e4\n\"\\#="')
    assert asm.parse(source).meta == {"model.name": 'ä\n"\\#='}
    assert r'"\u00e4\n\"\\#="' in asm.dump(asm.parse(source))


# QM03
def test_every_opcode_is_a_keyword() -> None:
    for opcode in isa.OPCODES:
        source = COPY64.replace("copy src=%x dst=%y", opcode)
        assert asm.parse(source).programs[0].commands[0].opcode == opcode
    assert len(isa.OPCODES) == 24


# QM03
@pytest.mark.parametrize(
    ("old", "new", "layout", "key", "value"),
    [
        ("program 0\n", "program 0 mac_count=7\n", isa.PROGRAM, "mac_count", 7),
        ("program 0\n", "program 0 magic=1\n", isa.PROGRAM, "magic", 1),
        ("program 0\n", "program 0 reserved=[1,2]\n", isa.PROGRAM, "reserved", None),
        ("program 0\n", "program 0 barrier_count=1\n", isa.PROGRAM, "barrier_count", 1),
        ("program 0\n", "program 0 isa_features=8\n", isa.PROGRAM, "isa_features", 8),
    ],
)
def test_given_number_is_written_as_given(
    old: str, new: str, layout: Struct, key: str, value: int | None
) -> None:
    data = assemble(edited(old, new))
    program = layout.unpack(data, 4096)
    expected = (1, 2) + (0,) * 18 if value is None else value
    assert program[key] == expected


# QM03
def test_given_numbers_of_every_structure_are_written_as_given() -> None:
    source = (
        COPY64.replace("size=64\n", "size=64 access=3 flags=1 reserved=[9]\n", 1)
        .replace("binding=0 scale=1.0", "binding=0 scale=1.0 span=65 rank=7 dims=[1,2]")
        .replace("list 0", "list 0 size=48 core=2")
        .replace("dst=%y", "dst=%y opcode=99 size16=3 reserved=5 reserved1=[1] debug=4")
    )
    data = assemble(source)
    binding = isa.BINDING.unpack(data, 4096 + 128)
    assert (binding["access"], binding["flags"], binding["reserved"][0]) == (3, 1, 9)
    tensor = isa.TENSOR.unpack(data, 4096 + 192)
    assert (tensor["span"], tensor["rank"], tensor["dims"][:3]) == (65, 7, (1, 2, 0))
    found = isa.LIST.unpack(data, 4096 + 448)
    assert (found["size"], found["command_count"], found["core"]) == (48, 1, 2)
    command = isa.OPCODES["copy"].layout.unpack(data, 4096 + 464)
    assert [command[k] for k in ("opcode", "size16", "reserved", "debug")] == [
        99,
        3,
        5,
        4,
    ]


# QM03
def test_asm_refuses_what_readers_refuse_unless_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "bad.txt", tmp_path / "bad.qbm"
    source.write_text(edited("program 0\n", "program 0 magic=1\n"))
    assert run("asm", source, "-o", out) == 3 and not out.exists()
    assert (
        "readers would refuse the file: PROG 0 at offset 4096"
        in capsys.readouterr().err
    )
    assert run("asm", "--raw", source, "-o", out) == 0
    assert out.read_bytes()[4096:4100] == b"\1\0\0\0"


# QM04
def test_weights_are_hex_up_to_4_kib_and_a_file_beyond(tmp_path: Path) -> None:
    file = asm.parse((CORPUS / "conv_net.txt").read_text())
    for size in (1, 4096, 4097):
        file.weights = bytes(range(256)) * 17
        file.weights = (file.weights * 2)[:size]
        file.programs[0].bindings[0].size = 1
        path, out = tmp_path / "x.qbm", tmp_path / f"{size}.txt"
        path.write_bytes(container.write(file))
        assert run("dump", path, "-o", out) == 0
        weights = tmp_path / f"{size}.wght"
        assert weights.exists() == (size > 4096)
        assert ("weights hex" in out.read_text()) == (size <= 4096)
        assert run("asm", out, "-o", tmp_path / "y.qbm") == 0
        assert (tmp_path / "y.qbm").read_bytes() == path.read_bytes()


# QM04
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('weights file="../x"', "beside the text"),
        ('weights file="/etc/passwd"', "beside the text"),
        ('weights file=".."', "beside the text"),
        ('weights hex "0g"', "hex digits"),
        (f'weights hex "{"00" * 4097}"', "4096"),
        ("weights", "missing"),
    ],
)
def test_bad_weights_are_refused(line: str, words: str) -> None:
    error = fails(COPY64.replace("program 0", f"{line}\nprogram 0"))
    assert error.line == 7 and words in error.sentence


# QM05
def test_operands_by_number_and_by_name_are_the_same() -> None:
    numbers = COPY64.replace("src=%x dst=%y", "src=0 dst=1")
    numbers = numbers.replace("tensor=%x", "tensor=0").replace("tensor=%y", "tensor=1")
    assert assemble(numbers) == assemble(COPY64)


# QM05
def test_dense_tensors_need_no_strides() -> None:
    given = edited("%x u8 [64] binding=0", "%x u8 [64] binding=0 strides=[1]")
    assert assemble(given) == assemble(COPY64)
    source = edited("%x u8 [64] binding=0", "%x u8 [2,4,8] binding=0")
    assert asm.parse(source).programs[0].tensors[0].byte_strides == (32, 8, 1)


# QM05
def test_strides_of_0_are_not_left_out() -> None:
    source = edited("%x u8 [64] binding=0", "%x u8 [64] binding=0 strides=[0]")
    file = asm.parse(source)
    assert file.programs[0].tensors[0].span == 1
    assert "strides=[0]" in asm.dump(file)


# KV12
def test_cache_layer_of_the_page_is_understood() -> None:
    page = (GOLDEN.parents[2] / "docs/spec/device-and-format.md").read_text()
    lines = page[page.index("    tensor %k_new") :].split("\n\n")[0].splitlines()
    lines = lines[:3] + ["tensor %q f32 [8,128,64] binding=0"] + lines[3:]
    lines.insert(4, "tensor %s f32 [8,128,4096] binding=3 extent_params=[0,1,3]")
    lines.insert(5, "tensor %p f32 [8,128,4096] binding=4 extent_params=[0,1,3]")
    lines.insert(6, "list 0")
    program = asm.parse("qbm 1.0 isa 1.0\nprogram 0\n" + "\n".join(lines)).programs[0]
    new, rows, whole = program.tensors[:3]
    assert (new.byte_strides, new.span) == ((32768, 256, 4), 8 * 128 * 64 * 4)
    assert rows.span == 7 * 1048576 + 4095 * 256 + 63 * 4 + 4 == 8 * 1048576
    assert whole.dims[2] == 4096 and whole.extent_params == (0, 0, 3)
    assert program.mac_count == 8 * 128 * 4096 * 64
    assert [c.opcode for c in program.commands] == ["copy", "matmul", "softmax"]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("", 1, "no line that begins with qbm"),
        ("# only this", 1, "no line that begins with qbm"),
        ('meta "a" = "b"', 1, "must begin with qbm"),
        ("qbm 1 isa 1.0", 1, "not a version"),
        ("qbm 1.0 isa 1.0\nqbm 1.0 isa 1.0", 2, "twice"),
        ("qbm 1.0 isa 1.0\nhello", 2, "unknown"),
        ("qbm 1.0 isa 1.0\nx=1", 2, "no keyword"),
        ('qbm 1.0 isa 1.0 producer="\\u00e4"', 1, "ASCII"),
        ('qbm 1.0 isa 1.0\nmeta "a" = b', 2, "not a string"),
        ('qbm 1.0 isa 1.0\nmeta "a" = "b', 2, "not understood"),
        ('qbm 1.0 isa 1.0\nmeta "a" "b"', 2, "expected meta"),
        ('qbm 1.0 isa 1.0\nmeta "a" = "\\q"', 2, "not a string"),
        ("qbm 1.0 isa 1.0\ncopy src=1", 2, "before any program"),
        ("qbm 1.0 isa 1.0\nprogram 1", 2, "expected 0"),
        ("qbm 1.0 isa 1.0\nprogram 0\ncopy src=1", 3, "before its list"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\nlist 0", 4, "one list"),
        (
            "qbm 1.0 isa 1.0\nprogram 0\nlist 0\ncopy src=%q",
            4,
            "no tensor is called",
        ),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\ncopy kh=1", 4, "no field"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\ncopy src=1 src=2", 4, "twice"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\ncopy 7", 4, "does not belong here"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\nfill value=1.5", 4, "not a whole number"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\nunary p_a=1e99", 4, "too large"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\nunary p_a=1e9999", 4, "too large"),
        ("qbm 1.0 isa 1.0\nprogram 0\nlist 0\nunary p_a=f64:00", 4, "f32: pattern"),
        ("qbm 1.0 isa 1.0\nprogram 0\ntensor %a u8 [1,2,3,4,5,6,7]", 3, "6 axes"),
        ("qbm 1.0 isa 1.0\nprogram 0\ntensor %a u9 [1]", 3, "one of f32, u8"),
        ("qbm 1.0 isa 1.0\nprogram 0\ntensor %a u8 [1]\ntensor %a u8 [1]", 4, "taken"),
        (
            "qbm 1.0 isa 1.0\nprogram 0\ntensor 0 u8 [1] strides=[1,2,3,4,5,6,7]",
            3,
            "room",
        ),
        ('qbm 1.0 isa 1.0\nvariant "a" inputs=3', 2, "FIRST+COUNT"),
        ('qbm 1.0 isa 1.0\nbundle "a" program=0,1,2,3,4,5', 2, "more than 5"),
        ('qbm 1.0 isa 1.0\ncache 0 "a"', 2, "before cach"),
        ("qbm 1.0 isa 1.0\nprogram 0 size=" + "9" * 5000, 2, "not a whole number"),
    ],
)
def test_bad_text_is_refused_with_its_line(source: str, line: int, words: str) -> None:
    error = fails(source)
    assert error.line == line and words in error.sentence


def test_messages_show_hostile_text_escaped() -> None:
    program = "\nprogram 0\nlist 0\n"
    copy = f"{program}copy"
    for line in ("\x1bx", "meta \x1b", f"{copy} \x1b", f"{copy} src=%\x1b"):
        error = fails(f"qbm 1.0 isa 1.0\n{line}")
        assert "\x1b" not in str(error) and "\\u001b" in str(error)


def test_numbers_have_to_fit_their_fields() -> None:
    head = "qbm 1.0 isa 1.0\n"
    for line, kind in (
        ('io 0 "x" device_dtype=-1', "u8"),
        ('io 0 "x" host_dtype=256', "u8"),
        ('io 0 "x" variant=-1', "u32"),
        ('io 0 "x" shape=[-2147483649]', "i32"),
        ('bundle "b" program=-2', "u32"),
        ("program 0\nbinding 0 input tensor=-1", "u16"),
        ("program 0\ntensor 0 -1 [1]", "u8"),
        ("program 0\ntensor 0 f32 [-1]", "u32"),
        ("program 0\nlist 0\ncopy src=65536", "u16"),
    ):
        assert f"does not fit {kind}" in str(fails(head + line))


def test_damaged_text_gives_a_file_or_an_error() -> None:
    rng = random.Random(3)
    sources = [path.read_text() for path in TEXTS]
    pieces = ["0", "-1", "[", "]", '"', "=", "#", "%", "4294967296", "1e39", "\n", "+"]
    counts = {"written": 0, "refused": 0}
    for _ in range(800):
        source = rng.choice(sources)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(source))
            cut = rng.choice((0, 1, 5))
            source = source[:at] + rng.choice(pieces) + source[at + cut :]
        try:
            assemble(source)
            counts["written"] += 1
        except (ValueError, FileNotFoundError) as error:
            assert str(error)
            counts["refused"] += 1
    assert min(counts.values()) > 20
