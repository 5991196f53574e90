# SPDX-License-Identifier: MIT
"""NumPy, of the generation that is here: 1 asks for legacy capsules alone."""

import pytest
from shared import BASE, LOADS, Copies, Exchanges, fill, stretch

np = pytest.importorskip("numpy")
from qbruntime.payload import Tensor  # noqa: E402

MODERN = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


class TestNumpy(Exchanges, Copies):
    NAME = DISTRIBUTION = "numpy"
    READ_ONLY = MODERN
    IMMUTABLE = "" if MODERN else "what its from_dlpack gives is read-only"
    ASKS = {"dl_device": None, "copy": None, "max_version": (1, 0)} if MODERN else {}
    DTYPES = Exchanges.DTYPES if MODERN else Exchanges.DTYPES.replace(" ?", "")

    def take(self, source, **keywords):
        if keywords and not MODERN:
            pytest.skip("its from_dlpack has no such argument")
        return np.from_dlpack(source, **keywords)

    def make(self, values):
        return values.copy()

    def broadcast(self):
        return stretch(BASE[0].copy())

    def give(self, array):
        if not MODERN:
            pytest.skip("it exports no read-only arrays, and what it took is one")
        return array

    def address(self, array):
        return array.ctypes.data

    def sees_read_only(self, array):
        # 1 takes what has no version to be read-only
        return not array.flags.writeable if MODERN else None

    # H37 H41 H110 PM16
    def test_asarray_shares_the_memory(self, acc):
        pinned = fill(acc)
        writable, read_only = pinned.tensor(), Tensor.as_tensor(pinned)
        for source in (pinned, writable, read_only):
            array = np.asarray(source)
            assert array.ctypes.data == writable.data
            assert array.flags.writeable is (source is not read_only)
        np.asarray(pinned)[1, 1] = 5
        np.asarray(writable)[1, 2] = 6
        assert np.asarray(read_only)[1, 1:3].tolist() == [5, 6]
        assert np.asarray(memoryview(pinned)).ctypes.data == writable.data

    # H80 H81
    def test_its_read_only_arrays(self, record_property):
        array = BASE.copy()
        array.flags.writeable = False
        if MODERN:
            for load in LOADS:
                assert load(array).data == array.ctypes.data
            return
        record_property("found", "it exports none, and its error is raised")
        for load in LOADS:
            with pytest.raises((BufferError, TypeError), match="readonly"):
                load(array)

    # H80
    @pytest.mark.parametrize("dtype", [">f4", "M8[s]", "U3", "O"])
    def test_types_that_dlpack_lacks_are_refused(self, dtype):
        for load in LOADS:
            with pytest.raises((BufferError, TypeError)):
                load(np.zeros(3, dtype))

    # B08 L2
    def test_a_capsule_is_taken_once(self, acc):
        capsule = fill(acc).__dlpack__()

        class Holder:
            def __dlpack__(self, **keywords):
                return capsule

            def __dlpack_device__(self):
                return (1, 0)

        array = np.from_dlpack(Holder())
        with pytest.raises(ValueError):
            np.from_dlpack(Holder())
        assert (array == BASE).all()
