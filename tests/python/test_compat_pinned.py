# SPDX-License-Identifier: MIT
"""PinnedMemory as the class reference of the vendor's 1.3 has it, sentence by
sentence in our words, and the tests that prove them:

the class, memory that the NPU reaches, of proven contiguity:
    test_contiguity, test_the_class_is_where_the_page_has_it
the constructor takes the native object, of floats or of octets:
    test_it_is_made_by_an_accelerator_or_of_a_native_object, test_native_classes
instances come from allocate_pinned_memory, not from the constructor:
    test_shapes_and_types_that_allocation_takes,
    test_it_is_made_by_an_accelerator_or_of_a_native_object
the NPU reads and writes it in place, without a copy:
    test_pinned_inference_gives_what_infer_gives_and_copies_nothing,
    test_the_npu_reads_and_writes_the_very_bytes
experimental, and for Regulus alone (ours: stable, on every device):
    test_memory_is_pinned_on_every_profile
__getitem__(key) reads one element or several:
    test_reading_is_numpys, test_the_examples_of_reading
its keys are NumPy's, integers, slices, tuples and the others:
    test_reading_is_numpys, test_random_keys_and_values,
    test_bad_keys_are_refused_as_numpy_does
it reads without a copy in between:
    test_the_examples_of_reading
it returns the element, or a view of the memory:
    test_reading_is_numpys, test_the_examples_of_reading
__setitem__(key, value) writes one element or several:
    test_writing_is_numpys, test_values_are_cast_as_numpy_does
it writes into the memory itself:
    test_the_examples_of_writing
it is the way to fill an input before infer_pinned_memory:
    test_the_npu_reads_and_writes_the_very_bytes
__len__() is the first extent:
    test_length_and_iteration
shape() is a tuple:
    test_facts
dtype() is NumPy's:
    test_facts
size() counts bytes:
    test_facts
is_available() says whether it is allocated and can be used:
    test_facts, test_free
_pinned_memory is the native object:
    test_native_classes, test_the_protected_attributes
_array is numpy.asarray of it:
    test_the_array_is_a_view_of_the_same_bytes, test_the_protected_attributes
"""

import ctypes
import inspect

import pytest
from runtime_cases import check_sentences

qbruntime = pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import qbruntime as native_module  # noqa: E402

# members of the page
MEMBERS = """__init__ __getitem__ __setitem__ __len__ shape dtype size is_available
_pinned_memory _array""".split()


def test_every_sentence_has_tests_that_exist():
    check_sentences(__doc__, 19)


# Q450 Q453 Q454 Q455 Q456 Q457 Q458 Q459
def test_the_class_is_where_the_page_has_it(acc):
    cls = qbruntime.pinned_memory.PinnedMemory
    assert cls is qbruntime.PinnedMemory and cls.__name__ == "PinnedMemory"
    assert cls.__module__ == "qbruntime.pinned_memory"
    assert type(acc.allocate_pinned_memory(4)) is cls
    for name in MEMBERS:
        assert hasattr(cls, name)
        assert callable(getattr(cls, name)) != (name in ("_pinned_memory", "_array"))
    assert list(inspect.signature(cls).parameters) == ["_pinned_memory"]
    for name in ("shape", "dtype", "size", "is_available"):
        assert str(inspect.signature(getattr(cls, name))) == "(self, /)"


# Q453 PM02
def test_the_examples_of_reading(acc):
    pm, line = acc.allocate_pinned_memory((3, 4)), acc.allocate_pinned_memory(16)
    pm[...] = np.arange(12).reshape(3, 4)
    line[:] = np.arange(16)
    assert pm[0].tolist() == [0, 1, 2, 3] and line[0] == 0.0
    assert pm[1, 2] == 6 and type(pm[1, 2]) is np.float32
    assert line[:10].tolist() == list(range(10)) and pm[:10].shape == (3, 4)
    # without a copy: what is read sees what is written later
    row, part = pm[0], line[:10]
    pm[0, 3] = 33
    line[9] = 99
    assert row[3] == 33 and part[9] == 99
    row[0], part[0] = 5, 7
    assert pm[0, 0] == 5 and line[0] == 7
    # by its address, past the class
    ctypes.c_float.from_address(line._array.ctypes.data).value = 8.5
    assert part[0] == line[0] == 8.5


# Q454
def test_the_examples_of_writing(acc):
    pm = acc.allocate_pinned_memory(16)
    view, native, src = pm[:], memoryview(pm._pinned_memory), np.arange(10.0)
    address = view.ctypes.data
    pm[0] = 1.0
    assert view[0] == native[0] == 1.0
    pm[:10] = src
    assert view[:10].tolist() == native[:10].tolist() == src.tolist()
    assert view[10:].tolist() == [0] * 6
    assert pm[:].ctypes.data == address == pm._array.ctypes.data


# Q454 Q475 Q480
@pytest.mark.parametrize("is_whole", [False, True], ids=["elements", "whole"])
def test_the_npu_reads_and_writes_the_very_bytes(launched, is_whole):
    (x,), (y,) = launched.allocate_inputs(), launched.allocate_outputs()
    before = y[:]
    for number in range(3):
        if is_whole:
            x[:] = np.arange(64, dtype="u1") + number
        else:
            for i in range(64):
                x[i] = i + number
        assert launched.infer_pinned_memory(x, y)[0] is y
        # by the view that was taken before the NPU wrote
        assert before.tolist() == [i + number for i in range(64)]
    assert launched.counters()["copied_nbytes"] == 0


# Q451 Q452
def test_the_protected_attributes(acc):
    for dtype, cls in (("f4", "PinnedMemoryFloat"), ("u1", "PinnedMemoryUint8")):
        pm = acc.allocate_pinned_memory((2, 3), dtype)
        assert type(pm._pinned_memory) is getattr(native_module, cls)
        assert pm._pinned_memory is pm._pinned_memory
        same = np.asarray(pm._pinned_memory)
        assert type(pm._array) is np.ndarray and pm._array is pm._array
        assert pm._array.dtype == same.dtype == np.dtype(dtype)
        assert pm._array.ctypes.data == same.ctypes.data
        assert pm._array.shape == same.shape == (2, 3)
