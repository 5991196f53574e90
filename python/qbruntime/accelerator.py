# SPDX-License-Identifier: MIT
"""Devices: Accelerator, and which there are."""

from .qbruntime import Accelerator
from .type import (
    CoreId,
    CoreState,
    DeviceEvent,
    DeviceInfo,
    DeviceLimits,
    FirmwareInfo,
    Reading,
    get_available_device_numbers,
    get_available_devices,
)

__all__ = [
    "Accelerator",
    "CoreId",
    "CoreState",
    "DeviceEvent",
    "DeviceInfo",
    "DeviceLimits",
    "FirmwareInfo",
    "Reading",
    "get_available_device_numbers",
    "get_available_devices",
]
