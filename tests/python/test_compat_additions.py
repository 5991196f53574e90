# SPDX-License-Identifier: MIT
"""What we add breaks no program: errors, devices, observation, and the rule."""

import inspect
import json
import signal

import pytest
from runtime_cases import COPY64, run_child

qbruntime = pytest.importorskip("qbruntime")

# Methods and functions of the vendor's, with the parameters that they document.
VENDOR = """
load path model_config
set_log_level level
start_tracing_events path
stop_tracing_events
get_model_summary mxq_path
get_available_device_numbers device_name
get_available_devices
Accelerator.get_device_name
Accelerator.get_available_cores
Accelerator.allocate_pinned_memory shape dtype
ModelConfig.set_auto_core_mode
ModelConfig.set_single_core_mode num_cores core_ids
ModelConfig.set_multi_core_mode clusters
ModelConfig.set_global4_core_mode clusters
ModelConfig.set_global8_core_mode
ModelConfig.set_global_core_mode clusters
ModelConfig.force_single_npu_bundle npu_bundle_index
ModelConfig.get_forced_npu_bundle_index
ModelConfig.get_core_mode
ModelConfig.get_core_allocation_policy
ModelConfig.get_num_cores
ModelConfig.get_core_ids
ModelConfig.set_async_pipeline_enabled enable
ModelConfig.get_async_pipeline_enabled
ModelConfig.set_activation_slots count
ModelConfig.get_activation_slots
ModelConfig.include_all_cores
ModelConfig.exclude_all_cores
ModelConfig.include cluster core
ModelConfig.exclude cluster core
ModelConfig.set_auto_mode num_cores
ModelConfig.set_manual_mode
Model.launch acc
Model.dispose
Model.is_target core_id
Model.get_core_mode
Model.get_target_cores
Model.get_num_model_variants
Model.get_model_variant_handle variant_idx
Model.get_model_input_shape
Model.get_model_output_shape
Model.get_model_input_data_type
Model.get_model_output_data_type
Model.get_input_scale
Model.get_output_scale
Model.get_input_buffer_info
Model.get_output_buffer_info
Model.get_identifier
Model.get_model_path
Model.get_cache_infos
Model.infer inputs outputs cache_size params
Model.infer_to_float inputs cache_size
Model.infer_chw inputs outputs cache_size params
Model.infer_chw_to_float inputs cache_size
Model.infer_async inputs
Model.infer_async_to_float inputs
Model.infer_pinned_memory inputs outputs
Model.infer_speedrun variant_idx
Model.dump_cache_memory cache_id
Model.load_cache_memory bufs cache_id
Model.dump_cache_memory_to cache_dir cache_id
Model.load_cache_memory_from cache_dir cache_id
Model.filter_cache_tail cache_size tail_size mask
Model.move_cache_tail num_head num_tail cache_size
ModelVariantHandle.get_variant_idx
ModelVariantHandle.get_model_input_shape
ModelVariantHandle.get_model_output_shape
ModelVariantHandle.get_input_buffer_info
ModelVariantHandle.get_output_buffer_info
ModelVariantHandle.get_input_scale
ModelVariantHandle.get_output_scale
Future.wait_for timeout_ms
Future.get
"""


def find(name):
    """What the package has under that name, or None."""
    owner = qbruntime
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner


LINES = VENDOR.strip().splitlines()
OFFERED = [line for line in LINES if find(line.split()[0]) is not None]


# Q858
@pytest.mark.parametrize("line", OFFERED)
def test_what_is_added_to_a_call_of_the_vendors_is_given_by_name(line):
    name, *expected = line.split()
    parameters = list(inspect.signature(find(name)).parameters.values())
    if "." in name:
        parameters = parameters[1:]
    ours = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert [p.name for p in parameters if p not in ours] == expected
    assert all(p.default is not p.empty for p in ours)


# Q858
def test_constructors_take_what_the_vendor_documents_by_place():
    for cls, expected in (
        (qbruntime.Model, ["path", "model_config"]),
        (qbruntime.ModelConfig, ["num_cores"]),
        (qbruntime.Accelerator, ["device_name", "dev_no"]),
        (qbruntime.CoreId, ["cluster", "core"]),
    ):
        parameters = inspect.signature(cls).parameters.values()
        places = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        assert places == expected


# Q848
def test_an_error_has_a_class_a_status_the_old_text_and_whole_shapes(acc, launched):
    wrong = acc.allocate_pinned_memory((3, 21), "uint8")
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        launched.infer_pinned_memory(wrong, launched.allocate_outputs())
    error = caught.value
    assert isinstance(error, (qbruntime.QbShapeError)) and isinstance(error, ValueError)
    assert error.status is qbruntime.StatusCode.Model_ShapeMismatched
    assert error.code_name == "Model_ShapeMismatched"
    assert str(error).startswith("Model_ShapeMismatched occurred. [StatusCode(21)] ")
    assert error.detail in str(error)
    assert "3" in error.detail and "21" in error.detail and "64" in error.detail
    floats = acc.allocate_pinned_memory(64, "float32")
    with pytest.raises(qbruntime.QbDtypeError) as caught:
        launched.infer_pinned_memory(floats, launched.allocate_outputs())
    assert isinstance(caught.value, TypeError)
    detail = caught.value.detail.lower()
    assert "float32" in detail and "uint8" in detail


# Q855: by nodes check-kmd-drm.c's, here a device without any
def test_a_software_device_needs_no_node():
    child = run_child(
        """
        import os, sys, qbruntime
        model = qbruntime.Model(sys.argv[1])
        acc = qbruntime.Accelerator("regulus", 0)
        model.launch(acc)
        model.infer_speedrun()
        info = acc.info()
        print(info.id, info.kind, info.bus, os.path.exists(info.node))
        opened = os.listdir("/proc/self/fd")
        opened = [f"/proc/self/fd/{fd}" for fd in opened]
        for link in [os.readlink(name) for name in opened if os.path.lexists(name)]:
            assert not link.startswith(("/sys", "/dev/accel", "/dev/dri")), link
        """,
        COPY64,
        QBRUNTIME_SOFT_DEVICES="regulus",
    )
    assert child.stdout == "regulus-ra:0 software None False\n"


# Q857
def test_a_trace_survives_a_kill_and_a_model_counts(tmp_path):
    path = tmp_path / "trace.json"
    child = run_child(
        """
        import os, signal, sys, qbruntime
        qbruntime.start_tracing_events(sys.argv[2])
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        for _ in range(50):
            model.infer_pinned_memory(x, y)
        counters = model.counters()
        print(counters["submitted"], counters["completed"], counters["failed"])
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        COPY64,
        path,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL and child.stdout == "50 50 0\n"
    text = path.read_text("utf-8")
    assert not text.rstrip().endswith("]")
    events = json.loads(text[: text.rindex("\n")] + "]")
    assert sum(event["name"] == "run" for event in events) == 50


# Q801: who asks knows which modes run, and which are refused when
@pytest.mark.parametrize("profile", ["aries", "regulus"])
def test_core_modes_are_what_device_and_file_say(corpus_model, profile):
    child = run_child(
        """
        import sys, qbruntime
        acc = qbruntime.Accelerator()
        runs = acc.supported_core_modes()
        assert runs == acc.info().core_modes and runs
        def configured(mode):
            config = qbruntime.ModelConfig()
            assert getattr(config, f"set_{mode.lower()}_core_mode")()
            return config
        for path in sys.argv[1:]:
            has = qbruntime.Model(path, configured("Single")).supported_core_modes()
            for mode in ("Single", "Multi", "Global4", "Global8"):
                member = qbruntime.CoreMode[mode]
                expected = "runs" if member in runs else "StatusCode.Model_NoGlobal"
                expected = expected if member in has else "StatusCode.Model_MXQAndMo"
                stage = "made"
                try:
                    model = qbruntime.Model(path, configured(mode))
                    stage = "launched"
                    model.launch(acc)
                    model.infer_speedrun()
                    found = "runs"
                    model.dispose()
                except qbruntime.QbRuntimeError as error:
                    found = str(error.status)
                assert found.startswith(expected), (mode, found, expected)
                assert (stage == "made") == (member not in has)
                print(mode, member in has, found)
        """,
        corpus_model("variants"),
        COPY64,
        QBRUNTIME_SOFT_DEVICES=profile,
    )
    refused = "StatusCode.Model_MXQAndModelConfigNotMatch"
    lines = child.stdout.splitlines()
    assert lines[0] == lines[4] == "Single True runs"
    assert lines[1].startswith("Multi True ")
    for line, mode in zip(lines[2:4] + lines[5:], "48M48"):
        assert line.endswith(f"False {refused}") and mode in line
