"""Many small copies, awaited: what a serving program does.

Every task awaits one 4 KiB copy after the other. The baseline is what is written today: the synchronous ACL
copy in ``asyncio.to_thread``.

    python bench/awaits.py [--transfers 10000] [--tasks 64] [--samples 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
from _report import Row, describe_link, header, show, write_json

import npu_xfer
from npu_xfer._cann.abi import MemcpyKind
from npu_xfer._library import open_runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NBYTES = 4096


async def _spread(n: int, n_tasks: int, one: Callable[[], Awaitable[object]]) -> float:
    """Seconds for n calls of `one`, awaited one after the other in each of n_tasks tasks."""

    async def task(share: int) -> None:
        for _ in range(share):
            await one()

    start = time.perf_counter()
    await asyncio.gather(*(task(n // n_tasks + (i < n % n_tasks)) for i in range(n_tasks)))
    return time.perf_counter() - start


async def _ours(n: int, n_tasks: int, samples: int) -> list[float]:
    source = np.arange(NBYTES, dtype=np.uint8)
    async with npu_xfer.Scheduler() as xfer:
        await _spread(n // 10 + 1, n_tasks, lambda: xfer.to_device(source))
        seconds = [await _spread(n, n_tasks, lambda: xfer.to_device(source)) for _ in range(samples)]
        last = await xfer.to_device(source)
        assert np.array_equal(await xfer.to_host(last), source)
    return seconds


async def _thread(n: int, n_tasks: int, samples: int) -> list[float]:
    source = np.arange(NBYTES, dtype=np.uint8)
    runtime = open_runtime()
    runtime.init()
    runtime.set_device(0)
    target = runtime.malloc(NBYTES)
    local = threading.local()

    def copy() -> None:
        if not hasattr(local, "ready"):
            runtime.set_device(0)
            local.ready = True
        runtime.memcpy(target, NBYTES, source.ctypes.data, NBYTES, MemcpyKind.HOST_TO_DEVICE)

    await _spread(n // 10 + 1, n_tasks, lambda: asyncio.to_thread(copy))
    seconds = [await _spread(n, n_tasks, lambda: asyncio.to_thread(copy)) for _ in range(samples)]
    back = np.zeros(NBYTES, np.uint8)
    runtime.memcpy(back.ctypes.data, NBYTES, target, NBYTES, MemcpyKind.DEVICE_TO_HOST)
    assert np.array_equal(back, source)
    runtime.free(target)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--transfers", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    with npu_xfer.BlockingScheduler() as probe:
        header(probe.library)
        link = describe_link()
    counts = (args.transfers, args.tasks, args.samples)
    rows = [
        Row("asyncio.to_thread + aclrtMemcpy", asyncio.run(_thread(*counts)), args.transfers, NBYTES),
        Row("npu_xfer, asyncio", asyncio.run(_ours(*counts)), args.transfers, NBYTES),
    ]
    try:
        import uvloop
    except ImportError:
        print("waived: uvloop is not installed")
    else:
        rows.append(Row("npu_xfer, uvloop", uvloop.run(_ours(*counts)), args.transfers, NBYTES))
    title = f"{args.transfers} x 4 KiB H2D, awaited in {args.tasks} tasks, link: {link}"
    show(title, rows)
    write_json(args.json, "awaits", {title: rows})


if __name__ == "__main__":
    main()
