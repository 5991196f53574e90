# SPDX-License-Identifier: MIT
"""Inference on pinned memory."""

import threading

import pytest
from runtime_cases import COPY64, LASTS, ONE_MODE, count_fds, resident_kib, run_child

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import Accelerator, Model, PinnedMemory, StatusCode  # noqa: E402


# Q480 Q871
def test_one_or_several_are_given_and_a_list_comes_back(launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    x[0][:] = range(64)
    for call in (
        lambda: launched.infer_pinned_memory(x, y),
        lambda: launched.infer_pinned_memory(x[0], y[0]),
        lambda: launched.infer_pinned_memory(tuple(x), tuple(y)),
        lambda: launched.infer_pinned_memory(inputs=x, outputs=y),
        lambda: launched.infer_pinned_memory(x, outputs=y, cache_size=0),
    ):
        y[0].fill(0)
        answer = call()
        assert type(answer) is list and len(answer) == 1 and answer[0] is y[0]
        assert np.array_equal(np.asarray(y[0]), np.arange(64))
    for call in (
        lambda: launched.infer_pinned_memory(x),
        lambda: launched.infer_pinned_memory(x, None),
        lambda: launched.infer_pinned_memory(inputs=x[0]),
    ):
        (answer,) = call()
        assert type(answer) is PinnedMemory and answer is not y[0]
        assert answer.shape() == (64,) and answer[63] == 63


# Q480 Q482
def test_a_leading_axis_of_one_stays(acc, launched):
    x = acc.allocate_pinned_memory((1, 64), "u1")
    x[0] = range(64)
    (y,) = launched.infer_pinned_memory(x)
    assert y.shape() == (1, 64) and y[0, 63] == 63
    assert launched.infer_pinned_memory(x, launched.allocate_outputs())[0][7] == 7


# Q490
def test_several_inputs_and_outputs(acc, corpus_model):
    with Model(corpus_model("two_inputs")) as model:
        model.launch(acc)
        x, y = model.allocate_inputs(), model.allocate_outputs()
        assert [item.shape() for item in x + y] == [(3, 5), (5,), (3, 5), (3, 5)]
        a = np.arange(15, dtype="f4").reshape(3, 5) - 7
        b = np.arange(5, dtype="f4")
        x[0][:], x[1][:] = a, b
        model.infer_pinned_memory(x, y)
        for sums, differences in (y, model.infer_pinned_memory(x)):
            assert np.array_equal(np.asarray(sums), np.maximum(a + b, 0))
            assert np.array_equal(np.asarray(differences), a - b)


# Q490 Q480
def test_variants_are_chosen_by_shape(acc, corpus_model):
    with Model(corpus_model("variants", ONE_MODE)) as model:
        model.launch(acc)
        shapes = set()
        for variant in range(model.get_num_model_variants()):
            x = model.allocate_inputs(variant_idx=variant)
            y = model.allocate_outputs(variant)
            model.infer_pinned_memory(x, y)
            answer = model.infer_pinned_memory(x)
            assert [i.shape() for i in answer] == [i.shape() for i in y]
            model.infer_speedrun(variant_idx=variant)
            shapes.add(x[0].shape())
        assert len(shapes) == model.get_num_model_variants()
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            model.allocate_inputs(99)
        assert caught.value.status is StatusCode.Model_InvalidVariantIdx


# Q481
def test_refusals_name_the_status_and_leave_the_outputs(acc, launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    y[0].fill(9)
    u8 = acc.allocate_pinned_memory
    for inputs, outputs, status in (
        ([], y, StatusCode.Model_InputCountMismatched),
        (x + x, y, StatusCode.Model_InputCountMismatched),
        (x, [], StatusCode.Model_OutputCountMismatched),
        (u8(63, "u1"), y, StatusCode.Model_ShapeMismatched),
        (u8((2, 64), "u1"), y, StatusCode.Model_ShapeMismatched),
        (u8(64, "i1"), y, StatusCode.Model_DtypeMismatched),
        (x, u8(64, "f4"), StatusCode.Model_DtypeMismatched),
        (x, x, StatusCode.PinnedMemory_Aliased),
    ):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            launched.infer_pinned_memory(inputs, outputs)
        assert caught.value.status is status
        assert (np.asarray(y[0]) == 9).all()
    with pytest.raises(qbruntime.QbRuntimeError):
        launched.infer_pinned_memory(x, y, cache_size=1)
    with pytest.raises(qbruntime.QbRuntimeError):
        launched.infer_pinned_memory(x, y, cache_size=-1)
    for inputs in ([], x + x, u8(63, "u1"), u8(64, "f4")):
        with pytest.raises(qbruntime.QbRuntimeError):
            launched.infer_pinned_memory(inputs)


def test_memory_of_another_device_is_refused():
    run_child(
        """
        import sys, qbruntime
        model = qbruntime.Model(sys.argv[1])
        model.launch(qbruntime.Accelerator("aries", 0))
        other = qbruntime.Accelerator("aries", 1).allocate_pinned_memory(64, "u1")
        try:
            model.infer_pinned_memory(other, model.allocate_outputs())
        except qbruntime.QbRuntimeError as error:
            assert error.status.name == "PinnedMemory_WrongAccelerator"
            assert error.device == "aries-rb:0"
        else:
            raise AssertionError
        model.dispose()
        """,
        COPY64,
        QBRUNTIME_SOFT_DEVICES="aries:2",
    )


def test_programs_name_the_arguments():
    model = Model(path=str(COPY64), model_config=None)
    with Accelerator(dev_no=0) as acc:
        model.launch(acc=acc)
    (core, *_) = model.get_target_cores()
    assert model.is_target(core_id=core)
    model.infer_speedrun(variant_idx=0)
    model.dispose()
    for call in (
        lambda: model.launch(),
        lambda: model.launch(acc, acc),
        lambda: model.launch(device=acc),
        lambda: model.is_target(core, core_id=core),
    ):
        with pytest.raises(TypeError):
            call()


# Q350
def test_speed_runs(launched):
    assert launched.infer_speedrun() is None
    assert launched.infer_speedrun(np.int64(0)) is None
    for bad in (1, -1, 2**70):
        with pytest.raises(qbruntime.QbRuntimeError) as caught:
            launched.infer_speedrun(bad)
        assert caught.value.status is StatusCode.Model_InvalidVariantIdx


def test_many_buffers_in_a_call_are_refused_one_by_one(acc, launched):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    with pytest.raises(qbruntime.QbShapeError):
        launched.infer_pinned_memory(x * 100, y * 100)
    with pytest.raises(TypeError):
        launched.infer_pinned_memory(x * 100 + [None], y)
    x[0].free()
    assert not x[0].is_available()


# Q337 Q338 Q488 Q886
def test_threads_share_models_and_inputs(acc):
    models = [Model(COPY64), Model(COPY64)]
    for model in models:
        model.launch(acc)
    shared = models[0].allocate_inputs()
    shared[0].fill(200)
    errors = []

    def work(seed):
        model = models[seed % 2]
        x, y = model.allocate_inputs(), model.allocate_outputs()
        for number in range(300):
            x[0].fill((seed * 31 + number) % 256)
            model.infer_pinned_memory(x, y)
            if (np.asarray(y[0]) != (seed * 31 + number) % 256).any():
                errors.append((seed, number))
            if model.infer_pinned_memory(shared)[0][63] != 200:
                errors.append((seed, number, "shared"))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for model in models:
        assert model.counters()["completed"] == 8 * 300
        model.dispose()


# Q740: a launch that has succeeded, and has not returned to Python
def test_memory_is_allocated_once_a_launch_has_returned():
    child = run_child(
        """
        import sys, threading, qbruntime
        sys.setswitchinterval(1e-6)
        acc = qbruntime.Accelerator()
        def allocate(model):
            while True:
                try:
                    return model.allocate_inputs()
                except qbruntime.QbNotAliveError:
                    pass
        for _ in range(200):
            model = qbruntime.Model(sys.argv[1])
            threads = [threading.Thread(target=allocate, args=(model,))
                       for _ in range(2)]
            for thread in threads: thread.start()
            model.launch(acc)
            for thread in threads: thread.join()
            model.dispose()
        """,
        COPY64,
    )
    assert child.stderr == ""


# Q742 Q268
def test_dispose_in_the_middle_of_inferences(acc):
    model = Model(COPY64)
    errors = []
    model.launch(acc)

    def work():
        try:
            x, y = model.allocate_inputs(), model.allocate_outputs()
            while True:
                model.infer_pinned_memory(x, y)
        except qbruntime.QbNotAliveError:
            pass
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while model.counters()["completed"] < 100:
        pass
    model.dispose()
    for thread in threads:
        thread.join()
    assert errors == []


# Nothing runs between the calls of one map(), so that the signal that raises is
# handled in the call, or after it.
def test_ctrl_c_ends_an_inference():
    child = run_child(
        """
        import operator, os, signal, sys, threading, qbruntime
        from functools import partial
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        is_started, handled = [], []
        def handler(number, frame):
            handled.append(bool(is_started))
            if is_started:
                raise KeyboardInterrupt
        def interrupt():
            sent = 0
            while True not in handled:
                os.kill(os.getpid(), signal.SIGINT)
                sent += 1
                while len(handled) < sent:
                    pass
        signal.signal(signal.SIGINT, handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        infer = partial(model.infer_pinned_memory, x, y)
        try:
            try:
                list(map(operator.call, (partial(is_started.append, 1), infer)))
            except TimeoutError:
                pass
            while True:
                pass
        except KeyboardInterrupt:
            print("interrupted")
        thread.join()
        x[0].fill(5)
        y[0].fill(0)
        assert model.infer_pinned_memory(x, y)[0][63] == 5
        model.dispose()
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT="hang:count=1",
        QBRUNTIME_NPU_TIMEOUT_MS="1000",
    )
    assert child.stdout == "interrupted\n"


# Q747
def test_cycles_of_all_of_it_leak_nothing():
    def cycle():
        with Accelerator() as acc, Model(COPY64) as model:
            model.launch(acc)
            x = model.allocate_inputs()
            model.infer_pinned_memory(x)
            model.get_target_cores(), model.get_input_scale(), model.counters()
            model.get_input_buffer_info(), acc.info(), repr(model)
            try:
                model.infer_pinned_memory(x, x)
            except qbruntime.QbRuntimeError:
                pass

    for _ in range(50):
        cycle()
    fds, before = count_fds(), resident_kib()
    for _ in range(500):
        cycle()
    assert count_fds() == fds
    assert resident_kib() - before < 4096


# Q739: the call that the signal interrupts has them
def test_a_handler_is_told_that_its_call_has_the_memory():
    child = run_child(
        """
        import signal, sys, qbruntime
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        def handler(number, frame):
            for call in (lambda: y[0][0], lambda: memoryview(y[0]),
                         lambda: x[0].fill(1), lambda: y[0].cpu_access().__enter__(),
                         lambda: model.infer_pinned_memory(x, y)):
                try:
                    call()
                    print("taken")
                except qbruntime.QbRuntimeError as error:
                    print(error.status.name)
            x[0][0]
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        model.infer_pinned_memory(x, y)
        print(y[0][0])
        """,
        COPY64,
        QBRUNTIME_SOFT_FAULT=LASTS,
    )
    assert child.stdout.split() == ["PinnedMemory_InUse"] * 5 + ["0"]
