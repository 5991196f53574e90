# SPDX-License-Identifier: MIT
"""Tries on a device what `qbinfo caps` tells, and prints what came out as JSON.

Arguments: name and number of the device, and a folder of models. Standard input:
dtypes to try.
"""

import json
import os
import select
import sys

import numpy as np
import qbruntime as q
from qbruntime import StatusCode

NAME, NUMBER, MODELS = sys.argv[1], int(sys.argv[2]), sys.argv[3]
MODES = {
    "single": lambda config: config.set_single_core_mode(1),
    "multi": lambda config: config.set_multi_core_mode([q.Cluster.Cluster0]),
    "global4": lambda config: config.set_global4_core_mode([q.Cluster.Cluster0]),
    "global8": lambda config: config.set_global8_core_mode(),
}


def state(acc):
    """What a refusal must leave alone."""
    counters = acc.counters().items()
    return acc.info().memory_free, [c for c in counters if "rejected" not in c[0]]


def refusal(acc, call):
    """The status that refused call, which left the device as it was, or None."""
    before = state(acc)
    try:
        call()
    except q.QbRuntimeError as error:
        assert len(str(error)) > 20
        assert state(acc) == before
        return error.status
    return None


def launch(acc, name, config=None):
    with q.Model(f"{MODELS}/{name}.qbm", config) as model:
        model.launch(acc)


def runs_mode(acc, mode):
    """Whether the device takes a program of that mode, whatever is in it."""
    config = q.ModelConfig()
    assert MODES[mode](config)
    why = refusal(acc, lambda: launch(acc, "modes", config))
    return why != StatusCode.Model_NoGlobalCoreWithGlobalMultiMode


def export(acc):
    """Kind of the descriptor, and whether an import of it has the same bytes."""
    with acc.allocate_pinned_memory((4096,), "uint8") as pinned:
        fd = pinned.export_fd()
        with acc.import_pinned_memory(fd, (4096,), "uint8") as other:
            pinned[17] = 93
            same = bool(other[17] == 93)
        kind = os.readlink(f"/proc/self/fd/{fd}")
        os.close(fd)
    return ("dmabuf" if "dmabuf" in kind else "memfd"), same


def has_dtype(acc, dtype):
    (kind,) = [one for one in q.DataType if one.name.lower() == dtype]
    with acc.allocate_pinned_memory((4,), kind) as pinned:
        # NumPy has no such elements of its own
        if dtype == "bfloat16":
            return pinned.nbytes == 8
        pinned.fill(1)
        return bool(pinned[3] == 1)


def classes(acc):
    """The class of a buffer that may be anything, and of one that may not."""
    found = []

    def allocate(**options):
        with acc.allocate_pinned_memory((64,), "uint8", **options) as pinned:
            found.append(pinned.contiguity())

    allocate()
    why = refusal(acc, lambda: allocate(require_contiguous=True))
    assert why in (None, StatusCode.PinnedMemory_NotContiguous)
    return sorted(set(found))


def dlpack(acc):
    """Where other libraries take its memory to be, by either way to ask."""
    with acc.allocate_pinned_memory((4,), "uint8") as pinned:
        assert pinned.tensor().device == pinned.__dlpack_device__()
        return pinned.__dlpack_device__()


def finish(acc):
    """What a queued job's descriptor is; it gets readable, and the job is right."""
    config = q.ModelConfig()
    config.set_async_pipeline_enabled(True)
    with q.Model(f"{MODELS}/copy64.qbm", config) as model:
        model.launch(acc)
        x = np.arange(64, dtype="u1")
        future = model.infer_async([x])
        fd = future.fileno()
        kind = os.readlink(f"/proc/self/fd/{fd}")
        assert select.select([fd], [], [])[0] == [fd]
        (y,) = future.get()
        assert np.array_equal(np.ravel(y), x)
    return kind


def main():
    with q.Accelerator(NAME, NUMBER) as acc:
        finish(acc)  # what the first job makes stays
        kind, same = export(acc)
        names = ("most", "more", "isa_1_1", "container_2", "int8", "diag")
        out = {
            "modes": [mode for mode in MODES if runs_mode(acc, mode)],
            "export": kind,
            "import": same,
            "classes": classes(acc),
            "dlpack": dlpack(acc),
            "finish": finish(acc),
            "dtypes": [d for d in sys.stdin.read().split() if has_dtype(acc, d)],
            "refused": {
                name: why.name if why else None
                for name in names
                for why in [refusal(acc, lambda name=name: launch(acc, name))]
            },
        }
        info = acc.info()
        out["features"], out["backends"] = info.features, info.backends
        out["limits"] = [info.limits.max_jobs, info.limits.max_queues]
        print(json.dumps(out))


main()
