# SPDX-License-Identifier: MIT
"""torch, on the CPU. It publishes the exchange table, which as_tensor prefers."""

import numpy as np
import pytest
from fakes import fields
from runtime_cases import TOP
from shared import BASE, LOADS, Copies, Exchanges, fill

from qbruntime.payload import Tensor


class TestTorch(Exchanges, Copies):
    NAME = DISTRIBUTION = "torch"
    ASKS = {"max_version": (1, 0)}
    REFUSED = {"backwards": "negative strides, NumPy's too, end the process"}

    def take(self, source, **keywords):
        return self.lib.from_dlpack(source, **keywords)

    def make(self, values):
        return self.lib.tensor(values)

    def view(self, part):
        if part == "backwards":
            pytest.skip("it has no negative strides")
        return super().view(part)

    def broadcast(self):
        return self.make(BASE[0]).expand(4, 6)

    def address(self, array):
        return array.data_ptr()

    def write(self, array, values):
        array.copy_(self.lib.tensor(values))

    def read(self, array):
        return array.numpy()

    # H75 H79
    def test_as_tensor_takes_its_exchange_table(self, monkeypatch):
        array = self.make(BASE)

        def refuse(*arguments, **keywords):
            raise LookupError

        monkeypatch.setattr(self.lib.Tensor, "__dlpack__", refuse)
        assert Tensor.as_tensor(array).data == array.data_ptr()
        with pytest.raises(LookupError):
            Tensor.from_dlpack(array)

    # H27 H29 H49
    @pytest.mark.parametrize(
        "name, code",
        [
            ("bfloat16", 4),
            ("float8_e4m3fn", 10),
            ("float8_e4m3fnuz", 11),
            ("float8_e5m2", 12),
            ("float8_e5m2fnuz", 13),
            ("float8_e8m0fnu", 14),
        ],
    )
    def test_types_that_numpy_lacks(self, name, code):
        dtype = getattr(self.lib, name)
        array = self.lib.tensor([1, 2, 0.5]).to(dtype)
        for load in LOADS:
            tensor = load(array)
            assert tensor.dtype == (code, array.itemsize * 8, 1)
            assert tensor.itemsize == array.itemsize
            assert not hasattr(tensor, "__array_interface__")
            back = self.take(tensor)
            assert back.dtype is dtype and back.data_ptr() == array.data_ptr()
            copied = self.take(tensor.copy())
            assert copied.tolist() == array.tolist()

    # H27
    def test_complex_and_packed_types(self):
        array = self.lib.tensor([1 + 2j, 3 - 4j])
        for load in LOADS:
            assert load(array).dtype == (5, 64, 1)
            assert np.asarray(load(array)).tolist() == [1 + 2j, 3 - 4j]

    # H52 L2 B08
    def test_a_bare_capsule_is_taken_once(self, acc):
        pinned = fill(acc)
        for keywords in ({}, {"max_version": (1, 0)}):
            capsule = pinned.__dlpack__(**keywords)
            array = self.take(capsule)
            with pytest.raises(RuntimeError):
                self.take(capsule)
            del capsule
            assert (array.numpy() == BASE).all()

    # PM16 H41
    def test_its_other_ways_in_share_the_memory(self, acc):
        pinned = fill(acc)
        address = pinned.tensor().data
        for array in (
            self.lib.asarray(pinned),
            self.lib.as_tensor(pinned),
            self.lib.frombuffer(pinned, dtype=self.lib.float32),
            self.lib.from_numpy(np.asarray(pinned)),
        ):
            assert array.data_ptr() == address

    # H81 H112
    def test_read_only_stays_read_only_on_the_way_back(self, acc):
        array = self.take(Tensor.as_tensor(fill(acc)))
        for load in LOADS:
            exported = fields(load(array), max_version=(1, 0))
            assert exported["flags"] == 1

    # H80
    def test_what_it_does_not_export_is_refused_with_its_error(self, record_property):
        lib = self.lib
        for array in (
            lib.zeros(3, requires_grad=True),
            lib.tensor([1 + 2j]).conj(),
            lib.zeros(3).to_sparse(),
        ):
            with pytest.raises(BufferError):
                Tensor.from_dlpack(array)
        with pytest.raises((BufferError, RuntimeError)):
            Tensor.as_tensor(lib.zeros(3).to_sparse())
        # its table says nothing of what was not computed yet
        lazy = lib.tensor([1 + 2j]).conj()
        assert np.asarray(Tensor.as_tensor(lazy)).tolist() == [1 + 2j]
        record_property("found", "its table gives a lazy conj() unresolved")

    def test_the_page_begins_with_what_works(self, capsys, monkeypatch):
        monkeypatch.chdir(TOP)
        code = (TOP / "docs/interop.md").read_text().split("```python\n")[1]
        exec(code.split("```")[0], {})
        assert capsys.readouterr().out == "copied bytes: 0\n"
