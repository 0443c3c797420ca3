"""Priorities: who goes first, who waits, and that nobody waits for ever."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import npu_xfer
from npu_xfer import Priority, sim

pytestmark = pytest.mark.anyio
MIB = 1 << 20


def pattern(nbytes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
async def test_latency_lands_before_what_is_not_on_the_streams(direction: Literal["h2d", "d2h"]) -> None:
    """A held engine, 64 MiB of BULK queued, then 64 KiB: released, the small one is done long before."""
    async with npu_xfer.Scheduler() as xfer:
        large = xfer.empty_pinned(64 * MIB, np.uint8)
        large[:] = pattern(64 * MIB)
        small = xfer.empty_pinned(64 << 10, np.uint8)
        small[:] = pattern(64 << 10, 1)
        on_device = await xfer.to_device(large), await xfer.to_device(small)
        done: list[str] = []
        copies_then: list[int] = []

        async def move(name: str, which: int, host: Any, priority: Priority) -> None:
            if direction == "h2d":
                await xfer.to_device(host, out=on_device[which], priority=priority)
            else:
                await xfer.to_host(on_device[which], out=host, priority=priority)
            done.append(name)
            copies_then.append(getattr(sim.counters(), f"{direction}_copies"))

        async with anyio.create_task_group() as group:
            with sim.hold_engine(0, direction):
                before = getattr(sim.counters(), f"{direction}_copies")
                group.start_soon(move, "bulk", 0, large, Priority.BULK)
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                group.start_soon(move, "latency", 1, small, Priority.LATENCY)
                while sim.pending_tasks() < 2:  # it is on its own stream already, behind the others' copies
                    await anyio.lowlevel.checkpoint()
        assert done == ["latency", "bulk"]
        assert copies_then[1] - before == 33  # 32 half chunks of 2 MiB, and the small one
        assert np.array_equal(await xfer.to_host(on_device[0]), pattern(64 * MIB))
        assert np.array_equal(await xfer.to_host(on_device[1]), pattern(64 << 10, 1))


async def test_order_on_shared_memory_is_kept_whatever_the_priorities() -> None:
    async with npu_xfer.Scheduler() as xfer:
        device = await xfer.to_device(pattern(MIB))
        last = pattern(MIB, 2)
        async with anyio.create_task_group() as group:
            with sim.hold_engine(0, "h2d"):
                for source, priority in ((pattern(MIB, 1), Priority.BULK), (last, Priority.LATENCY)):
                    group.start_soon(_into, xfer, source, device, priority)
                    for _ in range(3):
                        await anyio.lowlevel.checkpoint()
                assert xfer.stats().pending == 2
        assert np.array_equal(await xfer.to_host(device), last)


async def _into(xfer: npu_xfer.Scheduler, source: Any, device: Any, priority: Priority) -> None:
    await xfer.to_device(source, out=device, priority=priority)


async def test_bulk_ends_under_a_stream_of_latency() -> None:
    async with npu_xfer.Scheduler(n_lanes=1) as xfer:
        host = xfer.empty_pinned(16 * MIB, np.uint8)
        host[:] = pattern(16 * MIB)
        small = pattern(5000, 3)
        device = await xfer.to_device(small)
        ended = anyio.Event()

        async def bulk() -> None:
            assert np.array_equal(
                await xfer.to_host(await xfer.to_device(host, priority=Priority.BULK)), pattern(16 * MIB)
            )
            ended.set()

        async def latency() -> None:
            while not ended.is_set():
                await xfer.to_device(small, out=device, priority=Priority.LATENCY)

        async with anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(latency)
            group.start_soon(bulk)
        assert ended.is_set()


async def test_every_verb_takes_it() -> None:
    async with npu_xfer.Scheduler() as xfer:
        for priority in Priority:
            arrays = [pattern(100, seed) for seed in range(5)]
            devices = await xfer.to_device_many(arrays, priority=priority)
            back = await xfer.to_host_many(devices, priority=priority)
            one = await (await xfer.submit_to_device(arrays[0], priority=priority))
            two = await (await xfer.submit_to_host(one, priority=priority))
            three = await devices[1].to_host(priority=priority)
            assert all(np.array_equal(a, b) for a, b in zip(arrays, back, strict=True))
            assert np.array_equal(two, arrays[0])
            assert np.array_equal(three, arrays[1])
        with pytest.raises(ValueError, match="priority=3 is not valid"):
            await xfer.to_device(pattern(10), priority=3)  # type: ignore[call-overload]  # what the test is about


def test_blocking_takes_it_too() -> None:
    with npu_xfer.BlockingScheduler() as xfer:
        for priority in Priority:
            device = xfer.to_device(pattern(100), priority=priority)
            assert np.array_equal(xfer.to_host(device, priority=priority), pattern(100))
