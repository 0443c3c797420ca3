"""Notifies: one-shot signals from one stream to another."""

from __future__ import annotations

import ctypes

from npu_xfer._cann.calls.base import Calls, s_of
from npu_xfer._cann.enums import NotifyFlag

__all__ = ["NotifyCalls"]


class NotifyCalls(Calls):
    """Notifies of the current context. Unlike an event, a wait also takes the signal away."""

    def create_notify(self, flag: NotifyFlag = NotifyFlag.DEFAULT) -> int:
        """A notify. The caller destroys it."""
        return self._out_handle("aclrtCreateNotify", int(flag))

    def destroy_notify(self, notify: int) -> None:
        """Destroys a notify that no stream uses any more."""
        self._call("aclrtDestroyNotify", notify)

    def record_notify(self, notify: int, stream: int) -> None:
        """Queues the signal on the stream."""
        self._call("aclrtRecordNotify", notify, stream)

    def wait_and_reset_notify(self, notify: int, stream: int, *, timeout_s: float | None = None) -> None:
        """Makes the stream's later work wait for the signal and take it away. Does not block the host.
        `timeout_s` (None: for ever) is rounded up to whole seconds; the next synchronisation reports a wait
        that ran out."""
        self._call("aclrtWaitAndResetNotify", notify, stream, s_of(timeout_s))

    def notify_id(self, notify: int) -> int:
        """The runtime's number for the notify."""
        return int(self._out_last(ctypes.c_uint32, "aclrtGetNotifyId", notify))
