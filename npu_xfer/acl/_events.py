"""Events, notifies and time limits of acl.rt. A function without a word on its result returns ret, the
code."""

from __future__ import annotations

import ctypes

from npu_xfer.acl._call import handle, number, ret

__all__ = [
    "create_event",
    "create_event_ex_with_flag",
    "create_event_with_flag",
    "create_notify",
    "destroy_event",
    "destroy_notify",
    "event_elapsed_time",
    "event_get_timestamp",
    "get_event_avail_num",
    "get_event_id",
    "get_notify_id",
    "get_op_timeout_interval",
    "query_event",
    "query_event_status",
    "query_event_wait_status",
    "record_event",
    "record_notify",
    "reset_event",
    "set_op_execute_timeout",
    "set_op_execute_timeout_v2",
    "set_op_wait_timeout",
    "stream_wait_event",
    "synchronize_event",
    "synchronize_event_with_timeout",
    "wait_and_reset_notify",
]

_int, _u32, _u64 = ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64


def create_event() -> tuple[int, int]:
    """(event, ret)."""
    return handle("aclrtCreateEvent")


def create_event_with_flag(flag: int) -> tuple[int, int]:
    """(event, ret)."""
    return handle("aclrtCreateEventWithFlag", flag)


def create_event_ex_with_flag(flag: int) -> tuple[int, int]:
    """(event, ret)."""
    return handle("aclrtCreateEventExWithFlag", flag)


def destroy_event(event: int) -> int:
    """Destroys the event; a pending record still takes place."""
    return ret("aclrtDestroyEvent", event)


def record_event(event: int, stream: int) -> int:
    """Queues a mark on the stream."""
    return ret("aclrtRecordEvent", event, stream)


def reset_event(event: int, stream: int) -> int:
    """Queues the event's return to its first state."""
    return ret("aclrtResetEvent", event, stream)


def query_event(event: int) -> tuple[int, int]:
    """(0 complete or 1 not, ret): the reverse of query_event_status."""
    return number(_int, "aclrtQueryEvent", event)


def query_event_status(event: int) -> tuple[int, int]:
    """(1 complete or 0 not, ret)."""
    return number(_int, "aclrtQueryEventStatus", event)


def query_event_wait_status(event: int) -> tuple[int, int]:
    """(0 when the waits have ended or 1, ret)."""
    return number(_int, "aclrtQueryEventWaitStatus", event)


def synchronize_event(event: int) -> int:
    """Waits for the event."""
    return ret("aclrtSynchronizeEvent", event)


def synchronize_event_with_timeout(event: int, timeout: int) -> int:
    """The same for at most `timeout` milliseconds (-1: for ever); code 507047 when it ran out."""
    return ret("aclrtSynchronizeEventWithTimeout", event, timeout)


def event_elapsed_time(start: int, end: int) -> tuple[float, int]:
    """(milliseconds, ret)."""
    return number(ctypes.c_float, "aclrtEventElapsedTime", start, end, first=True)


def event_get_timestamp(event: int) -> tuple[int, int]:
    """(device time, ret)."""
    return number(_u64, "aclrtEventGetTimestamp", event)


def get_event_id(event: int) -> tuple[int, int]:
    """(the runtime's number, ret)."""
    return number(_u32, "aclrtGetEventId", event)


def get_event_avail_num() -> tuple[int, int]:
    """How many more events the device takes: (count, ret)."""
    return number(_u32, "aclrtGetEventAvailNum")


def stream_wait_event(stream: int, event: int) -> int:
    """Makes the stream's later work wait for the event."""
    return ret("aclrtStreamWaitEvent", stream, event)


def set_op_wait_timeout(timeout: int) -> int:
    """Longest wait of a stream for an event, in seconds."""
    return ret("aclrtSetOpWaitTimeout", timeout)


def set_op_execute_timeout(timeout: int) -> int:
    """Longest run of a kernel, in seconds."""
    return ret("aclrtSetOpExecuteTimeOut", timeout)


def set_op_execute_timeout_v2(timeout: int) -> tuple[int, int]:
    """Longest run of a kernel: (microseconds that the device took, ret)."""
    return number(_u64, "aclrtSetOpExecuteTimeOutV2", timeout)


def get_op_timeout_interval() -> tuple[int, int]:
    """(step of such limits in microseconds, ret)."""
    return number(_u64, "aclrtGetOpTimeOutInterval")


def create_notify(flag: int) -> tuple[int, int]:
    """(notify, ret)."""
    return handle("aclrtCreateNotify", flag)


def destroy_notify(notify: int) -> int:
    """Destroys the notify."""
    return ret("aclrtDestroyNotify", notify)


def record_notify(notify: int, stream: int) -> int:
    """Queues the signal on the stream."""
    return ret("aclrtRecordNotify", notify, stream)


def wait_and_reset_notify(notify: int, stream: int, timeout: int) -> int:
    """Makes the stream's later work wait for the signal, at most `timeout` seconds (0: for ever)."""
    return ret("aclrtWaitAndResetNotify", notify, stream, timeout)


def get_notify_id(notify: int) -> tuple[int, int]:
    """(the runtime's number, ret)."""
    return number(_u32, "aclrtGetNotifyId", notify)
