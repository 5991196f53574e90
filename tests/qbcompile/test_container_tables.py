# SPDX-License-Identifier: MIT
"""Container: tables and cross references of section 3, versions, corpus."""

from __future__ import annotations

import random
import zlib
from typing import Any, Callable

import pytest
from container_edit import corpus, patched, refused, reseal, rewritten, u32, where
from qbm_samples import CORPUS, GOLDEN, NONE, random_file

from qbcompile import container, sections
from qbcompile import isa_tables as isa
from qbcompile.container import File, FormatError, Section

COPY64 = "fb0bb4ab44e1c6a6e0f7e05e020731d8b728fad6be1b42ac19529b57c5726376"
COPY64_PROGRAM = "f00786f27e579f58fa489197bd2432fb603d40d3863bc85f2d8da2a1534b821d"


# FM19
def test_empty_range_begins_at_0() -> None:
    data = rewritten(lambda f: setattr(f.variants[0], "states", (1, 0)))
    assert "states: none, but first is 1" in refused(data).sentence


# FM20
def test_single_and_multi_may_share_a_program() -> None:
    file = container.read(container.write(corpus("variants")))
    assert file.bundles[0].program[:2] == (0, 0)


# FM22
def test_variants_with_other_modes_outputs_or_states_are_refused() -> None:
    def modes(file: File) -> None:
        file.bundles[1].mode_mask = 1
        file.variants[1].mode_mask = 1
        file.bundles[1].program = (1, NONE, NONE, NONE, NONE)

    assert "core modes" in refused(rewritten(modes, corpus("variants"))).sentence

    def outputs(file: File) -> None:
        file.ios[4].role = isa.ROLE_OUTPUT
        file.variants[2].inputs, file.variants[2].outputs = (0, 0), (4, 2)

    assert (
        "number of outputs" in refused(rewritten(outputs, corpus("variants"))).sentence
    )
    seed = next(s for s in range(99) if _has_states(random_file(s)))
    file = random_file(seed)
    state = [io for io in file.ios if io.role == isa.ROLE_STATE][-1]
    state.state_offset = 8192
    assert "other states" in refused(container.write(file)).sentence


# FM22
@pytest.mark.parametrize("key", ["size", "name", "state_init", "init_offset", "cache"])
def test_variants_have_one_state_table(key: str) -> None:
    def change(file: File) -> None:
        state = [io for io in file.ios if io.role == isa.ROLE_STATE][-1]
        if key == "size":
            state.shape = (*state.shape[:-1], state.shape[-1] - 1)
        elif key == "name":
            state.name += "x"
        elif key == "cache":
            state.cache = NONE
        else:
            state.state_init, state.init_offset = 1, 64 * (key == "init_offset")
            file.weights = file.weights or bytes(1 << 16)

    seed = next(s for s in range(99) if _has_states(random_file(s)))
    assert "other states" in refused(rewritten(change, random_file(seed))).sentence


def with_caches() -> File:
    return container.read(container.write(corpus("kv_cache")))


# 3.5
@pytest.mark.parametrize(
    "key, value",
    [
        ("token_stride", lambda layer: layer.token_size - 1),
        ("outer_stride", lambda layer: layer.token_size - 1),
        ("token_size", lambda layer: 0),
        ("max_tokens", lambda layer: (1 << 24) + 1),
    ],
)
def test_rows_of_a_cache_do_not_share_bytes(
    key: str, value: Callable[[Any], int]
) -> None:
    def change(file: File) -> None:
        assert file.caches is not None
        layer = file.caches.layers[0]
        layer.outer_count = max(layer.outer_count, 2)
        setattr(layer, key, value(layer))

    assert refused(rewritten(change, with_caches())).section == "CACH"


# 3.5
def test_state_and_its_cache_layer_name_each_other() -> None:
    def change(file: File) -> None:
        state = [io for io in file.ios if io.role == isa.ROLE_STATE][0]
        state.cache = NONE

    assert "a state with a cache" in refused(rewritten(change, with_caches())).sentence


# LD04
@pytest.mark.parametrize("kind", sorted(sections.KINDS))
def test_flags_of_a_known_section_are_as_the_table_says(kind: bytes) -> None:
    data = bytearray(
        container.write(corpus("conv_net" if kind != b"CACH" else "kv_cache"))
    )
    entry = where(data, kind.decode())[0]
    data[entry + 4] ^= 1
    assert "flags" in refused(reseal(data)).sentence


# 3.4
def test_extents_are_at_most_2_to_the_24() -> None:
    def change(file: File) -> None:
        for io in file.ios:
            if io.role == isa.ROLE_STATE:
                io.shape = ((1 << 24) + 1,)

    assert "its shape" in refused(rewritten(change, with_caches())).sentence


# 3.4
def test_alias_of_an_output_has_its_size() -> None:
    def change(file: File) -> None:
        file.ios[1].alias = file.programs[0].bindings[1].alias = 0
        file.ios[1].flags, file.ios[0].flags = 0, 0

    def shrink(file: File) -> None:
        change(file)
        file.ios[1].shape = (file.ios[1].shape[0] - 1, *file.ios[1].shape[1:])
        program = file.programs[0]
        output = program.tensors[program.bindings[1].tensor]
        output.dims = file.ios[1].shape

    container.read(rewritten(change))
    assert "alias 0" in refused(rewritten(shrink)).sentence


def _has_states(file: File) -> bool:
    return bool(file.state_size) and len(file.variants) > 1


# FM23
def test_variant_has_exactly_its_own_bundle() -> None:
    for given in ({"bundle_count": 2}, {"first_bundle": 1}):
        data = rewritten(lambda f: f.variants[0].given.update(given))
        assert "its own bundle" in refused(data).sentence
    counted = patched((GOLDEN / "copy64.qbm").read_bytes(), "VARI", 8, u32(2))
    assert "one bundle per variant" in refused(counted).sentence


def _damage(**changes: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        for key, value in changes.items():
            setattr(file.ios[0], key, value)

    return change


# FM30
@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (63,)},
        {"shape": (8, 8)},
        {"shape": (-1,)},
        {"shape": (-1,), "dyn_axis": 0, "dyn_param": 0},
        {"shape": (64, 1), "dyn_axis": 1, "dyn_param": 0},
        {"device_dtype": isa.I8},
        {"device_dtype": 13},
        {"flags": 1},
        {"flags": 4},
        {"layout": 1},
        {"size": 128},
        {"role": isa.ROLE_OUTPUT},
        {"role": 3},
        {"variant": 1},
        {"alias": 1},
        {"norm_channels": 2, "flags": 2},
        {"norm_channels": 1, "mean": (1.0,), "std": (1.0,)},
        {"flags": 2},
        {"flags": 2, "norm_channels": 1, "mean": (float("inf"),), "std": (1.0,)},
        {"flags": 2, "norm_channels": 1, "mean": (1.0,), "std": (0.0,)},
        {"scale": 0.0},
        {"scale": float("nan")},
        {"zero_point": 256},
        {"source_perm": (1,)},
        {"source_perm": (isa.NONE8, 0)},
        {"source_shape": (8, 8), "source_perm": (0, 1)},
        {"state_init": 1},
        {"state_offset": 64},
        {"cache": 0},
        {"scale_axis": 0},
        {"scale_count": 64, "scale_axis": 0},
        {"given": {"index": 1}},
        {"given": {"rank": 2}},
        {"given": {"reserved0": 1}},
        {"given": {"reserved1": (0, 1)}},
    ],
    ids=str,
)
def test_entry_that_is_not_its_binding_is_refused(changes: dict[str, Any]) -> None:
    assert refused(rewritten(_damage(**changes))).section in ("IOTB", "VARI", "PROG 0")


# FM34
def test_accepted_types_are_those_of_host_and_device() -> None:
    data = rewritten(lambda f: None, corpus("int8"))
    entry = where(data, "IOTB")[1] + 32 + 256
    assert data[entry + 12 : entry + 16] == u32(1 << isa.F32 | 1 << isa.U8)
    assert "accepted_dtypes" in refused(rewritten(_damage(accepted_dtypes=3))).sentence


# FM35
@pytest.mark.parametrize(
    ("name", "index", "expected"),
    [
        ("conv_net", 0, (8, 8, 1)),
        ("conv_net", 1, (1, 1, 10)),
        ("two_inputs", 0, (1, 3, 5)),
        ("kv_cache", 0, (1, 8, 32)),
    ],
)
def test_buffer_info_is_the_shape(
    name: str, index: int, expected: tuple[int, ...]
) -> None:
    file = corpus(name)
    data = container.write(file)
    entry = isa.IO.unpack(data, where(data, "IOTB")[1] + 32 + 256 * index)
    cached = file.variants[0].max_cache if index == 0 else 0
    assert entry["buffer_info"] == (*expected * 4, cached)


# FM41
def test_weights_binding_beyond_the_section_is_refused() -> None:
    def longer(file: File) -> None:
        file.programs[0].bindings[0].size = len(file.weights) + 1

    assert refused(rewritten(longer, corpus("conv_net"))).section == "PROG 0"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size", 0),
        ("offset", 64),
        ("state", 0),
        ("max_tokens", 33),
        ("outer_count", 3),
        ("name", "past.v"),
        ("dtype", 13),
        ("given", {"layer_hash": 1}),
        ("given", {"size": 1}),
    ],
)
def test_cache_layer_outside_its_state_is_refused(key: str, value: Any) -> None:
    def change(file: File) -> None:
        assert file.caches
        setattr(file.caches.layers[0], key, value)
        if key == "size":
            file.caches.given["state_size"] = 1

    assert refused(rewritten(change, corpus("kv_cache"))).section == "CACH"


@pytest.mark.parametrize("key", ["seq_param", "past_param"])
def test_variant_with_a_parameter_that_is_not_there_is_refused(key: str) -> None:
    data = rewritten(lambda f: setattr(f.variants[0], key, 2), corpus("kv_cache"))
    assert refused(data).sentence == f"variant 0: {key} 2"


# VP01
def test_unknown_optional_section_is_kept() -> None:
    data = rewritten(lambda f: f.extra.append(Section(b"NEWS", b"text", 0, 7, 5)))
    [section] = container.read(data).extra
    assert section == Section(b"NEWS", b"text", 0, 7, 5)
    entry = where(data, "NEWS", 7)[0]
    changed = bytearray(data)
    changed[entry + 32] ^= 1  # its checksum: not looked at
    changed[56:60] = u32(zlib.crc32(changed[256 : 256 + 480]))
    changed[252:256] = u32(zlib.crc32(changed[:252]))
    assert container.read(bytes(changed)).extra == [section]


# VP01
def test_unknown_required_section_is_refused() -> None:
    data = rewritten(lambda f: f.extra.append(Section(b"N\x1bWS", b"text", 1)))
    assert "N\\x1bWS is required" in refused(data).sentence


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (0, b"\x89QBM\n\x1a\n\0", "line ends"),
        (0, b"MXQ!", "not a qbruntime container"),
        (8, b"\2", "format_major is 2"),
        (12, b"\2", "isa_major is 2"),
        (28, b"\1", "min_reader_minor is 1"),
        (40, b"\4", "features"),
        (41, b"\1", "features"),
        (16, b"\1", "header_size"),
        (20, b"\4", "4 sections"),
        (30, b"\6", "target 6"),
        (60, b"\1", "flags"),
        (64, b"\x1b", "printable"),
        (128, b"\1", "reserved"),
    ],
)
def test_header_field_is_refused(offset: int, value: bytes, words: str) -> None:
    data = bytearray((GOLDEN / "copy64.qbm").read_bytes())
    data[offset : offset + len(value)] = value
    data[252:256] = zlib.crc32(data[:252]).to_bytes(4, "little")
    error = refused(data)
    assert error.section == "header" and words in error.sentence


# VP01
def test_later_minor_that_this_reader_may_read_is_kept() -> None:
    data = rewritten(lambda f: f.given.update({"format_minor": 3}))
    assert container.write(container.read(data)) == data


# IS10
def test_multiply_accumulates_are_counted() -> None:
    conv = 8 * 8 * 4 * 3 * 3
    assert corpus("conv_net").programs[0].mac_count == conv + 64 * 10
    assert corpus("kv_cache").programs[0].mac_count == 2 * 2 * 8 * 32 * 16
    lstm, deconv = 4 * (4 + 1), 4 * 4 * 9
    assert corpus("ops").programs[0].mac_count == lstm + deconv


def test_every_opcode_is_in_the_corpus() -> None:
    used = {
        command.opcode
        for path in CORPUS.glob("*.txt")
        for program in corpus(path.stem).programs
        for command in program.commands
    }
    assert used == set(isa.OPCODES) - {"barrier"}  # reserved, refused


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.txt")), ids=lambda p: p.stem)
def test_corpus_passes_the_validator(path: Any) -> None:
    validate = pytest.importorskip("qbcompile._isa").validate_program
    data = container.write(corpus(path.stem))
    for found in sections.read_sections(data)[1]:
        if found.kind == b"PROG":
            assert validate(bytes(found.data)) == (0, 0, 0, 0)


def test_validator_names_the_rule() -> None:
    validate = pytest.importorskip("qbcompile._isa").validate_program
    names = container.Strings().add
    program = corpus("two_inputs").programs[0]
    program.commands[1].fields["dst"] = 99
    rule, command, operand, _ = validate(container.encode_program(program, names))
    assert (rule, command) == (33, 1)
    assert validate(b"")[0] == 1
    with pytest.raises(TypeError):
        validate("text")


def test_damaged_files_are_read_or_refused() -> None:
    rng = random.Random(5)
    samples = [container.write(corpus(name)) for name in ("kv_cache", "conv_net")]
    samples += [container.write(random_file(seed)) for seed in range(10)]
    counts = {"read": 0, "refused": 0}
    for _ in range(1500):
        data = bytearray(rng.choice(samples))
        for _ in range(rng.randrange(1, 4)):
            found = rng.choice(sections.read_sections(rng.choice(samples))[1])
            at = min(found.offset + rng.randrange(len(found.data)), len(data) - 1)
            data[at] = rng.choice((0, 1, 0xFF, rng.randrange(256)))
        try:
            container.read(bytes(reseal(data)))
            counts["read"] += 1
        except FormatError:
            counts["refused"] += 1
    assert min(counts.values()) > 50


def test_damaged_tables_are_read_or_refused() -> None:
    rng = random.Random(6)
    good = container.write(corpus("kv_cache"))
    end = 256 + 80 * len(sections.read_sections(good)[1])
    for _ in range(1500):
        data = bytearray(good)
        data[rng.randrange(8, end)] = rng.choice((0, 1, 0xFF, rng.randrange(256)))
        data[56:60] = zlib.crc32(data[256:end]).to_bytes(4, "little")
        data[252:256] = zlib.crc32(data[:252]).to_bytes(4, "little")
        try:
            container.read(bytes(data))
        except FormatError as error:
            assert error.section in ("header", "table") or "checksum" in str(error)


@pytest.mark.parametrize(
    ("path", "value"),
    [("kh", 256), ("kh", -1), ("pad_top", 65536), ("act_a", 1e39), ("groups", 1 << 32)],
)
def test_writer_refuses_numbers_that_do_not_fit(path: str, value: float) -> None:
    def change(file: File) -> None:
        file.programs[0].commands[1].fields[path] = value

    with pytest.raises(ValueError):
        rewritten(change, corpus("conv_net"))
