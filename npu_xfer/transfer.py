"""Handles of transfers under way: what a two-phase submit returns, and what everything else awaits."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from npu_xfer.errors import TransferWarning

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from npu_xfer._types import StreamLike

__all__ = ["Failure", "Handle", "Over", "Transfer", "Waking", "raise_taken"]

T_co = TypeVar("T_co", covariant=True)


class Waking(Protocol):
    """How a handle's owner sleeps and is woken: one of these per event loop (see _bridge)."""

    def new_waiter(self) -> Awaitable[None]: ...
    def wake(self, waiter: Any) -> None: ...
    async def order_before(self, transfer: Transfer[Any], stream: Any) -> None: ...


class _NeverRetrieved:
    """Travels with a failure until somebody asks for it; says so if nobody ever did."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text: str | None = text

    def disarm(self) -> None:
        self._text = None

    def __del__(self) -> None:
        if self._text is not None:
            warnings.warn(
                f"a transfer failed and nobody awaited it: {self._text}", TransferWarning, stacklevel=1
            )


class Failure:
    """The outcome of a transfer that failed, for the one await it belongs to; says so if that has gone."""

    __slots__ = ("_error", "_unseen")

    def __init__(self, outcome: tuple[Any, ...]) -> None:
        self._error: BaseException | None = outcome[0]
        self._unseen = _NeverRetrieved(str(outcome[0]))

    def take(self) -> BaseException:
        """The error, which this then no longer holds: no cycle through the traceback."""
        self._unseen.disarm()
        error, self._error = self._error, None
        return error or RuntimeError("taken twice")


def raise_taken(failure: Failure) -> NoReturn:
    """Raises its error, and leaves no cycle of error, traceback and frame."""
    error = failure.take()
    try:
        raise error
    finally:
        del error


class Handle(Generic[T_co]):
    """One request to the engine and, later, its outcome."""

    __slots__ = ("__weakref__", "_captured", "_finish", "_outcome", "_raised", "_spec", "_unseen", "_value")

    def __init__(self, finish: Callable[[tuple[Any, ...], Any], T_co], spec: Any) -> None:
        self._finish = finish  # turns the native outcome into the caller's value, or raises
        self._spec = spec
        self._captured = False
        self._outcome: tuple[Any, ...] | None = None
        self._raised: BaseException | None = None
        self._unseen: _NeverRetrieved | None = None
        self._value: Any = None

    @property
    def captured(self) -> bool:
        """The source may be changed or freed: its bytes are elsewhere by now, or the transfer is over."""
        return self._captured

    @property
    def done(self) -> bool:
        """The transfer is over: its bytes are where they should be, or it failed (see `failed`)."""
        return self._outcome is not None

    @property
    def failed(self) -> bool:
        """It is over and did not work; awaiting it raises why."""
        return self._unseen is not None

    def _ticket(self) -> Any:
        """What the engine gives back with the outcome."""
        return self

    def _settle(self, outcome: tuple[Any, ...] | None, failed: bool) -> None:
        """Called while reaping: None means captured, anything else is the end. A second time does nothing."""
        self._captured = True
        if outcome is not None and self._outcome is None:
            self._outcome = outcome
            if failed:
                errors = [error for error in outcome if isinstance(error, BaseException)]
                self._unseen = _NeverRetrieved(str(errors[0]))

    def _take(self) -> T_co:
        """The value of a done transfer; raises what it failed with."""
        if self._unseen is not None:
            self._unseen.disarm()
        if self._raised is not None:
            try:
                raise self._raised.with_traceback(None)  # else each await would lengthen it
            finally:
                self = None  # type: ignore[assignment]  # no cycle of error, traceback, frame, transfer
        if self._outcome is None:
            raise RuntimeError("this transfer is not done; await it")
        if self._finish is not None:
            finish, self._finish = self._finish, None  # type: ignore[assignment]  # run once
            try:
                self._value = finish(self._outcome, self._spec)
            except BaseException as error:
                self._raised = error
                self._spec, self._outcome = None, ()
                # The error must not keep, through its traceback and these frames, the arrays of the transfer.
                error.with_traceback(None)
                del finish
                self = None  # type: ignore[assignment]  # as above
                raise
            self._spec, self._outcome = None, ()
        value: T_co = self._value
        return value

    def __repr__(self) -> str:
        if self.failed:
            state = "failed"
        else:
            state = "done" if self.done else "captured" if self._captured else "pending"
        return f"<{type(self).__name__} {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a transfer belongs to its process and cannot be pickled; await it first")


class Transfer(Handle[T_co]):
    """A transfer that was submitted; ``await transfer`` gives its result once the bytes have landed.

    May be awaited more than once and by several tasks of the same event loop. Dropping it, or cancelling a
    task that awaits it, does not stop the copy: its buffers stay alive until the device is done with them,
    and until then it may still write the destination. A failure that nobody awaits becomes a
    TransferWarning.
    """

    __slots__ = ("_capture_waiters", "_loop", "_waiters")

    def __init__(self, loop: Waking, finish: Callable[[tuple[Any, ...], Any], T_co], spec: Any) -> None:
        super().__init__(finish, spec)
        self._loop = loop
        self._waiters: list[Any] | None = None
        self._capture_waiters: list[Any] | None = None

    def _settle(self, outcome: tuple[Any, ...] | None, failed: bool) -> None:
        super()._settle(outcome, failed)
        if self._capture_waiters is not None:
            woken, self._capture_waiters = self._capture_waiters, None
            for waiter in woken:
                self._loop.wake(waiter)
        if outcome is not None and self._waiters is not None:
            woken, self._waiters = self._waiters, None
            for waiter in woken:
                self._loop.wake(waiter)

    async def _wait_captured(self) -> None:
        while not self._captured:
            waiter = self._loop.new_waiter()
            if self._capture_waiters is None:
                self._capture_waiters = []
            self._capture_waiters.append(waiter)
            try:
                await waiter
            except BaseException:
                _forget(self._capture_waiters, waiter)
                raise

    async def order_before(self, stream: int | StreamLike) -> None:
        """Makes work that is put on a stream from now on wait for this transfer, on the device.

        Returns when the stream has the wait, which blocks neither the host nor the event loop: kernels that
        read what the transfer brings can be launched at once. The stream goes on when the transfer is over,
        however it ended, so its failure shows where it is awaited. Needs notifies (aclrtCreateNotify, CANN
        8.5.0); without them this returns when the transfer is over, which is as right and not as fast.

        Args:
            stream: the address of an ACL stream of this device, or an object with ``npu_stream`` such as
                ``torch.npu.Stream``.

        Raises InvalidTransfer for what is no stream, AclError when the runtime refuses it.
        """
        await self._loop.order_before(self, stream)

    def __await__(self) -> Generator[Any, Any, T_co]:
        yield from self._until_over()
        return self._take()

    def _until_over(self) -> Generator[Any, Any, None]:
        while self._outcome is None:
            waiter = self._loop.new_waiter()
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            try:
                yield from waiter.__await__()
            except BaseException:
                _forget(self._waiters, waiter)
                raise


class Over:
    """Awaiting it waits for the end of a transfer, whatever it is."""

    __slots__ = ("_transfer",)

    def __init__(self, transfer: Transfer[Any]) -> None:
        self._transfer = transfer

    def __await__(self) -> Generator[Any, Any, None]:
        return self._transfer._until_over()


def _forget(waiters: list[Any] | None, waiter: Any) -> None:
    """A cancelled await must not stay in the list for as long as the device is busy."""
    if waiters is not None and waiter in waiters:
        waiters.remove(waiter)
