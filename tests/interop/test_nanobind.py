# SPDX-License-Identifier: MIT
"""nanobind: a small library made with it takes arrays, and gives its own. Its
views begin at a byte_offset that is not 0."""

import importlib.util
import os
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from shared import BASE, PARTS, Exchanges

HERE = Path(__file__).parent
CODES = {"f": 2, "i": 0, "u": 1, "b": 6}


def build(nanobind, folder):
    """The extension, with the installed sources of nanobind."""
    home = Path(nanobind.__file__).parent
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").exists():
        pytest.skip("this Python has no headers")
    path = folder / "nanobind_peer.so"
    includes = (home / "include", home / "ext/robin_map/include", python)
    command = [os.environ.get("CXX") or "g++", "-std=c++17", "-O0", "-shared", "-fPIC"]
    command += ["-DNB_COMPACT_ASSERTIONS", *(f"-I{name}" for name in includes)]
    command += [HERE / "nanobind_peer.cpp", home / "src/nb_combined.cpp", "-o", path]
    subprocess.run(command, check=True)
    return path


class Memory:
    """Of an array that nanobind holds, as it tells of it."""

    def __init__(self, held, dtype):
        self.held = held
        self.__array_interface__ = {
            "shape": tuple(held.shape),
            "typestr": dtype.str,
            "data": (held.address, True),
            "strides": tuple(step * dtype.itemsize for step in held.strides),
            "version": 3,
        }


class TestNanobind(Exchanges):
    NAME = DISTRIBUTION = "nanobind"
    ASKS = {"max_version": (1, 1)}
    FREED = TypeError, "no array"

    @pytest.fixture(autouse=True, scope="class")
    def library(self, request, tmp_path_factory):
        nanobind = pytest.importorskip(self.NAME)
        path = build(nanobind, tmp_path_factory.mktemp("nanobind"))
        spec = importlib.util.spec_from_file_location("nanobind_peer", path)
        request.cls.lib = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(request.cls.lib)

    def take(self, source):
        return self.lib.take(source)

    def of(self, memory, values, strides, byte_offset):
        strides = [step // values.itemsize for step in strides]
        dtype = CODES[values.dtype.kind], values.itemsize * 8
        return self.lib.view(memory, values.shape, strides, byte_offset, *dtype)

    def make(self, values):
        return self.of(b"-" * 8 + values.tobytes(), values, values.strides, 8)

    def view(self, part):
        values = BASE[PARTS[part]]
        begin = values.ctypes.data - BASE.ctypes.data if values.size else 0
        array = self.of(BASE.tobytes(), values, values.strides, begin)
        return array, values.strides

    def broadcast(self):
        values = np.broadcast_to(BASE[0], (4, 6))
        return self.of(BASE[0].tobytes(), values, values.strides, 0)

    def address(self, array):
        if not isinstance(array, self.lib.Holder):
            array = self.lib.take(array)
        return array.address

    def give(self, array):
        return array.give()

    def read(self, array):
        code, bits, _ = array.dtype
        kind = next(kind for kind in CODES if CODES[kind] == code)
        return np.asarray(Memory(array, np.dtype(f"{kind}{bits // 8}")))

    def write(self, array, values):
        array.write(values.tobytes())

    def sees_read_only(self, array):
        return not array.is_writable
