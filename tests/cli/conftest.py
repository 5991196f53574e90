# SPDX-License-Identifier: MIT
"""Fixtures: captured systems, unpacked once; schemas."""

import json
import os
import signal

import cases
import jsonschema
import pytest
import trees

# who runs the tests in the background may have made the process ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def roots(tmp_path_factory):
    """A folder that has every tree by its name; other users may read it."""
    folder = tmp_path_factory.mktemp("trees")
    for place in (folder, *folder.parents[:2]):
        os.chmod(place, 0o755)
    for name in trees.names():
        trees.unpack(name, folder / name)
    return folder


@pytest.fixture
def tree(tmp_path):
    """Makes a tree of its own, with more lines."""

    def make(name, *lines):
        root = trees.unpack(name, tmp_path / name)
        for line in lines:
            trees.add(root, line)
        return root

    return make


@pytest.fixture
def bent(tmp_path):
    """The environment in which qbinfo finds two devices that count by the clock."""
    if not cases.BENT_LIBRARY.exists():
        pytest.skip("no shared library of the tests was built")
    (tmp_path / "libqbruntime.so.0").symlink_to(cases.BENT_LIBRARY)
    # its list of drivers is there twice, on purpose
    asan = f"{os.environ.get('ASAN_OPTIONS', '')}:detect_odr_violation=0"
    return {
        "LD_LIBRARY_PATH": f"{tmp_path}:{cases.LIBRARY}",
        "ASAN_OPTIONS": asan.strip(":"),
    }


@pytest.fixture(scope="session")
def validate():
    """Checks a document under its command's strict schema."""
    known = {}

    def check(document):
        name = document["schema"].split("/")[1]
        if name not in known:
            schema = json.loads(cases.text("schema", name, "--strict"))
            known[name] = jsonschema.Draft202012Validator(schema)
        known[name].validate(document)

    return check
