# SPDX-License-Identifier: MIT
"""Makes docs/interop.md of what the tests of this folder found.

A session notes its results here; test_page.py compares the page with them, or,
with QBRUNTIME_INTEROP_PAGE=write, writes them. What has no result stays as it is.
"""

import importlib.metadata
import inspect
import re

HEAD = """# Libraries that exchange tensors with qbruntime

DLPack (<https://github.com/dmlc/dlpack>) is the struct by which array libraries
hand memory to each other without a copy. A library takes PinnedMemory and Tensor
with its `from_dlpack`; its own arrays become Tensors, which are read-only, since
the memory is the library's (`Tensor.copy()` gives a writable one):

```python
import qbruntime
import torch
from qbruntime.payload import Tensor

with qbruntime.load("examples/digits.qbm") as model:
    (image,), (scores,) = model.allocate_inputs(), model.allocate_outputs()
    x = torch.from_dlpack(image)  # the model's input, seen by torch
    y = torch.from_dlpack(scores).numpy()  # an output is what NumPy can write
    x.fill_(16)
    model.infer([x], [y])
    print("copied bytes:", model.counters()["copied_nbytes"])
tensor = Tensor.from_dlpack(torch.arange(6))  # torch's memory, read-only
```

prints `copied bytes: 0`. `scripts/setup --interop` puts the libraries, built for
the CPU, into `.venv-interop/` (1.7 GB), and after `scripts/build build`

    PYTHONPATH=build/python/stage .venv-interop/bin/python examples/torch_bridge.py

reads the digits with torch at both ends of the model.

Below is what `tests/interop/` found with each library, in both directions. Rows
are those of `spec/tensor-interop.md`. A test that is skipped says why: mostly the
library lacks the thing. In the results

* *versioned* is a library that asks for DLPack's struct with a version, *legacy*
  one that does not; only a struct with a version can say that memory is read-only;
* *it takes it, and knows*: arrays of read-only memory refuse to be written;
* *it takes it and has no such flag*: they do not, so do not write to them;
* *it cannot take it, and is told what to do*: the error says to copy first;
* the *exchange table* is DLPack's C functions, called in place of Python's methods.

The tests make this page (`tests/test-interop.sh` with
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
