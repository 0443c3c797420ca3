"""Many transfers at once: from 1 to thousands of tasks, and up to 100,000 in flight."""

from __future__ import annotations

import gc
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

from bench._baselines import Baselines
from bench._measure import Ground, difference, pattern, spread
from bench.cases import case
from npu_xfer import Scheduler, sim
from npu_xfer._settings import KIB, MIB

if TYPE_CHECKING:
    from bench._measure import Context

SMALL = 4 * KIB


@case("tasks", "4 KiB from 1 to 4,096 tasks, against threads and polling")
async def tasks(ctx: Context) -> None:
    counts = ctx.pick(tiny=[1, 4], quick=[1, 16, 256, 4096], full=[1, 4, 16, 64, 256, 1024, 4096])
    n = ctx.pick(tiny=16, quick=4096, full=16384)
    source, ground = pattern(SMALL), Ground()
    other = Baselines(
        ground, to_device=True, host=source.ctypes.data, device=ground.device(SMALL), nbytes=SMALL
    )
    async with Scheduler() as xfer:
        last: list[Any] = []

        async def one() -> None:
            last[:] = [await xfer.to_device(source)]

        async def check() -> str | None:
            return difference(await xfer.to_host(last[0]))

        for n_tasks in counts:
            total = max(n_tasks, n if n_tasks > 1 else n // 8)
            await ctx.compare(
                f"h2d 4KiB x{n_tasks}",
                {
                    "ours": lambda t=total, k=n_tasks: spread(t, k, one),  # type: ignore[misc]  # mypy infers no lambda with defaults
                    "thread": lambda t=total, k=n_tasks: spread(t, k, other.thread),  # type: ignore[misc]  # the same
                    "polled": lambda t=total, k=n_tasks: spread(t, k, other.polled),  # type: ignore[misc]  # the same
                }
                if n_tasks <= 256
                else {"ours": lambda t=total, k=n_tasks: spread(t, k, one)},  # type: ignore[misc]  # the same
                n=total,
                nbytes=SMALL,
                checks={"ours": check},
            )


def _resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as fields:
        return int(fields.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@case("inflight", "time and memory of each transfer with 1,000 to 100,000 in flight")
async def inflight(ctx: Context) -> None:
    ctx.need_simulator()
    counts = ctx.pick(tiny=[10, 50], quick=[1000, 10_000, 100_000])
    nbytes = 256
    source = pattern(nbytes)
    async with Scheduler() as xfer:
        times: dict[int, list[float]] = {}
        memory = 0.0
        for n in counts:
            rounds = max(ctx.samples, counts[1] // n) if n == counts[0] else 2 if n > 10_000 else ctx.samples
            for sample in range(-1, rounds):
                gc.collect()
                gc.disable()
                before, held = _resident(), xfer.stats()
                start = time.perf_counter()
                with sim.hold_engine(0, "h2d"):
                    transfers = [await xfer.submit_to_device(source) for _ in range(n)]
                    taken = time.perf_counter() - start
                    now = xfer.stats()
                    assert now.pending == n, (now.pending, n)
                    grown = _resident() - before
                    grown -= now.pinned_held_nbytes - held.pinned_held_nbytes
                    grown -= now.device_held_nbytes - held.device_held_nbytes  # host memory on the simulator
                    start = time.perf_counter()
                results = [await one for one in transfers]
                taken += time.perf_counter() - start
                gc.enable()
                if sample < 0:
                    memory = grown / n  # later rounds find the first one's memory
                else:
                    times.setdefault(n, []).append(taken / n * 1e6)
                failure = difference(await xfer.to_host(results[-1]))
                del transfers, results
            ctx.row(f"{n} in flight", "ours", times[n], n=n, nbytes=nbytes, failure=failure, verified=rounds)
        ctx.limit(
            f"{counts[-1]} in flight", "memory", memory, unit="bytes", note="beside staging and device memory"
        )
        least = statistics.median(times[counts[0]])
        ctx.row(f"{counts[-1]}", "growth", [value / least for value in times[counts[-1]]], unit="times")


@case("concurrency", "1 MiB page-locked, 1 to 64 at a time, on a link of 25 GB/s")
async def concurrency(ctx: Context) -> None:
    from bench.cases._arrays import CHECKED, Arrays, checked

    ctx.need_simulator()
    n = ctx.pick(tiny=8, quick=512)
    async with Scheduler() as xfer:
        for depth in ctx.pick(tiny=[1, 4], quick=[1, 2, 4, 8, 16, 64]):
            arrays = await checked(Arrays(xfer, MIB, depth, pinned=True))
            with ctx.link(h2d_bytes_per_s=25 * 10**9, d2h_bytes_per_s=25 * 10**9, move_bytes=False):
                for to_device, way in ((True, "h2d"), (False, "d2h")):
                    setting = f"{way} 1MiB x{depth}"
                    await ctx.compare(
                        setting,
                        {"ours": lambda a=arrays, t=to_device: a.run(n, to_device=t)},  # type: ignore[misc]  # mypy infers no lambda with defaults
                        n=n,
                        nbytes=MIB,
                        note=CHECKED,
                    )
                    ctx.limit(setting, "link", MIB / 25e3, nbytes=MIB)
