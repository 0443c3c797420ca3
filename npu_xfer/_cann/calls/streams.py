"""Streams: queues of device work."""

from __future__ import annotations

import ctypes

from npu_xfer._cann.calls.base import STREAM_SYNC_TIMEOUT, Calls, ms_of
from npu_xfer._cann.enums import FailureMode, StreamAttr, StreamFlag, StreamStatus
from npu_xfer._cann.structs import StreamAttrValue

__all__ = ["StreamCalls"]

_NO_FLAGS = StreamFlag(0)
_MEMBER = {
    StreamAttr.FAILURE_MODE: "failureMode",
    StreamAttr.FLOAT_OVERFLOW_CHECK: "overflowSwitch",
    StreamAttr.USER_CUSTOM_TAG: "userCustomTag",
    StreamAttr.CACHE_OP_INFO: "cacheOpInfoSwitch",
    StreamAttr.PRIORITY: "streamPriority",
}


class StreamCalls(Calls):
    """Streams of the current context."""

    def create_plain_stream(self) -> int:
        """A stream of the current context, with the runtime's own priority. The caller destroys it."""
        return self._out_handle("aclrtCreateStream")

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
        code = self._code(name, stream, ms_of(timeout_s))
        return self._answer(name, code, {STREAM_SYNC_TIMEOUT: False})

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

    def abort_stream(self, stream: int) -> None:
        """Drops the stream's work. A thread that waits for the stream gets code 107023; the stream can be
        used afterwards (aclrtStreamAbort, CANN 9.1 docs). The destination of a copy that was on its way is
        undefined: keep both buffers until this has returned. Some chips lack it (code 207000)."""
        self._call("aclrtStreamAbort", stream)

    def stop_stream(self, stream: int) -> None:
        """Stops the running task and leaves what is queued."""
        self._call("aclrtStreamStop", stream)

    def set_stream_failure_mode(self, stream: int, mode: FailureMode) -> None:
        """Chooses what a failed task does to later work. STOP cannot be taken back (code 207000) and makes
        the whole context fail after a failure (observed on the open runtime)."""
        self._call("aclrtSetStreamFailureMode", stream, int(mode))

    def set_stream_attribute(self, stream: int, attr: StreamAttr, value: int) -> None:
        """Sets one attribute of the stream."""
        union = StreamAttrValue()
        setattr(union, _MEMBER[StreamAttr(attr)], value)
        self._call("aclrtSetStreamAttribute", stream, int(attr), ctypes.byref(union))

    def stream_attribute(self, stream: int, attr: StreamAttr) -> int:
        """One attribute of the stream."""
        union = StreamAttrValue()
        self._call("aclrtGetStreamAttribute", stream, int(attr), ctypes.byref(union))
        return int(getattr(union, _MEMBER[StreamAttr(attr)]))

    def n_streams_available(self) -> int:
        """How many streams the current device can still create."""
        return int(self._out(ctypes.c_uint32, "aclrtGetStreamAvailableNum"))

    def stream_priority(self, stream: int) -> int:
        """Priority that the stream was created with."""
        return int(self._out_last(ctypes.c_uint32, "aclrtStreamGetPriority", stream))

    def stream_flags(self, stream: int) -> StreamFlag:
        """Flags that the stream was created with."""
        return StreamFlag(self._out_last(ctypes.c_uint32, "aclrtStreamGetFlags", stream))
