"""The control plane: typed calls of one ACL library. Also the floor under the low-level face.

Threads: every method may be called from any thread, but CANN keeps the current device per thread, so a method
that needs one works on the calling thread's. ctypes releases the GIL during each call.
Locks: none.
Owns: nothing. Whoever creates a stream, an event or memory destroys it.
Errors: each method raises AclError (ResourceError when something ran out) with the runtime's own text, which
is read right after the call on the same thread, because reading later or elsewhere loses it. A method whose
function this library lacks raises LibraryError.

Handles and addresses are ints; 0 as a stream is the default stream of the current context.
"""

from __future__ import annotations

import ctypes
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.abi import (
    DeviceStatus,
    EventFlag,
    EventRecordedStatus,
    LastErrLevel,
    MallocPolicy,
    MemAttr,
    MemcpyKind,
    MemLocationType,
    PtrAttributes,
    RunMode,
    StreamFlag,
    StreamStatus,
)
from npu_xfer._cann.codes import ACL_SUCCESS, acl_error

if TYPE_CHECKING:
    from npu_xfer._cann.library import Library

__all__ = ["MemInfo", "PointerInfo", "Runtime"]

_REPEAT_INITIALIZE = 100002
_REPEAT_FINALIZE = 100037
_CONTEXT_NULL = 107002
_STREAM_SYNC_TIMEOUT = 507046
_EVENT_SYNC_TIMEOUT = 507047
_MAX_TIMEOUT_MS = 2**31 - 1
_NO_FLAGS = StreamFlag(0)
_VERSION_NBYTES = 128  # what aclsysGetVersionStr fills at most


@dataclass(frozen=True, slots=True)
class MemInfo:
    """Memory of the current device."""

    free_nbytes: int
    total_nbytes: int


@dataclass(frozen=True, slots=True)
class PointerInfo:
    """Where an address lives."""

    location: MemLocationType
    device: int
    """Device number; meaningful for DEVICE memory only."""

    page_nbytes: int


def _timeout_ms(timeout_s: float | None) -> int:
    """Milliseconds as ACL wants them: -1 for ever, never 0 (which it refuses)."""
    if timeout_s is None:
        return -1
    if not timeout_s >= 0:
        raise ValueError(f"timeout_s must be None or at least 0, got {timeout_s}")
    if timeout_s * 1000 >= _MAX_TIMEOUT_MS:
        return _MAX_TIMEOUT_MS
    return max(1, math.ceil(timeout_s * 1000))


class Runtime:
    """Typed calls of one library."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._thread = threading.local()

    def __repr__(self) -> str:
        return f"Runtime({self._library.path!r})"

    @property
    def library(self) -> Library:
        """The library that the calls go to."""
        return self._library

    # ---- calling ----

    def _code(self, name: str, *args: Any) -> int:
        code: int = self._library.function(name)(*args)
        return code

    def _call(self, name: str, *args: Any) -> None:
        code = self._code(name, *args)
        if code != ACL_SUCCESS:
            raise acl_error(name, code, self.recent_message())

    def _answer(self, name: str, code: int, quiet: dict[int, bool]) -> bool:
        """Turns a code into True (success) or the answer that it stands for, and drops its text."""
        if code == ACL_SUCCESS:
            return True
        if code == _CONTEXT_NULL and code in quiet:
            # Without a context the text cannot be taken away, and trying adds more to it. It would turn up in
            # this thread's next error, so it is dropped as soon as there is a context.
            self._thread.stale_text = True
            return quiet[code]
        message = self.recent_message()
        if code in quiet:
            return quiet[code]
        raise acl_error(name, code, message)

    def _drop_stale_text(self) -> None:
        if getattr(self._thread, "stale_text", False):
            self._thread.stale_text = False
            self.recent_message()

    def _out_handle(self, name: str, *args: Any) -> int:
        handle = ctypes.c_void_p()
        self._call(name, ctypes.byref(handle), *args)
        return handle.value or 0

    def recent_message(self) -> str | None:
        """The runtime's text for the last failure on this thread, or None. Reading it removes it."""
        raw: bytes | None = self._library.function("aclGetRecentErrMsg")()
        return raw.decode("utf-8", "replace") if raw else None

    def peek_last_error(self) -> int:
        """Last runtime code of this thread, 0 for none. Later successes and this call leave it as it is."""
        return self._code("aclrtPeekAtLastError", int(LastErrLevel.THREAD))

    # ---- life and versions ----

    def init(self, config_path: str | None = None) -> bool:
        """Initialises ACL. False when another part of the process did so before: leave finalising to it."""
        code = self._code("aclInit", None if config_path is None else config_path.encode())
        return self._answer("aclInit", code, {_REPEAT_INITIALIZE: False})

    def finalize(self) -> bool:
        """Finalises ACL for the whole process, whoever else uses it. False when that had happened before."""
        return self._answer("aclFinalize", self._code("aclFinalize"), {_REPEAT_FINALIZE: False})

    def acl_version(self) -> tuple[int, int, int]:
        """Version of the ACL interface (not of CANN): major, minor, patch."""
        parts = [ctypes.c_int32() for _ in range(3)]
        self._call("aclrtGetVersion", *(ctypes.byref(part) for part in parts))
        return parts[0].value, parts[1].value, parts[2].value

    def package_version(self, package: str = "runtime") -> str:
        """Version text of an installed CANN package, for example "8.5.0"."""
        text = ctypes.create_string_buffer(_VERSION_NBYTES + 1)
        self._call("aclsysGetVersionStr", package.encode(), ctypes.cast(text, ctypes.c_char_p))
        return text.value.decode("utf-8", "replace")

    def versions(self) -> dict[str, str]:
        """What the library tells about itself: "acl" and "runtime", each only where it answers."""
        found: dict[str, str] = {}
        if self._library.has("aclrtGetVersion"):
            found["acl"] = ".".join(str(part) for part in self.acl_version())
        if self._library.has("aclsysGetVersionStr"):
            text = ctypes.create_string_buffer(_VERSION_NBYTES + 1)
            code = self._code("aclsysGetVersionStr", b"runtime", ctypes.cast(text, ctypes.c_char_p))
            if code == ACL_SUCCESS:
                found["runtime"] = text.value.decode("utf-8", "replace")
            else:
                self.recent_message()
        return found

    def soc_name(self) -> str | None:
        """Name of the chip, for example "Ascend910B1"; None when the runtime does not know it."""
        raw: bytes | None = self._library.function("aclrtGetSocName")()
        return raw.decode("utf-8", "replace") if raw else None

    # ---- devices and contexts ----

    def device_count(self) -> int:
        """Number of devices that this process sees."""
        count = ctypes.c_uint32()
        self._call("aclrtGetDeviceCount", ctypes.byref(count))
        return count.value

    def set_device(self, device: int) -> None:
        """Makes the device current on this thread and takes one reference to it; pair with `reset_device`."""
        self._call("aclrtSetDevice", device)
        self._drop_stale_text()

    def reset_device(self, device: int) -> None:
        """Gives back one reference; the last one destroys the default context and its streams."""
        self._call("aclrtResetDevice", device)

    def get_device(self) -> int | None:
        """The device that is current on this thread, or None."""
        device = ctypes.c_int32(-1)
        code = self._code("aclrtGetDevice", ctypes.byref(device))
        return device.value if self._answer("aclrtGetDevice", code, {_CONTEXT_NULL: False}) else None

    def run_mode(self) -> RunMode:
        """Whether this process runs on a host or on the device itself."""
        mode = ctypes.c_int(-1)
        self._call("aclrtGetRunMode", ctypes.byref(mode))
        return RunMode(mode.value)

    def device_is_healthy(self, device: int) -> bool:
        """Whether the device reports its normal state."""
        status = ctypes.c_int(-1)
        self._call("aclrtQueryDeviceStatus", device, ctypes.byref(status))
        return status.value == DeviceStatus.NORMAL

    def synchronize_device(self) -> None:
        """Waits for everything on the current device. Reports a failed copy once."""
        self._call("aclrtSynchronizeDevice")

    def create_context(self, device: int) -> int:
        """A new context, which becomes current on this thread. The caller destroys it."""
        context = self._out_handle("aclrtCreateContext", device)
        self._drop_stale_text()
        return context

    def destroy_context(self, context: int) -> None:
        """Destroys a context made by `create_context`; it must not be in use on another thread."""
        self._call("aclrtDestroyContext", context)

    def set_context(self, context: int) -> None:
        """Makes the context, and with it its device, current on this thread."""
        self._call("aclrtSetCurrentContext", context)
        self._drop_stale_text()

    def get_context(self) -> int | None:
        """The context that is current on this thread, or None."""
        context = ctypes.c_void_p()
        code = self._code("aclrtGetCurrentContext", ctypes.byref(context))
        return context.value if self._answer("aclrtGetCurrentContext", code, {_CONTEXT_NULL: False}) else None

    # ---- memory ----

    def mem_info(self, attr: MemAttr = MemAttr.HBM_MEM) -> MemInfo:
        """Free and total memory of the current device, in bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("aclrtGetMemInfo", int(attr), ctypes.byref(free), ctypes.byref(total))
        return MemInfo(free.value, total.value)

    def malloc(self, nbytes: int, policy: MallocPolicy = MallocPolicy.HUGE_FIRST) -> int:
        """Device memory on the current device: its address. The caller frees it with `free`."""
        return self._out_handle("aclrtMalloc", nbytes, int(policy))

    def free(self, address: int) -> None:
        """Frees device memory."""
        self._call("aclrtFree", address)

    def malloc_host(self, nbytes: int) -> int:
        """Page-locked host memory: its address. The caller frees it with `free_host`."""
        return self._out_handle("aclrtMallocHost", nbytes)

    def free_host(self, address: int) -> None:
        """Frees page-locked host memory."""
        self._call("aclrtFreeHost", address)

    def memcpy(self, dst: int, dst_nbytes: int, src: int, nbytes: int, kind: MemcpyKind) -> None:
        """Copies `nbytes` and returns when they have arrived. `dst_nbytes` is the room at `dst`."""
        self._call("aclrtMemcpy", dst, dst_nbytes, src, nbytes, int(kind))

    def memcpy_async(
        self, dst: int, dst_nbytes: int, src: int, nbytes: int, kind: MemcpyKind, stream: int
    ) -> None:
        """Queues a copy on the stream. The caller keeps both buffers until the stream has passed it; ordinary
        host memory makes the call wait, so hand over page-locked memory only."""
        self._call("aclrtMemcpyAsync", dst, dst_nbytes, src, nbytes, int(kind), stream)

    def memset(self, dst: int, dst_nbytes: int, value: int, nbytes: int) -> None:
        """Fills `nbytes` of device memory with one byte value and waits for it."""
        self._call("aclrtMemset", dst, dst_nbytes, value, nbytes)

    def memset_async(self, dst: int, dst_nbytes: int, value: int, nbytes: int, stream: int) -> None:
        """Queues a fill of device memory on the stream."""
        self._call("aclrtMemsetAsync", dst, dst_nbytes, value, nbytes, stream)

    def pointer_attributes(self, address: int) -> PointerInfo:
        """Where an address lives. Ordinary host memory is UNREGISTERED."""
        found = PtrAttributes()
        self._call("aclrtPointerGetAttributes", address, ctypes.byref(found))
        return PointerInfo(MemLocationType(found.location.type), found.location.id, found.pageSize)

    # ---- streams ----

    def create_stream(self, *, priority: int = 0, flags: StreamFlag = _NO_FLAGS) -> int:
        """A stream of the current context. The caller destroys it."""
        return self._out_handle("aclrtCreateStreamWithConfig", priority, int(flags))

    def destroy_stream(self, stream: int, *, force: bool = False) -> None:
        """Destroys a stream: after its queued work, or with `force` without it."""
        self._call("aclrtDestroyStreamForce" if force else "aclrtDestroyStream", stream)

    def synchronize_stream(self, stream: int, *, timeout_s: float | None = None) -> bool:
        """Waits until the stream is idle: True, or False when `timeout_s` (None: for ever) ran out first.

        Raises the error of a copy that failed on this stream since the last synchronisation, once. Events and
        queries do not report such a failure.
        """
        if timeout_s is None:
            self._call("aclrtSynchronizeStream", stream)
            return True
        name = "aclrtSynchronizeStreamWithTimeout"
        code = self._code(name, stream, _timeout_ms(timeout_s))
        return self._answer(name, code, {_STREAM_SYNC_TIMEOUT: False})

    def stream_is_idle(self, stream: int) -> bool:
        """Whether nothing is queued or running on the stream. Does not wait, reports no failed copy."""
        status = ctypes.c_int(-1)
        self._call("aclrtStreamQuery", stream, ctypes.byref(status))
        return status.value == StreamStatus.COMPLETE

    def stream_id(self, stream: int) -> int:
        """The runtime's number for the stream, as its logs and failure reports show it."""
        number = ctypes.c_int32(-1)
        self._call("aclrtStreamGetId", stream, ctypes.byref(number))
        return number.value

    # ---- events ----

    def create_event(self, flags: EventFlag = EventFlag.SYNC) -> int:
        """An event; add TIME_LINE for `elapsed_ms`. The caller destroys it.

        Uses the kind of event that takes a hardware id only while recorded, where the library has it.
        """
        ex = "aclrtCreateEventExWithFlag"
        name = ex if self._library.has(ex) else "aclrtCreateEventWithFlag"
        return self._out_handle(name, int(flags))

    def destroy_event(self, event: int) -> None:
        """Destroys an event. Does not wait; a pending record still takes place."""
        self._call("aclrtDestroyEvent", event)

    def record_event(self, event: int, stream: int) -> None:
        """Queues a mark on the stream; the event is complete when the stream has come to it."""
        self._call("aclrtRecordEvent", event, stream)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Makes the stream's later work wait for the event's last record. Does not block the host."""
        self._call("aclrtStreamWaitEvent", stream, event)

    def event_is_complete(self, event: int) -> bool:
        """Whether the stream has come to the event's last record. Says nothing about failed copies."""
        status = ctypes.c_int(-1)
        self._call("aclrtQueryEventStatus", event, ctypes.byref(status))
        return status.value == EventRecordedStatus.COMPLETE

    def synchronize_event(self, event: int, *, timeout_s: float | None = None) -> bool:
        """Waits for the event: True, or False when `timeout_s` (None: for ever) ran out first."""
        if timeout_s is None:
            self._call("aclrtSynchronizeEvent", event)
            return True
        name = "aclrtSynchronizeEventWithTimeout"
        code = self._code(name, event, _timeout_ms(timeout_s))
        return self._answer(name, code, {_EVENT_SYNC_TIMEOUT: False})

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds on the device between two complete events with TIME_LINE."""
        elapsed = ctypes.c_float()
        self._call("aclrtEventElapsedTime", ctypes.byref(elapsed), start, end)
        return elapsed.value
