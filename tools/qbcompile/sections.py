# SPDX-License-Identifier: MIT
"""Header and section table of a .qbm container (3.1), from untrusted bytes.

read_sections() checks versions, sizes, order, gaps and CRC-32; what is inside
the sections is container.py's. Nothing is allocated by a number from the file.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

from . import isa_tables as isa
from .program import FormatError, Given, align_up
from .records import MAGIC

BIG_WEIGHTS = 16 << 20  # from here on WGHT is aligned to 64 KiB
MAX_FILE = 64 << 30
MAX_SECTION = 32 << 30
MAX_STRING = 4096
MAX_STRINGS = 16 << 20
# In file order: kind, alignment, smallest and largest count, flags, most bytes
# (those of STRS and META the reader counts).
KINDS = {
    b"STRS": (3, 1, 1, 1, MAX_SECTION),
    b"META": (3, 1, 1, 1, MAX_SECTION),
    b"VARI": (3, 1, 1, 1, 1 << 20),
    b"IOTB": (3, 1, 1, 1, 1 << 30),
    b"CACH": (3, 0, 1, 1, 1 << 20),
    b"PROG": (12, 1, 64, 1, MAX_SECTION),
    b"WGHT": (12, 0, 1, 1, MAX_SECTION),
    b"DBGI": (3, 0, 64, 0, 1 << 30),
}
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


def check_text(raw: bytes, line_feeds: bool) -> str:
    """FM04; ValueError with a sentence, which does not repeat the text."""
    if len(raw) > MAX_STRING:
        raise ValueError(f"a string is longer than {MAX_STRING} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise ValueError("a string is not UTF-8") from None
    if _CONTROL.search(text.replace("\n", "") if line_feeds else text):
        raise ValueError("a string has control characters")
    return text


class Found(NamedTuple):
    """A section as the table describes it."""

    kind: bytes
    flags: int
    instance: int
    align_log2: int
    offset: int
    sha256: bytes
    data: memoryview

    @property
    def name(self) -> str:
        """Kind for people, with the instance where there can be several."""
        text = self.kind.decode("latin-1").encode("unicode_escape").decode()
        return f"{text} {self.instance}" if self.kind in (b"PROG", b"DBGI") else text

    def fail(self, offset: int, sentence: str) -> FormatError:
        """An error at this offset of the section."""
        return FormatError(self.name, self.offset + offset, sentence)


def _check_magic(data: memoryview) -> None:
    head = bytes(data[:8])
    if head == MAGIC:
        return
    if head[1:4] == b"QBM" or head[:3] == b"QBM":
        raise FormatError("header", 0, "the line ends were changed on the way here")
    raise FormatError("header", 0, "this is not a qbruntime container")


def _read_header(data: memoryview) -> Given:
    _check_magic(data)
    if len(data) < isa.HEADER.size:
        raise FormatError("header", len(data), "the file ends inside its header")
    head = isa.HEADER.unpack(data)
    if zlib.crc32(data[:252]) != head["header_crc32"]:
        raise FormatError("header", 252, "the checksum is wrong")
    for key, newest in (("format_major", 1), ("min_reader_minor", 0), ("isa_major", 1)):
        if head[key] > newest:
            raise FormatError(
                "header",
                isa.HEADER.fields[key].offset,
                "the file needs "
                f"a newer reader: {key} is {head[key]}, this one knows {newest}",
            )
    if head["isa_features"] & ~isa.FEATURES_ISA:
        raise FormatError(
            "header",
            40,
            "the file needs features that are not known: "
            f"{head['isa_features'] & ~isa.FEATURES_ISA:#x}",
        )
    if head["file_size"] != len(data) or len(data) >= MAX_FILE:
        raise FormatError(
            "header",
            32,
            f"the file has {len(data)} bytes, its header " f"says {head['file_size']}",
        )
    fixed = (
        "format_major",
        "header_size",
        "section_entry_size",
        "section_table_offset",
    )
    for key in (*fixed, "flags", "reserved"):
        if head[key] != isa.HEADER.fields[key].default:
            raise FormatError(
                "header", isa.HEADER.fields[key].offset, f"{key} is wrong"
            )
    if not re.fullmatch(rb"[ -~]*\0*", head["producer"]):
        raise FormatError("header", 64, "the producer is not printable ASCII")
    if head["target"] >= len(isa.TARGET_NAMES):
        raise FormatError("header", 30, f"target {head['target']} is unknown")
    if not 5 <= head["section_count"] <= 256:
        raise FormatError("header", 20, f"{head['section_count']} sections")
    return head


def _check_section(entry: Given, where: int) -> None:
    kind = entry["kind"].to_bytes(4, "little")
    known = KINDS.get(kind)
    if known is None:
        if entry["flags"] & 1:
            name = kind.decode("latin-1").encode("unicode_escape").decode()
            raise FormatError(
                "table", where, f"section {name} is required, but unknown"
            )
    elif entry["flags"] != known[3]:
        raise FormatError("table", where + 4, f"flags {entry['flags']}")
    elif entry["instance"] and kind not in (b"PROG", b"DBGI"):
        raise FormatError("table", where + 8, "the instance is not 0")
    elif entry["size"] > known[4]:
        raise FormatError("table", where + 24, f"a size of {entry['size']} bytes")
    align = known[0] if known else 3
    if kind == b"WGHT" and entry["size"] >= BIG_WEIGHTS:
        align = 16
    if not align <= entry["align_log2"] <= 21:
        raise FormatError("table", where + 12, f"alignment {entry['align_log2']}")
    if any(entry["reserved0"]) or entry["reserved1"] or entry["reserved2"]:
        raise FormatError("table", where, "a reserved field is not 0")


def _check_order(sections: list[Found]) -> None:
    order = list(KINDS)
    ranks = []
    for found in sections:
        rank = order.index(found.kind) if found.kind in order else len(order)
        ranks.append((rank, found.instance if rank < len(order) else 0))
    for kind, (_, least, most, _, _) in KINDS.items():
        count = sum(found.kind == kind for found in sections)
        if not least <= count <= most:
            raise FormatError("table", 256, f"{count} sections {kind.decode()}")
    known = [rank for rank in ranks if rank[0] < len(order)]
    if ranks != sorted(ranks) or len(set(known)) != len(known):
        raise FormatError("table", 256, "the sections are not in their order")
    programs = [found.instance for found in sections if found.kind == b"PROG"]
    if programs != list(range(len(programs))):
        raise FormatError("table", 256, "the programs are not numbered 0, 1, 2, ...")
    debug = [found.instance for found in sections if found.kind == b"DBGI"]
    if debug and debug[-1] >= len(programs):
        raise FormatError("table", 256, f"DBGI {debug[-1]} belongs to no program")


def read_sections(data: bytes | memoryview) -> tuple[Given, list[Found]]:
    """Header fields and sections, checked for FM01, FM02, FM05.

    SHA-256 is not checked. Raises FormatError.
    """
    data = memoryview(data)
    head = _read_header(data)
    end = isa.HEADER.size + isa.SECTION.size * head["section_count"]
    if end > len(data):
        raise FormatError("table", 256, "the file ends inside the section table")
    if zlib.crc32(data[256:end]) != head["section_table_crc32"]:
        raise FormatError("table", 256, "the checksum is wrong")
    sections = []
    for where in range(256, end, isa.SECTION.size):
        entry = isa.SECTION.unpack(data, where)
        _check_section(entry, where)
        start = entry["offset"]
        if start != align_up(end, 1 << entry["align_log2"]):
            raise FormatError(
                "table", where + 16, "the section is not where it must be"
            )
        if not 1 <= entry["size"] <= min(MAX_SECTION, len(data) - start):
            raise FormatError("table", where + 24, f"a size of {entry['size']} bytes")
        if bytes(data[end:start]).strip(b"\0"):
            raise FormatError("table", where, "the gap before the section is not zero")
        end = start + entry["size"]
        kind = entry["kind"].to_bytes(4, "little")
        keys = ("flags", "instance", "align_log2", "offset", "sha256")
        found = Found(kind, **{key: entry[key] for key in keys}, data=data[start:end])
        if kind in KINDS and zlib.crc32(found.data) != entry["crc32"]:
            raise found.fail(0, "the checksum is wrong")
        sections.append(found)
    if end != len(data):
        raise FormatError("table", 256, "the last section does not end with the file")
    _check_order(sections)
    return head, sections
