# SPDX-License-Identifier: MIT
"""Text of section 16 to a File and back: parse() and dump().

parse() takes hostile text: it ends in a File or in a TextError. Numbers that
follow from others may be left out; if given they stand in the bytes as given.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Optional

from . import isa_tables as isa
from .layout import Struct
from .dump import dump
from .program import Binding, Command, DebugEntry, Given, Param, Program, Tensor
from .records import Bundle, CacheLayer, Caches, File, Io, Range, Variant
from .records import VARIANT_KEYS
from .text import NAME, Line, TextError, parse_float, parse_integer, parse_list
from .text import parse_string, parse_value, quote, split_line

__all__ = ["TextError", "dump", "parse"]

# Gives the bytes of a weights file; what it raises goes through parse().
Loader = Callable[[str], bytes]

MAX_HEX = 4096


def parse_fields(line: Line, layout: Struct) -> Given:
    """All key=value pairs that are left, by the layout."""
    values = {}
    for key, text in line.fields.items():
        if key not in layout.fields:
            raise line.fail(f"{line.keyword} has no field {quote(key)}")
        values[key] = parse_value(line, layout, key, text)
    line.fields.clear()
    line.done()
    return values


def split_given(record: Any, values: Given) -> None:
    """Puts values into the record's attributes, the rest into its given."""
    for key, value in values.items():
        if key in record.__dataclass_fields__:
            setattr(record, key, value)
        else:
            record.given[key] = value


def parse_range(line: Line, key: str) -> Optional[Range]:
    """FIRST+COUNT, or None when the line does not have it."""
    text = line.fields.pop(key, None)
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,10})\+([0-9]{1,10})", text)
    if match is None:
        raise line.fail(f"{key} is FIRST+COUNT, not {quote(text)}")
    return int(match[1]), int(match[2])


class _ProgramParser:
    """Lines of one program. %names are resolved by finish()."""

    def __init__(self, line: Line) -> None:
        self.program = Program()
        self.labels: dict[str, int] = {}
        self.listed = False
        # (line, where to put the number, key, the name)
        self.pending: list[tuple[Line, Given | Binding, str, str]] = []
        values = parse_fields(line, isa.PROGRAM)
        split_given(self.program, values)

    def line(self, line: Line) -> None:
        # pool is a table and an opcode: the table has its values in brackets
        table = line.keyword == "pool" and bool(line.items)
        if line.keyword in isa.OPCODES and not table:
            self.command(line)
        else:
            getattr(self, line.keyword)(line)

    def operand(self, line: Line, target: Given | Binding, key: str, text: str) -> int:
        """A tensor number; a %name is noted for finish()."""
        if not text.startswith("%"):
            return parse_integer(line, text, kind="u16")
        self.pending.append((line, target, key, text[1:]))
        return isa.NONE16

    def binding(self, line: Line) -> None:
        line.index(len(self.program.bindings))
        kind = parse_integer(line, line.take("the kind"), isa.BINDING_NAMES, "u8")
        binding = Binding(kind)
        tensor = line.fields.pop("tensor", None)
        if tensor is not None:
            binding.tensor = self.operand(line, binding, "tensor", tensor)
        split_given(binding, parse_fields(line, isa.BINDING))
        self.program.bindings.append(binding)

    def tensor(self, line: Line) -> None:
        number = len(self.program.tensors)
        name = ""
        if line.items and line.items[0].startswith("%"):
            name = line.items.pop(0)[1:]
            if not NAME.fullmatch(name) or name in self.labels:
                raise line.fail(f"{quote(name)} is no name for a tensor, or is taken")
            self.labels[name] = number
        else:
            line.index(number)
            if line.items and line.items[0].startswith('"'):
                name = parse_string(line, line.items.pop(0))
        dtype = parse_integer(line, line.take("the type"), isa.DTYPE_NAMES, "u8")
        parts = parse_list(line, line.take("the extents"))
        dims = tuple(parse_integer(line, part) for part in parts)
        if len(dims) > 6:
            raise line.fail("a tensor has at most 6 axes")
        tensor = Tensor(name, dtype, dims, 0)
        values = parse_fields(line, isa.TENSOR)
        strides = values.pop("strides", None)
        if strides is not None:
            tensor.strides = (*strides, *[0] * 6)[: len(dims)]
            if any(strides[len(dims) :]):
                tensor.given["strides"] = strides
        for key in ("name", "dtype", "dims", "span"):
            if key in values:
                tensor.given[key] = values.pop(key)
        split_given(tensor, values)
        self.program.tensors.append(tensor)

    def param(self, line: Line) -> None:
        line.index(len(self.program.params))
        values = parse_fields(line, isa.PARAM)
        defaults = {key: spec.default for key, spec in isa.PARAM.fields.items()}
        self.program.params.append(Param(**{**defaults, **values}))

    def pool(self, line: Line) -> None:
        for part in parse_list(line, line.take("the values")):
            self.program.pool.append(parse_float(line, part, 32))
        line.done()

    def list(self, line: Line) -> None:
        if self.listed:
            raise line.fail("a program has one list")
        line.index(0)
        self.listed = True
        self.program.list_given = parse_fields(line, isa.LIST)

    def debug(self, line: Line) -> None:
        line.index(len(self.program.debug))
        texts = [line.fields.pop(key, '""') for key in ("nodes", "op_types")]
        nodes, op_types = (parse_string(line, text) for text in texts)
        values = parse_fields(line, isa.DEBUG)
        entry = DebugEntry(nodes, op_types, values.pop("fused", 0), values)
        self.program.debug.append(entry)

    def command(self, line: Line) -> None:
        if not self.listed:
            raise line.fail("a command stands before its list")
        layout = isa.OPCODES[line.keyword].layout
        command = Command(line.keyword, {})
        for key in list(line.fields):
            if key in layout.fields and layout.fields[key].type == "op":
                text = line.fields.pop(key)
                value = self.operand(line, command.fields, key, text)
                command.fields[key] = value
        values = parse_fields(line, layout)
        command.flags = values.pop("in_place", 0)
        command.debug = values.pop("debug", 0)
        for key, value in values.items():
            of_header = key in ("opcode", "size16") or key.startswith("reserved")
            (command.given if of_header else command.fields)[key] = value
        self.program.commands.append(command)

    def finish(self) -> Program:
        """The program, with the numbers of all names."""
        for line, target, key, name in self.pending:
            if name not in self.labels:
                raise line.fail(f"no tensor is called {quote(name)}")
            if isinstance(target, Binding):
                target.tensor = self.labels[name]
            else:
                target[key] = self.labels[name]
        return self.program


_PROGRAM_KEYWORDS = ("binding", "tensor", "param", "pool", "list", "debug")


class _FileParser:
    """Lines of a file, each to the method of its keyword."""

    def __init__(self, load: Optional[Loader]) -> None:
        self.file = File()
        self.load = load
        self.current: Optional[_ProgramParser] = None
        self.started = False

    def line(self, line: Line) -> None:
        if not self.started and line.keyword != "qbm":
            raise line.fail("the first line must begin with qbm")
        if line.keyword in _PROGRAM_KEYWORDS or line.keyword in isa.OPCODES:
            if self.current is None:
                raise line.fail(f"{line.keyword} stands before any program")
            self.current.line(line)
            return
        parse = self.KEYWORDS.get(line.keyword)
        if parse is None:
            raise line.fail(f"the keyword {quote(line.keyword)} is unknown")
        parse(self, line)

    def qbm(self, line: Line) -> None:
        if self.started:
            raise line.fail("qbm stands twice")
        self.started = True
        self.version(line, "format")
        if line.take("isa") != "isa":
            raise line.fail("expected isa after the version")
        self.version(line, "isa")
        self.file.producer = parse_string(line, line.fields.pop("producer", '""'))
        if not self.file.producer.isascii():
            raise line.fail("the producer is not ASCII")
        values = parse_fields(line, isa.HEADER)
        self.file.target = values.pop("target", 0)
        self.file.given.update(values)

    def version(self, line: Line, what: str) -> None:
        text = line.take("the version")
        match = re.fullmatch(r"([0-9]{1,5})\.([0-9]{1,5})", text)
        if match is None:
            raise line.fail(f"{quote(text)} is not a version")
        for part, expected, key in ((1, 1, "major"), (2, 0, "minor")):
            if int(match[part]) != expected:
                self.file.given[f"{what}_{key}"] = int(match[part])

    def meta(self, line: Line) -> None:
        key = parse_string(line, line.take("the key"))
        if line.take("=") != "=":
            raise line.fail('expected meta "KEY" = "VALUE"')
        if key in self.file.meta:
            raise line.fail(f"the key {quote(key)} stands twice")
        self.file.meta[key] = parse_string(line, line.take("the value"))
        line.done()

    def variant(self, line: Line) -> None:
        variant = Variant(parse_string(line, line.take("the name")), batch=0)
        variant.inputs = parse_range(line, "inputs")
        variant.outputs = parse_range(line, "outputs")
        variant.states = parse_range(line, "states")
        variant.bundles = parse_range(line, "bundles")
        values = parse_fields(line, isa.VARIANT)
        for key in values:
            if key in VARIANT_KEYS or key == "mode_mask":
                setattr(variant, key, values[key])
            else:
                variant.given[key] = values[key]
        self.file.variants.append(variant)

    def bundle(self, line: Line) -> None:
        name = parse_string(line, line.take("the name"))
        parts = line.fields.pop("program", "-").split(",")
        numbers = [isa.NONE32 if p == "-" else parse_integer(line, p) for p in parts]
        if len(numbers) > 5:
            raise line.fail("program has more than 5 numbers")
        values = parse_fields(line, isa.BUNDLE)
        program = tuple(numbers + [isa.NONE32] * (5 - len(numbers)))
        bundle = Bundle(name, values.pop("mode_mask", 0), program)
        bundle.given = values
        self.file.bundles.append(bundle)

    def iotb(self, line: Line) -> None:
        for part in parse_list(line, line.fields.pop("scales", "[]")):
            self.file.scales.append(parse_float(line, part, 32))
        values = parse_fields(line, isa.IOTB)
        self.file.state_size = values.pop("state_size", 0)
        self.file.iotb_given = values

    def io(self, line: Line) -> None:
        line.index(len(self.file.ios))
        name = parse_string(line, line.take("the name"))
        values = parse_fields(line, isa.IO)
        io = Io(name, 0, 0, 0, ())
        # a name given as a number is an offset in STRS
        if "name" in values:
            io.given["name"] = values.pop("name")
        split_given(io, values)
        self.file.ios.append(io)

    def cach(self, line: Line) -> None:
        if self.file.caches is not None:
            raise line.fail("cach stands twice")
        values = parse_fields(line, isa.CACH)
        self.file.caches = Caches(
            [], values.pop("cache_count", 0), values.pop("cache_type", 0), values
        )

    def cache(self, line: Line) -> None:
        if self.file.caches is None:
            raise line.fail("cache stands before cach")
        line.index(len(self.file.caches.layers))
        name = parse_string(line, line.take("the name"))
        layer = CacheLayer(name, 0, 0, 0, 0, 0, 0, 0, 0)
        values = parse_fields(line, isa.CACHE)
        if "name" in values:
            layer.given["name"] = values.pop("name")
        split_given(layer, values)
        self.file.caches.layers.append(layer)

    def weights(self, line: Line) -> None:
        name = line.fields.pop("file", None)
        if name is not None:
            line.done()
            self.file.weights = self.load_weights(line, parse_string(line, name))
            return
        if line.take("hex or file=") != "hex":
            raise line.fail('expected weights hex "..." or weights file="..."')
        text = parse_string(line, line.take("the hex digits"))
        line.done()
        try:
            self.file.weights = bytes.fromhex(text)
        except ValueError:
            raise line.fail("these are not pairs of hex digits") from None
        if len(self.file.weights) > MAX_HEX:
            raise line.fail(f"more than {MAX_HEX} bytes belong into a file")

    def load_weights(self, line: Line, name: str) -> bytes:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise line.fail("the weights file must lie beside the text")
        if self.load is None:
            raise line.fail("there is no folder to read the weights file from")
        return self.load(name)

    def program(self, line: Line) -> None:
        self.finish_program()
        line.index(len(self.file.programs))
        self.current = _ProgramParser(line)

    def finish_program(self) -> None:
        """Ends the current program."""
        if self.current is not None:
            self.file.programs.append(self.current.finish())
            self.current = None

    KEYWORDS: dict[str, Callable[["_FileParser", Line], None]] = {
        "qbm": qbm,
        "meta": meta,
        "variant": variant,
        "bundle": bundle,
        "iotb": iotb,
        "io": io,
        "cach": cach,
        "cache": cache,
        "weights": weights,
        "program": program,
    }


def parse(text: str, load: Optional[Loader] = None) -> File:
    """The File that a text describes.

    load gives the bytes of the file that `weights file=` names. Raises
    TextError, with the line.
    """
    parser = _FileParser(load)
    number = 0
    for number, content in enumerate(text.split("\n"), 1):
        line = split_line(number, content)
        if line is not None:
            parser.line(line)
    if not parser.started:
        raise TextError(number, "the text has no line that begins with qbm")
    parser.finish_program()
    return parser.file
