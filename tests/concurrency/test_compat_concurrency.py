# SPDX-License-Identifier: MIT
"""Compatibility points: threads, the GIL, Futures, and what we add to them."""

import asyncio
import re
import select
import threading
from pathlib import Path

import pytest
from runtime_cases import COPY64, run_async

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import Model, StatusCode  # noqa: E402


def array(number):
    return np.full(64, number % 251, "u1")


def start(target, *arguments):
    thread = threading.Thread(target=target, args=arguments)
    thread.start()
    return thread


def list_threads():
    """Names of the library's, but of the software NPU's cores."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        try:
            names.append(path.read_text(encoding="ascii").strip())
        except OSError:  # it has gone meanwhile
            pass
    return [name for name in names if re.match("qbrt-(?!core)", name)]


def status_of(call, *arguments):
    with pytest.raises(qbruntime.QbRuntimeError) as caught:
        call(*arguments)
    return caught.value.status


# Q838: nobody is made to let go of the GIL: it is let go of in the call, or never
@pytest.mark.parametrize(
    "call",
    [
        "model.infer(x)",
        "model.infer_to_float(x)",
        "model.infer_speedrun()",
        "model.infer_async(x).get()",
        "model.infer_async(x).wait_for(-1)",
        "model.infer_async(x).exception()",
        "model.infer_pinned_memory(model.allocate_inputs())",
        "model.infer_pinned_memory_async(model.allocate_inputs()).get()",
    ],
)
def test_a_call_that_waits_lets_go_of_the_gil(call):
    child = run_async(
        f"""
        sys.setswitchinterval(1000)
        is_started = threading.Event()
        def work():
            is_started.set()
            try:
                {call}
            except QbRuntimeError:
                pass
            print("ended")
        thread = threading.Thread(target=work)
        thread.start()
        is_started.wait()
        print("main", flush=True)
        model.dispose()
        thread.join()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )
    assert child.stdout == "main\nended\n"


# Q838: these wait for no job, and are called until the other thread, which wants
# the GIL alone, has had it. What is refused, or kept, is not freed, which would let
# go of the GIL too.
@pytest.mark.parametrize(
    "call",
    [
        "refused(qbruntime.Accelerator, 99)",
        "kept.append(Model(sys.argv[1]))",
        "refused(model.launch, acc)",
        "refused(acc.allocate_pinned_memory, 1 << 60)",
        "acc.get_available_cores()",
        "acc.info()",
        "pinned.fill(1)",
        "pinned[:] = array",
    ],
)
def test_a_call_that_may_take_long_lets_go_of_the_gil(call):
    run_async(
        f"""
        pinned = acc.allocate_pinned_memory(1 << 20, "u1")
        array = np.ones(1 << 20, "u1")
        kept, lock, had_it = [], threading.Lock(), []
        lock.acquire()
        def work():
            with lock:
                had_it.append(True)
        sys.setswitchinterval(1000)
        thread = threading.Thread(target=work)
        thread.start()
        lock.release()
        while not had_it:
            {call}
        thread.join()
        """
    )


# Q838
def test_one_model_serves_many_threads(asynchronous):
    wrong = []

    def work(seed):
        for number in range(seed, seed + 200):
            (waited,) = asynchronous.infer(array(number))
            (queued,) = asynchronous.infer_async(array(number + 1)).get()
            if (waited != number % 251).any() or (queued != (number + 1) % 251).any():
                wrong.append(number)

    threads = [start(work, seed) for seed in range(0, 8000, 1000)]
    for thread in threads:
        thread.join()
    assert wrong == [] and asynchronous.counters()["completed"] == 3200


# Q838
def test_a_future_is_waited_for_often_and_taken_once(asynchronous):
    future = asynchronous.infer_async(array(5))
    assert future.wait_for(-1) and future.wait_for(0) and future.wait_for(1000)
    assert future.get()[0][63] == 5
    assert status_of(future.get) is StatusCode.Future_NotValid
    assert status_of(future.wait_for, 0) is StatusCode.Future_NotValid


# Q838
def test_queued_inference_is_off_unless_it_is_configured(acc):
    assert qbruntime.ModelConfig().get_async_pipeline_enabled() is False
    for config in ((), (None,), (qbruntime.ModelConfig(),)):
        with Model(COPY64, *config) as model:
            model.launch(acc)
            status = status_of(model.infer_async, array(1))
            assert status is StatusCode.Model_AsyncPipelineCheckFailed
            assert model.infer(array(1))[0][0] == 1


# Q838
def test_dispose_while_others_wait_hangs_nobody():
    run_async(
        """
        futures = [model.infer_async(x) for _ in range(65)]
        ends = []
        def work(call, *arguments):
            ends.append(refused(call, *arguments))
        calls = [(model.infer, x), (model.infer_async, x), (futures[0].get,),
                 (futures[1].get,), (model.infer_speedrun,), (futures[2].wait_for, -1)]
        threads = [threading.Thread(target=work, args=call) for call in calls]
        for thread in threads: thread.start()
        model.dispose()
        for thread in threads: thread.join()
        # wait_for tells that it has ended, get how
        alive = {StatusCode.Model_NotAlive, StatusCode.Model_AsyncPipelineNotAlive}
        assert ends.count(None) == 1 and set(ends) - {None} <= alive, ends
        model.launch(acc)
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=0",
    )


# Q847
def test_what_a_future_has_beside_wait_for_and_get(asynchronous):
    # more than slots and queue hold, and nobody reads them
    futures = [asynchronous.infer_async(array(i)) for i in range(300)]
    future = asynchronous.infer_async(array(7))
    assert select.select([future], [], [])[0] == [future]
    assert future.done() is True and future.exception() is None
    assert future.cancel() is False
    told = []
    future.add_done_callback(told.append)
    assert told == [future]
    tried = asynchronous.try_infer_async(array(8))
    assert tried is None or tried.get()[0][0] == 8

    async def run():
        answers = await asyncio.gather(*futures)
        assert all((y == i % 251).all() for i, (y,) in enumerate(answers))
        return await future

    assert asyncio.run(run())[0][0] == 7


# Q806: no thread per request, and no call comes twice or not at all
def test_slots_are_accounted_by_callbacks(asynchronous):
    num_slots = asynchronous.get_activation_slots()
    counts = []

    def serve(seed):
        free, answers = threading.Semaphore(num_slots), []

        def end(future):
            answers.append(int(future.get()[0][63]))
            free.release()

        for number in range(seed, seed + 1000):
            free.acquire()
            asynchronous.infer_async(array(number)).add_done_callback(end)
        for _ in range(num_slots):
            free.acquire()
        counts.append(
            sorted(answers) == sorted(n % 251 for n in range(seed, seed + 1000))
        )

    asynchronous.infer_async(array(0)).get()
    threads = [start(serve, seed) for seed in (0, 10000, 20000, 30000)]
    for thread in threads:
        thread.join()
    assert counts == [True] * 4
    # one that ends jobs and calls back, and one of the driver's, of however many
    assert sorted(list_threads()) == ["qbrt-retire", "qbrt-soft"]


# Q807
def test_more_threads_than_slots_wait_and_none_fails(acc):
    config = qbruntime.ModelConfig()
    config.set_single_core_mode(1)
    with Model(COPY64, config) as model:
        model.launch(acc)
        assert model.get_activation_slots() == 2
        done = []

        def work(number):
            for _ in range(100):
                assert (model.infer(array(number))[0] == number).all()
            done.append(number)

        threads = [start(work, number) for number in range(16)]
        for thread in threads:
            thread.join()
        assert sorted(done) == list(range(16))


# Q329 Q877: alternating inputs, and all of the results afterwards
def test_a_thousand_results_that_are_kept_stay_as_they_were(asynchronous):
    waited = [asynchronous.infer(array(i))[0] for i in range(1000)]
    queued = [asynchronous.infer_async(array(i + 1)).get()[0] for i in range(1000)]
    into = [np.zeros(64, "u1") for _ in range(1000)]
    for number, out in enumerate(into):
        asynchronous.infer(array(number), [out])
    asynchronous.dispose()
    for number in range(1000):
        assert (waited[number] == number % 251).all()
        assert (queued[number] == (number + 1) % 251).all()
        assert (into[number] == number % 251).all()
        waited[number].fill(255)
