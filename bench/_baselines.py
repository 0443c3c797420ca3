"""What is written today, as a competent user would: each is one copy that a task can await.

thread    memcpy_async and synchronize_stream in asyncio.to_thread, a stream for each worker thread
executor  the synchronous copy in run_in_executor
polled    one stream, one event for each copy, asked for with asyncio.sleep between
slab      staging by hand: one page-locked slab, filled, copied and waited for in a worker thread
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.abi import MemcpyKind
from npu_xfer._settings import MIB

if TYPE_CHECKING:
    import numpy as np

    from bench._measure import Ground

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

SLAB_NBYTES = 64 * MIB


class Baselines:
    """Copies of nbytes between `host` (an address) and `device`, one direction."""

    def __init__(self, ground: Ground, *, to_device: bool, host: int, device: int, nbytes: int) -> None:
        self._ground = ground
        self._runtime = ground.runtime
        self._nbytes = nbytes
        self._kind = MemcpyKind.HOST_TO_DEVICE if to_device else MemcpyKind.DEVICE_TO_HOST
        self._host, self._device = host, device
        self._dst, self._src = (device, host) if to_device else (host, device)
        self._to_device = to_device
        self._local = threading.local()
        self._polled_stream = self._runtime.create_stream()
        self._events: list[int] = []
        self._slab = 0
        self._view: Bytes | None = None

    def _stream(self) -> int:
        """This thread's own stream; its device is set."""
        if not hasattr(self._local, "stream"):
            self._runtime.set_device(0)
            self._local.stream = self._runtime.create_stream()
        stream: int = self._local.stream
        return stream

    def _async_copy(self) -> None:
        stream = self._stream()
        self._runtime.memcpy_async(self._dst, self._nbytes, self._src, self._nbytes, self._kind, stream)
        self._runtime.synchronize_stream(stream)

    async def thread(self) -> None:
        await asyncio.to_thread(self._async_copy)

    def sync_copy(self) -> None:
        self._stream()
        self._runtime.memcpy(self._dst, self._nbytes, self._src, self._nbytes, self._kind)

    async def executor(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.sync_copy)

    async def polled(self) -> None:
        runtime, stream = self._runtime, self._polled_stream
        event = self._events.pop() if self._events else runtime.create_reusable_event()
        runtime.memcpy_async(self._dst, self._nbytes, self._src, self._nbytes, self._kind, stream)
        runtime.record_event(event, stream)
        while not runtime.event_is_complete(event):  # noqa: ASYNC110  # polling is what this baseline is
            await asyncio.sleep(0)
        self._events.append(event)

    def _by_slab(self) -> None:
        stream, runtime = self._stream(), self._runtime
        if self._view is None:
            self._slab = self._ground.pinned(min(self._nbytes, SLAB_NBYTES))
            self._view = self._ground.view(self._slab, min(self._nbytes, SLAB_NBYTES))
            self._far = self._ground.view(self._host, self._nbytes)
        for at in range(0, self._nbytes, SLAB_NBYTES):
            n = min(SLAB_NBYTES, self._nbytes - at)
            if self._to_device:
                self._view[:n] = self._far[at : at + n]
                runtime.memcpy_async(self._device + at, n, self._slab, n, self._kind, stream)
                runtime.synchronize_stream(stream)
            else:
                runtime.memcpy_async(self._slab, n, self._device + at, n, self._kind, stream)
                runtime.synchronize_stream(stream)
                self._far[at : at + n] = self._view[:n]

    async def slab(self) -> None:
        await asyncio.to_thread(self._by_slab)
