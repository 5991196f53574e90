# SPDX-License-Identifier: MIT
"""What an open device counts and tells, compared with what was done on it."""

import copy
import pickle
import time

import numpy as np
import pytest
from runtime_cases import COPY64, run_child

qbruntime = pytest.importorskip("qbruntime")

from qbruntime import (  # noqa: E402
    Accelerator,
    Cluster,
    Core,
    CoreId,
    CoreState,
    DeviceEvent,
    DeviceLimits,
    FirmwareInfo,
    Model,
    QbClosedError,
    Reading,
    StatusCode,
)

CALLS = ("core_states", "counters", "events", "firmware", "sensors")
# a device of its own, for its counts begin at 0
ALONE = """
import sys, time, qbruntime
from qbruntime import QbRuntimeError, StatusCode
acc = qbruntime.Accelerator()
model = qbruntime.Model(sys.argv[1])
model.launch(acc)
x = bytes(range(64))
def failed():
    try:
        model.infer([x])
    except QbRuntimeError as error:
        return error.status
"""


@pytest.fixture
def acc():
    with Accelerator(0) as opened:
        yield opened


# Q202
def test_info_says_what_the_device_takes(acc):
    info = acc.info()
    assert info.serial is info.uuid is None
    assert info.state == "ready" and info.isa_version == "1.0"
    assert info.contiguous_free >= 0
    assert "diag" in info.isa_features and "lists" not in info.isa_features
    assert {"progress", "forced_faults"} <= set(info.features)
    assert "sync_file" not in info.features
    assert info.backends[0] == "ref" and set(info.backends) <= {"ref", "onednn"}
    assert info.limits == DeviceLimits(
        max_jobs=256,
        max_queues=256,
        max_bindings=64,
        max_programs=1024,
        max_program_nbytes=1 << 24,
        max_pinned_nbytes=1 << 34,
        default_job_time_ns=10**10,
        max_job_time_ns=600 * 10**9,
    )


# Q207 Q787
def test_counters_are_what_was_done():
    run_child(
        ALONE
        + """
before = acc.counters()
assert set(before.values()) - {before["programs_created"]} == {0}
for _ in range(5):
    model.infer([x])
now, own = acc.counters(), model.counters()
for name in "submitted", "completed", "failed", "cancelled":
    assert now[name] == own[name], name
assert now["submitted"] == now["completed"] == 5
assert now["bytes_read"] == own["input_nbytes"] == 5 * 64
assert now["bytes_written"] == own["output_nbytes"] == 5 * 64
states = acc.core_states()
assert now["busy_ns"] == sum(state.busy_time_ns for state in states) > 0
assert sum(state.jobs for state in states) == 5
assert "doorbells" not in now
model.dispose()
model.launch(acc)
assert acc.counters()["programs_created"] == before["programs_created"] + 1
""",
        COPY64,
    )


# Q207
def test_failures_are_counted_and_told():
    run_child(
        ALONE
        + """
start = time.monotonic_ns()
assert failed() is StatusCode.Model_PredictError
assert failed() is StatusCode.Acc_NPUTimeout
assert failed() is None
now = acc.counters()
assert (now["submitted"], now["completed"], now["failed"]) == (3, 1, 2)
assert now["timeouts"] == 1 and now["bytes_written"] == 64
attach, error, timeout = acc.events()
assert [event.sequence for event in acc.events()] == [1, 2, 3]
assert (attach.kind, attach.status, attach.core_id) == ("attach", 0, None)
assert (error.kind, error.status) == ("job_error", StatusCode.Model_PredictError)
assert (timeout.kind, timeout.status) == ("timeout", StatusCode.Acc_NPUTimeout)
assert error.core_id in acc.get_available_cores()
assert isinstance(error.status, StatusCode) and error.args[0] > 0
assert attach.time_ns <= start < error.time_ns < timeout.time_ns
assert timeout.time_ns < time.monotonic_ns()
assert acc.events(3) == [timeout] and acc.events(first_sequence=4) == []
""",
        COPY64,
        QBRUNTIME_SOFT_FAULT="error:job=1,count=1;hang:job=2,count=1",
        QBRUNTIME_NPU_TIMEOUT_MS="1000",
    )


# Q207: a busy core, then a cancelled job
def test_a_cancelled_job_is_counted_and_is_no_event():
    run_child(
        ALONE
        + """
model.dispose()
config = qbruntime.ModelConfig()
config.set_async_pipeline_enabled(True)
model = qbruntime.Model(sys.argv[1], config)
model.launch(acc)
future = model.infer_async([x])
while not any(state.activity == "busy" for state in acc.core_states()):
    pass
future.cancel()
assert future.exception().status is StatusCode.Cancelled
now = acc.counters()
assert (now["submitted"], now["completed"], now["cancelled"]) == (1, 0, 1)
assert all(state.activity == "idle" for state in acc.core_states())
assert [event.kind for event in acc.events()] == ["attach"]
""",
        COPY64,
        QBRUNTIME_SOFT_FAULT="hang:count=1",
    )


# Q207 Q110: by cluster and core, the global ones last
def test_cores_come_in_order(acc):
    states = acc.core_states()
    assert all(isinstance(state, CoreState) for state in states)
    cores = [state.core_id for state in states]
    assert cores[:8] == acc.get_available_cores()
    assert cores[8:] == [
        CoreId(Cluster.Cluster0, Core.GlobalCore),
        CoreId(Cluster.Cluster1, Core.GlobalCore),
    ]
    assert all(state.queued == state.resets == 0 for state in states)


# Q207 Q123
def test_a_software_device_has_no_sensors_and_no_firmware(acc):
    assert acc.sensors() == [] and acc.firmware() is None


# Q207
def test_events_of_a_device_begin_with_its_attach(acc):
    first = acc.events(0)[0]
    assert isinstance(first, DeviceEvent) and first == acc.events()[0]
    assert first.kind == "attach" and first.status is StatusCode.OK
    assert 0 < first.time_ns <= time.monotonic_ns()
    assert acc.events(np.int64(1))[0] == first
    assert acc.events(1 << 40) == acc.events(1 << 70) == []


# Q207
@pytest.mark.parametrize("wrong", ["1", 1.0, True, None, [1]])
def test_a_sequence_number_is_an_int(acc, wrong):
    with pytest.raises(TypeError, match="first_sequence"):
        acc.events(wrong)
    with pytest.raises(ValueError, match="first_sequence is negative"):
        acc.events(-1)
    with pytest.raises(TypeError):
        acc.events(1, 2)


# Q200
@pytest.mark.parametrize("name", CALLS)
def test_a_closed_accelerator_tells_nothing(name):
    acc = Accelerator(0)
    acc.close()
    with pytest.raises(QbClosedError):
        getattr(acc, name)()
    with pytest.raises(TypeError):
        getattr(acc, name)(1, 2)


# Q207: questions while others work, from several threads
def test_questions_wait_for_nobody():
    run_child(
        ALONE
        + """
import threading
def ask():
    for _ in range(200):
        for call in acc.counters, acc.core_states, acc.events, acc.sensors:
            call()
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(200):
    model.infer([x])
for thread in threads:
    thread.join()
assert acc.counters()["completed"] == 200
""",
        COPY64,
    )


# Q207
@pytest.mark.parametrize(
    "value",
    [
        Reading(1, "temperature", 0, 61500),
        CoreState(CoreId(Cluster.Cluster0, Core.Core1), "busy", 1, 2, 3, 0),
        DeviceEvent(1, 2, "attach", StatusCode.OK, None, (0, 0)),
        FirmwareInfo("1.4.0", None, None, False, None, 5),
        DeviceLimits(1, 2, 3, 4, 5, 6, 7, 8),
    ],
)
def test_values_can_be_compared_copied_and_kept(value):
    for other in pickle.loads(pickle.dumps(value)), copy.copy(value):
        assert other == value and type(other) is type(value)
    assert type(value).__name__ in repr(value) and type(value).__doc__


# Q202
def test_an_info_can_be_kept(acc):
    info = acc.info()
    assert pickle.loads(pickle.dumps(info)) == info
    model = Model(COPY64)
    model.launch(acc)
    assert acc.counters()["programs_created"] >= 1
    model.dispose()
