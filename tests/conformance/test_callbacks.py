"""Callbacks on a stream: in the reporting thread of the program, or in one of the runtime."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, cites
from conformance.support.codes import (
    ACL_PARAM,
    NO_CALLBACK,
    NO_CONTEXT,
    OK,
    PARAM,
    REPORT_TIMEOUT,
    STREAM_SUBSCRIBE,
    STREAM_TIMEOUT,
    THREAD_SUBSCRIBE,
    UNSUPPORTED,
)
from conformance.support.fresh import fresh
from conformance.support.kit import H2D, Kit, content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.support.face import Acl
    from conformance.support.threads import Side

P = ctypes.c_void_p
CALLBACK = ctypes.CFUNCTYPE(None, P)
NO_BLOCK, BLOCK = 0, 1
NOTHING = CALLBACK(lambda _: None)


class Reporter:
    """A stream whose callbacks run in the second thread."""

    def __init__(self, kit: Kit, side: Side) -> None:
        self.kit, self.side = kit, side
        self.stream = kit.stream()
        self.thread: int = side.run(threading.get_ident)  # is pthread_self
        self.seen: list[tuple[int, int]] = []
        self.callback = CALLBACK(lambda data: self.seen.append((threading.get_ident(), data or 0)))

    def subscribe(self) -> int:
        code: int = self.kit.acl.aclrtSubscribeReport(self.thread, self.stream)
        return code

    def unsubscribe(self) -> int:
        code: int = self.kit.acl.aclrtUnSubscribeReport(self.thread, self.stream)
        return code

    def launch(self, data: int, block: int) -> int:
        code: int = self.kit.acl.aclrtLaunchCallback(self.callback, data, block, self.stream)
        return code

    def process(self, timeout_ms: int = 5000) -> int:
        code: int = self.side.run(lambda: self.kit.acl.aclrtProcessReport(timeout_ms))
        return code

    def drain(self, n: int) -> None:
        """Processes until n callbacks have run; one call takes all that are pending."""
        while len(self.seen) < n:
            assert self.process() == OK


@pytest.fixture
def reporter(kit: Kit, side: Side) -> Iterator[Reporter]:
    made = Reporter(kit, side)
    assert made.subscribe() == OK
    yield made
    made.unsubscribe()


@cites("The callback runs in the thread that processes reports, with its data", OBSERVED)
@pytest.mark.parametrize("block", [NO_BLOCK, BLOCK])
def test_where_a_callback_runs(reporter: Reporter, block: int) -> None:
    assert reporter.launch(77, block) == OK
    reporter.drain(1)
    assert reporter.seen == [(reporter.thread, 77)]
    assert reporter.kit.sync(reporter.stream) == OK


@cites("Callbacks of one stream run in order; one call runs all that are pending", OBSERVED)
def test_pending_callbacks(reporter: Reporter) -> None:
    for n in range(1, 6):
        assert reporter.launch(n, NO_BLOCK) == OK
    assert reporter.kit.sync(reporter.stream) == OK
    reporter.drain(5)
    assert [data for _, data in reporter.seen] == [1, 2, 3, 4, 5]
    assert reporter.process(1) == REPORT_TIMEOUT


@cites("Synchronising a stream does not wait for a callback that does not block", OBSERVED)
def test_no_block(reporter: Reporter) -> None:
    kit, source, target = reporter.kit, reporter.kit.pinned(4096, seed=1), reporter.kit.device(4096)
    assert reporter.launch(1, NO_BLOCK) == OK
    assert kit.copy(target, source, H2D, reporter.stream) == OK
    assert kit.sync(reporter.stream) == OK
    assert reporter.seen == []
    assert kit.read(target) == content(4096, 1)
    reporter.drain(1)


@cites("A callback that blocks holds its stream until it has returned", OBSERVED)
def test_block(reporter: Reporter) -> None:
    kit, source, target = reporter.kit, reporter.kit.pinned(4096, seed=1), reporter.kit.device(4096)
    assert reporter.launch(1, BLOCK) == OK
    assert kit.copy(target, source, H2D, reporter.stream) == OK
    assert kit.sync(reporter.stream, 20) == STREAM_TIMEOUT
    assert kit.read(target) == bytes(4096)
    reporter.drain(1)
    assert kit.sync(reporter.stream) == OK
    assert kit.read(target) == content(4096, 1)


@cites("Without a report in time aclrtProcessReport is 507012", OBSERVED)
def test_nothing_to_report(reporter: Reporter) -> None:
    assert reporter.process(1) == REPORT_TIMEOUT


@cites("Limits are -1 or above 0 ms, else 100000", OBSERVED)
@pytest.mark.parametrize("timeout_ms", [0, -2])
def test_limits(kit: Kit, timeout_ms: int) -> None:
    assert kit.acl.aclrtProcessReport(timeout_ms) == ACL_PARAM


@cites("A thread without a stream has no reports: 107012 at once", OBSERVED)
def test_a_thread_without_streams(kit: Kit) -> None:
    assert kit.acl.aclrtProcessReport(1000) == THREAD_SUBSCRIBE


@cites("After unsubscribing, the thread has no reports and the stream takes no callback", OBSERVED)
def test_after_unsubscribing(kit: Kit, side: Side) -> None:
    reporter = Reporter(kit, side)
    assert [reporter.subscribe(), reporter.unsubscribe()] == [OK, OK]
    assert reporter.process(1000) == THREAD_SUBSCRIBE
    assert reporter.launch(1, BLOCK) == NO_CALLBACK


@cites("A stream is subscribed once and unsubscribed once: 107011", OBSERVED)
def test_subscribe_twice(kit: Kit, side: Side) -> None:
    reporter = Reporter(kit, side)
    assert [reporter.subscribe(), reporter.subscribe()] == [OK, STREAM_SUBSCRIBE]
    assert [reporter.unsubscribe(), reporter.unsubscribe()] == [OK, STREAM_SUBSCRIBE]


@cites("Unsubscribing for a thread that is not known is 107012", OBSERVED)
def test_unsubscribe_unknown(reporter: Reporter) -> None:
    assert reporter.kit.acl.aclrtUnSubscribeReport(0x1234, reporter.stream) == THREAD_SUBSCRIBE


@cites("The thread number is not validated", OBSERVED)
def test_any_thread_number(kit: Kit) -> None:
    stream = kit.stream()
    assert kit.acl.aclrtSubscribeReport(0, stream) == OK
    assert kit.acl.aclrtUnSubscribeReport(0, stream) == OK


@cites("One thread serves several streams of a device", "aclrtSubscribeReport docs, CANN 9.1")
def test_several_streams(reporter: Reporter) -> None:
    kit, other = reporter.kit, reporter.kit.stream()
    assert kit.acl.aclrtSubscribeReport(reporter.thread, other) == OK
    assert reporter.launch(1, NO_BLOCK) == OK
    assert kit.acl.aclrtLaunchCallback(reporter.callback, 2, NO_BLOCK, other) == OK
    reporter.drain(2)
    assert {data for _, data in reporter.seen} == {1, 2}
    assert kit.acl.aclrtUnSubscribeReport(reporter.thread, other) == OK


LAUNCHES: dict[str, tuple[Callable[[Kit, int], int], int]] = {
    "null": (lambda kit, s: kit.acl.aclrtLaunchCallback(None, None, BLOCK, s), PARAM),
    "type 2": (lambda kit, s: kit.acl.aclrtLaunchCallback(NOTHING, None, 2, s), ACL_PARAM),
    "not subscribed": (
        lambda kit, s: kit.acl.aclrtLaunchCallback(NOTHING, None, BLOCK, kit.stream()),
        NO_CALLBACK,
    ),
}


@cites("A null function is 107000, an unknown type 100000, a stream without thread 107015", OBSERVED)
@pytest.mark.parametrize("case", LAUNCHES)
def test_refused_launches(reporter: Reporter, case: str) -> None:
    call, code = LAUNCHES[case]
    assert call(reporter.kit, reporter.stream) == code


def two_devices(acl: Acl) -> list[int]:
    count = acl.out(ctypes.c_uint32, "aclrtGetDeviceCount")
    if count < 2:
        pytest.skip("needs two devices")
    codes = []
    for device in (0, 1):
        acl.aclrtSetDevice(device)
        codes.append(acl.aclrtSubscribeReport(threading.get_ident(), acl.out(P, "aclrtCreateStream")))
    return codes


@cites("One thread cannot serve streams of two devices: 107012", "aclrtSubscribeReport docs, CANN 9.1")
def test_streams_of_two_devices() -> None:
    assert fresh(two_devices, environ={"ACLSIM_DEVICES": "2"}) == [OK, THREAD_SUBSCRIBE]


# ---- host functions ----


@cites("A host function runs in stream order, in a thread of the runtime, and blocks the stream", OBSERVED)
def test_host_function(kit: Kit) -> None:
    stream, source, first, second = kit.stream(), kit.pinned(4096, seed=1), kit.device(4096), kit.device(4096)
    seen: list[tuple[int, int | None, bytes, bytes]] = []

    def look(data: int | None) -> None:
        # Only host work here: a synchronous copy would need a context.
        seen.append((threading.get_ident(), data, ctypes.string_at(down.address, 4096), kit.read(source)))

    down, function = kit.pinned(4096), CALLBACK(look)
    assert kit.copy(first, source, H2D, stream) == OK
    assert kit.copy(down, first, 2, stream) == OK
    assert kit.acl.aclrtLaunchHostFunc(stream, function, 99) == OK
    assert kit.copy(second, source, H2D, stream) == OK
    assert kit.sync(stream) == OK
    assert len(seen) == 1
    thread, data, downloaded, _ = seen[0]
    assert thread != threading.get_ident()
    assert data == 99
    assert downloaded == content(4096, 1)
    assert kit.read(second) == content(4096, 1)


@cites("In a host function there is no current context, while asking for an event works", OBSERVED)
def test_host_functions_have_no_context(kit: Kit) -> None:
    stream, event = kit.stream(), kit.event()
    codes: list[int] = []

    def ask(_: int | None) -> None:
        codes.append(kit.acl.aclrtGetCurrentContext(ctypes.byref(P())))
        codes.append(kit.acl.aclrtMallocHost(ctypes.byref(P()), 64))
        codes.append(kit.acl.aclrtRecordEvent(event, stream))
        codes.append(kit.acl.aclrtQueryEventStatus(event, ctypes.byref(ctypes.c_int())))

    function = CALLBACK(ask)
    assert kit.acl.aclrtLaunchHostFunc(stream, function, None) == OK
    assert kit.sync(stream) == OK
    assert codes == [NO_CONTEXT, NO_CONTEXT, NO_CONTEXT, OK]


@cites("A stream takes either reports or host functions: 107011", OBSERVED)
def test_reports_exclude_host_functions(reporter: Reporter) -> None:
    assert reporter.kit.acl.aclrtLaunchHostFunc(reporter.stream, NOTHING, None) == STREAM_SUBSCRIBE


@cites("A stream takes either host functions or reports: 107011", OBSERVED)
def test_host_functions_exclude_reports(kit: Kit) -> None:
    stream = kit.stream()
    assert kit.acl.aclrtLaunchHostFunc(stream, NOTHING, None) == OK
    assert kit.sync(stream) == OK
    assert kit.acl.aclrtSubscribeReport(threading.get_ident(), stream) == STREAM_SUBSCRIBE
    assert kit.acl.aclrtUnSubscribeReport(threading.get_ident(), stream) == STREAM_SUBSCRIBE
    assert kit.acl.aclrtLaunchCallback(NOTHING, None, BLOCK, stream) == STREAM_SUBSCRIBE


@cites("A null host function is 107000", "aclrtLaunchHostFunc of the open runtime, CANN 9.2")
def test_null_host_function(kit: Kit) -> None:
    assert kit.acl.aclrtLaunchHostFunc(kit.stream(), None, None) == PARAM


# ---- notifies ----


@cites(
    "A stream that waits for a notify stands until it is recorded; the wait resets it",
    "notify docs, CANN 9.1",
)
def test_notify(kit: Kit) -> None:
    waiting, other, notify = kit.stream(), kit.stream(), kit.acl.out(P, "aclrtCreateNotify", 0)
    source, target = kit.pinned(4096, seed=1), kit.device(4096)
    assert kit.acl.aclrtWaitAndResetNotify(notify, waiting, 0) == OK
    assert kit.copy(target, source, H2D, waiting) == OK
    assert kit.sync(waiting, 20) == STREAM_TIMEOUT
    assert kit.acl.aclrtRecordNotify(notify, other) == OK
    assert kit.sync(waiting) == OK
    assert kit.read(target) == content(4096, 1)
    assert kit.acl.aclrtWaitAndResetNotify(notify, waiting, 0) == OK
    assert kit.sync(waiting, 20) == STREAM_TIMEOUT
    assert kit.acl.aclrtRecordNotify(notify, other) == OK
    assert kit.sync(waiting) == OK
    assert kit.acl.aclrtDestroyNotify(notify) == OK


@cites("A notify recorded before the wait lets it pass", "aclrtWaitAndResetNotify docs, CANN 9.1")
def test_notify_recorded_first(kit: Kit) -> None:
    stream, notify = kit.stream(), kit.acl.out(P, "aclrtCreateNotify", 0)
    assert kit.acl.aclrtRecordNotify(notify, stream) == OK
    assert kit.acl.aclrtWaitAndResetNotify(notify, stream, 0) == OK
    assert kit.sync(stream) == OK
    assert kit.acl.aclrtDestroyNotify(notify) == OK


@cites("Notifies have different ids", "aclrtGetNotifyId docs, CANN 9.1")
def test_notify_ids(kit: Kit) -> None:
    notifies = [kit.acl.out(P, "aclrtCreateNotify", 0) for _ in range(4)]
    ids = [kit.acl.out_last(ctypes.c_uint32, "aclrtGetNotifyId", notify) for notify in notifies]
    assert len(set(ids)) == 4
    assert [kit.acl.aclrtDestroyNotify(notify) for notify in notifies] == [OK] * 4


NOTIFY_NULLS: dict[str, tuple[Callable[[Kit], int], int]] = {
    "create": (lambda kit: kit.acl.aclrtCreateNotify(None, 0), ACL_PARAM),
    "destroy": (lambda kit: kit.acl.aclrtDestroyNotify(None), ACL_PARAM),
    "record": (lambda kit: kit.acl.aclrtRecordNotify(None, None), ACL_PARAM),
    "wait": (lambda kit: kit.acl.aclrtWaitAndResetNotify(None, None, 0), ACL_PARAM),
    "id": (lambda kit: kit.acl.aclrtGetNotifyId(None, ctypes.byref(ctypes.c_uint32())), ACL_PARAM),
    "flag": (lambda kit: kit.acl.aclrtCreateNotify(ctypes.byref(P()), 0x100), PARAM),
}


@cites("Null notifies are 100000, unknown flags 107000", "notifies of the open runtime, CANN 9.2")
@pytest.mark.parametrize("case", NOTIFY_NULLS)
def test_notify_refusals(kit: Kit, case: str) -> None:
    call, code = NOTIFY_NULLS[case]
    assert call(kit) == code


# ---- values ----

HAVE_VALUES = ("a2", "a3", "950")
GEQ, EQ, AND, NOR = range(4)


def word(kit: Kit, value: int) -> int:
    """Address of a device word with a value."""
    block = kit.device(64)
    kit.write(block, value.to_bytes(8, "little") + bytes(56))
    return block.address


WAITS = [
    (GEQ, 5, 5, 4),
    (GEQ, 5, 9, 4),
    (EQ, 5, 5, 6),
    (AND, 0b110, 0b010, 0b001),
    (NOR, 2**64 - 2, 0, 1),
]


@cites(
    "A wait for a device word passes when the comparison holds, and stands until then", "value docs, CANN 9.1"
)
@pytest.mark.parametrize(("flag", "operand", "good", "bad"), WAITS)
def test_values(kit: Kit, flag: int, operand: int, good: int, bad: int) -> None:
    if kit.profile.chip not in HAVE_VALUES:
        assert kit.acl.aclrtValueWait(word(kit, bad), operand, flag, None) == UNSUPPORTED
        assert kit.acl.aclrtValueWrite(word(kit, bad), 0, 0, None) == UNSUPPORTED
        return
    waiting, writing, address = kit.stream(), kit.stream(), word(kit, bad)
    assert kit.acl.aclrtValueWait(address, operand, flag, waiting) == OK
    assert kit.sync(waiting, 20) == STREAM_TIMEOUT
    assert kit.acl.aclrtValueWrite(address, good, 0, writing) == OK
    assert kit.sync(writing) == OK
    assert kit.sync(waiting) == OK
    block = next(block for block in kit.blocks if block.address == address)
    assert kit.read(block)[:8] == good.to_bytes(8, "little")


VALUE_REFUSALS: dict[str, tuple[Callable[[Kit], int], int]] = {
    "write null": (lambda kit: kit.acl.aclrtValueWrite(None, 0, 0, None), ACL_PARAM),
    "wait null": (lambda kit: kit.acl.aclrtValueWait(None, 0, 0, None), ACL_PARAM),
    "write flag": (lambda kit: kit.acl.aclrtValueWrite(word(kit, 0), 0, 1, None), PARAM),
    "wait flag": (lambda kit: kit.acl.aclrtValueWait(word(kit, 0), 0, 4, None), PARAM),
    "write host": (lambda kit: kit.acl.aclrtValueWrite(kit.pinned(64).address, 0, 0, None), PARAM),
    "wait host": (lambda kit: kit.acl.aclrtValueWait(kit.pinned(64).address, 0, 0, None), PARAM),
    "write pageable": (lambda kit: kit.acl.aclrtValueWrite(kit.pageable(64).address, 0, 0, None), PARAM),
}


@cites("Null is 100000; other flags and other than device memory are 107000", "the open runtime, CANN 9.2")
@pytest.mark.chips(*HAVE_VALUES)
@pytest.mark.forms("ep")
@pytest.mark.parametrize("case", VALUE_REFUSALS)
def test_value_refusals(kit: Kit, case: str) -> None:
    call, code = VALUE_REFUSALS[case]
    assert call(kit) == code
