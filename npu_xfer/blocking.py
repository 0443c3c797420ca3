"""The blocking scheduler: the same verbs for code without an event loop."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, overload

from npu_xfer import _native
from npu_xfer._after import due_ns_of, stream_address, waits_of
from npu_xfer._buffers import as_source, is_plain
from npu_xfer._face import Face, sources_of
from npu_xfer._types import After, Priority, StreamLike
from npu_xfer.device_array import ArrayOnDevice
from npu_xfer.errors import TransferWarning, WouldBlock
from npu_xfer.transfer import Handle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from numpy.typing import NDArray
    from typing_extensions import Self

    from npu_xfer._types import DeviceTensor, HostArray, HostTarget

__all__ = ["BlockingDeviceArray", "BlockingScheduler", "BlockingTransfer"]

T_co = TypeVar("T_co", covariant=True)
TargetT = TypeVar("TargetT", bound="HostTarget")
TensorT = TypeVar("TensorT", bound="DeviceTensor")

_SIGNAL_S = 0.5  # how often a wait lets Python handle signals


def _left_s(due_ns: int) -> float:
    return max(0.0, (due_ns - time.monotonic_ns()) / 1e9)


class BlockingDeviceArray(ArrayOnDevice):
    """An array in device memory that a BlockingScheduler made."""

    __slots__ = ()

    def to_host(
        self,
        *,
        out: HostTarget | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> NDArray[Any]:
        """A copy in host memory; see `BlockingScheduler.to_host`."""
        face: BlockingScheduler = self._owner
        result: NDArray[Any] = face.submit_to_host(
            self, out=out, priority=priority, after=after, deadline_s=deadline_s
        )._only_result()
        return result

    def copy(self) -> BlockingDeviceArray:
        """A new device array with the same bytes, which do not pass the host."""
        face: BlockingScheduler = self._owner
        result: BlockingDeviceArray = face.copy(self)
        return result


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

        A time-out stops the waiting, not the copy; `withdraw` does what can be done about that.
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

    def withdraw(self) -> None:
        """Takes back what is not on the device's queues yet; see `Transfer.withdraw`."""
        if self._outcome is None:
            self._unwanted = True
            self._inbox.engine.withdraw(self._ticket())

    def quiesced(self) -> None:
        """Waits until nothing touches its buffers any more, however it ended; see `Transfer.quiesced`."""
        while not self._quiet:
            self._wait(_SIGNAL_S)

    def wait_captured(self) -> None:
        """Waits until the source may be changed or freed."""
        while not self._captured:
            self._wait(_SIGNAL_S)

    def _only_result(self) -> T_co:
        """The result for the one call that knows this transfer; Ctrl-C there withdraws it."""
        try:
            return self.result()
        except BaseException:
            self.withdraw()
            raise
        finally:
            self = None  # type: ignore[assignment]  # no cycle of error, traceback, frame, transfer

    def _wait(self, timeout_s: float) -> None:
        self._port.wait(timeout_s)
        self._inbox.settle()


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

    def _when_room(self, start: Callable[[], None], due_ns: int, direction: str, nbytes: int) -> None:
        """Runs `start`, which submits, now or when the window has room for it, by then if not 0.

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
            if not self._gate.acquire(timeout=_left_s(due_ns) if due_ns else -1):
                raise self._no_room(direction, nbytes)
            try:
                while True:
                    try:
                        return start()
                    except WouldBlock:  # noqa: PERF203  # waits, so it is not in a hurry
                        left_s = _left_s(due_ns) if due_ns else _SIGNAL_S
                        if left_s == 0:
                            raise self._no_room(direction, nbytes) from None
                        self._opened().native.wait_room(min(left_s, _SIGNAL_S))
            finally:
                self._gate.release()
        finally:
            with self._counting:
                self._n_waiting -= 1

    def _wait_for(self, after: After | None, due_ns: int) -> _native.Wait | None:
        engine = self._opened().native
        if after is None:
            return engine.after([], [], [], due_ns) if due_ns else None
        waits = waits_of(
            after,
            self._device,
            lambda other: isinstance(other, BlockingTransfer) and other._inbox.engine is engine,
        )
        return engine.after(waits.streams, waits.events, waits.handles, due_ns)

    def submit_to_device(
        self,
        array: HostArray,
        *,
        out: DeviceTensor | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> BlockingTransfer[BlockingDeviceArray]:
        """Starts a copy to the device; returns when the source may be changed or freed."""
        transfer = self._start_upload(array, out, priority, after, deadline_s)
        try:
            transfer.wait_captured()
        except BaseException:
            transfer.withdraw()
            raise
        return transfer

    def submit_to_device_nowait(
        self,
        array: HostArray,
        *,
        out: DeviceTensor | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> BlockingTransfer[BlockingDeviceArray]:
        """Starts a copy to the device now, or raises WouldBlock; see `Scheduler.submit_to_device_nowait`."""
        on_device = None if is_plain(array) else self._on_device(array)
        source = as_source(array) if on_device is None else on_device
        spec = (source.shape, source.dtype, source.nbytes, out)
        transfer: BlockingTransfer[BlockingDeviceArray] = BlockingTransfer(
            self._inbox(), self._finish_upload, spec
        )
        self._refuse_if_others_wait()
        if isinstance(source, BlockingDeviceArray):
            self._copy_on_device(transfer._port, transfer, source, out, priority, None)
        else:
            self._upload(transfer._port, transfer, source, out, priority, False, None)
        return transfer

    def submit_to_host_nowait(
        self,
        array: BlockingDeviceArray | DeviceTensor,
        *,
        out: HostTarget | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> BlockingTransfer[NDArray[Any]]:
        """Starts a copy to the host now, or raises WouldBlock."""
        if array.__class__ is not BlockingDeviceArray:
            array = self.as_device_array(array)
        target = self._host_target(array, out)
        result: Any = target if out is None else out
        transfer: BlockingTransfer[Any] = BlockingTransfer(self._inbox(), self._finish_download, result)
        self._refuse_if_others_wait()
        self._download(transfer._port, transfer, array, target, priority, None)
        return transfer

    def _refuse_if_others_wait(self) -> None:
        if self._n_waiting:
            raise WouldBlock("others wait for room in the window")

    def _start_upload(
        self,
        array: HostArray,
        out: DeviceTensor | None,
        priority: int,
        after: After | None,
        deadline_s: float | None,
        *,
        awaits_end: bool = False,
    ) -> BlockingTransfer[BlockingDeviceArray]:
        due_ns = due_ns_of(deadline_s)
        on_device = None if is_plain(array) else self._on_device(array)
        if on_device is not None:
            return self._start_on_device(on_device, out, priority, after, due_ns)
        source = as_source(array)
        spec = (source.shape, source.dtype, source.nbytes, out)
        transfer: BlockingTransfer[BlockingDeviceArray] = BlockingTransfer(
            self._inbox(), self._finish_upload, spec
        )
        wait = self._wait_for(after, due_ns)
        self._when_room(
            lambda: self._upload(transfer._port, transfer, source, out, priority, awaits_end, wait),
            due_ns,
            "h2d",
            source.nbytes,
        )
        return transfer

    def _start_on_device(
        self, source: BlockingDeviceArray, out: object, priority: int, after: After | None, due_ns: int
    ) -> BlockingTransfer[BlockingDeviceArray]:
        spec = (source.shape, source.dtype, source.nbytes, out)
        transfer: BlockingTransfer[BlockingDeviceArray] = BlockingTransfer(
            self._inbox(), self._finish_upload, spec
        )
        wait = self._wait_for(after, due_ns)
        self._when_room(
            lambda: self._copy_on_device(transfer._port, transfer, source, out, priority, wait),
            due_ns,
            "d2d",
            source.nbytes,
        )
        return transfer

    def copy(
        self,
        src: Any,
        dst: Any = None,
        *,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """Copies `src` into `dst`, whichever way; see `Scheduler.copy`."""
        if self._way(src, dst) == "d2h":
            return self.to_host(src, out=dst, priority=priority, after=after, deadline_s=deadline_s)
        return self.to_device(src, out=dst, priority=priority, after=after, deadline_s=deadline_s)

    def submit_to_host(
        self,
        array: BlockingDeviceArray | DeviceTensor,
        *,
        out: HostTarget | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> BlockingTransfer[NDArray[Any]]:
        """Starts a copy to the host; `result` of the returned transfer gives the array."""
        due_ns = due_ns_of(deadline_s)
        if array.__class__ is not BlockingDeviceArray:
            array = self.as_device_array(array)
        target = self._host_target(array, out)
        result: Any = target if out is None else out
        transfer: BlockingTransfer[Any] = BlockingTransfer(self._inbox(), self._finish_download, result)
        wait = self._wait_for(after, due_ns)
        self._when_room(
            lambda: self._download(transfer._port, transfer, array, target, priority, wait),
            due_ns,
            "d2h",
            target.nbytes,
        )
        return transfer

    @overload
    def to_device(
        self,
        array: HostArray,
        *,
        out: None = None,
        priority: Priority = ...,
        after: After | None = ...,
        deadline_s: float | None = ...,
    ) -> BlockingDeviceArray: ...
    @overload
    def to_device(
        self,
        array: HostArray,
        *,
        out: TensorT,
        priority: Priority = ...,
        after: After | None = ...,
        deadline_s: float | None = ...,
    ) -> TensorT: ...
    def to_device(
        self,
        array: HostArray,
        *,
        out: DeviceTensor | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """Copies a numpy array to the device; see `Scheduler.to_device`."""
        return self._start_upload(array, out, priority, after, deadline_s, awaits_end=True)._only_result()

    @overload
    def to_host(
        self,
        array: BlockingDeviceArray | DeviceTensor,
        *,
        out: None = None,
        priority: Priority = ...,
        after: After | None = ...,
        deadline_s: float | None = ...,
    ) -> NDArray[Any]: ...
    @overload
    def to_host(
        self,
        array: BlockingDeviceArray | DeviceTensor,
        *,
        out: TargetT,
        priority: Priority = ...,
        after: After | None = ...,
        deadline_s: float | None = ...,
    ) -> TargetT: ...
    def to_host(
        self,
        array: BlockingDeviceArray | DeviceTensor,
        *,
        out: HostTarget | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """Copies a device array to host memory; see `Scheduler.to_host`."""
        return self.submit_to_host(
            array, out=out, priority=priority, after=after, deadline_s=deadline_s
        )._only_result()

    def to_device_many(
        self,
        tree: Any,
        *,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """Copies every numpy array in a tree to the device; see `Scheduler.to_device_many`."""
        due_ns = due_ns_of(deadline_s)
        arrays, plan = sources_of(tree)
        transfer: BlockingTransfer[Any] = BlockingTransfer(
            self._inbox(), self._finish_upload_many, (arrays, plan)
        )
        wait = self._wait_for(after, due_ns)
        self._when_room(
            lambda: self._upload_many(transfer._port, transfer, arrays, priority, wait),
            due_ns,
            "h2d",
            sum(array.nbytes for array in arrays),
        )
        return transfer._only_result()

    def to_host_many(
        self,
        tree: Any,
        *,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """Copies every device array in a tree to the host; see `Scheduler.to_host_many`."""
        due_ns = due_ns_of(deadline_s)
        arrays, targets, spec = self._host_targets(tree)
        transfer: BlockingTransfer[Any] = BlockingTransfer(self._inbox(), self._finish_download_many, spec)
        wait = self._wait_for(after, due_ns)
        self._when_room(
            lambda: self._download_many(transfer._port, transfer, arrays, targets, priority, wait),
            due_ns,
            "d2h",
            sum(array.nbytes for array in arrays),
        )
        return transfer._only_result()

    def __del__(self) -> None:
        core = self._core
        if core is not None and not core.native.closed:
            warnings.warn(
                f"{self!r} was never closed; use `with`", TransferWarning, stacklevel=2, source=self
            )
