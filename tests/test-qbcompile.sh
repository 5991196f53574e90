#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of tests/qbcompile, which need the tools alone, against a staged
# installation, as test-python.sh runs its own.
# QBRUNTIME_TEST_QBCOMPILE_FILES: not all of them, but these.
QBRUNTIME_TEST_FOLDER=qbcompile QBRUNTIME_TEST_FILES="${QBRUNTIME_TEST_QBCOMPILE_FILES-}" exec sh "${top_srcdir:?}/tests/test-python.sh"
