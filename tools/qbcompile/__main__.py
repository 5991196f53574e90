# SPDX-License-Identifier: MIT
"""`python3 -m qbcompile`."""

import sys

from .cli import main

sys.exit(main())
