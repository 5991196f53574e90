# SPDX-License-Identifier: MIT
"""The base of all enumerations, and the largest of them."""

import enum
from collections.abc import Iterator


class _Enum(enum.IntEnum):
    """Members are ints; their text is Class.Member on every Python."""

    def __str__(self) -> str:
        return f"{self.__class__.__name__}.{self.name}"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


# From 0 on the vendor's names; a dash is no status.
_VENDOR_CODES = """
OK Driver_NotInitialized Model_NoTargetCores Model_FailedToLoadMXQ
Model_FailedToOpenScaleFile Model_InvalidScaleValue Model_FailedToOpenOutputScale
Model_InvalidOutputScaleValue Model_FailedToOpenSectionBinary Model_NotLaunched
Model_NotAlive Acc_CoreAlreadyInUse Acc_NoSuchModel Driver_FailedToAllocateHostMemory
Driver_WriteMemoryBuffer Driver_ReadMemoryBuffer Model_MXQAndModelConfigNotMatch
Model_NoGlobalCoreWithGlobalMultiMode NotImplemented Model_FailedToOpenModelDescFile
Model_BrokenMXQ Model_ShapeMismatched Model_DtypeMismatched InternalError
Driver_ClaimCores Driver_UnclaimCores Model_IsPacked Model_IsNotPacked
Acc_TaskQueueNotFound MemoryPool_BufNotFound MemoryPool_AllocatorNotSet -
Model_FailedToAllocMemory Driver_PostInfer Driver_WaitDone Driver_WaitDoneTimeout
Model_PredictError Model_FailedToSaveTensor Model_UnexpectedMemoryFormat BadAlloc
Model_TaskQueueClosed Model_TaskQueueTimeout Acc_NPUTimeout Acc_NoIMemInitFound
Driver_AllocateModelMemory Driver_BuildCmaIoReq Driver_FreeModelMemory
Driver_WrongBaseAddress Model_IsNotSupportedHardware Driver_LockCore Driver_UnlockCore
Model_InvalidNPUDtype Model_InvalidRmemType Model_CacheOverflow Model_NoCache
Model_AsyncPipelineCheckFailed Model_AsyncPipelineNotAlive Model_AsyncPipelineTimeout
Future_NotValid Model_InvalidSupplementary Model_NumCacheMismatched
Model_FailedToFindDirectory Model_FailedToOpenCacheFile Model_BufferSizeMismatched
Model_InvalidVariantIdx Model_AlreadyLaunched
"""
# Our own.
_CODES = """
1000 InvalidArgument 1001 Acc_DeviceNotFound 1002 Acc_AmbiguousDeviceName
1003 Acc_PermissionDenied 1004 Acc_DeviceLost 1005 Acc_VersionMismatch
1006 Acc_DriverProtocol 1010 PinnedMemory_NotAvailable 1011 PinnedMemory_OutOfBounds
1012 PinnedMemory_NotContiguous 1013 PinnedMemory_InUse
1014 PinnedMemory_WrongAccelerator 1015 PinnedMemory_Aliased
1016 PinnedMemory_ReadOnly 1030 Model_InputCountMismatched
1031 Model_OutputCountMismatched 1051 NPUData_WrongResidency 1060 Cancelled
1061 TimedOut 1062 WouldBlock 1063 Interrupted 1065 ForkedProcess 1067 NotFound
1100 Stream_Failed 1101 Stream_Gone 1102 Stream_Capturing 1110 Event_NotRecorded
1111 Event_NoTiming 1112 Event_NotReady 1113 Event_PeerGone
1120 Bridge_DeviceMismatch 1121 Bridge_NoDriver 1200 Tensor_Refused
1201 Tensor_ReadOnly 1202 Tensor_Invalid 1300 Model_FormatTooNew
1301 Model_ProgramRejected 1305 Model_StateInvalid
"""


def _list_codes() -> Iterator[tuple[str, int]]:
    for code, name in enumerate(_VENDOR_CODES.split()):
        if name != "-":
            yield name, code
    words = _CODES.split()
    for number, name in zip(words[::2], words[1::2]):
        yield name, int(number)


# type.pyi lists the members for type checkers
StatusCode = _Enum(  # type: ignore[call-arg]
    "StatusCode", list(_list_codes()), module="qbruntime.type"  # type: ignore[arg-type]
)
StatusCode.__doc__ = "How a call ended: QbRuntimeError.status."
