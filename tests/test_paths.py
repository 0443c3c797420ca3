"""The ways of ordinary memory: staging, the runtime's synchronous copy, and the choice between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npu_xfer
from npu_xfer import sim

pytestmark = pytest.mark.anyio
MIB = 1 << 20


def pattern(nbytes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


async def test_sync_copies_both_ways() -> None:
    async with npu_xfer.Scheduler(pageable_path="sync", chunk_bytes=MIB) as xfer:
        calls = sim.call_count("aclrtMemcpy")
        source = pattern(3 * MIB + 5)
        device = await xfer.to_device(source)
        assert np.array_equal(await xfer.to_host(device), source)
        assert sim.call_count("aclrtMemcpy") - calls == 8  # in chunks, so that others get a turn
        stats = xfer.stats()
        assert (stats.h2d.sync, stats.h2d.staged, stats.h2d.nbytes) == (1, 0, 3 * MIB + 5)
        assert (stats.d2h.sync, stats.d2h.staged, stats.d2h.nbytes) == (1, 0, 3 * MIB + 5)


async def test_copies_into_one_array_do_not_mix() -> None:
    """Ten copies into one array and one out of it, submitted at once: what is read is one of them, whole."""
    async with npu_xfer.Scheduler(pageable_path="sync") as xfer:
        device = await xfer.to_device(pattern(MIB))
        sources = [pattern(MIB, seed) for seed in range(10)]
        import anyio

        results: list[Any] = []

        async def down() -> None:
            results.append(await xfer.to_host(device))

        async with anyio.create_task_group() as group:
            for source in sources:
                group.start_soon(_up, xfer, source, device)
            await anyio.lowlevel.checkpoint()
            group.start_soon(down)
        assert any(np.array_equal(results[0], source) for source in sources)  # whole, not a mixture
        assert np.array_equal(await xfer.to_host(device), await xfer.to_host(device))


async def _up(xfer: npu_xfer.Scheduler, source: Any, device: npu_xfer.DeviceArray) -> None:
    await xfer.to_device(source, out=device)


async def test_what_cannot_be_borrowed_is_staged() -> None:
    async with npu_xfer.Scheduler(pageable_path="sync") as xfer:
        source = pattern(MIB)
        transfer = await xfer.submit_to_device(source)  # the source is free on return
        source[:] = 0
        assert np.array_equal(await xfer.to_host(await transfer), pattern(MIB))
        await xfer.to_device_many([pattern(1000, seed) for seed in range(20)])
        await xfer.to_device(pattern(MIB)[::2])  # strided: packed on the way into staging memory
        assert (xfer.stats().h2d.sync, xfer.stats().h2d.staged) == (0, 22)


async def test_a_failing_synchronous_copy_is_named() -> None:
    async with npu_xfer.Scheduler(pageable_path="sync") as xfer:
        device = await xfer.to_device(pattern(100))
        sim.fail_call("aclrtMemcpy", 507001)
        with pytest.raises(npu_xfer.TransferError, match="aclrtMemcpy") as caught:
            await xfer.to_device(pattern(100), out=device)
        assert (caught.value.code, caught.value.call) == (507001, "aclrtMemcpy")
        sim.fail_call("aclrtMemcpy", 507001)
        with pytest.raises(npu_xfer.TransferError):
            await xfer.to_host(device)
        assert np.array_equal(await xfer.to_host(await xfer.to_device(pattern(100))), pattern(100))
        assert (xfer.stats().h2d.failed, xfer.stats().d2h.failed) == (1, 1)


async def test_a_lost_device_ends_the_scheduler() -> None:
    async with npu_xfer.Scheduler(pageable_path="sync") as xfer:
        sim.fail_call("aclrtMemcpy", 507010)
        with pytest.raises(npu_xfer.TransferError):
            await xfer.to_device(pattern(100))
        with pytest.raises(npu_xfer.EngineDead, match="507010"):
            await xfer.to_device(pattern(100))


async def test_auto_tries_both_and_is_right_with_either() -> None:
    async with npu_xfer.Scheduler(pageable_path="auto") as xfer:
        for seed in range(30):
            source = pattern(100_000, seed)
            assert np.array_equal(await xfer.to_host(await xfer.to_device(source)), source)
        stats = xfer.stats()
        for lane in (stats.h2d, stats.d2h):
            assert lane.staged >= 4
            assert lane.sync >= 1
            assert lane.staged + lane.sync == 30


def test_blocking_scheduler_takes_it_too() -> None:
    with npu_xfer.BlockingScheduler(pageable_path="sync") as xfer:
        source = pattern(5000)
        assert np.array_equal(xfer.to_host(xfer.to_device(source)), source)
        assert (xfer.stats().h2d.sync, xfer.stats().d2h.sync) == (1, 1)


def test_a_bad_path_is_refused() -> None:
    with pytest.raises(ValueError, match="pageable_path='fast' is not valid; accepted: auto, staged, sync"):
        npu_xfer.Scheduler(pageable_path="fast")
