# SPDX-License-Identifier: MIT
"""The fixtures of all tests of the package."""

from runtime_fixtures import *  # noqa: F401, F403
