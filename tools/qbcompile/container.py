# SPDX-License-Identifier: MIT
"""The .qbm container (section 3): dataclasses, canonical writer, reader.

write() gives the one canonical form (FM06); read() accepts whatever obeys the
page and refuses the rest with FormatError; the rules across structures are in
rules.py. Attributes that are None are computed when written, as are all
counts, sizes, offsets and checksums; `given` works as in program.py:
write(read(x)) == x for every canonical x.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Iterator

from . import isa_tables as isa
from . import records, rules
from .layout import float_bits
from .program import Binding, Command, DebugEntry, FormatError, Param
from .program import Program, Tensor, align_up
from .program_bytes import decode_program, encode_program
from .reader import Reader
from .records import Bundle, CacheLayer, Caches, File, Io, Section, Variant
from .sections import BIG_WEIGHTS, MAX_STRINGS, check_text, read_sections

__all__ = [
    "Binding",
    "Bundle",
    "CacheLayer",
    "Caches",
    "Command",
    "DebugEntry",
    "File",
    "FormatError",
    "Io",
    "Param",
    "Program",
    "Section",
    "Strings",
    "Tensor",
    "Variant",
    "decode_program",
    "encode_program",
    "read",
    "read_sections",
    "write",
]


class Strings:
    """STRS being written: each string once, in order of first use (FM10)."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._offsets = {"": 0}

    def add(self, text: str, line_feeds: bool = False) -> int:
        """Offset of text, which is appended when new."""
        if text not in self._offsets:
            try:
                raw = text.encode()
            except UnicodeEncodeError:
                raise ValueError("a string is not Unicode text") from None
            check_text(raw, line_feeds)
            self._offsets[text] = len(self.data)
            self.data += raw + b"\0"
            if len(self.data) > MAX_STRINGS:
                raise ValueError("the strings are more than 16 MiB")
        return self._offsets[text]


def _write_meta(file: File, strings: Strings) -> bytes:
    entries = [
        isa.META_ENTRY.pack(
            {"key": strings.add(key), "value": strings.add(value, line_feeds=True)}
        )
        for key, value in sorted(file.meta.items(), key=lambda item: item[0].encode())
    ]
    return isa.META.pack({"count": len(entries)}) + b"".join(entries)


def _write_vari(file: File, strings: Strings) -> bytes:
    out = bytearray(isa.VARI.pack(records.vari_values(file)))
    for i, variant in enumerate(file.variants):
        out += isa.VARIANT.pack(
            records.variant_values(file, i, strings.add(variant.name))
        )
    for i, bundle in enumerate(file.bundles):
        out += isa.BUNDLE.pack(records.bundle_values(file, i, strings.add(bundle.name)))
    return bytes(out)


def _write_iotb(file: File, strings: Strings) -> bytes:
    out = bytearray(isa.IOTB.pack(records.iotb_values(file)))
    for io, position in zip(file.ios, records.io_positions(file)):
        out += isa.IO.pack(records.io_values(file, io, position, strings.add(io.name)))
    for scale in file.scales:
        out += float_bits(scale, 32).to_bytes(4, "little")
    return bytes(out)


def _write_cach(file: File, caches: Caches, strings: Strings) -> bytes:
    out = bytearray(
        isa.CACH.pack(records.caches_values(file, caches, len(caches.layers)))
    )
    for layer in caches.layers:
        out += isa.CACHE.pack(records.cache_values(layer, strings.add(layer.name)))
    return bytes(out)


def _write_dbgi(program: Program, strings: Strings) -> bytes:
    out = bytearray(isa.DBGI.pack({"count": len(program.debug)}))
    for entry in program.debug:
        nodes = strings.add(entry.nodes, line_feeds=True)
        op_types = strings.add(entry.op_types, line_feeds=True)
        out += isa.DEBUG.pack(records.debug_values(entry, nodes, op_types))
    return bytes(out)


def _sections(file: File) -> Iterator[Section]:
    """All sections in file order. Order of first use of strings: FM10."""
    strings = Strings()
    tables = [
        (b"META", _write_meta(file, strings)),
        (b"VARI", _write_vari(file, strings)),
    ]
    tables.append((b"IOTB", _write_iotb(file, strings)))
    if file.caches is not None:
        tables.append((b"CACH", _write_cach(file, file.caches, strings)))
    programs = [encode_program(program, strings.add) for program in file.programs]
    debug = [_write_dbgi(p, strings) if p.debug else b"" for p in file.programs]
    yield Section(b"STRS", bytes(strings.data), 1)
    for kind, data in tables:
        yield Section(kind, data, 1)
    for number, data in enumerate(programs):
        yield Section(b"PROG", data, 1, number, 12)
    if file.weights:
        big = len(file.weights) >= BIG_WEIGHTS
        yield Section(b"WGHT", file.weights, 1, 0, 16 if big else 12)
    for number, data in enumerate(debug):
        if data:
            yield Section(b"DBGI", data, 0, number)
    yield from file.extra


def write(file: File) -> bytes:
    """Canonical bytes of the container.

    Raises ValueError with a sentence for values that do not fit their fields
    and for strings that the format does not allow.
    """
    sections = list(_sections(file))
    end = isa.HEADER.size + isa.SECTION.size * len(sections)
    table, parts, content = b"", [], hashlib.sha256()
    for section in sections:
        start = align_up(end, 1 << section.align_log2)
        parts += [bytes(start - end), section.data]
        end = start + len(section.data)
        digest = hashlib.sha256(section.data).digest()
        instance = section.instance.to_bytes(4, "little")
        content.update(section.kind + instance + digest)
        table += isa.SECTION.pack(
            {
                "kind": int.from_bytes(section.kind, "little"),
                "flags": section.flags,
                "instance": section.instance,
                "align_log2": section.align_log2,
                "offset": start,
                "size": len(section.data),
                "crc32": zlib.crc32(section.data),
                "sha256": digest,
            }
        )
    values = records.header_values(file, len(sections), end)
    values.setdefault("section_table_crc32", zlib.crc32(table))
    values.setdefault("content_id", content.digest())
    header = isa.HEADER.pack(values)
    checksum = values.get("header_crc32", zlib.crc32(header[:-4]))
    return b"".join([header[:-4], checksum.to_bytes(4, "little"), table, *parts])


def read(data: bytes | memoryview) -> File:
    """The container in these bytes; FormatError for what the page forbids.

    SHA-256 sums are not checked, programs only as far as decode_program does.
    """
    head, sections = read_sections(data)
    file = Reader(head, sections).read()
    rules.check(file, {found.name: found.offset for found in sections})
    return file
