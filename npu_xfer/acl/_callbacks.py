"""Callbacks of acl.rt. A function without a word on its result returns ret, the code.

A callback's function and its list stay alive until it has run. An exception in it goes to sys.unraisablehook.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.calls.callbacks import CALL_ONCE, keep_once, release
from npu_xfer._cann.structs import ExceptionInfoCallback
from npu_xfer.acl._call import function, number, out, ret

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "get_device_id_from_exception_info",
    "get_error_code_from_exception_info",
    "get_stream_id_from_exception_info",
    "get_task_id_from_exception_info",
    "get_thread_id_from_exception_info",
    "get_thread_last_task_id",
    "launch_callback",
    "process_report",
    "set_exception_info_callback",
    "subscribe_report",
    "unsubscribe_report",
]

# The C callback that is set, and some before it: a thread of the runtime may be about to call the one that
# was just replaced.
_exception: deque[Any] = deque(maxlen=16)


def subscribe_report(thread_id: int, stream: int) -> int:
    """Lets the thread (as start_thread returned it) run the stream's callbacks."""
    return ret("aclrtSubscribeReport", thread_id, stream)


def unsubscribe_report(thread_id: int, stream: int) -> int:
    """Ends such a subscription."""
    return ret("aclrtUnSubscribeReport", thread_id, stream)


def launch_callback(fn: Callable[[Any], object], user_data_list: Any, block_type: int, stream: int) -> int:
    """Queues ``fn(user_data_list)`` on the stream; the subscribed thread runs it inside process_report. With
    block_type 1 the stream's later work waits for its return."""
    if not callable(fn):
        raise TypeError(f"launch_callback needs a function, got {type(fn).__name__}")
    function("aclrtLaunchCallback")  # a library without it fails before anything is kept
    token = keep_once(lambda: fn(user_data_list))
    try:
        code = out("aclrtLaunchCallback", CALL_ONCE, token, block_type, stream)
    except BaseException:
        release(token)
        raise
    if code != 0:
        release(token)
    return code


def process_report(timeout: int) -> int:
    """Runs the callbacks that are due for this thread; waits `timeout` milliseconds (-1: for ever) for one.
    Code 507012 when none came."""
    return ret("aclrtProcessReport", timeout)


def set_exception_info_callback(fn: Callable[[int], object] | None = None) -> int:
    """Has ``fn(info)`` called for each failed device task, on a thread of the runtime. None for no
    function."""
    if fn is not None and not callable(fn):
        raise TypeError(f"set_exception_info_callback needs a function or None, got {type(fn).__name__}")

    def notice(info: int | None) -> None:
        assert fn is not None
        fn(info or 0)

    callback = ExceptionInfoCallback() if fn is None else ExceptionInfoCallback(notice)
    code = out("aclrtSetExceptionInfoCallback", callback)
    if code == 0:
        _exception.append(callback)
    return code


def get_task_id_from_exception_info(info: int) -> int:
    """The failed task, inside the callback. No ret."""
    return ret("aclrtGetTaskIdFromExceptionInfo", info)


def get_stream_id_from_exception_info(info: int) -> int:
    """Its stream, inside the callback. No ret."""
    return ret("aclrtGetStreamIdFromExceptionInfo", info)


def get_thread_id_from_exception_info(info: int) -> int:
    """The thread that submitted it, inside the callback. No ret."""
    return ret("aclrtGetThreadIdFromExceptionInfo", info)


def get_device_id_from_exception_info(info: int) -> int:
    """Its device, inside the callback. No ret."""
    return ret("aclrtGetDeviceIdFromExceptionInfo", info)


def get_error_code_from_exception_info(info: int) -> int:
    """Its code, inside the callback. No ret."""
    return ret("aclrtGetErrorCodeFromExceptionInfo", info)


def get_thread_last_task_id() -> tuple[int, int]:
    """The task that this thread submitted last: (task_id, ret). The name follows pyACL's rule; no document or
    program that shows it was found."""
    return number(ctypes.c_uint32, "aclrtGetThreadLastTaskId")
