"""8 devices against 1, on the simulator's virtual clock."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.cases import case
from bench.cases._arrays import Arrays, checked
from npu_xfer import Scheduler, sim
from npu_xfer._settings import MIB

if TYPE_CHECKING:
    from bench._measure import Context


DEPTH = 6  # more than there are lanes


def _virtual_ns() -> int:
    """The end of the latest event. A thread's clock begins there, and is its own from then on."""
    with ThreadPoolExecutor(1) as fresh:
        return fresh.submit(sim.now_ns).result()


async def _took_us(ctx: Context, count: int, nbytes: int, n: int, to_device: bool) -> float:
    """Simulated time for n transfers on each of `count` devices.

    New schedulers, whose threads begin now; verifying them first takes no time, the link being instant."""
    async with AsyncExitStack() as stack:
        several = [
            await checked(Arrays(await stack.enter_async_context(Scheduler(i)), nbytes, DEPTH, pinned=True))
            for i in range(count)
        ]
        for arrays in several:  # every lane has its clock before time passes: it begins at the first call
            with sim.hold_engine(arrays.xfer.device, "h2d" if to_device else "d2h"):
                work = asyncio.gather(*(arrays.run(DEPTH, to_device=to_device) for _ in range(2)))
                while arrays.xfer.stats().pending < 2 * DEPTH:  # noqa: ASYNC110  # seen nowhere else
                    await asyncio.sleep(0)
            await work
        with ctx.link(h2d_bytes_per_s=25 * 10**9, d2h_bytes_per_s=25 * 10**9, move_bytes=False):
            start = _virtual_ns()
            await asyncio.gather(*(arrays.run(n, to_device=to_device) for arrays in several))
            return (_virtual_ns() - start) / 1e3


@case(
    "devices",
    "8 devices against 1, in virtual time",
    ACLSIM_MODE="virtual",
    ACLSIM_DEVICES="8",
)
async def devices(ctx: Context) -> None:
    ctx.need_simulator()
    nbytes, n = ctx.pick(tiny=(MIB, 4), quick=(4 * MIB, 128), full=(4 * MIB, 512))
    for to_device, way in ((True, "h2d"), (False, "d2h")):
        took: dict[int, list[float]] = {1: [], 8: []}
        for _ in range(ctx.pick(tiny=1, quick=3)):
            for count, times in took.items():
                times.append(await _took_us(ctx, count, nbytes, n, to_device))
        for count, times in took.items():
            each = [us / n / count for us in times]
            ctx.row(
                f"{way} {count} devices",
                "ours",
                each,
                n=n * count,
                nbytes=nbytes,
                note="simulated time, verified before",
            )
        scaling = [8 * one / eight for one, eight in zip(took[1], took[8], strict=True)]
        ctx.row(way, "scaling", scaling, unit="times", better="more")
