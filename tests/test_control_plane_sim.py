"""What the rest of the control plane does on the simulator: one behaviour for each theme, bytes compared."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
import threading
from typing import TYPE_CHECKING

import pytest
from support import pattern

from npu_xfer import _library, sim
from npu_xfer._cann.abi import (
    CallbackBlockType,
    DevAttr,
    EventFlag,
    EventStatus,
    EventWaitStatus,
    FailureMode,
    HostRegFlag,
    MallocAttrType,
    MallocPolicy,
    MemcpyKind,
    StreamAttr,
    StreamState,
    WaitValue,
)
from npu_xfer._cann.calls import callbacks
from npu_xfer._cann.runtime import BatchCopy, Pitched
from npu_xfer.errors import AclError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npu_xfer._cann.runtime import ExceptionInfo, Runtime

pytestmark = pytest.mark.sim_control

H2D, D2H = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST
NBYTES = 4099  # odd on purpose
KEPT = (callbacks._waiting, callbacks._named)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A control plane with device 0 current."""
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    opened = _library.open_runtime()
    initialised = opened.init()
    opened.set_device(0)
    yield opened
    opened.reset_device(0)
    if initialised:
        opened.finalize()
    assert not any(KEPT)


class Bench:
    """Two streams, device memory, and page-locked memory full of a pattern."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.streams = [runtime.create_stream() for _ in range(2)]
        self.device = runtime.malloc(NBYTES)
        self.pinned = runtime.malloc_host(NBYTES)
        self.sent = pattern(NBYTES, 1).tobytes()
        ctypes.memmove(self.pinned, self.sent, NBYTES)
        sim.poke(self.device, pattern(NBYTES, 2).tobytes())

    def h2d(self, stream: int) -> None:
        self.runtime.memcpy_async(self.device, NBYTES, self.pinned, NBYTES, H2D, stream)

    def arrived(self) -> bool:
        return sim.peek(self.device, NBYTES) == self.sent

    def close(self) -> None:
        for stream in self.streams:
            self.runtime.destroy_stream(stream)
        self.runtime.free(self.device)
        self.runtime.free_host(self.pinned)


@pytest.fixture
def bench(runtime: Runtime) -> Iterator[Bench]:
    made = Bench(runtime)
    yield made
    made.close()


# ---- devices ----


def test_what_a_device_is(runtime: Runtime) -> None:
    assert runtime.device_info(0, DevAttr.TOTAL_GLOBAL_MEM_SIZE) > 0
    assert len(runtime.device_uuid(0)) == 16
    assert runtime.device_at_pci_bus_id(runtime.device_pci_bus_id(0)) == 0
    assert runtime.stream_priority_range() == (7, 0)
    with pytest.raises(AclError) as caught:
        runtime.can_access_peer(0, 0)
    assert caught.value.code == 100000


def test_every_init_counts(runtime: Runtime) -> None:
    assert not runtime.init()
    left = runtime.finalize_reference()
    assert left is not None
    assert left >= 1


def test_the_last_error_is_taken_once(runtime: Runtime) -> None:
    with pytest.raises(AclError) as caught:
        runtime.set_device(9999)
    assert runtime.peek_last_error() == caught.value.code
    assert runtime.take_last_error() == caught.value.code
    assert runtime.take_last_error() == 0


# ---- streams and events ----


def test_what_a_stream_is(bench: Bench) -> None:
    stream = bench.runtime.create_stream(priority=3)
    assert bench.runtime.stream_priority(stream) == 3
    bench.runtime.set_stream_attribute(stream, StreamAttr.USER_CUSTOM_TAG, 77)
    assert bench.runtime.stream_attribute(stream, StreamAttr.USER_CUSTOM_TAG) == 77
    assert bench.runtime.n_streams_available() > 0
    bench.runtime.destroy_stream(stream)


def test_stop_cannot_be_taken_back(runtime: Runtime) -> None:
    before = runtime.get_context()
    assert before is not None
    own = runtime.create_context(0)
    stream = runtime.create_stream()
    runtime.set_stream_failure_mode(stream, FailureMode.STOP_ON_FAILURE)
    with pytest.raises(AclError) as caught:
        runtime.set_stream_failure_mode(stream, FailureMode.CONTINUE_ON_FAILURE)
    assert caught.value.code == 207000
    runtime.destroy_stream(stream)
    runtime.set_context(before)
    runtime.destroy_context(own)


def test_the_old_questions_about_an_event(bench: Bench) -> None:
    event = bench.runtime.create_reusable_event(EventFlag.SYNC)
    bench.runtime.record_event(event, bench.streams[0])
    bench.runtime.synchronize_stream(bench.streams[0])
    assert bench.runtime.old_event_status(event) is EventStatus.COMPLETE
    assert bench.runtime.event_wait_status(event) is EventWaitStatus.COMPLETE
    bench.runtime.reset_event(event, bench.streams[0])
    bench.runtime.synchronize_stream(bench.streams[0])
    bench.runtime.destroy_event(event)


def test_a_notify_orders_two_streams(bench: Bench) -> None:
    first, second = bench.streams
    notify = bench.runtime.create_notify()
    bench.runtime.wait_and_reset_notify(notify, second)
    bench.h2d(second)
    assert not bench.runtime.synchronize_stream(second, timeout_s=0.01)
    assert not bench.arrived()
    bench.runtime.record_notify(notify, first)
    assert bench.runtime.synchronize_stream(second, timeout_s=30)
    assert bench.arrived()
    bench.runtime.destroy_notify(notify)


def test_a_value_in_memory_orders_two_streams(bench: Bench) -> None:
    first, second = bench.streams
    word = bench.runtime.malloc(64)
    bench.runtime.memset(word, 64, 0, 64)
    bench.runtime.value_wait(word, 5, WaitValue.GEQ, second)
    bench.h2d(second)
    assert not bench.runtime.synchronize_stream(second, timeout_s=0.01)
    bench.runtime.value_write(word, 5, first)
    assert bench.runtime.synchronize_stream(second, timeout_s=30)
    assert bench.arrived()
    bench.runtime.free(word)


def test_an_event_handle_is_64_bytes(runtime: Runtime) -> None:
    event = runtime.create_event(EventFlag.IPC)
    assert len(runtime.export_event(event)) == 64
    with pytest.raises(ValueError, match="64 bytes"):
        runtime.open_event(b"short")
    runtime.destroy_event(event)


# ---- callbacks ----


def _reporting(runtime: Runtime) -> tuple[int, Callable[[], None]]:
    """A thread that runs callbacks, and what ends it."""
    stop, started = threading.Event(), threading.Event()
    context = runtime.get_context()
    assert context is not None

    def report() -> None:
        runtime.set_context(context)
        started.set()
        while not stop.is_set():
            with contextlib.suppress(AclError):  # 107012: not subscribed yet, or not any more
                runtime.process_report(timeout_s=0.02)

    thread = threading.Thread(target=report)
    thread.start()
    started.wait()
    assert thread.ident is not None

    def end() -> None:
        stop.set()
        thread.join()

    return thread.ident, end


def test_a_callback_runs_in_the_order_of_its_stream(bench: Bench) -> None:
    stream = bench.streams[0]
    thread, end = _reporting(bench.runtime)
    bench.runtime.subscribe_report(thread, stream)
    seen: list[tuple[bool, int]] = []
    sim.hold_engine(0, "h2d")
    bench.h2d(stream)
    bench.runtime.launch_callback(lambda: seen.append((bench.arrived(), threading.get_ident())), stream)
    assert seen == []
    sim.release_engine(0, "h2d")
    bench.runtime.synchronize_stream(stream)
    assert seen == [(True, thread)]
    with pytest.raises(AclError) as caught:
        bench.runtime.launch_callback(print, bench.streams[1], CallbackBlockType.NO_BLOCK)
    assert caught.value.code == 107015
    bench.runtime.unsubscribe_report(thread, stream)
    end()


def test_a_host_function_runs_without_a_context(bench: Bench) -> None:
    stream = bench.streams[0]
    seen: list[tuple[bool, int | None]] = []
    bench.h2d(stream)
    bench.runtime.launch_host_func(stream, lambda: seen.append((bench.arrived(), bench.runtime.get_device())))
    bench.runtime.synchronize_stream(stream)
    assert seen == [(True, None)]


def test_streams_are_announced(runtime: Runtime) -> None:
    seen: list[tuple[int, StreamState]] = []
    runtime.on_stream_state("test", lambda stream, state: seen.append((stream, state)))
    stream = runtime.create_stream()
    runtime.destroy_stream(stream)
    runtime.on_stream_state("test", None)
    runtime.destroy_stream(runtime.create_stream())
    assert seen == [(stream, StreamState.CREATE_POST), (stream, StreamState.DESTROY_PRE)]


def test_a_failed_copy_is_told_with_its_task(bench: Bench) -> None:
    stream = bench.streams[0]
    seen: list[ExceptionInfo] = []
    bench.runtime.on_exception(seen.append)
    sim.fail_copy(507001, direction="h2d", device=0)
    bench.h2d(stream)
    task_id = bench.runtime.last_task_id()
    with pytest.raises(AclError):
        bench.runtime.synchronize_stream(stream)
    bench.runtime.on_exception(None)
    (info,) = seen
    assert (info.code, info.device, info.task_id) == (507001, 0, task_id)
    assert info.stream_id == bench.runtime.stream_id(stream)
    assert info.thread_id == threading.get_native_id()


# ---- memory and copies ----


def test_other_ways_to_get_memory(runtime: Runtime) -> None:
    made = [
        runtime.malloc_align32(100),
        runtime.malloc_cached(100),
        runtime.malloc_with(100, MallocPolicy.HUGE_FIRST, attributes={MallocAttrType.MODULE_ID: 3}),
    ]
    for address in made:
        assert address
        assert runtime.address_range(address + 7)[0] == address
        runtime.free_after_device(address)
    host = runtime.malloc_host_with(100, attributes={MallocAttrType.VA_FLAG: 1})
    assert ctypes.string_at(host, 1) is not None
    runtime.free_host_after_device(host)


def test_registered_memory_is_page_locked_for_copies(bench: Bench) -> None:
    page = 4096
    memory = ctypes.create_string_buffer(3 * page)
    start = (ctypes.addressof(memory) + page - 1) // page * page
    bench.runtime.register_host(start, page, HostRegFlag.MAPPED)
    with pytest.raises(AclError) as caught:
        bench.runtime.register_host(start, page, HostRegFlag.MAPPED)
    assert caught.value.code == 507910
    bench.runtime.unregister_host(start)
    with pytest.raises(AclError) as caught:
        bench.runtime.unregister_host(start)
    assert caught.value.code == 507911


def test_a_copy_of_rows(bench: Bench) -> None:
    before = sim.peek(bench.device, NBYTES)
    dst, src = Pitched(bench.device, 100), Pitched(bench.pinned, 60)
    bench.runtime.memcpy_2d(dst, src, 33, 7, H2D)
    expected = bytearray(before)
    for row in range(7):
        expected[100 * row : 100 * row + 33] = bench.sent[60 * row : 60 * row + 33]
    assert sim.peek(bench.device, NBYTES) == bytes(expected)
    back = bench.runtime.malloc_host(7 * 33)
    bench.runtime.memcpy_2d_async(Pitched(back, 33), dst, 33, 7, D2H, bench.streams[0])
    bench.runtime.synchronize_stream(bench.streams[0])
    rows = b"".join(bench.sent[60 * row : 60 * row + 33] for row in range(7))
    assert ctypes.string_at(back, 7 * 33) == rows
    bench.runtime.free_host(back)


@pytest.mark.parametrize("queued", [False, True])
def test_a_batch(bench: Bench, queued: bool) -> None:
    copies = [
        BatchCopy(bench.device + at, bench.pinned + at, nbytes, True)
        for at, nbytes in ((0, 64), (128, 31), (1000, 1))
    ]
    before = bytearray(sim.peek(bench.device, NBYTES))
    if queued:
        bench.runtime.memcpy_batch_async(copies, bench.streams[0], device=0)
        bench.runtime.synchronize_stream(bench.streams[0])
    else:
        bench.runtime.memcpy_batch(copies, device=0)
    for one in copies:
        at = one.dst - bench.device
        before[at : at + one.nbytes] = bench.sent[at : at + one.nbytes]
    assert sim.peek(bench.device, NBYTES) == bytes(before)


@pytest.mark.parametrize("queued", [False, True])
def test_a_refused_entry_of_a_batch_is_named(bench: Bench, queued: bool) -> None:
    runtime, (stream, _) = bench.runtime, bench.streams
    before = sim.peek(bench.device, NBYTES)
    wrong = BatchCopy(bench.device + 64, bench.device, 64, True)  # its source is not on the host
    copies = [BatchCopy(bench.device, bench.pinned, 64, True), wrong]
    queue = functools.partial(runtime.memcpy_batch_async, stream=stream)
    submit = queue if queued else runtime.memcpy_batch
    with pytest.raises(AclError, match="entry 1 of the batch") as caught:
        submit(copies, device=0)
    assert caught.value.code == 107000
    runtime.synchronize_stream(stream)
    assert sim.peek(bench.device, NBYTES)[64:] == before[64:]


def test_a_fill_with_words(bench: Bench) -> None:
    before = sim.peek(bench.device, NBYTES)
    bench.runtime.memset32(bench.device, NBYTES, 0x01020304, 3)
    assert sim.peek(bench.device, NBYTES) == b"\x04\x03\x02\x01" * 3 + before[12:]


def test_copies_whose_addresses_are_read_late(bench: Bench) -> None:
    runtime, stream = bench.runtime, bench.streams[0]
    kind = MemcpyKind.INNER_DEVICE_TO_DEVICE
    source = runtime.malloc(NBYTES)
    sim.poke(source, bench.sent)
    desc = runtime.malloc(max(64, runtime.memcpy_desc_nbytes(kind)))
    runtime.set_memcpy_desc(desc, source, bench.device, NBYTES, kind)
    runtime.memcpy_async_with_desc(desc, stream, kind)
    runtime.synchronize_stream(stream)
    assert bench.arrived()
    slots = runtime.malloc(64)  # holds the two base addresses
    sim.poke(slots, struct.pack("QQ", bench.device, source))
    sim.poke(source, pattern(NBYTES, 3).tobytes())
    runtime.memcpy_async_indirect(slots, NBYTES, 5, slots + 8, 20, 7, kind, stream)
    runtime.synchronize_stream(stream)
    new = pattern(NBYTES, 3).tobytes()[7:27]
    assert sim.peek(bench.device, NBYTES) == bench.sent[:5] + new + bench.sent[25:]
    for address in (source, desc, slots):
        runtime.free(address)
