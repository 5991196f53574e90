# SPDX-License-Identifier: MIT
"""doctor: what lies beside the library, which the software NPU is tried with."""

import shutil

import cases
import pytest


@pytest.fixture
def beside(tmp_path):
    """The folder beside a library of its own."""
    shutil.copy(cases.LIBRARY / "libqbruntime.so.0", tmp_path)
    folder = tmp_path / "qbruntime"
    folder.mkdir()
    for path in (cases.LIBRARY / "qbruntime").glob("digits*"):
        shutil.copy(path, folder)
    return folder


def _find(folder, code):
    env = {"LD_LIBRARY_PATH": str(folder.parent)}
    document = cases.data("doctor", env=env, code=code)
    found = [check for check in document["checks"] if check["id"] == "software"]
    assert bool(found[0]["fix"]) == bool(code)
    return found[0]["code"]


# I48: one thing of three is wrong
@cases.one_library
def test_what_is_wrong_beside_the_library_is_found(beside):
    assert _find(beside, 0) is None
    images = (beside / "digits-16.u8").read_bytes()
    (beside / "digits-16.u8").write_bytes(images[64:] + images[:64])
    assert _find(beside, 10) == "E-SOFT-2"
    (beside / "digits-16.u8").write_bytes(images[:-1])
    assert _find(beside, 10) == "E-SOFT-3"
    shutil.rmtree(beside)
    assert _find(beside, 10) == "E-SOFT-3"
