# SPDX-License-Identifier: MIT
"""Memory that the host and the NPU share."""

from .qbruntime import PinnedMemory

__all__ = ["PinnedMemory"]
