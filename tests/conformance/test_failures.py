"""What happens after a copy has failed: the two failure modes, exception callbacks, aborts."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, chips, cites, needs_control, since
from conformance.support.codes import (
    DEVICE_ID,
    OK,
    PARAM,
    STREAM_ABORT,
    STREAM_TIMEOUT,
    TASK_ABORT,
    TS_ERROR,
    UNSUPPORTED,
)
from conformance.support.fresh import fresh
from conformance.support.kit import H2D, WAIT_MS, Kit, content
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.support.face import Acl
    from conformance.support.threads import Side

P, I32, U32 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32
CONTINUE, STOP = 0, 1
ABORT_CHIPS = ("a2", "a3", "950")
# In these modes of the simulator nothing happens on its own: waiting threads do the work themselves.
DRIVEN = os.environ.get("ACLSIM_MODE", "threads") != "threads"


def fail_next(code: int = TS_ERROR, nth: int = 1) -> None:
    sim.fail_copy(code, nth=nth)


# ---- CONTINUE, the default ----

SYNCS: dict[str, Callable[[Kit, int], int]] = {
    "aclrtSynchronizeStream": lambda kit, s: kit.acl.aclrtSynchronizeStream(s),
    "aclrtSynchronizeStreamWithTimeout": lambda kit, s: kit.sync(s),
    "aclrtSynchronizeDevice": lambda kit, s: kit.acl.aclrtSynchronizeDevice(),
}


@cites("The next synchronisation returns the failure once", OBSERVED)
@needs_control
@pytest.mark.parametrize("name", SYNCS)
def test_a_failure_is_reported_once(kit: Kit, name: str) -> None:
    stream, source, target = kit.stream(), kit.pinned(64, seed=1), kit.device(64)
    fail_next()
    assert kit.copy(target, source, H2D, stream) == OK
    assert SYNCS[name](kit, stream) == TS_ERROR
    assert [call(kit, stream) for call in SYNCS.values()] == [OK, OK, OK]
    assert kit.read(target) == bytes(64)


@cites("The stream goes on: later copies run, events complete, the query says COMPLETE", OBSERVED)
@needs_control
def test_the_stream_goes_on(kit: Kit) -> None:
    stream, source, bad, good, event = (
        kit.stream(), kit.pinned(64, seed=1), kit.device(64), kit.device(64), kit.event(),
    )  # fmt: skip
    fail_next()
    assert kit.copy(bad, source, H2D, stream) == OK
    assert kit.copy(good, source, H2D, stream) == OK
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.acl.aclrtSynchronizeEvent(event) == OK
    assert kit.recorded(event)
    assert kit.done(stream)
    assert kit.read(good) == content(64, 1)
    assert kit.read(bad) == bytes(64)
    assert [kit.sync(stream), kit.sync(stream)] == [TS_ERROR, OK]


@cites("Of two failures before one synchronisation the later is reported", OBSERVED)
@needs_control
def test_two_failures(kit: Kit) -> None:
    stream, source, target = kit.stream(), kit.pinned(64), kit.device(64)
    fail_next(507013, nth=1)
    fail_next(TS_ERROR, nth=2)
    for _ in range(2):
        assert kit.copy(target, source, H2D, stream) == OK
    assert [kit.sync(stream), kit.sync(stream)] == [TS_ERROR, OK]


@cites("A failure belongs to its stream; another stream and a synchronous copy do not see it", OBSERVED)
@needs_control
@pytest.mark.skipif(DRIVEN, reason="which copy comes first, and fails, is open in these modes")
def test_other_streams(kit: Kit) -> None:
    stream, other, source, target = kit.stream(), kit.stream(), kit.pinned(64, seed=1), kit.device(64)
    fail_next()
    assert kit.copy(target, source, H2D, stream) == OK
    assert kit.copy(kit.device(64), source, H2D, other) == OK
    assert kit.sync(other) == OK
    assert kit.acl.aclrtMemcpy(target.address, 64, source.address, 64, H2D) == OK
    assert kit.sync(stream) == TS_ERROR


# ---- which copy it was ----

EXCEPTION = ctypes.CFUNCTYPE(None, P)
FIELDS = ("TaskId", "StreamId", "ThreadId", "DeviceId", "ErrorCode")


class Exceptions:
    """What exception callbacks were told."""

    def __init__(self, acl: Acl) -> None:
        self.seen: list[dict[str, int]] = []
        self.told = threading.Event()
        self.threads: list[int] = []

        def callback(info: int) -> None:
            self.threads.append(threading.get_native_id())
            self.seen.append(
                {name: getattr(acl, f"aclrtGet{name}FromExceptionInfo")(info) for name in FIELDS}
            )
            self.told.set()

        self.callback = EXCEPTION(callback)


@cites("The callback names task, stream, thread, device and code of the failed copy", OBSERVED)
@since("8.5")
@needs_control
def test_exception_callback(kit: Kit) -> None:
    stream, source, target = kit.stream(), kit.pinned(64), kit.device(64)
    exceptions = Exceptions(kit.acl)
    assert kit.acl.aclrtSetExceptionInfoCallback(exceptions.callback) == OK
    try:
        fail_next(nth=2)
        tasks = []
        for _ in range(3):
            assert kit.copy(target, source, H2D, stream) == OK
            tasks.append(kit.acl.out(U32, "aclrtGetThreadLastTaskId"))
        if not DRIVEN:
            assert exceptions.told.wait(20)
        assert kit.sync(stream) == TS_ERROR
        assert exceptions.told.is_set()
    finally:
        assert kit.acl.aclrtSetExceptionInfoCallback(None) == OK
    assert len(set(tasks)) == 3
    assert exceptions.seen == [
        {
            "TaskId": tasks[1],
            "StreamId": kit.acl.out_last(I32, "aclrtStreamGetId", stream),
            "ThreadId": threading.get_native_id(),
            "DeviceId": 0,
            "ErrorCode": TS_ERROR,
        }
    ]
    if not DRIVEN:
        assert threading.get_native_id() not in exceptions.threads


@cites("A null callback ends the reports", OBSERVED)
@needs_control
def test_no_exception_callback(kit: Kit) -> None:
    exceptions = Exceptions(kit.acl)
    assert kit.acl.aclrtSetExceptionInfoCallback(exceptions.callback) == OK
    assert kit.acl.aclrtSetExceptionInfoCallback(None) == OK
    stream = kit.stream()
    fail_next()
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.sync(stream) == TS_ERROR
    assert exceptions.seen == []


@cites("Several callbacks may be registered beside each other", "the open runtime, CANN 9.2")
@since("9.1")
@needs_control
def test_registered_callbacks(kit: Kit) -> None:
    first, second, stream = Exceptions(kit.acl), Exceptions(kit.acl), kit.stream()
    both = (first, second)
    assert [kit.acl.aclrtExceptionInfoCallbackRegister(each.callback) for each in both] == [OK, OK]
    try:
        fail_next()
        assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
        assert kit.sync(stream) == TS_ERROR
        assert all(each.told.wait(20) for each in both)
    finally:
        codes = [kit.acl.aclrtExceptionInfoCallbackUnregister(each.callback) for each in both]
    assert codes == [OK, OK]
    assert len(first.seen) == len(second.seen) == 1


@cites("A null callback is 107000, to register and to unregister", "the open runtime, CANN 9.2")
@since("9.1")
@pytest.mark.parametrize("name", ["Register", "Unregister"])
def test_null_callbacks(kit: Kit, name: str) -> None:
    assert getattr(kit.acl, f"aclrtExceptionInfoCallback{name}")(None) == PARAM


@cites("Without information the answer is 0xFFFFFFFF", "the open runtime, CANN 9.2")
@pytest.mark.parametrize("name", FIELDS)
def test_no_information(kit: Kit, name: str) -> None:
    assert getattr(kit.acl, f"aclrtGet{name}FromExceptionInfo")(None) == 0xFFFFFFFF


# ---- STOP, in processes of its own because it changes the whole context ----


def modes(acl: Acl, sequence: list[int]) -> list[int]:
    acl.aclrtSetDevice(0)
    stream = acl.out(P, "aclrtCreateStream")
    return [acl.aclrtSetStreamFailureMode(stream, mode) for mode in sequence]


@cites("CONTINUE to STOP is allowed, back is 207000, the same again is success", OBSERVED)
@pytest.mark.parametrize(
    ("sequence", "codes"),
    [
        ([CONTINUE, CONTINUE], [OK, OK]),
        ([STOP, STOP], [OK, OK]),
        ([CONTINUE, STOP, CONTINUE], [OK, OK, UNSUPPORTED]),
    ],
)
def test_changing_the_mode(sequence: list[int], codes: list[int]) -> None:
    assert fresh(modes, sequence) == codes


def stopped(acl: Acl) -> dict[str, int | list[int]]:
    """Codes of calls after a failure in STOP mode."""
    acl.aclrtSetDevice(0)
    kit = Kit(acl)
    stream, other, event, source, target = (
        kit.stream(), kit.stream(), kit.event(), kit.pinned(64, seed=1), kit.device(64),
    )  # fmt: skip
    assert acl.aclrtRecordEvent(event, other) == OK
    assert kit.sync(other) == OK
    assert acl.aclrtSetStreamFailureMode(stream, STOP) == OK
    fail_next()
    assert kit.copy(target, source, H2D, stream) == OK
    found: dict[str, int | list[int]] = {"sync": [kit.sync(stream) for _ in range(3)]}
    found["aclrtMemcpyAsync"] = kit.copy(target, source, H2D, other)
    found["aclrtRecordEvent"] = acl.aclrtRecordEvent(event, other)
    found["aclrtQueryEventStatus"] = acl.aclrtQueryEventStatus(event, ctypes.byref(I32()))
    found["aclrtStreamQuery"] = acl.aclrtStreamQuery(other, ctypes.byref(I32()))
    found["aclrtSynchronizeStream"] = acl.aclrtSynchronizeStream(other)
    found["aclrtSynchronizeDevice"] = acl.aclrtSynchronizeDevice()
    found["aclrtMallocHost"] = acl.aclrtMallocHost(ctypes.byref(P()), 64)
    found["aclrtMemcpy"] = acl.aclrtMemcpy(target.address, 64, source.address, 64, H2D)
    found["aclrtCreateStream"] = acl.aclrtCreateStream(ctypes.byref(P()))
    return found


@cites("In STOP mode the failure stays, for every stream of the context; host calls still work", OBSERVED)
@needs_control
def test_stop() -> None:
    assert fresh(stopped) == {
        "sync": [TS_ERROR] * 3,
        "aclrtMemcpyAsync": TS_ERROR,
        "aclrtRecordEvent": TS_ERROR,
        "aclrtQueryEventStatus": TS_ERROR,
        "aclrtStreamQuery": TS_ERROR,
        "aclrtSynchronizeStream": TS_ERROR,
        "aclrtSynchronizeDevice": TS_ERROR,
        "aclrtMallocHost": OK,
        "aclrtMemcpy": OK,
        "aclrtCreateStream": OK,
    }


def recovered(acl: Acl) -> list[int]:
    """STOP in a context of its own, which is then destroyed."""
    acl.aclrtSetDevice(0)
    before = acl.out(P, "aclrtGetCurrentContext")
    other = acl.out(P, "aclrtCreateContext", 0)
    kit = Kit(acl)
    stream = kit.stream()
    assert acl.aclrtSetStreamFailureMode(stream, STOP) == OK
    fail_next()
    kit.copy(kit.device(64), kit.pinned(64), H2D, stream)
    codes = [kit.sync(stream)]
    codes.append(acl.aclrtDestroyContext(other))
    codes.append(acl.aclrtSetCurrentContext(before))
    fine = acl.out(P, "aclrtCreateStream")
    codes.append(kit.copy(kit.device(64), kit.pinned(64), H2D, fine))
    codes.append(acl.aclrtSynchronizeStreamWithTimeout(fine, WAIT_MS))
    return codes


@cites("Another context is not stopped; destroying the stopped one ends it", "failure mode docs, CANN 9.1")
@needs_control
def test_recovery() -> None:
    assert fresh(recovered) == [TS_ERROR, OK, OK, OK, OK]


# ---- aborts ----


@cites("aclrtStreamAbort exists on A2, A3 and 950, elsewhere 207000", "aclrtStreamAbort docs, CANN 9.1")
@since("8.5")
def test_abort_of_an_idle_stream(kit: Kit) -> None:
    stream, source, target = kit.stream(), kit.pinned(64, seed=1), kit.device(64)
    assert kit.acl.aclrtStreamAbort(stream) == (OK if kit.profile.chip in ABORT_CHIPS else UNSUPPORTED)
    assert kit.copy(target, source, H2D, stream) == OK
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(64, 1)


@cites("It drops queued work, and the stream is usable afterwards", "aclrtStreamAbort docs, CANN 9.1")
@since("8.5")
@chips(*ABORT_CHIPS)
@needs_control
def test_abort_drops_work(kit: Kit) -> None:
    stream, source, target, hold = kit.stream(), kit.pinned(64, seed=1), kit.device(64), kit.hold("h2d")
    for _ in range(3):
        assert kit.copy(target, source, H2D, stream) == OK
    assert kit.acl.aclrtStreamAbort(stream) == OK
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.read(target) == bytes(64)
    assert kit.copy(target, source, H2D, stream) == OK
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(64, 1)


@cites("A thread that waits for the stream gets 107023", "aclrtStreamAbort docs, CANN 9.1")
@since("8.5")
@chips(*ABORT_CHIPS)
@needs_control
def test_abort_wakes_waiters(kit: Kit, side: Side) -> None:
    stream, source, target = kit.stream(), kit.pinned(64), kit.device(64)
    assert kit.acl.aclrtStreamAbort(stream) == OK
    kit.hold("h2d")
    codes = []
    for _ in range(200):  # the waiter may come too late; then it finds an empty stream
        assert kit.copy(target, source, H2D, stream) == OK
        before = sim.call_count("aclrtSynchronizeStreamWithTimeout")

        def wait() -> int:
            kit.acl.aclrtSetDevice(0)
            return kit.sync(stream)

        future = side.start(wait)
        while sim.call_count("aclrtSynchronizeStreamWithTimeout") == before:
            assert not future.done()
        assert kit.acl.aclrtStreamAbort(stream) == OK
        codes.append(future.result(20))
        if codes[-1] == STREAM_ABORT:
            break
    side.run(lambda: [kit.acl.aclrtResetDevice(0) for _ in codes])
    assert codes[-1] == STREAM_ABORT
    assert set(codes) <= {OK, STREAM_ABORT}


@cites("aclrtDeviceTaskAbort: A2, A3, 950; at most 36 minutes; a device out of range", "CANN 9.2 sources")
@pytest.mark.parametrize(
    ("device", "timeout_ms", "code"),
    [(0, 0, OK), (0, 1000, OK), (0, 36 * 60_000, OK), (0, 36 * 60_000 + 1, PARAM), (4096, 0, DEVICE_ID)],
)
def test_device_task_abort(kit: Kit, device: int, timeout_ms: int, code: int) -> None:
    expected = code if kit.profile.chip in ABORT_CHIPS else UNSUPPORTED
    assert kit.acl.aclrtDeviceTaskAbort(device, timeout_ms) == expected


@cites("aclrtDeviceTaskAbort drops queued work", "aclrtDeviceTaskAbort docs, CANN 9.1")
@chips(*ABORT_CHIPS)
@needs_control
def test_device_task_abort_drops_work(kit: Kit) -> None:
    stream, source, target, hold = kit.stream(), kit.pinned(64, seed=1), kit.device(64), kit.hold("h2d")
    assert kit.copy(target, source, H2D, stream) == OK
    assert kit.acl.aclrtDeviceTaskAbort(0, 0) == OK
    hold.release()
    assert kit.sync(stream) in (OK, TASK_ABORT)
    assert kit.read(target) == bytes(64)


# ---- time limits of waits on the device ----


@cites("A wait with a limit on the device: seconds from 0 on, else 107000", "CANN 9.1 docs")
@since("8.5")
@pytest.mark.parametrize(("timeout_s", "code"), [(-1, PARAM), (0, OK), (5, OK)])
def test_limit_of_a_stream_wait(kit: Kit, timeout_s: int, code: int) -> None:
    stream, event = kit.stream(), kit.event()
    assert kit.acl.aclrtRecordEvent(event, stream) == OK
    assert kit.acl.aclrtStreamWaitEventWithTimeout(kit.stream(), event, timeout_s) == code


@cites("A wait that runs out on the device is reported by the next synchronisation", "CANN 9.1 docs")
@since("8.5")
@chips("a2", "a3", "950")
def test_a_stream_wait_runs_out(kit: Kit) -> None:
    stream, event = kit.stream(), kit.event()
    assert kit.acl.aclrtStreamWaitEventWithTimeout(stream, event, 1) == OK
    assert kit.sync(stream) not in (OK, STREAM_TIMEOUT)


@cites("aclrtSetOpWaitTimeout is not for 310P", "aclrtSetOpWaitTimeout docs, CANN 9.1")
@chips("a2", "a3", "950", "310p")
def test_op_wait_timeout(kit: Kit) -> None:
    assert kit.acl.aclrtSetOpWaitTimeout(0) == (UNSUPPORTED if kit.profile.chip == "310p" else OK)


@cites("Limits of kernels can be set; they do not concern copies", "aclrtSetOpExecuteTimeOut docs, CANN 9.1")
def test_op_execute_timeout(kit: Kit) -> None:
    assert kit.acl.aclrtSetOpExecuteTimeOut(60) == OK
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, None) == OK
    assert kit.sync(None) == OK
