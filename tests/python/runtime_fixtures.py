# SPDX-License-Identifier: MIT
"""Fixtures of the tests of the package qbruntime; they skip where it is not built."""

import gc
import signal

import pytest
from runtime_cases import COPY64, CORPUS

# who runs the tests in the background may have made the process ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def acc():
    qbruntime = pytest.importorskip("qbruntime")
    with qbruntime.Accelerator() as acc:
        yield acc


@pytest.fixture
def launched(acc):
    """Copies 64 bytes of type uint8."""
    qbruntime = pytest.importorskip("qbruntime")
    with qbruntime.Model(COPY64) as model:
        model.launch(acc)
        yield model


@pytest.fixture
def asynchronous(acc):
    """Copies 64 bytes of type uint8, also queued."""
    qbruntime = pytest.importorskip("qbruntime")
    config = qbruntime.ModelConfig()
    config.set_async_pipeline_enabled(True)
    with qbruntime.Model(COPY64, config) as model:
        model.launch(acc)
        yield model


@pytest.fixture
def corpus_model(tmp_path):
    """Gives a model file made of a text of tests/data/corpus, with edits."""
    qbm = pytest.importorskip("qbcompile.qbm")

    def make(name, edits=()):
        text = (CORPUS / f"{name}.txt").read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        source, path = tmp_path / f"{name}.txt", tmp_path / f"{name}.qbm"
        source.write_text(text, encoding="utf-8")
        assert qbm.main(["asm", str(source), "-o", str(path)]) == 0
        return path

    return make


@pytest.fixture
def counted():
    """Garbage of other tests does not go in the midst of this one, and its counts."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["pinned", "tensor", "copy"])
def writable(acc, request):
    """Of shape (2, 3), float32, counting from 0 on."""
    pinned = acc.allocate_pinned_memory((2, 3))
    for i in range(6):
        pinned[i // 3, i % 3] = i
    if request.param == "pinned":
        return pinned
    return pinned.tensor() if request.param == "tensor" else pinned.tensor().copy()
