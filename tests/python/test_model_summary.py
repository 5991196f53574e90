# SPDX-License-Identifier: MIT
"""A model in words: get_model_summary, the function and the method."""

import re

import pytest
from runtime_cases import COPY64, CORPUS, DIGITS, TOP, run_child

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Model, get_model_summary  # noqa: E402


# Q178 Q291 Q958
def test_the_function_and_the_method_give_one_text(acc, launched):
    text = get_model_summary(str(COPY64))
    assert type(text) is str and text.startswith("format: qbm 1.0, isa 1.0, 4592 bytes")
    for path in (COPY64, bytes(COPY64)):
        assert get_model_summary(mxq_path=path) == text
    assert launched.get_model_summary() == text
    launched.dispose()
    assert launched.get_model_summary() == text
    assert Model.__new__(Model).get_model_summary() == ""
    with pytest.raises(TypeError):
        launched.get_model_summary(0)
    with pytest.raises(TypeError):
        get_model_summary()


# Q178
def test_it_tells_what_the_getters_tell():
    model, text = Model(DIGITS), get_model_summary(DIGITS)
    assert "\ncompiler: qbcompile " in text and "\ntarget: any device\n" in text
    (mode,) = model.supported_core_modes()
    assert f"\ncore modes: {mode.name}\n" in text
    assert f"\nvariant {model.get_num_model_variants() - 1}: " in text
    for kind, names, shapes, types, pinned in (
        (
            "input",
            model.get_input_names(),
            model.get_model_input_shape(),
            model.get_input_data_types(),
            model.get_input_pinned_data_types(),
        ),
        (
            "output",
            model.get_output_names(),
            model.get_model_output_shape(),
            model.get_output_data_types(),
            model.get_output_pinned_data_types(),
        ),
    ):
        assert f"\n  {kind} 0: {names[0]}\n" in text
        extents = ", ".join(map(str, shapes[0]))
        assert f"\n    {types[0].name} ({extents})" in text
        assert f"\n    pinned memory: {pinned[0].name}, at most " in text
    for line in text.splitlines():
        assert line.isprintable()


# Q178
def test_no_device_is_needed(corpus_model):
    child = run_child(
        """
        import sys, qbruntime
        assert not qbruntime.get_available_devices()
        print(qbruntime.get_model_summary(sys.argv[1]), end="")
        """,
        corpus_model("kv_cache"),
        QBRUNTIME_SOFT_DEVICES="none",
    )
    lines = child.stdout.splitlines()
    cache = lines.index(
        "cache: 2 of type Batch, 2 layers, at most 32 tokens, 8192 bytes each"
    )
    assert lines[cache + 1] == "  layer 0: past.k" and len(lines) == cache + 5
    assert "  at most 8 tokens a call, 32 in the cache" in lines


# Q178: Model asks which of them is meant
@pytest.mark.parametrize("mode", ["Multi", "Global8"])
def test_a_file_of_several_modes_needs_no_choice(corpus_model, mode):
    if mode == "Multi":
        path, modes = corpus_model("variants"), "Single, Multi"
    else:
        path, modes = corpus_model("modes"), "Single, Multi, Global4, Global8"
    with pytest.raises(qbruntime.QbRuntimeError, match="CoreMode::Auto"):
        Model(path)
    assert f"\ncore modes: {modes}\n" in get_model_summary(path)
    config = qbruntime.ModelConfig()
    getattr(config, f"set_{mode.lower()}_core_mode")()
    assert Model(path, config).get_model_summary() == get_model_summary(path)


# Q178
@pytest.mark.parametrize(
    "mask, programs, modes, second",
    [
        (24, "-,-,-,0,1", "Global4, Global8", "program 1 core_mode=4"),
        (10, "-,0,-,1,-", "Multi, Global4", "program 1 core_mode=3"),
    ],
)
def test_a_file_without_single_mode(corpus_model, mask, programs, modes, second):
    text = (CORPUS / "modes.txt").read_text(encoding="utf-8")
    first = "program 0 core_mode=3" if mask == 24 else "program 0"
    edits = [
        (text[text.index("program 2 ") :], ""),
        ("mode_mask=27", f"mode_mask={mask}"),
        ("program=0,0,-,1,2", f"program={programs}"),
        ("program 0", first),
        ("program 1 core_mode=3", second),
    ]
    summary = get_model_summary(corpus_model("modes", edits))
    assert f"\ncore modes: {modes}\n" in summary


# Q178
def test_a_bad_file_raises_as_a_model_does(tmp_path):
    broken = tmp_path / "broken.mxq"
    broken.write_bytes(COPY64.read_bytes()[:-1])
    for path in (tmp_path / "none.mxq", tmp_path, broken, TOP / "README.md"):
        with pytest.raises(qbruntime.QbModelFileError) as expected:
            Model(path)
        with pytest.raises(qbruntime.QbModelFileError) as caught:
            get_model_summary(path)
        assert caught.value.args == expected.value.args


# MM12
def test_no_byte_of_the_file_reaches_a_terminal_raw(corpus_model):
    edits = [('"model.name" = "variants"', '"labels" = "cat\\ndog é"')]
    text = get_model_summary(corpus_model("variants", edits))
    assert "\nmeta labels: cat\\x0adog é\n" in text


# Q808
def test_preprocessing_is_told_where_a_type_is_refused(acc):
    np = pytest.importorskip("numpy")
    text = get_model_summary(DIGITS)
    assert (
        "  input 0: image\n    Uint8 (8, 8, 1) HWC, takes Uint8\n"
        "    pinned memory: Uint8, at most 64 bytes, with an axis of the batch\n"
        "    source tensor: Float32 (1, 1, 8, 8)\n"
        "    normalised inside the model: (x - 0) / 16\n"
    ) in text
    with Model(DIGITS) as model:
        model.launch(acc)
        with pytest.raises(qbruntime.QbDtypeError) as caught:
            model.infer(np.zeros((8, 8, 1), "f4"))
    for words in ("input 0 (image)", "Float32", "Uint8", "the model itself normalises"):
        assert words in caught.value.detail
    assert "not normalised inside the model" in get_model_summary(COPY64)


# Q850
def test_a_model_can_be_looked_at(acc):
    model = Model(DIGITS)
    assert model.get_input_names() == ["image"]
    assert model.get_output_names() == ["logits"]
    assert [item.name for item in model.get_input_data_types()] == ["Uint8"]
    assert [item.name for item in model.get_output_pinned_data_types()] == ["Float32"]
    assert [mode.name for mode in model.supported_core_modes()] == ["Single"]
    assert acc.info().kind == "software"
    assert qbruntime.estimate_memory(DIGITS) > DIGITS.stat().st_size // 2
    assert model.counters()["submitted"] == model.get_activation_slots() == 0
    assert "logits" in model.get_model_summary()


# Q178: what the manual page shows is what comes out
def test_the_example_of_the_manual_page():
    page = (TOP / "man/qbrt_model.3.scd").read_text(encoding="utf-8")
    (example,) = re.findall(r"```\n(format: .*?)```", page, re.DOTALL)
    text = "\n" + get_model_summary(DIGITS)
    parts = [f"\n{part}" for part in example.split("...\n")]
    assert len(parts) == 3 and all(part in text for part in parts)
