"""The arrays of one size and the transfers between them, as one contender of a comparison."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from bench._measure import difference, pattern
from npu_xfer.cli._pattern import fill

if TYPE_CHECKING:
    from npu_xfer import Scheduler


class Arrays:
    """`depth` workers, each with a host array and a device array of nbytes of its own."""

    def __init__(self, xfer: Scheduler, nbytes: int, depth: int, *, pinned: bool) -> None:
        self.xfer, self.nbytes, self.depth = xfer, nbytes, depth
        self.hosts: list[Any] = [
            xfer.empty_pinned(nbytes, np.uint8) if pinned else np.empty(nbytes, np.uint8)
            for _ in range(depth)
        ]
        self.devices: list[Any] = []

    async def prepare(self) -> str | None:
        """Fills everything, moves it both ways with bytes, and says what is wrong with them."""
        for worker, host in enumerate(self.hosts):
            fill(host, worker)
            self.devices.append(await self.xfer.to_device(host))
            host[:] = 0xA5
            await self.xfer.to_host(self.devices[worker], out=host)
            if (wrong := difference(host, worker)) is not None:
                return wrong
        return None

    async def _worker(self, worker: int, n: int, to_device: bool, more: dict[str, Any]) -> None:
        host, device, xfer = self.hosts[worker], self.devices[worker], self.xfer
        if to_device:
            for _ in range(n):
                await xfer.to_device(host, out=device, **more)
        else:
            for _ in range(n):
                await xfer.to_host(device, out=host, **more)

    async def run(self, n: int, *, to_device: bool, **more: Any) -> float:
        """Seconds for n transfers in all, each worker awaiting one after the other."""
        start = time.perf_counter()
        shares = [n // self.depth + (worker < n % self.depth) for worker in range(self.depth)]
        if self.depth == 1:
            await self._worker(0, n, to_device, more)
        else:
            await asyncio.gather(
                *(self._worker(worker, share, to_device, more) for worker, share in enumerate(shares))
            )
        return time.perf_counter() - start

    async def check(self, *, to_device: bool) -> str | None:
        """Compares the destinations with the patterns, then soils them for the next sample."""
        for worker, host in enumerate(self.hosts):
            arrived = await self.xfer.to_host(self.devices[worker]) if to_device else host
            if (wrong := difference(arrived, worker)) is not None:
                return f"worker {worker}: {wrong}"
            if not to_device:
                host[:] = 0xA5
        return None


async def checked(arrays: Arrays) -> Arrays:
    """The same arrays, verified once with bytes moved. Raises AssertionError for wrong ones."""
    wrong = await arrays.prepare()
    assert wrong is None, wrong
    return arrays


CHECKED = "verified before, timing only"

__all__ = ["CHECKED", "Arrays", "checked", "pattern"]
