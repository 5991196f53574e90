# SPDX-License-Identifier: MIT
import enum
from typing import NamedTuple

from .qbruntime import ModelConfig as ModelConfig
from .qbruntime import get_available_device_numbers as get_available_device_numbers
from .qbruntime import get_available_devices as get_available_devices
from .qbruntime import get_model_summary as get_model_summary

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

class _Enum(enum.IntEnum):
    def __format__(self, spec: str) -> str: ...

class Cluster(_Enum):
    Cluster0 = 65536
    Cluster1 = 131072
    Error = 2147418112

class Core(_Enum):
    Core0 = 1
    Core1 = 2
    Core2 = 3
    Core3 = 4
    All = 65532
    GlobalCore = 65534
    Error = 65535

class CoreMode(_Enum):
    Single = 0
    Multi = 1
    Global = 2
    Global4 = 3
    Global8 = 4
    Auto = 5
    Error = 15

class CoreAllocationPolicy(_Enum):
    Auto = 0
    Manual = 1

class CacheType(_Enum):
    Default = 0
    Batch = 1
    Error = 15

class DataType(_Enum):
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
    Error = 15

class LogLevel(_Enum):
    Debug = 1
    DEBUG = 1
    Info = 2
    INFO = 2
    Warn = 3
    WARN = 3
    Err = 4
    ERR = 4
    Fatal = 5
    FATAL = 5
    Off = 6
    OFF = 6

class StatusCode(_Enum):
    OK = 0
    Driver_NotInitialized = 1
    Model_NoTargetCores = 2
    Model_FailedToLoadMXQ = 3
    Model_FailedToOpenScaleFile = 4
    Model_InvalidScaleValue = 5
    Model_FailedToOpenOutputScale = 6
    Model_InvalidOutputScaleValue = 7
    Model_FailedToOpenSectionBinary = 8
    Model_NotLaunched = 9
    Model_NotAlive = 10
    Acc_CoreAlreadyInUse = 11
    Acc_NoSuchModel = 12
    Driver_FailedToAllocateHostMemory = 13
    Driver_WriteMemoryBuffer = 14
    Driver_ReadMemoryBuffer = 15
    Model_MXQAndModelConfigNotMatch = 16
    Model_NoGlobalCoreWithGlobalMultiMode = 17
    NotImplemented = 18
    Model_FailedToOpenModelDescFile = 19
    Model_BrokenMXQ = 20
    Model_ShapeMismatched = 21
    Model_DtypeMismatched = 22
    InternalError = 23
    Driver_ClaimCores = 24
    Driver_UnclaimCores = 25
    Model_IsPacked = 26
    Model_IsNotPacked = 27
    Acc_TaskQueueNotFound = 28
    MemoryPool_BufNotFound = 29
    MemoryPool_AllocatorNotSet = 30
    Model_FailedToAllocMemory = 32
    Driver_PostInfer = 33
    Driver_WaitDone = 34
    Driver_WaitDoneTimeout = 35
    Model_PredictError = 36
    Model_FailedToSaveTensor = 37
    Model_UnexpectedMemoryFormat = 38
    BadAlloc = 39
    Model_TaskQueueClosed = 40
    Model_TaskQueueTimeout = 41
    Acc_NPUTimeout = 42
    Acc_NoIMemInitFound = 43
    Driver_AllocateModelMemory = 44
    Driver_BuildCmaIoReq = 45
    Driver_FreeModelMemory = 46
    Driver_WrongBaseAddress = 47
    Model_IsNotSupportedHardware = 48
    Driver_LockCore = 49
    Driver_UnlockCore = 50
    Model_InvalidNPUDtype = 51
    Model_InvalidRmemType = 52
    Model_CacheOverflow = 53
    Model_NoCache = 54
    Model_AsyncPipelineCheckFailed = 55
    Model_AsyncPipelineNotAlive = 56
    Model_AsyncPipelineTimeout = 57
    Future_NotValid = 58
    Model_InvalidSupplementary = 59
    Model_NumCacheMismatched = 60
    Model_FailedToFindDirectory = 61
    Model_FailedToOpenCacheFile = 62
    Model_BufferSizeMismatched = 63
    Model_InvalidVariantIdx = 64
    Model_AlreadyLaunched = 65
    InvalidArgument = 1000
    Acc_DeviceNotFound = 1001
    Acc_AmbiguousDeviceName = 1002
    Acc_PermissionDenied = 1003
    Acc_DeviceLost = 1004
    Acc_VersionMismatch = 1005
    Acc_DriverProtocol = 1006
    PinnedMemory_NotAvailable = 1010
    PinnedMemory_OutOfBounds = 1011
    PinnedMemory_NotContiguous = 1012
    PinnedMemory_InUse = 1013
    PinnedMemory_WrongAccelerator = 1014
    PinnedMemory_Aliased = 1015
    PinnedMemory_ReadOnly = 1016
    Model_InputCountMismatched = 1030
    Model_OutputCountMismatched = 1031
    NPUData_WrongResidency = 1051
    Cancelled = 1060
    TimedOut = 1061
    WouldBlock = 1062
    Interrupted = 1063
    ForkedProcess = 1065
    NotFound = 1067
    Stream_Failed = 1100
    Stream_Gone = 1101
    Stream_Capturing = 1102
    Event_NotRecorded = 1110
    Event_NoTiming = 1111
    Event_NotReady = 1112
    Event_PeerGone = 1113
    Bridge_DeviceMismatch = 1120
    Bridge_NoDriver = 1121
    Tensor_Refused = 1200
    Tensor_ReadOnly = 1201
    Tensor_Invalid = 1202
    Model_FormatTooNew = 1300
    Model_ProgramRejected = 1301
    Model_StateInvalid = 1305

class CoreId:
    def __init__(
        self, cluster: Cluster | int = ..., core: Core | int = ...
    ) -> None: ...
    @property
    def cluster(self) -> Cluster: ...
    @cluster.setter
    def cluster(self, value: Cluster | int) -> None: ...
    @property
    def core(self) -> Core: ...
    @core.setter
    def core(self, value: Core | int) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __lt__(self, other: CoreId) -> bool: ...
    def __hash__(self) -> int: ...

class Scale:
    scale: float
    is_uniform: bool
    scale_list: list[float]
    zero_point: int
    is_asymmetric: bool
    def __init__(
        self,
        scale: float,
        is_uniform: bool,
        scale_list: list[float] | tuple[float, ...],
        zero_point: int = 0,
        is_asymmetric: bool = False,
    ) -> None: ...
    @property
    def zero_points(self) -> list[int]: ...
    def __getitem__(self, channel: int) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    __hash__: None  # type: ignore[assignment]

class _BufferInfo(NamedTuple):
    original_height: int
    original_width: int
    original_channel: int
    reshaped_height: int
    reshaped_width: int
    reshaped_channel: int
    height: int
    width: int
    channel: int
    max_height: int
    max_width: int
    max_channel: int
    max_cache_size: int

class BufferInfo(_BufferInfo):
    def original_shape(self) -> tuple[int, int, int]: ...
    def original_shape_chw(self) -> tuple[int, int, int]: ...
    def original_size(self) -> int: ...
    def reshaped_shape(self) -> tuple[int, int, int]: ...
    def reshaped_shape_chw(self) -> tuple[int, int, int]: ...
    def reshaped_size(self) -> int: ...
    def shape(self) -> tuple[int, int, int]: ...
    def shape_chw(self) -> tuple[int, int, int]: ...
    def size(self) -> int: ...

class CacheInfo(NamedTuple):
    cache_type: CacheType
    name: str
    layer_hash: str
    size: int
    num_batches: int

class DeviceInfo(NamedTuple):
    id: str
    name: str
    number: int
    kind: str
    family: str | None
    product: str | None
    clusters: int
    local_cores_per_cluster: int
    global_cores_per_cluster: int
    core_modes: list[CoreMode]
    dtypes: list[DataType]
    memory_total: int
    memory_free: int
    pinned_limit: int
    contiguity_classes: list[str]
    driver: str | None
    driver_version: str | None
    uapi_version: str | None
    firmware: str | None
    bus: str | None
    node: str | None
    numa_node: int | None
    container_versions: tuple[str, str]
    serial: str | None
    uuid: str | None
    state: str | None
    contiguous_free: int
    isa_version: str
    isa_features: list[str]
    features: list[str]
    backends: list[str]
    limits: DeviceLimits

class DeviceLimits(NamedTuple):
    max_jobs: int
    max_queues: int
    max_bindings: int
    max_programs: int
    max_program_nbytes: int
    max_pinned_nbytes: int
    default_job_time_ns: int
    max_job_time_ns: int

class Reading(NamedTuple):
    id: int
    name: str
    place: int
    value: int

class CoreState(NamedTuple):
    core_id: CoreId
    activity: str
    queued: int
    jobs: int
    busy_time_ns: int
    resets: int

class DeviceEvent(NamedTuple):
    sequence: int
    time_ns: int
    kind: str
    status: StatusCode
    core_id: CoreId | None
    args: tuple[int, int]

class FirmwareInfo(NamedTuple):
    version: str | None
    build: str | None
    crc: int | None
    is_secure: bool
    heartbeat_ns: int | None
    uptime_ns: int | None
