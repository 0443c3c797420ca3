"""The asynchronous scheduler: awaitable copies between numpy arrays and one NPU."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar, overload

import anyio
import anyio.to_thread

from npu_xfer._after import waits_of
from npu_xfer._bridge import Bridge, open_bridge, run_to_end
from npu_xfer._buffers import as_source, exportable, is_plain, prepare
from npu_xfer._face import D2H, H2D, Face, sources_of
from npu_xfer._types import After, Priority
from npu_xfer.device_array import DeviceArray
from npu_xfer.errors import ClosedError, TransferWarning, WouldBlock, XferError
from npu_xfer.transfer import Transfer, raise_taken

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

    from npu_xfer import _native
    from npu_xfer._native import Wait

__all__ = ["Scheduler"]

ArrayT = TypeVar("ArrayT", bound="NDArray[Any]")


class Scheduler(Face[DeviceArray]):
    """Moves arrays between host memory and one device, from inside an asyncio or trio event loop.

    ::

        async with npu_xfer.Scheduler(device=0) as xfer:
            on_device = await xfer.to_device(array)
            back = await xfer.to_host(on_device)

    It runs on the CANN library if one is present and else on the simulator; `library` says which. A scheduler
    belongs to the event loop in which it is opened and serves any number of its tasks; threads without a
    loop use `BlockingScheduler`. Without ``async with``, call `open` and `close`.
    """

    _array_type = DeviceArray
    _opened_by = "async with"
    _bridge: Bridge | None = None
    _native: _native.Engine  # there while there is a bridge

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Sets up the device on a worker thread; ``async with`` does it for you.

        Raises LibraryError, AclError, or InvalidTransfer for a device that is not there. A cancellation takes
        effect when the device is set up, which is then closed again.
        """
        try:
            await run_to_end(self._open_core)
            self._native = self._opened().native
            self._bridge = open_bridge()
            self._bridge.engine, self._bridge.device = self._native, self._device
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            await self.close()
            raise

    async def close(self, *, timeout_s: float | None = None) -> int:
        """Takes no further work, waits for what is under way, and gives the device back.

        Returns how many transfers had no end after `timeout_s` seconds (default: `close_timeout_s` of the
        constructor); their awaits raise ClosedError, and memory that the device may still write to is kept
        until the process ends. A second close does nothing. Device arrays of this scheduler are invalid
        afterwards; host arrays, page-locked ones too, stay valid.
        """
        if self._core is None:
            return 0
        limit = self._close_timeout_s if timeout_s is None else timeout_s
        try:
            with anyio.CancelScope(shield=True):
                abandoned = await anyio.to_thread.run_sync(self._core.close, limit)
        except Exception:  # a warning that is an error; closed it is
            self._drop_bridge()
            raise
        # No finally: anyio's shield does not hold back the cancellation of a task of asyncio. The worker then
        # goes on, and the bridge must listen until it has ended; the next close waits for it.
        self._drop_bridge()
        return abandoned

    def _drop_bridge(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.reap()
            bridge.close()

    def _loop(self) -> Bridge:
        """The bridge, if the caller is where it belongs."""
        bridge = self._bridge
        if bridge is None:
            self._opened()
            raise ClosedError("this scheduler is closed", remedy="open a new one")
        if not bridge.is_here():
            raise XferError(
                "this scheduler belongs to another event loop, the one in which it was opened",
                remedy="open one in this loop, or use a BlockingScheduler in a plain thread",
            )
        return bridge

    async def _when_room(self, bridge: Bridge, start: Callable[[], object]) -> None:
        """Runs `start`, which submits, now or when the window has room for it."""
        try:
            if bridge.n_waiting:
                raise WouldBlock("others wait for room")  # joins them
            start()
        except WouldBlock:
            await bridge.when_room(start)

    async def _wait_for(self, bridge: Bridge, after: After | None) -> Wait | None:
        """What the engine is to wait for; with events recorded, on a worker, as a stream may be full."""
        if after is None:
            return None
        waits = waits_of(after, self._device, lambda other: getattr(other, "_loop", None) is bridge)
        if not waits.streams:
            return self._native.after([], waits.events, waits.handles)
        return await run_to_end(self._native.after, waits.streams, waits.events, waits.handles)

    async def _start_upload(
        self,
        array: NDArray[Any] | np.generic,
        out: DeviceArray | None,
        priority: int = Priority.NORMAL,
        after: After | None = None,
    ) -> Transfer[DeviceArray]:
        bridge = self._loop()
        source = as_source(array)
        spec = (source.shape, source.dtype, source.nbytes, out)
        transfer: Transfer[DeviceArray] = Transfer(bridge, self._finish_upload, spec)
        wait = await self._wait_for(bridge, after)
        await self._when_room(
            bridge, lambda: self._upload(bridge.port, transfer, source, out, priority, False, wait)
        )
        return transfer

    async def to_device(
        self,
        array: NDArray[Any] | np.generic,
        *,
        out: DeviceArray | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> DeviceArray:
        """Copies a numpy array to the device; returns when its bytes are there, visible to every stream.

        Args:
            array: any native numeric, date or structured dtype, any strides; copied in C order. It must not
                change before the call returns (see `submit_to_device`).
            out: an array of this device to copy into, of the same shape and dtype, instead of a new one.
            priority: which of the transfers that could go now goes first; order on shared memory is kept
                whatever the priorities.
            after: what is to be over first: everything put so far on a stream (its address, or an object with
                ``npu_stream`` such as ``torch.npu.Stream``), an event (``npu_event``, `RawEvent`), a transfer
                of this scheduler (over, however it ended), or a list of these. Streams and events are waited
                for on the device, without blocking the host. A wait that never ends holds the transfer, and
                what comes later on the same memory, until the scheduler is closed.

        Raises:
            InvalidTransfer, UnsupportedDType: before anything was started.
            TransferError: the copy failed; the bytes of `out` are undefined.
            ClosedError: the scheduler is closed.
        """
        bridge = self._bridge
        if bridge is None or not bridge.is_here():
            bridge = self._loop()
        if after is not None:
            return await (await self._start_upload(array, out, priority, after))
        source, exported = (array, array) if is_plain(array) else prepare(array)
        block, offset = (None, 0) if out is None else (self._device_target(out, source), out._offset)
        call = bridge.new_call()
        request = (bridge.port, call, H2D, exported, block, offset, priority, True)
        try:
            if bridge.n_waiting:
                raise WouldBlock("others wait for room")  # joins them
            self._native.submit(*request)
        except WouldBlock:
            await bridge.when_room(lambda: self._native.submit(*request))
        outcome = await call
        if type(outcome) is not tuple:
            raise_taken(outcome)
        if out is not None:
            return out
        return DeviceArray(self, outcome[0], source.shape, source.dtype, source.nbytes)

    async def submit_to_device(
        self,
        array: NDArray[Any] | np.generic,
        *,
        out: DeviceArray | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> Transfer[DeviceArray]:
        """Starts a copy to the device; returns as soon as the source may be changed or freed.

        The bytes are then in staging memory (an array larger than the free staging memory: its last piece
        is), and awaiting the result waits for the device. The exception is an array of `empty_pinned`, which
        is borrowed: it must not change before the transfer is done. With `after`, one that is larger than a
        chunk is captured only when what it waits for is over. Arguments and errors as `to_device`; what goes
        wrong after the start is raised by awaiting the transfer.
        """
        transfer = await self._start_upload(array, out, priority, after)
        if not transfer.captured:
            await transfer._wait_captured()
        return transfer

    @overload
    async def to_host(
        self,
        array: DeviceArray,
        *,
        out: None = None,
        priority: Priority = ...,
        after: After | None = ...,
    ) -> NDArray[Any]: ...
    @overload
    async def to_host(
        self, array: DeviceArray, *, out: ArrayT, priority: Priority = ..., after: After | None = ...
    ) -> ArrayT: ...
    async def to_host(
        self,
        array: DeviceArray,
        *,
        out: NDArray[Any] | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> NDArray[Any]:
        """Copies a device array to host memory; returns the numpy array when it is complete.

        Args:
            array: what `to_device` returned.
            out: a writable array of the same shape and dtype, any strides without overlap, instead of a new
                one; undefined until the call returns, and after an error. One of `empty_pinned` is written
                by the device directly. After a cancellation the copy may still write it: to know when that is
                over, use `submit_to_host` and await the transfer again.
            priority, after: as for `to_device`.

        Raises:
            InvalidTransfer: before anything was started.
            TransferError: the copy failed.
            ClosedError: the scheduler is closed.
        """
        bridge = self._bridge
        if bridge is None or not bridge.is_here():
            bridge = self._loop()
        if after is not None:
            return await (await self.submit_to_host(array, out=out, priority=priority, after=after))
        target = self._host_target(array, out)
        result = target if out is None else out
        block = array._block
        if block is None:  # no bytes
            return result
        call = bridge.new_call()
        request = (bridge.port, call, D2H, exportable(target), block, array._offset, priority, True)
        try:
            if bridge.n_waiting:
                raise WouldBlock("others wait for room")  # joins them
            self._native.submit(*request)
        except WouldBlock:
            await bridge.when_room(lambda: self._native.submit(*request))
        outcome = await call
        if type(outcome) is not tuple:
            raise_taken(outcome)
        return result

    async def submit_to_host(
        self,
        array: DeviceArray,
        *,
        out: NDArray[Any] | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> Transfer[NDArray[Any]]:
        """Starts a copy to the host; awaiting the returned transfer gives the array. See `to_host`."""
        bridge = self._loop()
        target = self._host_target(array, out)
        transfer: Transfer[NDArray[Any]] = Transfer(
            bridge, self._finish_download, target if out is None else out
        )
        wait = await self._wait_for(bridge, after)
        await self._when_room(
            bridge, lambda: self._download(bridge.port, transfer, array, target, priority, wait)
        )
        return transfer

    async def to_device_many(
        self, tree: Any, *, priority: Priority = Priority.NORMAL, after: After | None = None
    ) -> Any:
        """Copies every numpy array in a tree to the device: one request, one wake-up.

        Args:
            tree: lists, tuples, named tuples, dicts and dataclass instances, nested, of arrays. Numbers,
                text, None and other leaves that are no arrays are passed through; what looks like an array
                of another kind, an iterator or something to be awaited is refused.
            priority, after: as for `to_device`, for all of them.

        Returns:
            The same structure with a DeviceArray in the place of each array.

        Raises:
            InvalidTransfer: an array cannot be moved; nothing was started.
            BatchError: some copies failed; its `errors` says which, its `results` has the others.
        """
        bridge = self._loop()
        arrays, plan = sources_of(tree)
        transfer: Transfer[Any] = Transfer(bridge, self._finish_upload_many, (arrays, plan))
        wait = await self._wait_for(bridge, after)
        await self._when_room(
            bridge, lambda: self._upload_many(bridge.port, transfer, arrays, priority, wait)
        )
        return await transfer

    async def to_host_many(
        self, tree: Any, *, priority: Priority = Priority.NORMAL, after: After | None = None
    ) -> Any:
        """Copies every device array in a tree to the host: one request, one wake-up. See `to_device_many`."""
        bridge = self._loop()
        arrays, targets, spec = self._host_targets(tree)
        transfer: Transfer[Any] = Transfer(bridge, self._finish_download_many, spec)
        wait = await self._wait_for(bridge, after)
        await self._when_room(
            bridge, lambda: self._download_many(bridge.port, transfer, arrays, targets, priority, wait)
        )
        return await transfer

    def __del__(self) -> None:
        core = self._core
        if core is not None and not core.native.closed:
            warnings.warn(
                f"{self!r} was never closed; use `async with`", TransferWarning, stacklevel=2, source=self
            )
