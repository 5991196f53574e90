#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of tests/concurrency: threads, processes, futures, and what outlives
# what, against a staged installation, as test-python.sh runs its own.
# QBRUNTIME_TEST_CONCURRENCY_FILES: not all of them, but these.
QBRUNTIME_TEST_FOLDER=concurrency QBRUNTIME_TEST_FILES="${QBRUNTIME_TEST_CONCURRENCY_FILES-}" exec sh "${top_srcdir:?}/tests/test-python.sh"
