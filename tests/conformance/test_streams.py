"""Streams: creation, limits, asking, waiting, destruction."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, chips, cites, needs_control, since
from conformance.support.codes import ACL_PARAM, NO_STREAM, OK, PARAM, STALE, STREAM_TIMEOUT
from conformance.support.fresh import fresh
from conformance.support.kit import H2D, WAIT_MS, Kit

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.support.face import Acl
    from conformance.support.threads import Side

P, I32, U32 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32
MAX_STREAMS = {"950": 1984, "a3": 1984, "a2": 1984, "310b": 512, "310p": 1024, "910": 2048}
DEPTH = {"a2": 2013, "a3": 2013, "950": 2014, "310p": 2042, "310b": 2010, "910": 2042}


@cites("aclrtStreamQuery is COMPLETE for an empty stream and for the default stream", OBSERVED)
def test_empty_streams_are_complete(kit: Kit) -> None:
    assert kit.done(kit.stream())
    assert kit.done(None)


@cites("aclrtStreamQuery is NOT_READY while work is queued", "aclrtStreamQuery docs, CANN 9.1")
@needs_control
def test_a_busy_stream_is_not_ready(kit: Kit) -> None:
    stream, hold = kit.stream(), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert not kit.done(stream)
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.done(stream)


@cites("Limits for a wait are -1 or above 0 ms", "aclrtSynchronizeStreamWithTimeout docs, CANN 9.1")
@pytest.mark.parametrize(("timeout_ms", "code"), [(0, PARAM), (-2, PARAM), (-1, OK), (1, OK), (1000, OK)])
def test_limits_of_a_wait(kit: Kit, timeout_ms: int, code: int) -> None:
    assert kit.sync(kit.stream(), timeout_ms) == code


@cites("A wait that runs out is 507046, and the stream stays usable", OBSERVED)
@needs_control
def test_a_wait_runs_out(kit: Kit) -> None:
    stream, source, target, hold = kit.stream(), kit.pinned(4096, seed=1), kit.device(4096), kit.hold("h2d")
    assert kit.copy(target, source, H2D, stream) == OK
    assert [kit.sync(stream, 1), kit.sync(stream, 1)] == [STREAM_TIMEOUT, STREAM_TIMEOUT]
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.read(target) == kit.read(source)


NULLS: dict[str, tuple[Callable[[Kit], int], int]] = {
    "aclrtCreateStream": (lambda kit: kit.acl.aclrtCreateStream(None), ACL_PARAM),
    "aclrtCreateStreamWithConfig": (lambda kit: kit.acl.aclrtCreateStreamWithConfig(None, 0, 0), ACL_PARAM),
    "aclrtDestroyStream": (lambda kit: kit.acl.aclrtDestroyStream(None), ACL_PARAM),
    "aclrtDestroyStreamForce": (lambda kit: kit.acl.aclrtDestroyStreamForce(None), ACL_PARAM),
    "aclrtStreamQuery": (lambda kit: kit.acl.aclrtStreamQuery(kit.stream(), None), ACL_PARAM),
    "aclrtStreamGetId": (lambda kit: kit.acl.aclrtStreamGetId(kit.stream(), None), ACL_PARAM),
    "aclrtStreamGetPriority": (lambda kit: kit.acl.aclrtStreamGetPriority(kit.stream(), None), ACL_PARAM),
    "aclrtStreamGetFlags": (lambda kit: kit.acl.aclrtStreamGetFlags(kit.stream(), None), ACL_PARAM),
    "aclrtGetStreamAvailableNum": (lambda kit: kit.acl.aclrtGetStreamAvailableNum(None), ACL_PARAM),
    "aclrtSetStreamAttribute": (
        lambda kit: kit.acl.aclrtSetStreamAttribute(kit.stream(), 1, None),
        ACL_PARAM,
    ),
    "aclrtGetStreamAttribute": (
        lambda kit: kit.acl.aclrtGetStreamAttribute(kit.stream(), 1, None),
        ACL_PARAM,
    ),
}


@cites("A null output, and a null stream to destroy, are 100000", OBSERVED)
@pytest.mark.parametrize("name", NULLS)
def test_null_pointers(kit: Kit, name: str) -> None:
    call, code = NULLS[name]
    assert call(kit) == code


@cites("Null stands for the default stream in copies, records, waits and synchronisation", OBSERVED)
def test_the_default_stream(kit: Kit) -> None:
    source, target, event = kit.pinned(4096, seed=2), kit.device(4096), kit.event()
    assert kit.copy(target, source, H2D, None) == OK
    assert kit.acl.aclrtRecordEvent(event, None) == OK
    assert kit.acl.aclrtStreamWaitEvent(None, event) == OK
    assert kit.sync(None) == OK
    assert kit.recorded(event)
    assert kit.read(target) == kit.read(source)


@cites("The default stream of the context can be asked for", "aclrtCtxGetCurrentDefaultStream docs, CANN 9.1")
@since("8.5")
def test_the_default_stream_has_a_handle(kit: Kit) -> None:
    stream = kit.acl.out(P, "aclrtCtxGetCurrentDefaultStream")
    assert stream
    ids = [kit.acl.out_last(I32, "aclrtStreamGetId", each) for each in (stream, None)]
    assert ids[0] == ids[1]
    assert kit.sync(stream) == OK


@cites("Streams of one device have different ids", "aclrtStreamGetId docs, CANN 9.1")
@since("8.5")
def test_ids_differ(kit: Kit) -> None:
    ids = [kit.acl.out_last(I32, "aclrtStreamGetId", kit.stream()) for _ in range(8)]
    assert len(set(ids)) == 8


@cites("The priority range is 7 to 0", "aclrtDeviceGetStreamPriorityRange, observed on the open runtime 9.2")
@since("8.5")
def test_priority_range(kit: Kit) -> None:
    least, greatest = I32(-1), I32(-1)
    code = kit.acl.aclrtDeviceGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest))
    assert (code, least.value, greatest.value) == (OK, 7, 0)


def configured(kit: Kit, priority: int, flag: int) -> int:
    stream: int = kit.acl.out(P, "aclrtCreateStreamWithConfig", priority, flag)
    kit.streams.append(stream)
    return stream


@cites("Priorities above 7 are accepted and clamped", OBSERVED)
@pytest.mark.parametrize(("asked", "kept"), [(0, 0), (3, 3), (7, 7), (100, 7)])
def test_priorities(kit: Kit, asked: int, kept: int) -> None:
    stream = configured(kit, asked, 0)
    assert kit.sync(stream) == OK
    if kit.acl.in_release("aclrtStreamGetPriority"):
        assert kit.acl.out_last(U32, "aclrtStreamGetPriority", stream) == kept


@cites("Stream flags can be read back", "aclrtStreamGetFlags docs, CANN 9.1")
@since("8.5")
@pytest.mark.parametrize("flag", [0, 0x1, 0x2, 0x3])
def test_flags(kit: Kit, flag: int) -> None:
    assert kit.acl.out_last(U32, "aclrtStreamGetFlags", configured(kit, 0, flag)) == flag


@cites("Unknown stream flags are accepted", OBSERVED)
def test_unknown_flags(kit: Kit) -> None:
    assert kit.sync(configured(kit, 0, 0x1)) == OK
    assert configured(kit, 0, 0x40000)


@cites("aclrtGetStreamAvailableNum goes down with each stream", "aclrtGetStreamAvailableNum docs, CANN 9.1")
@since("8.5")
def test_the_number_of_free_streams(kit: Kit) -> None:
    before = kit.acl.out(U32, "aclrtGetStreamAvailableNum")
    kit.stream(), kit.stream()
    assert kit.acl.out(U32, "aclrtGetStreamAvailableNum") == before - 2


def exhausted(acl: Acl, limit: int) -> tuple[int, int, int]:
    acl.aclrtSetDevice(0)
    made: list[int | None] = []
    stream = P()
    code = OK
    while len(made) <= limit and (code := acl.aclrtCreateStream(ctypes.byref(stream))) == OK:
        made.append(stream.value)
    acl.aclrtDestroyStream(made.pop())
    return len(made) + 1, code, acl.aclrtCreateStream(ctypes.byref(stream))


@cites("Too many streams are 207008; a destroyed one makes room", "aclrtCreateStream docs, CANN 9.1")
def test_too_many_streams(acl: Acl) -> None:
    limit = MAX_STREAMS[acl.profile.chip]
    made, code, again = fresh(exhausted, limit)
    # The runtime has streams of its own, such as the default one; hardware may have fewer left.
    assert limit - 64 <= made <= limit
    assert (code, again) == (NO_STREAM, OK)


@cites("A full stream makes the submitting call wait, it never fails", OBSERVED)
@needs_control
def test_a_full_stream_blocks(kit: Kit, side: Side) -> None:
    stream, source, target, hold = kit.stream(), kit.pinned(64, seed=1), kit.device(64), kit.hold("h2d")
    depth = DEPTH[kit.profile.chip]
    submitted = []

    def submit() -> int:
        assert kit.acl.aclrtSetDevice(0) == OK
        for _ in range(depth + 10):
            code = kit.copy(target, source, H2D, stream)
            submitted.append(code)
        return kit.acl.aclrtResetDevice(0)  # type: ignore[no-any-return]  # a code

    future = side.start(submit)
    deadline = time.monotonic() + 10
    while len(submitted) < depth:  # it comes as far as the queue is deep
        assert time.monotonic() < deadline, f"only {len(submitted)} of {depth} submitted"
        time.sleep(0.001)
    assert not future.done()
    hold.release()
    assert future.result(20) == OK
    assert set(submitted) == {OK}
    assert kit.sync(stream) == OK


@cites("aclrtDestroyStream waits for queued work", OBSERVED)
@needs_control
def test_destroy_waits(kit: Kit, side: Side) -> None:
    stream, source, target, hold = kit.stream(), kit.pinned(4096, seed=3), kit.device(4096), kit.hold("h2d")
    assert kit.copy(target, source, H2D, stream) == OK

    def destroy() -> tuple[int, int, int]:
        return kit.acl.aclrtSetDevice(0), kit.acl.aclrtDestroyStream(stream), kit.acl.aclrtResetDevice(0)

    future = side.start(destroy)
    assert not future.done()
    hold.release()
    assert future.result(20) == (OK, OK, OK)
    kit.forget(stream)
    assert kit.read(target) == kit.read(source)


@cites("aclrtDestroyStreamForce does not wait for queued work", "aclrtDestroyStreamForce docs, CANN 9.1")
@needs_control
def test_forced_destroy_does_not_wait(kit: Kit) -> None:
    stream, target, hold = kit.stream(), kit.device(4096), kit.hold("h2d")
    assert kit.copy(target, kit.pinned(4096, seed=4), H2D, stream) == OK
    assert kit.acl.aclrtDestroyStreamForce(stream) == OK
    kit.forget(stream)
    hold.release()
    assert kit.read(target) == bytes(4096)


STALE_CALLS: dict[str, Callable[[Kit, int], int]] = {
    "aclrtMemcpyAsync": lambda kit, s: kit.copy(kit.device(64), kit.pinned(64), H2D, s),
    "aclrtSynchronizeStreamWithTimeout": lambda kit, s: kit.sync(s),
    "aclrtStreamQuery": lambda kit, s: kit.acl.aclrtStreamQuery(s, ctypes.byref(I32())),
    "aclrtRecordEvent": lambda kit, s: kit.acl.aclrtRecordEvent(kit.event(), s),
    "aclrtDestroyStream": lambda kit, s: kit.acl.aclrtDestroyStream(s),
    "aclrtDestroyStreamForce": lambda kit, s: kit.acl.aclrtDestroyStreamForce(s),
}


@cites("A destroyed stream is 107017 from 9.1 on; before, its use is undefined", OBSERVED)
@since("9.1")
@pytest.mark.parametrize("name", STALE_CALLS)
def test_a_destroyed_stream(kit: Kit, name: str) -> None:
    stream = kit.stream()
    assert kit.acl.aclrtDestroyStream(stream) == OK
    kit.forget(stream)
    assert STALE_CALLS[name](kit, stream) == STALE


@cites("Streams that only the device uses are never waited for", "aclrtSynchronizeStream docs, CANN 9.1")
@since("8.5")
@chips("a2", "a3")
def test_persistent_streams_do_not_wait(kit: Kit) -> None:
    stream = configured(kit, 0, 0x4)
    assert kit.sync(stream) == OK
    assert kit.done(stream)


STATE_CALLBACK = ctypes.CFUNCTYPE(None, P, ctypes.c_int, P)


@cites("A registered callback sees each creation (1) and destruction (2) of a stream", OBSERVED)
@since("8.5")
def test_state_callback(kit: Kit) -> None:
    seen: list[tuple[int, int, int]] = []
    callback = STATE_CALLBACK(lambda stream, state, args: seen.append((stream, state, args)))
    assert kit.acl.aclrtRegStreamStateCallback(b"conformance", callback, 77) == OK
    try:
        stream = kit.acl.out(P, "aclrtCreateStream")
        assert kit.acl.aclrtDestroyStream(stream) == OK
    finally:
        assert kit.acl.aclrtRegStreamStateCallback(b"conformance", None, None) == OK
    assert seen == [(stream, 1, 77), (stream, 2, 77)]
    kit.stream()
    assert len(seen) == 2


@cites("A callback without a name is 100000", "aclrtRegStreamStateCallback of the open runtime, CANN 9.2")
@since("8.5")
def test_state_callback_needs_a_name(kit: Kit) -> None:
    callback = STATE_CALLBACK(lambda *_: None)
    assert kit.acl.aclrtRegStreamStateCallback(None, callback, None) == ACL_PARAM


@cites("A priority and a failure mode are attributes too", "aclrtGetStreamAttribute docs, CANN 9.1")
@since("8.5")
@pytest.mark.parametrize(("attribute", "value"), [(1, 0), (3, 0), (5, 3)])
def test_attributes(kit: Kit, attribute: int, value: int) -> None:
    raw = (ctypes.c_uint32 * 4)(9, 9, 9, 9)
    assert kit.acl.aclrtGetStreamAttribute(configured(kit, 3, 0), attribute, raw) == OK
    assert raw[0] == value


@cites("An unknown attribute is 107000", "aclrtGetStreamAttribute of the open runtime, CANN 9.2")
@since("8.5")
@pytest.mark.parametrize("name", ["aclrtGetStreamAttribute", "aclrtSetStreamAttribute"])
def test_an_unknown_attribute(kit: Kit, name: str) -> None:
    assert getattr(kit.acl, name)(kit.stream(), 99, (ctypes.c_uint32 * 4)()) == PARAM


@cites(
    "aclrtSynchronizeDevice waits for every stream of the context", "aclrtSynchronizeDevice docs, CANN 9.1"
)
def test_device_synchronisation(kit: Kit) -> None:
    pairs = [(kit.pinned(8192, seed=n), kit.device(8192), kit.stream()) for n in range(4)]
    for source, target, stream in pairs:
        assert kit.copy(target, source, H2D, stream) == OK
    assert kit.acl.aclrtSynchronizeDevice() == OK
    for source, target, stream in pairs:
        assert kit.done(stream)
        assert kit.read(target) == kit.read(source)


@cites("Limits for a device wait are -1 or above 0", "aclrtSynchronizeDeviceWithTimeout docs, CANN 9.1")
@since("8.5")
@pytest.mark.parametrize(("timeout_ms", "code"), [(0, PARAM), (-2, PARAM), (-1, OK), (WAIT_MS, OK)])
def test_limits_of_a_device_wait(kit: Kit, timeout_ms: int, code: int) -> None:
    assert kit.acl.aclrtSynchronizeDeviceWithTimeout(timeout_ms) == code


@cites("A device wait that runs out is 507046", "aclrtSynchronizeDeviceWithTimeout docs, CANN 9.1")
@since("8.5")
@needs_control
def test_a_device_wait_runs_out(kit: Kit) -> None:
    stream, hold = kit.stream(), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.acl.aclrtSynchronizeDeviceWithTimeout(1) == STREAM_TIMEOUT
    hold.release()
    assert kit.sync(stream) == OK
