"""The window over what is submitted and not done: a submit beyond it waits its turn, and grows nothing."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import numpy as np
import pytest

import npu_xfer
from npu_xfer import sim

pytestmark = pytest.mark.anyio
KIB = 1 << 10


def pattern(nbytes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


async def _settle() -> None:
    """Lets every task that can run do so."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_a_full_window_makes_submits_wait_in_order() -> None:
    async with npu_xfer.Scheduler(window_transfers=3) as xfer:
        device = await xfer.to_device(pattern(KIB))
        started: list[int] = []
        transfers: list[Any] = []

        async def submit(number: int) -> None:
            transfers.append(await xfer.submit_to_host(device))
            started.append(number)

        async with anyio.create_task_group() as group:
            with sim.hold_engine(0, "d2h"):
                for number in range(8):
                    group.start_soon(submit, number)
                    await _settle()
                assert started == [0, 1, 2]
                assert xfer.stats().pending == 3
        assert started == list(range(8))
        for transfer in transfers:
            assert np.array_equal(await transfer, pattern(KIB))


async def test_bytes_bound_it_too_and_a_large_request_goes_alone() -> None:
    async with npu_xfer.Scheduler(window_bytes=64 * KIB) as xfer:
        large = await xfer.to_device(pattern(256 * KIB))  # larger than the window
        small = await xfer.to_device(pattern(40 * KIB))
        order: list[str] = []

        async def fetch(name: str, array: npu_xfer.DeviceArray, nbytes: int) -> None:
            transfer = await xfer.submit_to_host(array)
            order.append(name)
            assert np.array_equal(await transfer, pattern(nbytes))

        async with anyio.create_task_group() as group:
            with sim.hold_engine(0, "d2h"):
                group.start_soon(fetch, "first", small, 40 * KIB)
                await _settle()
                group.start_soon(fetch, "large", large, 256 * KIB)
                await _settle()
                group.start_soon(fetch, "last", small, 40 * KIB)  # would fit, but does not overtake
                await _settle()
                assert order == ["first"]
        assert order == ["first", "large", "last"]


async def test_a_cancelled_wait_leaves_the_queue() -> None:
    async with npu_xfer.Scheduler(window_transfers=1) as xfer:
        device = await xfer.to_device(pattern(KIB))
        with sim.hold_engine(0, "d2h"):
            first = await xfer.submit_to_host(device)
            with anyio.move_on_after(0) as scope:
                await xfer.to_host(device)
            assert scope.cancelled_caught
            assert xfer.stats().pending == 1
        assert np.array_equal(await first, pattern(KIB))
        assert np.array_equal(await xfer.to_host(device), pattern(KIB))
        assert xfer.stats().d2h.transfers == 2


async def test_every_verb_waits() -> None:
    async with npu_xfer.Scheduler(window_transfers=2) as xfer:
        arrays = [pattern(KIB, seed) for seed in range(40)]
        devices = await xfer.to_device_many(arrays)  # more than the window, alone
        results: dict[int, Any] = {}

        async def round_trip(seed: int) -> None:
            device = await xfer.to_device(arrays[seed])
            again = await (await xfer.submit_to_device(await xfer.to_host(device)))
            results[seed] = (await xfer.to_host_many([again, devices[seed]]))[0]

        async with anyio.create_task_group() as group:
            for seed in range(40):
                group.start_soon(round_trip, seed)
        assert all(np.array_equal(results[seed], arrays[seed]) for seed in range(40))


async def test_close_ends_the_waiting() -> None:
    xfer = npu_xfer.Scheduler(window_transfers=1)
    await xfer.open()
    device = await xfer.to_device(pattern(KIB))
    errors: list[Exception] = []

    async def fetch() -> None:
        try:
            await xfer.to_host(device)
        except npu_xfer.XferError as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        with sim.hold_engine(0, "d2h"):
            await xfer.submit_to_host(device)
            for _ in range(3):
                group.start_soon(fetch)
            await _settle()
            group.start_soon(xfer.close)
            await _settle()
    assert all(isinstance(error, npu_xfer.ClosedError) for error in errors)


def test_threads_wait_for_each_other() -> None:
    with npu_xfer.BlockingScheduler(window_transfers=2) as xfer:
        done: list[bool] = []

        def work(seed: int) -> None:
            for step in range(20):
                source = pattern(KIB, 100 * seed + step)
                done.append(np.array_equal(xfer.to_host(xfer.to_device(source)), source))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done == [True] * 120
        assert xfer.stats().pending == 0


def test_small_requests_of_threads_do_not_overtake_a_large_one() -> None:
    with npu_xfer.BlockingScheduler(window_bytes=64 * KIB) as xfer:
        small, large = (xfer.to_device(pattern(nbytes)) for nbytes in (20 * KIB, 256 * KIB))
        right: list[bool] = []

        def fetch(array: Any, nbytes: int) -> None:
            right.append(np.array_equal(xfer.to_host(array), pattern(nbytes)))

        def begin(array: Any, nbytes: int) -> threading.Thread:
            thread = threading.Thread(target=fetch, args=(array, nbytes))
            thread.start()
            return thread

        with sim.hold_engine(0, "d2h"):
            first = xfer.submit_to_host(small)
            threads = [begin(large, 256 * KIB)]
            while xfer._n_waiting < 1:
                pass
            threads.append(begin(small, 20 * KIB))  # would fit
            while xfer._n_waiting < 2:
                assert xfer.stats().pending == 1
            assert xfer.stats().pending == 1
        for thread in threads:
            thread.join()
        assert right == [True, True]
        assert np.array_equal(first.result(), pattern(20 * KIB))
