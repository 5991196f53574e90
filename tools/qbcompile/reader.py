# SPDX-License-Identifier: MIT
"""Tables of a .qbm container (3.2 to 3.5) into records, from untrusted bytes.

Every count is checked against the section's size before anything is made of
it. Fields that follow from others but deviate end in `given`; rules.py says
which of those are errors.
"""

from __future__ import annotations

from typing import Iterator

from . import isa_tables as isa
from . import records
from .layout import Struct, float_of_bits
from .program import DebugEntry, FormatError, Given
from .program_bytes import decode_program, deviations
from .records import Bundle, CacheLayer, Caches, File, Io, Section, Variant
from .sections import KINDS, MAX_STRINGS, Found, check_text

MAX_META = 4096
MAX_IOS = 65536
# Computed when left out, but free for a file to say otherwise.
_FREE_IO_KEYS = {"source_perm", "source_dtype", "buffer_info"}


def _io_of(entry: Given, name: str) -> Io:
    rank = min(entry["rank"], 6)
    free = {"shape", "source_shape", "accepted_dtypes", "size", *_FREE_IO_KEYS}
    keys = [key for key in records.IO_KEYS if key not in free]
    return Io(name, shape=entry["shape"][:rank], **{key: entry[key] for key in keys})


def _variant_of(entry: Given, name: str) -> Variant:
    keys = ("mode_mask", *records.VARIANT_KEYS)
    variant = Variant(name, **{key: entry[key] for key in keys})
    variant.inputs = (entry["first_input"], entry["input_count"])
    variant.outputs = (entry["first_output"], entry["output_count"])
    variant.states = (entry["first_state"], entry["state_count"])
    variant.bundles = (entry["first_bundle"], entry["bundle_count"])
    return variant


class Reader:
    """Reads the tables of a checked section list into a File."""

    def __init__(self, head: Given, sections: list[Found]) -> None:
        self.head = head
        self.sections = sections
        self.by_kind: dict[bytes, list[Found]] = {}
        for found in sections:
            self.by_kind.setdefault(found.kind, []).append(found)
        self.strings = self.by_kind[b"STRS"][0]
        data = self.strings.data
        if data[0] or data[-1] or len(data) > MAX_STRINGS:
            raise self.strings.fail(0, "the strings do not begin and end with NUL")
        self.text = bytes(data)
        for part in self.text.split(b"\0"):  # those that nothing names, too
            try:
                check_text(part, line_feeds=True)
            except ValueError as error:
                raise self.strings.fail(0, str(error)) from None
        self.file = File()

    def string(self, offset: int, user: Found, where: int, lines: bool = False) -> str:
        """The string at offset, which stands in `user` at `where` (FM10)."""
        if offset >= len(self.text) or (offset and self.text[offset - 1]):
            raise user.fail(where, f"{offset} is not where a string starts")
        end = self.text.index(0, offset)
        try:
            return check_text(self.text[offset:end], lines)
        except ValueError as error:
            raise user.fail(where, str(error)) from None

    def table(
        self, found: Found, layout: Struct, first: int, count: int, most: int
    ) -> Iterator[tuple[int, Given]]:
        """Offset and fields of each of count entries from offset first on."""
        if count > most:
            raise found.fail(0, f"{count} entries, at most {most} are allowed")
        if first % 4 or first + count * layout.size > len(found.data):
            raise found.fail(0, f"its {count} entries do not fit into it")
        for offset in range(first, first + count * layout.size, layout.size):
            yield offset, layout.unpack(found.data, offset)

    def header(self, found: Found, layout: Struct) -> Given:
        """The structure at the start of a section."""
        if len(found.data) < layout.size:
            raise found.fail(0, f"{len(found.data)} bytes are too few")
        head = layout.unpack(found.data)
        for key, field in layout.fields.items():
            fixed = key.startswith("reserved") or key.endswith("_size")
            if fixed and key != "state_size" and head[key] != field.default:
                raise found.fail(field.offset, f"{key} is {head[key]}")
        return head

    def read_meta(self, found: Found) -> None:
        head = self.header(found, isa.META)
        if len(found.data) != 8 + 8 * head["count"]:
            raise found.fail(0, f"{head['count']} entries, but {len(found.data)} bytes")
        last = b""
        for where, entry in self.table(
            found, isa.META_ENTRY, 8, head["count"], MAX_META
        ):
            key = self.string(entry["key"], found, where)
            if self.file.meta and key.encode() <= last:
                raise found.fail(where, "the keys are not sorted and unique")
            last = key.encode()
            self.file.meta[key] = self.string(entry["value"], found, where + 4, True)

    def read_vari(self, found: Found) -> tuple[list[Given], list[Given]]:
        head = self.header(found, isa.VARI)
        if head["bundle_count"] != head["variant_count"] or not head["bundle_count"]:
            raise found.fail(8, "there must be one bundle per variant")
        if head["variants_offset"] != 32 or head["default_variant"]:
            raise found.fail(16, "variants_offset or default_variant is wrong")
        end = 32 + head["variant_count"] * isa.VARIANT.size
        if head["bundles_offset"] < end or head["bundles_offset"] % 8:
            raise found.fail(20, "the bundles overlap the variants, or are not aligned")
        count = head["variant_count"]
        variants, bundles = [], []
        for where, entry in self.table(found, isa.VARIANT, 32, count, 64):
            name = self.string(entry["name"], found, where)
            self.file.variants.append(_variant_of(entry, name))
            variants.append(entry)
        for where, entry in self.table(
            found, isa.BUNDLE, head["bundles_offset"], count, 64
        ):
            name = self.string(entry["name"], found, where)
            self.file.bundles.append(Bundle(name, entry["mode_mask"], entry["program"]))
            bundles.append(entry)
        return variants, bundles

    def read_iotb(self, found: Found) -> list[Given]:
        head = self.header(found, isa.IOTB)
        self.file.state_size = head["state_size"]
        entries = []
        for where, entry in self.table(found, isa.IO, 32, head["count"], MAX_IOS):
            name = self.string(entry["name"], found, where)
            self.file.ios.append(_io_of(entry, name))
            entries.append(entry)
        first, count = head["scales_offset"], head["scale_count"]
        end = 32 + head["count"] * isa.IO.size
        if first % 4 or (count and first < end) or (not count and first):
            raise found.fail(12, "the scales are not behind the entries")
        if first + 4 * count > len(found.data):
            raise found.fail(8, f"{count} scales do not fit into it")
        for offset in range(first, first + 4 * count, 4):
            bits = int.from_bytes(found.data[offset : offset + 4], "little")
            self.file.scales.append(float_of_bits(bits, 32))
        return entries

    def read_cach(self, found: Found) -> None:
        head = self.header(found, isa.CACH)
        caches = Caches([], head["cache_count"], head["cache_type"])
        caches.given = deviations(
            isa.CACH, head, records.caches_values(self.file, caches, head["count"])
        )
        for where, entry in self.table(found, isa.CACHE, 32, head["count"], 4096):
            keys = {key: entry[key] for key in records.CACHE_KEYS}
            layer = CacheLayer(self.string(entry["name"], found, where), **keys)
            computed = records.cache_values(layer, entry["name"])
            layer.given = deviations(isa.CACHE, entry, computed)
            caches.layers.append(layer)
        self.file.caches = caches

    def read_program(self, found: Found) -> None:
        try:
            program = decode_program(
                found.data, lambda offset: self.string(offset, found, 0)
            )
        except FormatError as error:
            if error.section != "program":
                raise
            raise found.fail(error.offset, error.sentence) from None
        self.file.programs.append(program)

    def read_dbgi(self, found: Found) -> None:
        head = self.header(found, isa.DBGI)
        if len(found.data) != 16 + 16 * head["count"]:
            raise found.fail(0, f"{head['count']} entries, but {len(found.data)} bytes")
        debug = self.file.programs[found.instance].debug
        for where, entry in self.table(found, isa.DEBUG, 16, head["count"], 65536):
            nodes = self.string(entry["nodes"], found, where, True)
            op_types = self.string(entry["op_types"], found, where + 4, True)
            if entry["reserved"]:
                raise found.fail(where + 12, "a reserved field is not 0")
            debug.append(DebugEntry(nodes, op_types, entry["fused"]))

    def settle(
        self, variants: list[Given], bundles: list[Given], ios: list[Given]
    ) -> None:
        """Fills `given`: needs the whole file, as counts come from programs."""
        file = self.file
        for i, entry in enumerate(bundles):
            computed = records.bundle_values(file, i, entry["name"])
            file.bundles[i].given = deviations(isa.BUNDLE, entry, computed)
        for i, entry in enumerate(variants):
            computed = records.variant_values(file, i, entry["name"])
            file.variants[i].given = deviations(isa.VARIANT, entry, computed)
        for io, entry, index in zip(file.ios, ios, records.io_positions(file)):
            computed = records.io_values(file, io, index, entry["name"])
            source = entry["source_shape"][: entry["source_rank"]]
            if computed["source_shape"] != source:
                io.source_shape = source
                computed = records.io_values(file, io, index, entry["name"])
            io.given = deviations(isa.IO, entry, computed)
            for key in _FREE_IO_KEYS & io.given.keys():
                setattr(io, key, io.given.pop(key))
        iotb = self.by_kind[b"IOTB"][0]
        computed = records.iotb_values(file)
        found = isa.IOTB.unpack(iotb.data)
        # a reader takes scales anywhere behind the entries
        file.iotb_given = deviations(isa.IOTB, found, computed)
        file.iotb_given.pop("scales_offset", None)

    def read(self) -> File:
        """The File, with `given` of every structure filled."""
        file = self.file
        file.producer = self.head["producer"].rstrip(b"\0").decode("ascii")
        file.target = self.head["target"]
        self.read_meta(self.by_kind[b"META"][0])
        variants, bundles = self.read_vari(self.by_kind[b"VARI"][0])
        ios = self.read_iotb(self.by_kind[b"IOTB"][0])
        for found in self.by_kind[b"PROG"]:
            self.read_program(found)
        for found in self.by_kind.get(b"DBGI", []):
            self.read_dbgi(found)
        for found in self.by_kind.get(b"WGHT", []):
            file.weights = bytes(found.data)
        for found in self.by_kind.get(b"CACH", []):
            self.read_cach(found)
        self.settle(variants, bundles, ios)
        for found in (f for f in self.sections if f.kind not in KINDS):
            section = Section(found.kind, bytes(found.data), found.flags)
            section.instance, section.align_log2 = found.instance, found.align_log2
            file.extra.append(section)
        size = records.header_values(file, len(self.sections), self.head["file_size"])
        file.given = deviations(isa.HEADER, self.head, size)
        for key in ("section_table_crc32", "content_id", "header_crc32"):
            file.given.pop(key, None)
        return file
