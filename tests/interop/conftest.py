# SPDX-License-Identifier: MIT
"""A device for each test, and a note of what came of it, for docs/interop.md."""

import pytest

pytest.register_assert_rewrite("shared")
import page  # noqa: E402


@pytest.fixture
def acc():
    qbruntime = pytest.importorskip("qbruntime")
    with qbruntime.Accelerator() as acc:
        yield acc


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    # a test whose library is absent ends in setup, and is no result
    if report.when == "call" and hasattr(item.cls, "NAME"):
        page.note(item, report)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.module.__name__ == "test_page")
