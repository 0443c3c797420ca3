"""From the engine's doorbell into the caller's own event loop.

Each bridge holds one native port. When its eventfd becomes readable, everything that happened is reaped in
one go on the loop's thread, and the tasks that wait for it are woken. asyncio (also uvloop) and trio are
spoken to directly, because a task and an anyio.Event per transfer cost thirty times as much as a future.

Threads: a bridge belongs to the thread of its loop.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from npu_xfer import _native
from npu_xfer._after import stream_address
from npu_xfer.errors import WouldBlock
from npu_xfer.transfer import Failure, Over

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from npu_xfer.transfer import Transfer

_T = TypeVar("_T")

_running_loop = asyncio._get_running_loop  # found once, not for each transfer

__all__ = ["Bridge", "open_bridge", "run_to_end"]


class Bridge:
    """A port and the loop that listens to it."""

    def __init__(self) -> None:
        self.port = _native.Port(has_turns=True)
        self._news: list[tuple[Any, Any, bool]] = []  # reaped, perhaps not settled: an interrupt came between
        self.n_waiting = 0  # tasks that wait for room in the window
        self._gate = anyio.Lock()  # they go in the order in which they came
        self._room: Any = None  # the waiter of the first of them
        self.engine: _native.Engine | None = None  # whose transfers it hears of
        self.device = -1

    def reap(self) -> None:
        """Settles every transfer that has news."""
        self.port.reap(self._news)
        for handle, outcome, failed in self._news:
            handle._settle(outcome, failed)
        self._tell_room()
        self._news.clear()

    def _tell_room(self) -> None:
        if self._room is not None and self._news:
            waiter, self._room = self._room, None
            self.wake(waiter)

    async def when_room(self, start: Callable[[], object]) -> None:
        """Runs `start` when the window has room for it: when it no longer raises WouldBlock."""
        self.n_waiting += 1
        try:
            async with self._gate:
                while True:
                    try:
                        start()
                    except WouldBlock:  # noqa: PERF203  # waits, so it is not in a hurry
                        self._room = self.new_waiter()
                        try:
                            await self._room
                        finally:
                            self._room = None
                    else:
                        return
        finally:
            self.n_waiting -= 1

    async def order_before(self, transfer: Transfer[Any], stream: Any) -> None:
        """See `Transfer.order_before`."""
        address = stream_address(stream, self.device, "stream")
        if self.engine is None or transfer.done:
            return
        if not await run_to_end(self.engine.order_before, transfer._ticket(), address):
            await Over(transfer)

    def new_call(self) -> Any:
        """A handle for one await: gives the outcome of its request, a tuple or a Failure."""
        raise NotImplementedError

    def is_here(self) -> bool:
        """Whether the caller runs in this bridge's event loop."""
        raise NotImplementedError

    def new_waiter(self) -> Awaitable[None]:
        """Something that a task of this loop can await, once, until `wake` is called on it."""
        raise NotImplementedError

    def wake(self, waiter: Any) -> None:
        """Lets the task go on; a task that was cancelled meanwhile is left alone."""
        raise NotImplementedError

    def close(self) -> None:
        """Stops listening. What still arrives is released by the engine, unseen."""
        raise NotImplementedError


class _AsyncioBridge(Bridge):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.new_waiter = loop.create_future  # type: ignore[method-assign]  # saves a call per await
        self._call_type = type(loop.create_future())
        self.new_call = functools.partial(self._call_type, loop=loop)  # type: ignore[method-assign]  # the same
        loop.add_reader(self.port.fileno(), self.reap)

    def reap(self) -> None:
        self.port.reap(self._news)
        call_type = self._call_type
        closed = self._loop.is_closed()
        for handle, outcome, failed in self._news:
            if type(handle) is not call_type:
                handle._settle(outcome, failed)
            elif outcome is not None:
                result = Failure(outcome) if failed else outcome
                if not (handle.done() or closed):  # done: its task was cancelled, or this comes a second time
                    handle.set_result(result)
        self._tell_room()
        self._news.clear()

    def is_here(self) -> bool:
        return _running_loop() is self._loop

    def wake(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done() and not self._loop.is_closed():
            waiter.set_result(None)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self.port.fileno())


class _TrioWaiter:
    __slots__ = ("_bridge", "_task", "_woken")

    def __init__(self, bridge: _TrioBridge) -> None:
        self._bridge = bridge
        self._task: Any = None
        self._woken = False

    def __await__(self) -> Generator[Any, Any, None]:
        import trio

        if self._woken:
            return
        if not self._bridge.is_here():  # trio would be broken by a wake-up from another run
            raise RuntimeError("this transfer belongs to another event loop; await it where it was submitted")
        self._task = trio.lowlevel.current_task()

        def abort(_raise_cancel: Any) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        parked = trio.lowlevel.wait_task_rescheduled(abort)  # noqa: ASYNC105  # awaited by hand just below
        yield from parked.__await__()

    def wake(self) -> None:
        import trio

        self._woken = True
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)


class _TrioCall(_TrioWaiter):
    """A request with one await."""

    __slots__ = ("_result",)

    def _settle(self, outcome: tuple[Any, ...] | None, failed: bool) -> None:
        if outcome is not None and not self._woken:
            self._result: Any = Failure(outcome) if failed else outcome
            self.wake()

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from super().__await__()
        return self._result


class _TrioBridge(Bridge):
    def __init__(self) -> None:
        import trio

        super().__init__()
        self._scope = trio.CancelScope()
        self._token = trio.lowlevel.current_trio_token()
        trio.lowlevel.spawn_system_task(self._pump, name="npu_xfer completions")

    async def _pump(self) -> None:
        import trio

        with self._scope:
            while True:
                await trio.lowlevel.wait_readable(self.port.fileno())
                self.reap()

    def is_here(self) -> bool:
        import trio

        return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token

    def new_waiter(self) -> Awaitable[None]:
        return _TrioWaiter(self)

    def new_call(self) -> Any:
        return _TrioCall(self)

    def wake(self, waiter: _TrioWaiter) -> None:
        waiter.wake()

    def close(self) -> None:
        self._scope.cancel()


def open_bridge() -> Bridge:
    """A bridge into the event loop that runs on this thread. Raises RuntimeError if none does."""
    try:
        return _AsyncioBridge(asyncio.get_running_loop())
    except RuntimeError:
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            return _TrioBridge()
        raise RuntimeError(
            "no event loop runs here: open a Scheduler inside asyncio or trio, "
            "or use npu_xfer.BlockingScheduler"
        ) from None


async def run_to_end(function: Callable[..., _T], *args: Any) -> _T:
    """Runs a blocking function on a worker thread and returns only when it has ended.

    A cancellation meanwhile is raised then. (A shielded scope of anyio does not hold back the cancellation of
    an asyncio task by `Task.cancel`, `asyncio.timeout` or Ctrl-C.)
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        with anyio.CancelScope(shield=True):
            result = await anyio.to_thread.run_sync(function, *args)
        return result
    future = loop.run_in_executor(None, function, *args)
    interruption: BaseException | None = None
    with anyio.CancelScope(shield=True):
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:  # noqa: PERF203  # once, if at all
                interruption = error
    if interruption is not None:
        future.exception()  # seen, so that asyncio does not complain
        raise interruption
    return future.result()
