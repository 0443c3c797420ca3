"""What each layer costs: the same copy through raw ctypes, the native extension, and both faces."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import npu_xfer
from bench._bare import SINGLE
from bench._measure import Ground, difference, pattern
from bench.cases import case
from npu_xfer import BlockingScheduler, Scheduler, _native, sim
from npu_xfer._cann.abi import MemcpyKind
from npu_xfer._settings import KIB

if TYPE_CHECKING:
    from bench._measure import Context

SMALL = 4 * KIB


@case("layers", "one 4 KiB page-locked copy through each layer, and the native submit alone")
async def layers(ctx: Context) -> None:
    n = ctx.pick(tiny=20, quick=2000)
    ground, bare = Ground(), ctx.bare()
    runtime = ground.runtime
    host, device, stream = ground.pinned(SMALL), ground.device(SMALL), runtime.create_stream()
    up = MemcpyKind.HOST_TO_DEVICE

    def ctypes_face() -> float:
        start = time.perf_counter()
        for _ in range(n):
            runtime.memcpy_async(device, SMALL, host, SMALL, up, stream)
            runtime.synchronize_stream(stream)
        return time.perf_counter() - start

    with BlockingScheduler() as blocking:
        async with Scheduler() as xfer:
            source = xfer.empty_pinned(SMALL, np.uint8)
            source[:] = pattern(SMALL)
            target = await xfer.to_device(source)
            same = blocking.empty_pinned(SMALL, np.uint8)
            same[:] = source
            beside = blocking.to_device(same)
            news: list[Any] = []
            engine, port = xfer._core.native, _native.Port()  # type: ignore[union-attr]  # it is open

            submit, arguments = engine.submit, _arguments(engine, source, target)

            def extension() -> float:
                start = time.perf_counter()
                for _ in range(n):
                    submit(port, None, *arguments)
                    while not news:
                        port.wait(1.0)
                        port.reap(news)
                    news.clear()
                return time.perf_counter() - start

            def in_a_thread() -> float:
                start = time.perf_counter()
                for _ in range(n):
                    blocking.to_device(same, out=beside)
                return time.perf_counter() - start

            async def face() -> float:
                start = time.perf_counter()
                for _ in range(n):
                    await xfer.to_device(source, out=target)
                return time.perf_counter() - start

            async def check() -> str | None:
                return difference(await xfer.to_host(target))

            contenders: dict[str, Any] = (
                {}
                if bare is None
                else {
                    "bare": lambda: bare.copies(
                        to_device=True, mode=SINGLE, host=host, device=device, nbytes=SMALL, n=n
                    )
                }
            )
            contenders |= {
                "ctypes": ctypes_face,
                "extension": extension,
                "blocking face": in_a_thread,
                "ours": face,
            }
            await ctx.compare("h2d 4KiB alone", contenders, n=n, nbytes=SMALL, checks={"ours": check})
            _submits(ctx, xfer, source, target)


def _arguments(engine: Any, source: Any, target: Any) -> tuple[Any, ...]:
    """What the native submit takes after port and handle; other versions, measured too, took less or more."""
    priority = getattr(npu_xfer, "Priority", None)
    common = (0, source, target._block, target._offset)
    tails = [()] if priority is None else [(priority.NORMAL, False), (priority.NORMAL,), ()]
    port, news = _native.Port(), []  # type: ignore[var-annotated]  # of what reap fills in
    for tail in tails:
        try:
            engine.submit(port, None, *common, *tail)
        except TypeError:
            continue
        while not news:
            port.wait(1.0)
            port.reap(news)
        return (*common, *tail)
    raise AssertionError("the native submit takes other arguments by now")


def _submits(ctx: Context, xfer: Scheduler, source: Any, target: Any) -> None:
    """Time of the native call alone, while a held engine keeps every lane busy."""
    if not sim.is_active():
        ctx.waive("submit", "native_submit", "needs the simulator's held engine")
        return
    n = ctx.pick(tiny=100, quick=5000)
    engine, port = xfer._core.native, _native.Port()  # type: ignore[union-attr]  # it is open
    arguments = _arguments(engine, source, target)
    numbers = range(n)
    values = []
    for _ in range(ctx.samples + 1):
        news: list[Any] = []
        with sim.hold_engine(0, "h2d"):
            submit, handle = engine.submit, object()
            start = time.perf_counter()
            for _ in numbers:
                pass
            loop = time.perf_counter() - start  # while nothing else runs: not after the release
            start = time.perf_counter()
            for _ in numbers:
                submit(port, handle, *arguments)
            seconds = time.perf_counter() - start - loop
        values.append(seconds / n * 1e6)
        done = 0
        while done < n:
            port.wait(1.0)
            port.reap(news)
            done += sum(outcome is not None for _, outcome, _ in news)
            news.clear()
    ctx.row("submit", "native_submit", values[1:], n=n, note="page-locked source, kept alive")
