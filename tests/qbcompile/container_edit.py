# SPDX-License-Identifier: MIT
"""Files with one thing changed: what the container tests damage, and how."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any, Callable

import pytest
from qbm_samples import CORPUS, copy64

from qbcompile import asm, container, sections
from qbcompile.container import File, FormatError


def refused(data: bytes | bytearray) -> FormatError:
    """The error that a reader answers for these bytes."""
    with pytest.raises(FormatError) as caught:
        container.read(bytes(data))
    assert caught.value.sentence
    return caught.value


def reseal(data: bytearray) -> bytearray:
    """Sets all checksums of header, table and sections right again."""
    (count,) = (int.from_bytes(data[20:24], "little"),)
    table = 256 + 80 * count
    for entry in range(256, table, 80):
        start = int.from_bytes(data[entry + 16 : entry + 24], "little")
        size = int.from_bytes(data[entry + 24 : entry + 32], "little")
        part = data[start : start + size]
        data[entry + 32 : entry + 36] = zlib.crc32(part).to_bytes(4, "little")
        data[entry + 40 : entry + 72] = hashlib.sha256(part).digest()
    data[56:60] = zlib.crc32(data[256:table]).to_bytes(4, "little")
    data[252:256] = zlib.crc32(data[:252]).to_bytes(4, "little")
    return data


def where(data: bytes | bytearray, kind: str, instance: int = 0) -> tuple[int, int]:
    """Offset of a section's table entry, and of the section."""
    for index, found in enumerate(sections.read_sections(bytes(data))[1]):
        if (found.kind, found.instance) == (kind.encode(), instance):
            return 256 + 80 * index, found.offset
    raise KeyError(kind)


def patched(data: bytes | bytearray, kind: str, offset: int, value: bytes) -> bytearray:
    """The file with these bytes at an offset of a section, resealed."""
    changed = bytearray(data)
    start = where(data, kind)[1] + offset
    changed[start : start + len(value)] = value
    return reseal(changed)


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def rewritten(change: Callable[[File], Any], file: File | None = None) -> bytes:
    """A written file after a change of its records."""
    file = file or copy64()
    change(file)
    return container.write(file)


def corpus(name: str) -> File:
    """A file of the corpus."""
    path = CORPUS / f"{name}.txt"
    return asm.parse(path.read_text(), lambda file: (CORPUS / file).read_bytes())
