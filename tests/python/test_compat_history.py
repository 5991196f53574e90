# SPDX-License-Identifier: MIT
"""What releases of the vendor's brought, as far as it is offered: one test each."""

import json

import pytest
from runtime_cases import COPY64, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import CoreAllocationPolicy, CoreMode, DataType, LogLevel  # noqa: E402


# Q950; Q268: also while the job is on its way to the device
def test_others_run_while_one_waits_and_a_model_outlives_its_accelerator():
    child = run_child(
        """
        import sys, threading, qbruntime
        model = qbruntime.Model(sys.argv[1])
        acc = qbruntime.Accelerator()
        model.launch(acc)
        acc.close()
        del acc
        # nobody is made to let go of the GIL: it is let go of in the call, or never
        sys.setswitchinterval(1000)
        order = []
        def work():
            try:
                model.infer_speedrun()
            except qbruntime.QbNotAliveError as error:
                order.append(error.status.name)
        thread = threading.Thread(target=work)
        thread.start()
        order.append("main")
        model.dispose()
        thread.join()
        print(*order)
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT="hang",
    )
    assert child.stdout == "main Model_NotAlive\n"


# Q952
def test_load_trace_log_level_and_watchdog(tmp_path):
    path = tmp_path / "trace.json"
    child = run_child(
        """
        import sys, qbruntime
        qbruntime.set_log_level(qbruntime.LogLevel.OFF)
        assert qbruntime.start_tracing_events(sys.argv[2])
        model = qbruntime.load(sys.argv[1])
        try:
            model.infer_speedrun()
        except qbruntime.QbRuntimeError as error:
            print(error.status)
        qbruntime.stop_tracing_events()
        model.dispose()
        """,
        COPY64,
        path,
        QBRUNTIME_SOFT_FAULT="hang",
        QBRUNTIME_NPU_TIMEOUT_MS="20",
    )
    assert child.stdout == "StatusCode.Acc_NPUTimeout\n" and child.stderr == ""
    assert "launch" in {event["name"] for event in json.loads(path.read_text("utf-8"))}


# Q953
def test_who_chooses_the_cores():
    config = qbruntime.ModelConfig()
    assert config.get_core_allocation_policy() is CoreAllocationPolicy.Auto
    core_ids = qbruntime.Accelerator().get_available_cores()[2:4]
    assert config.set_single_core_mode(core_ids=core_ids)
    assert config.get_core_allocation_policy() is CoreAllocationPolicy.Manual
    assert qbruntime.Model(COPY64, config).get_target_cores() == core_ids


# Q954
@pytest.mark.parametrize(
    "environ, is_logged",
    [
        ({}, True),
        ({"MACCEL_LOG_LEVEL": "err"}, False),
        ({"MACCEL_LOG_LEVEL": "DEBUG"}, True),
        ({"QBRUNTIME_LOG_LEVEL": "Warn", "MACCEL_LOG_LEVEL": "off"}, True),
        ({"QBRUNTIME_LOG_LEVEL": "4", "MACCEL_LOG_LEVEL": "debug"}, False),
    ],
)
def test_a_variable_says_what_is_logged(environ, is_logged):
    code = """
        import qbruntime
        qbruntime.ModelConfig().set_single_core_mode(9)
        """
    text = run_child(code, **environ).stderr
    assert ("qbruntime: warn: model-config: num_cores is 9" in text) == is_logged


# Q959
def test_uint8_models_and_visible_devices(launched):
    assert launched.get_model_input_data_type() is DataType.Uint8
    (x,) = launched.allocate_inputs()
    x[:] = np.arange(192, 256, dtype="uint8")
    (y,) = launched.infer_pinned_memory(x)
    assert y.dtype() == np.uint8 and y[0] == 192 and y[63] == 255
    code = "import qbruntime; print(qbruntime.get_available_device_numbers())"
    for environ, numbers in (
        ({"MACCEL_VISIBLE_DEVICES": "1"}, "[1]"),
        ({"QBRUNTIME_VISIBLE_DEVICES": "0,2", "MACCEL_VISIBLE_DEVICES": "1"}, "[0, 2]"),
        ({"QBRUNTIME_VISIBLE_DEVICES": "", "MACCEL_VISIBLE_DEVICES": "1"}, "[]"),
    ):
        child = run_child(code, QBRUNTIME_SOFT_DEVICES="aries:3", **environ)
        assert child.stdout.strip() == numbers


# Q961
def test_auto_data_types_device_numbers_and_log_levels(acc):
    config = qbruntime.ModelConfig()
    assert (config.get_core_mode(), config.get_num_cores()) == (CoreMode.Auto, 0)
    model = qbruntime.Model(COPY64, config)
    assert model.get_core_mode() is CoreMode.Single
    assert str(model.get_model_input_data_type()) == "DataType.Uint8"
    assert str(model.get_model_output_data_type()) == "DataType.Uint8"
    assert acc.info().number in qbruntime.get_available_device_numbers()
    assert LogLevel.Warn is LogLevel.WARN and LogLevel.Off.value == 6


# Q963
def test_pinned_memory_of_16_bit_integers(acc):
    for name, dtype in (("int16", DataType.Int16), ("uint16", DataType.Uint16)):
        memory = acc.allocate_pinned_memory((2, 3), dtype)
        assert isinstance(memory, qbruntime.pinned_memory.PinnedMemory)
        memory[:] = 12345
        assert memory.dtype() == np.dtype(name) and memory.nbytes == 12
        assert np.asarray(memory).sum() == 6 * 12345
