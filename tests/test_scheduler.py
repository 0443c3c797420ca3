"""The asynchronous face: every byte arrives, on every loop, and only when it should."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import numpy as np
import pytest
from support import held, pattern, turns, until

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npu_xfer import Scheduler

pytestmark = pytest.mark.anyio

MIB = 1 << 20
SIZES = [1, 63, 64, 65, 4095, 4096, 65536, 65537, 262144, 262145, 1146880, 4 * MIB, 4 * MIB + 1, 9 * MIB + 5]


@pytest.mark.parametrize("nbytes", SIZES)
async def test_round_trip(xfer: Scheduler, nbytes: int) -> None:
    source = pattern(nbytes)
    device = await xfer.to_device(source)
    assert device.nbytes == nbytes
    assert device.address % 64 == 0
    back = await xfer.to_host(device)
    assert back.dtype == source.dtype
    assert np.array_equal(back, source)
    assert np.array_equal(await device.to_host(), source)


async def test_large_pageable_array(xfer: Scheduler) -> None:
    source = pattern(64 * MIB)
    assert np.array_equal(await xfer.to_host(await xfer.to_device(source)), source)
    assert xfer.stats().h2d.staged == 1


LAYOUTS: dict[str, Any] = {
    "every other": lambda a: a[::2],
    "reversed": lambda a: a[::-1],
    "transposed": lambda a: a.reshape(4, -1).T,
    "fortran": lambda a: np.asfortranarray(a.reshape(8, -1)),
    "column": lambda a: a.reshape(-1, 16)[:, 3],
    "inner block": lambda a: a.reshape(32, -1)[3:17, 5:-9],
    "broadcast": lambda a: np.broadcast_to(a[:64], (7, 64)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[:600], 32),
    "zero dimensions": lambda a: a[5].reshape(()),
    "no elements": lambda a: a[:0],
    "no rows": lambda a: a[:0].reshape(0, 7),
    "read only": lambda a: _read_only(a),
}


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["u1", "<i2", "f4", "c16", "M8[us]", "V3"])
async def test_layouts(xfer: Scheduler, layout: str, dtype: str) -> None:
    base = pattern(1 << 18).view() if dtype != "V3" else pattern(3 << 16)
    source = LAYOUTS[layout](base.view(dtype))
    device = await xfer.to_device(source)
    assert device.shape == source.shape
    back = await xfer.to_host(device)
    assert back.flags.c_contiguous
    assert back.tobytes() == source.tobytes()


async def test_strided_layout_larger_than_a_chunk(xfer: Scheduler) -> None:
    source = pattern(24 * MIB).view("u4").reshape(1024, -1)[:, 1::3]
    device = await xfer.to_device(source)
    target = np.zeros((source.shape[1], source.shape[0]), source.dtype).T
    assert await xfer.to_host(device, out=target) is target
    assert np.array_equal(target, source)


async def test_pinned_memory_goes_direct(xfer: Scheduler) -> None:
    pageable = sim.counters().pageable_copies
    source = xfer.empty_pinned((3, MIB), np.uint8)
    source[:] = pattern(3 * MIB).reshape(3, MIB)
    target = xfer.empty_pinned((3, MIB), np.uint8)
    target[:] = 0
    device = await xfer.to_device(source)
    await xfer.to_host(device, out=target)
    assert np.array_equal(source, target)
    stats = xfer.stats()
    assert (stats.h2d.direct, stats.h2d.staged) == (1, 0)
    assert (stats.d2h.direct, stats.d2h.staged) == (1, 0)
    assert sim.counters().pageable_copies == pageable


async def test_pageable_memory_never_reaches_the_asynchronous_copy(xfer: Scheduler) -> None:
    before = sim.counters()
    for nbytes in (1, 5000, 9 * MIB):
        await xfer.to_host(await xfer.to_device(pattern(nbytes)), out=np.empty(nbytes, np.uint8))
    after = sim.counters()
    assert after.pageable_copies == before.pageable_copies
    assert after.unaligned_copies == before.unaligned_copies


async def test_zero_bytes_make_no_runtime_call(xfer: Scheduler) -> None:
    calls = sim.call_count("aclrtMemcpyAsync") + sim.call_count("aclrtMalloc")
    device = await xfer.to_device(np.empty((0, 5), np.float32))
    back = await xfer.to_host(device)
    assert back.shape == (0, 5)
    assert device.address == 0
    assert sim.call_count("aclrtMemcpyAsync") + sim.call_count("aclrtMalloc") == calls


async def test_nothing_returns_while_the_dma_is_held(xfer: Scheduler) -> None:
    source = pattern(100_000)
    landed = []

    async def move() -> None:
        landed.append(await xfer.to_device(source))

    async with anyio.create_task_group() as tasks:
        with held("h2d"):
            tasks.start_soon(move)
            await until(lambda: sim.pending_tasks(0) > 0)
            await turns(50)  # the loop goes on
            assert landed == []
    assert np.array_equal(await xfer.to_host(landed[0]), source)


async def test_host_result_is_not_there_before_it_is_complete(xfer: Scheduler) -> None:
    source = pattern(5000)
    device = await xfer.to_device(source)
    with held("d2h"):
        transfer = await xfer.submit_to_host(device)
        await until(lambda: sim.pending_tasks(0) > 0)
        await turns(20)
        assert not transfer.done
    assert np.array_equal(await transfer, source)


@pytest.mark.parametrize("nbytes", [1, 4096, 65536, 65537, 4 * MIB + 3, 64 * MIB])
async def test_submit_captures_the_source(xfer: Scheduler, nbytes: int) -> None:
    source = pattern(nbytes)
    expected = source.copy()
    with held("h2d"):
        transfer = await xfer.submit_to_device(source)
        assert transfer.captured
        assert not transfer.done
        source[:] = 0
        await turns(5)
        assert not transfer.done
    assert np.array_equal(await xfer.to_host(await transfer), expected)


async def test_submit_waits_when_the_staging_memory_is_used_up() -> None:
    source = pattern(4 * MIB)
    expected = source.copy()
    transfers = []
    async with npu_xfer.Scheduler(staging_bytes=1 * MIB, chunk_bytes=256 << 10) as xfer:

        async def submit() -> None:
            transfers.append(await xfer.submit_to_device(source))

        async with anyio.create_task_group() as tasks:
            with held("h2d"):
                tasks.start_soon(submit)
                await until(lambda: sim.pending_tasks(0) > 0)
                await turns(50)
                assert transfers == []
                assert xfer.stats().pinned_held_nbytes <= 2 * MIB
        source[:] = 0
        assert np.array_equal(await xfer.to_host(await transfers[0]), expected)


async def test_captured_source_is_released_and_may_die(xfer: Scheduler) -> None:
    source = pattern(300_000)
    expected = source.copy()
    alive = weakref.ref(source)
    with held("h2d"):
        transfer = await xfer.submit_to_device(source)
        del source
        gc.collect()
        assert alive() is None
    assert np.array_equal(await xfer.to_host(await transfer), expected)


async def test_borrowed_source_lives_until_the_copy_is_done(xfer: Scheduler) -> None:
    source = xfer.empty_pinned(300_000, np.uint8)
    source[:] = expected = pattern(300_000)
    with held("h2d"):
        transfer = await xfer.submit_to_device(source)
        assert not transfer.done
        used = xfer.stats().pinned_used_nbytes
        del source
        gc.collect()
        assert xfer.stats().pinned_used_nbytes == used
    assert np.array_equal(await xfer.to_host(await transfer), expected)
    assert xfer.stats().pinned_used_nbytes < used


async def test_device_memory_is_not_reused_under_a_copy(xfer: Scheduler) -> None:
    first = await xfer.to_device(pattern(70_000, seed=1))
    with held("d2h"):
        transfer = await xfer.submit_to_host(first)
        address = first.address
        del first
        gc.collect()
        others = [await xfer.to_device(pattern(70_000, seed=2)) for _ in range(70)]
        assert address not in {other.address for other in others}
    assert np.array_equal(await transfer, pattern(70_000, seed=1))


async def test_into_existing_arrays(xfer: Scheduler) -> None:
    device = await xfer.to_device(np.zeros(1000, np.float64))
    address = device.address
    source = pattern(8000).view(np.float64)
    assert await xfer.to_device(source, out=device) is device
    assert device.address == address
    target = np.full((1000, 2), -1.0)[:, 0]
    assert await xfer.to_host(device, out=target) is target
    assert np.array_equal(target, source, equal_nan=True)


async def test_transfers_on_one_array_keep_their_order(xfer: Scheduler) -> None:
    device = await xfer.to_device(np.zeros(300_000, np.uint8))
    sources = [pattern(300_000, seed) for seed in range(12)]
    transfers: list[Any] = []
    reads = []
    with held("h2d", "d2h"):
        async with anyio.create_task_group() as tasks:
            for source in sources:
                # a writer behind a held one is not captured before it may start: submit without waiting
                transfers.append(await xfer._start_upload(source, device))
                reads.append(await xfer.submit_to_host(device))
            tasks.cancel_scope.cancel()
    for source, transfer, read in zip(sources, transfers, reads, strict=True):
        assert await transfer is device
        assert np.array_equal(await read, source)


async def test_transfers_on_the_same_host_memory_keep_their_order(xfer: Scheduler) -> None:
    first, second = [await xfer.to_device(pattern(3 * MIB, seed)) for seed in (1, 2)]
    small = await xfer.to_device(pattern(1000, 3))
    host = np.zeros(3 * MIB, np.uint8)
    with held("d2h"):
        one = await xfer.submit_to_host(first, out=host)
        two = await xfer.submit_to_host(small, out=host[2 * MIB : 2 * MIB + 1000])
        up = await xfer._start_upload(host, second)  # not captured before the two have landed
        assert not up.captured
    await two
    assert one.done
    expected = pattern(3 * MIB, 1)
    expected[2 * MIB : 2 * MIB + 1000] = pattern(1000, 3)
    assert np.array_equal(await xfer.to_host(await up), expected)


class Pair(NamedTuple):
    left: Any
    right: Any


async def test_trees(xfer: Scheduler) -> None:
    tree = {
        "a": [pattern(10), (pattern(70_000, 1), "text")],
        "b": Pair(pattern(5, 2), None),
        "c": np.float32(3),
    }
    devices = await xfer.to_device_many(tree)
    assert devices["a"][1][1] == "text"
    assert devices["b"].right is None
    back = await xfer.to_host_many(devices)
    assert np.array_equal(back["a"][0], pattern(10))
    assert np.array_equal(back["a"][1][0], pattern(70_000, 1))
    assert type(back["b"]) is Pair
    assert np.array_equal(back["b"].left, pattern(5, 2))
    assert back["c"] == np.float32(3)
    assert await xfer.to_device_many([]) == []


async def test_many_small_arrays_in_order(xfer: Scheduler) -> None:
    arrays = [pattern(1 + i % 97, seed=i) for i in range(3000)]
    back = await xfer.to_host_many(await xfer.to_device_many(arrays))
    assert all(np.array_equal(one, other) for one, other in zip(arrays, back, strict=True))


@pytest.mark.parametrize("nbytes", [512, 5 * MIB])
async def test_a_failed_copy_fails_its_own_transfer(xfer: Scheduler, nbytes: int) -> None:
    arrays = [pattern(nbytes, seed) for seed in range(8)]
    n_chunks = -(-nbytes // (4 * MIB))
    outcomes: list[Any] = [None] * len(arrays)

    async def move(place: int) -> None:
        try:
            outcomes[place] = await xfer.to_device(arrays[place])
        except npu_xfer.TransferError as error:
            outcomes[place] = error

    with held("h2d"):
        sim.fail_copy(507001, device=0, direction="h2d", nth=3 * n_chunks)
        async with anyio.create_task_group() as tasks:
            for place in range(len(arrays)):
                tasks.start_soon(move, place)
            await until(lambda: xfer.stats().pending == len(arrays))
            sim.release_engine(0, "h2d")
        sim.hold_engine(0, "h2d")  # paired with the end of the block
    failed = [outcome for outcome in outcomes if isinstance(outcome, npu_xfer.TransferError)]
    assert len(failed) == 1
    assert failed[0].code == 507001
    assert failed[0].name == "ACL_ERROR_RT_TS_ERROR"
    assert failed[0].call == "aclrtMemcpyAsync"
    assert (failed[0].direction, failed[0].nbytes, failed[0].device) == ("h2d", nbytes, 0)
    for array, outcome in zip(arrays, outcomes, strict=True):
        if not isinstance(outcome, npu_xfer.TransferError):
            assert np.array_equal(await xfer.to_host(outcome), array)
    again = await xfer.to_device(arrays[0])
    assert np.array_equal(await xfer.to_host(again), arrays[0])


async def test_a_failed_download_fails(xfer: Scheduler) -> None:
    device = await xfer.to_device(pattern(5000))
    sim.fail_copy(507001, device=0, direction="d2h")
    with pytest.raises(npu_xfer.TransferError) as caught:
        await xfer.to_host(device)
    assert caught.value.direction == "d2h"
    assert np.array_equal(await xfer.to_host(device), pattern(5000))


async def test_a_refused_submit_names_the_call(xfer: Scheduler) -> None:
    sim.fail_call("aclrtMemcpyAsync", 207000)
    with pytest.raises(npu_xfer.TransferError, match="aclrtMemcpyAsync") as caught:
        await xfer.to_device(pattern(100))
    assert caught.value.code == 207000
    assert caught.value.name == "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"


async def test_batch_error_keeps_the_others(xfer: Scheduler) -> None:
    arrays = [pattern(200_000, seed) for seed in range(5)]  # large enough for a copy each
    sim.fail_copy(507001, device=0, direction="h2d", nth=3)
    with pytest.raises(npu_xfer.BatchError) as caught:
        await xfer.to_device_many(arrays)
    (failed,) = caught.value.errors  # which of them was the third to start is up to the streams
    assert caught.value.results[failed] is None
    for place in {0, 1, 2, 3, 4} - {failed}:
        device: Any = caught.value.results[place]
        assert np.array_equal(await xfer.to_host(device), arrays[place])


async def test_small_arrays_that_shared_a_failed_copy_fail_together(xfer: Scheduler) -> None:
    arrays = [pattern(100, seed) for seed in range(5)] + [pattern(200_000, 5)]
    sim.add_fault("copy code=507001 direction=h2d max_bytes=1000")
    with pytest.raises(npu_xfer.BatchError) as caught:
        await xfer.to_device_many(arrays)
    assert list(caught.value.errors) == [0, 1, 2, 3, 4]
    device: Any = caught.value.results[5]
    assert np.array_equal(await xfer.to_host(device), arrays[5])


async def test_out_of_device_memory_is_an_error_with_a_code(xfer: Scheduler) -> None:
    sim.fail_call("aclrtMalloc", 207001)
    with pytest.raises(npu_xfer.TransferResourceError, match="drop device arrays") as caught:
        await xfer.to_device(pattern(100_000))
    assert isinstance(caught.value, npu_xfer.TransferError)
    assert isinstance(caught.value, npu_xfer.ResourceError)
    assert (caught.value.code, caught.value.call) == (207001, "aclrtMalloc")
    assert np.array_equal(await xfer.to_host(await xfer.to_device(pattern(100_000))), pattern(100_000))


async def test_lost_device_fails_pending_and_later_transfers() -> None:
    async with npu_xfer.Scheduler() as xfer:
        sim.fail_copy(507010, device=0, direction="h2d")
        with pytest.raises(npu_xfer.TransferError) as caught:
            await xfer.to_device(pattern(100))
        assert caught.value.code == 507010
        with pytest.raises(npu_xfer.EngineDead, match="507010"):
            await xfer.to_device(pattern(100))


async def test_cancelled_wait_leaves_the_copy_to_end(xfer: Scheduler) -> None:
    source = pattern(100_000)
    with held("h2d"):
        with anyio.move_on_after(0.02) as scope:
            await xfer.to_device(source)
        assert scope.cancelled_caught
        assert xfer.stats().pending == 1
    await until(lambda: xfer.stats().pending == 0)
    assert np.array_equal(await xfer.to_host(await xfer.to_device(source)), source)


async def test_cancelled_awaits_leave_nothing_behind(xfer: Scheduler) -> None:
    with held("h2d"):
        transfer = await xfer.submit_to_device(pattern(10))
        for _ in range(20):
            with anyio.move_on_after(0.001) as scope:
                await transfer
            assert scope.cancelled_caught
        assert transfer._waiters == []
    assert (await transfer).nbytes == 10


async def test_a_failure_that_nobody_awaits_is_said(xfer: Scheduler) -> None:
    sim.fail_copy(507001, device=0, direction="h2d")
    transfer = await xfer.submit_to_device(pattern(10))
    await until(lambda: transfer.done)
    assert transfer.failed
    assert repr(transfer) == "<Transfer failed>"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        transfer = await xfer.submit_to_device(pattern(10))  # the failed one is dropped
        gc.collect()
    assert [record.category for record in said] == [npu_xfer.TransferWarning]
    assert "nobody awaited it" in str(said[0].message)
    assert "507001" in str(said[0].message)
    await transfer


async def test_a_failure_that_was_awaited_is_not_said_again(xfer: Scheduler) -> None:
    sim.fail_copy(507001, device=0, direction="h2d")
    transfer = await xfer.submit_to_device(pattern(10))
    with pytest.raises(npu_xfer.TransferError):
        await transfer
    assert transfer.failed
    transfer = await xfer.submit_to_device(pattern(10))  # warnings are errors
    gc.collect()
    await transfer


async def test_several_tasks_await_one_transfer(xfer: Scheduler) -> None:
    got: list[Any] = []

    async def wait(transfer: Any) -> None:
        got.append(await transfer)

    with held("h2d"):
        transfer = await xfer.submit_to_device(pattern(10))
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait, transfer)
            await turns(3)
            sim.release_engine(0, "h2d")
        sim.hold_engine(0, "h2d")  # paired with the end of the block
    assert got == [got[0]] * 3
    assert await transfer is got[0]


async def test_close_waits_for_what_is_under_way() -> None:
    xfer = npu_xfer.Scheduler()
    await xfer.open()
    sim.hold_engine(0, "h2d")
    transfer = await xfer.submit_to_device(pattern(1000))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(xfer.close)
        await turns(20)
        assert not transfer.done
        sim.release_engine(0, "h2d")
    device = await transfer
    assert device.shape == (1000,)
    with pytest.raises(npu_xfer.ClosedError):
        await xfer.to_device(pattern(10))
    with pytest.raises(npu_xfer.ClosedError):
        await xfer.to_host(device)
    assert await xfer.close() == 0
    assert xfer.stats().h2d.transfers == 1


async def test_close_gives_up_on_a_device_that_never_answers() -> None:
    """In a child process, because what a stuck stream uses is kept until the process ends."""
    from support import run_python

    code = """
import asyncio, warnings, numpy as np, npu_xfer
from npu_xfer import sim
async def main():
    xfer = npu_xfer.Scheduler()
    await xfer.open()
    sim.hold_engine(0, "h2d")
    transfer = await xfer.submit_to_device(np.ones(10))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        print(await xfer.close(timeout_s=0.1), [w.category.__name__ for w in seen])
    try:
        await transfer
    except npu_xfer.ClosedError as error:
        print("ClosedError", error)
asyncio.run(main())
"""
    done = await anyio.to_thread.run_sync(run_python, code)
    assert done.returncode == 0, done.stderr
    assert "1 ['TransferWarning']" in done.stdout
    assert "ClosedError the scheduler was closed while the device had not finished" in done.stdout


async def test_pinned_arrays_outlive_their_scheduler() -> None:
    async with npu_xfer.Scheduler() as xfer:
        array = xfer.empty_pinned(100, np.uint8)
        array[:] = pattern(100)
    assert np.array_equal(array, pattern(100))
    del array  # the device is released here; nothing_left_over looks


async def test_results_outlive_their_scheduler() -> None:
    async with npu_xfer.Scheduler() as xfer:
        result = await xfer.to_host(await xfer.to_device(pattern(MIB)))
    assert np.array_equal(result, pattern(MIB))


async def test_two_schedulers_on_one_device() -> None:
    async with npu_xfer.Scheduler() as one, npu_xfer.Scheduler() as two:
        first = await one.to_device(pattern(5000, 1))
        second = await two.to_device(pattern(5000, 2))
        assert np.array_equal(await one.to_host(first), pattern(5000, 1))
        assert np.array_equal(await two.to_host(second), pattern(5000, 2))
        with pytest.raises(npu_xfer.InvalidTransfer, match="another scheduler"):
            await two.to_host(first)


async def test_no_loop_no_scheduler(xfer: Scheduler) -> None:
    def other_thread() -> None:
        with pytest.raises(npu_xfer.XferError, match="another event loop"):
            xfer.to_device(pattern(5)).send(None)

    await anyio.to_thread.run_sync(other_thread)
