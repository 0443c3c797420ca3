"""What tests/test_profiles_engine.py runs, in a process of its own for each profile: both schedulers, in each
mode, with contents checked; whatever the simulator finds or sees leaking fails the run.

    python tests/engine_round_trips.py MODE:SEED ...        the profile comes from ACLSIM_PROFILE
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import anyio
import numpy as np
from support import pattern

import npu_xfer
from npu_xfer import sim

KIB = 1 << 10
# Small staging memory, so that large arrays go through it in many pieces.
FORM: dict[str, Any] = {"staging_bytes": 512 * KIB, "chunk_bytes": 64 * KIB}
SIZES = [1, 63, 64, 4095, 65 * KIB + 1, 700 * KIB + 5, 2 << 20]
DEADLINE_S = 20.0


def sources() -> list[np.ndarray[Any, Any]]:
    """Every way into a device: captured, staged, gathered from strides, with nothing in it."""
    base = pattern(256 * KIB).view("<u4").reshape(256, -1)
    shaped = [base[::2], base.T, base[::-1, 3:90], base[5, 7].reshape(()), base[:0], base.astype("c16")]
    return [pattern(nbytes, 1) for nbytes in SIZES] + shaped


def same(back: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    assert back.dtype == source.dtype
    assert back.shape == source.shape
    assert back.tobytes() == source.tobytes(), f"{source.dtype}{source.shape}"


def blocking() -> None:
    """Alone and all at once; page-locked both ways; a failure, and work after it."""
    with npu_xfer.BlockingScheduler(**FORM) as xfer:
        for source in sources():
            same(xfer.to_host(xfer.to_device(source)), source)
        up = [(xfer.submit_to_device(source), source) for source in sources()]
        down = [(xfer.submit_to_host(handle.result(DEADLINE_S)), source) for handle, source in up]
        for handle, source in down:
            same(handle.result(DEADLINE_S), source)
        pinned, target = (xfer.empty_pinned(700 * KIB, np.uint8) for _ in range(2))
        pinned[:] = pattern(700 * KIB, 2)
        target[:] = 0
        array = xfer.to_device(pinned)
        xfer.to_host(array, out=target)
        same(target, pinned)
        sim.fail_copy(507053)  # of any direction: where the chip runs the program, all are inside the device
        try:
            xfer.to_device(pinned)
        except npu_xfer.TransferError as error:
            code = error.code
        else:
            raise AssertionError("the failed copy was not reported")
        assert code == 507053
        same(xfer.to_host(xfer.to_device(pinned)), pinned)


async def asynchronous() -> None:
    async with npu_xfer.Scheduler(**FORM) as xfer:
        async with anyio.create_task_group() as group:

            async def trip(source: np.ndarray[Any, Any]) -> None:
                same(await xfer.to_host(await xfer.to_device(source)), source)

            for source in sources() * 2:
                group.start_soon(trip, source)
        await xfer.submit_to_device(pattern(3 << 20))  # nobody waits but the closing


def main(modes: list[str]) -> None:
    print(sim.profile())
    for text in modes:
        mode, seed = text.split(":")
        sim.set_mode(mode, seed=int(seed))  # type: ignore[arg-type]  # text of the caller
        sim.set_guards(True)
        blocking()
        anyio.run(asynchronous)
        gc.collect()
        counters = sim.counters()
        assert counters.h2d_copies + counters.d2h_copies + counters.d2d_copies > 100, counters
        assert counters.pageable_copies == counters.unaligned_copies == 0, counters
        live = (counters.live_streams, counters.live_events, counters.live_device_blocks)
        assert live == (0, 0, 0), counters
        assert counters.live_pinned_blocks == 0, counters
        assert sim.findings() == (), sim.findings()
        sim.clear_faults()
        sim.reset_counters()


if __name__ == "__main__":
    main(sys.argv[1:])
