# SPDX-License-Identifier: MIT
"""Container and program bytes: golden vectors, rules of section 3, hostile files.

Each test that damages a file starts from the golden copy64 or a random valid
file, changes one thing, and repairs the checksums, so that only its rule can
refuse it.
"""

from __future__ import annotations

import hashlib
import re
import zlib

import pytest
from container_edit import corpus, patched, refused, reseal, rewritten, u32, where
from qbm_samples import GOLDEN, PAGE, copy64, random_file

from qbcompile import container, sections
from qbcompile import isa_tables as isa
from qbcompile.layout import Struct

COPY64 = "fb0bb4ab44e1c6a6e0f7e05e020731d8b728fad6be1b42ac19529b57c5726376"
COPY64_PROGRAM = "f00786f27e579f58fa489197bd2432fb603d40d3863bc85f2d8da2a1534b821d"


def page_tables() -> dict[str, str]:
    """Layouts that the format page shows, by structure, in our notation."""
    tables: dict[str, str] = {}
    name = ""
    for line in PAGE.read_text().splitlines():
        for found in re.findall(r"\*\*`struct (\w+)`\*\*,", line):
            name = found
        row = re.match(r"\| (\d+) \| ([\w\[\]]+) \| (\w+) \|", line)
        if row and name:
            tables[name] = tables.get(name, "") + f"{row[1]} {row[2]} {row[3]};"
    return tables


def plain(layout: Struct, first: int = 0) -> list[tuple[int, str, int]]:
    """Offset, type and length of each field, with the page's type names."""
    names = {"op": "u16", "char": "u8"}
    return [
        (f.offset, names.get(f.type, f.type), f.length)
        for f in layout.fields.values()
        if f.offset >= first
    ]


def of_page(text: str) -> list[tuple[int, str, int]]:
    rows = []
    for row in filter(None, (part.strip() for part in text.split(";"))):
        offset, kind, *_ = row.split()
        match = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?", kind)
        assert match
        name = match[1].replace("char", "u8")
        rows.append((int(offset), name, int(match[2] or 0)))
    return rows


def test_layouts_are_those_of_the_page() -> None:
    tables = page_tables()
    layouts = [value for value in vars(isa).values() if isinstance(value, Struct)]
    assert len(layouts) == 18
    for layout in layouts:
        names = [f.name for f in layout.fields.values()]
        assert plain(layout) == of_page(tables[layout.name]), layout.name
        assert names == re.findall(r"(\w+);", tables[layout.name]), layout.name


def test_commands_are_those_of_the_page() -> None:
    post = page_tables()["qbnpu_post"]
    rows = re.findall(
        r"(?m)^\| 0x(\w{4}) \| (\w+) \| (\d+) \| (.*) \|$", PAGE.read_text()
    )
    assert len(rows) == len(isa.OPCODES) == 24
    for code, name, size, operands in rows:
        opcode = isa.OPCODES[name.lower()]
        expected = of_page(
            operands.replace("; 48 post post", "").replace("; 32 post post", "")
        )
        if "post post" in operands:
            first = expected[-1][0] + 4
            expected += [(first + o, kind, n) for o, kind, n in of_page(post)]
        assert (opcode.code, opcode.size) == (int(code, 16), int(size))
        assert plain(opcode.layout, 16) == expected, name


def test_copy64_program_is_the_golden_one() -> None:
    strings = container.Strings()
    for text in ("model.name", "copy64", "default", "main"):
        strings.add(text)
    data = container.encode_program(copy64().programs[0], strings.add)
    assert len(data) == 496 and zlib.crc32(data) == 0x91292AA0
    assert hashlib.sha256(data).hexdigest() == COPY64_PROGRAM


# FM06
def test_copy64_is_the_golden_one() -> None:
    data = container.write(copy64())
    assert hashlib.sha256(data).hexdigest() == COPY64
    assert data == (GOLDEN / "copy64.qbm").read_bytes()
    assert data[252:256] == u32(0xFEFB15AB) and data[56:60] == u32(0x084D3400)


# FM06
@pytest.mark.parametrize("seed", range(60))
def test_write_of_read_gives_the_same_bytes(seed: int) -> None:
    data = container.write(random_file(seed))
    assert container.write(container.read(data)) == data


# FM06
def test_reader_takes_what_the_writer_would_not_make() -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    entry, start = where(data, "PROG")
    data[entry + 12] = 13  # PROG at a multiple of 8 KiB instead of 4 KiB
    data[entry + 16 : entry + 24] = (8192).to_bytes(8, "little")
    data[start:start] = bytes(4096)
    data[32:40] = len(data).to_bytes(8, "little")
    assert (
        hashlib.sha256(container.write(container.read(bytes(reseal(data))))).hexdigest()
        == COPY64
    )


# FM01
def test_checksum_is_zlib_crc32() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926
    data = (GOLDEN / "copy64.qbm").read_bytes()
    sums = [int.from_bytes(data[e : e + 4], "little") for e in range(288, 656, 80)]
    assert sums == [0x797A5698, 0xC4AF65E2, 0x9887543A, 0x600DBCFB, 0x91292AA0]


# FM01
@pytest.mark.parametrize("kind", ["STRS", "META", "VARI", "IOTB", "PROG"])
def test_changed_section_is_refused_by_name_and_offset(kind: str) -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    start = where(data, kind)[1]
    data[start + 5] ^= 1
    error = refused(data)
    assert error.section.startswith(kind) and error.offset == start
    assert "checksum" in error.sentence


# FM01
@pytest.mark.parametrize(("offset", "name"), [(100, "header"), (300, "table")])
def test_changed_header_or_table_is_refused(offset: int, name: str) -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    data[offset] ^= 1
    assert refused(data).section == name


# FM02
def test_sections_out_of_order_are_refused() -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    first, second = (where(data, kind)[0] for kind in ("META", "VARI"))
    data[first : first + 4], data[second : second + 4] = b"VARI", b"META"
    assert "order" in refused(reseal(data)).sentence


# FM02
def test_gap_that_is_not_zero_is_refused() -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    data[2000] = 1
    assert "gap" in refused(data).sentence


# FM02
@pytest.mark.parametrize("offset", [0, 648, 664, 1 << 40])
def test_section_elsewhere_is_refused(offset: int) -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    entry = where(data, "STRS")[0]
    data[entry + 16 : entry + 24] = offset.to_bytes(8, "little")
    data[56:60] = zlib.crc32(data[256:656]).to_bytes(4, "little")
    data[252:256] = zlib.crc32(data[:252]).to_bytes(4, "little")
    assert refused(data).section == "table"


# FM02
def test_every_truncation_is_refused() -> None:
    data = (GOLDEN / "copy64.qbm").read_bytes()
    for size in [*range(0, 1480, 7), *range(1480, len(data), 301)]:
        refused(data[:size])
    refused(data + b"\0")


# FM03
def test_file_does_not_depend_on_the_order_of_meta() -> None:
    first = rewritten(lambda f: f.meta.update({"a": "1", "b": "2"}))
    second = rewritten(lambda f: setattr(f, "meta", {"b": "2", "a": "1", **f.meta}))
    assert first == second


# FM04
@pytest.mark.parametrize("text", ["a\x1bb", "a\0b", "\x7f", "\x85", "a\nb", "\ud800"])
def test_writer_refuses_control_characters_in_names(text: str) -> None:
    with pytest.raises(ValueError, match="string"):
        rewritten(lambda f: setattr(f.variants[0], "name", text))


# FM04
@pytest.mark.parametrize("raw", [b"\x1b", b"\xff", b"\x0a"])
def test_reader_refuses_control_characters_and_bad_utf8(raw: bytes) -> None:
    error = refused(patched((GOLDEN / "copy64.qbm").read_bytes(), "STRS", 21, raw))
    assert "string" in error.sentence and error.section in ("STRS", "VARI")


# FM04
def test_meta_values_may_have_line_feeds() -> None:
    data = rewritten(lambda f: f.meta.update({"labels": "one\ntwo"}))
    assert container.read(data).meta["labels"] == "one\ntwo"


# FM05
def test_file_and_section_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (sections.MAX_FILE, sections.MAX_SECTION) == (64 << 30, 32 << 30)
    data = (GOLDEN / "copy64.qbm").read_bytes()
    monkeypatch.setattr(sections, "MAX_SECTION", 543)
    assert "size of 544" in refused(data).sentence
    monkeypatch.setattr(sections, "MAX_FILE", len(data))
    assert refused(data).section == "header"


# FM10
def test_strings_stand_once_in_order_of_first_use() -> None:
    file = corpus("strings")
    data = container.write(file)
    start = where(data, "STRS")[1]
    text = data[start:].split(b"\0\0")[0].split(b"\0")
    names = ["accuracy.top1", "0.9822 digits-holdout", "empty", "labels"]
    assert [part.decode() for part in text[1:5]] == names
    assert len(set(text[1:])) == len(text[1:])
    assert [part.decode() for part in text[-2:]] == ["twin", "/block.0/not:0"]


# FM10
@pytest.mark.parametrize("offset", [2, 36, 1 << 31])
def test_string_that_starts_nowhere_is_refused(offset: int) -> None:
    error = refused(
        patched((GOLDEN / "copy64.qbm").read_bytes(), "VARI", 32, u32(offset))
    )
    assert (error.section, error.offset) == ("VARI", 712 + 32)


# FM10
@pytest.mark.parametrize("offset", [0, 35])
def test_strings_begin_and_end_with_nul(offset: int) -> None:
    error = refused(patched((GOLDEN / "copy64.qbm").read_bytes(), "STRS", offset, b"x"))
    assert error.section == "STRS"


# FM10
def test_string_of_more_than_4096_bytes_is_refused() -> None:
    longest = rewritten(lambda f: f.meta.update({"k": "x" * 4096}))
    assert container.read(longest).meta["k"] == "x" * 4096
    with pytest.raises(ValueError, match="longer than 4096"):
        rewritten(lambda f: f.meta.update({"k": "x" * 4097}))


# FM11
def test_meta_is_written_sorted_and_refused_unsorted() -> None:
    data = rewritten(lambda f: f.meta.update({"z": "1", "a": "2"}))
    assert list(container.read(data).meta) == ["a", "model.name", "z"]
    start = where(data, "META")[1]
    first, last = data[start + 8 : start + 16], data[start + 24 : start + 32]
    swapped = patched(patched(data, "META", 8, last), "META", 24, first)
    assert "sorted" in refused(swapped).sentence
    assert "sorted" in refused(patched(data, "META", 16, first)).sentence


# FM11
def test_meta_has_at_most_4096_entries() -> None:
    container.read(
        rewritten(lambda f: f.meta.update({f"k{i}": "" for i in range(4095)}))
    )
    data = rewritten(lambda f: f.meta.update({f"k{i}": "" for i in range(4096)}))
    assert refused(data).section == "META"


# FM12
def test_unknown_meta_keys_are_kept() -> None:
    data = rewritten(lambda f: f.meta.update({"vendor.thing": "7"}))
    assert container.read(data).meta["vendor.thing"] == "7"
