"""The blocking scheduler: the same verbs for code without an event loop."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, overload

from npu_xfer import _native
from npu_xfer._after import stream_address, waits_of
from npu_xfer._buffers import as_source
from npu_xfer._face import Face, sources_of
from npu_xfer._types import After, Priority, StreamLike
from npu_xfer.device_array import ArrayOnDevice
from npu_xfer.errors import TransferWarning, WouldBlock
from npu_xfer.transfer import Handle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

__all__ = ["BlockingDeviceArray", "BlockingScheduler", "BlockingTransfer"]

T_co = TypeVar("T_co", covariant=True)
ArrayT = TypeVar("ArrayT", bound="NDArray[Any]")

_SIGNAL_S = 0.5  # how often a wait lets Python handle signals


class BlockingDeviceArray(ArrayOnDevice):
    """An array in device memory that a BlockingScheduler made."""

    __slots__ = ()

    def to_host(
        self,
        *,
        out: NDArray[Any] | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> NDArray[Any]:
        """A copy in host memory; see `BlockingScheduler.to_host`."""
        face: BlockingScheduler = self._owner
        return face.to_host(self, out=out, priority=priority, after=after)


class _Inbox:
    """A thread's port, and what was taken from it and perhaps not settled because Ctrl-C came between."""

    __slots__ = ("_mu", "_news", "device", "engine", "port")

    def __init__(self, engine: _native.Engine, device: int) -> None:
        self.engine = engine
        self.device = device
        self.port = _native.Port()
        self._news: list[tuple[Any, Any, bool]] = []
        self._mu = threading.Lock()  # a transfer may be handed to another thread, which then looks here too

    def settle(self) -> None:
        with self._mu:
            self.port.reap(self._news)
            for ticket, outcome, failed in self._news:
                handle = ticket()
                if handle is not None:
                    handle._settle(outcome, failed)
            self._news.clear()


class BlockingTransfer(Handle[T_co]):
    """A transfer that was submitted; `result` waits for it, on one thread at a time."""

    __slots__ = ("_inbox", "_port")

    def __init__(self, inbox: _Inbox, finish: Callable[[tuple[Any, ...], Any], T_co], spec: Any) -> None:
        super().__init__(finish, spec)
        self._inbox = inbox
        self._port = inbox.port

    def _ticket(self) -> Any:
        # Not the transfer itself: it keeps its inbox, and nobody would look into that any more when the
        # thread has ended and the transfer was dropped.
        return weakref.ref(self)

    @property
    def done(self) -> bool:
        """The bytes are where they should be, or the transfer failed. Looks, and does not wait."""
        if self._outcome is None:
            self._inbox.settle()
        return self._outcome is not None

    def result(self, timeout_s: float | None = None) -> T_co:
        """Waits until the bytes have landed. Raises TransferError, or TimeoutError after timeout_s seconds.

        A time-out stops the waiting, not the copy.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._outcome is None:
            left = _SIGNAL_S if deadline is None else min(_SIGNAL_S, deadline - time.monotonic())
            self._wait(max(left, 0.0))  # looks at least once
            if left <= 0 and self._outcome is None:
                raise TimeoutError(f"the transfer was not done after {timeout_s} s")
        try:
            return self._take()
        finally:
            self = None  # type: ignore[assignment]  # no cycle of error, traceback, frame, transfer

    def order_before(self, stream: int | StreamLike) -> None:
        """Makes a stream wait for this transfer; see `Transfer.order_before`."""
        address = stream_address(stream, self._inbox.device, "stream")
        if self.done or self._inbox.engine.order_before(self._ticket(), address):
            return
        while self._outcome is None:
            self._wait(_SIGNAL_S)

    def _wait(self, timeout_s: float) -> None:
        self._port.wait(timeout_s)
        self._inbox.settle()

    def _wait_captured(self) -> None:
        while not self._captured:
            self._wait(_SIGNAL_S)


class BlockingScheduler(Face[BlockingDeviceArray]):
    """Moves arrays between host memory and one device, for plain threads; any number of them at once.

    Every method blocks its thread, without the GIL, and is interrupted by Ctrl-C. Arguments, results and
    errors are those of `Scheduler`.
    """

    _array_type = BlockingDeviceArray
    _opened_by = "with"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Sets up the device; ``with`` does it for you. Errors as `Scheduler.open`."""
        self._open_core()
        self._local = threading.local()
        self._gate = threading.Lock()  # held by the thread that waits for room in the window
        self._counting = threading.Lock()
        self._n_waiting = 0  # threads that wait for room, or behind the one that does

    def close(self, *, timeout_s: float | None = None) -> int:
        """See `Scheduler.close`."""
        if self._core is None:
            return 0
        return self._core.close(self._close_timeout_s if timeout_s is None else timeout_s)

    def _inbox(self) -> _Inbox:
        """This thread's own inbox: completions go to the thread that waits for them."""
        self._opened()
        inbox: _Inbox | None = getattr(self._local, "inbox", None)
        if inbox is None:
            inbox = self._local.inbox = _Inbox(self._opened().native, self._device)
        return inbox

    def _when_room(self, start: Callable[[], None]) -> None:
        """Runs `start`, which submits, now or when the window has room for it.

        While one thread waits for room nobody overtakes it: small transfers would else keep the window too
        full for a large one for ever.
        """
        if self._n_waiting == 0:
            try:
                return start()
            except WouldBlock:
                pass
        with self._counting:
            self._n_waiting += 1
        try:
            with self._gate:
                while True:
                    try:
                        return start()
                    except WouldBlock:  # noqa: PERF203  # waits, so it is not in a hurry
                        self._opened().native.wait_room(_SIGNAL_S)
        finally:
            with self._counting:
                self._n_waiting -= 1

    def _wait_for(self, after: After | None) -> _native.Wait | None:
        if after is None:
            return None
        engine = self._opened().native
        waits = waits_of(
            after,
            self._device,
            lambda other: isinstance(other, BlockingTransfer) and other._inbox.engine is engine,
        )
        return engine.after(waits.streams, waits.events, waits.handles)

    def submit_to_device(
        self,
        array: NDArray[Any] | np.generic,
        *,
        out: BlockingDeviceArray | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> BlockingTransfer[BlockingDeviceArray]:
        """Starts a copy to the device; returns when the source may be changed or freed."""
        transfer = self._start_upload(array, out, priority, after)
        transfer._wait_captured()
        return transfer

    def _start_upload(
        self,
        array: NDArray[Any] | np.generic,
        out: BlockingDeviceArray | None,
        priority: int,
        after: After | None,
        *,
        awaits_end: bool = False,
    ) -> BlockingTransfer[BlockingDeviceArray]:
        source = as_source(array)
        spec = (source.shape, source.dtype, source.nbytes, out)
        transfer: BlockingTransfer[BlockingDeviceArray] = BlockingTransfer(
            self._inbox(), self._finish_upload, spec
        )
        wait = self._wait_for(after)
        self._when_room(
            lambda: self._upload(transfer._port, transfer, source, out, priority, awaits_end, wait)
        )
        return transfer

    def submit_to_host(
        self,
        array: BlockingDeviceArray,
        *,
        out: NDArray[Any] | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> BlockingTransfer[NDArray[Any]]:
        """Starts a copy to the host; `result` of the returned transfer gives the array."""
        target = self._host_target(array, out)
        transfer: BlockingTransfer[NDArray[Any]] = BlockingTransfer(
            self._inbox(), self._finish_download, target if out is None else out
        )
        wait = self._wait_for(after)
        self._when_room(lambda: self._download(transfer._port, transfer, array, target, priority, wait))
        return transfer

    def to_device(
        self,
        array: NDArray[Any] | np.generic,
        *,
        out: BlockingDeviceArray | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> BlockingDeviceArray:
        """Copies a numpy array to the device; see `Scheduler.to_device`."""
        return self._start_upload(array, out, priority, after, awaits_end=True).result()

    @overload
    def to_host(
        self,
        array: BlockingDeviceArray,
        *,
        out: None = None,
        priority: Priority = ...,
        after: After | None = ...,
    ) -> NDArray[Any]: ...
    @overload
    def to_host(
        self,
        array: BlockingDeviceArray,
        *,
        out: ArrayT,
        priority: Priority = ...,
        after: After | None = ...,
    ) -> ArrayT: ...
    def to_host(
        self,
        array: BlockingDeviceArray,
        *,
        out: NDArray[Any] | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> NDArray[Any]:
        """Copies a device array to host memory; see `Scheduler.to_host`."""
        return self.submit_to_host(array, out=out, priority=priority, after=after).result()

    def to_device_many(
        self, tree: Any, *, priority: Priority = Priority.NORMAL, after: After | None = None
    ) -> Any:
        """Copies every numpy array in a tree to the device; see `Scheduler.to_device_many`."""
        arrays, plan = sources_of(tree)
        transfer: BlockingTransfer[Any] = BlockingTransfer(
            self._inbox(), self._finish_upload_many, (arrays, plan)
        )
        wait = self._wait_for(after)
        self._when_room(lambda: self._upload_many(transfer._port, transfer, arrays, priority, wait))
        return transfer.result()

    def to_host_many(
        self, tree: Any, *, priority: Priority = Priority.NORMAL, after: After | None = None
    ) -> Any:
        """Copies every device array in a tree to the host; see `Scheduler.to_host_many`."""
        arrays, targets, spec = self._host_targets(tree)
        transfer: BlockingTransfer[Any] = BlockingTransfer(self._inbox(), self._finish_download_many, spec)
        wait = self._wait_for(after)
        self._when_room(
            lambda: self._download_many(transfer._port, transfer, arrays, targets, priority, wait)
        )
        return transfer.result()

    def __del__(self) -> None:
        core = self._core
        if core is not None and not core.native.closed:
            warnings.warn(
                f"{self!r} was never closed; use `with`", TransferWarning, stacklevel=2, source=self
            )
