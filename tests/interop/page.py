# SPDX-License-Identifier: MIT
"""Makes docs/interop.md of what the tests of this folder found.

A session notes its results here; test_page.py compares the page with them, or,
with QBRUNTIME_INTEROP_PAGE=write, writes them. What has no result stays as it is.
"""

import importlib.metadata
import inspect
import re

HEAD = """# Libraries that exchange tensors with qbruntime

What `tests/interop/` found with each library, in both directions: it takes
PinnedMemory and Tensor, and its arrays become Tensors. Rows are those of
`spec/tensor-interop.md`. The tests make this page (`tests/test-interop.sh` with
`QBRUNTIME_INTEROP_PAGE=write`), and compare each run with it.
"""
RESULTS = {}  # of this session: section -> test -> what came of it


def version_of(distribution):
    """Without what tells one build of it from another."""
    return importlib.metadata.version(distribution).partition("+")[0]


def section_of(cls):
    """NumPy has one for each of its generations."""
    if cls.NAME != "numpy":
        return cls.DISTRIBUTION
    return "numpy " + version_of("numpy").partition(".")[0]


class Result:
    def __init__(self, item):
        comment = inspect.getcomments(item.function) or ""
        self.rows = re.findall(r"\b(?:H|PM|B|L|D)\d+\b", comment)
        self.version = version_of(item.cls.DISTRIBUTION)
        self.failed, self.passed, self.found = 0, 0, []

    def words(self):
        words = ["failed"] if self.failed else ["passed"] if self.passed else []
        return "; ".join(words + self.found)


def note(item, report):
    results = RESULTS.setdefault(section_of(item.cls), {})
    name = item.function.__name__.removeprefix("test_").replace("_", " ")
    result = results.setdefault(name, Result(item))
    result.failed += report.failed
    result.passed += report.passed
    found = [text for key, text in report.user_properties if key == "found"]
    if report.skipped:
        found.append("skipped: " + report.longrepr[-1].removeprefix("Skipped: "))
    result.found += [text for text in found if text not in result.found]


def make(results):
    """The text of a section, without its heading; version."""
    lines = ["| test | rows | result |", "|---|---|---|"]
    for name, result in results.items():
        lines.append(f"| {name} | {' '.join(result.rows)} | {result.words()} |")
    (version,) = {result.version for result in results.values()}
    return f"Version {version}.\n\n" + "\n".join(lines) + "\n"


def read(text):
    """The sections of a page."""
    parts = re.split(r"^## (.*)\n\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() + "\n" for part in parts[2::2])))


def write(sections):
    """The page of these sections."""
    parts = [f"## {name}\n\n{sections[name]}" for name in sorted(sections)]
    return "\n".join([HEAD, *parts])
