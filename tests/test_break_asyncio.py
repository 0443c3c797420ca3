"""Attempts to break promises of the asynchronous face: cancellation, closing, other loops, garbage."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest
from support import held, pattern, run_python

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from npu_xfer import Scheduler

MIB = 1 << 20


async def _await(transfer: npu_xfer.Transfer[Any]) -> Any:
    return await transfer


@pytest.mark.asyncio
async def test_cancelled_open_leaves_no_device_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Task.cancel goes through a shielded scope of anyio; the worker opened the device for nobody."""
    entered, go = threading.Event(), threading.Event()
    ended: list[npu_xfer.Scheduler] = []
    open_core = npu_xfer.Scheduler._open_core

    def slow(self: npu_xfer.Scheduler) -> None:
        entered.set()
        assert go.wait(10)
        open_core(self)
        ended.append(self)

    monkeypatch.setattr(npu_xfer.Scheduler, "_open_core", slow)
    scheduler = npu_xfer.Scheduler()
    task = asyncio.create_task(scheduler.open())
    await asyncio.to_thread(entered.wait, 10)
    task.cancel()
    await asyncio.sleep(0.01)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    deadline = time.monotonic() + 10
    while not ended and time.monotonic() < deadline:  # noqa: ASYNC110  # a worker thread, not this loop
        await asyncio.sleep(0.001)
    was_closed = scheduler.closed
    await scheduler.close()
    assert was_closed


@pytest.mark.anyio
async def test_second_close_waits_for_the_first() -> None:
    """Else it takes the bridge away under the first, and whoever awaits a transfer is never woken."""
    scheduler = npu_xfer.Scheduler()
    await scheduler.open()
    results: list[Any] = []
    with anyio.fail_after(8):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                results.append(await transfer)

            with held("h2d"):
                transfer = await scheduler.submit_to_device(pattern(100))
                tasks.start_soon(wait)
                tasks.start_soon(scheduler.close)
                await anyio.sleep(0.05)
                tasks.start_soon(scheduler.close)
                await anyio.sleep(0.05)
    assert len(results) == 1


@pytest.mark.asyncio
async def test_cancelled_close_still_wakes_who_awaits() -> None:
    scheduler = npu_xfer.Scheduler()
    await scheduler.open()
    with held("h2d"):
        transfer = await scheduler.submit_to_device(pattern(100))
        waiting = asyncio.create_task(_await(transfer))
        await asyncio.sleep(0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(scheduler.close(), 0.05)
    assert (await asyncio.wait_for(waiting, 8)).nbytes == 100
    await scheduler.close()
    assert scheduler.closed


@pytest.mark.anyio
async def test_cancelled_submit_waiting_for_capture() -> None:
    source = pattern(4 * MIB)
    async with npu_xfer.Scheduler(staging_bytes=MIB, chunk_bytes=MIB // 4) as scheduler:
        with held("h2d"):
            with anyio.move_on_after(0.05) as scope:
                await scheduler.submit_to_device(source)
            assert scope.cancelled_caught
        again = await scheduler.to_device(source)
        assert np.array_equal(await scheduler.to_host(again), source)
    assert sim.counters().live_streams == 0


@pytest.mark.anyio
async def test_collector_at_every_allocation(xfer: Scheduler) -> None:
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for number in range(15):
            source = pattern(3000, number)
            ring: list[Any] = [await xfer.submit_to_device(source)]
            ring.append(ring)
            del ring
            device = await xfer.to_device(source)
            target = np.empty(3000, np.uint8)
            ring = [target, await xfer.submit_to_host(device, out=target)]
            ring.append(ring)
            del ring, target
            assert np.array_equal(await xfer.to_host(device), source)
    finally:
        gc.set_threshold(*threshold)


def test_transfer_awaited_in_another_trio_run_is_refused() -> None:
    """A wake-up from another run breaks trio, with a TrioInternalError that ends the program."""
    done = run_python(
        "import threading, numpy as np, trio, npu_xfer\n"
        "from npu_xfer import sim\n"
        "async def main():\n"
        "    async with npu_xfer.Scheduler() as xfer:\n"
        "        sim.hold_engine(0, 'h2d')\n"
        "        transfer = await xfer.submit_to_device(np.arange(100))\n"
        "        async def wait():\n"
        "            try:\n"
        "                with trio.fail_after(5): await transfer\n"
        "            except RuntimeError as error: print('refused', 'event loop' in str(error))\n"
        "        thread = threading.Thread(target=trio.run, args=(wait,)); thread.start()\n"
        "        await trio.sleep(0.2)\n"
        "        sim.release_engine(0, 'h2d')\n"
        "        print((await transfer).size)\n"
        "        await trio.to_thread.run_sync(thread.join)\n"
        "trio.run(main)\n"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["100", "refused True"]


@pytest.mark.parametrize(("runner", "call"), [("asyncio", "()"), ("trio", "")])
def test_scheduler_used_in_a_second_run_is_refused(runner: str, call: str) -> None:
    """It listened to the loop that has ended: in the same thread, so that the thread does not tell."""
    done = run_python(
        f"import {runner} as loop, anyio, numpy as np, npu_xfer\n"
        "xfer = npu_xfer.Scheduler()\n"
        "async def second():\n"
        "    try:\n"
        "        with anyio.fail_after(5): await xfer.to_device(np.arange(3))\n"
        "    except npu_xfer.XferError as error: print('event loop' in str(error))\n"
        "    finally: await xfer.close()\n"
        f"loop.run(xfer.open{call})\n"
        f"loop.run(second{call})\n"
    )
    assert done.stdout == "True\n", done.stderr
