# SPDX-License-Identifier: MIT
"""JAX, on the CPU. Its arrays are immutable, and it asks for legacy capsules."""

import numpy as np
import pytest
from shared import BASE, LOADS, PARTS, Exchanges, fill


class TestJax(Exchanges):
    NAME = DISTRIBUTION = "jax"
    ASKS = {"stream": None}
    READ_ONLY = False
    IMMUTABLE = "its arrays are immutable"
    # it makes the others of 64 bits smaller
    DTYPES = "f2 f4 i1 i2 i4 u1 u2 u4 ?"

    def take(self, source, **keywords):
        return self.lib.dlpack.from_dlpack(source, **keywords)

    def make(self, values):
        return self.lib.numpy.array(values)

    def view(self, part):
        values = BASE[PARTS[part]]
        return self.make(values), values.copy().strides

    def address(self, array):
        return array.unsafe_buffer_pointer()

    # H27 H29 H49
    @pytest.mark.parametrize(
        "name, code",
        [("bfloat16", 4), ("float8_e4m3fn", 10), ("float8_e5m2", 12)],
    )
    def test_types_that_numpy_lacks(self, name, code):
        array = self.lib.numpy.array([1, 2, 0.5], getattr(self.lib.numpy, name))
        for load in LOADS:
            tensor = load(array)
            assert tensor.dtype == (code, array.itemsize * 8, 1)
            assert tensor.data == array.unsafe_buffer_pointer()
            back = self.take(tensor.copy())
            assert back.dtype == array.dtype
            assert np.asarray(back).tobytes() == np.asarray(array).tobytes()

    # B26 B32
    def test_ours_is_aligned_as_it_needs(self, acc):
        pinned = fill(acc)
        for source in (pinned, pinned.tensor(), pinned.tensor().copy()):
            array = self.take(source, copy=False)
            address = source.__array_interface__["data"][0]
            assert array.unsafe_buffer_pointer() == address
