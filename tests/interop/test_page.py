# SPDX-License-Identifier: MIT
"""docs/interop.md says what the tests of this session found; it runs after them."""

import os
import re

import page
import pytest
from runtime_cases import TOP

PAGE = TOP / "docs/interop.md"
SECTIONS = page.read(PAGE.read_text("utf-8")) if PAGE.exists() else {}
LIBRARIES = (
    ["array-api-strict", "apache-tvm-ffi", "jax", "nanobind", "numba"]
    + ["numpy 1", "numpy 2"]
    + ["torch"]
)


def test_the_page_is_made_of_its_sections():
    if os.environ.get("QBRUNTIME_INTEROP_PAGE") == "write":
        found = {name: page.make(results) for name, results in page.RESULTS.items()}
        SECTIONS.update(found)
        PAGE.write_text(page.write(SECTIONS), "utf-8")
    assert PAGE.read_text("utf-8") == page.write(SECTIONS)
    assert sorted(SECTIONS) == sorted(LIBRARIES)
    assert "failed" not in re.findall(r"\w+", "".join(SECTIONS.values()))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_section_says_what_was_found(library):
    if library not in page.RESULTS:
        pytest.skip(f"{library} is not here")
    made, written = page.make(page.RESULTS[library]), SECTIONS[library]
    here, there = (text.partition("\n")[0] for text in (made, written))
    if here != there:
        pytest.skip(f"{library}: the page has {there}, here is {here}")
    assert made == written
