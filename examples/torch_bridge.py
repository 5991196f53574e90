#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recognises 16 handwritten digits with torch at both ends of the model.

Two torch tensors are the NPU's memory: one operation of torch puts its result
into the model's input, another reads the model's output. Nothing is copied.
Usage: torch_bridge.py [digits.qbm]; images and labels lie beside the model.
"""

import sys
from pathlib import Path

import qbruntime
import torch
from qbruntime import DataType


def read_digits(model: qbruntime.Model, folder: Path) -> str:
    """Answers the pictures of the folder; how many of how many are right."""
    pixels = bytearray((folder / "digits-16.u8").read_bytes())
    pictures = torch.frombuffer(pixels, dtype=torch.uint8).reshape(-1, 8, 8, 1)
    lines = (folder / "digits-16.txt").read_text(encoding="utf-8").splitlines()
    labels = [int(line.split()[1]) for line in lines if not line.startswith("#")]
    (image,), (scores,) = model.allocate_inputs(), model.allocate_outputs()
    # the same memory, seen by torch: as long as these live, so does it
    inputs, outputs = torch.from_dlpack(image), torch.from_dlpack(scores)
    right = 0
    for picture, label in zip(pictures, labels, strict=True):
        torch.clamp(picture, max=16, out=inputs)
        model.infer_pinned_memory(image, scores)
        answer = int(outputs.argmax())
        print(label, answer)
        right += answer == label
    return f"{right} of {len(labels)}"


def run(path: Path) -> None:
    """Prints the answers, and what they cost."""
    with qbruntime.Model(path) as model, qbruntime.Accelerator() as acc:
        inputs = model.get_model_input_shape(), model.get_input_pinned_data_types()
        outputs = model.get_model_output_shape(), model.get_output_pinned_data_types()
        if (inputs, outputs) != (
            ([(8, 8, 1)], [DataType.Uint8]),
            ([(10,)], [DataType.Float32]),
        ):
            raise ValueError("not a model of 64 bytes in and 10 scores out")
        model.launch(acc)
        print("agree:", read_digits(model, path.parent))
        print("copied bytes:", model.counters()["copied_nbytes"])


def main() -> int:
    """The exit code."""
    beside = Path(__file__).with_name("digits.qbm")
    try:
        run(Path(sys.argv[1]) if len(sys.argv) > 1 else beside)
    except (qbruntime.QbRuntimeError, OSError, ValueError) as error:
        print(f"torch_bridge.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
