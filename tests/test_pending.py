"""`pending` says what is under way, the oldest first, and what each array waits for."""

from __future__ import annotations

import numpy as np
import pytest
from support import held, pattern, until

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
                "the device, or a thread that is working on it",
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
