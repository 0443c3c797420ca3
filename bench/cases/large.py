"""Large arrays: page-locked, pageable, strided, both directions at once."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np

from bench._bare import SLAB_NBYTES, WINDOW
from bench._baselines import Baselines
from bench._measure import Ground, text_of
from bench.cases import case
from bench.cases._arrays import CHECKED, Arrays, checked, pattern
from npu_xfer import Scheduler
from npu_xfer._settings import GIB, KIB, MIB, default_stagers

if TYPE_CHECKING:
    from bench._measure import Contender, Context

DEPTH = 8
WAYS = ((True, "h2d"), (False, "d2h"))


def _rate(gb_per_s: float) -> dict[str, Any]:
    rate = int(gb_per_s * 1e9)
    return {"h2d_bytes_per_s": rate, "d2h_bytes_per_s": rate, "move_bytes": False}


@case("large", "page-locked arrays, 8 at a time, against bare C and the link")
async def large(ctx: Context) -> None:
    ctx.need_simulator()
    ground, bare = Ground(), ctx.bare()
    sizes = ctx.pick(
        tiny=[MIB], quick=[MIB, 4 * MIB, 64 * MIB], full=[MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
    )
    budget = ctx.pick(tiny=16 * MIB, quick=768 * MIB, full=4 * GIB)
    host, device = ground.pinned(max(sizes)), ground.device(max(sizes))
    async with Scheduler() as xfer:
        for nbytes in sizes:
            arrays = await checked(Arrays(xfer, nbytes, DEPTH, pinned=True))
            n = max(2 * DEPTH, budget // nbytes)
            for gb_per_s in (25, 55):
                with ctx.link(**_rate(gb_per_s)):
                    for to_device, way in WAYS:
                        setting = f"{way} {text_of(nbytes)} {gb_per_s}GB/s"
                        contenders: dict[str, Contender] = {
                            "ours": lambda a=arrays, n=n, t=to_device: a.run(n, to_device=t)  # type: ignore[misc]  # mypy infers no lambda with defaults
                        }
                        if bare is not None:
                            contenders["bare"] = lambda n=n, s=nbytes, t=to_device: bare.copies(  # type: ignore[misc]  # the same
                                to_device=t, mode=WINDOW, host=host, device=device, nbytes=s, n=n, depth=DEPTH
                            )
                        await ctx.compare(setting, contenders, n=n, nbytes=nbytes, note=CHECKED)
                        ctx.limit(setting, "link", nbytes / gb_per_s / 1e3, nbytes=nbytes)
            del arrays


@case("pageable", "ordinary arrays through staging, against the slower of link and host copy")
async def pageable(ctx: Context) -> None:
    ctx.need_simulator()
    bare = ctx.bare()
    sizes = ctx.pick(tiny=[16 * MIB], quick=[16 * MIB, 64 * MIB], full=[16 * MIB, 64 * MIB, 256 * MIB, GIB])
    budget = ctx.pick(tiny=32 * MIB, quick=512 * MIB, full=4 * GIB)
    async with Scheduler() as xfer:
        settings = xfer._settings
        n_threads = settings.n_stagers or default_stagers()
        slabs = Ground().pinned(SLAB_NBYTES * n_threads) if bare is not None else 0
        for nbytes in sizes:
            n = max(1, budget // nbytes)
            for depth in (1, 4) if nbytes * 4 <= budget else (1,):
                arrays = await checked(Arrays(xfer, nbytes, depth, pinned=False))
                with ctx.link(**_rate(25)):
                    for to_device, way in WAYS:
                        setting = f"{way} {text_of(nbytes)} x{depth}"
                        contenders: dict[str, Contender] = {
                            "ours": lambda a=arrays, n=n, t=to_device: a.run(n, to_device=t)  # type: ignore[misc]  # mypy infers no lambda with defaults
                        }
                        if bare is not None:
                            far = arrays.hosts[0].ctypes.data
                            contenders["host copy"] = lambda n=n, s=nbytes, t=to_device, f=far: sum(  # type: ignore[misc]  # the same
                                bare.host_copy(
                                    f,
                                    slabs,
                                    nbytes=s,
                                    chunk=settings.chunk_bytes,
                                    n_threads=n_threads,
                                    from_slab=not t,
                                )
                                for _ in range(n)
                            )
                        rows = await ctx.compare(setting, contenders, n=n, nbytes=nbytes, note=CHECKED)
                        link_us = nbytes / 25e3
                        ctx.limit(setting, "link", link_us, nbytes=nbytes)
                        if "host copy" in rows:
                            slower = [max(link_us, us) for us in rows["host copy"].values]
                            ctx.row(setting, "limit", slower, nbytes=nbytes, note=f"{n_threads} threads")
                del arrays


@case("ways", "ordinary arrays: ours, the synchronous copy in a worker, one slab by hand")
async def ways(ctx: Context) -> None:
    ctx.need_simulator()
    ground = Ground()
    sizes = ctx.pick(
        tiny=[4 * KIB],
        quick=[4 * KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB],
        full=[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB],
    )
    budget = ctx.pick(tiny=64 * KIB, quick=256 * MIB, full=2 * GIB)
    async with Scheduler() as xfer:
        for nbytes in sizes:
            n = max(1, min(300, budget // nbytes))
            arrays = await checked(Arrays(xfer, nbytes, 1, pinned=False))
            far = pattern(nbytes)
            device = ground.device(nbytes)
            with ctx.chip_link():
                for to_device, way in WAYS:
                    other = Baselines(
                        ground, to_device=to_device, host=far.ctypes.data, device=device, nbytes=nbytes
                    )

                    async def many(one: Any, n: int = n) -> float:
                        start = time.perf_counter()
                        for _ in range(n):
                            await one()
                        return time.perf_counter() - start

                    await ctx.compare(
                        f"{way} {text_of(nbytes)}",
                        {
                            "ours": lambda a=arrays, n=n, t=to_device: a.run(n, to_device=t),  # type: ignore[misc]  # mypy infers no lambda with defaults
                            "executor": lambda many=many, o=other: many(o.executor),  # type: ignore[misc]  # the same
                            "slab": lambda many=many, o=other: many(o.slab),  # type: ignore[misc]  # the same
                        },
                        n=n,
                        nbytes=nbytes,
                        checks={"ours": lambda a=arrays, t=to_device: a.check(to_device=t)},  # type: ignore[misc]  # the same
                        warm_up=3,  # the plan needs a few to know both ways
                    )
            ground.runtime.free(device)


@case("duplex", "both directions at once against each alone")
async def duplex(ctx: Context) -> None:
    ctx.need_simulator()
    nbytes = 4 * MIB
    n = ctx.pick(tiny=8, quick=128, full=512)
    async with Scheduler() as xfer:
        for memory, pinned in (("direct", True), ("staged", False)):
            ups = await checked(Arrays(xfer, nbytes, DEPTH, pinned=pinned))
            downs = await checked(Arrays(xfer, nbytes, DEPTH, pinned=pinned))
            with ctx.link(**_rate(25)):
                await _duplex(ctx, memory, ups, downs, n)


async def _duplex(ctx: Context, memory: str, ups: Arrays, downs: Arrays, n: int) -> None:
    async def both() -> float:
        ends: list[float] = []
        start = time.perf_counter()

        async def one(arrays: Arrays, to_device: bool) -> None:
            await arrays.run(n, to_device=to_device)
            ends.append(time.perf_counter() - start)

        await asyncio.gather(one(ups, True), one(downs, False))
        return max(ends)

    more: dict[str, Any] = {"n": n, "nbytes": ups.nbytes, "note": CHECKED}
    up = (await ctx.compare(f"{memory} up alone", {"ours": lambda: ups.run(n, to_device=True)}, **more))[
        "ours"
    ]
    down = (
        await ctx.compare(f"{memory} down alone", {"ours": lambda: downs.run(n, to_device=False)}, **more)
    )["ours"]
    pair = (await ctx.compare(f"{memory} both", {"ours": both}, **more))["ours"]
    together = [1 / value for value in pair.values]  # of each side: it ends when the slower one does
    alone = [max(a, b) for a, b in zip(up.values, down.values, strict=True)]
    fastest = [min(a, b) for a, b in zip(up.values, down.values, strict=True)]
    # Staged copies share the host's cores and memory; the target is about the link.
    times, slower = ("both_to_one", "slower_side") if memory == "direct" else ("staged_to_one", "staged_side")
    ctx.row(
        memory,
        times,
        [2 * t * f for t, f in zip(together, fastest, strict=True)],
        unit="times",
        better="more",
    )
    ctx.row(memory, slower, [t * a for t, a in zip(together, alone, strict=True)], unit="of 1", better="more")


def _strided(nbytes: int) -> dict[str, Any]:
    """Views of nbytes of float32 in all, by how they lie."""
    side = int((nbytes // 4) ** 0.5)
    rows = nbytes // 4 // 4096
    base = np.arange(nbytes // 2, dtype=np.uint32).view(np.float32)
    return {
        "every 2nd": base[::2],
        "rows of 16KiB": base.reshape(rows, 8192)[:, :4096],
        "backwards": base[: nbytes // 4][::-1],
        "transposed": base[: side * side].reshape(side, side).T,
    }


@case("strided", "strided sources against a contiguous one of the same size")
async def strided(ctx: Context) -> None:
    ctx.need_simulator()
    nbytes = ctx.pick(tiny=MIB, quick=64 * MIB)
    n = ctx.pick(tiny=1, quick=3)
    async with Scheduler() as xfer:
        flat = np.arange(nbytes // 4, dtype=np.uint32).view(np.float32)
        with ctx.chip_link(move_bytes=True):
            for name, view in _strided(nbytes).items():
                contiguous = flat[: view.size].reshape(view.shape)
                targets = [await xfer.to_device(contiguous) for _ in range(2)]
                expected = np.ascontiguousarray(view)

                async def run(source: Any, target: Any) -> float:
                    start = time.perf_counter()
                    for _ in range(n):
                        await xfer.to_device(source, out=target)
                    return time.perf_counter() - start

                async def check(target: Any = targets[0], expected: Any = expected) -> str | None:
                    back = await xfer.to_host(target)
                    return None if back.tobytes() == expected.tobytes() else "the bytes differ"

                await ctx.compare(
                    name,
                    {
                        "ours": lambda v=view, t=targets: run(v, t[0]),  # type: ignore[misc]  # mypy infers no lambda with defaults
                        "contiguous": lambda c=contiguous, t=targets: run(c, t[1]),  # type: ignore[misc]  # the same
                    },
                    n=n,
                    nbytes=view.nbytes,
                    checks={"ours": check},
                )
                tracemalloc.start()  # numpy tells it of every array that it allocates
                await xfer.to_device(view, out=targets[0])
                ctx.limit(name, "temporary", tracemalloc.get_traced_memory()[1], unit="bytes")
                tracemalloc.stop()
