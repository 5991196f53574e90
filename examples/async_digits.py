#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads digits for a thousand clients at once, in one thread.

Usage: async_digits.py [digits.qbm]; pictures and answers lie beside the model.

Each request is a task that queues one inference and awaits its Future. The NPU
runs as many as the model has activation slots; no thread stands for a request,
and none looks whether it is done. Where 64 wait beside those that run the next
call would wait too, and the event loop with it, so no more are let in. The
answers must be the recorded ones.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import numpy as np
import qbruntime
from qbruntime import Model

Array = np.ndarray[Any, Any]

NUM_REQUESTS = 1000
NUM_QUEUED = 64


async def read_digit(model: Model, room: asyncio.Semaphore, picture: Array) -> int:
    async with room:
        (scores,) = await model.infer_async(picture)
    return int(np.argmax(scores))


async def serve(model: Model, pictures: Array, answers: list[int]) -> bool:
    wanted = [number % len(pictures) for number in range(NUM_REQUESTS)]
    room = asyncio.Semaphore(NUM_QUEUED)
    requests = (read_digit(model, room, pictures[i]) for i in wanted)
    got = await asyncio.gather(*requests)
    right: int = sum(digit == answers[i] for digit, i in zip(got, wanted))
    print(f"{right} of {NUM_REQUESTS} answers as recorded")
    return right == NUM_REQUESTS


def read_pictures(path: Path) -> tuple[Array, list[int]]:
    lines = path.with_name("digits-16.txt").read_text(encoding="utf-8").splitlines()
    answers = [int(line.split()[2]) for line in lines if not line.startswith("#")]
    pixels = np.fromfile(path.with_name("digits-16.u8"), np.uint8)
    return pixels.reshape(len(answers), 8, 8, 1), answers


def main(path: Path) -> bool:
    config = qbruntime.ModelConfig()
    config.set_async_pipeline_enabled(True)
    with Model(path, config) as model, qbruntime.Accelerator() as acc:
        model.launch(acc)
        return asyncio.run(serve(model, *read_pictures(path)))


if __name__ == "__main__":
    default = Path(__file__).with_name("digits.qbm")
    try:
        is_right = main(Path(sys.argv[1]) if sys.argv[1:] else default)
    except (qbruntime.QbRuntimeError, OSError) as error:
        sys.exit(f"async_digits: {error}")
    sys.exit(not is_right)
