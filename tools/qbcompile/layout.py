# SPDX-License-Identifier: MIT
"""Fixed layouts: from a table in the notation of the format page to bytes.

All numbers are little endian. Floats are Python numbers, but a NaN keeps its
bits (Bits), so that whatever a file holds can be written again.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Iterator, NamedTuple


class Bits(float):
    """A NaN that keeps the bits it has in a file.

    bits: the pattern; width: 32 or 64. Equal to another with the same bits.
    """

    bits: int
    width: int

    def __new__(cls, bits: int, width: int) -> Bits:
        self = super().__new__(cls, "nan")
        self.bits = bits
        self.width = width
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bits) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.bits, self.width))


_CODES = {
    "u8": "B",
    "u16": "H",
    "op": "H",
    "u32": "I",
    "u64": "Q",
    "i32": "i",
    "f32": "I",  # as bits: a NaN must survive
    "f64": "Q",
    "char": "s",
}
_SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8, "i": 4, "s": 1}


def limits(kind: str) -> tuple[int, int]:
    """Smallest and largest number of an integer type."""
    if kind == "i32":
        return -1 << 31, (1 << 31) - 1
    return 0, (1 << 8 * _SIZES[_CODES[kind]]) - 1


def float_bits(value: float, width: int) -> int:
    """Bits of value as binary32 (rounded to nearest even) or binary64."""
    if isinstance(value, Bits):
        if value.width != width:
            raise ValueError(f"an f{value.width} pattern in an f{width} field")
        return value.bits
    small, large = ("<f", "<I") if width == 32 else ("<d", "<Q")
    try:
        return int(struct.unpack(large, struct.pack(small, value))[0])
    except OverflowError:
        raise ValueError(f"{value!r} is too large for f{width}") from None


def float_of_bits(bits: int, width: int) -> float:
    """The number with these bits; a NaN comes as Bits."""
    small, large = ("<f", "<I") if width == 32 else ("<d", "<Q")
    value: float = struct.unpack(small, struct.pack(large, bits))[0]
    return Bits(bits, width) if value != value else value


class Field(NamedTuple):
    """One field: type of section 2, length (0: not an array)."""

    name: str
    offset: int
    type: str
    length: int
    default: Any


def _field(line: str) -> Field:
    offset, kind, name, *rest = line.split()
    match = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?", kind)
    assert match is not None
    base, count = match[1], int(match[2] or 0)
    default: Any = 0.0 if base in ("f32", "f64") else 0
    if base == "op" or rest == ["NONE"]:
        default = (1 << 8 * _SIZES[_CODES[base]]) - 1
    elif rest:
        default = type(default)(rest[0])
    if base == "char":
        default = bytes(count)
    elif count:
        default = (default,) * count
    return Field(name, int(offset), base, count, default)


class Struct:
    """A fixed layout: values by field name to bytes and back."""

    def __init__(self, name: str, size: int, text: str) -> None:
        self.name = name
        self.size = size
        self.fields: dict[str, Field] = {}
        form = "<"
        end = 0
        for line in filter(None, map(str.strip, re.split("[;\n]", text))):
            field = _field(line)
            code = _CODES[field.type]
            assert field.offset == end and field.offset % _SIZES[code] == 0, line
            assert field.name not in self.fields, line
            form += f"{field.length}{code}" if field.length else code
            end += _SIZES[code] * (field.length or 1)
            self.fields[field.name] = field
        assert end == size, name
        self._form = struct.Struct(form)

    def _flat(self, values: dict[str, Any]) -> Iterator[Any]:
        for field in self.fields.values():
            value = values.get(field.name, field.default)
            if field.type == "char":
                if len(value) > field.length:
                    raise ValueError(
                        f"{self.name}: {field.name} is longer than {field.length} bytes"
                    )
                yield value
                continue
            items = list(value) if field.length else [value]
            if len(items) > max(field.length, 1):
                raise ValueError(
                    f"{self.name}: {field.name} has {len(items)} values, "
                    f"room for {field.length}"
                )
            # a short array is filled up with its default
            items += list(field.default[len(items) :]) if field.length else []
            for item in items:
                yield self._number(field, item)

    def _number(self, field: Field, item: Any) -> int:
        if field.type in ("f32", "f64"):
            return float_bits(item, int(field.type[1:]))
        low, high = limits(field.type)
        if not low <= item <= high:
            raise ValueError(
                f"{self.name}: {field.name} = {item} does not fit {field.type}"
            )
        return int(item)

    def pack(self, values: dict[str, Any]) -> bytes:
        """Bytes of the structure; fields left out take their default.

        Raises ValueError for a value that does not fit its field.
        """
        return self._form.pack(*self._flat(values))

    def unpack(self, data: bytes | memoryview, offset: int = 0) -> dict[str, Any]:
        """All fields of the structure at offset, arrays as tuples."""
        flat = iter(self._form.unpack_from(data, offset))
        values: dict[str, Any] = {}
        for field in self.fields.values():
            count = 1 if field.type == "char" else field.length or 1
            items = [next(flat) for _ in range(count)]
            if field.type in ("f32", "f64"):
                items = [float_of_bits(x, int(field.type[1:])) for x in items]
            array = field.length and field.type != "char"
            values[field.name] = tuple(items) if array else items[0]
        return values
