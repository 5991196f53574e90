#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of tests/interop with the libraries that this Python has, against a
# staged installation, as test-python.sh runs its own; those of absent ones skip.
# CI runs them with Debian's NumPy, and in .venv-interop (scripts/setup --interop).
JAX_PLATFORMS=cpu QBRUNTIME_TEST_FOLDER=interop QBRUNTIME_TEST_FILES="" exec sh "${top_srcdir:?}/tests/test-python.sh"
