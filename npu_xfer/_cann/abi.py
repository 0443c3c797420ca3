"""The part of the ACL C ABI that this project uses, for ctypes: enums, structs, one table of prototypes.

The table has the same rows in the same order as native/acl/symbols.def, and a test compares the two.
Nothing is loaded here.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PROTOTYPES",
    "DeviceStatus",
    "EventFlag",
    "EventRecordedStatus",
    "EventStatus",
    "EventWaitStatus",
    "ExceptionInfoCallback",
    "LastErrLevel",
    "MallocPolicy",
    "MemAttr",
    "MemLocation",
    "MemLocationType",
    "MemcpyKind",
    "Prototype",
    "PtrAttributes",
    "RunMode",
    "StreamFlag",
    "StreamStatus",
]


class RunMode(enum.IntEnum):
    """Where this process runs (aclrtRunMode)."""

    DEVICE = 0
    HOST = 1


class MemcpyKind(enum.IntEnum):
    """Direction of a copy (aclrtMemcpyKind)."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    HOST_TO_BUF_TO_DEVICE = 5
    INNER_DEVICE_TO_DEVICE = 6
    INTER_DEVICE_TO_DEVICE = 7


class MallocPolicy(enum.IntEnum):
    """Page size and peer access of device memory (aclrtMemMallocPolicy)."""

    HUGE_FIRST = 0
    HUGE_ONLY = 1
    NORMAL_ONLY = 2
    HUGE_FIRST_P2P = 3
    HUGE_ONLY_P2P = 4
    NORMAL_ONLY_P2P = 5
    HUGE1G_ONLY = 6
    HUGE1G_ONLY_P2P = 7


class EventStatus(enum.IntEnum):
    """Answer of the deprecated aclrtQueryEvent. Its numbers are the reverse of `EventRecordedStatus`."""

    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 2


class EventRecordedStatus(enum.IntEnum):
    """Answer of aclrtQueryEventStatus. Its numbers are the reverse of `EventStatus`."""

    NOT_READY = 0
    COMPLETE = 1


class EventWaitStatus(enum.IntEnum):
    """Answer of aclrtQueryEventWaitStatus."""

    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 0xFFFF


class StreamStatus(enum.IntEnum):
    """Answer of aclrtStreamQuery."""

    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 0xFFFF


class EventFlag(enum.IntFlag):
    """What an event is for. Without SYNC no stream can wait for it. IPC, EXTERNAL and DEVICE_USE_ONLY each
    stand alone."""

    SYNC = 0x1
    CAPTURE_STREAM_PROGRESS = 0x2
    TIME_LINE = 0x8
    DEVICE_USE_ONLY = 0x10
    EXTERNAL = 0x20
    IPC = 0x40


class StreamFlag(enum.IntFlag):
    """Flags of aclrtCreateStreamWithConfig."""

    FAST_LAUNCH = 0x1
    FAST_SYNC = 0x2
    PERSISTENT = 0x4
    HUGE = 0x8
    CPU_SCHEDULE = 0x10
    DEVICE_USE_ONLY = 0x20


class MemLocationType(enum.IntEnum):
    """Where an address lives (aclrtMemLocationType). Ordinary host memory is UNREGISTERED."""

    HOST = 0
    DEVICE = 1
    UNREGISTERED = 2
    MANAGED = 3
    HOST_NUMA = 4


class MemAttr(enum.IntEnum):
    """Which memory aclrtGetMemInfo reports (aclrtMemAttr)."""

    DDR_MEM = 0
    HBM_MEM = 1
    DDR_MEM_HUGE = 2
    DDR_MEM_NORMAL = 3
    HBM_MEM_HUGE = 4
    HBM_MEM_NORMAL = 5
    DDR_MEM_P2P_HUGE = 6
    DDR_MEM_P2P_NORMAL = 7
    HBM_MEM_P2P_HUGE = 8
    HBM_MEM_P2P_NORMAL = 9
    HBM_MEM_HUGE1G = 10
    HBM_MEM_P2P_HUGE1G = 11
    MEM_NORMAL = 12
    MEM_HUGE = 13
    MEM_HUGE1G = 14
    MEM_P2P_NORMAL = 15
    MEM_P2P_HUGE = 16
    MEM_P2P_HUGE1G = 17


class LastErrLevel(enum.IntEnum):
    """Scope of aclrtPeekAtLastError (aclrtLastErrLevel)."""

    THREAD = 0


class DeviceStatus(enum.IntEnum):
    """Answer of aclrtQueryDeviceStatus."""

    NORMAL = 0
    ABNORMAL = 1
    END = 0xFFFF


class MemLocation(Structure):
    """aclrtMemLocation: the device number comes first, then what kind of place it is."""

    _fields_: ClassVar = [("id", c_uint32), ("type", c_int)]

    id: int
    type: int


class PtrAttributes(Structure):
    """aclrtPtrAttributes. `pageSize` is in bytes."""

    _fields_: ClassVar = [("location", MemLocation), ("pageSize", c_uint32), ("rsv", c_uint32 * 4)]

    location: MemLocation
    pageSize: int


ExceptionInfoCallback = ctypes.CFUNCTYPE(None, c_void_p)
"""C type of the callback for failed device tasks; calling it without an argument makes a NULL one.
The runtime calls it on a thread of its own, and the caller keeps the object alive while it is set."""


@dataclass(frozen=True, slots=True)
class Prototype:
    """One function of the ACL library. `restype` and `argtypes` are ctypes types."""

    restype: Any
    argtypes: tuple[Any, ...]

    must: bool
    """True when a library without this function is refused; otherwise a caller asks first."""

    since: str
    """Oldest CANN release known to have it; "8.5.0" may mean older for the open runtime's own functions."""

    @property
    def need(self) -> str:
        """The word of symbols.def: "MUST" or "MAY"."""
        return "MUST" if self.must else "MAY"


def _must(since: str, *argtypes: Any, restype: Any = c_int) -> Prototype:
    return Prototype(restype, argtypes, must=True, since=since)


def _may(since: str, *argtypes: Any, restype: Any = c_int) -> Prototype:
    return Prototype(restype, argtypes, must=False, since=since)


_HANDLE = c_void_p  # stream, event, context
_ENUM = c_int  # ACL enums are int sized
_OUT_HANDLE = POINTER(c_void_p)
_OUT_ENUM = POINTER(c_int)
_OUT_I32 = POINTER(c_int32)
_OUT_U32 = POINTER(c_uint32)
_OUT_U64 = POINTER(c_uint64)
_OUT_SIZE = POINTER(c_size_t)
_OUT_FLOAT = POINTER(c_float)
_CALLBACK = ExceptionInfoCallback

PROTOTYPES: Mapping[str, Prototype] = MappingProxyType(
    {
        # Initialisation, errors, versions
        "aclInit": _must("7.0.0", c_char_p),
        "aclFinalize": _must("7.0.0"),
        "aclFinalizeReference": _may("8.5.0", _OUT_U64),
        "aclGetRecentErrMsg": _must("7.0.0", restype=c_char_p),
        "aclrtPeekAtLastError": _may("8.0.0", _ENUM),
        "aclrtGetLastError": _may("8.0.0", _ENUM),
        "aclrtGetVersion": _may("7.0.0", _OUT_I32, _OUT_I32, _OUT_I32),
        "aclsysGetVersionStr": _may("8.5.0", c_char_p, c_char_p),
        "aclrtGetSocName": _must("7.0.0", restype=c_char_p),
        # Devices and contexts
        "aclrtSetDevice": _must("7.0.0", c_int32),
        "aclrtResetDevice": _must("7.0.0", c_int32),
        "aclrtResetDeviceForce": _may("8.5.0", c_int32),
        "aclrtGetDevice": _must("7.0.0", _OUT_I32),
        "aclrtGetDeviceCount": _must("7.0.0", _OUT_U32),
        "aclrtGetRunMode": _must("7.0.0", _OUT_ENUM),
        "aclrtSynchronizeDevice": _must("7.0.0"),
        "aclrtQueryDeviceStatus": _may("7.0.0", c_int32, _OUT_ENUM),
        "aclrtCreateContext": _must("7.0.0", _OUT_HANDLE, c_int32),
        "aclrtDestroyContext": _must("7.0.0", _HANDLE),
        "aclrtSetCurrentContext": _must("7.0.0", _HANDLE),
        "aclrtGetCurrentContext": _must("7.0.0", _OUT_HANDLE),
        # Streams
        "aclrtCreateStream": _must("7.0.0", _OUT_HANDLE),
        "aclrtCreateStreamWithConfig": _must("7.0.0", _OUT_HANDLE, c_uint32, c_uint32),
        "aclrtDestroyStream": _must("7.0.0", _HANDLE),
        "aclrtDestroyStreamForce": _must("7.0.0", _HANDLE),
        "aclrtSynchronizeStream": _must("7.0.0", _HANDLE),
        "aclrtSynchronizeStreamWithTimeout": _must("7.0.0", _HANDLE, c_int32),
        "aclrtStreamQuery": _must("7.0.0", _HANDLE, _OUT_ENUM),
        "aclrtStreamGetId": _may("8.5.0", _HANDLE, _OUT_I32),
        # Events
        "aclrtCreateEvent": _must("7.0.0", _OUT_HANDLE),
        "aclrtCreateEventWithFlag": _must("7.0.0", _OUT_HANDLE, c_uint32),
        "aclrtCreateEventExWithFlag": _may("8.0.RC1", _OUT_HANDLE, c_uint32),
        "aclrtDestroyEvent": _must("7.0.0", _HANDLE),
        "aclrtRecordEvent": _must("7.0.0", _HANDLE, _HANDLE),
        "aclrtResetEvent": _must("7.0.0", _HANDLE, _HANDLE),
        "aclrtQueryEvent": _may("7.0.0", _HANDLE, _OUT_ENUM),
        "aclrtQueryEventStatus": _must("7.0.0", _HANDLE, _OUT_ENUM),
        "aclrtQueryEventWaitStatus": _may("7.0.0", _HANDLE, _OUT_ENUM),
        "aclrtSynchronizeEvent": _must("7.0.0", _HANDLE),
        "aclrtSynchronizeEventWithTimeout": _may("8.5.0", _HANDLE, c_int32),
        "aclrtEventElapsedTime": _may("7.0.0", _OUT_FLOAT, _HANDLE, _HANDLE),
        "aclrtStreamWaitEvent": _must("7.0.0", _HANDLE, _HANDLE),
        # Memory
        "aclrtMalloc": _must("7.0.0", _OUT_HANDLE, c_size_t, _ENUM),
        "aclrtFree": _must("7.0.0", c_void_p),
        "aclrtMallocHost": _must("7.0.0", _OUT_HANDLE, c_size_t),
        "aclrtFreeHost": _must("7.0.0", c_void_p),
        "aclrtMemset": _must("7.0.0", c_void_p, c_size_t, c_int32, c_size_t),
        "aclrtMemsetAsync": _must("7.0.0", c_void_p, c_size_t, c_int32, c_size_t, _HANDLE),
        "aclrtMemcpy": _must("7.0.0", c_void_p, c_size_t, c_void_p, c_size_t, _ENUM),
        "aclrtMemcpyAsync": _must("7.0.0", c_void_p, c_size_t, c_void_p, c_size_t, _ENUM, _HANDLE),
        "aclrtPointerGetAttributes": _may("8.5.0", c_void_p, POINTER(PtrAttributes)),
        "aclrtGetMemInfo": _must("7.0.0", _ENUM, _OUT_SIZE, _OUT_SIZE),
        # Which asynchronous copy failed
        "aclrtSetExceptionInfoCallback": _may("7.0.0", _CALLBACK),
        "aclrtExceptionInfoCallbackRegister": _may("9.2.0", _CALLBACK),
        "aclrtExceptionInfoCallbackUnregister": _may("9.2.0", _CALLBACK),
        "aclrtGetTaskIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetStreamIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetThreadIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetDeviceIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetErrorCodeFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetThreadLastTaskId": _may("8.5.0", _OUT_U32),
    }
)
