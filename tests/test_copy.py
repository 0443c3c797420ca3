"""copy: where source and destination are gives the direction; on the device no byte passes the host."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import held, pattern, until

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer import BlockingScheduler


@pytest.fixture
def xfer() -> Iterator[BlockingScheduler]:
    with npu_xfer.BlockingScheduler(chunk_bytes="64KiB") as scheduler:
        yield scheduler


@pytest.mark.parametrize("nbytes", [1, 700, 65_536, 65_537, 1_000_003])
def test_on_the_device(xfer: BlockingScheduler, nbytes: int) -> None:
    source = xfer.to_device(pattern(nbytes))
    target = xfer.to_device(np.zeros(nbytes, np.uint8))
    before = xfer.stats()
    assert xfer.copy(source, target) is target
    fresh = source.copy()
    again = xfer.to_device(source)
    after = xfer.stats()
    assert (after.d2d.transfers, after.d2d.nbytes) == (3, 3 * nbytes)
    assert (after.h2d.transfers, after.d2h.transfers) == (before.h2d.transfers, before.d2h.transfers)
    assert after.pinned_held_nbytes == before.pinned_held_nbytes
    assert fresh.address != source.address
    for array in (target, fresh, again):
        assert np.array_equal(xfer.to_host(array), pattern(nbytes))
    xfer.to_device(pattern(nbytes, 1), out=source)
    assert np.array_equal(xfer.to_host(fresh), pattern(nbytes))


def test_every_direction(xfer: BlockingScheduler) -> None:
    host = pattern(96).view("f4").reshape(4, 6)
    device = xfer.copy(host)
    out = np.zeros((6, 4), "f4").T
    assert xfer.copy(device, out) is out
    assert out.tobytes() == host.tobytes()
    assert xfer.copy(host[::-1], device) is device
    assert np.array_equal(xfer.to_host(device).view("u4"), host[::-1].view("u4"))
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"both in host memory.*copyto"):
        xfer.copy(host, out)


def test_without_waiting_for_room(xfer: BlockingScheduler) -> None:
    device = xfer.to_device(pattern(5000))
    anything: Any = device
    twin = xfer.submit_to_device_nowait(anything).result()
    assert np.array_equal(xfer.submit_to_host_nowait(twin).result(), pattern(5000))
    out = bytearray(5000)
    xfer.submit_to_host_nowait(xfer.submit_to_device_nowait(b"x" * 5000).result(), out=out).result()
    assert out == b"x" * 5000
    assert xfer.stats().d2d.transfers == 1


def test_what_is_refused(xfer: BlockingScheduler) -> None:
    device = xfer.to_device(pattern(1000))
    wrong: list[tuple[Any, Any, str]] = [
        (device[:600], device[1:601], "overlap: 600 bytes, 1 bytes apart"),
        (device[400:], device[:600], "overlap: 600 bytes, 400 bytes apart"),
        (device, device, "overlap"),
        (device, device[:999], r"shape \(1000,\).*shape \(999,\)"),
        (device, device.view(np.int8), "dtype uint8.*dtype int8"),
    ]
    for src, dst, text in wrong:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.copy(src, dst)
    with npu_xfer.BlockingScheduler() as other:
        theirs = other.to_device(pattern(1000))
        for src, dst in [(theirs, device), (device, theirs)]:
            with pytest.raises(npu_xfer.InvalidTransfer, match="another scheduler"):
                xfer.copy(src, dst)
    assert xfer.copy(device[:500], device[500:]) is not None  # side by side
    assert np.array_equal(xfer.to_host(device), np.tile(pattern(1000)[:500], 2))
    nothing = device[0:0].copy()
    assert nothing.nbytes == 0
    assert xfer.stats().d2d.transfers == 1


def test_a_failure_names_its_direction(xfer: BlockingScheduler) -> None:
    device = xfer.to_device(pattern(1000))
    sim.add_fault("copy code=507001 nth=1")
    with pytest.raises(npu_xfer.TransferError, match="D2D transfer of 1000 bytes") as caught:
        device.copy()
    assert caught.value.direction == "d2d"
    assert np.array_equal(xfer.to_host(device.copy()), pattern(1000))


@pytest.mark.anyio
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=12))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
async def test_order_against_a_model(steps: list[tuple[int, int, int]]) -> None:
    """Uploads, copies and downloads between four arrays, all submitted while nothing moves."""
    async with npu_xfer.Scheduler() as xfer:
        model = [pattern(3000, n) for n in range(4)]
        devices = await xfer.to_device_many(model)
        seen: list[tuple[Any, Any]] = []

        async def fetch(array: npu_xfer.DeviceArray, expected: Any) -> None:
            seen.append((await array.to_host(), expected))

        async with anyio.create_task_group() as group:
            with held("h2d", "d2h", "d2d"):
                for n, (a, b, kind) in enumerate(steps):
                    if kind == 0:
                        model[a] = pattern(3000, 100 + n)
                        group.start_soon(xfer.copy, model[a], devices[a])
                    elif kind == 1:
                        group.start_soon(fetch, devices[a], model[a])
                    elif a != b:
                        model[b] = model[a]
                        group.start_soon(xfer.copy, devices[a], devices[b])
                    for _ in range(3):
                        await anyio.lowlevel.checkpoint()
        for got, expected in seen:
            assert np.array_equal(got, expected)
        for device, expected in zip(devices, model, strict=True):
            assert np.array_equal(await xfer.to_host(device), expected)


@pytest.mark.anyio
async def test_the_source_of_a_cancelled_copy_stays() -> None:
    async with npu_xfer.Scheduler() as xfer:
        source = await xfer.to_device(pattern(5000))
        target = await xfer.to_device(np.zeros(5000, np.uint8))
        with held("d2d"):
            async with anyio.create_task_group() as group:
                group.start_soon(xfer.copy, source, target)
                await until(lambda: sim.pending_tasks(0) == 1)  # issued: nothing withdraws it
                del source
                group.cancel_scope.cancel()
            assert xfer.stats().device_used_nbytes == 10_000
        assert np.array_equal(await xfer.to_host(target), pattern(5000))
        gc.collect()  # the frames of the task that was cancelled
        assert xfer.stats().device_used_nbytes == 5000
