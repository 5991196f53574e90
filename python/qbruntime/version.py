# SPDX-License-Identifier: MIT
"""Versions, as the library that is loaded says."""

from .qbruntime import __git_version__, __version__

__vendor__ = "qbruntime"
__product__ = "universal"
# the newest release of the vendor's interface that this package follows
__api_version__ = "1.4"

__all__ = [
    "__api_version__",
    "__git_version__",
    "__product__",
    "__vendor__",
    "__version__",
]
