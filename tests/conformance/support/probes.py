"""One characteristic call for each ACL function, and the copies whose answers differ between releases.

A probe answers with the code of a harmless call with valid arguments. The table of the answers describes a
library in one page; the tests say which answer is right.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import TYPE_CHECKING, Any

from conformance.support.face import IpcEventHandle, symbols
from conformance.support.kit import WAIT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.support.face import Acl

P = ctypes.c_void_p
N = 4096
CALLBACK = ctypes.CFUNCTYPE(None, P)
STATE_CALLBACK = ctypes.CFUNCTYPE(None, P, ctypes.c_int, P)


class World:
    """Device 0 of two with a few objects. Everything lives until the process ends."""

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self.keep: list[Any] = []
        self.nothing = CALLBACK(lambda _: None)
        self.state = STATE_CALLBACK(lambda *_: None)
        self.thread = threading.get_ident()
        for device in (1, 0):
            self.code("aclrtSetDevice", device)
        self.s, self.other = self.stream(), self.stream()
        self.h, self.h2 = self.pinned(), self.pinned()
        self.d, self.d2 = self.device(), self.device()
        self.e = self.event()
        self.code("aclrtRecordEvent", self.e, self.s)
        self.wait(self.s)

    def has(self, name: str) -> bool:
        """What the library says itself, or whether it exports the function."""
        ask = getattr(self.acl.library, "aclsim_has_function", None)
        return hasattr(self.acl.library, name) and (ask is None or ask(name.encode()) == 1)

    def call(self, name: str, *args: Any) -> Any:
        symbol = symbols()[name]
        function = getattr(self.acl.library, name)
        function.restype, function.argtypes = symbol.result, symbol.parameters
        return function(*args)

    def code(self, name: str, *args: Any) -> int:
        code: int = self.call(name, *args)
        return code

    def made(self, name: str, *args: Any) -> int:
        """What a call with the output first makes; 0 when it fails."""
        value = P()
        self.call(name, ctypes.byref(value), *args)
        return value.value or 0

    def out(self) -> Any:
        """Room for any output."""
        buffer = ctypes.create_string_buffer(8192)
        self.keep.append(buffer)
        return buffer

    def stream(self) -> int:
        return self.made("aclrtCreateStream")

    def event(self) -> int:
        return self.made("aclrtCreateEventWithFlag", 0x9)

    def pinned(self) -> int:
        return self.made("aclrtMallocHost", N)

    def device(self) -> int:
        return self.made("aclrtMalloc", N, 0)

    def pageable(self) -> int:
        area = mmap.mmap(-1, 2 * N)
        view = ctypes.c_char.from_buffer(area)
        self.keep += [area, view]
        return ctypes.addressof(view)

    def registered(self) -> int:
        address = self.pageable()
        self.call("aclrtHostRegisterV2", address, N, 0x2)
        return address

    def wait(self, stream: int | None) -> int:
        return self.code("aclrtSynchronizeStreamWithTimeout", stream, WAIT_MS)

    def subscribed(self, *, launched: bool = False) -> int:
        stream = self.stream()
        self.call("aclrtSubscribeReport", self.thread, stream)
        if launched:
            self.call("aclrtLaunchCallback", self.nothing, None, 0, stream)
        return stream

    def context(self) -> int:
        """A new context that is not current."""
        before = P()
        self.call("aclrtGetCurrentContext", ctypes.byref(before))
        made = self.made("aclrtCreateContext", 0)
        self.call("aclrtSetCurrentContext", before)
        return made

    def current(self) -> int:
        return self.made("aclrtGetCurrentContext")

    def ipc_event(self) -> int:
        """Another event where the chip makes none for two processes: it refuses the calls about them, too."""
        return self.made("aclrtCreateEventExWithFlag", 0x40) or self.event()

    def notify(self, *, recorded: bool = False) -> int:
        notify = self.made("aclrtCreateNotify", 0)
        if recorded:
            self.call("aclrtRecordNotify", notify, self.s)
        return notify

    def batch(self, *tail: Any) -> tuple[Any, ...]:
        """The arguments of a batch with one upload."""
        size, index = ctypes.c_size_t(64), ctypes.c_size_t(0)
        locations = (ctypes.c_uint32 * 8)(0, 1, 0, 0)
        dst, src = P(self.d), P(self.h)
        self.keep += [size, index, locations, dst, src]
        ref = ctypes.byref
        return (ref(dst), ref(size), ref(src), ref(size), 1, locations, ref(index), 1, *tail)


# function -> arguments of a valid call. Functions that are not here are probed in another way below.
VALID: dict[str, Callable[[World], tuple[Any, ...]]] = {
    "aclGetRecentErrMsg": lambda w: (),
    "aclrtPeekAtLastError": lambda w: (0,),
    "aclrtGetLastError": lambda w: (0,),
    "aclrtGetVersion": lambda w: (w.out(), w.out(), w.out()),
    "aclsysGetVersionStr": lambda w: (b"runtime", w.out()),
    "aclrtGetSocName": lambda w: (),
    "aclsysGetVersionNum": lambda w: (b"runtime", w.out()),
    "aclrtGetErrorVerbose": lambda w: (0, w.out()),
    "aclrtRepairError": lambda w: (0, w.out()),
    "aclrtGetMemUceInfo": lambda w: (0, w.out(), 20, w.out()),
    "aclrtMemUceRepair": lambda w: (0, w.out(), 1),
    "aclrtGetDevice": lambda w: (w.out(),),
    "aclrtGetDeviceCount": lambda w: (w.out(),),
    "aclrtGetRunMode": lambda w: (w.out(),),
    "aclrtSynchronizeDevice": lambda w: (),
    "aclrtQueryDeviceStatus": lambda w: (0, w.out()),
    "aclrtDestroyContext": lambda w: (w.context(),),
    "aclrtSetCurrentContext": lambda w: (w.current(),),
    "aclrtGetCurrentContext": lambda w: (w.out(),),
    "aclrtSynchronizeDeviceWithTimeout": lambda w: (WAIT_MS,),
    "aclrtGetDeviceInfo": lambda w: (0, 301, w.out()),
    "aclrtGetDeviceCapability": lambda w: (0, 1, w.out()),
    "aclrtDeviceGetUuid": lambda w: (0, w.out()),
    "aclrtDeviceGetStreamPriorityRange": lambda w: (w.out(), w.out()),
    "aclrtDeviceTaskAbort": lambda w: (0, 1000),
    "aclrtDeviceSetLimit": lambda w: (2, 32768),
    "aclrtDeviceGetLimit": lambda w: (2, w.out()),
    "aclrtDeviceGetPCIBusId": lambda w: (0, w.out(), 64),
    "aclrtDeviceGetByPCIBusId": lambda w: (_bus_id(w), w.out()),
    "aclrtGetDevicesTopo": lambda w: (0, 1, w.out()),
    "aclrtDeviceCanAccessPeer": lambda w: (w.out(), 0, 1),
    "aclrtDeviceEnablePeerAccess": lambda w: (1, 0),
    "aclrtDeviceDisablePeerAccess": lambda w: (1,),
    "aclrtDevicePeerAccessStatus": lambda w: (0, 1, w.out()),
    "aclrtRegDeviceStateCallback": lambda w: (b"probe", w.state, None),
    "aclrtGetDeviceResLimit": lambda w: (0, 0, w.out()),
    "aclrtSetDeviceResLimit": lambda w: (0, 0, 1),
    "aclrtResetDeviceResLimit": lambda w: (0,),
    "aclrtGetResInCurrentThread": lambda w: (0, w.out()),
    "aclrtGetDeviceUtilizationRate": lambda w: (0, w.out()),
    "aclrtCtxGetCurrentDefaultStream": lambda w: (w.out(),),
    "aclrtGetPrimaryCtxState": lambda w: (0, None, w.out()),
    "aclrtCreateStream": lambda w: (w.out(),),
    "aclrtCreateStreamWithConfig": lambda w: (w.out(), 0, 0),
    "aclrtDestroyStream": lambda w: (w.stream(),),
    "aclrtDestroyStreamForce": lambda w: (w.stream(),),
    "aclrtSynchronizeStream": lambda w: (w.s,),
    "aclrtSynchronizeStreamWithTimeout": lambda w: (w.s, WAIT_MS),
    "aclrtStreamQuery": lambda w: (w.s, w.out()),
    "aclrtStreamGetId": lambda w: (w.s, w.out()),
    "aclrtStreamAbort": lambda w: (w.other,),
    "aclrtStreamStop": lambda w: (w.stream(),),
    "aclrtSetStreamFailureMode": lambda w: (w.s, 0),
    "aclrtSetStreamAttribute": lambda w: (w.s, 3, w.out()),
    "aclrtGetStreamAttribute": lambda w: (w.s, 5, w.out()),
    "aclrtGetStreamAvailableNum": lambda w: (w.out(),),
    "aclrtStreamGetPriority": lambda w: (w.s, w.out()),
    "aclrtStreamGetFlags": lambda w: (w.s, w.out()),
    "aclrtRegStreamStateCallback": lambda w: (b"probe", w.state, None),
    "aclrtCreateEvent": lambda w: (w.out(),),
    "aclrtCreateEventWithFlag": lambda w: (w.out(), 1),
    "aclrtCreateEventExWithFlag": lambda w: (w.out(), 1),
    "aclrtDestroyEvent": lambda w: (w.event(),),
    "aclrtRecordEvent": lambda w: (w.e, w.s),
    "aclrtResetEvent": lambda w: (w.e, w.s),
    "aclrtQueryEvent": lambda w: (w.e, w.out()),
    "aclrtQueryEventStatus": lambda w: (w.e, w.out()),
    "aclrtQueryEventWaitStatus": lambda w: (w.e, w.out()),
    "aclrtSynchronizeEvent": lambda w: (w.e,),
    "aclrtSynchronizeEventWithTimeout": lambda w: (w.e, WAIT_MS),
    "aclrtEventElapsedTime": lambda w: (w.out(), w.e, w.e),
    "aclrtStreamWaitEvent": lambda w: (w.other, w.e),
    "aclrtRecordEventWithFlag": lambda w: (w.e, w.s, 0),
    "aclrtEventGetTimestamp": lambda w: (w.e, w.out()),
    "aclrtStreamWaitEventWithTimeout": lambda w: (w.other, w.e, 5),
    "aclrtStreamWaitEventWithFlag": lambda w: (w.other, w.e, 5, 0),
    "aclrtGetEventId": lambda w: (w.e, w.out()),
    "aclrtGetEventAvailNum": lambda w: (w.out(),),
    "aclrtIpcGetEventHandle": lambda w: (w.ipc_event(), w.out()),
    "aclrtSetOpWaitTimeout": lambda w: (0,),
    "aclrtSetOpExecuteTimeOut": lambda w: (60,),
    "aclrtSetOpExecuteTimeOutWithMs": lambda w: (60_000,),
    "aclrtSetOpExecuteTimeOutV2": lambda w: (60_000_000, w.out()),
    "aclrtGetOpTimeOutInterval": lambda w: (w.out(),),
    "aclrtCreateNotify": lambda w: (w.out(), 0),
    "aclrtDestroyNotify": lambda w: (w.notify(),),
    "aclrtRecordNotify": lambda w: (w.notify(), w.s),
    "aclrtWaitAndResetNotify": lambda w: (w.notify(recorded=True), w.other, 5),
    "aclrtGetNotifyId": lambda w: (w.notify(), w.out()),
    "aclrtMalloc": lambda w: (w.out(), N, 0),
    "aclrtFree": lambda w: (w.device(),),
    "aclrtMallocHost": lambda w: (w.out(), N),
    "aclrtFreeHost": lambda w: (w.pinned(),),
    "aclrtMemset": lambda w: (w.d, N, 0, N),
    "aclrtMemsetAsync": lambda w: (w.d, N, 0, N, w.s),
    "aclrtMemcpy": lambda w: (w.d, N, w.h, N, 1),
    "aclrtMemcpyAsync": lambda w: (w.d, N, w.h, N, 1, w.s),
    "aclrtPointerGetAttributes": lambda w: (w.d, w.out()),
    "aclrtGetMemInfo": lambda w: (1, w.out(), w.out()),
    "aclrtMallocAlign32": lambda w: (w.out(), N, 0),
    "aclrtMallocCached": lambda w: (w.out(), N, 0),
    "aclrtMallocWithCfg": lambda w: (w.out(), N, 0, None),
    "aclrtMallocHostWithCfg": lambda w: (w.out(), N, None),
    "aclrtFreeWithDevSync": lambda w: (w.device(),),
    "aclrtFreeHostWithDevSync": lambda w: (w.pinned(),),
    "aclrtHostRegister": lambda w: (w.pageable(), N, 0, w.out()),
    "aclrtHostRegisterV2": lambda w: (w.pageable(), N, 0x2),
    "aclrtHostUnregister": lambda w: (w.registered(),),
    "aclrtHostGetDevicePointer": lambda w: (w.registered(), w.out(), 0),
    "aclrtMemGetAddressRange": lambda w: (w.d, w.out(), w.out()),
    "aclrtGetMemUsageInfo": lambda w: (0, w.out(), 8, w.out()),
    "aclrtMemFlush": lambda w: (w.d, N),
    "aclrtMemInvalidate": lambda w: (w.d, N),
    "aclrtMemsetD32": lambda w: (w.d, N, 0, 16),
    "aclrtMemsetD32Async": lambda w: (w.d, N, 0, 16, w.s),
    "aclrtMemcpyAsyncWithCondition": lambda w: (w.d, N, w.h, N, 1, w.s),
    "aclrtMemcpy2d": lambda w: (w.d, 64, w.h, 64, 32, 4, 1),
    "aclrtMemcpy2dAsync": lambda w: (w.d, 64, w.h, 64, 32, 4, 1, w.s),
    "aclrtMemcpyBatch": lambda w: w.batch(w.out()),
    "aclrtMemcpyBatchV2": lambda w: w.batch(),
    "aclrtMemcpyBatchAsync": lambda w: w.batch(w.out(), w.s),
    "aclrtMemcpyBatchAsyncV2": lambda w: w.batch(w.s),
    "aclrtMemcpyAsyncWithOffset": lambda w: (_pointer(w, w.d), N, 0, _pointer(w, w.d2), 64, 0, 6, w.s),
    "aclrtGetMemcpyDescSize": lambda w: (6, w.out()),
    "aclrtSetMemcpyDesc": lambda w: (w.d2, 6, w.d, w.d, 64, None),
    "aclrtMemcpyAsyncWithDesc": lambda w: (_descriptor(w), 6, w.s),
    "aclrtValueWrite": lambda w: (w.d, 7, 0, w.s),
    "aclrtValueWait": lambda w: (w.d, 0, 0, w.s),
    "aclrtSubscribeReport": lambda w: (w.thread, w.stream()),
    "aclrtUnSubscribeReport": lambda w: (w.thread, w.subscribed()),
    "aclrtLaunchCallback": lambda w: (w.nothing, None, 0, w.subscribed()),
    "aclrtProcessReport": lambda w: (_launched(w),),
    "aclrtLaunchHostFunc": lambda w: (w.stream(), w.nothing, None),
    "aclrtSetExceptionInfoCallback": lambda w: (None,),
    "aclrtExceptionInfoCallbackRegister": lambda w: (w.nothing,),
    "aclrtExceptionInfoCallbackUnregister": lambda w: (w.nothing,),
    "aclrtGetThreadLastTaskId": lambda w: (w.out(),),
}


def _bus_id(w: World) -> Any:
    text = w.out()
    w.call("aclrtDeviceGetPCIBusId", 0, text, 64)
    return text


def _pointer(w: World, address: int) -> int:
    """Device memory that holds an address."""
    block = w.device()
    w.call("aclrtMemcpy", block, 8, ctypes.byref(P(address)), 8, 1)
    return block


def _descriptor(w: World) -> int:
    block = w.device()
    w.call("aclrtSetMemcpyDesc", block, 6, w.d, w.d2, 64, None)
    return block


def _launched(w: World) -> int:
    w.wait(w.subscribed(launched=True))
    return 1000


# function -> arguments with a null or invalid one that the documents name
BAD: dict[str, Callable[[World], tuple[Any, ...]]] = {
    "aclrtSetDevice": lambda w: (-1,),
    "aclrtGetDevice": lambda w: (None,),
    "aclrtGetDeviceCount": lambda w: (None,),
    "aclrtGetRunMode": lambda w: (None,),
    "aclrtCreateContext": lambda w: (None, 0),
    "aclrtDestroyContext": lambda w: (None,),
    "aclrtSetCurrentContext": lambda w: (None,),
    "aclrtGetCurrentContext": lambda w: (None,),
    "aclrtSynchronizeDeviceWithTimeout": lambda w: (0,),
    "aclrtDeviceTaskAbort": lambda w: (0, 36 * 60_000 + 1),
    "aclrtDeviceCanAccessPeer": lambda w: (None, 0, 1),
    "aclrtDeviceEnablePeerAccess": lambda w: (1, 1),
    "aclrtDeviceDisablePeerAccess": lambda w: (0,),
    "aclrtRegDeviceStateCallback": lambda w: (None, w.state, None),
    "aclrtCreateStream": lambda w: (None,),
    "aclrtCreateStreamWithConfig": lambda w: (None, 0, 0),
    "aclrtDestroyStream": lambda w: (None,),
    "aclrtDestroyStreamForce": lambda w: (None,),
    "aclrtSynchronizeStreamWithTimeout": lambda w: (w.s, 0),
    "aclrtStreamQuery": lambda w: (w.s, None),
    "aclrtStreamGetId": lambda w: (w.s, None),
    "aclrtSetStreamAttribute": lambda w: (w.s, 1, None),
    "aclrtGetStreamAttribute": lambda w: (w.s, 99, w.out()),
    "aclrtGetStreamAvailableNum": lambda w: (None,),
    "aclrtRegStreamStateCallback": lambda w: (None, w.state, None),
    "aclrtCreateEvent": lambda w: (None,),
    "aclrtCreateEventWithFlag": lambda w: (w.out(), 0),
    "aclrtCreateEventExWithFlag": lambda w: (w.out(), 0),
    "aclrtDestroyEvent": lambda w: (None,),
    "aclrtRecordEvent": lambda w: (None, w.s),
    "aclrtResetEvent": lambda w: (None, w.s),
    "aclrtQueryEvent": lambda w: (w.e, None),
    "aclrtQueryEventStatus": lambda w: (w.e, None),
    "aclrtSynchronizeEvent": lambda w: (None,),
    "aclrtSynchronizeEventWithTimeout": lambda w: (w.e, 0),
    "aclrtEventElapsedTime": lambda w: (w.out(), w.event(), w.event()),
    "aclrtStreamWaitEvent": lambda w: (w.s, None),
    "aclrtStreamWaitEventWithTimeout": lambda w: (w.other, w.e, -1),
    "aclrtIpcOpenEventHandle": lambda w: (IpcEventHandle(), None),
    "aclrtCreateNotify": lambda w: (None, 0),
    "aclrtMalloc": lambda w: (w.out(), 0, 0),
    "aclrtFree": lambda w: (w.pageable(),),
    "aclrtMallocHost": lambda w: (w.out(), 0),
    "aclrtFreeHost": lambda w: (w.pageable(),),
    "aclrtMemset": lambda w: (None, N, 0, N),
    "aclrtMemsetAsync": lambda w: (None, N, 0, N, w.s),
    "aclrtMemcpy": lambda w: (None, N, w.h, N, 1),
    "aclrtMemcpyAsync": lambda w: (None, N, w.h, N, 1, w.s),
    "aclrtGetMemInfo": lambda w: (1, None, w.out()),
    "aclrtHostRegister": lambda w: (None, N, 0, w.out()),
    "aclrtHostRegisterV2": lambda w: (w.pageable(), N, 0),
    "aclrtHostUnregister": lambda w: (w.pageable(),),
    "aclrtMemsetD32": lambda w: (w.d, 4, 0, 16),
    "aclrtMemcpy2d": lambda w: (w.d, 16, w.h, 64, 32, 4, 1),
    "aclrtMemcpy2dAsync": lambda w: (w.d, 16, w.h, 64, 32, 4, 1, w.s),
    "aclrtMemcpyBatch": lambda w: w.batch(None),
    "aclrtMemcpyBatchAsync": lambda w: w.batch(None, w.s),
    "aclrtValueWrite": lambda w: (w.d, 7, 1, w.s),
    "aclrtValueWait": lambda w: (w.d, 0, 4, w.s),
    "aclrtUnSubscribeReport": lambda w: (0x1234, w.stream()),
    "aclrtLaunchCallback": lambda w: (w.nothing, None, 2, w.s),
    "aclrtProcessReport": lambda w: (0,),
    "aclrtLaunchHostFunc": lambda w: (w.stream(), None, None),
    "aclrtExceptionInfoCallbackRegister": lambda w: (None,),
}
_FROM_INFO = [name for name in symbols() if name.endswith("FromExceptionInfo")]


def _no_info(name: str) -> Callable[[World], tuple[Any, ...]]:
    return lambda w: (None, *(w.out() for _ in symbols()[name].parameters[1:]))


BAD |= {name: _no_info(name) for name in _FROM_INFO}


def upload(w: World, **change: Any) -> int:
    """aclrtMemcpyAsync of 64 pinned bytes to the device, with some arguments replaced."""
    arguments = {"dst": w.d, "dest_max": 64, "src": w.h, "count": 64, "kind": 1, "stream": w.s} | change
    return w.code("aclrtMemcpyAsync", *arguments.values())


def _elsewhere(call: Callable[[], int]) -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(20)
    return found[0]


def _foreign(w: World) -> int:
    before = w.current()
    w.made("aclrtCreateContext", 0)
    code = upload(w)
    w.call("aclrtSetCurrentContext", before)
    return code


def _destroyed(w: World) -> int:
    stream = w.stream()
    w.call("aclrtDestroyStream", stream)
    return upload(w, stream=stream)


COPIES: dict[str, Callable[[World], int]] = {
    "async, count 0, all null": lambda w: upload(w, dst=None, dest_max=0, src=None, count=0, kind=0),
    "async, count 0": lambda w: upload(w, count=0),
    "async, dst null": lambda w: upload(w, dst=None),
    "async, count above destMax": lambda w: upload(w, dest_max=4, count=8),
    "async, pinned to device, kind D2H": lambda w: upload(w, kind=2),
    "async, pinned to device, kind DEFAULT": lambda w: upload(w, kind=4),
    "async, pinned to pinned": lambda w: upload(w, dst=w.h2, kind=0),
    "async, kind 6": lambda w: upload(w, kind=6),
    "async, kind 99": lambda w: upload(w, kind=99),
    "async, null stream": lambda w: upload(w, stream=None),
    "async, stream of another context": _foreign,
    "async, destroyed stream": _destroyed,
    "async, pageable to device, kind H2D": lambda w: upload(w, src=w.pageable()),
    "async, pageable to device, kind D2H": lambda w: upload(w, src=w.pageable(), kind=2),
    "async, dst equal to src": lambda w: upload(w, src=w.d, kind=3),
    "async, kind 5 from pinned": lambda w: upload(w, kind=5),
    "async, no context": lambda w: _elsewhere(lambda: upload(w)),
    "sync, count 0": lambda w: w.code("aclrtMemcpy", w.d, 64, w.h, 0, 1),
    "sync, pageable to device": lambda w: w.code("aclrtMemcpy", w.d, 64, w.pageable(), 64, 1),
    "sync, pinned to pinned": lambda w: w.code("aclrtMemcpy", w.h2, 64, w.h, 64, 0),
    "sync, pinned to device, kind D2H": lambda w: w.code("aclrtMemcpy", w.d, 64, w.h, 64, 2),
    "sync, count above destMax": lambda w: w.code("aclrtMemcpy", w.d, 4, w.h, 8, 1),
}


def answer(w: World, name: str, arguments: Callable[[World], tuple[Any, ...]]) -> str:
    """The code of one call as text."""
    if not w.has(name):
        return "-"
    try:
        value = w.call(name, *arguments(w))
    except AttributeError as missing:  # a function that the arguments need
        return f"needs {str(missing).rpartition(' ')[2]}"
    if isinstance(value, bytes):
        return "text"
    return "null" if value is None else str(value)


_alive: list[World] = []  # a thread of the runtime may call a callback after the last probe


def run(acl: Acl) -> dict[str, dict[str, str]] | None:
    """Every probe in this process: {"copies": {...}, "valid": {...}, "bad": {...}}; None when the library
    refuses to start, because it does not know the profile."""
    started = acl.aclInit(None)
    if started != 0:
        return None
    w = World(acl)
    _alive.append(w)
    copies = {name: str(call(w)) for name, call in COPIES.items()}
    bad = {name: answer(w, name, arguments) for name, arguments in BAD.items()}
    valid = {"aclInit": str(started), "aclrtSetDevice": answer(w, "aclrtSetDevice", lambda _: (0,))}
    for name, arguments in VALID.items():
        valid[name] = answer(w, name, arguments)
    valid["aclrtCreateContext"] = answer(w, "aclrtCreateContext", lambda w: (w.out(), 0))
    # What the probes before have left; the end of everything comes last.
    acl.message()
    w.call("aclrtGetLastError", 0)
    for name in ("aclGetRecentErrMsg", "aclrtPeekAtLastError", "aclrtGetLastError"):
        valid[name] = answer(w, name, VALID[name])
    valid["aclrtResetDeviceForce"] = answer(w, "aclrtResetDeviceForce", lambda _: (1,))
    valid["aclrtResetDevice"] = answer(w, "aclrtResetDevice", lambda _: (0,))
    valid["aclFinalizeReference"] = answer(w, "aclFinalizeReference", lambda w: (w.out(),))
    acl.aclInit(None)
    valid["aclFinalize"] = answer(w, "aclFinalize", lambda _: ())
    return {"copies": copies, "valid": valid, "bad": bad}
