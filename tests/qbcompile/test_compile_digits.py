# SPDX-License-Identifier: MIT
"""The built-in model: what is committed is what the sources give."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compile_cases import DIGITS, TOP, Outcome

from qbcompile import container, evaluate

sys.path.insert(0, str(TOP / "examples"))
sys.dont_write_bytecode = True
import train_digits  # noqa: E402

EXAMPLES = TOP / "examples"
QBM = EXAMPLES / "digits.qbm"
OWN = ("model.name", "source.", "compiler.")


@pytest.fixture(scope="module")
def committed() -> container.File:
    return container.read(QBM.read_bytes())


def options_of(file: container.File) -> list[str]:
    """The options that made a file, as it tells them itself."""
    options = shlex.split(file.meta["compiler.options"])
    options += ["--name", file.meta["model.name"]]
    for key, value in file.meta.items():
        if not key.startswith(OWN):
            options += ["--meta", f"{key}={value}"]
    return options


def answers() -> list[tuple[int, int, int]]:
    lines = (EXAMPLES / "digits-16.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return [(int(a), int(b), int(c)) for a, b, c in rows]


# FM03 QC14
def test_committed_model_is_what_its_source_compiles_to(
    committed: container.File, tmp_path: Path
) -> None:
    path = tmp_path / "digits.onnx"
    path.write_bytes(DIGITS.read_bytes())
    command = [sys.executable, "-m", "qbcompile", "digits.onnx", "-o", "again.qbm"]
    done = subprocess.run(command + options_of(committed), cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "again.qbm").read_bytes() == QBM.read_bytes()


# FM03
def test_file_does_not_depend_on_where_and_as_what_it_is_written(
    committed: container.File, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two/deeper"
    for folder in (one, two):
        folder.mkdir(parents=True)
        assert Outcome(folder, DIGITS.read_bytes(), options_of(committed)).code == 0
    assert (one / "m.qbm").read_bytes() == (two / "m.qbm").read_bytes()
    assert str(tmp_path).encode() not in (one / "m.qbm").read_bytes()


# MO02
def test_example_files_are_small() -> None:
    for name in ("digits.onnx", "digits.qbm"):
        assert (EXAMPLES / name).stat().st_size <= 64 << 10, name


# MO02
def test_interface_of_digits_is_what_examples_rely_on(
    committed: container.File,
) -> None:
    image, logits = committed.ios
    assert (image.name, image.shape, image.layout) == ("image", (8, 8, 1), 1)
    assert (image.device_dtype, image.source_dtype) == (1, 0)
    assert image.norm_channels == 1 and image.std[0] == 16.0 and image.mean[0] == 0.0
    assert (logits.name, logits.shape, logits.device_dtype) == ("logits", (10,), 0)
    assert committed.meta["labels"].splitlines() == list("0123456789")


# MO05 CT06
def test_recorded_answers_are_the_models(committed: container.File) -> None:
    data = (EXAMPLES / "digits-16.u8").read_bytes()
    assert len(data) == 1024
    images = np.frombuffer(data, np.uint8).reshape(16, 8, 8, 1)
    assert images.max() <= 16
    rows = answers()
    assert [number for number, _, _ in rows] == list(range(4, 80, 5))
    for image, (number, _, answer) in zip(images, rows):
        logits = evaluate.run(committed, {"image": image})["logits"]
        assert logits.argmax() == answer, number
        # Far from a tie, so that rounding cannot change what is said.
        first, second = np.sort(logits.ravel())[:-3:-1]
        assert first - second > 0.01
    assert sum(label == answer for _, label, answer in rows) >= 15


# MO05
def test_sample_names_source_and_licence() -> None:
    text = (EXAMPLES / "digits-16.txt").read_text()
    for word in ("Alpaydin", "Kaynak", "1998", "data set 80", "CC BY 4.0"):
        assert word in text


# MO02 MO03 MO07 CT06
def test_accuracy_is_the_one_that_the_file_claims(committed: container.File) -> None:
    default = Path.home() / ".cache/qbruntime-models"
    folder = Path(os.environ.get("QBRUNTIME_MODELS_DIR", default))
    path = folder / "digits.csv.gz"
    if not path.exists():
        if os.environ.get("QBRUNTIME_REQUIRE_MODELS") == "1":
            pytest.fail(f"{path} is missing")
        # too much to install for one file; it can be taken out of the package
        pytest.skip(f"no {path}: examples/train_digits.py says where it is from")
    images, labels = train_digits.load_csv(path)
    assert images.shape == (1797, 8, 8, 1)
    right = [
        evaluate.run(committed, {"image": images[i]})["logits"].argmax() == labels[i]
        for i in range(4, len(images), 5)
    ]
    claim, name = committed.meta["accuracy.top1"].split()
    assert name == "digits-holdout"
    assert float(claim) == round(float(np.mean(right)), 4) >= 0.97
    samples = np.frombuffer((EXAMPLES / "digits-16.u8").read_bytes(), np.uint8)
    assert (samples.reshape(16, 8, 8, 1) == images[4:80:5]).all()
    assert [label for _, label, _ in answers()] == list(labels[4:80:5])


# MO07
def test_training_takes_no_other_data(tmp_path: Path) -> None:
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(b"1,2,3\n")
    with pytest.raises(SystemExit, match="not the digits.csv.gz"):
        train_digits.load_csv(path)


# MO02
def test_gradients_of_the_training_are_right() -> None:
    rng = np.random.default_rng(1)
    sizes = train_digits.LAYERS
    p = {name + ".w": rng.normal(0, 0.3, shape) for name, shape in sizes.items()}
    p.update({name + ".b": rng.normal(0, 0.3, s[0]) for name, s in sizes.items()})
    x, target = rng.random((2, 8, 8, 1)), rng.normal(0, 1, (2, 10))

    def loss() -> float:
        return float((train_digits.forward(p, x)[0] * target).sum())

    gradients = train_digits.backward(p, train_digits.forward(p, x)[1], target)
    for name, gradient in gradients.items():
        for _ in range(5):
            where = tuple(rng.integers(0, n) for n in gradient.shape)
            old = p[name][where]
            p[name][where] = old + 1e-6
            up = loss()
            p[name][where] = old - 1e-6
            down = loss()
            p[name][where] = old
            assert abs((up - down) / 2e-6 - gradient[where]) < 1e-4, name
