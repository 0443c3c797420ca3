"""Many small arrays share copies: those of one call, and those that tasks submit in one turn of the loop."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest

import npu_xfer
from npu_xfer import sim

pytestmark = pytest.mark.anyio


def pattern(nbytes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


async def test_ten_thousand_arrays_take_at_most_64_copies() -> None:
    everything = pattern(10_000 * 4096)
    arrays = list(everything.reshape(10_000, 4096))
    async with npu_xfer.Scheduler() as xfer:
        devices = await xfer.to_device_many(arrays)
        assert xfer.stats().h2d.copies <= 64
        assert xfer.stats().h2d.transfers == 10_000
        assert len({device.address for device in devices}) == 10_000
        assert all(device.address % 64 == 0 for device in devices)
        one = await xfer.to_host(devices[1234])  # in its place, whatever it travelled with
        assert np.array_equal(one, arrays[1234])
        before = xfer.stats().d2h.copies
        back = await xfer.to_host_many(devices)
        assert xfer.stats().d2h.copies - before <= 64
        assert np.array_equal(np.concatenate(back), everything)


async def test_mixed_arrays_keep_their_places() -> None:
    rng = np.random.default_rng(1)
    tree = {
        "matrix": rng.normal(size=(30, 40)),
        "column": rng.normal(size=(300, 40))[:, 7],
        "turned": rng.integers(0, 9, (20, 30)).T,
        "nothing": np.empty((0, 4)),
        "scalar": np.float32(2.5),
        "large": pattern(300_000),
        "dates": np.array(["2026-12-01", "NaT"], "M8[D]"),
        "rest": [pattern(n, n) for n in range(1, 200)],
    }
    async with npu_xfer.Scheduler() as xfer:
        back = await xfer.to_host_many(await xfer.to_device_many(tree))
        assert xfer.stats().h2d.copies < 10
    for name, array in tree.items():
        if name == "rest":
            assert all(np.array_equal(a, b) for a, b in zip(tree["rest"], back["rest"], strict=True))
        else:
            assert back[name].dtype == array.dtype
            np.testing.assert_array_equal(back[name], array)


async def test_one_piece_outlives_the_others() -> None:
    async with npu_xfer.Scheduler() as xfer:
        devices = await xfer.to_device_many([pattern(1000, seed) for seed in range(100)])
        kept = devices[42]
        del devices
        others = await xfer.to_device_many([pattern(1000, seed) for seed in range(100, 300)])
        assert np.array_equal(await xfer.to_host(kept), pattern(1000, 42))
        assert np.array_equal(await xfer.to_host(others[7]), pattern(1000, 107))
        held = xfer.stats().device_used_nbytes
        del kept, others
        assert xfer.stats().device_used_nbytes < held


async def _up(xfer: npu_xfer.Scheduler, seed: int, devices: dict[int, Any]) -> None:
    source = pattern(2000, seed)
    devices[seed] = await xfer.to_device(source)


async def test_tasks_of_one_turn_share_copies() -> None:
    async with npu_xfer.Scheduler() as xfer:
        devices: dict[int, Any] = {}
        for _ in range(2):  # the first time maps the memory
            before = xfer.stats().h2d.copies
            async with anyio.create_task_group() as group:
                with sim.hold_engine(0, "h2d"):
                    for seed in range(100):
                        group.start_soon(_up, xfer, seed, devices)
                    for _ in range(5):
                        await anyio.lowlevel.checkpoint()
                    assert xfer.stats().pending == 100
        assert xfer.stats().h2d.copies - before < 20
        for seed, device in devices.items():
            assert np.array_equal(await xfer.to_host(device), pattern(2000, seed))


async def test_a_cancelled_task_takes_nobody_with_it() -> None:
    async with npu_xfer.Scheduler() as xfer:
        devices: dict[int, Any] = {}
        async with anyio.create_task_group() as group:
            with sim.hold_engine(0, "h2d"):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as doomed:
                        for seed in range(50):
                            group.start_soon(_up, xfer, seed, devices)
                            doomed.start_soon(_up, xfer, 1000 + seed, devices)
                        for _ in range(5):
                            await anyio.lowlevel.checkpoint()
                        assert xfer.stats().pending == 100
                        scope.cancel()
        assert sorted(devices) == list(range(50))
        for seed, device in devices.items():
            assert np.array_equal(await xfer.to_host(device), pattern(2000, seed))


async def test_a_turn_that_nobody_ends_is_ended_by_close() -> None:
    xfer = npu_xfer.Scheduler()
    await xfer.open()
    await xfer.to_device(pattern(2000))
    transfers = [await xfer.submit_to_device(pattern(2000, seed)) for seed in range(30)]
    await xfer.close()
    for transfer in transfers:
        assert (await transfer).nbytes == 2000
