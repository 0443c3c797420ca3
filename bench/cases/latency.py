"""Times of single transfers, of the event loop beside them, and of waiting for nothing."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import npu_xfer
from bench._bare import SINGLE
from bench._baselines import Baselines
from bench._measure import Ground, difference, pattern
from bench.cases import case
from bench.cases._arrays import CHECKED, Arrays, checked
from npu_xfer import Scheduler, sim
from npu_xfer._settings import KIB, MIB

if TYPE_CHECKING:
    from bench._measure import Context

SMALL = 4 * KIB
RATE = 25_000_000_000


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@case("alone", "one 4 KiB transfer at a time, against C with one wake-up of an event loop")
async def alone(ctx: Context) -> None:
    n = ctx.pick(tiny=20, quick=1500, full=5000)
    ground, bare = Ground(), ctx.bare()
    host, device = ground.pinned(SMALL), ground.device(SMALL)
    source = pattern(SMALL)
    ground.view(host, SMALL)[:] = source
    other = Baselines(ground, to_device=True, host=host, device=device, nbytes=SMALL)
    async with Scheduler() as xfer:
        pinned = xfer.empty_pinned(SMALL, np.uint8)
        pinned[:] = source
        target = await xfer.to_device(source)

        async def of(array: Any) -> float:
            start = time.perf_counter()
            for _ in range(n):
                await xfer.to_device(array, out=target)
            return time.perf_counter() - start

        async def threads() -> float:
            start = time.perf_counter()
            for _ in range(n):
                await other.thread()
            return time.perf_counter() - start

        async def check() -> str | None:
            return difference(await xfer.to_host(target))

        def parts() -> float:
            """Queueing and waiting in one thread, then wake-ups alone: no thread ever sleeps for long."""
            copies = bare.copies(to_device=True, mode=SINGLE, host=host, device=device, nbytes=SMALL, n=n)  # type: ignore[union-attr]  # only called when there is one
            return copies + bare.wakes(host, device, nbytes=0, n=n) / 2  # type: ignore[union-attr]  # the same

        contenders: dict[str, Any] = {"ours": lambda: of(source), "ours_pinned": lambda: of(pinned)}
        if bare is not None:
            contenders["bare"] = lambda: bare.wakes(host, device, nbytes=SMALL, n=n)
            contenders["parts"] = parts
        contenders["thread"] = threads
        await ctx.compare("h2d 4KiB", contenders, n=n, nbytes=SMALL, checks={"ours": check})


async def _ticks(n: int, stop: asyncio.Event | None = None) -> list[float]:
    """By how many ms a ticker of 1 ms was late, for n ticks or until told to stop."""
    late: list[float] = []
    while len(late) < n if stop is None else not stop.is_set():
        due = time.perf_counter() + 1e-3
        await asyncio.sleep(1e-3)
        late.append((time.perf_counter() - due) * 1e3)
    return late


@case("stall", "a 1 ms ticker while pageable memory moves both ways")
async def stall(ctx: Context) -> None:
    ctx.need_simulator()
    nbytes, total = ctx.pick(tiny=(MIB, 2 * MIB), quick=(256 * MIB, 4096 * MIB))
    n_ticks = ctx.pick(tiny=20, quick=500)
    async with Scheduler() as xfer:
        ups = await checked(Arrays(xfer, nbytes, 2, pinned=False))
        downs = await checked(Arrays(xfer, nbytes, 2, pinned=False))
        over, largest, idle_p99, loads = [], [], [], []
        with ctx.link(h2d_bytes_per_s=RATE, d2h_bytes_per_s=RATE, move_bytes=False):
            for _ in range(ctx.pick(tiny=1, quick=3)):
                idle = await _ticks(n_ticks)
                stop = asyncio.Event()
                ticker = asyncio.create_task(_ticks(0, stop))
                start = time.perf_counter()
                await asyncio.gather(
                    ups.run(total // nbytes, to_device=True), downs.run(total // nbytes, to_device=False)
                )
                loads.append(2 * total / (time.perf_counter() - start) / 1e9)
                stop.set()
                late = await ticker
                idle_p99.append(percentile(idle, 0.99))
                over.append(percentile(late, 0.99) - idle_p99[-1])
                largest.append(max(late))
    setting = f"{2 * total // MIB} MiB"
    ctx.row(setting, "idle_p99", idle_p99, unit="ms")
    ctx.row(setting, "p99_over_idle", over, unit="ms", note=CHECKED)
    ctx.row(setting, "largest", largest, unit="ms", note=CHECKED)
    ctx.row(setting, "moved", loads, unit="GB/s", better="more", note=CHECKED)


@case("classes", "64 KiB of class LATENCY while BULK keeps the link busy")
async def classes(ctx: Context) -> None:
    ctx.need_simulator()
    priority = getattr(npu_xfer, "Priority", None)
    note = CHECKED if priority is not None else "this version has no classes; verified before, timing only"
    urgent: dict[str, Any] = {"priority": priority.LATENCY} if priority is not None else {}
    bulk: dict[str, Any] = {"priority": priority.BULK} if priority is not None else {}
    nbytes, n_large, n_small = ctx.pick(
        tiny=(MIB, 8, 8), quick=(64 * MIB, 64, 300), full=(64 * MIB, 64, 2000)
    )
    async with Scheduler() as xfer:
        chunk_us = xfer._settings.chunk_bytes / RATE * 1e6
        small = await checked(Arrays(xfer, 64 * KIB, 1, pinned=True))
        large = await checked(Arrays(xfer, nbytes, 8, pinned=True))
        for to_device, way in ((True, "h2d"), (False, "d2h")):
            with ctx.link(h2d_bytes_per_s=RATE, d2h_bytes_per_s=RATE, move_bytes=False):
                idle_us = [await small.run(1, to_device=to_device, **urgent) * 1e6 for _ in range(n_small)]
                p99, shares, loaded_us = [], [], []
                for _ in range(ctx.pick(tiny=1, quick=3)):
                    before = sim.counters()
                    start = time.perf_counter()
                    queue = asyncio.create_task(large.run(n_large * 8, to_device=to_device, **bulk))
                    await asyncio.sleep(0)
                    loaded: list[float] = []
                    while len(loaded) < n_small and not queue.done():
                        loaded.append(await small.run(1, to_device=to_device, **urgent) * 1e6)
                        await asyncio.sleep(1e-3)
                    name = f"{way}_nbytes"
                    moved = getattr(sim.counters(), name) - getattr(before, name) - len(loaded) * 64 * KIB
                    shares.append(moved / (time.perf_counter() - start) / RATE)
                    await queue
                    loaded_us += loaded
                    p99.append((percentile(loaded, 0.99) - statistics.median(idle_us)) / chunk_us)
            ctx.row(way, "idle", idle_us, note=note, nbytes=64 * KIB)
            ctx.row(way, "loaded", loaded_us, note=note, nbytes=64 * KIB)
            ctx.row(way, "p99_in_chunks", p99, unit="chunks", note=note)
            ctx.row(way, "bulk_share", shares, unit="of 1", better="more", note=note)


@case("idle", "CPU time while 1,000 transfers wait for a held engine")
async def idle(ctx: Context) -> None:
    ctx.need_simulator()
    n, seconds = ctx.pick(tiny=(10, 0.05), quick=(1000, 1.0), full=(1000, 5.0))
    source = pattern(SMALL)
    async with Scheduler() as xfer:
        with sim.hold_engine(0, "h2d"):
            transfers = [await xfer.submit_to_device(source) for _ in range(n)]
            await asyncio.sleep(0.05)  # until everything that can be issued is
            shares = []
            for _ in range(ctx.samples):
                cpu, start = time.process_time(), time.perf_counter()
                await asyncio.sleep(seconds)
                shares.append((time.process_time() - cpu) / (time.perf_counter() - start))
            assert xfer.stats().pending == n
        results = [await one for one in transfers]
        failure = difference(await xfer.to_host(results[-1]))
    ctx.row(f"{n} pending", "core_share", shares, unit="of 1", failure=failure, verified=int(failure is None))
