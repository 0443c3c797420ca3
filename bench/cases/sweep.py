"""Sizes from 256 B up on each path, bytes moved and verified; and work queued behind a held engine."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import TYPE_CHECKING, Any

from bench._bare import SYNC, WINDOW
from bench._baselines import Baselines
from bench._measure import Ground, text_of
from bench.cases import case
from bench.cases._arrays import CHECKED, Arrays, checked
from npu_xfer import Scheduler, sim
from npu_xfer._settings import GIB, KIB, MIB

if TYPE_CHECKING:
    from bench._measure import Context


@case("sweep", "256 B to the largest size: path, direction; bytes moved and verified")
async def sweep(ctx: Context) -> None:
    sizes = ctx.pick(
        tiny=[256, 4 * KIB],
        quick=[256, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB],
        full=[
            256,
            KIB,
            4 * KIB,
            16 * KIB,
            64 * KIB,
            256 * KIB,
            MIB,
            4 * MIB,
            16 * MIB,
            64 * MIB,
            256 * MIB,
            GIB,
        ],
    )
    budget = ctx.pick(tiny=KIB, quick=64 * MIB, full=2 * GIB)
    ground, bare = Ground(), ctx.bare()
    async with Scheduler() as xfer:
        for nbytes in sizes:
            n = max(1, min(400, budget // nbytes))
            device = ground.device(nbytes)
            for path, pinned in (("direct", True), ("staged", False)):
                arrays = await checked(Arrays(xfer, nbytes, 1, pinned=pinned))
                host = ground.pinned(nbytes) if pinned else arrays.hosts[0].ctypes.data
                for to_device, way in ((True, "h2d"), (False, "d2h")):
                    other = Baselines(ground, to_device=to_device, host=host, device=device, nbytes=nbytes)

                    async def thread(n: int = n, other: Baselines = other) -> float:
                        start = time.perf_counter()
                        for _ in range(n):
                            await (other.thread() if pinned else other.executor())  # noqa: B023  # run within this turn
                        return time.perf_counter() - start

                    contenders: dict[str, Any] = {
                        "ours": lambda a=arrays, n=n, t=to_device: a.run(n, to_device=t),
                        "thread" if pinned else "executor": thread,
                    }
                    if bare is not None:
                        contenders["bare"] = lambda n=n, t=to_device, h=host, d=device, s=nbytes, p=pinned: (
                            bare.copies(
                                to_device=t, mode=WINDOW if p else SYNC, host=h, device=d, nbytes=s, n=n
                            )
                        )
                    await ctx.compare(
                        f"{way} {path} {text_of(nbytes)}",
                        contenders,
                        n=n,
                        nbytes=nbytes,
                        checks={"ours": functools.partial(arrays.check, to_device=to_device)},
                    )
                if pinned:
                    ground.runtime.free_host(host)
            ground.runtime.free(device)


@case("queued", "page-locked arrays queued behind a held engine, timed from its release")
async def queued(ctx: Context) -> None:
    ctx.need_simulator()
    n = ctx.pick(tiny=4, quick=32)
    async with Scheduler() as xfer:
        for nbytes in ctx.pick(tiny=[64 * KIB], quick=[64 * KIB, MIB, 16 * MIB]):
            arrays = await checked(Arrays(xfer, nbytes, min(n, 256 * MIB // nbytes), pinned=True))
            for to_device, way in ((True, "h2d"), (False, "d2h")):

                async def run(to_device: bool = to_device, way: Any = way, arrays: Arrays = arrays) -> float:
                    with sim.hold_engine(0, way):
                        work = asyncio.gather(
                            *(arrays._worker(i, 1, to_device, {}) for i in range(arrays.depth))
                        )
                        while xfer.stats().pending < arrays.depth:  # noqa: ASYNC110  # submitted is seen nowhere else
                            await asyncio.sleep(0)
                        start = time.perf_counter()
                    await work
                    return time.perf_counter() - start

                with ctx.link(h2d_bytes_per_s=25 * 10**9, d2h_bytes_per_s=25 * 10**9, move_bytes=False):
                    setting = f"{way} {text_of(nbytes)}"
                    await ctx.compare(setting, {"ours": run}, n=arrays.depth, nbytes=nbytes, note=CHECKED)
                    ctx.limit(setting, "link", nbytes / 25e3, nbytes=nbytes)
