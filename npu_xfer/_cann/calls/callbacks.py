"""Callbacks: Python functions that the runtime calls.

Threads: the runtime calls them on the thread that the method names; ctypes takes the GIL for the call.
Locks: one leaf around the table of waiting functions; nothing is called with it held.
Owns: a function handed over once stays alive until it has run; one handed over by name or as the exception
callback stays until it is replaced or taken back. A function that the runtime drops without a call (a stream
destroyed by force) stays for the life of the process.
Errors: an exception in a function goes to sys.unraisablehook, because no caller can take it.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.calls.base import Calls, ms_of
from npu_xfer._cann.enums import CallbackBlockType, DeviceState, StreamState
from npu_xfer._cann.structs import (
    Callback,
    DeviceStateCallback,
    ExceptionInfoCallback,
    StreamStateCallback,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CALL_ONCE", "CallbackCalls", "ExceptionInfo", "keep_once", "release"]

_lock = threading.Lock()
_tokens = itertools.count(1)
_waiting: dict[int, Callable[[], object]] = {}
_named: dict[tuple[str, str, str], Any] = {}  # library, function, name -> C callback
_exception_callbacks: dict[tuple[str, object], Any] = {}  # library, Python function -> C callback
_SET = object()  # key of the one function of aclrtSetExceptionInfoCallback
_REPORT_TIMEOUT = 507012


def keep_once(function: Callable[[], object]) -> int:
    """Keeps a function until `CALL_ONCE` gets this token as its user data, or `release` gets it."""
    token = next(_tokens)
    with _lock:
        _waiting[token] = function
    return token


def release(token: int) -> Callable[[], object] | None:
    """The kept function, which is not kept any more; None when it has run."""
    with _lock:
        return _waiting.pop(token, None)


def _call_once(token: int | None) -> None:
    function = release(token or 0)
    if function is not None:
        function()


CALL_ONCE = Callback(_call_once)  # also a HostFunc
"""The C callback behind every function that runs once; lives as long as the process."""


@dataclass(frozen=True, slots=True)
class ExceptionInfo:
    """A device task that failed. 0xFFFFFFFF in a field: the runtime does not know."""

    task_id: int
    stream_id: int
    thread_id: int
    """Kernel id of the thread that submitted the task."""

    device: int
    code: int
    """The aclError."""

    handle: int
    """The runtime's own object, for `exception_args`; valid only inside the callback."""


class CallbackCalls(Calls):
    """Functions of the host in the order of a stream, notices of streams and devices, failed tasks."""

    # ---- in the order of a stream ----

    def subscribe_report(self, thread: int, stream: int) -> None:
        """Lets the thread (threading.get_ident() of it) run the stream's callbacks. One thread a stream, one
        device a thread (code 107011 or 107012 otherwise)."""
        self._call("aclrtSubscribeReport", thread, stream)

    def unsubscribe_report(self, thread: int, stream: int) -> None:
        """Ends such a subscription."""
        self._call("aclrtUnSubscribeReport", thread, stream)

    def launch_callback(
        self,
        function: Callable[[], object],
        stream: int,
        block: CallbackBlockType = CallbackBlockType.BLOCK,
    ) -> None:
        """Queues `function` on the stream; the subscribed thread runs it inside `process_report`. With BLOCK
        the stream's later work waits for its return. Code 107015 when no thread is subscribed."""
        self._launch("aclrtLaunchCallback", function, lambda token: (CALL_ONCE, token, int(block), stream))

    def process_report(self, *, timeout_s: float | None = None) -> bool:
        """Runs the callbacks that are due for the calling thread: True, or False when none came in time
        (None: for ever). Code 107012 at once when the thread is not subscribed."""
        code = self._code("aclrtProcessReport", ms_of(timeout_s))
        return self._answer("aclrtProcessReport", code, {_REPORT_TIMEOUT: False})

    def launch_host_func(self, stream: int, function: Callable[[], object]) -> None:
        """Queues `function` on the stream, for a thread of the runtime that has no context. The stream's
        later work waits for its return. Not together with `subscribe_report` on one stream (code 107011)."""
        self._launch("aclrtLaunchHostFunc", function, lambda token: (stream, CALL_ONCE, token))

    def _launch(
        self, name: str, function: Callable[[], object], arguments: Callable[[int], tuple[Any, ...]]
    ) -> None:
        self._library.function(name)  # a library without it fails before anything is kept
        token = keep_once(function)
        try:
            self._call(name, *arguments(token))
        except BaseException:
            release(token)
            raise

    # ---- notices ----

    def on_stream_state(self, name: str, function: Callable[[int, StreamState], object] | None) -> None:
        """Has `function` called with each stream after it is created and before it is destroyed, on the
        thread that does so. None takes the function of that name back."""

        def notice(stream: int | None, state: int, args: int | None) -> None:
            assert function is not None
            function(stream or 0, StreamState(state))

        self._register("aclrtRegStreamStateCallback", name, StreamStateCallback(notice) if function else None)

    def on_device_state(self, name: str, function: Callable[[int, DeviceState], object] | None) -> None:
        """Has `function` called before and after each set and reset of a device, on the thread that does so.
        None takes the function of that name back."""

        def notice(device: int, state: int, args: int | None) -> None:
            assert function is not None
            function(device, DeviceState(state))

        self._register("aclrtRegDeviceStateCallback", name, DeviceStateCallback(notice) if function else None)

    def _register(self, call: str, name: str, callback: Any) -> None:
        key = (self._library.path, call, name)
        null = StreamStateCallback() if call == "aclrtRegStreamStateCallback" else DeviceStateCallback()
        self._call(call, name.encode(), null if callback is None else callback, None)
        # The old one is let go only now: until here the runtime could call it.
        if callback is None:
            _named.pop(key, None)
        else:
            _named[key] = callback

    # ---- failed tasks ----

    def on_exception(self, function: Callable[[ExceptionInfo], object] | None) -> None:
        """Has `function` called for each failed device task, on a thread of the runtime and before any
        synchronisation reports it. One function a process, None for none; it replaces another part's."""
        self._set_exception("aclrtSetExceptionInfoCallback", _SET, function)

    def add_exception_callback(self, function: Callable[[ExceptionInfo], object]) -> None:
        """As `on_exception`, beside the functions of other parts of the process."""
        self._set_exception("aclrtExceptionInfoCallbackRegister", function, function)

    def remove_exception_callback(self, function: Callable[[ExceptionInfo], object]) -> None:
        """Takes back what `add_exception_callback` got."""
        key = (self._library.path, function)
        callback = _exception_callbacks.get(key)
        if callback is None:
            raise ValueError("remove_exception_callback got a function that was not added")
        self._call("aclrtExceptionInfoCallbackUnregister", callback)
        del _exception_callbacks[key]

    def _set_exception(
        self, call: str, key: object, function: Callable[[ExceptionInfo], object] | None
    ) -> None:
        callback = ExceptionInfoCallback() if function is None else self._exception_callback(function)
        self._call(call, callback)
        _exception_callbacks[self._library.path, key] = callback

    def _exception_callback(self, function: Callable[[ExceptionInfo], object]) -> Any:
        def notice(info: int | None) -> None:
            function(self.exception_info(info or 0))

        return ExceptionInfoCallback(notice)

    def exception_info(self, handle: int) -> ExceptionInfo:
        """Reads the runtime's object; only inside an exception callback."""

        def read(what: str) -> int:
            return int(self._library.function(f"aclrtGet{what}FromExceptionInfo")(handle))

        return ExceptionInfo(
            task_id=read("TaskId"),
            stream_id=read("StreamId"),
            thread_id=read("ThreadId"),
            device=read("DeviceId"),
            code=read("ErrorCode"),
            handle=handle,
        )

    def exception_args(self, handle: int) -> tuple[int, int]:
        """Address and size in bytes of the arguments of a failed kernel; only inside an exception
        callback."""
        args, nbytes = ctypes.c_void_p(), ctypes.c_uint32()
        self._call("aclrtGetArgsFromExceptionInfo", handle, ctypes.byref(args), ctypes.byref(nbytes))
        return args.value or 0, nbytes.value

    def exception_function(self, handle: int) -> int:
        """Handle of a failed kernel; only inside an exception callback."""
        function = ctypes.c_void_p()
        self._call("aclrtGetFuncHandleFromExceptionInfo", handle, ctypes.byref(function))
        return function.value or 0

    def last_task_id(self) -> int:
        """Number of the task that the calling thread submitted last, as `ExceptionInfo` shows it. 16 bits
        that wrap; a large copy takes several and this is its last."""
        return int(self._out(ctypes.c_uint32, "aclrtGetThreadLastTaskId"))
