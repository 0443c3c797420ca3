"""Many small arrays: awaited one by one, in one call, as blocks of a cache, as a model's tensors."""

from __future__ import annotations

import importlib.util
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from bench._bare import QUEUE, SYNC
from bench._baselines import Baselines
from bench._measure import Ground, difference, pattern, spread, timed
from bench._model import Row
from bench.cases import case
from npu_xfer import Scheduler
from npu_xfer._settings import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench._measure import Context

SMALL = 4 * KIB


@case("awaits", "4 KiB awaited in turn by many tasks, against asyncio.to_thread, executor and polling")
async def awaits(ctx: Context) -> None:
    n, n_tasks = ctx.pick(tiny=(64, 8), quick=(10_000, 256), full=(50_000, 256))
    slow = max(64, n // 8)  # the baselines need many times as long for each
    source, ground = pattern(SMALL), Ground()
    other = Baselines(
        ground, to_device=True, host=source.ctypes.data, device=ground.device(SMALL), nbytes=SMALL
    )
    setting = f"h2d 4KiB x{n_tasks} tasks"
    rows = {}
    async with Scheduler() as xfer:
        last: list[Any] = []

        async def one() -> None:
            last[:] = [await xfer.to_device(source)]

        async def check() -> str | None:
            return difference(await xfer.to_host(last[0]))

        contenders: dict[str, tuple[int, Callable[[], Awaitable[object]]]] = {
            "ours": (n, one),
            "thread": (slow, other.thread),
            "executor": (slow, other.executor),
            "polled": (slow, other.polled),
        }
        for who, (count, _) in contenders.items():
            rows[who] = ctx.row(setting, who, [], n=count, nbytes=SMALL)
        for sample in range(-1, ctx.samples):
            for who, (count, function) in contenders.items():
                seconds = await timed(lambda c=count, f=function: spread(c, n_tasks, f))  # type: ignore[misc]  # mypy infers no lambda with defaults
                row = rows[who]
                if who == "ours":
                    row.failure = row.failure or await check()
                    row.verified += sample >= 0
                if sample >= 0:
                    row.values.append(seconds / count * 1e6)
    ctx.rows.append(_on_uvloop(ctx, setting, n, n_tasks))


def _on_uvloop(ctx: Context, setting: str, n: int, n_tasks: int) -> Row:
    """The same on uvloop, in a thread of its own with its own loop."""
    row = Row(ctx.case, setting, "ours_uvloop", n=n, nbytes=SMALL)
    if importlib.util.find_spec("uvloop") is None:
        row.waived = "uvloop is not installed"
        return row
    import uvloop

    async def main() -> None:
        source = pattern(SMALL)
        async with Scheduler() as xfer:
            for sample in range(-1, ctx.samples):
                seconds = await timed(lambda: spread(n, n_tasks, lambda: xfer.to_device(source)))
                if sample >= 0:
                    row.values.append(seconds / n * 1e6)
            row.failure = difference(await xfer.to_host(await xfer.to_device(source)))

    def run() -> None:
        loop = uvloop.new_event_loop()
        try:
            loop.run_until_complete(main())
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return row


@case("many", "many small arrays in one call, against single copies from C and awaits one by one")
async def many(ctx: Context) -> None:
    ctx.need_simulator()
    n = ctx.pick(tiny=100, quick=10_000)
    ground, bare = Ground(), ctx.bare()
    whole = pattern(n * SMALL)
    arrays = [whole[i * SMALL : (i + 1) * SMALL].copy() for i in range(n)]
    host, device = ground.pinned(n * SMALL), ground.device(n * SMALL)
    ground.view(host, n * SMALL)[:] = whole
    async with Scheduler() as xfer:
        last: list[Any] = []

        async def up() -> float:
            last.clear()  # device memory goes back before the next batch takes some
            start = time.perf_counter()
            last.append(await xfer.to_device_many(arrays))
            return time.perf_counter() - start

        async def check() -> str | None:
            found = np.concatenate(await xfer.to_host_many(last[0]))
            return difference(found)

        async def down() -> float:
            start = time.perf_counter()
            last[1:] = [await xfer.to_host_many(last[0])]
            return time.perf_counter() - start

        with ctx.chip_link():
            setting = "h2d 4KiB"
            contenders: dict[str, Any] = {"ours": up}
            if bare is not None:
                contenders["bare"] = lambda: bare.copies(
                    to_device=True, mode=QUEUE, host=host, device=device, nbytes=SMALL, stride=SMALL, n=n
                )
            before = xfer.stats().h2d.copies
            await ctx.compare(setting, contenders, n=n, nbytes=SMALL, checks={"ours": check})
            copies = (xfer.stats().h2d.copies - before) / (ctx.samples + 1)
            ctx.limit(setting, "copies", copies, unit="copies", note=f"ACL copies for {n} arrays")
            contenders = {"ours": down}
            if bare is not None:
                contenders["bare"] = lambda: bare.copies(
                    to_device=False, mode=QUEUE, host=host, device=device, nbytes=SMALL, stride=SMALL, n=n
                )
            before = xfer.stats().d2h.copies
            await ctx.compare(
                "d2h 4KiB",
                contenders,
                n=n,
                nbytes=SMALL,
                checks={"ours": lambda: difference(np.concatenate(last[1]))},
            )
            copies = (xfer.stats().d2h.copies - before) / (ctx.samples + 1)
            ctx.limit("d2h 4KiB", "d2h_copies", copies, unit="copies", note=f"ACL copies for {n} arrays")


@case("blocks", "scattered blocks of 32 KiB both ways, against single copies and the link")
async def blocks(ctx: Context) -> None:
    ctx.need_simulator()
    n, nbytes = ctx.pick(tiny=32, quick=4096), 32 * KIB
    ground, bare = Ground(), ctx.bare()
    whole = pattern(n * nbytes)
    order = np.random.default_rng(0).permutation(n)
    pool = np.empty((n, nbytes), np.uint8)  # a host cache, whose blocks were handed out in no order
    pool[order] = whole.reshape(n, nbytes)
    arrays = [pool[i] for i in order]
    device = ground.device(n * nbytes)
    async with Scheduler() as xfer:
        last: list[Any] = []

        async def up() -> float:
            last.clear()
            start = time.perf_counter()
            last.append(await xfer.to_device_many(arrays))
            return time.perf_counter() - start

        async def down() -> float:
            start = time.perf_counter()
            last[1:] = [await xfer.to_host_many(last[0])]
            return time.perf_counter() - start

        async def check() -> str | None:
            return difference(np.concatenate(await xfer.to_host_many(last[0])))

        with ctx.chip_link():
            for to_device, way, ours in ((True, "h2d", up), (False, "d2h", down)):
                setting = f"{way} {n}x32KiB"
                contenders: dict[str, Any] = {"ours": ours}
                if bare is not None:
                    contenders["single"] = lambda t=to_device: bare.copies(
                        to_device=t,
                        mode=SYNC,
                        host=pool.ctypes.data,
                        device=device,
                        nbytes=nbytes,
                        stride=nbytes,
                        n=n,
                    )
                checks: dict[str, Any] = {
                    "ours": check if to_device else lambda: difference(np.concatenate(last[1]))
                }
                await ctx.compare(setting, contenders, n=n, nbytes=nbytes, checks=checks)
                ctx.limit(setting, "link", nbytes / 25e3, nbytes=nbytes)


def _model_shapes(nbytes: int) -> list[int]:
    """Sizes of the tensors of a small transformer, up to nbytes in all: few large, many small."""
    layer = [2 * MIB, 2 * MIB, 512 * KIB, 512 * KIB, 4 * KIB, 4 * KIB, 2 * KIB, 2 * KIB]
    sizes: list[int] = []
    while sum(sizes) < nbytes:
        sizes += layer
    return sizes


@case("load", "a model's tensors in one call, against one after the other and in threads")
async def load(ctx: Context) -> None:
    ctx.need_simulator()
    tensors = [
        pattern(nbytes, i) for i, nbytes in enumerate(_model_shapes(ctx.pick(tiny=MIB, quick=64 * MIB)))
    ]
    total, ground = sum(one.nbytes for one in tensors), Ground()
    device = ground.device(max(one.nbytes for one in tensors))
    others = [
        Baselines(ground, to_device=True, host=one.ctypes.data, device=device, nbytes=one.nbytes)
        for one in tensors[:8]
    ]
    async with Scheduler() as xfer:
        last: list[Any] = []

        async def ours() -> float:
            last.clear()
            start = time.perf_counter()
            last[:] = await xfer.to_device_many(tensors)
            return time.perf_counter() - start

        async def one_by_one() -> float:
            start = time.perf_counter()
            kept = [await xfer.to_device(one) for one in tensors]
            seconds = time.perf_counter() - start
            del kept
            return seconds

        async def executor() -> float:
            start = time.perf_counter()
            for i in range(len(tensors)):
                await others[i % 8].executor()
            return time.perf_counter() - start

        async def check() -> str | None:
            found = await xfer.to_host_many(last)
            return next((wrong for i, one in enumerate(found) if (wrong := difference(one, i))), None)

        with ctx.chip_link():
            setting = f"h2d {len(tensors)} tensors"
            await ctx.compare(
                setting,
                {"ours": ours, "one by one": one_by_one, "executor": executor},
                n=1,
                nbytes=total,
                checks={"ours": check},
            )
            ctx.limit(setting, "link", total / 25e3, nbytes=total)
