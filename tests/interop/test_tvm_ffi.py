# SPDX-License-Identifier: MIT
"""tvm-ffi: it takes tensors of ours through the exchange table."""

import numpy as np
import pytest
from shared import BASE, PARTS, Exchanges, Spy, fill, stretch

from qbruntime.payload import Tensor


class TestTvmFfi(Exchanges):
    NAME = "tvm_ffi"
    DISTRIBUTION = "apache-tvm-ffi"

    def make(self, values):
        return self.lib.from_dlpack(values.copy())

    def view(self, part):
        values = BASE.copy()[PARTS[part]]
        return self.lib.from_dlpack(values), values.strides

    def broadcast(self):
        return self.lib.from_dlpack(stretch(BASE[0].copy()))

    def address(self, array):
        return array.data_ptr()

    def read(self, array):
        return np.from_dlpack(array)

    def write(self, array, values):
        np.from_dlpack(array)[...] = values

    # H54 H75 H76
    def test_it_takes_ours_through_the_exchange_table(self, acc):
        pinned = fill(acc)
        tensor = Tensor.as_tensor(pinned)
        # a legacy capsule, all that its other way asks for, cannot be had
        with pytest.raises(BufferError):
            self.take(Spy(tensor))
        assert self.take(tensor).data_ptr() == tensor.data

    # PM09 H75
    def test_its_functions_take_ours(self, acc):
        seen = []
        function = self.lib.convert(lambda array: seen.append(array.data_ptr()))
        pinned = fill(acc)
        for source in (pinned, pinned.tensor(), Tensor.as_tensor(pinned)):
            function(source)
        assert seen == [pinned.tensor().data] * 3
