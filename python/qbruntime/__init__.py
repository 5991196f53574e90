# SPDX-License-Identifier: MIT
"""An open runtime for NPU accelerators.

    with qbruntime.Accelerator() as acc, qbruntime.Model("model.qbm") as model:
        model.launch(acc)
        (scores,) = model.infer(picture)
        # or in memory that the NPU shares, which copies nothing
        x, y = model.allocate_inputs(), model.allocate_outputs()
        x[0][:] = picture
        model.infer_pinned_memory(x, y)

Importing it opens no device, starts no thread and imports no NumPy.
"""

import typing as _typing

from . import _refused, version
from .accelerator import Accelerator
from .future import Future
from .model import Model, estimate_memory, load
from .model_variant_handle import ModelVariantHandle
from .pinned_memory import PinnedMemory
from .qbruntime import (
    QbBufferError,
    QbCancelledError,
    QbClosedError,
    QbDeviceLostError,
    QbDeviceNotFoundError,
    QbDtypeError,
    QbInvalidArgumentError,
    QbLayoutWarning,
    QbModelFileError,
    QbNotAliveError,
    QbOutOfMemoryError,
    QbRuntimeError,
    QbShapeError,
    QbTimeoutError,
    QbUnsupportedError,
    set_log_level,
    start_tracing_events,
    stop_tracing_events,
)
from .type import (
    BufferInfo,
    CacheInfo,
    CacheType,
    Cluster,
    Core,
    CoreAllocationPolicy,
    CoreId,
    CoreMode,
    CoreState,
    DataType,
    DeviceEvent,
    DeviceInfo,
    DeviceLimits,
    FirmwareInfo,
    LogLevel,
    ModelConfig,
    Reading,
    Scale,
    StatusCode,
    get_available_device_numbers,
    get_available_devices,
    get_model_summary,
)
from .version import (
    __api_version__,
    __git_version__,
    __product__,
    __vendor__,
    __version__,
)

# a type checker would take any name for one of ours
if not _typing.TYPE_CHECKING:
    __getattr__ = _refused.make_getattr(__name__)

# No name that Python or NumPy define (type), none that programs use (model).
__all__ = [
    "Accelerator",
    "BufferInfo",
    "CacheInfo",
    "CacheType",
    "Cluster",
    "Core",
    "CoreAllocationPolicy",
    "CoreId",
    "CoreMode",
    "CoreState",
    "DataType",
    "DeviceEvent",
    "DeviceInfo",
    "DeviceLimits",
    "FirmwareInfo",
    "Future",
    "LogLevel",
    "Model",
    "ModelConfig",
    "ModelVariantHandle",
    "PinnedMemory",
    "QbBufferError",
    "QbCancelledError",
    "QbClosedError",
    "QbDeviceLostError",
    "QbDeviceNotFoundError",
    "QbDtypeError",
    "QbInvalidArgumentError",
    "QbLayoutWarning",
    "QbModelFileError",
    "QbNotAliveError",
    "QbOutOfMemoryError",
    "QbRuntimeError",
    "QbShapeError",
    "QbTimeoutError",
    "QbUnsupportedError",
    "Reading",
    "Scale",
    "StatusCode",
    "__api_version__",
    "__git_version__",
    "__product__",
    "__vendor__",
    "__version__",
    "estimate_memory",
    "get_available_device_numbers",
    "get_available_devices",
    "get_model_summary",
    "load",
    "set_log_level",
    "start_tracing_events",
    "stop_tracing_events",
    "version",
]
