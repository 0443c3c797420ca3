"""What every test gets: each event loop, the simulator in a known state, a count of what was left over."""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

os.environ.setdefault("NPU_XFER_LIBRARY", "sim")
os.environ.setdefault("NPU_XFER_PATH", "staged")  # a fault of a copy hits asynchronous ones only
os.environ.setdefault("NPU_XFER_TUNING", "off")  # no profile of the user who runs the tests
os.environ.setdefault("NPU_XFER_LANG", "en")  # tests read texts

from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import npu_xfer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it for what it starts with "&"
    signal.signal(signal.SIGINT, signal.default_int_handler)

LOOPS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    pytest.param(("trio", {}), id="trio"),
]
LIVE = ("streams", "events", "device_blocks", "pinned_blocks")


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Every asynchronous test runs on each loop."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def cheap_collections() -> Iterator[None]:
    """Modules and collected tests are most of what is alive, and no test drops them: without them the two
    collections around each test take a tenth of the time. What tests make is collected as before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left_over(cheap_collections: None) -> Iterator[None]:
    """No fault, hold or slow link enters a test, and no stream, event or block outlives one."""
    if not sim.is_active():
        yield
        return
    gc.collect()
    before = sim.counters()
    yield
    sim.clear_faults()
    gc.collect()
    after = sim.counters()
    for kind in LIVE:
        assert getattr(after, f"live_{kind}") == getattr(before, f"live_{kind}"), f"leaked {kind}"


@pytest.fixture
async def xfer() -> AsyncIterator[npu_xfer.Scheduler]:
    """An open scheduler on device 0."""
    import npu_xfer

    async with npu_xfer.Scheduler() as scheduler:
        yield scheduler
