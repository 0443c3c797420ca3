"""Events: the three ways to make one, and what each call answers in each state."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, cites, needs_control, since
from conformance.support.codes import (
    ACL_PARAM,
    EVENT_TIMEOUT,
    INTERNAL,
    OK,
    PARAM,
    STALE,
    STREAM_TIMEOUT,
    UNSUPPORTED,
    WRONG_CONTEXT,
)
from conformance.support.kit import H2D, SYNC, TIME_LINE, WAIT_MS, Kit

if TYPE_CHECKING:
    from collections.abc import Callable

I32, U32, F32, P = ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_void_p
MODES: dict[str, Callable[[Kit], int]] = {
    "plain": lambda kit: kit.plain_event(),
    "flag": lambda kit: kit.event(SYNC),
    "ex": lambda kit: kit.new_event(SYNC),
}


def answer(kit: Kit, name: str, event: int) -> tuple[int, int | None]:
    """Code and status of a query; no status when it fails."""
    status = I32(-1)
    code = getattr(kit.acl, name)(event, ctypes.byref(status))
    return code, status.value if code == OK else None


# query -> what (code, status) each kind of event answers before its first record
BEFORE = {
    ("aclrtQueryEventStatus", "plain"): (OK, 0),
    ("aclrtQueryEventStatus", "flag"): (OK, 0),
    ("aclrtQueryEventStatus", "ex"): (OK, 1),
    ("aclrtQueryEvent", "flag"): (OK, 0),
    ("aclrtQueryEvent", "ex"): (UNSUPPORTED, None),
    ("aclrtQueryEventWaitStatus", "plain"): (OK, 0),
    ("aclrtQueryEventWaitStatus", "flag"): (OK, 0),
    ("aclrtQueryEventWaitStatus", "ex"): (UNSUPPORTED, None),
}


@cites("Before a record: NOT_READY for the old kinds, COMPLETE for the new one", OBSERVED)
@pytest.mark.parametrize(("name", "mode"), BEFORE)
def test_queries_before_a_record(kit: Kit, name: str, mode: str) -> None:
    assert answer(kit, name, MODES[mode](kit)) == BEFORE[name, mode]


@cites("Waiting on the host for an event never recorded returns at once", OBSERVED)
@pytest.mark.parametrize("mode", MODES)
def test_synchronize_before_a_record(kit: Kit, mode: str) -> None:
    event = MODES[mode](kit)
    assert kit.acl.aclrtSynchronizeEvent(event) == OK
    if kit.acl.in_release("aclrtSynchronizeEventWithTimeout"):
        assert kit.acl.aclrtSynchronizeEventWithTimeout(event, 1) == OK


@cites("A stream cannot wait for a plain event never recorded; for one of the new kind it need not", OBSERVED)
@pytest.mark.parametrize(("mode", "code"), [("plain", PARAM), ("ex", OK)])
def test_wait_before_a_record(kit: Kit, mode: str, code: int) -> None:
    stream = kit.stream()
    assert kit.acl.aclrtStreamWaitEvent(stream, MODES[mode](kit)) == code
    assert kit.sync(stream) == OK


@cites("A stream that waits for an unrecorded SYNC event stands until somebody records it", OBSERVED)
def test_wait_before_a_record_blocks(kit: Kit) -> None:
    waiting, other, event = kit.stream(), kit.stream(), kit.event(SYNC)
    source, target = kit.pinned(4096, seed=5), kit.device(4096)
    assert kit.acl.aclrtStreamWaitEvent(waiting, event) == OK
    assert kit.copy(target, source, H2D, waiting) == OK
    assert kit.sync(waiting, 20) == STREAM_TIMEOUT
    assert kit.read(target) == bytes(4096)
    assert kit.acl.aclrtRecordEvent(event, other) == OK
    assert kit.sync(waiting) == OK
    assert kit.read(target) == kit.read(source)


@cites("After its record an event of any kind becomes COMPLETE", "aclrtQueryEventStatus docs, CANN 9.1")
@pytest.mark.parametrize("mode", MODES)
def test_after_a_record(kit: Kit, mode: str) -> None:
    stream, event = kit.stream(), MODES[mode](kit)
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.sync(stream) == OK
    assert answer(kit, "aclrtQueryEventStatus", event) == (OK, 1)
    assert kit.acl.aclrtSynchronizeEvent(event) == OK


@cites("While work before its record is queued an event is NOT_READY", "aclrtQueryEventStatus docs, CANN 9.1")
@needs_control
@pytest.mark.parametrize("mode", MODES)
def test_while_pending(kit: Kit, mode: str) -> None:
    stream, event, hold = kit.stream(), MODES[mode](kit), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert answer(kit, "aclrtQueryEventStatus", event) == (OK, 0)
    hold.release()
    assert kit.acl.aclrtSynchronizeEvent(event) == OK
    assert answer(kit, "aclrtQueryEventStatus", event) == (OK, 1)


@cites("The deprecated query counts the other way round: 0 is COMPLETE", "aclrtQueryEvent docs, CANN 9.1")
@needs_control
def test_the_old_query_is_inverted(kit: Kit) -> None:
    stream, event, hold = kit.stream(), kit.event(), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert answer(kit, "aclrtQueryEvent", event) == (OK, 1)
    hold.release()
    assert kit.sync(stream) == OK
    assert answer(kit, "aclrtQueryEvent", event) == (OK, 0)


@cites("Reset is for the old kinds; it does not make the event NOT_READY again", OBSERVED)
@pytest.mark.parametrize(("mode", "code"), [("plain", OK), ("flag", OK), ("ex", UNSUPPORTED)])
def test_reset(kit: Kit, mode: str, code: int) -> None:
    stream, event = kit.stream(), MODES[mode](kit)
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.sync(stream) == OK
    assert kit.acl.aclrtResetEvent(event, stream) == code
    assert kit.sync(stream) == OK
    if mode != "plain":
        assert answer(kit, "aclrtQueryEventStatus", event) == (OK, 1)


FLAGS = {
    0x0: PARAM,
    0x80: PARAM,
    0x100: PARAM,
    0x1: OK,
    0x8: OK,
    0x9: OK,
    0x2: OK,
    0xB: OK,
    0x41: PARAM,
    0x21: PARAM,
    0x11: PARAM,
    0x48: PARAM,
}


@cites(
    "Flags are 1, 2, 8 and their unions; 0x10, 0x20 and 0x40 stand alone; 0 and others are 107000", OBSERVED
)
@since("8.5")
@pytest.mark.parametrize("name", ["aclrtCreateEventWithFlag", "aclrtCreateEventExWithFlag"])
@pytest.mark.parametrize("flag", FLAGS)
def test_creation_flags(kit: Kit, name: str, flag: int) -> None:
    event = P()
    code = getattr(kit.acl, name)(ctypes.byref(event), flag)
    if code == OK and event.value is not None:
        kit.events.append((event.value, name))
    assert code == FLAGS[flag]


@cites("Without the SYNC bit no stream can wait for or reset an event; host calls work", OBSERVED)
def test_an_event_without_sync(kit: Kit) -> None:
    stream, event = kit.stream(), kit.event(TIME_LINE)
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.acl.aclrtStreamWaitEvent(stream, event) == UNSUPPORTED
    assert kit.acl.aclrtResetEvent(event, stream) == UNSUPPORTED
    assert kit.acl.aclrtSynchronizeEvent(event) == OK
    assert answer(kit, "aclrtQueryEventStatus", event) == (OK, 1)


NULLS: dict[str, Callable[[Kit], int]] = {
    "aclrtCreateEvent": lambda kit: kit.acl.aclrtCreateEvent(None),
    "aclrtCreateEventWithFlag": lambda kit: kit.acl.aclrtCreateEventWithFlag(None, 1),
    "aclrtCreateEventExWithFlag": lambda kit: kit.acl.aclrtCreateEventExWithFlag(None, 1),
    "aclrtDestroyEvent": lambda kit: kit.acl.aclrtDestroyEvent(None),
    "aclrtRecordEvent": lambda kit: kit.acl.aclrtRecordEvent(None, None),
    "aclrtResetEvent": lambda kit: kit.acl.aclrtResetEvent(None, None),
    "aclrtQueryEvent": lambda kit: kit.acl.aclrtQueryEvent(None, ctypes.byref(I32())),
    "aclrtQueryEventStatus": lambda kit: kit.acl.aclrtQueryEventStatus(None, ctypes.byref(I32())),
    "status": lambda kit: kit.acl.aclrtQueryEventStatus(kit.event(), None),
    "aclrtSynchronizeEvent": lambda kit: kit.acl.aclrtSynchronizeEvent(None),
    "aclrtStreamWaitEvent": lambda kit: kit.acl.aclrtStreamWaitEvent(None, None),
    "aclrtEventElapsedTime": lambda kit: kit.acl.aclrtEventElapsedTime(None, kit.event(), kit.event()),
    "aclrtEventGetTimestamp": lambda kit: kit.acl.aclrtEventGetTimestamp(kit.event(), None),
    "aclrtGetEventId": lambda kit: kit.acl.aclrtGetEventId(kit.event(), None),
    "aclrtGetEventAvailNum": lambda kit: kit.acl.aclrtGetEventAvailNum(None),
}


@cites("A null event or output is 100000", "aclError docs, CANN 9.1")
@pytest.mark.parametrize("name", NULLS)
def test_null_pointers(kit: Kit, name: str) -> None:
    assert NULLS[name](kit) == ACL_PARAM


@cites("An event may be destroyed while its record is pending", OBSERVED)
@needs_control
def test_destroy_while_pending(kit: Kit) -> None:
    stream, event, hold = kit.stream(), kit.event(), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.acl.aclrtDestroyEvent(event) == OK
    kit.forget(event)
    hold.release()
    assert kit.sync(stream) == OK


@cites("A destroyed event is 107017 from 9.1 on", OBSERVED)
@since("9.1")
@pytest.mark.parametrize("name", ["aclrtDestroyEvent", "aclrtSynchronizeEvent"])
def test_a_destroyed_event(kit: Kit, name: str) -> None:
    event = kit.event()
    assert kit.acl.aclrtDestroyEvent(event) == OK
    kit.forget(event)
    assert getattr(kit.acl, name)(event) == STALE


@cites("A record may be made again while it is pending; the later one counts for queries", OBSERVED)
@needs_control
def test_record_again(kit: Kit) -> None:
    first, second, event, hold = kit.stream(), kit.stream(), kit.event(), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, first) == OK
    assert kit.acl.aclrtRecordEvent(event, first) == OK
    assert kit.acl.aclrtRecordEvent(event, second) == OK
    assert kit.sync(second) == OK
    assert kit.acl.aclrtSynchronizeEvent(event) == OK
    hold.release()
    assert kit.sync(first) == OK


@cites("A wait keeps to the record that was there when it was issued", "aclrtStreamWaitEvent docs, CANN 9.1")
@needs_control
def test_a_wait_captures_its_record(kit: Kit) -> None:
    first, second, waiting = kit.stream(), kit.stream(), kit.stream()
    event, hold = kit.new_event(), kit.hold("h2d")
    source, target = kit.pinned(64, seed=6), kit.device(64)
    assert kit.copy(target, source, H2D, first) == OK
    assert kit.acl.aclrtRecordEvent(event, first) == OK
    assert kit.acl.aclrtStreamWaitEvent(waiting, event) == OK
    assert kit.acl.aclrtRecordEvent(event, second) == OK
    assert kit.sync(second) == OK
    assert kit.sync(waiting, 20) == STREAM_TIMEOUT
    hold.release()
    assert kit.sync(waiting) == OK
    assert kit.read(target) == kit.read(source)


@cites("A stream waits for a record of another stream", OBSERVED)
@needs_control
@pytest.mark.parametrize("mode", MODES)
def test_streams_in_order(kit: Kit, mode: str) -> None:
    up, down, event, hold = kit.stream(), kit.stream(), MODES[mode](kit), kit.hold("h2d")
    source, middle, target = kit.pinned(4096, seed=7), kit.device(4096), kit.pinned(4096)
    assert kit.copy(middle, source, H2D, up) == OK
    assert kit.acl.aclrtRecordEvent(event, up) == OK
    assert kit.acl.aclrtStreamWaitEvent(down, event) == OK
    assert kit.copy(target, middle, 2, down) == OK
    assert not kit.done(down)
    hold.release()
    assert kit.sync(down) == OK
    assert kit.read(target) == kit.read(source)


@cites("A wait on the stream of the record, or for a finished record, does nothing", OBSERVED)
@pytest.mark.parametrize("mode", MODES)
def test_waits_that_do_nothing(kit: Kit, mode: str) -> None:
    stream, other, event = kit.stream(), kit.stream(), MODES[mode](kit)
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.acl.aclrtStreamWaitEvent(stream, event) == OK
    assert kit.sync(stream) == OK
    assert kit.acl.aclrtStreamWaitEvent(other, event) == OK
    assert kit.sync(other) == OK


@cites("A wait that runs out is 507047; limits are -1 or above 0 ms", OBSERVED)
@since("8.5")
@needs_control
def test_limits_of_a_wait(kit: Kit) -> None:
    stream, event, hold = kit.stream(), kit.event(), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    wait = kit.acl.aclrtSynchronizeEventWithTimeout
    assert [wait(event, limit) for limit in (0, -2, 1)] == [PARAM, PARAM, EVENT_TIMEOUT]
    hold.release()
    assert [wait(event, WAIT_MS), wait(event, -1)] == [OK, OK]


def elapsed(kit: Kit, start: int, end: int) -> tuple[int, float]:
    ms = F32(-1.0)
    return kit.acl.aclrtEventElapsedTime(ctypes.byref(ms), start, end), ms.value


@cites("Time between two recorded TIME_LINE events is not negative", "aclrtEventElapsedTime docs, CANN 9.1")
@pytest.mark.parametrize("flag", [TIME_LINE, SYNC | TIME_LINE])
def test_elapsed_time(kit: Kit, flag: int) -> None:
    stream, start, end = kit.stream(), kit.event(flag), kit.event(flag)
    assert kit.acl.aclrtRecordEvent(start, stream) == OK
    assert kit.copy(kit.device(1 << 20), kit.pinned(1 << 20), H2D, stream) == OK
    assert kit.acl.aclrtRecordEvent(end, stream) == OK
    assert kit.sync(stream) == OK
    code, ms = elapsed(kit, start, end)
    assert code == OK
    assert 0.0 <= ms < 10_000.0
    assert elapsed(kit, start, start) == (OK, 0.0)


@cites("Time between events never recorded is 507000", OBSERVED)
def test_elapsed_time_needs_records(kit: Kit) -> None:
    assert elapsed(kit, kit.event(TIME_LINE), kit.event(TIME_LINE))[0] == INTERNAL


@cites("Time stamps grow along a stream", "aclrtEventGetTimestamp docs, CANN 9.1")
@since("8.5")
def test_time_stamps(kit: Kit) -> None:
    stream, events = kit.stream(), [kit.event(TIME_LINE) for _ in range(3)]
    for event in events:
        assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.sync(stream) == OK
    stamps = [kit.acl.out_last(ctypes.c_uint64, "aclrtEventGetTimestamp", event) for event in events]
    assert stamps == sorted(stamps)
    assert stamps[0] > 0


@cites("A record on a stream of another context is 107003", OBSERVED)
@pytest.mark.parametrize("mode", MODES)
def test_record_in_another_context(kit: Kit, mode: str) -> None:
    stream, event = kit.stream(), MODES[mode](kit)
    here = kit.acl.out(P, "aclrtGetCurrentContext")
    other = kit.acl.out(P, "aclrtCreateContext", 0)
    code = kit.acl.aclrtRecordEvent(event, stream)
    assert kit.acl.aclrtSetCurrentContext(here) == OK
    assert kit.acl.aclrtDestroyContext(other) == OK
    assert code == WRONG_CONTEXT


@cites("Events of the new kind are limited only by memory", OBSERVED)
def test_many_events(kit: Kit) -> None:
    events = [kit.new_event() for _ in range(70_000 if kit.acl.simulated else 2_000)]
    assert len(set(events)) == len(events)


@cites("Events that own an id have different ones", "aclrtGetEventId docs, CANN 9.1")
@since("8.5")
def test_event_ids(kit: Kit) -> None:
    events = [kit.event() for _ in range(4)]
    ids = [kit.acl.out_last(U32, "aclrtGetEventId", event) for event in events]
    assert len(set(ids)) == 4


@cites("Each event with an id of its own lowers the number left", "aclrtGetEventAvailNum docs, CANN 9.1")
@since("8.5")
def test_the_number_of_free_events(kit: Kit) -> None:
    before = kit.acl.out(U32, "aclrtGetEventAvailNum")
    kit.event(), kit.event()
    assert kit.acl.out(U32, "aclrtGetEventAvailNum") == before - 2
