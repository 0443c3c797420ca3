"""npu_xfer.acl speaks as pyACL does: ints in, codes out. Every copy's bytes are compared."""

from __future__ import annotations

import ctypes
import errno
import inspect
import threading
import typing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fake_library import MEMORY, FakeLibrary
from support import pattern

import npu_xfer.acl as acl
from npu_xfer import sim
from npu_xfer._cann.calls import callbacks
from npu_xfer.acl import _call
from npu_xfer.errors import LibraryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sim_control

H2H, H2D, D2H = 0, 1, 2
HUGE_FIRST = 0
NBYTES = 4099  # odd on purpose

# Calls of pyACL that return no code.
NO_RET = {
    "get_device_id_from_exception_info",
    "get_error_code_from_exception_info",
    "get_stream_id_from_exception_info",
    "get_task_id_from_exception_info",
    "get_thread_id_from_exception_info",
}


# ---- names and conventions, on a library that does nothing ----


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    library = FakeLibrary()
    monkeypatch.setattr(_call, "located_library", lambda: SimpleNamespace(library=library))
    return library


def _sample(parameter: inspect.Parameter) -> Any:
    text = str(parameter.annotation)
    if "Callable" in text:
        return print
    if text.startswith("list"):
        return [{"addr": 64, "len": 32}]
    if parameter.name == "cfg":
        return {"attrs": [{"attr": 1, "value": {"moduleId": 7}}], "numAttrs": 1}
    if text.startswith("dict"):
        return {"failureMode": 1, "reserved": [1, 2, 3, 4]}
    if parameter.name == "array_size":
        return 2
    is_address = any(word in parameter.name for word in ("ptr", "addr", "dst", "src", "desc", "dest"))
    return ctypes.addressof(MEMORY) if is_address else 1


def test_the_code_comes_last(fake: FakeLibrary) -> None:
    fake.default_code = 107999
    assert len(acl.rt.__all__) > 100
    for n_calls, name in enumerate(acl.rt.__all__, 1):
        function = getattr(acl.rt, name)
        parts = typing.get_args(eval(function.__annotations__["return"], {"Any": Any}))
        answer = function(*map(_sample, inspect.signature(function).parameters.values()))
        assert len(fake.called) == n_calls, name
        assert inspect.getdoc(function), name
        if name in NO_RET:
            assert isinstance(answer, int), name
        elif parts:
            assert isinstance(answer, tuple), name
            assert (len(answer), answer[-1]) == (len(parts), 107999), name
        else:
            assert answer == 107999, name
    assert callbacks._waiting == {}


def test_arguments_that_pyacl_orders_otherwise_than_acl(fake: FakeLibrary) -> None:
    acl.rt.device_can_access_peer(2, 3)
    assert fake.arguments[-1][1:] == (2, 3)
    acl.rt.event_elapsed_time(64, 128)
    assert fake.arguments[-1][1:] == (64, 128)
    acl.rt.host_get_device_pointer(64, 5)
    assert (fake.arguments[-1][0], fake.arguments[-1][2]) == (64, 5)
    acl.rt.set_memcpy_desc(64, 6, 128, 256, 7, 0)
    assert fake.arguments[-1][:5] == (64, 6, 128, 256, 7)


def test_a_library_without_the_call(fake: FakeLibrary) -> None:
    fake.lacks = frozenset({"aclrtStreamAbort"})
    with pytest.raises(LibraryError, match="aclrtStreamAbort"):
        acl.rt.stream_abort(64)


@pytest.mark.parametrize("wrong", [None, 1.5])
def test_only_ints_are_handles_and_addresses(fake: FakeLibrary, wrong: Any) -> None:
    with pytest.raises(TypeError):
        acl.rt.synchronize_stream(wrong)
    with pytest.raises(TypeError):
        acl.rt.memcpy(wrong, 1, 64, 1, H2D)
    assert fake.called == []


def test_integers_of_numpy_count_as_ints(fake: FakeLibrary) -> None:
    acl.rt.memcpy(np.int64(64), np.uint32(3), np.uint64(128), np.int32(3), H2D)
    assert fake.arguments[-1] == (64, 3, 128, 3, 1)
    acl.rt.malloc(np.prod((2, 3)), HUGE_FIRST)  # type: ignore[arg-type]  # what programs write
    acl.rt.malloc_host_with_cfg(np.prod((2, 3)), {})  # type: ignore[arg-type]  # the same
    assert fake.called == ["aclrtMemcpy", "aclrtMalloc", "aclrtMallocHostWithCfg"]


def test_config_dictionaries_must_agree(fake: FakeLibrary) -> None:
    with pytest.raises(KeyError, match="numAttrs"):
        acl.rt.malloc_with_cfg(64, 0, {"attrs": [], "numAttrs": 1})


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("mdl", "load_from_file"),
        ("op", "execute_v2"),
        ("media", "dvpp_create_channel"),
        ("rt", "launch_kernel"),
        ("util", "vector_to_ptr"),
        (None, "create_data_buffer"),
    ],
)
def test_what_is_not_part_is_named(group: str | None, name: str) -> None:
    owner = acl if group is None else getattr(acl, group)
    full = f"acl.{name}" if group is None else f"acl.{group}.{name}"
    with pytest.raises(NotImplementedError, match=full):
        getattr(owner, name)
    assert not hasattr(owner, name)


def test_python_can_look_at_the_modules() -> None:
    assert "bytes_to_ptr" in dir(acl.util)
    assert "memcpy_async" in dir(acl.rt)
    for owner in (acl, acl.rt, acl.util, acl.media, acl.mdl):
        with pytest.raises(AttributeError):
            getattr(owner, "__nothing__")  # noqa: B009  # as Python's own probes do


# ---- memory and streams, on the simulator ----


@pytest.fixture
def device() -> Iterator[int]:
    """Device 0, current on this thread."""
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    initialised = acl.init()
    assert initialised in (0, 100002)
    assert acl.rt.set_device(0) == 0
    yield 0
    assert acl.rt.reset_device(0) == 0
    if initialised == 0:
        assert acl.finalize() == 0


class Buffers:
    """A stream, device memory and page-locked memory of the same size."""

    def __init__(self) -> None:
        self.stream, ret = acl.rt.create_stream()
        assert ret == 0
        self.dev, ret = acl.rt.malloc(NBYTES, HUGE_FIRST)
        assert ret == 0
        self.host, ret = acl.rt.malloc_host(NBYTES)
        assert ret == 0

    def close(self) -> None:
        assert acl.rt.destroy_stream(self.stream) == 0
        assert acl.rt.free(self.dev) == 0
        assert acl.rt.free_host(self.host) == 0

    def fill_host(self, seed: int) -> bytes:
        data = pattern(NBYTES, seed).tobytes()
        ctypes.memmove(self.host, data, NBYTES)
        return data


@pytest.fixture
def buffers(device: int) -> Iterator[Buffers]:
    made = Buffers()
    yield made
    made.close()


def test_device_and_context(device: int) -> None:
    assert acl.rt.get_device() == (0, 0)
    count, ret = acl.rt.get_device_count()
    assert (count >= 1, ret) == (True, 0)
    assert acl.rt.get_run_mode() == (1, 0)
    first, ret = acl.rt.get_context()
    assert (bool(first), ret) == (True, 0)
    made, ret = acl.rt.create_context(0)
    assert ret == 0
    assert acl.rt.get_context() == (made, 0)
    assert acl.rt.set_context(first) == 0
    assert acl.rt.destroy_context(made) == 0
    soc = acl.get_soc_name()
    assert soc is not None
    assert soc.startswith("Ascend")


def test_a_copy_there_and_back(buffers: Buffers) -> None:
    sent = pattern(NBYTES, 1).tobytes()
    assert acl.rt.memcpy(buffers.dev, NBYTES, acl.util.bytes_to_ptr(sent), NBYTES, H2D) == 0
    assert sim.peek(buffers.dev, NBYTES) == sent
    received = bytes(bytearray(NBYTES))
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(received), NBYTES, buffers.dev, NBYTES, D2H) == 0
    assert received == sent


def test_queued_copies_run_in_order(buffers: Buffers) -> None:
    sent = buffers.fill_host(2)
    sim.hold_engine(0, "h2d")
    assert acl.rt.memcpy_async(buffers.dev, NBYTES, buffers.host, NBYTES, H2D, buffers.stream) == 0
    assert acl.rt.stream_query(buffers.stream) == (1, 0)
    assert acl.rt.synchronize_stream_with_timeout(buffers.stream, 1) == 507046
    sim.release_engine(0, "h2d")
    assert acl.rt.synchronize_stream(buffers.stream) == 0
    assert acl.rt.stream_query(buffers.stream) == (0, 0)
    buffers.fill_host(3)
    assert acl.rt.memcpy_async(buffers.host, NBYTES, buffers.dev, NBYTES, D2H, buffers.stream) == 0
    assert acl.rt.synchronize_stream(buffers.stream) == 0
    assert acl.util.ptr_to_bytes(buffers.host, NBYTES) == sent


def test_fills(buffers: Buffers) -> None:
    assert acl.rt.memset(buffers.dev, NBYTES, 7, NBYTES) == 0
    assert sim.peek(buffers.dev, NBYTES) == b"\x07" * NBYTES
    assert acl.rt.memset_async(buffers.dev, NBYTES, 9, 100, buffers.stream) == 0
    assert acl.rt.synchronize_stream(buffers.stream) == 0
    assert sim.peek(buffers.dev, NBYTES) == b"\x09" * 100 + b"\x07" * (NBYTES - 100)


def test_memory_of_the_media_group_is_for_copies(buffers: Buffers) -> None:
    there, ret = acl.media.dvpp_malloc(NBYTES)
    assert ret == 0
    sent = buffers.fill_host(8)
    assert acl.rt.memcpy(there, NBYTES, buffers.host, NBYTES, H2D) == 0
    assert sim.peek(there, NBYTES) == sent
    assert acl.media.dvpp_free(there) == 0


def test_events_order_two_streams(buffers: Buffers) -> None:
    other, ret = acl.rt.create_stream()
    assert ret == 0
    event, ret = acl.rt.create_event()
    assert ret == 0
    sent = buffers.fill_host(4)
    sim.hold_engine(0, "h2d")
    assert acl.rt.memcpy_async(buffers.dev, NBYTES, buffers.host, NBYTES, H2D, buffers.stream) == 0
    assert acl.rt.record_event(event, buffers.stream) == 0
    assert acl.rt.stream_wait_event(other, event) == 0
    back, ret = acl.rt.malloc_host(NBYTES)
    assert ret == 0
    assert acl.rt.memcpy_async(back, NBYTES, buffers.dev, NBYTES, D2H, other) == 0
    assert acl.rt.query_event_status(event) == (0, 0)
    sim.release_engine(0, "h2d")
    assert acl.rt.synchronize_stream(other) == 0
    assert acl.rt.query_event_status(event) == (1, 0)
    assert acl.rt.synchronize_event(event) == 0
    assert acl.util.ptr_to_bytes(back, NBYTES) == sent
    assert acl.rt.free_host(back) == 0
    assert acl.rt.destroy_event(event) == 0
    assert acl.rt.destroy_stream(other) == 0


def test_elapsed_time_is_a_float(buffers: Buffers) -> None:
    events = []
    for _ in range(2):
        event, ret = acl.rt.create_event_with_flag(0x1 | 0x8)
        assert ret == 0
        assert acl.rt.record_event(event, buffers.stream) == 0
        events.append(event)
    assert acl.rt.synchronize_stream(buffers.stream) == 0
    ms, ret = acl.rt.event_elapsed_time(events[0], events[1])
    assert ret == 0
    assert isinstance(ms, float)
    assert ms >= 0
    for event in events:
        assert acl.rt.destroy_event(event) == 0


def test_errors_are_codes_with_a_text(buffers: Buffers) -> None:
    assert acl.rt.malloc(0, HUGE_FIRST) == (0, 100000)
    assert acl.rt.memcpy_async(buffers.dev, 4, buffers.host, 8, H2D, buffers.stream) == 107000
    text = acl.get_recent_err_msg()
    assert text is not None
    assert "EE1003" in text
    assert acl.get_recent_err_msg() is None
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(acl.rt.get_device()[-1]))
    thread.start()
    thread.join()
    assert found == [107002]


def test_memory_of_the_device(buffers: Buffers) -> None:
    free, total, ret = acl.rt.get_mem_info(1)
    assert ret == 0
    assert 0 < free <= total
    attributes, ret = acl.rt.pointer_get_attributes(buffers.dev)
    assert ret == 0
    assert attributes["location"] == {"id": 0, "type": 1}
    assert set(attributes) == {"location", "page_size", "rsv"}


def test_a_failed_copy_calls_the_exception_callback(buffers: Buffers) -> None:
    seen: list[tuple[int, int, int]] = []

    def failed(info: int) -> None:
        seen.append(
            (
                acl.rt.get_error_code_from_exception_info(info),
                acl.rt.get_stream_id_from_exception_info(info),
                acl.rt.get_device_id_from_exception_info(info),
            )
        )

    assert acl.rt.set_exception_info_callback(failed) == 0
    stream_id, ret = acl.rt.stream_get_id(buffers.stream)
    assert ret == 0
    sim.fail_copy(507001, direction="h2d", device=0)
    buffers.fill_host(5)
    assert acl.rt.memcpy_async(buffers.dev, NBYTES, buffers.host, NBYTES, H2D, buffers.stream) == 0
    assert acl.rt.synchronize_stream(buffers.stream) == 507001
    assert acl.rt.synchronize_stream(buffers.stream) == 0
    assert acl.rt.set_exception_info_callback(None) == 0
    assert seen == [(507001, stream_id, 0)]


# ---- callbacks ----


def test_the_report_thread_runs_callbacks_in_stream_order(buffers: Buffers) -> None:
    stop, seen = threading.Event(), []

    def report(args: list[Any]) -> None:
        context, timeout = args
        assert acl.rt.set_context(context) == 0
        while not stop.is_set():
            acl.rt.process_report(timeout)

    context, ret = acl.rt.get_context()
    assert ret == 0
    tid, ret = acl.util.start_thread(report, [context, 20])
    assert ret == 0
    assert acl.rt.subscribe_report(tid, buffers.stream) == 0
    sent = buffers.fill_host(6)

    def arrived(args: list[Any]) -> None:
        seen.append((args[0], threading.get_ident(), sim.peek(buffers.dev, NBYTES) == sent))

    sim.hold_engine(0, "h2d")
    assert acl.rt.memcpy_async(buffers.dev, NBYTES, buffers.host, NBYTES, H2D, buffers.stream) == 0
    assert acl.rt.launch_callback(arrived, ["first"], 1, buffers.stream) == 0
    assert acl.rt.launch_callback(arrived, ["second"], 1, buffers.stream) == 0
    assert seen == []
    sim.release_engine(0, "h2d")
    assert acl.rt.synchronize_stream(buffers.stream) == 0
    assert seen == [("first", tid, True), ("second", tid, True)]
    assert callbacks._waiting == {}
    assert acl.rt.unsubscribe_report(tid, buffers.stream) == 0
    stop.set()
    assert acl.util.stop_thread(tid) == 0


def test_a_callback_without_a_subscribed_thread_is_refused(buffers: Buffers) -> None:
    assert acl.rt.launch_callback(print, [], 0, buffers.stream) == 107015
    assert callbacks._waiting == {}
    assert acl.rt.process_report(5) == 107012


@pytest.mark.parametrize(
    "call", [acl.rt.set_exception_info_callback, lambda fn: acl.util.start_thread(fn, [])]
)
def test_callbacks_must_be_callable(call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        call(7)


# ---- util ----


def test_a_thread_gets_the_list_and_is_joined() -> None:
    seen: list[Any] = []
    args = ["a", 2]
    tid, ret = acl.util.start_thread(lambda given: seen.append((given is args, threading.get_ident())), args)
    assert ret == 0
    assert acl.util.stop_thread(tid) == 0
    assert seen == [(True, tid)]
    assert acl.util.stop_thread(tid) == errno.ESRCH


def test_threads_keep_their_numbers_until_they_are_stopped() -> None:
    made = [acl.util.start_thread(lambda: None, None)[0] for _ in range(8)]
    assert len(set(made)) == 8
    assert [acl.util.stop_thread(tid) for tid in made] == [0] * 8


def test_a_thread_that_raised(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(args: list[Any]) -> None:
        raise ValueError("told")

    tid, _ = acl.util.start_thread(fails, [])
    with pytest.raises(RuntimeError, match="exception=ValueError"):
        acl.util.stop_thread(tid)
    assert "told" in capsys.readouterr().err


def test_bytes_and_addresses() -> None:
    data = pattern(301).tobytes()
    ptr = acl.util.bytes_to_ptr(data)
    assert acl.util.ptr_to_bytes(ptr, 301) == data
    with pytest.raises(ValueError, match="bytes"):
        acl.util.bytes_to_ptr(bytearray(3))  # type: ignore[arg-type]  # the point


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.float64, np.int64, np.float16])
def test_arrays_and_addresses(dtype: Any) -> None:
    array = np.arange(24).astype(dtype).reshape(2, 3, 4)
    ptr = acl.util.numpy_to_ptr(array)
    view = acl.util.ptr_to_numpy(ptr, (2, 3, 4), array.dtype.num)
    assert view.dtype == array.dtype
    assert (view == array).all()
    view[1, 2, 3] = 100
    assert array[1, 2, 3] == 100


def test_arrays_with_gaps() -> None:
    array = np.arange(20, dtype=np.int32)[::2]
    with pytest.warns(UserWarning, match="contiguous"):
        acl.util.numpy_to_ptr(array)
    ptr, whole = acl.util.numpy_contiguous_to_ptr(array)
    assert acl.util.ptr_to_bytes(ptr, whole.nbytes) == array.tobytes()
    with pytest.raises(ValueError, match="type number"):
        acl.util.ptr_to_numpy(ptr, (1,), 9999)
