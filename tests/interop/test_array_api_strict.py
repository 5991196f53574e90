# SPDX-License-Identifier: MIT
"""array-api-strict: what the array standard asks for, and no more."""

import numpy as np
from shared import BASE, Copies, Exchanges


class TestArrayApiStrict(Exchanges, Copies):
    NAME = "array_api_strict"
    DISTRIBUTION = "array-api-strict"
    ASKS = {"dl_device": None, "copy": None, "max_version": (1, 0)}
    DTYPES = "f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?"

    def take(self, source, **keywords):
        return self.lib.from_dlpack(source, **keywords)

    def make(self, values):
        return self.lib.asarray(values, copy=True)

    def broadcast(self):
        return self.lib.broadcast_to(self.make(BASE[0]), (4, 6))

    def address(self, array):
        return self.read(array).ctypes.data

    def read(self, array):
        return np.from_dlpack(array)

    def sees_read_only(self, array):
        return not self.read(array).flags.writeable

    def write(self, array, values):
        array[...] = self.make(values)
