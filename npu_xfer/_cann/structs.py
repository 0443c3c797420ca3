"""The structs, unions and callback types of the ACL C ABI, as ctypes types.

A class `X` is the C type `aclrtX`, with the same fields in the same order; a test compiles sizes, offsets and
types of all of them against native/acl/abi.h. Enum fields are plain ints here, as in ctypes calls.

The caller keeps a callback object alive while the runtime may call it; calling the type without an argument
makes a NULL one.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_int,
    c_int32,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar

__all__ = [
    "Callback",
    "DeviceStateCallback",
    "ErrorInfo",
    "ErrorInfoDetail",
    "ExceptionInfoCallback",
    "HostFunc",
    "IpcEventHandle",
    "MallocAttrValue",
    "MallocAttribute",
    "MallocConfig",
    "MemLocation",
    "MemUceInfo",
    "MemUceInfoArray",
    "MemUsageInfo",
    "MemcpyBatchAttr",
    "PtrAttributes",
    "StreamAttrValue",
    "StreamStateCallback",
    "UtilizationInfo",
    "Uuid",
]


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
    rsv: Any


class MemcpyBatchAttr(Structure):
    """aclrtMemcpyBatchAttr: where both sides of some copies of a batch are. `rsv` must be zero."""

    _fields_: ClassVar = [("dstLoc", MemLocation), ("srcLoc", MemLocation), ("rsv", c_uint8 * 16)]

    dstLoc: MemLocation
    srcLoc: MemLocation
    rsv: Any


class StreamAttrValue(Union):
    """aclrtStreamAttrValue: the member that belongs to the `StreamAttr`."""

    _fields_: ClassVar = [
        ("failureMode", c_uint64),
        ("overflowSwitch", c_uint32),
        ("userCustomTag", c_uint32),
        ("cacheOpInfoSwitch", c_uint32),
        ("streamPriority", c_uint32),
        ("reserve", c_uint32 * 4),
    ]


class Uuid(Structure):
    """aclrtUuid."""

    _fields_: ClassVar = [("bytes", c_char * 16)]


class UtilizationInfo(Structure):
    """aclrtUtilizationInfo, each in percent. `utilizationExtend` is reserved and stays NULL."""

    _fields_: ClassVar = [
        ("cubeUtilization", c_int32),
        ("vectorUtilization", c_int32),
        ("aicpuUtilization", c_int32),
        ("memoryUtilization", c_int32),
        ("utilizationExtend", c_void_p),
    ]

    cubeUtilization: int
    vectorUtilization: int
    aicpuUtilization: int
    memoryUtilization: int
    utilizationExtend: int | None


class MallocAttrValue(Union):
    """aclrtMallocAttrValue: the member that belongs to the `MallocAttrType`."""

    _fields_: ClassVar = [
        ("moduleId", c_uint16),
        ("deviceId", c_uint32),
        ("vaFlag", c_uint32),
        ("rsv", c_uint8 * 8),
    ]

    moduleId: int
    deviceId: int
    vaFlag: int
    rsv: Any


class MallocAttribute(Structure):
    """aclrtMallocAttribute."""

    _fields_: ClassVar = [("attr", c_int), ("value", MallocAttrValue)]

    attr: int
    value: MallocAttrValue


class MallocConfig(Structure):
    """aclrtMallocConfig: a list of attributes, which the caller keeps until the call returns."""

    _fields_: ClassVar = [("attrs", POINTER(MallocAttribute)), ("numAttrs", c_size_t)]

    attrs: Any
    numAttrs: int


class MemUsageInfo(Structure):
    """aclrtMemUsageInfo: what one component of CANN uses, in bytes."""

    _fields_: ClassVar = [
        ("name", c_char * 32),
        ("curMemSize", c_uint64),
        ("memPeakSize", c_uint64),
        ("reserved", c_size_t * 8),
    ]

    name: bytes
    curMemSize: int
    memPeakSize: int


class IpcEventHandle(Structure):
    """aclrtIpcEventHandle: plain bytes that another process on the same host may open."""

    _fields_: ClassVar = [("reserved", c_char * 64)]


class MemUceInfo(Structure):
    """aclrtMemUceInfo: one range of device memory with an uncorrectable error."""

    _fields_: ClassVar = [("addr", c_void_p), ("len", c_size_t), ("reserved", c_size_t * 14)]

    addr: int | None
    len: int
    reserved: Any


class MemUceInfoArray(Structure):
    """aclrtMemUceInfoArray: `arraySize` of the ranges are filled in."""

    _fields_: ClassVar = [("arraySize", c_size_t), ("memUceInfoArray", MemUceInfo * 20)]

    arraySize: int
    memUceInfoArray: Any


class ErrorInfoDetail(Union):
    """aclrtErrorInfoDetail: the member that belongs to the `ErrorType`."""

    _fields_: ClassVar = [("uceInfo", MemUceInfoArray), ("aicoreErrType", c_int)]

    uceInfo: MemUceInfoArray
    aicoreErrType: int


class ErrorInfo(Structure):
    """aclrtErrorInfo: what went wrong on a device; aclrtRepairError takes it back."""

    _fields_: ClassVar = [
        ("tryRepair", c_uint8),
        ("hasDetail", c_uint8),
        ("reserved", c_uint8 * 2),
        ("errorType", c_int),
        ("detail", ErrorInfoDetail),
    ]

    tryRepair: int
    hasDetail: int
    errorType: int
    detail: ErrorInfoDetail


Callback = ctypes.CFUNCTYPE(None, c_void_p)
"""aclrtCallback, given to aclrtLaunchCallback; runs inside aclrtProcessReport."""

HostFunc = Callback
"""aclrtHostFunc, given to aclrtLaunchHostFunc; runs on a thread of the runtime without a context."""

ExceptionInfoCallback = ctypes.CFUNCTYPE(None, c_void_p)
"""aclrtExceptionInfoCallback, called for each failed device task on a thread of the runtime."""

StreamStateCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)
"""aclrtStreamStateCallback(stream, state, args)."""

DeviceStateCallback = ctypes.CFUNCTYPE(None, c_int32, c_int, c_void_p)
"""aclrtDeviceStateCallback(device, state, args)."""
