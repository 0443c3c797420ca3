"""Order between transfers and the streams of others: `after=` and `order_before`."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np
import pytest
from foreign import Foreign, made, ok
from support import held, pattern, turns, until, until_blocking

import npu_xfer
from npu_xfer import acl, sim

pytestmark = pytest.mark.anyio
KIB, MIB = 1 << 10, 1 << 20


async def test_a_download_waits_for_work_on_a_stream(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(64 * KIB, 1))
    with Foreign(64 * KIB) as foreign:
        foreign.hold()
        foreign.write(device.address, pattern(64 * KIB, 2))
        download = await xfer.submit_to_host(device, after=foreign.stream)
        for seed in range(40):  # nobody else is held up, in either direction
            other = await xfer.to_device(pattern(2 * MIB if seed == 0 else 100, seed))
            assert np.array_equal(await xfer.to_host(other), pattern(2 * MIB if seed == 0 else 100, seed))
        await turns(3)
        assert not download.done
        assert xfer.stats().pending == 1
        foreign.release()
        assert np.array_equal(await download, pattern(64 * KIB, 2))


async def test_an_upload_waits_for_a_reader_on_a_stream(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(64 * KIB, 1))
    with Foreign(64 * KIB) as foreign:
        foreign.hold()
        foreign.read(device.address, 64 * KIB)
        source = pattern(64 * KIB, 2)
        upload = await xfer.submit_to_device(source, out=device, after=foreign.stream)
        source[:] = 0  # captured, although it waits
        assert not upload.done
        foreign.release()
        await upload
        foreign.finish()
        assert np.array_equal(foreign.target, pattern(64 * KIB, 1))
        assert np.array_equal(await xfer.to_host(device), pattern(64 * KIB, 2))


@pytest.mark.parametrize("nbytes", [100, MIB, 5 * MIB + 3])
@pytest.mark.parametrize("pinned", [False, True])
async def test_all_sizes_and_paths_wait(nbytes: int, pinned: bool) -> None:
    async with npu_xfer.Scheduler(chunk_bytes=MIB, staging_bytes="4MiB") as xfer:
        with Foreign(nbytes) as foreign:
            device = await xfer.to_device(pattern(nbytes, 1))
            source = xfer.empty_pinned(nbytes, np.uint8) if pinned else np.empty(nbytes, np.uint8)
            source[:] = pattern(nbytes, 2)
            target = xfer.empty_pinned(nbytes, np.uint8) if pinned else np.empty(nbytes, np.uint8)
            results: list[Any] = []

            async def both() -> None:
                await xfer.to_device(source, out=device, after=foreign.stream)
                foreign.hold()
                foreign.write(device.address, pattern(nbytes, 3))
                async with anyio.create_task_group() as inner:
                    inner.start_soon(down)
                    await until(lambda: xfer.stats().pending == 1)
                    await turns(2)
                    foreign.release()

            async def down() -> None:
                results.append(await xfer.to_host(device, out=target, after=foreign.stream))

            foreign.hold()
            foreign.read(device.address, nbytes)
            async with anyio.create_task_group() as group:
                group.start_soon(both)
                await until(lambda: xfer.stats().pending == 1)
                await turns(2)
                foreign.release()
            foreign.finish()
            assert np.array_equal(foreign.target, pattern(nbytes, 1))
            assert np.array_equal(results[0], pattern(nbytes, 3))


async def test_batches_wait_as_one(xfer: npu_xfer.Scheduler) -> None:
    arrays = [pattern(1 + 700 * seed, seed) for seed in range(50)]
    with Foreign(64 * KIB) as foreign:
        foreign.hold()
        results: list[Any] = []

        async def round_trip() -> None:
            devices = await xfer.to_device_many(arrays, after=foreign.stream)
            results.extend(await xfer.to_host_many(devices, after=[foreign.stream, foreign.stream]))

        async with anyio.create_task_group() as group:
            group.start_soon(round_trip)
            await until(lambda: xfer.stats().pending == 50)
            await turns(2)
            assert xfer.stats().h2d.transfers == 0
            foreign.release()
        assert all(np.array_equal(a, b) for a, b in zip(arrays, results, strict=True))


async def test_a_strided_source_and_target(xfer: npu_xfer.Scheduler) -> None:
    with Foreign(KIB) as foreign:
        source, target = pattern(40000).reshape(200, 200)[::2, ::-1], np.zeros((100, 400), np.uint8)[:, ::2]
        device = await xfer.to_device(source, after=foreign.stream)
        await xfer.to_host(device, out=target, after=foreign.stream)
        assert np.array_equal(target, source)


async def test_no_bytes_wait_for_nothing(xfer: npu_xfer.Scheduler) -> None:
    with Foreign(KIB) as foreign:
        foreign.hold()
        device = await xfer.to_device(np.empty((0, 3)), after=foreign.stream)
        assert (await xfer.to_host(device, after=foreign.stream)).shape == (0, 3)


async def test_what_can_be_waited_for(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    with Foreign(KIB) as foreign:
        event = made(acl.rt.create_event_with_flag(1))
        on_device_0 = SimpleNamespace(index=0)
        for after in (
            SimpleNamespace(npu_stream=foreign.stream, device=on_device_0),
            SimpleNamespace(npu_event=event, device=on_device_0),
            npu_xfer.RawEvent(event),
            [foreign.stream, npu_xfer.RawEvent(event)],
            (np.uint64(foreign.stream),),
            0,  # the default stream
        ):
            foreign.hold()
            foreign.write(device.address, pattern(KIB, 7))
            ok(acl.rt.record_event(event, foreign.stream))
            download = await xfer.submit_to_host(device, after=after)  # type: ignore[arg-type]  # stand-ins
            if after != 0:
                await turns(2)
                assert not download.done
            foreign.release()
            assert (await download).shape == (KIB,)
            foreign.finish()
        ok(acl.rt.destroy_event(event))


async def test_what_cannot_is_refused_before_anything_starts(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    copies = xfer.stats().h2d.copies
    elsewhere = SimpleNamespace(index=3)
    async with npu_xfer.Scheduler() as other:
        transfer = await other.submit_to_device(pattern(KIB))
        for after, said in (
            ("stream", "which nothing can wait for"),
            (True, "which is no stream"),
            (-1, "which is no stream"),
            (1.5, "which nothing can wait for"),
            (
                SimpleNamespace(npu_stream=8, device=elsewhere),
                "of device 3, this scheduler copies for device 0",
            ),
            (SimpleNamespace(npu_event=8, device=elsewhere), "of device 3"),
            (npu_xfer.RawEvent(0), "never recorded"),
            (transfer, "transfer of another scheduler"),
        ):
            with pytest.raises(npu_xfer.InvalidTransfer, match=said):
                await xfer.submit_to_device(pattern(KIB), after=after)  # type: ignore[arg-type]  # on purpose
            with pytest.raises(npu_xfer.InvalidTransfer, match=said):
                await xfer.to_host(device, after=[after])  # type: ignore[list-item]  # on purpose
        download = await xfer.submit_to_host(device)
        with pytest.raises(npu_xfer.InvalidTransfer, match="which is no stream"):
            await download.order_before("s")  # type: ignore[arg-type]  # on purpose
        await download
        await transfer
    assert (xfer.stats().pending, xfer.stats().h2d.copies) == (0, copies)


@pytest.mark.parametrize("call", ["aclrtRecordEvent", "aclrtCreateEventWithFlag"])
async def test_a_stream_that_the_runtime_refuses(xfer: npu_xfer.Scheduler, call: str) -> None:
    device = await xfer.to_device(pattern(KIB))
    with Foreign(KIB) as foreign:
        sim.fail_call(call, 107003)
        with pytest.raises(npu_xfer.AclError, match=call) as caught:
            await xfer.to_host(device, after=[foreign.stream, foreign.stream])
        assert caught.value.code == 107003
        assert xfer.stats().pending == 0
        assert np.array_equal(await xfer.to_host(device, after=foreign.stream), pattern(KIB))


async def test_a_wait_that_the_runtime_refuses_fails_its_transfer(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    with Foreign(KIB) as foreign:
        sim.fail_call("aclrtStreamWaitEvent", 207000)
        with pytest.raises(npu_xfer.TransferError, match="aclrtStreamWaitEvent") as caught:
            await xfer.to_host(device, after=foreign.stream)
        assert caught.value.code == 207000
        sim.fail_call("aclrtStreamWaitEvent", 207000, nth=2)  # the second of two: the first is on the stream
        with pytest.raises(npu_xfer.TransferError, match="aclrtStreamWaitEvent"):
            await xfer.to_host(device, after=[foreign.stream, foreign.stream])
        assert np.array_equal(await xfer.to_host(device, after=foreign.stream), pattern(KIB))


async def test_a_failed_copy_fails_only_itself(xfer: npu_xfer.Scheduler) -> None:
    """The first of a batch leads the wait; when its copy fails another one leads."""
    devices = await xfer.to_device_many([pattern(KIB, seed) for seed in range(5)])
    with Foreign(KIB) as foreign:
        sim.fail_copy(507001, direction="d2h")
        with pytest.raises(npu_xfer.BatchError) as caught:
            await xfer.to_host_many(devices, after=foreign.stream)
        assert len(caught.value.errors) == 1
        for seed, result in enumerate(caught.value.results):
            assert result is None or np.array_equal(result, pattern(KIB, seed))  # type: ignore[arg-type]  # arrays here
        assert sum(result is None for result in caught.value.results) == 1


async def test_a_transfer_after_a_transfer(xfer: npu_xfer.Scheduler) -> None:
    device, large = await xfer.to_device_many([pattern(KIB), pattern(9 * MIB, 1)])
    with held("h2d"):
        first = await xfer.submit_to_device(pattern(KIB, 2))
        second = await xfer.submit_to_host(large, after=[first, first])
        third = await xfer.submit_to_host(device, after=(second, first))
        assert np.array_equal(await xfer.to_host(device), pattern(KIB))  # nobody else is held up
        await turns(3)
        assert (first.done, second.done, third.done) == (False, False, False)
        assert xfer.stats().d2h.transfers == 1
    assert np.array_equal(await third, pattern(KIB))
    assert first.done
    assert second.done
    assert np.array_equal(await second, pattern(9 * MIB, 1))
    assert np.array_equal(await xfer.to_host(await first, after=[first, second, third]), pattern(KIB, 2))


async def test_an_upload_after_a_transfer_is_captured_when_it_starts(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    uploads: list[npu_xfer.Transfer[npu_xfer.DeviceArray]] = []

    async def upload(nbytes: int, first: npu_xfer.Transfer[Any]) -> None:
        uploads.append(await xfer.submit_to_device(pattern(nbytes, 1), after=first))

    async with anyio.create_task_group() as group:
        with held("d2h"):
            first = await xfer.submit_to_host(device)
            group.start_soon(upload, KIB, first)
            group.start_soon(upload, 9 * MIB, first)
            await until(lambda: xfer.stats().pending == 3)
            await turns(2)
            assert uploads == []
    for transfer in uploads:
        on_device = await transfer
        assert np.array_equal(await xfer.to_host(on_device), pattern(on_device.nbytes, 1))


async def test_a_failed_transfer_is_over(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    sim.fail_copy(507001, direction="h2d")
    with held("h2d"):
        first = await xfer.submit_to_device(pattern(KIB, 1))
        second = await xfer.submit_to_host(device, after=first)
    assert np.array_equal(await second, pattern(KIB))
    with pytest.raises(npu_xfer.TransferError):
        await first


async def test_more_streams_than_lanes(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB, 5))
    streams = [Foreign(KIB) for _ in range(12)]
    for foreign in streams:
        foreign.hold()
    downloads = [
        await xfer.submit_to_host(device, after=foreign.stream) for foreign in streams for _ in range(3)
    ]
    await turns(2)
    assert not any(download.done for download in downloads)
    for foreign in streams:
        foreign.release()
    for download in downloads:
        assert np.array_equal(await download, pattern(KIB, 5))
    for foreign in streams:
        foreign.__exit__(None, None, None)


async def test_the_window_counts_them(xfer: npu_xfer.Scheduler) -> None:
    async with npu_xfer.Scheduler(window_transfers=2) as small:
        device = await small.to_device(pattern(KIB))
        results: list[Any] = []

        async def fetch(stream: int) -> None:
            results.append(await small.to_host(device, after=stream))

        with Foreign(KIB) as foreign:
            foreign.hold()
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(fetch, foreign.stream)
                await until(lambda: small.stats().pending == 2)
                await turns(3)
                assert small.stats().pending == 2
                foreign.release()
        assert len(results) == 6
        assert all(np.array_equal(result, pattern(KIB)) for result in results)


async def test_a_cancelled_wait_runs_to_its_end(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB))
    target = np.zeros(KIB, np.uint8)
    with Foreign(KIB) as foreign:
        foreign.hold()
        with anyio.move_on_after(0.02) as scope:
            await xfer.to_host(device, out=target, after=foreign.stream)
        assert scope.cancelled_caught
        foreign.release()
        await until(lambda: xfer.stats().pending == 0)
        assert np.array_equal(target, pattern(KIB)) or not target.any()  # cancelled before the submit


async def test_a_stream_waits_for_an_upload(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(3 * MIB, 1))
    with Foreign(3 * MIB) as foreign:
        with held("h2d"):
            upload = await xfer.submit_to_device(pattern(3 * MIB, 2), out=device)
            await upload.order_before(SimpleNamespace(npu_stream=foreign.stream))
            foreign.read(device.address, 3 * MIB)
            await turns(2)
            assert not foreign.idle()
            assert not upload.done
        foreign.finish()
        assert np.array_equal(foreign.target, pattern(3 * MIB, 2))
        await upload
        await upload.order_before(foreign.stream)  # over: nothing to wait for
        assert foreign.idle()


async def test_a_stream_goes_on_when_the_upload_fails(xfer: npu_xfer.Scheduler) -> None:
    device = await xfer.to_device(pattern(KIB, 1))
    with Foreign(KIB) as foreign:
        sim.fail_copy(507001, direction="h2d")
        with held("h2d"):
            upload = await xfer.submit_to_device(pattern(KIB, 2), out=device)
            await upload.order_before(foreign.stream)
        foreign.finish()
        with pytest.raises(npu_xfer.TransferError):
            await upload


@pytest.mark.parametrize(
    "call", ["aclrtWaitAndResetNotify", "aclrtCreateNotify", "aclrtCreateEventWithFlag", "aclrtRecordEvent"]
)
async def test_an_order_that_the_runtime_refuses(xfer: npu_xfer.Scheduler, call: str) -> None:
    with Foreign(KIB) as foreign:
        with held("h2d"):
            upload = await xfer.submit_to_device(pattern(KIB))
            sim.fail_call(call, 207009)
            with pytest.raises(npu_xfer.AclError, match=call):
                await upload.order_before(foreign.stream)
            await upload.order_before(foreign.stream)
        foreign.finish()
        assert np.array_equal(await xfer.to_host(await upload), pattern(KIB))


async def test_a_pipeline_through_a_stream(xfer: npu_xfer.Scheduler) -> None:
    """Upload, work on a stream, download: ordered by the device alone, the host never waits in between."""
    sim.clear_findings()
    device = await xfer.to_device(pattern(16 * KIB))
    with Foreign(16 * KIB) as foreign:
        downloads = []
        for step in range(60):
            upload = await xfer.submit_to_device(pattern(16 * KIB, step), out=device, after=foreign.stream)
            await upload.order_before(foreign.stream)
            foreign.read(device.address, 16 * KIB)  # the work
            downloads.append(await xfer.submit_to_host(device, after=foreign.stream))
        for step, download in enumerate(downloads):
            assert np.array_equal(await download, pattern(16 * KIB, step))
        foreign.finish()
        assert np.array_equal(foreign.target, pattern(16 * KIB, 59))
    assert [finding for finding in sim.findings() if finding.kind == "unordered"] == []


def test_blocking_scheduler() -> None:
    with npu_xfer.BlockingScheduler() as xfer, Foreign(MIB) as foreign:
        device = xfer.to_device(pattern(MIB, 1))
        foreign.hold()
        foreign.write(device.address, pattern(MIB, 2))
        download = xfer.submit_to_host(device, after=foreign.stream)
        behind = xfer.submit_to_host(device, after=download)
        assert not download.done
        assert not behind.done
        foreign.release()
        assert np.array_equal(download.result(), pattern(MIB, 2))
        assert np.array_equal(behind.result(), pattern(MIB, 2))
        foreign.finish()
        with held("h2d"):
            again = xfer.submit_to_device(pattern(MIB, 4), out=device)
            again.order_before(foreign.stream)
            foreign.read(device.address, MIB)
            assert not foreign.idle()
        foreign.finish()
        assert np.array_equal(foreign.target, pattern(MIB, 4))
        again.result()
        again.order_before(foreign.stream)
        with npu_xfer.BlockingScheduler() as other, pytest.raises(npu_xfer.InvalidTransfer, match="another"):
            other.to_device(pattern(KIB), after=again)


CLOSE = """
import sys, warnings
sys.path.insert(0, {tests!r})
import numpy as np, npu_xfer
from foreign import Foreign
from support import pattern
from npu_xfer import sim
warnings.simplefilter("ignore")
xfer = npu_xfer.BlockingScheduler()
xfer.open()
device = xfer.to_device(pattern(1000))
foreign = Foreign(1000)
foreign.hold()
one = xfer.submit_to_host(device, after=foreign.stream)
behind = xfer.submit_to_host(device, after=foreign.stream)
follower = xfer.submit_to_host(device, after=one)
other = Foreign(1000)
one.order_before(other.stream)
assert not other.idle()
print(xfer.close(timeout_s=0.05))
for transfer in (one, behind, follower):
    try:
        transfer.result()
    except npu_xfer.XferError as error:
        print(type(error).__name__)
other.finish()
print("went on")
"""


def test_close_with_a_wait_that_never_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSE.format(tests=os.path.dirname(__file__))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split("\n")[:-1] == ["2", "ClosedError", "ClosedError", "ClosedError", "went on"], done


WITHOUT = """
import sys
sys.path.insert(0, {tests!r})
import anyio, numpy as np, npu_xfer
from foreign import Foreign
from support import held, pattern
async def main():
    async with npu_xfer.Scheduler() as xfer:
        with Foreign(1000) as foreign:
            device = await xfer.to_device(pattern(1000))
            foreign.write(device.address, pattern(1000, 1))
            assert np.array_equal(await xfer.to_host(device, after=foreign.stream), pattern(1000, 1))
            upload = await xfer.submit_to_device(pattern(1000, 2), out=device)
            await upload.order_before(foreign.stream)
            assert upload.done
            foreign.read(device.address, 1000)
            foreign.finish()
            assert np.array_equal(foreign.target, pattern(1000, 2))
anyio.run(main)
with npu_xfer.BlockingScheduler() as xfer, Foreign(10) as foreign:
    upload = xfer.submit_to_device(pattern(1000))
    upload.order_before(foreign.stream)
    assert upload.done
print("right")
"""


def test_a_library_without_notifies() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(tests=os.path.dirname(__file__))],
        env={**os.environ, "ACLSIM_PROFILE": "a2-ep-8.0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "right\n", done


def test_the_callers_device_stays() -> None:
    with npu_xfer.BlockingScheduler() as xfer, Foreign(KIB) as foreign:
        context = made(acl.rt.get_context())
        device = xfer.to_device(pattern(KIB), after=foreign.stream)
        with held("h2d"):
            upload = xfer.submit_to_device(pattern(KIB), out=device, after=foreign.stream)
            upload.order_before(foreign.stream)
        upload.result()
        assert made(acl.rt.get_context()) == context
        until_blocking(foreign.idle)
