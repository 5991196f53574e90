# SPDX-License-Identifier: MIT
"""Devices: Accelerator, and which there are."""

from .qbruntime import Accelerator
from .type import (
    CoreId,
    DeviceInfo,
    get_available_device_numbers,
    get_available_devices,
)

__all__ = [
    "Accelerator",
    "CoreId",
    "DeviceInfo",
    "get_available_device_numbers",
    "get_available_devices",
]
