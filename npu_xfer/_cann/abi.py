"""The functions of the ACL C ABI that this project uses, for ctypes: one table of prototypes.

The table has the same rows in the same order as native/acl/symbols.def, and a test compiles each row against
the C declaration. The types come from `enums` and `structs`, whose names are offered here too. Nothing is
loaded here.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from npu_xfer._cann import enums, structs
from npu_xfer._cann.enums import *  # noqa: F403  # one place to import the whole ABI from
from npu_xfer._cann.structs import *  # noqa: F403  # the same

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROTOTYPES", "Prototype"]
__all__ += enums.__all__
__all__ += structs.__all__


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


_HANDLE = c_void_p  # stream, event, context, notify
_ENUM = c_int  # ACL enums are int sized
_OUT_HANDLE = POINTER(c_void_p)  # also an array of addresses
_OUT_ENUM = POINTER(c_int)
_OUT_I32 = POINTER(c_int32)
_OUT_U32 = POINTER(c_uint32)
_OUT_I64 = POINTER(c_int64)
_OUT_U64 = POINTER(c_uint64)
_OUT_SIZE = POINTER(c_size_t)
_OUT_FLOAT = POINTER(c_float)

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
        "aclsysGetVersionNum": _may("8.5.0", c_char_p, _OUT_I32),
        "aclrtGetErrorVerbose": _may("8.5.0", c_int32, POINTER(structs.ErrorInfo)),
        "aclrtRepairError": _may("8.5.0", c_int32, POINTER(structs.ErrorInfo)),
        "aclrtGetMemUceInfo": _may("8.0.0", c_int32, POINTER(structs.MemUceInfo), c_size_t, _OUT_SIZE),
        "aclrtMemUceRepair": _may("8.0.0", c_int32, POINTER(structs.MemUceInfo), c_size_t),
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
        "aclrtSynchronizeDeviceWithTimeout": _may("8.5.0", c_int32),
        "aclrtGetDeviceInfo": _may("8.5.0", c_uint32, _ENUM, _OUT_I64),
        "aclrtGetDeviceCapability": _may("8.5.0", c_int32, _ENUM, _OUT_I32),
        "aclrtDeviceGetUuid": _may("8.5.0", c_int32, POINTER(structs.Uuid)),
        "aclrtDeviceGetStreamPriorityRange": _may("8.5.0", _OUT_I32, _OUT_I32),
        "aclrtDeviceTaskAbort": _may("8.0.0", c_int32, c_uint32),
        "aclrtDeviceSetLimit": _may("9.2.0", _ENUM, c_size_t),
        "aclrtDeviceGetLimit": _may("9.2.0", _ENUM, _OUT_SIZE),
        "aclrtDeviceGetPCIBusId": _may("9.2.0", c_int32, c_char_p, c_int32),
        "aclrtDeviceGetByPCIBusId": _may("9.2.0", c_char_p, _OUT_I32),
        "aclrtGetDevicesTopo": _may("8.5.0", c_uint32, c_uint32, _OUT_U64),
        "aclrtDeviceCanAccessPeer": _may("7.0.0", _OUT_I32, c_int32, c_int32),
        "aclrtDeviceEnablePeerAccess": _may("7.0.0", c_int32, c_uint32),
        "aclrtDeviceDisablePeerAccess": _may("7.0.0", c_int32),
        "aclrtDevicePeerAccessStatus": _may("8.5.0", c_int32, c_int32, _OUT_I32),
        "aclrtRegDeviceStateCallback": _may("8.5.0", c_char_p, structs.DeviceStateCallback, c_void_p),
        "aclrtGetDeviceResLimit": _may("8.5.0", c_int32, _ENUM, _OUT_U32),
        "aclrtSetDeviceResLimit": _may("8.5.0", c_int32, _ENUM, c_uint32),
        "aclrtResetDeviceResLimit": _may("8.5.0", c_int32),
        "aclrtGetResInCurrentThread": _may("8.5.0", _ENUM, _OUT_U32),
        "aclrtGetDeviceUtilizationRate": _may("7.0.0", c_int32, POINTER(structs.UtilizationInfo)),
        "aclrtCtxGetCurrentDefaultStream": _may("8.5.0", _OUT_HANDLE),
        "aclrtGetPrimaryCtxState": _may("8.5.0", c_int32, _OUT_U32, _OUT_I32),
        # Streams
        "aclrtCreateStream": _must("7.0.0", _OUT_HANDLE),
        "aclrtCreateStreamWithConfig": _must("7.0.0", _OUT_HANDLE, c_uint32, c_uint32),
        "aclrtDestroyStream": _must("7.0.0", _HANDLE),
        "aclrtDestroyStreamForce": _must("7.0.0", _HANDLE),
        "aclrtSynchronizeStream": _must("7.0.0", _HANDLE),
        "aclrtSynchronizeStreamWithTimeout": _must("7.0.0", _HANDLE, c_int32),
        "aclrtStreamQuery": _must("7.0.0", _HANDLE, _OUT_ENUM),
        "aclrtStreamGetId": _may("8.5.0", _HANDLE, _OUT_I32),
        "aclrtStreamAbort": _may("8.5.0", _HANDLE),
        "aclrtStreamStop": _may("8.5.0", _HANDLE),
        "aclrtSetStreamFailureMode": _may("7.0.0", _HANDLE, c_uint64),
        "aclrtSetStreamAttribute": _may("8.5.0", _HANDLE, _ENUM, POINTER(structs.StreamAttrValue)),
        "aclrtGetStreamAttribute": _may("8.5.0", _HANDLE, _ENUM, POINTER(structs.StreamAttrValue)),
        "aclrtGetStreamAvailableNum": _may("8.5.0", _OUT_U32),
        "aclrtStreamGetPriority": _may("8.5.0", _HANDLE, _OUT_U32),
        "aclrtStreamGetFlags": _may("8.5.0", _HANDLE, _OUT_U32),
        "aclrtRegStreamStateCallback": _may("8.5.0", c_char_p, structs.StreamStateCallback, c_void_p),
        # Events, and the time limits of waits
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
        "aclrtRecordEventWithFlag": _may("9.2.0", _HANDLE, _HANDLE, c_uint32),
        "aclrtEventGetTimestamp": _may("8.5.0", _HANDLE, _OUT_U64),
        "aclrtStreamWaitEventWithTimeout": _may("8.5.0", _HANDLE, _HANDLE, c_int32),
        "aclrtStreamWaitEventWithFlag": _may("9.2.0", _HANDLE, _HANDLE, c_uint32, c_uint32),
        "aclrtGetEventId": _may("8.5.0", _HANDLE, _OUT_U32),
        "aclrtGetEventAvailNum": _may("8.5.0", _OUT_U32),
        "aclrtIpcGetEventHandle": _may("8.5.0", _HANDLE, POINTER(structs.IpcEventHandle)),
        "aclrtIpcOpenEventHandle": _may("8.5.0", structs.IpcEventHandle, _OUT_HANDLE),
        "aclrtSetOpWaitTimeout": _may("7.0.0", c_uint32),
        "aclrtSetOpExecuteTimeOut": _may("7.0.0", c_uint32),
        "aclrtSetOpExecuteTimeOutWithMs": _may("8.5.0", c_uint32),
        "aclrtSetOpExecuteTimeOutV2": _may("8.5.0", c_uint64, _OUT_U64),
        "aclrtGetOpTimeOutInterval": _may("8.5.0", _OUT_U64),
        # Notifies
        "aclrtCreateNotify": _may("8.5.0", _OUT_HANDLE, c_uint64),
        "aclrtDestroyNotify": _may("8.5.0", _HANDLE),
        "aclrtRecordNotify": _may("8.5.0", _HANDLE, _HANDLE),
        "aclrtWaitAndResetNotify": _may("8.5.0", _HANDLE, _HANDLE, c_uint32),
        "aclrtGetNotifyId": _may("8.5.0", _HANDLE, _OUT_U32),
        # Memory
        "aclrtMalloc": _must("7.0.0", _OUT_HANDLE, c_size_t, _ENUM),
        "aclrtFree": _must("7.0.0", c_void_p),
        "aclrtMallocHost": _must("7.0.0", _OUT_HANDLE, c_size_t),
        "aclrtFreeHost": _must("7.0.0", c_void_p),
        "aclrtMemset": _must("7.0.0", c_void_p, c_size_t, c_int32, c_size_t),
        "aclrtMemsetAsync": _must("7.0.0", c_void_p, c_size_t, c_int32, c_size_t, _HANDLE),
        "aclrtMemcpy": _must("7.0.0", c_void_p, c_size_t, c_void_p, c_size_t, _ENUM),
        "aclrtMemcpyAsync": _must("7.0.0", c_void_p, c_size_t, c_void_p, c_size_t, _ENUM, _HANDLE),
        "aclrtPointerGetAttributes": _may("8.5.0", c_void_p, POINTER(structs.PtrAttributes)),
        "aclrtGetMemInfo": _must("7.0.0", _ENUM, _OUT_SIZE, _OUT_SIZE),
        "aclrtMallocAlign32": _may("7.0.0", _OUT_HANDLE, c_size_t, _ENUM),
        "aclrtMallocCached": _may("7.0.0", _OUT_HANDLE, c_size_t, _ENUM),
        "aclrtMallocWithCfg": _may("8.5.0", _OUT_HANDLE, c_size_t, _ENUM, POINTER(structs.MallocConfig)),
        "aclrtMallocHostWithCfg": _may("8.5.0", _OUT_HANDLE, c_uint64, POINTER(structs.MallocConfig)),
        "aclrtFreeWithDevSync": _may("8.5.0", c_void_p),
        "aclrtFreeHostWithDevSync": _may("8.5.0", c_void_p),
        "aclrtHostRegister": _may("8.5.0", c_void_p, c_uint64, _ENUM, _OUT_HANDLE),
        "aclrtHostRegisterV2": _may("8.5.0", c_void_p, c_uint64, c_uint32),
        "aclrtHostUnregister": _may("8.5.0", c_void_p),
        "aclrtHostGetDevicePointer": _may("8.5.0", c_void_p, _OUT_HANDLE, c_uint32),
        "aclrtMemGetAddressRange": _may("9.0.0", c_void_p, _OUT_HANDLE, _OUT_SIZE),
        "aclrtGetMemUsageInfo": _may("8.5.0", c_int32, POINTER(structs.MemUsageInfo), c_size_t, _OUT_SIZE),
        "aclrtMemFlush": _may("7.0.0", c_void_p, c_size_t),
        "aclrtMemInvalidate": _may("7.0.0", c_void_p, c_size_t),
        "aclrtMemsetD32": _may("9.1.0", c_void_p, c_size_t, c_uint32, c_size_t),
        "aclrtMemsetD32Async": _may("9.1.0", c_void_p, c_size_t, c_uint32, c_size_t, _HANDLE),
        "aclrtMemcpyAsyncWithCondition": _may(
            "8.3.RC1", c_void_p, c_size_t, c_void_p, c_size_t, _ENUM, _HANDLE
        ),
        "aclrtMemcpy2d": _may("7.0.0", c_void_p, c_size_t, c_void_p, c_size_t, c_size_t, c_size_t, _ENUM),
        "aclrtMemcpy2dAsync": _may(
            "7.0.0", c_void_p, c_size_t, c_void_p, c_size_t, c_size_t, c_size_t, _ENUM, _HANDLE
        ),
        "aclrtMemcpyBatch": _may(
            "8.3.RC1",
            _OUT_HANDLE,
            _OUT_SIZE,
            _OUT_HANDLE,
            _OUT_SIZE,
            c_size_t,
            POINTER(structs.MemcpyBatchAttr),
            _OUT_SIZE,
            c_size_t,
            _OUT_SIZE,
        ),
        "aclrtMemcpyBatchV2": _may(
            "9.1.0",
            _OUT_HANDLE,
            _OUT_SIZE,
            _OUT_HANDLE,
            _OUT_SIZE,
            c_size_t,
            POINTER(structs.MemcpyBatchAttr),
            _OUT_SIZE,
            c_size_t,
        ),
        "aclrtMemcpyBatchAsync": _may(
            "8.3.RC1",
            _OUT_HANDLE,
            _OUT_SIZE,
            _OUT_HANDLE,
            _OUT_SIZE,
            c_size_t,
            POINTER(structs.MemcpyBatchAttr),
            _OUT_SIZE,
            c_size_t,
            _OUT_SIZE,
            _HANDLE,
        ),
        "aclrtMemcpyBatchAsyncV2": _may(
            "9.1.0",
            _OUT_HANDLE,
            _OUT_SIZE,
            _OUT_HANDLE,
            _OUT_SIZE,
            c_size_t,
            POINTER(structs.MemcpyBatchAttr),
            _OUT_SIZE,
            c_size_t,
            _HANDLE,
        ),
        "aclrtMemcpyAsyncWithOffset": _may(
            "8.5.0", _OUT_HANDLE, c_size_t, c_size_t, _OUT_HANDLE, c_size_t, c_size_t, _ENUM, _HANDLE
        ),
        "aclrtGetMemcpyDescSize": _may("8.5.0", _ENUM, _OUT_SIZE),
        "aclrtSetMemcpyDesc": _may("8.5.0", c_void_p, _ENUM, c_void_p, c_void_p, c_size_t, c_void_p),
        "aclrtMemcpyAsyncWithDesc": _may("8.5.0", c_void_p, _ENUM, _HANDLE),
        "aclrtValueWrite": _may("8.5.0", c_void_p, c_uint64, c_uint32, _HANDLE),
        "aclrtValueWait": _may("8.5.0", c_void_p, c_uint64, c_uint32, _HANDLE),
        # Callbacks on a stream
        "aclrtSubscribeReport": _may("7.0.0", c_uint64, _HANDLE),
        "aclrtUnSubscribeReport": _may("7.0.0", c_uint64, _HANDLE),
        "aclrtLaunchCallback": _may("7.0.0", structs.Callback, c_void_p, _ENUM, _HANDLE),
        "aclrtProcessReport": _may("7.0.0", c_int32),
        "aclrtLaunchHostFunc": _may("8.5.0", _HANDLE, structs.HostFunc, c_void_p),
        # Which asynchronous copy failed
        "aclrtSetExceptionInfoCallback": _may("7.0.0", structs.ExceptionInfoCallback),
        "aclrtExceptionInfoCallbackRegister": _may("9.2.0", structs.ExceptionInfoCallback),
        "aclrtExceptionInfoCallbackUnregister": _may("9.2.0", structs.ExceptionInfoCallback),
        "aclrtGetTaskIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetStreamIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetThreadIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetDeviceIdFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetErrorCodeFromExceptionInfo": _may("7.0.0", c_void_p, restype=c_uint32),
        "aclrtGetThreadLastTaskId": _may("8.5.0", _OUT_U32),
        "aclrtGetArgsFromExceptionInfo": _may("8.5.0", c_void_p, _OUT_HANDLE, _OUT_U32),
        "aclrtGetFuncHandleFromExceptionInfo": _may("8.5.0", c_void_p, _OUT_HANDLE),
    }
)
