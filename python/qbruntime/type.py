# SPDX-License-Identifier: MIT
"""Enumerations and value types.

The numbers are those of the C API and frozen; a test compares the two. The
extension makes its answers of these classes, so it is imported last.
"""

import operator as _operator
from collections import namedtuple as _namedtuple

from . import _refused
from ._status import StatusCode, _Enum


class Cluster(_Enum):
    """A cluster of cores."""

    Cluster0 = 1 << 16
    Cluster1 = 2 << 16
    Error = 0x7FFF0000


class Core(_Enum):
    """A core of a cluster."""

    Core0 = 1
    Core1 = 2
    Core2 = 3
    Core3 = 4
    All = 0xFFFC  # deprecated
    GlobalCore = 0xFFFE
    Error = 0xFFFF


class CoreMode(_Enum):
    """How an inference uses cores."""

    Single = 0
    Multi = 1
    Global = 2  # deprecated
    Global4 = 3
    Global8 = 4
    Auto = 5
    Error = 0xF


class CoreAllocationPolicy(_Enum):
    """Who chooses the cores of mode Single: the library, or a list."""

    Auto = 0
    Manual = 1


class CacheType(_Enum):
    """Whose tokens a KV cache holds: of one sequence, or of a batch of them."""

    Default = 0
    Batch = 1
    Error = 0xF


class DataType(_Enum):
    """The type of an element."""

    Float32 = 0
    Uint8 = 1
    Int8 = 2
    Float16 = 3
    Int16 = 4
    Uint16 = 5
    Int32 = 6
    Uint32 = 7
    Int64 = 8
    Uint64 = 9
    Float64 = 10
    Bool = 11
    BFloat16 = 12
    Error = 0xF


class LogLevel(_Enum):
    """What is logged: lines at or above a level. Both spellings are in use."""

    Debug = DEBUG = 1
    Info = INFO = 2
    Warn = WARN = 3
    Err = ERR = 4
    Fatal = FATAL = 5
    Off = OFF = 6


def _to_member(members, name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name} is a {members.__name__} or an int, got {type(value)!r}"
        )
    return members(_operator.index(value))


class CoreId:
    """One core. It may be made empty and assigned; ints become members."""

    __slots__ = ("_cluster", "_core")

    def __init__(self, cluster=Cluster.Error, core=Core.Error):
        self.cluster = cluster
        self.core = core

    @property
    def cluster(self):
        return self._cluster

    @cluster.setter
    def cluster(self, value):
        self._cluster = _to_member(Cluster, "cluster", value)

    @property
    def core(self):
        return self._core

    @core.setter
    def core(self, value):
        self._core = _to_member(Core, "core", value)

    def __getstate__(self):  # which the first two protocols of pickle ask for
        return super().__getstate__()

    def _key(self):
        return self._cluster, self._core

    def __eq__(self, other):
        return (
            self._key() == other._key() if isinstance(other, CoreId) else NotImplemented
        )

    def __lt__(self, other):
        return (
            self._key() < other._key() if isinstance(other, CoreId) else NotImplemented
        )

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        return f"CoreId(cluster={self._cluster}, core={self._core})"


def _to_float(name, value):
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is a float, got {type(value)!r}")
    return float(value)


def _to_int(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is an int, got {type(value)!r}")
    return _operator.index(value)


def _to_bool(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} is a bool, got {type(value)!r}")
    return value


class Scale:
    """Quantisation of a tensor: real = (stored - zero_point) * scale."""

    __slots__ = ("scale", "is_uniform", "scale_list", "zero_point", "is_asymmetric")

    def __init__(
        self, scale, is_uniform, scale_list, zero_point=0, is_asymmetric=False
    ):
        if not isinstance(scale_list, (list, tuple)):
            raise TypeError(f"scale_list is a list of floats, got {type(scale_list)!r}")
        self.scale = _to_float("scale", scale)  # 0.0 if not uniform
        self.is_uniform = _to_bool("is_uniform", is_uniform)
        self.scale_list = [
            _to_float("an item of scale_list", item) for item in scale_list
        ]
        self.zero_point = _to_int("zero_point", zero_point)
        self.is_asymmetric = _to_bool("is_asymmetric", is_asymmetric)

    @property
    def zero_points(self):
        """One for each channel of scale_list."""
        return [self.zero_point] * len(self.scale_list)

    def __getitem__(self, channel):
        """The factor of a channel."""
        return self.scale if self.is_uniform else self.scale_list[channel]

    def __getstate__(self):  # which the first two protocols of pickle ask for
        return super().__getstate__()

    def _key(self):
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other):
        return (
            self._key() == other._key() if isinstance(other, Scale) else NotImplemented
        )

    __hash__ = None

    def __repr__(self):
        fields = (f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"Scale({', '.join(fields)})"


class BufferInfo(
    _namedtuple(
        "BufferInfo",
        "original_height original_width original_channel "
        "reshaped_height reshaped_width reshaped_channel "
        "height width channel max_height max_width max_channel max_cache_size",
    )
):
    """Extents of a tensor: of the source model, as the host rearranges it, on the
    device with its padding, and the largest of a variable size; in elements."""

    __slots__ = ()

    def original_shape(self):
        return self[0:3]

    def original_shape_chw(self):
        return self[2], self[0], self[1]

    def original_size(self):
        return self[0] * self[1] * self[2]

    def reshaped_shape(self):
        return self[3:6]

    def reshaped_shape_chw(self):
        return self[5], self[3], self[4]

    def reshaped_size(self):
        return self[3] * self[4] * self[5]

    def shape(self):
        return self[6:9]

    def shape_chw(self):
        return self[8], self[6], self[7]

    def size(self):
        return self[6] * self[7] * self[8]


CacheInfo = _namedtuple("CacheInfo", "cache_type name layer_hash size num_batches")
CacheInfo.__doc__ = "One layer of a KV cache; size: bytes of it in one cache."

DeviceInfo = _namedtuple(
    "DeviceInfo",
    "id name number kind family product clusters local_cores_per_cluster "
    "global_cores_per_cluster core_modes dtypes memory_total memory_free "
    "pinned_limit contiguity_classes driver driver_version uapi_version firmware "
    "bus node numa_node container_versions serial uuid state contiguous_free "
    "isa_version isa_features features backends limits",
)
DeviceInfo.__doc__ = "A device; what is not known is None, sizes are bytes."

DeviceLimits = _namedtuple(
    "DeviceLimits",
    "max_jobs max_queues max_bindings max_programs max_program_nbytes "
    "max_pinned_nbytes default_job_time_ns max_job_time_ns",
)
DeviceLimits.__doc__ = """What a device takes at most: jobs in one queue that are not
complete, queues and programs of one process, bindings and bytes of a program, bytes of
one buffer; and how long a job may run that has no limit, and that has one."""

Reading = _namedtuple("Reading", "id name place value")
Reading.__doc__ = "One value of a sensor; place: which one, if there are several."

CoreState = _namedtuple("CoreState", "core_id activity queued jobs busy_time_ns resets")
CoreState.__doc__ = "One core and its account."

DeviceEvent = _namedtuple("DeviceEvent", "sequence time_ns kind status core_id args")
DeviceEvent.__doc__ = "Something that happened to a device; core_id None: to no core."

FirmwareInfo = _namedtuple(
    "FirmwareInfo", "version build crc is_secure heartbeat_ns uptime_ns"
)
FirmwareInfo.__doc__ = "The firmware of a device; what is not known is None."

from .qbruntime import (  # noqa: E402
    ModelConfig,
    get_available_device_numbers,
    get_available_devices,
    get_model_summary,
)

_refused.refuse_attributes(ModelConfig, _refused.MODEL_CONFIG)
__getattr__ = _refused.make_getattr(__name__)

__all__ = [
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
    "LogLevel",
    "ModelConfig",
    "Reading",
    "Scale",
    "StatusCode",
    "get_available_device_numbers",
    "get_available_devices",
    "get_model_summary",
]
