# SPDX-License-Identifier: MIT
"""The words of exceptions that programs search for, and where they must not be."""

import re
import traceback

import pytest
from runtime_cases import COPY64, TOP, run_child

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import QbRuntimeError, StatusCode  # noqa: E402

# makes model and text(call): what its exception says, after the status' name
WORDS = """
import sys, qbruntime
def text(call, *arguments):
    try:
        call(*arguments)
    except qbruntime.QbRuntimeError as error:
        name = f"{error.code_name} occurred. [StatusCode({error.status:d})] "
        assert str(error) == name + error.detail
        return str(error)
    raise AssertionError("nothing was raised")
model = qbruntime.Model(sys.argv[1])
acc = qbruntime.Accelerator()
"""


def words_of(code, path=COPY64, **environ):
    lines = [line.strip() for line in code.strip().splitlines()]
    return run_child(WORDS + "\n".join(lines), path, **environ).stdout


# Q592 Q800: also a class and a status now
def test_memory_that_is_short():
    told = words_of(
        """
        print(text(model.launch, acc))
        try: model.launch(acc)
        except MemoryError as error: assert error.status.name == "BadAlloc"
        """,
        QBRUNTIME_SOFT_MEMORY="1",
    )
    assert "BadAlloc" in told and "badalloc" in told.lower().replace(" ", "")


# Q593
def test_no_other_message_has_these_letters():
    def has(text):
        return "badalloc" in re.sub(r"\s|\"\s*\"", "", text).lower()

    assert [code.name for code in StatusCode if has(code.name)] == ["BadAlloc"]
    found = []
    for folder in ("lib", "python/src", "kmod-shim"):
        for path in sorted((TOP / folder).rglob("*.c")):
            text = path.read_text(encoding="utf-8")
            for string in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
                if has(string):
                    found.append((path.name, string.strip()))
    # the name, which the text of that status begins with
    assert found == [("status.c", '"BadAlloc"')]


# Q592
def test_a_file_of_several_modes(corpus_model):
    with pytest.raises(QbRuntimeError) as caught:
        qbruntime.Model(corpus_model("variants"))
    for words in (
        "CoreMode::Auto",
        "Model_MXQAndModelConfigNotMatch",
        "StatusCode(16)",
    ):
        assert words in str(caught.value)


# Q592
def test_a_future_of_nothing_and_a_traceback():
    with pytest.raises(QbRuntimeError) as caught:
        qbruntime.Future().get()
    assert "Future_NotValid" in str(caught.value)
    lines = "".join(traceback.format_exception(caught.value))
    assert "qbruntimeerror" in lines.lower()


# Q592 Q836
def test_a_model_that_is_not_alive(launched):
    launched.dispose()
    with pytest.raises(QbRuntimeError) as caught:
        launched.infer_speedrun()
    assert "model_notalive" in str(caught.value).lower()


# Q592 Q836: Acc_NPUTimeout occurred. … npu_watchdog: timeout after … ms (…)
def test_an_expired_watchdog():
    told = words_of(
        """
        model.launch(acc)
        print(text(model.infer_speedrun))
        print(text(model.infer_pinned_memory_async(model.allocate_inputs()).get))
        model.infer_speedrun()
        """,
        QBRUNTIME_SOFT_FAULT="hang:count=2",
        QBRUNTIME_NPU_TIMEOUT_MS="30",
    )
    for line in told.splitlines():
        assert line.startswith("Acc_NPUTimeout occurred. [StatusCode(42)] ")
        assert "npu_watchdog: timeout after 30 ms (QBRUNTIME_NPU_TIMEOUT_MS)" in line
        assert "timeout" in line.lower() and "npu_watchdog" in line.lower()
    assert len(told.splitlines()) == 2
