# SPDX-License-Identifier: MIT
"""The devices and the counters of the tensor bridge."""

from .qbruntime import Device, bridge_stats, current_device

__all__ = ["Device", "bridge_stats", "current_device"]
