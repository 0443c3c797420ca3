"""What every theme of the control plane shares: calling, error texts, time limits."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.codes import ACL_SUCCESS, acl_error
from npu_xfer._cann.enums import LastErrLevel

if TYPE_CHECKING:
    from npu_xfer._cann.library import Library

__all__ = ["CONTEXT_NULL", "EVENT_SYNC_TIMEOUT", "STREAM_SYNC_TIMEOUT", "Calls", "ms_of", "s_of"]

CONTEXT_NULL = 107002
STREAM_SYNC_TIMEOUT = 507046
EVENT_SYNC_TIMEOUT = 507047
_MAX_TIMEOUT = 2**31 - 1


def _checked(timeout_s: float) -> float:
    if not timeout_s >= 0:
        raise ValueError(f"timeout_s must be None or at least 0, got {timeout_s}")
    return timeout_s


def ms_of(timeout_s: float | None) -> int:
    """Milliseconds as ACL wants them: -1 for ever, never 0 (which it refuses)."""
    if timeout_s is None:
        return -1
    if _checked(timeout_s) * 1000 >= _MAX_TIMEOUT:
        return _MAX_TIMEOUT
    return max(1, math.ceil(timeout_s * 1000))


def s_of(timeout_s: float | None) -> int:
    """Whole seconds for waits on the device, rounded up and at least 1; 0 means for ever there."""
    if timeout_s is None:
        return 0
    if _checked(timeout_s) >= _MAX_TIMEOUT:
        return _MAX_TIMEOUT
    return max(1, math.ceil(timeout_s))


class Calls:
    """Calls one library. Its subclasses add the methods."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._thread = threading.local()

    def __repr__(self) -> str:
        return f"Runtime({self._library.path!r})"

    @property
    def library(self) -> Library:
        """The library that the calls go to."""
        return self._library

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
        if code == CONTEXT_NULL and code in quiet:
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

    def take_last_error(self) -> int:
        """As `peek_last_error`, and sets it to 0. Checks made before the runtime's own (100000) do not set
        it."""
        return self._code("aclrtGetLastError", int(LastErrLevel.THREAD))

    # ---- one output ----

    def _out(self, kind: Any, name: str, *args: Any) -> Any:
        """The value of a function whose first parameter is its output."""
        out = kind()
        self._call(name, ctypes.byref(out), *args)
        return out.value

    def _out_last(self, kind: Any, name: str, *args: Any) -> Any:
        """The value of a function whose last parameter is its output."""
        out = kind()
        self._call(name, *args, ctypes.byref(out))
        return out.value
