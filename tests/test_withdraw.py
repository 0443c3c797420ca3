"""Cancelling withdraws what is not issued, what is issued runs to its end; `_nowait` never waits."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import anyio
import numpy as np
import pytest
from support import held, pattern, turns, until, until_blocking

import npu_xfer
from npu_xfer import sim

pytestmark = pytest.mark.anyio
KIB, MIB = 1 << 10, 1 << 20


async def outcomes_of(transfers: list[npu_xfer.Transfer[Any]]) -> list[Any]:
    """The result or the error of each."""
    outcomes: list[Any] = []
    for transfer in transfers:
        try:
            outcomes.append(await transfer)
        except npu_xfer.XferError as error:  # noqa: PERF203  # one by one is the point
            outcomes.append(error)
    return outcomes


async def test_a_cancelled_upload_that_is_queued_is_withdrawn(xfer: npu_xfer.Scheduler) -> None:
    arrays = [pattern(MIB, seed) for seed in range(40)]
    with held("h2d"):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                for array in arrays:
                    group.start_soon(xfer.to_device, array)
                await until(lambda: xfer.stats().pending == 40 and sim.pending_tasks(0) > 0)
                scope.cancel()
        await until(lambda: xfer.stats().pending <= 12)  # what the lanes have
        issued = xfer.stats().pending
        assert issued > 0
    await until(lambda: xfer.stats().pending == 0)
    stats = xfer.stats().h2d
    assert (stats.withdrawn, stats.failed) == (40 - stats.transfers, 0)
    assert 0 < stats.transfers <= issued
    assert stats.copies == stats.transfers
    assert np.array_equal(await xfer.to_host(await xfer.to_device(arrays[0])), arrays[0])


async def test_room_comes_back_while_the_device_stands_still() -> None:
    async with npu_xfer.Scheduler(window_transfers=20, n_lanes=1) as xfer:
        with held("h2d"):
            transfers = [await xfer.submit_to_device(pattern(MIB, seed)) for seed in range(20)]
            with pytest.raises(npu_xfer.WouldBlock, match="the window is full"):
                xfer.submit_to_device_nowait(pattern(KIB))
            await until(lambda: sim.pending_tasks(0) > 0)
            for transfer in transfers:
                transfer.withdraw()
            await until(lambda: xfer.stats().pending < 10)
            more = xfer.submit_to_device_nowait(pattern(KIB, 7))
        assert np.array_equal(await xfer.to_host(await more), pattern(KIB, 7))
        outcomes = await outcomes_of(transfers)
        errors = [error for error in outcomes if isinstance(error, npu_xfer.TransferWithdrawn)]
        assert 10 <= len(errors) < 20
        assert {(error.direction, error.nbytes, error.device) for error in errors} == {("h2d", MIB, 0)}
        assert "submit it again" in str(errors[0])
        for seed, outcome in enumerate(outcomes):
            if isinstance(outcome, npu_xfer.DeviceArray):
                assert np.array_equal(await xfer.to_host(outcome), pattern(MIB, seed))


async def test_what_is_on_the_device_runs_to_its_end(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    target = np.zeros(KIB, np.uint8)
    with held("d2h"):
        transfer = await xfer.submit_to_host(device, out=target)
        await until(lambda: sim.pending_tasks(0) > 0)
        with anyio.move_on_after(0.01) as scope:
            await transfer
        assert scope.cancelled_caught
        transfer.withdraw()
        with anyio.move_on_after(0.01) as scope:
            await transfer.quiesced()
        assert scope.cancelled_caught
        assert repr(transfer) == "<Transfer captured>"
    await transfer.quiesced()
    assert transfer.done
    assert (await transfer) is target
    assert np.array_equal(target, pattern(KIB))
    transfer.withdraw()  # over: nothing
    await transfer.quiesced()


async def test_one_of_two_awaiters_is_cancelled(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    results: list[Any] = []
    with held("h2d"):
        blocker = await xfer.submit_to_device(pattern(KIB, 1), out=device)
        transfer = await xfer.submit_to_host(device)  # waits for the upload, so that all of it can be dropped

        async def wait() -> None:
            results.append(await transfer)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await turns(1)
            with anyio.move_on_after(0.01):
                await transfer
            sim.release_engine(0, "h2d")
        sim.hold_engine(0, "h2d")
    await blocker
    assert np.array_equal(results[0], pattern(KIB, 1))


async def test_the_last_awaiter_is_cancelled(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    with held("h2d"):
        blocker = await xfer.submit_to_device(pattern(KIB, 1), out=device)
        transfer = await xfer.submit_to_host(device)
        with anyio.move_on_after(0.01):
            await transfer
    await blocker
    for _ in range(2):
        with pytest.raises(npu_xfer.TransferWithdrawn):
            await transfer
    assert xfer.stats().d2h.withdrawn == 1


async def test_a_batch_is_withdrawn(xfer: npu_xfer.Scheduler) -> None:
    devices = await xfer.to_device_many([pattern(MIB, seed) for seed in range(30)])
    with held("d2h"):
        with anyio.move_on_after(0.05) as scope:
            await xfer.to_host_many(devices)
        assert scope.cancelled_caught
        await until(lambda: xfer.stats().pending < 15)
    await until(lambda: xfer.stats().pending == 0)
    assert xfer.stats().d2h.withdrawn >= 15


async def test_a_submit_that_waits_for_capture_is_withdrawn() -> None:
    async with npu_xfer.Scheduler(staging_bytes=MIB, chunk_bytes=MIB // 4) as xfer:
        with held("h2d"), anyio.move_on_after(0.02) as scope:
            await xfer.submit_to_device(pattern(8 * MIB))
        assert scope.cancelled_caught
        await until(lambda: xfer.stats().pending == 0)
        assert xfer.stats().h2d.withdrawn == 1
        assert xfer.stats().h2d.copies < 32


async def test_a_withdrawn_one_that_is_dropped_says_nothing(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))  # warnings are errors
    with held("h2d"):
        blocker = await xfer.submit_to_device(pattern(KIB, 1), out=device)
        transfer = await xfer.submit_to_host(device)
        transfer.withdraw()
    await transfer.quiesced()
    assert transfer.failed
    del transfer
    gc.collect()
    await blocker


async def test_nowait(xfer: npu_xfer.Scheduler) -> None:
    await xfer.to_device(pattern(KIB))  # from here on staging memory is at hand
    upload = xfer.submit_to_device_nowait(pattern(KIB))
    assert upload.captured
    device = await upload
    assert np.array_equal(await xfer.submit_to_host_nowait(device), pattern(KIB))
    source = pattern(3 * MIB, 1)
    large = xfer.submit_to_device_nowait(source)
    await large.wait_captured()
    source[:] = 0
    assert np.array_equal(await xfer.to_host(await large), pattern(3 * MIB, 1))
    with pytest.raises(npu_xfer.InvalidTransfer):
        xfer.submit_to_device_nowait(np.array([object()]))


async def test_nowait_does_not_overtake_who_waits() -> None:
    async with npu_xfer.Scheduler(window_bytes=64 * KIB) as xfer:
        device = await xfer.to_device(pattern(40 * KIB))
        small = await xfer.to_device(pattern(KIB))
        async with anyio.create_task_group() as group:
            with held("d2h"):
                first = await xfer.submit_to_host(device)
                group.start_soon(xfer.to_host, device)
                await turns(2)
                for _ in range(3):
                    with pytest.raises(npu_xfer.WouldBlock, match="others wait for room"):
                        xfer.submit_to_host_nowait(small)
        assert np.array_equal(await first, pattern(40 * KIB))
        assert np.array_equal(await xfer.submit_to_host_nowait(small), pattern(KIB))


async def test_withdrawing_after_close_does_nothing() -> None:
    xfer = npu_xfer.Scheduler()
    await xfer.open()
    with held("h2d"):
        transfer = await xfer.submit_to_device(pattern(KIB))
        async with anyio.create_task_group() as group:
            group.start_soon(xfer.close)
            await turns(3)
            transfer.withdraw()
            sim.release_engine(0, "h2d")
        sim.hold_engine(0, "h2d")
    transfer.withdraw()
    await transfer.quiesced()


@pytest.mark.parametrize("seed", range(3))
async def test_random_cancellations(xfer: npu_xfer.Scheduler, seed: int) -> None:
    """Whatever is cancelled when: what ends well has its bytes, and in the end nothing is pending."""
    rng = np.random.default_rng(seed)
    right: list[bool] = []

    async def round_trip(number: int, nbytes: int, patience_s: float) -> None:
        with anyio.move_on_after(patience_s):
            source = pattern(nbytes, number)
            device = await xfer.to_device(source)
            back = await xfer.to_host(device)
            right.append(np.array_equal(back, source))

    for _ in range(5):
        async with anyio.create_task_group() as group:
            for number in range(60):
                nbytes = int(rng.choice([100, 4 * KIB, 300 * KIB, 5 * MIB], p=[0.4, 0.4, 0.15, 0.05]))
                group.start_soon(round_trip, number, nbytes, float(rng.choice([0, 0.001, 0.01, 30])))
    await until(lambda: xfer.stats().pending == 0)
    assert all(right)
    assert len(right) >= 30
    stats = xfer.stats()
    assert stats.h2d.failed + stats.d2h.failed == 0


def test_asyncio_timeout_withdraws() -> None:
    async def main() -> None:
        async with npu_xfer.Scheduler() as xfer:
            device = await xfer.to_device(pattern(KIB))
            with held("h2d"):
                blocker = await xfer.submit_to_device(pattern(KIB, 1), out=device)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(xfer.to_host(device), 0.02)
                task = asyncio.ensure_future(xfer.to_host(device))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await blocker
            await until(lambda: xfer.stats().pending == 0)
            assert xfer.stats().d2h.withdrawn == 2

    asyncio.run(main())


def test_blocking_scheduler() -> None:
    with npu_xfer.BlockingScheduler(window_transfers=2) as xfer:
        device = xfer.to_device(pattern(KIB))
        with held("h2d"):
            blocker = xfer.submit_to_device_nowait(pattern(KIB, 1), out=device)
            transfer = xfer.submit_to_host_nowait(device)
            with pytest.raises(npu_xfer.WouldBlock):
                xfer.submit_to_host_nowait(device)
            thread = threading.Thread(target=xfer.to_host, args=(device,))
            thread.start()
            until_blocking(lambda: xfer._n_waiting == 1)
            transfer.withdraw()
        transfer.quiesced()
        with pytest.raises(npu_xfer.TransferWithdrawn):
            transfer.result()
        blocker.wait_captured()
        blocker.result()
        thread.join()
        assert (xfer.stats().d2h.withdrawn, xfer.stats().d2h.transfers) == (1, 1)
