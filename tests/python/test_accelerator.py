# SPDX-License-Identifier: MIT
"""Accelerator: how it is opened and closed, what it tells."""

import copy
import gc
import pickle
import weakref

import pytest
from runtime_cases import COPY64, count_fds, run_child

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Accelerator, CoreMode, DataType, StatusCode  # noqa: E402


# Q190 Q191 Q192
@pytest.mark.parametrize(
    "make",
    [
        lambda: Accelerator(),
        lambda: Accelerator(0),
        lambda: Accelerator(dev_no=0),
        lambda: Accelerator("aries"),
        lambda: Accelerator("ARIES-RB"),
        lambda: Accelerator("aries", 0),
        lambda: Accelerator("auto", dev_no=0),
        lambda: Accelerator(device_name="aries-rb"),
        lambda: Accelerator(device_name="aries", dev_no=0),
        lambda: Accelerator(None, None),
    ],
)
def test_both_forms_open_the_device(make):
    assert make().get_device_name() == "aries-rb"


# Q193
def test_numbers_are_ints_by_index():
    class Zero:
        def __index__(self):
            return 0

    assert Accelerator(Zero()).get_device_name() == "aries-rb"
    for bad in (True, False, 0.0, 1.5, b"aries", [0], object()):
        with pytest.raises(TypeError):
            Accelerator(bad)
        with pytest.raises(TypeError):
            Accelerator("aries", bad)
    with pytest.raises(TypeError):
        Accelerator(0, dev_no=0)
    with pytest.raises(TypeError):
        Accelerator("aries", 0, 0)
    for missing in (-1, 1, 2**31, -(2**70), 2**70):
        with pytest.raises(qbruntime.QbDeviceNotFoundError) as caught:
            Accelerator(missing)
        assert caught.value.status is StatusCode.Acc_DeviceNotFound


# Q085 Q882 Q890
def test_the_lowest_visible_number_is_the_default():
    child = run_child(
        """
        import qbruntime
        print(qbruntime.Accelerator(), qbruntime.Accelerator("aries"))
        try:
            qbruntime.Accelerator(0)
        except qbruntime.QbDeviceNotFoundError as error:
            print("QBRUNTIME_VISIBLE_DEVICES" in error.detail)
        """,
        QBRUNTIME_SOFT_DEVICES="aries:3",
        QBRUNTIME_VISIBLE_DEVICES="1,2",
    )
    one = "Accelerator(aries-rb:1, software)"
    assert child.stdout == f"{one} {one}\nTrue\n"


# Q198
def test_the_native_handle_is_an_attribute(acc):
    native = acc._accelerator
    assert type(native).__module__ == "qbruntime.qbruntime"
    with pytest.raises(TypeError):
        type(native)()
    acc.close()
    assert acc._accelerator is None


# Q200
def test_it_is_closed_once_and_as_often_as_one_likes():
    fds = count_fds()
    with Accelerator() as acc:
        assert isinstance(acc, Accelerator)
    acc.close()
    acc.close()
    assert count_fds() == fds
    for call in (
        acc.get_device_name,
        acc.get_available_cores,
        acc.info,
        acc.supported_core_modes,
        acc.__enter__,
        lambda: acc.allocate_pinned_memory(4),
        lambda: acc.import_pinned_memory(0, 4, "f4"),
        lambda: qbruntime.Model(COPY64).launch(acc),
    ):
        with pytest.raises(qbruntime.QbClosedError, match="closed"):
            call()
    assert repr(acc) == "Accelerator(closed)"


# Q200 Q201 Q885
def test_what_it_made_stays_when_it_closes():
    acc = Accelerator()
    model = qbruntime.Model(COPY64)
    model.launch(acc)
    pinned = acc.allocate_pinned_memory(64, DataType.Uint8)
    acc.close()
    pinned[:] = 7
    assert model.infer_pinned_memory(pinned)[0][63] == 7
    model.dispose()
    assert pinned.is_available()


# Q199
def test_a_temporary_is_enough_for_a_model():
    model = qbruntime.Model(COPY64)
    assert model._acc is None
    model.launch(Accelerator(0))
    gc.collect()
    assert isinstance(model._acc, Accelerator)
    # Q194: memory of another handle of the device fits
    other = Accelerator(0).allocate_pinned_memory(64, "uint8")
    model.infer_pinned_memory(other)
    model.dispose()


# Q202
def test_info(acc):
    info = acc.info()
    assert (info.id, info.name, info.number) == ("aries-rb:0", "aries-rb", 0)
    assert (info.kind, info.family) == ("software", "aries")
    assert (info.clusters, info.local_cores_per_cluster) == (2, 4)
    assert info.global_cores_per_cluster == 1
    assert CoreMode.Single in info.core_modes
    assert DataType.Float32 in info.dtypes and DataType.Error not in info.dtypes
    assert 0 < info.memory_free <= info.memory_total and info.pinned_limit > 0
    assert set(info.contiguity_classes) <= {"locked", "hugepage", "driver"}
    assert info.contiguity_classes
    assert info.driver == "qbnpu" and info.driver_version and info.uapi_version
    assert info.node == "soft:0"
    assert info.container_versions[0] <= info.container_versions[1]
    # Q123: what a software device does not have
    assert info.firmware is info.bus is info.numa_node is None


# Q196 Q874
def test_available_cores_are_sorted(acc):
    cores = acc.get_available_cores()
    assert len(cores) == 8 and cores == sorted(cores)
    assert str(cores[0]) == "CoreId(cluster=Cluster.Cluster0, core=Core.Core0)"


# Q203
def test_supported_core_modes(acc):
    modes = acc.supported_core_modes()
    assert modes == acc.info().core_modes and CoreMode.Single in modes


# Q204
def test_repr(acc):
    assert repr(acc) == "Accelerator(aries-rb:0, software)"


# Q880
@pytest.mark.parametrize("profile", ["aries", "regulus"])
def test_memory_is_pinned_on_every_profile(profile):
    run_child(
        f"""
        import qbruntime
        acc = qbruntime.Accelerator("{profile}")
        pinned = acc.allocate_pinned_memory((2, 2))
        assert pinned.is_available() and pinned.contiguity()
        """,
        QBRUNTIME_SOFT_DEVICES=profile,
    )


def test_a_subclass_has_its_own_constructor_and_attributes():
    class Mine(Accelerator):
        def __init__(self, label):
            super().__init__(0)
            self.label = label

    mine = Mine("x")
    assert mine.label == "x" and mine.get_device_name() == "aries-rb"
    model = qbruntime.Model(COPY64)
    model.launch(mine)
    assert model._acc is mine
    # a cycle by way of _acc is collected
    mine.model = model
    watched = weakref.ref(model)
    model.dispose()
    del mine, model
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_has_memory_or_a_device_is_not_pickled(asynchronous, acc, protocol):
    pinned = asynchronous.allocate_outputs()[0]
    future = asynchronous.infer_async(bytes(64))
    for item in acc, asynchronous, future, pinned, pinned.tensor(), pinned.cpu_access():
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(item, protocol)
        if item is not asynchronous:  # another handle of it
            with pytest.raises(TypeError):
                copy.copy(item)


# Q205 Q748
def test_a_child_of_fork_opens_its_own():
    child = run_child(
        """
        import os, sys, qbruntime
        from qbruntime import QbRuntimeError, StatusCode
        acc = qbruntime.Accelerator()
        model = qbruntime.Model(sys.argv[1])
        loaded = qbruntime.Model(sys.argv[1])
        model.launch(acc)
        x, y = model.allocate_inputs(), model.allocate_outputs()
        x[0][:] = 5
        view = memoryview(x[0])
        def refused(call):
            try:
                call()
            except QbRuntimeError as error:
                assert error.status is StatusCode.ForkedProcess, error
                return True
            return False
        def in_child():
            for call in (
                acc.info, acc.get_available_cores, acc.supported_core_modes,
                acc.core_states, acc.counters, acc.events, acc.firmware, acc.sensors,
                lambda: acc.allocate_pinned_memory(4),
                lambda: model.infer_pinned_memory(x, y),
                lambda: model.infer_pinned_memory(x),
                model.infer_speedrun, model.allocate_inputs, model.dispose,
                lambda: model.launch(acc), lambda: loaded.launch(acc),
                lambda: x[0][3], lambda: x[0].__setitem__(3, 1),
                lambda: x[0][:], lambda: x[0].fill(1), x[0].export_fd,
                lambda: memoryview(x[0]), x[0].device_address,
                lambda: x[0].cpu_access().__enter__(),
            ):
                assert refused(call), call
            assert not x[0].is_available() and view[63] == 5
            assert repr(acc) and repr(x[0]) and repr(model)
            own = qbruntime.Accelerator()
            loaded.launch(own)
            a = loaded.allocate_inputs()
            a[0][:] = 9
            assert loaded.infer_pinned_memory(a)[0][63] == 9
            loaded.dispose()
            y[0].free()
        for leave in (os._exit, sys.exit):
            pid = os.fork()
            if not pid:
                in_child()
                leave(0)
            assert os.waitpid(pid, 0)[1] == 0
        assert model.infer_pinned_memory(x, y)[0][63] == 5
        model.dispose()
        """,
        COPY64,
    )
    assert child.stderr == ""
