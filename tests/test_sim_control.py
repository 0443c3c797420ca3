"""The simulator's controls, and the control plane over it. Every copy's bytes are compared."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import pytest

from npu_xfer import _library, sim
from npu_xfer._cann.abi import EventFlag, MemcpyKind, MemLocationType, RunMode
from npu_xfer._types import Direction
from npu_xfer.errors import AclError, LibraryError, ResourceError, XferError
from npu_xfer.sim import _binding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from npu_xfer._cann.runtime import Runtime

pytestmark = pytest.mark.sim_control

H2D = MemcpyKind.HOST_TO_DEVICE
D2H = MemcpyKind.DEVICE_TO_HOST
NBYTES = 4099  # odd on purpose


def _pattern(seed: int, nbytes: int = NBYTES) -> bytes:
    return bytes((seed + 7 * place) % 251 for place in range(nbytes))


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A control plane with device 0 current, on the simulator. Leaves the simulator as it was."""
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    opened = _library.open_runtime()
    initialised = opened.init()
    opened.set_device(0)
    sim.clear_faults()
    alive = sim.counters()
    sim.reset_counters()
    try:
        yield opened
        after = sim.counters()
        for kind in ("streams", "events", "device_blocks", "pinned_blocks"):
            assert getattr(after, f"live_{kind}") == getattr(alive, f"live_{kind}"), kind
    finally:
        sim.clear_faults()
        opened.reset_device(0)
        if initialised:
            opened.finalize()


class Bench:
    """One stream, one device block and one page-locked block."""

    def __init__(self, runtime: Runtime, nbytes: int = NBYTES) -> None:
        self.runtime = runtime
        self.nbytes = nbytes
        self.stream = runtime.create_stream()
        self.device = runtime.malloc(nbytes)
        self.pinned = runtime.malloc_host(nbytes)

    def fill(self, data: bytes) -> None:
        ctypes.memmove(self.pinned, data, len(data))

    def read(self) -> bytes:
        return ctypes.string_at(self.pinned, self.nbytes)

    def h2d(self) -> None:
        self.runtime.memcpy_async(self.device, self.nbytes, self.pinned, self.nbytes, H2D, self.stream)

    def d2h(self) -> None:
        self.runtime.memcpy_async(self.pinned, self.nbytes, self.device, self.nbytes, D2H, self.stream)

    def close(self) -> None:
        self.runtime.destroy_stream(self.stream)
        self.runtime.free(self.device)
        self.runtime.free_host(self.pinned)


@pytest.fixture
def bench(runtime: Runtime) -> Iterator[Bench]:
    made = Bench(runtime)
    sim.poke(made.device, _pattern(99))
    try:
        yield made
    finally:
        made.close()


def test_a_copy_there_and_back(bench: Bench) -> None:
    bench.fill(_pattern(1))
    bench.h2d()
    assert bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(1)
    bench.fill(_pattern(2))
    bench.d2h()
    assert bench.runtime.synchronize_stream(bench.stream, timeout_s=30)
    assert bench.read() == _pattern(1)
    found = sim.counters()
    assert (found.h2d_copies, found.d2h_copies) == (1, 1)
    assert (found.h2d_nbytes, found.d2h_nbytes) == (NBYTES, NBYTES)
    assert (found.failed_copies, found.pageable_copies) == (0, 0)
    assert (found.live_streams, found.live_device_blocks, found.live_pinned_blocks) >= (1, 1, 1)


def test_a_synchronous_copy(bench: Bench) -> None:
    source = ctypes.create_string_buffer(_pattern(3), NBYTES)
    bench.runtime.memcpy(bench.device, NBYTES, ctypes.addressof(source), NBYTES, H2D)
    assert sim.peek(bench.device, NBYTES) == _pattern(3)
    bench.runtime.memset(bench.device, NBYTES, 0x5A, 100)
    assert sim.peek(bench.device, NBYTES) == b"\x5a" * 100 + _pattern(3)[100:]


@pytest.mark.parametrize("direction", [Direction.H2D, "h2d"])
def test_a_held_engine_copies_nothing_until_released(bench: Bench, direction: Direction) -> None:
    bench.fill(_pattern(4))
    with sim.hold_engine(0, direction) as hold:
        bench.h2d()
        assert not bench.runtime.stream_is_idle(bench.stream)
        assert not bench.runtime.synchronize_stream(bench.stream, timeout_s=0.001)
        assert sim.pending_tasks(0) >= 1
        assert sim.peek(bench.device, NBYTES) == _pattern(99)
        held = [hold.held]
    held.append(hold.held)
    assert held == [True, False]
    bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(4)
    assert sim.pending_tasks(0) == 0


def test_holding_one_direction_leaves_the_other_free(bench: Bench) -> None:
    with sim.hold_engine(0, "h2d"):
        bench.d2h()
        assert bench.runtime.synchronize_stream(bench.stream, timeout_s=30)
    assert bench.read() == _pattern(99)


def test_engine_holds_nest(bench: Bench) -> None:
    bench.fill(_pattern(5))
    outer = sim.hold_engine(0, "h2d")
    inner = sim.hold_engine(0, "h2d")
    bench.h2d()
    inner.release()
    inner.release()  # a second time does nothing
    assert not bench.runtime.synchronize_stream(bench.stream, timeout_s=0.001)
    outer.release()
    assert bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(5)


def test_a_held_stream_lets_other_streams_pass(bench: Bench) -> None:
    other = Bench(bench.runtime)
    bench.fill(_pattern(6))
    other.fill(_pattern(7))
    with sim.hold_stream(bench.stream):
        bench.h2d()
        other.h2d()
        assert bench.runtime.synchronize_stream(other.stream)
        assert sim.peek(other.device, NBYTES) == _pattern(7)
        assert sim.peek(bench.device, NBYTES) == _pattern(99)
    bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(6)
    other.close()


def test_a_failing_copy_is_reported_once_and_moves_nothing(bench: Bench) -> None:
    bench.fill(_pattern(8))
    assert sim.fail_copy(507001, direction="h2d", device=0, nth=2) > 0
    bench.h2d()
    bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(8)
    bench.fill(_pattern(9))
    bench.h2d()
    with pytest.raises(AclError) as caught:
        bench.runtime.synchronize_stream(bench.stream)
    assert (caught.value.code, caught.value.name) == (507001, "ACL_ERROR_RT_TS_ERROR")
    assert caught.value.call == "aclrtSynchronizeStream"
    assert sim.peek(bench.device, NBYTES) == _pattern(8)
    bench.runtime.synchronize_stream(bench.stream)
    bench.h2d()
    bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(9)
    assert sim.counters().failed_copies == 1


def test_a_failing_call_does_nothing_else(runtime: Runtime) -> None:
    alive = sim.counters().live_device_blocks
    sim.fail_call("aclrtMalloc", 207001)
    with pytest.raises(ResourceError, match="ACL_ERROR_RT_MEMORY_ALLOCATION"):
        runtime.malloc(64)
    assert sim.counters().live_device_blocks == alive
    runtime.free(runtime.malloc(64))


def test_clear_faults_counts_what_had_not_fired(bench: Bench) -> None:
    sim.fail_copy(507001)
    sim.fail_call("aclrtFree", 107000, nth=3)
    assert sim.clear_faults() == 2
    assert sim.clear_faults() == 0
    bench.fill(_pattern(10))
    bench.h2d()
    bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(10)


def test_link_is_set_named_by_field_and_restored(runtime: Runtime) -> None:
    before = sim.get_link(0)
    with sim.set_link(h2d_bytes_per_s=10**9, latency_ns=5000) as link:
        assert sim.get_link(0) == link
        assert (link.h2d_bytes_per_s, link.latency_ns) == (10**9, 5000)
        assert link.d2h_bytes_per_s == before.d2h_bytes_per_s
        with sim.set_link(sim.Link(submit_ns=1), device=0):
            assert sim.get_link(0) == sim.Link(submit_ns=1)
        assert sim.get_link(0) == link
    assert sim.get_link(0) == before
    change = sim.set_link(latency_ns=7)
    change.restore()
    change.restore()
    assert sim.get_link(0) == before


def test_a_timing_only_link_moves_no_bytes(bench: Bench) -> None:
    bench.fill(_pattern(11))
    with sim.set_link(move_bytes=False):
        bench.h2d()
        bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(99)
    bench.h2d()
    bench.runtime.synchronize_stream(bench.stream)
    assert sim.peek(bench.device, NBYTES) == _pattern(11)


def test_a_slow_link_takes_its_time(bench: Bench) -> None:
    start = bench.runtime.create_event(EventFlag.SYNC | EventFlag.TIME_LINE)
    end = bench.runtime.create_event(EventFlag.SYNC | EventFlag.TIME_LINE)
    bench.fill(_pattern(12))
    with sim.set_link(latency_ns=20_000_000):
        bench.runtime.record_event(start, bench.stream)
        bench.h2d()
        bench.runtime.record_event(end, bench.stream)
        assert bench.runtime.synchronize_event(end)
    assert bench.runtime.elapsed_ms(start, end) >= 19
    assert sim.peek(bench.device, NBYTES) == _pattern(12)
    bench.runtime.destroy_event(start)
    bench.runtime.destroy_event(end)


def test_events_order_two_streams(bench: Bench) -> None:
    later = Bench(bench.runtime)
    event = bench.runtime.create_event()
    bench.fill(_pattern(13))
    with sim.hold_stream(bench.stream):
        bench.h2d()
        bench.runtime.record_event(event, bench.stream)
        bench.runtime.stream_wait_event(later.stream, event)
        later.runtime.memcpy_async(later.pinned, NBYTES, bench.device, NBYTES, D2H, later.stream)
        assert not bench.runtime.event_is_complete(event)
        assert not bench.runtime.synchronize_stream(later.stream, timeout_s=0.001)
    bench.runtime.synchronize_stream(later.stream)
    assert bench.runtime.event_is_complete(event)
    assert later.read() == _pattern(13)
    bench.runtime.destroy_event(event)
    later.close()


def test_calls_are_counted_by_thread(runtime: Runtime) -> None:
    def allocate() -> None:
        runtime.set_device(0)
        runtime.free(runtime.malloc(64))
        runtime.reset_device(0)
        tids.append(threading.get_native_id())

    tids: list[int] = []
    sim.reset_counters()
    runtime.free(runtime.malloc(64))
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    assert sim.call_count("aclrtMalloc") == 2
    assert sim.call_count("aclrtMalloc", threading.get_native_id()) == 1
    assert sim.call_count("aclrtMalloc", tids[0]) == 1
    assert sim.call_count("aclrtMemcpyAsync") == 0
    sim.reset_counters()
    assert sim.call_count("aclrtMalloc") == 0


def test_peek_and_poke_stay_inside_one_block(bench: Bench) -> None:
    sim.poke(bench.device + 3, bytearray(b"abc"))
    expected = bytearray(_pattern(99))
    expected[3:6] = b"abc"
    assert sim.peek(bench.device, NBYTES) == bytes(expected)
    assert sim.peek(bench.device + NBYTES - 1, 1) == bytes(expected[-1:])
    with pytest.raises(ValueError, match="not one live device block"):
        sim.peek(bench.device, NBYTES + (1 << 22))  # a block may be rounded up, by less than this
    with pytest.raises(ValueError, match="not one live device block"):
        sim.poke(bench.pinned, b"x")


@pytest.mark.parametrize(
    "refused",
    [
        lambda: sim.hold_engine(0, "sideways"),  # type: ignore[arg-type]  # on purpose
        lambda: sim.hold_engine(-1, "h2d"),
        lambda: sim.fail_copy(507001, nth=0),
        lambda: sim.fail_call("aclrtNoSuchThing", 1),
        lambda: sim.fail_call("aclrtFree", 1, nth=0),
        lambda: sim.call_count("aclrtNoSuchThing"),
        lambda: sim.get_link(64),
        lambda: sim.set_link(latency_ns=-1),
        lambda: sim.set_device_count(0),
        lambda: sim.set_device_count(65),
        lambda: sim.pending_tasks(64),
    ],
)
def test_impossible_controls_are_refused(runtime: Runtime, refused: object) -> None:
    assert callable(refused)
    with pytest.raises(ValueError, match=r"must be|refused|no device"):
        refused()


def test_device_count_is_kept_while_a_device_is_set(runtime: Runtime) -> None:
    count = runtime.device_count()
    with pytest.raises(XferError, match="a device is set"):
        sim.set_device_count(count + 1)
    assert runtime.device_count() == count


def test_what_the_control_plane_tells(bench: Bench) -> None:
    runtime = bench.runtime
    assert runtime.get_device() == 0
    assert runtime.get_context()
    assert runtime.run_mode() is RunMode.HOST
    assert runtime.soc_name()
    assert all(runtime.versions().values())
    memory = runtime.mem_info()
    assert 0 < memory.free_nbytes <= memory.total_nbytes
    if runtime.library.has("aclrtPointerGetAttributes"):
        assert runtime.pointer_attributes(bench.device).location is MemLocationType.DEVICE
        assert runtime.pointer_attributes(bench.device).device == 0
        assert runtime.pointer_attributes(bench.pinned).location is MemLocationType.HOST
        ordinary = ctypes.create_string_buffer(64)
        where = runtime.pointer_attributes(ctypes.addressof(ordinary))
        assert where.location is MemLocationType.UNREGISTERED


def test_a_fresh_thread_has_no_device(runtime: Runtime) -> None:
    """Asking is no failure, and its text does not turn up in a later error."""
    seen: list[object] = []

    def look() -> None:
        seen.extend([runtime.get_device(), runtime.get_context()])
        runtime.set_device(0)
        seen.extend([runtime.recent_message(), runtime.get_device()])
        runtime.reset_device(0)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [None, None, None, 0]


def test_errors_carry_the_runtimes_text(runtime: Runtime) -> None:
    with pytest.raises(AclError) as caught:
        runtime.set_device(999)
    assert (caught.value.call, caught.value.code) == ("aclrtSetDevice", 107001)
    assert caught.value.message
    assert caught.value.message.splitlines()[0].strip() in str(caught.value)
    assert runtime.recent_message() is None  # reading it took it away
    assert runtime.get_device() == 0


def test_a_second_initialisation_is_somebody_elses(runtime: Runtime) -> None:
    assert runtime.init() is False


@pytest.mark.parametrize("timeout_s", [-1.0, float("nan")])
def test_impossible_timeouts_are_refused(bench: Bench, timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        bench.runtime.synchronize_stream(bench.stream, timeout_s=timeout_s)


def test_a_time_limit_of_zero_does_not_wait(bench: Bench) -> None:
    with sim.hold_stream(bench.stream):
        bench.h2d()
        assert bench.runtime.synchronize_stream(bench.stream, timeout_s=0) is False
    bench.runtime.synchronize_stream(bench.stream)


def test_controls_refuse_another_library(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is not the simulator is named in the error, and asking whether it is does not raise."""
    located = _library.located_library()
    monkeypatch.setattr(type(located.library), "simulated", property(lambda self: False))
    _binding._bind.cache_clear()
    try:
        with pytest.raises(LibraryError, match="not the simulator") as caught:
            sim.counters()
        assert located.info.path in str(caught.value)
    finally:
        monkeypatch.undo()
        _binding._bind.cache_clear()
    assert sim.counters().live_streams >= 0
