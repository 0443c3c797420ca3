"""As an application with pytest-asyncio would use it: no anyio in sight."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from support import held, pattern

import npu_xfer


@pytest.mark.asyncio
async def test_gather() -> None:
    arrays = [pattern(1000 + i, seed=i) for i in range(200)]
    async with npu_xfer.Scheduler() as xfer:
        devices = await asyncio.gather(*(xfer.to_device(array) for array in arrays))
        back = await asyncio.gather(*(xfer.to_host(device) for device in devices))
    assert all(np.array_equal(one, other) for one, other in zip(arrays, back, strict=True))


@pytest.mark.asyncio
async def test_wait_for() -> None:
    async with npu_xfer.Scheduler() as xfer:
        with held("h2d"), pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(xfer.to_device(pattern(10)), 0.02)
        assert (await xfer.to_device(pattern(10))).nbytes == 10


@pytest.mark.asyncio
async def test_opened_in_one_loop_used_by_many_tasks() -> None:
    async with npu_xfer.Scheduler() as xfer:

        async def client(seed: int) -> bool:
            source = pattern(5000, seed)
            return np.array_equal(await xfer.to_host(await xfer.to_device(source)), source)

        assert all(await asyncio.gather(*(client(seed) for seed in range(64))))
