# SPDX-License-Identifier: MIT
"""Bytes of a PROG section: encode_program, decode_program.

encode computes what Program leaves out, then `given` has the last word; decode
puts into `given` exactly the fields that deviate, so encode(decode(x)) == x
for every program that can be walked.
"""

from __future__ import annotations

from typing import Callable

from . import isa_tables as isa
from .layout import Struct, float_bits, float_of_bits
from .program import Binding, Command, FormatError, Given, Names, Param, Program
from .program import Tensor, align_up, binding_size, count_bytes, count_macs
from .program import dense_strides, find_features


def _binding_values(program: Program, index: int) -> Given:
    binding = program.bindings[index]
    access = binding.access
    if access is None:
        access = isa.ACCESS[binding.kind] if binding.kind < len(isa.ACCESS) else 0
    return {
        "kind": binding.kind,
        "access": access,
        "align_log2": binding.align_log2,
        "tensor": binding.tensor,
        "alias": binding.alias,
        "size": binding_size(program, index),
        "io": binding.io,
        **binding.given,
    }


def _tensor_values(tensor: Tensor, names: Names) -> Given:
    values = {
        key: getattr(tensor, key)
        for key in isa.TENSOR.fields
        if key not in ("name", "strides", "span") and hasattr(tensor, key)
    }
    return {
        **values,
        "rank": len(tensor.dims),
        "strides": tensor.byte_strides,
        "span": tensor.span,
        "name": names(tensor.name),
        **tensor.given,
    }


def _command_values(command: Command) -> Given:
    opcode = isa.OPCODES[command.opcode]
    return {
        "opcode": opcode.code,
        "size16": opcode.size // 16,
        "in_place": command.flags,
        "debug": command.debug,
        **command.fields,
        **command.given,
    }


def _header_values(program: Program, commands_size: int) -> Given:
    counts = {
        "binding": (len(program.bindings), isa.BINDING.size),
        "tensor": (len(program.tensors), isa.TENSOR.size),
        "list": (1, isa.LIST.size),
        "param": (len(program.params), isa.PARAM.size),
        "pool": (len(program.pool), 4),
    }
    values: Given = {"magic": isa.PROGRAM_MAGIC}
    end = isa.PROGRAM.size
    for region, (count, size) in counts.items():
        values[f"{region}_count"] = count
        plural = region if region == "pool" else f"{region}s"
        values[f"{plural}_offset"] = end
        end = align_up(end + count * size, 16)
    return {
        **values,
        "command_count": len(program.commands),
        "commands_offset": end,
        "commands_size": commands_size,
        "size": end + commands_size,
        "isa_features": find_features(program),
        "mac_count": count_macs(program),
        "byte_count": count_bytes(program),
        "core_mode": program.core_mode,
        "batch": program.batch,
        "flags": program.flags,
        **program.given,
    }


def _list_values(program: Program, commands_size: int) -> Given:
    return {
        "size": commands_size,
        "command_count": len(program.commands),
        **program.list_given,
    }


def encode_program(program: Program, names: Names) -> bytes:
    """Bytes of the PROG section; names gives the STRS offset of a name.

    Raises ValueError for a value that does not fit its field.
    """
    commands = b"".join(
        isa.OPCODES[c.opcode].layout.pack(_command_values(c)) for c in program.commands
    )
    size = len(commands)
    out = bytearray(isa.PROGRAM.pack(_header_values(program, size)))
    for index in range(len(program.bindings)):
        out += isa.BINDING.pack(_binding_values(program, index))
    for tensor in program.tensors:
        out += isa.TENSOR.pack(_tensor_values(tensor, names))
    out += isa.LIST.pack(_list_values(program, size))
    for param in program.params:
        out += isa.PARAM.pack({**vars(param), **param.given})
    for value in program.pool:
        out += float_bits(value, 32).to_bytes(4, "little")
    out += bytes(-len(out) % 16)
    return bytes(out + commands)


def _as_stored(layout: Struct, computed: Given) -> Given:
    """What unpack would find of these values; None for what does not fit."""
    try:
        return layout.unpack(layout.pack(computed))
    except ValueError:
        stored = layout.unpack(bytes(layout.size))
    for key, spec in layout.fields.items():
        value = computed.get(key, spec.default)
        try:
            stored[key] = layout.unpack(layout.pack({key: value}))[key]
        except ValueError:
            stored[key] = None
    return stored


def deviations(layout: Struct, found: Given, computed: Given) -> Given:
    """The fields of found that differ, to the bit, from computed."""
    expected = _as_stored(layout, computed)
    # repr tells -0.0 from 0.0, == tells NaN patterns apart
    return {
        key: value
        for key, value in found.items()
        if value != expected[key] or repr(value) != repr(expected[key])
    }


def _check_regions(head: Given, size: int) -> None:
    expected = isa.PROGRAM.size
    sizes = {"binding": 32, "tensor": 128, "list": 16, "param": 16, "pool": 4}
    for region, element in sizes.items():
        plural = region if region == "pool" else f"{region}s"
        if head[f"{plural}_offset"] != expected:
            raise FormatError("program", 0, f"region {plural} is not where it must be")
        expected = align_up(expected + head[f"{region}_count"] * element, 16)
    end = expected + head["commands_size"]
    if head["commands_offset"] != expected or end != size:
        raise FormatError("program", 0, "the commands do not end with the program")


def _read_header(data: memoryview) -> Given:
    if not 128 <= len(data) <= 1 << 24 or len(data) % 16:
        raise FormatError("program", 0, f"a size of {len(data)} bytes is not possible")
    head = isa.PROGRAM.unpack(data)
    if head["magic"] != isa.PROGRAM_MAGIC:
        raise FormatError("program", 0, "the magic number is wrong")
    if head["isa_major"] != 1 or head["isa_minor"] > 0:
        version = f"{head['isa_major']}.{head['isa_minor']}"
        raise FormatError("program", 4, f"instruction set {version} is too new")
    if head["list_count"] != 1:
        raise FormatError("program", 32, "there must be exactly one command list")
    _check_regions(head, len(data))
    return head


def _read_commands(data: memoryview, offset: int) -> list[Command]:
    commands = []
    while offset < len(data):
        code, size16 = data[offset] | data[offset + 1] << 8, data[offset + 2]
        size16 |= data[offset + 3] << 8
        name = isa.OPCODE_NAMES.get(code)
        if name is None:
            raise FormatError("program", offset, f"opcode {code:#06x} is unknown")
        opcode = isa.OPCODES[name]
        if size16 * 16 != opcode.size or offset + opcode.size > len(data):
            raise FormatError("program", offset, f"the size of {name} is wrong")
        values = opcode.layout.unpack(data, offset)
        command = Command(name, {}, values["in_place"], values["debug"])
        command.fields = deviations(opcode.layout, values, _command_values(command))
        for key in [k for k in command.fields if k.startswith("reserved")]:
            command.given[key] = command.fields.pop(key)
        commands.append(command)
        offset += opcode.size
    return commands


def _read_tensor(values: Given, names: Callable[[int], str]) -> Tensor:
    rank = min(values["rank"], 6)
    keys = ("dtype binding offset scale zero_point quant_axis quant").split()
    keys += ("offset_axis", "offset_params", "window")
    tensor = Tensor(
        names(values["name"]),
        dims=values["dims"][:rank],
        extent_params=values["extent_params"] if any(values["extent_params"]) else (),
        **{key: values[key] for key in keys},
    )
    if not any(values["extent_params"][rank:]):
        tensor.extent_params = tensor.extent_params[:rank]
    dense = dense_strides(tensor.dims, tensor.element_size)
    if values["strides"][:rank] != dense:
        tensor.strides = values["strides"][:rank]
    # the name is opaque: its own offset is what names() found
    computed = _tensor_values(tensor, lambda name: values["name"])
    tensor.given = deviations(isa.TENSOR, values, computed)
    return tensor


def _read_table(
    data: memoryview, head: Given, region: str, layout: Struct
) -> list[Given]:
    offset, count = head[f"{region}s_offset"], head[f"{region}_count"]
    return [layout.unpack(data, offset + i * layout.size) for i in range(count)]


def decode_program(data: bytes | memoryview, names: Callable[[int], str]) -> Program:
    """The program in the bytes of a PROG section; names reads STRS.

    Refuses (FormatError) what cannot be walked: sizes, regions, opcodes. What
    else is wrong stays in `given`; the validator judges it.
    """
    data = memoryview(data)
    head = _read_header(data)
    program = Program(
        core_mode=head["core_mode"], batch=head["batch"], flags=head["flags"]
    )
    for index, values in enumerate(_read_table(data, head, "binding", isa.BINDING)):
        keys = ("kind", "tensor", "alias", "io", "size", "align_log2")
        binding = Binding(**{key: values[key] for key in keys})
        program.bindings.append(binding)
        given = deviations(isa.BINDING, values, _binding_values(program, index))
        binding.access = given.pop("access", None)
        binding.given = given
    for values in _read_table(data, head, "tensor", isa.TENSOR):
        program.tensors.append(_read_tensor(values, names))
    for values in _read_table(data, head, "param", isa.PARAM):
        program.params.append(Param(**values))
    offset, count = head["pool_offset"], head["pool_count"]
    for position in range(offset, offset + 4 * count, 4):
        bits = int.from_bytes(data[position : position + 4], "little")
        program.pool.append(float_of_bits(bits, 32))
    program.commands = _read_commands(data, head["commands_offset"])
    size = head["commands_size"]
    program.given = deviations(isa.PROGRAM, head, _header_values(program, size))
    [found] = _read_table(data, head, "list", isa.LIST)
    program.list_given = deviations(isa.LIST, found, _list_values(program, size))
    return program
