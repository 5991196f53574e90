# SPDX-License-Identifier: MIT
"""numba's host side: compiled functions over the memory of ours."""

import ctypes

import numpy as np
import pytest
from shared import BASE, LOADS, Library, fill

from qbruntime.payload import Tensor


class TestNumba(Library):
    NAME = DISTRIBUTION = "numba"

    @pytest.fixture(scope="class")
    def double(self):
        import numba

        @numba.njit
        def double(values):
            for i in range(values.shape[0]):
                for j in range(values.shape[1]):
                    values[i, j] *= 2
            return values

        return double

    # PM09 H41 H110
    def test_a_function_works_in_the_memory(self, acc, double):
        pinned = fill(acc)
        for source in (pinned, pinned.tensor()):
            answer = double(np.asarray(source))
            assert answer.ctypes.data == pinned.tensor().data
        assert (np.asarray(pinned) == 4 * BASE).all()

    # H41 H81
    def test_it_knows_what_is_read_only(self, acc, double):
        array = np.asarray(Tensor.as_tensor(fill(acc)))
        with pytest.raises(self.lib.core.errors.TypingError, match="readonly"):
            double(array)
        total = self.lib.njit(lambda values: values.sum())
        assert total(array) == BASE.sum()

    # H24 H33
    def test_an_address_is_enough(self, acc):
        tensor = fill(acc).tensor()
        address = ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_float))
        array = self.lib.carray(address, tensor.shape)
        assert array.strides == tensor.strides and (array == BASE).all()

    # H77 H112
    def test_what_a_function_returns_becomes_a_tensor(self, acc, double):
        pinned = fill(acc)
        for source in (np.asarray(pinned), BASE.copy()):
            answer = double(source)
            for load in LOADS:
                assert load(answer).data == source.ctypes.data
