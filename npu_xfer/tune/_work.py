"""What is measured: four kinds of work that the settings pull in different directions."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer._settings import KIB, MIB
from npu_xfer.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["WORKLOADS", "measure"]

WORKLOADS = ("pageable", "page-locked", "many small", "alone")


async def _workloads(xfer: Scheduler, scale: float) -> dict[str, Callable[[], Awaitable[object]]]:
    """One function for each of WORKLOADS; `scale` shrinks the arrays, for tests."""
    large = np.full(max(KIB, int(64 * MIB * scale)), 1, np.uint8)
    pinned = xfer.empty_pinned(max(KIB, int(4 * MIB * scale)), np.uint8)
    pinned[:] = 2
    small = np.full(4 * KIB, 3, np.uint8)
    n_small = max(4, int(2000 * scale))
    on_device, back = await xfer.to_device(large), np.empty_like(large)
    targets = [await xfer.to_device(pinned) for _ in range(8)]

    async def pageable() -> None:
        await xfer.to_device(large, out=on_device)
        await xfer.to_host(on_device, out=back)

    async def page_locked() -> None:
        async def one(target: Any) -> None:
            for _ in range(4):
                await xfer.to_device(pinned, out=target)

        await asyncio.gather(*(one(target) for target in targets))

    async def many_small() -> None:
        async def one() -> None:
            for _ in range(n_small // 64 + 1):
                await xfer.to_device(small)

        await asyncio.gather(*(one() for _ in range(64)))

    async def alone() -> None:
        for _ in range(n_small // 8):
            await xfer.to_device(small)

    return dict(zip(WORKLOADS, (pageable, page_locked, many_small, alone), strict=True))


async def _measure(
    device: int, options: dict[str, int], samples: int, scale: float
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in WORKLOADS}
    async with Scheduler(device, **options) as xfer:  # type: ignore[arg-type]  # options are sizes and counts
        work = await _workloads(xfer, scale)
        for sample in range(-1, samples):
            for name, function in work.items():
                gc.collect()
                start = time.perf_counter()
                await function()
                if sample >= 0:
                    found[name].append(time.perf_counter() - start)
    return found


def measure(device: int, options: dict[str, int], samples: int, scale: float) -> dict[str, list[float]]:
    """Seconds of each sample of each workload, with these arguments of the scheduler."""
    return asyncio.run(_measure(device, options, samples, scale))
