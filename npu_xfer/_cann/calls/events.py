"""Events: marks in streams, waited for by streams and by the host; time limits of waits."""

from __future__ import annotations

import ctypes

from npu_xfer._cann.calls.base import EVENT_SYNC_TIMEOUT, Calls, ms_of, s_of
from npu_xfer._cann.enums import (
    EventFlag,
    EventRecordedStatus,
    EventRecordFlag,
    EventStatus,
    EventWaitFlag,
    EventWaitStatus,
)
from npu_xfer._cann.structs import IpcEventHandle

__all__ = ["EventCalls"]


class EventCalls(Calls):
    """Events. Record takes (event, stream), wait takes (stream, event), as in ACL."""

    def create_event(self, flags: EventFlag = EventFlag.SYNC) -> int:
        """An event; add TIME_LINE for `elapsed_ms`. The caller destroys it.

        Uses the kind of event that takes a hardware id only while recorded, where the library has it. Waiting
        for one that was never recorded does nothing then.
        """
        ex = "aclrtCreateEventExWithFlag"
        name = ex if self._library.has(ex) else "aclrtCreateEventWithFlag"
        return self._out_handle(name, int(flags))

    def create_timed_event(self) -> int:
        """An event as aclrtCreateEvent makes it: for order and for time, taking a hardware id at each record.
        The caller destroys it."""
        return self._out_handle("aclrtCreateEvent")

    def create_reusable_event(self, flags: EventFlag = EventFlag.SYNC) -> int:
        """An event as aclrtCreateEventWithFlag makes it: one hardware id from now until it is destroyed, can
        be reset. A stream that waits before the first record waits for that record (observed on the open
        runtime). The caller destroys it."""
        return self._out_handle("aclrtCreateEventWithFlag", int(flags))

    def destroy_event(self, event: int) -> None:
        """Destroys an event. Does not wait; a pending record still takes place."""
        self._call("aclrtDestroyEvent", event)

    def record_event(self, event: int, stream: int) -> None:
        """Queues a mark on the stream; the event is complete when the stream has come to it."""
        self._call("aclrtRecordEvent", event, stream)

    def record_event_with_flag(self, event: int, stream: int, flag: EventRecordFlag) -> None:
        """As `record_event`; EXTERNAL is for events that cross the border of a captured graph."""
        self._call("aclrtRecordEventWithFlag", event, stream, int(flag))

    def reset_event(self, event: int, stream: int) -> None:
        """Queues the event's return to its first state. Only for events of `create_reusable_event`."""
        self._call("aclrtResetEvent", event, stream)

    def stream_wait_event(self, stream: int, event: int, *, timeout_s: float | None = None) -> None:
        """Makes the stream's later work wait for the event's last record. Does not block the host.

        With `timeout_s` (rounded up to whole seconds, at least 1) the wait of the device ends after that
        time, and the next synchronisation of the stream reports it.
        """
        if timeout_s is None:
            self._call("aclrtStreamWaitEvent", stream, event)
        else:
            self._call("aclrtStreamWaitEventWithTimeout", stream, event, s_of(timeout_s))

    def stream_wait_event_with_flag(
        self, stream: int, event: int, flag: EventWaitFlag, *, timeout_s: float | None = None
    ) -> None:
        """As `stream_wait_event`; EXTERNAL is for events that cross the border of a captured graph."""
        self._call("aclrtStreamWaitEventWithFlag", stream, event, s_of(timeout_s), int(flag))

    def event_is_complete(self, event: int) -> bool:
        """Whether the stream has come to the event's last record. Says nothing about failed copies."""
        status = ctypes.c_int(-1)
        self._call("aclrtQueryEventStatus", event, ctypes.byref(status))
        return status.value == EventRecordedStatus.COMPLETE

    def old_event_status(self, event: int) -> EventStatus:
        """What the deprecated aclrtQueryEvent says; its numbers are the reverse of the newer function's. An
        event of `create_event` refuses it (observed on the open runtime)."""
        return EventStatus(self._out_last(ctypes.c_int, "aclrtQueryEvent", event))

    def event_wait_status(self, event: int) -> EventWaitStatus:
        """Whether the waits for this event have ended. An event of `create_event` refuses it."""
        return EventWaitStatus(self._out_last(ctypes.c_int, "aclrtQueryEventWaitStatus", event))

    def synchronize_event(self, event: int, *, timeout_s: float | None = None) -> bool:
        """Waits for the event: True, or False when `timeout_s` (None: for ever) ran out first."""
        if timeout_s is None:
            self._call("aclrtSynchronizeEvent", event)
            return True
        name = "aclrtSynchronizeEventWithTimeout"
        code = self._code(name, event, ms_of(timeout_s))
        return self._answer(name, code, {EVENT_SYNC_TIMEOUT: False})

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds on the device between two complete events with TIME_LINE."""
        elapsed = ctypes.c_float()
        self._call("aclrtEventElapsedTime", ctypes.byref(elapsed), start, end)
        return elapsed.value

    def event_timestamp(self, event: int) -> int:
        """Device time of the event's record, in the device's ticks. Needs TIME_LINE."""
        return int(self._out_last(ctypes.c_uint64, "aclrtEventGetTimestamp", event))

    def event_id(self, event: int) -> int:
        """The runtime's number for the event."""
        return int(self._out_last(ctypes.c_uint32, "aclrtGetEventId", event))

    def n_events_available(self) -> int:
        """How many events the current device can still take."""
        return int(self._out(ctypes.c_uint32, "aclrtGetEventAvailNum"))

    # ---- between processes ----

    def export_event(self, event: int) -> bytes:
        """64 bytes with which another process on this host opens the event (made with IPC alone)."""
        handle = IpcEventHandle()
        self._call("aclrtIpcGetEventHandle", event, ctypes.byref(handle))
        return bytes(handle)

    def open_event(self, handle: bytes) -> int:
        """The event behind the bytes of `export_event`, made by another process. The caller destroys it."""
        if len(handle) != ctypes.sizeof(IpcEventHandle):
            raise ValueError(
                f"an event handle has {ctypes.sizeof(IpcEventHandle)} bytes, got {len(handle)}: "
                "hand over what export_event gave"
            )
        event = ctypes.c_void_p()
        self._call("aclrtIpcOpenEventHandle", IpcEventHandle.from_buffer_copy(handle), ctypes.byref(event))
        return event.value or 0

    # ---- time limits of the process ----

    def set_wait_timeout(self, timeout_s: int) -> None:
        """Longest wait of a stream for an event, in whole seconds; 0 for no limit. A wait that ran out is
        reported by the next synchronisation."""
        self._call("aclrtSetOpWaitTimeout", timeout_s)

    def set_kernel_timeout(self, timeout_s: int) -> None:
        """Longest run of a kernel, in whole seconds. Copies are not affected."""
        self._call("aclrtSetOpExecuteTimeOut", timeout_s)

    def set_kernel_timeout_ms(self, timeout_ms: int) -> None:
        """The same in milliseconds."""
        self._call("aclrtSetOpExecuteTimeOutWithMs", timeout_ms)

    def set_kernel_timeout_us(self, timeout_us: int) -> int:
        """The same in microseconds; returns the limit that the device took, in microseconds."""
        return int(self._out_last(ctypes.c_uint64, "aclrtSetOpExecuteTimeOutV2", timeout_us))

    def kernel_timeout_step_us(self) -> int:
        """Step of such limits, in microseconds."""
        return int(self._out(ctypes.c_uint64, "aclrtGetOpTimeOutInterval"))
