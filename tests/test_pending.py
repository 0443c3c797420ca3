"""`pending` says what is under way, the oldest first, and what each array waits for."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from foreign import Foreign
from support import held, pattern, until, until_blocking

import npu_xfer
from npu_xfer import sim

pytestmark = pytest.mark.anyio
MIB = 1 << 20


async def test_each_wait_has_its_words() -> None:
    async with npu_xfer.Scheduler(n_lanes=1) as xfer:
        assert xfer.pending() == []
        target = await xfer.to_device(pattern(MIB, 99))
        with held("h2d"):
            first = xfer.submit_to_device_nowait(pattern(MIB, 1), out=target)
            await until(lambda: sim.pending_tasks(0) > 0)
            second = xfer.submit_to_device_nowait(pattern(MIB, 2), out=target)
            third = xfer.submit_to_device_nowait(pattern(MIB, 3))
            await until(lambda: "a stream to take it" in [row.waits_for for row in xfer.pending()])
            rows = xfer.pending()
            assert [row.nbytes for row in rows] == [MIB, MIB, MIB]
            assert [row.waits_for for row in rows] == [
                "the device, which has a part of it",
                "earlier transfers that use the same memory",
                "a stream to take it",
            ]
            assert all(row.age_s >= 0 and row.direction == "h2d" for row in rows)
            assert str(rows[1]).startswith("H2D transfer of 1048576 bytes (staged), ")
            assert len(xfer.pending(2)) == 2
            assert not rows[2].withdrawn
        assert await first is target
        assert await second is target
        await third
        await until(lambda: xfer.pending() == [])
        assert np.array_equal(await xfer.to_host(target), pattern(MIB, 2))


async def test_behind_a_stream_and_behind_a_transfer() -> None:
    async with npu_xfer.Scheduler() as xfer:
        device = await xfer.to_device(pattern(1000))
        with Foreign(1000) as foreign:
            foreign.hold()
            one = await xfer.submit_to_host(device, after=foreign.stream)
            behind = await xfer.submit_to_host(device, after=foreign.stream)
            follower = await xfer.submit_to_host(device, after=one)
            await until(lambda: sim.pending_tasks(0) >= 5)
            assert [row.waits_for for row in xfer.pending()] == [
                "work on a stream that `after` names",
                "work on a stream that `after` names",
                "other transfers, named by `after`, to end",
            ]
            (row,) = xfer.why(one)
            assert row.stream is not None
            assert "stream" in str(row)
            assert xfer.why(behind)[0].stream is None
            behind.withdraw()
            foreign.release()
        await one
        await follower
        await behind.quiesced()
        assert xfer.why(one) == []
        assert xfer.pending() == []


def test_blocking_scheduler() -> None:
    with npu_xfer.BlockingScheduler() as xfer:
        device = xfer.to_device(pattern(1000))
        with held("d2h"):
            download = xfer.submit_to_host(device)
            until_blocking(lambda: sim.pending_tasks(0) > 0)
            (row,) = xfer.why(download)
            assert (row.direction, row.nbytes, row.path) == ("d2h", 1000, "staged")
            assert row.waits_for == "the device, which has a part of it"
        download.result()
        assert xfer.why(download) == []


DUMP = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import asyncio, npu_xfer
from support import held, pattern, until
from npu_xfer import sim
npu_xfer.dump_on_signal()
async def main():
    async with npu_xfer.Scheduler() as xfer:
        device = await xfer.to_device(pattern(1000))
        with held("d2h"):
            transfers = [await xfer.submit_to_host(device) for _ in range(60)]
            await until(lambda: sim.pending_tasks(0) > 0)
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(0)
        for transfer in transfers:
            await transfer
asyncio.run(main())
npu_xfer.dump(1)
"""


def test_a_signal_tells_what_is_under_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DUMP.format(tests=os.path.dirname(__file__))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "SIMULATED" in done.stderr
    assert ": 60 pending\n" in done.stderr
    assert done.stderr.count("D2H transfer of 1000 bytes (staged), ") == 50
    assert "  and 10 that came later\n" in done.stderr
    assert "the device, which has a part of it (stream " in done.stderr
    assert done.stdout.count("\n") == 1  # nothing is open any more
