# SPDX-License-Identifier: MIT
"""Lifetimes under threads, at exit, over fork and spawn, and under Ctrl-C."""

import pytest
from runtime_cases import COPY64, OPERATIONS, SANITIZED, run_child, run_script

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")

# a job writes its output, then takes 1,000 s: it has begun when the bytes are there
STANDING = {
    "QBRUNTIME_SOFT_FAULT": "slow:ns=1000000000000,count=0",
    "QBRUNTIME_NPU_TIMEOUT_MS": "600000",
}


# Q495 Q496 Q740
@pytest.mark.parametrize("operations, seed", ((OPERATIONS, 1), (2000, 1000)))
def test_views_keep_their_bytes_among_random_operations(operations, seed):
    lines = run_script("lifetime_stress.py", operations, seed).splitlines()
    done = dict(line.split() for line in lines)
    assert sum(map(int, done.values())) > 4 * operations


# Q748
@pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator hangs in the child")
@pytest.mark.parametrize("method", ("os.fork", "fork"))
def test_a_fork_among_inferences_leaves_each_its_own(method):
    assert run_script("lifetime_processes.py", method) == ""


# Q743
def test_spawned_processes_infer_on_their_own_cores():
    assert run_script("lifetime_processes.py", "spawn") == ""


# Also of what a module keeps, which goes after the interpreter's own parts
@pytest.mark.parametrize("keep", ("", "sys.kept = model, x, y, views"))
@pytest.mark.parametrize("leave", ("", "sys.exit(0)", "raise SystemExit"))
def test_the_interpreter_exits_while_a_thread_is_inside_a_call(keep, leave):
    child = run_child(
        """
        import sys, threading, numpy as np, qbruntime
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        x[0].fill(7)
        freed = model.allocate_inputs()[0]
        views = [memoryview(y[0]), np.asarray(x[0])[3:], freed[1:], memoryview(freed)]
        freed.free()
        threading.Thread(
            target=model.infer_pinned_memory, args=(x, y), daemon=True
        ).start()
        threading.Thread(
            target=model.infer, args=(np.zeros(64, "u1"),), daemon=True
        ).start()
        while views[0][63] != 7:
            pass
        exec(sys.argv[2])
        exec(sys.argv[3])
        """,
        COPY64,
        keep,
        leave,
        **STANDING,
    )
    assert child.stdout == child.stderr == ""


# The job takes longer than any wait: nothing but the signal ends the call. A
# handler that does not raise lets it go on.
# Q339 Q750
def test_ctrl_c_ends_infer_pinned_memory():
    child = run_child(
        """
        import os, signal, sys, threading, qbruntime
        model = qbruntime.load(sys.argv[1])
        x, y = model.allocate_inputs(), model.allocate_outputs()
        x[0].fill(7)
        written, handled = memoryview(y[0]), []
        def handler(number, frame):
            handled.append(written[63])
            if len(handled) == 2:
                signal.default_int_handler(number, frame)
        signal.signal(signal.SIGINT, handler)
        def interrupt():
            while written[63] != 7:
                pass
            os.kill(os.getpid(), signal.SIGINT)
            while not handled:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        try:
            model.infer_pinned_memory(x, y)
        except KeyboardInterrupt:
            thread.join()
            print("interrupted", *handled)
        counters = model.counters()
        print(counters["submitted"], counters["cancelled"])
        try:
            y[0][0]
        except qbruntime.QbRuntimeError as error:
            print(error.status)
        """,
        COPY64,
        **STANDING,
    )
    assert child.stdout.splitlines() == [
        "interrupted 7 7",
        "1 1",
        "StatusCode.Tensor_Invalid",
    ]
    assert child.stderr == ""


# Where it is inside the call shows by the core's thread, which starts with the
# first job.
# Q331 Q339
@pytest.mark.parametrize("arguments", ("array", "array, out", "batch"))
def test_ctrl_c_ends_infer(arguments):
    child = run_child(
        """
        import os, signal, sys, threading, numpy as np, qbruntime
        model = qbruntime.load(sys.argv[1])
        array = np.full(64, 7, "u1")
        out = [np.full(64, 9, "u1")]
        arguments = {
            "array": (array,),
            "array, out": (array, out),
            "batch": (np.stack([array] * 3),),
        }
        counted = threading.Event()
        def interrupt():
            threads = len(os.listdir("/proc/self/task"))
            counted.set()
            while len(os.listdir("/proc/self/task")) <= threads:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        counted.wait()
        try:
            model.infer(*arguments[sys.argv[2]])
        except KeyboardInterrupt:
            thread.join()
            print("interrupted")
        counters = model.counters()
        print(counters["submitted"], counters["cancelled"])
        print(out[0].any() and not (out[0] == 9).all())
        """,
        COPY64,
        arguments,
        **STANDING,
    )
    assert child.stdout.splitlines() == ["interrupted", "1 1", "False"]
    assert child.stderr == ""


# A job that is slow by itself: 60 s, and no plan of faults keeps it from running
# on the thread that calls.
# Q339
def test_ctrl_c_ends_a_job_that_is_slow_by_itself(corpus_model):
    one = "    nop delay_ns=1000000\n"
    path = corpus_model("diagnostics", [(one, 60 * one.replace("00\n", "00000\n"))])
    child = run_child(
        """
        import os, signal, sys, threading, qbruntime
        model = qbruntime.load(sys.argv[1])
        y = model.allocate_outputs()
        times = memoryview(y[0])
        times[0] = times[1] = 0
        def interrupt():
            while not times[0]:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        try:
            model.infer_pinned_memory([], y)
        except KeyboardInterrupt:
            thread.join()
            print("interrupted", times[1])
        print(model.counters()["cancelled"])
        """,
        path,
        QBRUNTIME_NPU_TIMEOUT_MS="600000",
    )
    assert child.stdout.split() == ["interrupted", "0", "1"]
