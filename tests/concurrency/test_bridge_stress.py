# SPDX-License-Identifier: MIT
"""The tensor bridge under random operations of threads, forks, and ends of Python."""

import pytest
from runtime_cases import COPY64, OPERATIONS, run_child, run_script

pytest.importorskip("qbruntime")
pytest.importorskip("numpy")


# B01 B11 H104 L1 L4 L8 L11: while accelerators are closed and the process forks
def test_eight_threads_of_random_operations():
    lines = run_script("bridge_stress.py", OPERATIONS, 1, "stay").splitlines()
    done = dict(line.split() for line in lines)
    assert sum(map(int, done.values())) > 4 * OPERATIONS


# B03 B12 L5
@pytest.mark.parametrize("seed", (1, 20))
@pytest.mark.parametrize("end", ("return", "exit"))
def test_the_interpreter_ends_under_the_threads(end, seed):
    assert run_script("bridge_stress.py", 100, seed, end) == ""


# B69: closing the device joins the thread that is about to ask for the GIL
def test_the_last_accelerator_goes_while_memory_is_released():
    run_child(
        """
        import gc, sys, numpy as np, qbruntime
        from fakes import producer
        from qbruntime.payload import Tensor
        from qbruntime.streams import bridge_stats
        config = qbruntime.ModelConfig()
        config.set_async_pipeline_enabled(True)
        fakes = [producer() for _ in range(60)]
        def start(fake):
            with qbruntime.Accelerator() as acc:
                model = qbruntime.Model(sys.argv[1], config)
                model.launch(acc)
                future = model.infer_async(np.zeros(64, "u1"))
                tensor = Tensor.as_tensor(fake)
                future.add_done_callback(lambda _: tensor.copy())
        for fake in fakes:
            start(fake)
            gc.collect()
        while any(fake.deleter_calls != 1 for fake in fakes):
            gc.collect()
        assert not bridge_stats()["deferred_releases"]
        """,
        COPY64,
    )
