# SPDX-License-Identifier: MIT
"""A File as text (section 16): the reverse of asm.parse.

Fields come in the order of their structure and are left out when they are 0,
NONE, empty, or follow from others; what a file says otherwise is in `given`
and is written out.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Iterator, Optional, Sequence

from . import isa_tables as isa
from .layout import Struct
from .program import Binding, Command, Given, Program, Tensor, binding_size
from .records import CacheLayer, File, Io, Range, Variant
from .records import VARIANT_KEYS, bundle_values, variant_values
from .text import NAME, format_float, format_value, format_word

MAX_HEX = 4096  # bytes of weights that are written as hex (QM04)
_POOL_LINE = 8
# Fields of a variant that inputs=, outputs=, states=, bundles= stand for.
_RANGES = ("first_", "input_count", "output_count", "state_count", "bundle_count")


def format_fields(
    layout: Struct, values: Given, shown: Iterable[str] = ()
) -> Iterator[str]:
    """key=value of each field that is not its default, or is in shown."""
    shown = set(shown)
    for key, spec in layout.fields.items():
        if key not in values:
            continue
        value = values[key]
        default = spec.default
        if isinstance(value, tuple):
            default = default[: len(value)]
        if key in shown or repr(value) != repr(default):
            yield f"{key}={format_value(layout, key, value)}"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _range(key: str, value: Range) -> list[str]:
    return [f"{key}={value[0]}+{value[1]}"] if value != (0, 0) else []


def _explicit(record: Any, layout: Struct, *but: str) -> Given:
    """Attributes of a record that are fields of the layout and not None."""
    return {
        key: getattr(record, key)
        for key in layout.fields
        if key not in but and getattr(record, key, None) is not None
    }


class _ProgramText:
    """One program; tensors go by name where that is unique and plain."""

    def __init__(self, program: Program) -> None:
        self.program = program
        names = [tensor.name for tensor in program.tensors]
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        self.labels = [
            f"%{name}" if counts[name] == 1 and NAME.fullmatch(name) else str(number)
            for number, name in enumerate(names)
        ]

    def label(self, number: int) -> str:
        return self.labels[number] if number < len(self.labels) else str(number)

    def binding(self, index: int, binding: Binding) -> list[str]:
        words = [f"binding {index}", format_word(isa.BINDING_NAMES, binding.kind)]
        if binding.tensor != isa.NONE16:
            words.append(f"tensor={self.label(binding.tensor)}")
        for key in ("alias", "io"):
            if getattr(binding, key) != isa.BINDING.fields[key].default:
                words.append(f"{key}={getattr(binding, key)}")
        words.append(f"size={binding_size(self.program, index)}")
        if binding.align_log2 != 6:
            words.append(f"align_log2={binding.align_log2}")
        if binding.access is not None:
            words.append(f"access={binding.access}")
        return words + list(format_fields(isa.BINDING, binding.given, binding.given))

    def tensor(self, index: int, tensor: Tensor) -> list[str]:
        words = ["tensor", self.labels[index]]
        if words[1] == str(index) and tensor.name:
            words.append(_string(tensor.name))
        words.append(format_word(isa.DTYPE_NAMES, tensor.dtype))
        words.append(format_value(isa.TENSOR, "dims", tensor.dims))
        values = _explicit(tensor, isa.TENSOR, "name", "dtype", "dims", "span")
        values.update(tensor.given)
        return words + list(
            format_fields(isa.TENSOR, values, ("binding", "strides", *tensor.given))
        )

    def command(self, command: Command) -> list[str]:
        layout = isa.OPCODES[command.opcode].layout
        values = {"in_place": command.flags, "debug": command.debug}
        values.update(command.fields)
        values.update(command.given)
        words = [command.opcode]
        for word in format_fields(layout, values, command.given):
            key, _, value = word.partition("=")
            if layout.fields[key].type == "op":
                value = self.label(values[key])
            words.append(f"{key}={value}")
        return words

    def lines(self, number: int) -> Iterator[str]:
        program = self.program
        values = {"core_mode": program.core_mode, "flags": program.flags}
        if program.batch != 1:
            values["batch"] = program.batch
        values.update(program.given)
        shown = ("batch", *program.given)
        words = format_fields(isa.PROGRAM, values, shown)
        yield " ".join([f"program {number}", *words])
        for i, binding in enumerate(program.bindings):
            yield "  " + " ".join(self.binding(i, binding))
        for i, tensor in enumerate(program.tensors):
            yield "  " + " ".join(self.tensor(i, tensor))
        for i, param in enumerate(program.params):
            values = {**_explicit(param, isa.PARAM), **param.given}
            yield "  " + " ".join([f"param {i}", *format_fields(isa.PARAM, values)])
        for first in range(0, len(program.pool), _POOL_LINE):
            part = program.pool[first : first + _POOL_LINE]
            yield f"  pool [{','.join(format_float(x, 32) for x in part)}]"
        given = program.list_given
        yield " ".join(["  list 0", *format_fields(isa.LIST, given, given)])
        for command in program.commands:
            yield "    " + " ".join(self.command(command))
        for i, entry in enumerate(program.debug):
            nodes, op_types = _string(entry.nodes), _string(entry.op_types)
            words = format_fields(isa.DEBUG, {"fused": entry.fused, **entry.given})
            yield "  " + " ".join(
                [f"debug {i}", f"nodes={nodes}", f"op_types={op_types}", *words]
            )


def _head_lines(file: File) -> Iterator[str]:
    given = dict(file.given)
    versions = [
        f"{given.pop(f'{what}_major', 1)}.{given.pop(f'{what}_minor', 0)}"
        for what in ("format", "isa")
    ]
    words = [
        f"qbm {versions[0]} isa {versions[1]}",
        f"producer={_string(file.producer)}",
    ]
    if file.target:
        words.append(f"target={format_word(isa.TARGET_NAMES, file.target)}")
    yield " ".join(words + list(format_fields(isa.HEADER, given, given)))
    for key, value in sorted(file.meta.items(), key=lambda item: item[0].encode()):
        yield f"meta {_string(key)} = {_string(value)}"


def _variant_line(file: File, index: int, variant: Variant) -> str:
    values = variant_values(file, index, 0)
    words = [f"variant {_string(variant.name)}"]
    if variant.flags:
        words.append(f"flags={variant.flags}")
    for what in ("input", "output", "state"):
        words += _range(f"{what}s", (values[f"first_{what}"], values[f"{what}_count"]))
    words += _range("bundles", (values["first_bundle"], values["bundle_count"]))
    keys = {*VARIANT_KEYS, "mode_mask", *variant.given} - {"flags"}
    rest = {key: values[key] for key in keys if not key.startswith(_RANGES)}
    return " ".join([*words, *format_fields(isa.VARIANT, rest, variant.given)])


def _bundle_line(file: File, index: int) -> str:
    bundle = file.bundles[index]
    values = bundle_values(file, index, 0)
    words = [f"bundle {_string(bundle.name)}"]
    words += format_fields(isa.BUNDLE, {"mode_mask": values["mode_mask"]})
    numbers = ["-" if n == isa.NONE32 else str(n) for n in values["program"]]
    words.append(f"program={','.join(numbers)}")
    return " ".join([*words, *format_fields(isa.BUNDLE, bundle.given, bundle.given)])


def _io_line(index: int, io: Io) -> str:
    values = _explicit(io, isa.IO, "name")
    values.update(io.given)
    if io.scale == 1.0:
        del values["scale"]
    # what would be computed when left out is written even if it is 0
    computed = "accepted_dtypes size source_shape source_perm source_dtype buffer_info"
    shown = {"role", "device_dtype", "host_dtype", "shape", "scale", *io.given}
    shown.update(computed.split())
    return " ".join(
        [f"io {index} {_string(io.name)}", *format_fields(isa.IO, values, shown)]
    )


def _cache_line(index: int, layer: CacheLayer) -> str:
    values = {**_explicit(layer, isa.CACHE, "name"), **layer.given}
    shown = ("dtype", *layer.given)
    words = format_fields(isa.CACHE, values, shown)
    return " ".join([f"cache {index} {_string(layer.name)}", *words])


def _table_lines(file: File) -> Iterator[str]:
    for i, variant in enumerate(file.variants):
        yield _variant_line(file, i, variant)
        if i < len(file.bundles):
            yield _bundle_line(file, i)
    words = ["iotb"]
    words += format_fields(isa.IOTB, {"state_size": file.state_size})
    words += format_fields(isa.IOTB, file.iotb_given, file.iotb_given)
    if file.scales:
        words.append(f"scales=[{','.join(format_float(x, 32) for x in file.scales)}]")
    if len(words) > 1:
        yield " ".join(words)
    for i, io in enumerate(file.ios):
        yield _io_line(i, io)
    if file.caches is not None:
        values = {"cache_count": file.caches.count, "cache_type": file.caches.type}
        values.update(file.caches.given)
        shown = ("cache_count", *file.caches.given)
        yield " ".join(["cach", *format_fields(isa.CACH, values, shown)])
        for i, layer in enumerate(file.caches.layers):
            yield _cache_line(i, layer)


def _weights_line(weights: bytes, name: Optional[str]) -> str:
    if len(weights) <= MAX_HEX:
        return f'weights hex "{weights.hex()}"'
    if name is None:
        raise ValueError(f"{len(weights)} bytes of weights need a file beside the text")
    return f"weights file={_string(name)}"


def dump(
    file: File, weights_file: Optional[str] = None, notes: Sequence[str] = ()
) -> str:
    """The text of a file; asm.parse of it gives an equal File.

    weights_file: base name of the file that the caller writes the weights to
    when they are more than MAX_HEX bytes; ValueError if it is None then. notes
    become comments at the top. Sections of unknown kind are left out.
    """
    lines = [f"# {note}" for note in notes]
    lines += _head_lines(file)
    lines += _table_lines(file)
    if file.weights:
        lines.append(_weights_line(file.weights, weights_file))
    for number, program in enumerate(file.programs):
        lines += _ProgramText(program).lines(number)
    return "\n".join(lines) + "\n"
