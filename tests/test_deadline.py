"""Deadlines: a late transfer raises in time, and its buffers stay until the device is done."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import anyio
import numpy as np
import pytest
from foreign import Foreign
from support import held, pattern, turns, until, until_blocking

import npu_xfer
from npu_xfer import sim

pytestmark = pytest.mark.anyio
KIB, MIB = 1 << 10, 1 << 20


async def test_the_device_stands_still(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    target = np.zeros(KIB, np.uint8)
    with held("d2h"):
        transfer = await xfer.submit_to_host(device, out=target, deadline_s=0.5)
        with pytest.raises(npu_xfer.TransferTimeout, match="it waited for the device") as caught:
            await transfer
        error = caught.value
        assert isinstance(error, TimeoutError)
        assert (error.direction, error.nbytes, error.device, error.in_flight) == ("d2h", KIB, 0, True)
        assert error.stream is not None
        assert error.age_s > 0
        assert "until quiesced() returns" in str(error)
        with anyio.move_on_after(0.02) as scope:
            await transfer.quiesced()
        assert scope.cancelled_caught
        assert xfer.stats().pending == 1
        assert not target.any()
    await transfer.quiesced()
    assert xfer.stats().pending == 0
    assert np.array_equal(target, pattern(KIB))
    assert xfer.stats().d2h.failed == 1
    with pytest.raises(npu_xfer.TransferTimeout):
        await transfer
    assert np.array_equal(await xfer.to_host(device), pattern(KIB))


async def test_one_that_is_queued_ends_alone(xfer: npu_xfer.Scheduler) -> None:
    with held("h2d"):
        before = [await xfer.submit_to_device(pattern(MIB, seed)) for seed in range(30)]
        await until(lambda: sim.pending_tasks(0) > 0)
        with pytest.raises(npu_xfer.TransferTimeout, match="its turn") as caught:
            await xfer.to_device(pattern(MIB), deadline_s=0.5)
        assert not caught.value.in_flight
        assert caught.value.stream is None
        assert xfer.stats().pending == 30
    for transfer in before:
        await transfer


async def test_room_in_the_window_counts() -> None:
    async with npu_xfer.Scheduler(window_transfers=1) as xfer:
        device = await xfer.to_device(pattern(KIB))
        with held("d2h"):
            first = await xfer.submit_to_host(device)
            for _ in range(2):
                with pytest.raises(npu_xfer.TransferTimeout, match="room in the window") as caught:
                    await xfer.to_host(device, deadline_s=0.02)
                assert (caught.value.age_s, caught.value.in_flight) == (0, False)
            with pytest.raises(npu_xfer.TransferTimeout, match="room in the window"):
                await xfer.to_device_many([pattern(KIB)], deadline_s=0)
        assert np.array_equal(await first, pattern(KIB))


async def test_in_time(xfer: npu_xfer.Scheduler) -> None:
    arrays = [pattern(1 + 5000 * seed, seed) for seed in range(60)]
    devices = await xfer.to_device_many(arrays, deadline_s=30)
    results = await xfer.to_host_many(devices, deadline_s=float("inf"))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, results, strict=True))
    large = await xfer.to_device(pattern(9 * MIB), deadline_s=30)
    assert np.array_equal(await large.to_host(deadline_s=30), pattern(9 * MIB))
    assert xfer.stats().h2d.failed == 0


async def test_part_of_a_batch(xfer: npu_xfer.Scheduler) -> None:
    devices = await xfer.to_device_many([pattern(MIB, seed) for seed in range(20)])
    with held("d2h"):
        with pytest.raises(npu_xfer.BatchError) as caught:
            await xfer.to_host_many(devices, deadline_s=0.5)
        kinds = {type(error) for error in caught.value.errors.values()}
        assert kinds == {npu_xfer.TransferTimeout}
        assert len(caught.value.errors) == 20
        assert 0 < xfer.stats().pending < 20  # what is on a stream
    await until(lambda: xfer.stats().pending == 0)


async def test_behind_a_stream(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    with Foreign(KIB) as foreign:
        foreign.hold()
        first = await xfer.submit_to_host(device, after=foreign.stream)
        second = await xfer.submit_to_host(device, after=foreign.stream, deadline_s=0.05)
        with pytest.raises(npu_xfer.TransferTimeout, match="streams or events"):
            await second
        third = await xfer.submit_to_host(device, after=first, deadline_s=0.05)
        with pytest.raises(npu_xfer.TransferTimeout, match="earlier transfers"):
            await third
        foreign.release()
        assert np.array_equal(await first, pattern(KIB))
        await third.quiesced()


def test_what_is_due_goes_first() -> None:
    """On asyncio, whose tasks go on in the order in which they are woken."""

    async def main() -> list[int]:
        order: list[int] = []
        async with npu_xfer.Scheduler(n_lanes=1, chunk_bytes=MIB) as xfer:
            devices = await xfer.to_device_many([pattern(2 * MIB, seed) for seed in range(12)])

            async def fetch(number: int, deadline_s: float | None) -> None:
                await xfer.to_host(devices[number], deadline_s=deadline_s)
                order.append(number)

            async with anyio.create_task_group() as group:
                with held("d2h"):
                    for number in range(12):
                        group.start_soon(fetch, number, {9: 1000.0, 10: 100.0, 11: 500.0}.get(number))
                        await turns(1)
                    await until(lambda: xfer.stats().pending == 12)
        return order

    order = asyncio.run(main())
    assert order.index(10) < order.index(11) < order.index(9)
    assert order.index(9) < 8  # before most that came earlier


async def test_bad_deadlines_are_refused(xfer: npu_xfer.Scheduler) -> None:
    for bad in (-1, float("nan"), True, "1"):
        with pytest.raises(ValueError, match=r"deadline_s=.* is not valid"):
            await xfer.to_device(pattern(KIB), deadline_s=bad)  # type: ignore[arg-type]  # on purpose
    assert xfer.stats().h2d.copies == 0


async def test_dropped_after_its_time(xfer: npu_xfer.Scheduler) -> None:
    """Its user has gone; when the device is done it goes, too."""
    device = await xfer.to_device(pattern(KIB))
    with held("d2h"):
        with anyio.move_on_after(0.01):
            await xfer.to_host(device, deadline_s=0.05)
        await anyio.sleep(0.1)
        assert xfer.stats().pending <= 1
    await until(lambda: xfer.stats().pending == 0)


def test_blocking_scheduler() -> None:
    with npu_xfer.BlockingScheduler(window_transfers=1) as xfer:
        device = xfer.to_device(pattern(KIB), deadline_s=30)
        with held("d2h"):
            transfer = xfer.submit_to_host(device, deadline_s=0.5)
            with pytest.raises(npu_xfer.TransferTimeout, match="the device"):
                transfer.result()
            thread = threading.Thread(target=xfer.to_host, args=(device,))
            thread.start()
            until_blocking(lambda: xfer._n_waiting == 1)
            with pytest.raises(npu_xfer.TransferTimeout, match="room in the window"):
                xfer.to_host(device, deadline_s=0.02)  # behind the one that waits
        transfer.quiesced()
        thread.join()
        with held("d2h"):
            again = xfer.submit_to_host(device)
            with pytest.raises(npu_xfer.TransferTimeout, match="room in the window"):
                device.to_host(deadline_s=0.02)
        again.result()


CLOSE = """
import sys, warnings
sys.path.insert(0, {tests!r})
import anyio, npu_xfer
from support import held, pattern
from npu_xfer import sim
warnings.simplefilter("ignore")
async def main():
    xfer = npu_xfer.Scheduler()
    await xfer.open()
    device = await xfer.to_device(pattern(1000))
    sim.hold_engine(0, "d2h")
    transfer = await xfer.submit_to_host(device, deadline_s=0.5)
    try:
        await transfer
    except npu_xfer.TransferTimeout as error:
        print("late", error.in_flight)
    print(await xfer.close(timeout_s=0.05))
    await transfer.quiesced()  # given up: it does not hang
    print("end")
anyio.run(main)
"""


def test_close_gives_up_what_is_late() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSE.format(tests=os.path.dirname(__file__))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split("\n") == ["late True", "1", "end", ""], done


@pytest.mark.parametrize("seed", range(2))
async def test_random_deadlines(xfer: npu_xfer.Scheduler, seed: int) -> None:
    """What ends well has its bytes; what is late says so; in the end nothing is pending."""
    rng = np.random.default_rng(seed)
    right: list[bool] = []
    late: list[bool] = []

    async def round_trip(number: int, nbytes: int, deadline_s: float, patience_s: float) -> None:
        source = pattern(nbytes, number)
        with anyio.move_on_after(patience_s):
            try:
                device = await xfer.to_device(source, deadline_s=deadline_s)
                right.append(np.array_equal(await device.to_host(deadline_s=deadline_s), source))
            except npu_xfer.TransferTimeout:
                late.append(True)

    for _ in range(5):
        async with anyio.create_task_group() as group:
            for number in range(60):
                nbytes = int(rng.choice([100, 4 * KIB, 300 * KIB, 5 * MIB], p=[0.4, 0.4, 0.15, 0.05]))
                deadline_s, patience_s = rng.choice([0, 0.002, 0.02, 30], 2, p=[0.1, 0.2, 0.2, 0.5])
                group.start_soon(round_trip, number, nbytes, float(deadline_s), float(patience_s))
    await until(lambda: xfer.stats().pending == 0)
    assert all(right)
    assert right
    assert late
