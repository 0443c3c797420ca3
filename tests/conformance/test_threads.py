"""Contexts, threads and devices: which calls need a context, and who shares what."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, cites, since
from conformance.support.codes import (
    ACL_PARAM,
    CONTEXT_RELEASE,
    DEVICE_ID,
    NO_CONTEXT,
    OK,
    STALE,
    WRONG_CONTEXT,
)
from conformance.support.fresh import fresh
from conformance.support.kit import H2D, WAIT_MS, Kit

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.support.face import Acl
    from conformance.support.threads import Side

P = ctypes.c_void_p


def out(ctype: type = P) -> ctypes.c_void_p:
    """An output that a call may fill."""
    made: ctypes.c_void_p = ctypes.byref(ctype())  # type: ignore[assignment]  # what byref gives
    return made


NEED_CONTEXT: dict[str, Callable[[Kit], int]] = {
    "aclrtGetDevice": lambda kit: kit.acl.aclrtGetDevice(out(ctypes.c_int32)),
    "aclrtGetCurrentContext": lambda kit: kit.acl.aclrtGetCurrentContext(out()),
    "aclrtMalloc": lambda kit: kit.acl.aclrtMalloc(out(), 64, 0),
    "aclrtMallocHost": lambda kit: kit.acl.aclrtMallocHost(out(), 64),
    "aclrtCreateStream": lambda kit: kit.acl.aclrtCreateStream(out()),
    "aclrtCreateEventWithFlag": lambda kit: kit.acl.aclrtCreateEventWithFlag(out(), 1),
    "aclrtRecordEvent": lambda kit: kit.acl.aclrtRecordEvent(kit.events[0][0], kit.streams[0]),
    "aclrtStreamQuery": lambda kit: kit.acl.aclrtStreamQuery(kit.streams[0], out(ctypes.c_int)),
    "aclrtSynchronizeStreamWithTimeout": lambda kit: kit.sync(kit.streams[0]),
    "aclrtSynchronizeDevice": lambda kit: kit.acl.aclrtSynchronizeDevice(),
    "aclrtMemcpyAsync": lambda kit: kit.copy(kit.blocks[1], kit.blocks[0], H2D, kit.streams[0]),
    "aclrtMemcpy": lambda kit: kit.acl.aclrtMemcpy(kit.blocks[1].address, 64, kit.blocks[0].address, 64, H2D),
    "aclrtSetStreamFailureMode": lambda kit: kit.acl.aclrtSetStreamFailureMode(kit.streams[0], 0),
}
NEED_NONE: dict[str, Callable[[Kit], int]] = {
    "aclrtQueryEventStatus": lambda kit: kit.acl.aclrtQueryEventStatus(kit.events[0][0], out(ctypes.c_int)),
    "aclrtSynchronizeEvent": lambda kit: kit.acl.aclrtSynchronizeEvent(kit.events[0][0]),
    "aclrtGetDeviceCount": lambda kit: kit.acl.aclrtGetDeviceCount(out(ctypes.c_uint32)),
    "aclrtPointerGetAttributes": lambda kit: kit.acl.aclrtPointerGetAttributes(
        kit.blocks[0].address, ctypes.create_string_buffer(28)
    ),
}


def furnished(kit: Kit) -> Kit:
    kit.stream(), kit.event(), kit.pinned(64), kit.device(64)
    return kit


@cites("Without a current context these calls give 107002", OBSERVED)
@pytest.mark.parametrize("name", NEED_CONTEXT)
def test_needs_a_context(kit: Kit, side: Side, name: str) -> None:
    call = NEED_CONTEXT[name]
    furnished(kit)
    assert side.run(lambda: call(kit)) == NO_CONTEXT


@cites("Without a current context these calls work", OBSERVED)
@pytest.mark.parametrize("name", NEED_NONE)
def test_needs_no_context(kit: Kit, side: Side, name: str) -> None:
    call = NEED_NONE[name]
    furnished(kit)
    assert side.run(lambda: call(kit)) == OK


@cites("Memory and events may be released on a thread without context", OBSERVED)
def test_release_without_context(kit: Kit, side: Side) -> None:
    furnished(kit)
    event, pinned, device = kit.events[0][0], kit.blocks[0].address, kit.blocks[1].address
    assert side.run(lambda: kit.acl.aclrtFreeHost(pinned)) == OK
    assert side.run(lambda: kit.acl.aclrtFree(device)) == OK
    assert side.run(lambda: kit.acl.aclrtDestroyEvent(event)) == OK
    kit.forget(event, pinned, device)


@cites("Threads that set one device share its context and the objects in it", OBSERVED)
def test_threads_share_the_default_context(kit: Kit, side: Side) -> None:
    stream, source, target = kit.stream(), kit.pinned(4096, seed=1), kit.device(4096)

    def there() -> tuple[int, int, int, int]:
        set_code = kit.acl.aclrtSetDevice(0)
        context = kit.acl.out(P, "aclrtGetCurrentContext")
        code = kit.copy(target, source, H2D, stream) or kit.sync(stream)
        return set_code, context, code, kit.acl.aclrtResetDevice(0)

    assert side.run(there) == (OK, kit.acl.out(P, "aclrtGetCurrentContext"), OK, OK)
    assert kit.read(target) == kit.read(source)


@cites("aclrtCreateContext makes the new context current on its thread", "aclrtCreateContext docs, CANN 9.1")
def test_a_new_context_is_current(kit: Kit) -> None:
    before = kit.acl.out(P, "aclrtGetCurrentContext")
    made = kit.acl.out(P, "aclrtCreateContext", 0)
    assert made != before
    assert kit.acl.out(P, "aclrtGetCurrentContext") == made
    assert kit.acl.aclrtSetCurrentContext(before) == OK
    assert kit.acl.out(P, "aclrtGetCurrentContext") == before
    assert kit.acl.aclrtDestroyContext(made) == OK


@cites("The default context is not destroyed by aclrtDestroyContext", "aclrtDestroyContext docs, CANN 9.1")
def test_the_default_context_stays(kit: Kit) -> None:
    before = kit.acl.out(P, "aclrtGetCurrentContext")
    assert kit.acl.aclrtDestroyContext(before) != OK
    assert kit.acl.out(P, "aclrtGetCurrentContext") == before


NULLS: dict[str, Callable[[Acl], int]] = {
    "aclrtCreateContext": lambda acl: acl.aclrtCreateContext(None, 0),
    "aclrtDestroyContext": lambda acl: acl.aclrtDestroyContext(None),
    "aclrtGetCurrentContext": lambda acl: acl.aclrtGetCurrentContext(None),
    "aclrtSetCurrentContext": lambda acl: acl.aclrtSetCurrentContext(None),
    "aclrtGetDevice": lambda acl: acl.aclrtGetDevice(None),
    "aclrtGetDeviceCount": lambda acl: acl.aclrtGetDeviceCount(None),
    "aclrtGetRunMode": lambda acl: acl.aclrtGetRunMode(None),
}


@cites("A null pointer that the ACL layer sees is 100000", "aclError docs, CANN 9.1")
@pytest.mark.parametrize("name", NULLS)
def test_null_pointers(kit: Kit, name: str) -> None:
    assert NULLS[name](kit.acl) == ACL_PARAM


FOREIGN: dict[str, Callable[[Kit, int], int]] = {
    "aclrtMemcpyAsync": lambda kit, s: kit.copy(kit.blocks[1], kit.blocks[0], H2D, s),
    "aclrtRecordEvent": lambda kit, s: kit.acl.aclrtRecordEvent(kit.events[0][0], s),
    "aclrtStreamWaitEvent": lambda kit, s: kit.acl.aclrtStreamWaitEvent(s, kit.events[0][0]),
    "aclrtDestroyStream": lambda kit, s: kit.acl.aclrtDestroyStream(s),
    "aclrtDestroyStreamForce": lambda kit, s: kit.acl.aclrtDestroyStreamForce(s),
}
DOMESTIC: dict[str, Callable[[Kit, int], int]] = {
    "aclrtSynchronizeStreamWithTimeout": lambda kit, s: kit.sync(s),
    "aclrtSynchronizeStream": lambda kit, s: kit.acl.aclrtSynchronizeStream(s),
    "aclrtStreamQuery": lambda kit, s: kit.acl.aclrtStreamQuery(s, out(ctypes.c_int)),
    "aclrtSetStreamFailureMode": lambda kit, s: kit.acl.aclrtSetStreamFailureMode(s, 0),
}


@cites("Work for a stream of another context is 107003; waiting and asking are allowed", OBSERVED)
@pytest.mark.parametrize(
    ("name", "code"), [*((name, WRONG_CONTEXT) for name in FOREIGN), *((name, OK) for name in DOMESTIC)]
)
def test_a_stream_of_another_context(kit: Kit, name: str, code: int) -> None:
    furnished(kit)
    stream = kit.stream()
    here = kit.acl.out(P, "aclrtGetCurrentContext")
    other = kit.acl.out(P, "aclrtCreateContext", 0)
    try:
        assert (FOREIGN | DOMESTIC)[name](kit, stream) == code
    finally:
        assert kit.acl.aclrtSetCurrentContext(here) == OK
        assert kit.acl.aclrtDestroyContext(other) == OK


def unset(acl: Acl) -> dict[str, int]:
    found = {"reset first": acl.aclrtResetDevice(0)}
    found["negative"] = acl.aclrtSetDevice(-1)
    found["too high"] = acl.aclrtSetDevice(4096)
    found["no context"] = acl.aclrtGetCurrentContext(out())
    found["create on none"] = acl.aclrtCreateContext(out(), 4096)
    return found


@cites("A device out of range is 107001; a reset without a set is 507007", OBSERVED)
def test_devices_out_of_range() -> None:
    assert fresh(unset) == {
        "reset first": CONTEXT_RELEASE,
        "negative": DEVICE_ID,
        "too high": DEVICE_ID,
        "no context": NO_CONTEXT,
        "create on none": DEVICE_ID,
    }


def counted(acl: Acl) -> list[int]:
    codes = [acl.aclrtSetDevice(0), acl.aclrtSetDevice(0), acl.aclrtResetDevice(0)]
    codes.append(acl.aclrtGetCurrentContext(out()))
    stream = acl.out(P, "aclrtCreateStream")
    codes.append(acl.aclrtSynchronizeStreamWithTimeout(stream, WAIT_MS))
    codes.append(acl.aclrtResetDevice(0))
    codes.append(acl.aclrtGetCurrentContext(out()))
    codes.append(acl.aclrtResetDevice(0))
    return codes


@cites("aclrtSetDevice counts, and the context lives until the count is 0", OBSERVED)
def test_set_and_reset_count() -> None:
    assert fresh(counted) == [OK, OK, OK, OK, OK, OK, NO_CONTEXT, CONTEXT_RELEASE]


def revived(acl: Acl) -> list[int]:
    acl.aclrtSetDevice(0)
    old = acl.out(P, "aclrtCreateStream")
    codes = [acl.aclrtResetDevice(0), acl.aclrtSetDevice(0)]
    new = acl.out(P, "aclrtCreateStream")
    codes.append(acl.aclrtSynchronizeStreamWithTimeout(new, WAIT_MS))
    codes.append(acl.aclrtSynchronizeStreamWithTimeout(old, WAIT_MS) if acl.profile.since("9.1") else STALE)
    return codes


@cites("The last reset destroys the streams of the default context; a new set works", OBSERVED)
def test_a_device_after_its_reset() -> None:
    assert fresh(revived) == [OK, OK, OK, STALE]


def forced(acl: Acl) -> list[int]:
    codes = [acl.aclrtSetDevice(0), acl.aclrtSetDevice(0), acl.aclrtResetDeviceForce(0)]
    codes.append(acl.aclrtGetCurrentContext(out()))
    codes += [acl.aclrtSetDevice(0), acl.aclrtSynchronizeDevice(), acl.aclrtResetDevice(0)]
    return codes


@cites("aclrtResetDeviceForce ignores the count", "aclrtResetDeviceForce docs, CANN 9.1")
@since("8.5")
def test_a_forced_reset() -> None:
    assert fresh(forced) == [OK, OK, OK, NO_CONTEXT, OK, OK, OK]


def hidden(acl: Acl) -> tuple[int, int]:
    return acl.out(ctypes.c_uint32, "aclrtGetDeviceCount"), acl.aclrtSetDevice(0)


@cites("ASCEND_RT_VISIBLE_DEVICES limits the devices and renumbers them", "aclrtSetDevice docs, CANN 9.1")
def test_visible_devices() -> None:
    assert fresh(hidden, environ={"ASCEND_RT_VISIBLE_DEVICES": "0"}) == (1, OK)


@cites("aclrtGetRunMode is ACL_HOST for a host and ACL_DEVICE on the chip", "aclrtGetRunMode docs, CANN 9.1")
def test_run_mode(kit: Kit) -> None:
    mode = kit.acl.out(ctypes.c_int, "aclrtGetRunMode")
    assert mode == {"ep": 1, "rc": 0}[kit.profile.form]


@cites("The chip's name begins with its family", "aclrtGetSocName docs, CANN 9.1")
def test_soc_name(kit: Kit) -> None:
    start = {
        "a2": "Ascend910B",
        "a3": "Ascend910_93",
        "310p": "Ascend310P",
        "310b": "Ascend310B",
        "910": "Ascend910",
        "950": ("Ascend950", "Ascend910_95"),
    }[kit.profile.chip]
    assert kit.acl.aclrtGetSocName().decode().startswith(start)
