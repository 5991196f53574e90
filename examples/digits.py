#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recognises 16 handwritten digits, as digits.c does and with its words.

Usage: digits.py [--digest] [digits.qbm]; images and labels lie beside the
model; --digest prints the SHA-256 of each output, to compare with.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np
import qbruntime
from qbruntime import DataType


def read_labels(path: Path) -> list[int]:
    """Of the lines "number label answer"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [int(line.split()[1]) for line in lines if not line.startswith("#")]


def read_digits(model: qbruntime.Model, folder: Path, digest: bool) -> str:
    """Answers the pictures of the folder; how many of how many are right."""
    pictures = np.fromfile(folder / "digits-16.u8", np.uint8).reshape(-1, 8, 8, 1)
    labels = read_labels(folder / "digits-16.txt")
    image, scores = model.allocate_inputs()[0], model.allocate_outputs()[0]
    print("input buffer:", image.contiguity())
    right = 0
    for picture, label in zip(pictures, labels, strict=True):
        image[:] = picture  # into the NPU's memory
        model.infer_pinned_memory(image, scores)
        values = np.asarray(scores)  # a view of it
        answer = int(values.argmax())
        print(label, answer)
        right += answer == label
        if digest:
            print("sha256:", hashlib.sha256(values.tobytes()).hexdigest())
    return f"{right} of {len(labels)}"


def run(path: Path, digest: bool) -> None:
    """Prints the device, the answers, and what they cost."""
    with qbruntime.Model(path) as model, qbruntime.Accelerator() as acc:
        inputs = model.get_model_input_shape(), model.get_input_pinned_data_types()
        outputs = model.get_model_output_shape(), model.get_output_pinned_data_types()
        if inputs != ([(8, 8, 1)], [DataType.Uint8]) or outputs != (
            [(10,)],
            [DataType.Float32],
        ):
            raise ValueError("not a model of 64 bytes in and 10 scores out")
        model.launch(acc)
        print("device:", acc.info().id)
        print("kind:", acc.info().kind)
        print("agree:", read_digits(model, path.parent, digest))
        print("copied bytes:", model.counters()["copied_nbytes"])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Recognises 16 handwritten digits.")
    parser.add_argument("--digest", action="store_true")
    beside = Path(__file__).with_name("digits.qbm")
    parser.add_argument("model", nargs="?", type=Path, default=beside)
    options = parser.parse_args()
    try:
        run(options.model, options.digest)
    except (qbruntime.QbRuntimeError, OSError, ValueError) as error:
        print(f"digits.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
