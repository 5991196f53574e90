# SPDX-License-Identifier: MIT
"""Exceptions: classes, texts, attributes, what they keep alive."""

import gc
import pickle
import re
import weakref

import pytest
from runtime_cases import COPY64, TOP, run_child

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import QbRuntimeError, StatusCode  # noqa: E402

BASES = {
    "QbBufferError": BufferError,
    "QbCancelledError": Exception,
    "QbClosedError": ValueError,
    "QbDeviceLostError": Exception,
    "QbDeviceNotFoundError": Exception,
    "QbDtypeError": TypeError,
    "QbInvalidArgumentError": ValueError,
    "QbModelFileError": Exception,
    "QbNotAliveError": Exception,
    "QbOutOfMemoryError": MemoryError,
    "QbShapeError": ValueError,
    "QbTimeoutError": TimeoutError,
    "QbUnsupportedError": Exception,
}


# Q181 Q590 Q879
def test_programs_can_make_the_class_themselves():
    assert issubclass(QbRuntimeError, RuntimeError)
    for text in ("", "words"):
        error = QbRuntimeError(text)
        assert str(error) == text
        assert error.status is None and error.code_name is None
        assert error.detail is None and error.device is None
        with pytest.raises(QbRuntimeError):
            raise error


@pytest.mark.parametrize("name", BASES)
def test_subclasses(name):
    error = getattr(qbruntime, name)
    assert issubclass(error, QbRuntimeError) and issubclass(error, BASES[name])
    assert str(error("words")) == "words" and error("words").status is None
    assert error.__module__ == "qbruntime" and error.__doc__


def read_classes():
    """Number and class of each status that the pages name one for."""
    text = (TOP / "docs/spec/qbruntime-api.md").read_text(encoding="utf-8")
    row = re.search(r"^\| Q595 \|(.*)", text, re.MULTILINE)[1]
    for name, given in re.findall(r"`(Qb\w+)` \(([^)]*)\)", row):
        numbers = re.sub(r"also `\w+`;?", "", given)
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
            for number in range(int(first), int(last or first) + 1):
                yield number, name
    text = (TOP / "docs/spec/tensor-interop.md").read_text(encoding="utf-8")
    for number in re.findall(r"\((\d+)\) \|[^|]*\| QbBufferError \|", text):
        yield int(number), "QbBufferError"


# Q595
def test_each_status_raises_the_class_of_the_page():
    due = list(read_classes())
    names = dict(due)
    assert len(names) == len(due) and set(names.values()) == set(BASES)
    assert set(names) <= set(map(int, StatusCode))
    for status in StatusCode:
        error = getattr(qbruntime, names.get(status, "QbRuntimeError"))
        assert qbruntime.qbruntime._error_class(status) is error, status


def catch(function, *args, **kwargs):
    with pytest.raises(QbRuntimeError) as caught:
        function(*args, **kwargs)
    return caught.value


# Q591 Q596
def test_text_and_attributes(acc, launched):
    floats = acc.allocate_pinned_memory(64)
    error = catch(launched.infer_pinned_memory, floats, launched.allocate_outputs())
    assert type(error) is qbruntime.QbDtypeError
    assert error.status is StatusCode.Model_DtypeMismatched
    assert error.code_name == "Model_DtypeMismatched"
    assert error.device == "aries-rb:0"
    assert str(error) == (
        "Model_DtypeMismatched occurred. [StatusCode(22)] " + error.detail
    )
    # Q597: what was expected, what came
    assert "loat32" in error.detail and "int8" in error.detail


def test_classes_of_what_can_be_brought_about(acc, launched, tmp_path):
    x, y = launched.allocate_inputs(), launched.allocate_outputs()
    idle = qbruntime.Model(COPY64)
    broken = tmp_path / "broken.qbm"
    broken.write_bytes(COPY64.read_bytes()[:-70])
    x9 = acc.allocate_pinned_memory(9, "uint8")
    cases = [
        (21, "QbShapeError", launched.infer_pinned_memory, x9, y),
        (1030, "QbShapeError", launched.infer_pinned_memory, x + x, y),
        (1031, "QbShapeError", launched.infer_pinned_memory, x, y + y),
        (1015, "QbRuntimeError", launched.infer_pinned_memory, x, x),
        (1001, "QbDeviceNotFoundError", qbruntime.Accelerator, 99),
        (9, "QbNotAliveError", idle.infer_pinned_memory, x, y),
        (9, "QbNotAliveError", idle.infer_pinned_memory, x),
        (9, "QbNotAliveError", idle.infer_speedrun),
        (65, "QbRuntimeError", launched.launch, acc),
        (1000, "QbInvalidArgumentError", acc.allocate_pinned_memory, (0, 4)),
        (3, "QbModelFileError", qbruntime.Model, "/nonexistent.qbm"),
        (20, "QbModelFileError", qbruntime.Model, broken),
        (64, "QbRuntimeError", launched.infer_speedrun, 7),
    ]
    for number, name, *call in cases:
        error = catch(*call)
        assert error.status == number, error
        assert type(error) is getattr(qbruntime, name)
        assert f"{error.code_name} occurred. [StatusCode({number})]" in str(error)


# Q264
def test_exhaustion_is_a_memory_error_and_leaves_nothing():
    child = run_child(
        """
        import sys, qbruntime
        acc = qbruntime.Accelerator()
        models = []
        try:
            while True:
                model = qbruntime.Model(sys.argv[1])
                model.launch(acc)
                models.append(model)
        except MemoryError as error:
            assert isinstance(error, qbruntime.QbOutOfMemoryError)
            print(error)
        assert model.get_activation_slots() == 0 and models
        models.pop().dispose()
        model.launch(acc)
        model.infer_speedrun()
        """,
        COPY64,
        QBRUNTIME_SOFT_MEMORY="64K",
    )
    assert child.stdout.startswith("BadAlloc occurred. [StatusCode(39)]")


# Q594
def test_wrong_types_are_type_errors(acc, launched):
    x = launched.allocate_inputs()
    for call in (
        lambda: acc.allocate_pinned_memory("4"),
        lambda: acc.allocate_pinned_memory(4.0),
        lambda: acc.allocate_pinned_memory((4, "x")),
        lambda: acc.allocate_pinned_memory(4, object),
        lambda: acc.allocate_pinned_memory(4, "S4"),
        lambda: acc.allocate_pinned_memory(4, [("a", "f4")]),
        lambda: acc.allocate_pinned_memory(4, ">f4"),
        lambda: acc.allocate_pinned_memory(4, alignment=64.0),
        lambda: acc.allocate_pinned_memory(),
        lambda: launched.launch(None),
        lambda: launched.infer_pinned_memory(),
        lambda: launched.infer_pinned_memory(None),
        lambda: launched.infer_pinned_memory("x"),
        lambda: launched.infer_pinned_memory([None]),
        lambda: launched.infer_pinned_memory(x, 5),
        lambda: launched.infer_pinned_memory(x, None, 0),
        lambda: launched.infer_pinned_memory(x, inputs=x),
        lambda: launched.infer_pinned_memory(x, nonsense=1),
        lambda: launched.infer_pinned_memory(x, cache_size="1"),
        lambda: launched.is_target(0),
        lambda: launched.allocate_inputs(1.0),
        lambda: qbruntime.Model(5),
        lambda: qbruntime.Model(COPY64, {}),
        lambda: qbruntime.PinnedMemory(acc),
    ):
        with pytest.raises(TypeError):
            call()
    for call in (
        lambda: acc.allocate_pinned_memory((1,) * 9),
        lambda: acc.allocate_pinned_memory(-1),
        lambda: acc.allocate_pinned_memory(1 << 70),
        lambda: acc.allocate_pinned_memory(4, qbruntime.DataType.Error),
        lambda: acc.allocate_pinned_memory(4, alignment=0),
        lambda: acc.allocate_pinned_memory(4, alignment=96),
        lambda: acc.allocate_pinned_memory(4, alignment=-64),
        lambda: qbruntime.Model("a\0b"),
        lambda: qbruntime.Accelerator("aries\0"),
        lambda: qbruntime.get_available_device_numbers("aries\0"),
    ):
        with pytest.raises(ValueError):
            call()


# Q598
def test_an_exception_keeps_nothing_alive(acc, launched):
    floats = acc.allocate_pinned_memory(64)
    error = catch(launched.infer_pinned_memory, floats, launched.allocate_outputs())
    error.__traceback__ = None
    watched = weakref.ref(floats)
    del floats
    gc.collect()
    assert watched() is None and error.status is not None


def test_an_exception_is_pickled_whole():
    error = catch(qbruntime.Model, "/nonexistent.qbm")
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error) and str(other) == str(error)
    assert other.status is error.status and other.detail == error.detail
