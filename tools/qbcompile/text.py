# SPDX-License-Identifier: MIT
"""Lines and values of the text form of a .qbm file (section 16, QM02).

A line is `keyword [item ...] key=value ...`; split_line() gives its parts as
text, the other functions turn parts into numbers by the field's type and back.
The text is not trusted: every failure is a TextError with the line's number.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from . import isa_tables as isa
from .layout import Field, Struct, float_bits, float_of_bits, limits

_TOKEN = re.compile(
    r"""\s*(?:(?P<key>[a-z][a-z0-9_]*)=)?
    (?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<list>\[[^\]"\#]*\])
    |(?P<word>[^\s"\#\[\]]+))""",
    re.VERBOSE,
)
_REST = re.compile(r"\s*(#.*)?")
_INTEGER = re.compile(r"-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]{1,40}\.?[0-9]{0,60}(?:e[-+]?[0-9]{1,4})?|inf)")
_PATTERN = re.compile(r"f(32|64):([0-9a-fA-F]{8,16})")
NAME = re.compile(r"[A-Za-z0-9_./:][A-Za-z0-9_./:-]{0,255}")

# Fields that are words in the text, by field name.
WORDS = {
    "dtype": isa.DTYPE_NAMES,
    "device_dtype": isa.DTYPE_NAMES,
    "host_dtype": isa.DTYPE_NAMES,
    "source_dtype": isa.DTYPE_NAMES,
    "role": isa.ROLE_NAMES,
    "target": isa.TARGET_NAMES,
}


class TextError(ValueError):
    """A line of the text is wrong; line counts from 1."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}")
        self.line = line
        self.sentence = sentence


@dataclass
class Line:
    """One line: keyword, items without key, and key=value pairs, as text."""

    number: int
    keyword: str
    items: list[str]
    fields: dict[str, str] = field(default_factory=dict)

    def fail(self, sentence: str) -> TextError:
        """An error at this line."""
        return TextError(self.number, sentence)

    def take(self, what: str) -> str:
        """The next item without key."""
        if not self.items:
            raise self.fail(f"{self.keyword}: {what} is missing")
        return self.items.pop(0)

    def index(self, expected: int) -> None:
        """Takes the index, which must be the next one."""
        found = self.take("the index")
        if found != str(expected):
            raise self.fail(f"{self.keyword} {quote(found)}: expected {expected}")

    def done(self) -> None:
        """Refuses what is left of the line."""
        for left in (*self.items, *self.fields):
            raise self.fail(f"{self.keyword}: {quote(left)} does not belong here")


def quote(text: str) -> str:
    """A short, printable form of untrusted text for messages."""
    return json.dumps(text if len(text) <= 60 else text[:57] + "...")


def split_line(number: int, text: str) -> Optional[Line]:
    """The parts of a line, None for an empty one or a comment."""
    line = Line(number, "", [])
    position = 0
    while not _REST.fullmatch(text, position):
        match = _TOKEN.match(text, position)
        if match is None:
            raise line.fail(f"{quote(text[position:].strip())} is not understood")
        position = match.end()
        value = match["string"] or match["list"] or match["word"]
        key = match["key"]
        if key is None and not line.keyword:
            line.keyword = value
        elif key is None:
            line.items.append(value)
        elif key in line.fields:
            raise line.fail(f"{key} stands twice")
        else:
            line.fields[key] = value
    if line.fields and not line.keyword:
        raise line.fail("the line has no keyword")
    return line if line.keyword else None


def parse_string(line: Line, text: str) -> str:
    """A JSON string."""
    try:
        value = json.loads(text) if text.startswith('"') else None
    except ValueError:
        value = None
    if not isinstance(value, str):
        raise line.fail(f"{quote(text)} is not a string in double quotes")
    return value


def parse_integer(
    line: Line, text: str, words: Sequence[str] = (), kind: str = "u32"
) -> int:
    """A decimal or 0x number of this type, or one of the words."""
    if text and text in words:
        return list(words).index(text)
    if not _INTEGER.fullmatch(text):
        raise line.fail(f"{quote(text)} is not a whole number{_or_word(words)}")
    value = int(text, 0) if text.startswith("0x") else int(text)
    low, high = limits(kind)
    if not low <= value <= high:
        raise line.fail(f"{text} does not fit {kind}")
    return value


def _or_word(words: Sequence[str]) -> str:
    known = [word for word in words if word]
    return f" or one of {', '.join(known)}" if known else ""


def parse_float(line: Line, text: str, width: int) -> float:
    """A decimal, inf, or f32:... / f64:... with the bits in hex."""
    pattern = _PATTERN.fullmatch(text)
    if pattern and int(pattern[1]) == width and len(pattern[2]) == width // 4:
        return float_of_bits(int(pattern[2], 16), width)
    if pattern or not _DECIMAL.fullmatch(text):
        raise line.fail(f"{quote(text)} is not a number or an f{width}: pattern")
    value = float(text)
    if abs(value) == float("inf") and "inf" not in text:
        raise line.fail(f"{quote(text)} is too large for f{width}")
    try:
        return float_of_bits(float_bits(value, width), width)
    except ValueError as error:
        raise line.fail(str(error)) from None


def parse_list(line: Line, text: str) -> list[str]:
    """The elements of [a,b,...], as text."""
    if not text.startswith("["):
        raise line.fail(f"{quote(text)} is not a list in brackets")
    body = text[1:-1].strip()
    return [part.strip() for part in body.split(",")] if body else []


def parse_value(line: Line, layout: Struct, key: str, text: str) -> Any:
    """A value for the field, as Struct.pack takes it."""
    spec = layout.fields[key]
    if spec.type == "char":
        return parse_string(line, text).encode("utf-8", "replace")
    if not spec.length:
        return _parse_one(line, spec, text)
    parts = parse_list(line, text)
    if len(parts) > spec.length:
        raise line.fail(f"{key} has {len(parts)} values, room for {spec.length}")
    return tuple(_parse_one(line, spec, part) for part in parts)


def _parse_one(line: Line, spec: Field, text: str) -> float:
    if spec.type in ("f32", "f64"):
        return parse_float(line, text, int(spec.type[1:]))
    return parse_integer(line, text, WORDS.get(spec.name, ()), spec.type)


def format_float(value: float, width: int) -> str:
    """The shortest decimal that reads back to the same bits, else the bits."""
    bits = float_bits(value, width)
    value = float_of_bits(bits, width)
    if value != value or value in (float("inf"), float("-inf")):
        return f"f{width}:{bits:0{width // 4}x}"
    if width == 64:
        return repr(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(repr(float(text)) for text in texts if _is_f32(float(text), bits))


def _is_f32(value: float, bits: int) -> bool:
    try:
        return float_bits(value, 32) == bits
    except ValueError:  # rounded up beyond the largest
        return False


def format_value(layout: Struct, key: str, value: Any) -> str:
    """Text of a field's value: the reverse of parse_value."""
    spec = layout.fields[key]
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(_format_one(spec, key, part) for part in value) + "]"
    return _format_one(spec, key, value)


def _format_one(spec: Field, key: str, value: Any) -> str:
    if spec.type in ("f32", "f64"):
        return format_float(value, int(spec.type[1:]))
    if spec.type == "char":
        return json.dumps(value.rstrip(b"\0").decode("utf-8", "replace"))
    return format_word(WORDS.get(key, ()), value)


def format_word(words: Sequence[str], value: int) -> str:
    """The word for a number, or the number."""
    return words[value] if 0 <= value < len(words) and words[value] else str(value)
