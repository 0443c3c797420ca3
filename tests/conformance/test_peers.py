"""Two devices: peer access and copies between them. Each case has its own process."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest

from conformance.support.cites import OBSERVED, chips, cites, forms, since
from conformance.support.codes import ACL_FEATURE, ACL_PARAM, OK, PARAM, WRONG_CONTEXT
from conformance.support.fresh import fresh
from conformance.support.kit import D2D, H2D, Kit, content

if TYPE_CHECKING:
    from conformance.support.face import Acl

P, I32 = ctypes.c_void_p, ctypes.c_int32
TWO = {"ACLSIM_DEVICES": "2"}
# 310B has no peer access, and neither has a chip that runs the program itself (aclrtDeviceEnablePeerAccess).
PEERS = ("910", "310p", "a2", "a3", "950")


def set_two(acl: Acl) -> None:
    if acl.out(ctypes.c_uint32, "aclrtGetDeviceCount") < 2:
        pytest.skip("needs two devices")
    assert [acl.aclrtSetDevice(1), acl.aclrtSetDevice(0)] == [OK, OK]


def access(acl: Acl, calls: list[tuple[Any, ...]]) -> list[int]:
    set_two(acl)
    names = {"enable": "aclrtDeviceEnablePeerAccess", "disable": "aclrtDeviceDisablePeerAccess"}
    return [getattr(acl, names[name])(*args) for name, *args in calls]


CASES: dict[str, tuple[list[tuple[Any, ...]], list[int]]] = {
    "twice": ([("enable", 1, 0), ("enable", 1, 0)], [OK, OK]),
    "off twice": ([("enable", 1, 0), ("disable", 1), ("disable", 1)], [OK, OK, OK]),
    "flags": ([("enable", 1, 1)], [ACL_FEATURE]),
    "itself": ([("enable", 0, 0)], [ACL_PARAM]),
    "itself off": ([("disable", 0)], [ACL_PARAM]),
}


@cites("Enabling and disabling repeat freely; flags are 200006, the device itself 100000", OBSERVED)
@chips(*PEERS)
@forms("ep")
@pytest.mark.parametrize("case", CASES)
def test_access(case: str) -> None:
    calls, codes = CASES[case]
    assert fresh(access, calls, environ=TWO) == codes


def possible(acl: Acl) -> list[tuple[int, int]]:
    set_two(acl)
    found = []
    for device, peer in ((0, 1), (1, 0)):
        can = I32(-1)
        code = acl.aclrtDeviceCanAccessPeer(ctypes.byref(can), device, peer)
        found.append((code, can.value))
    return found


@cites("Two devices of one host can access each other, or say that they cannot", "CANN 9.1 docs")
@chips(*PEERS)
@forms("ep")
def test_possible() -> None:
    for code, can in fresh(possible, environ=TWO):
        assert code == OK
        assert can in (0, 1)


def null_can(acl: Acl) -> list[int]:
    set_two(acl)
    return [
        acl.aclrtDeviceCanAccessPeer(None, 0, 1),
        acl.aclrtDeviceCanAccessPeer(ctypes.byref(I32()), 0, 0),
    ]


@cites("Here the runtime sees the null, 107000; a device and itself are 100000", "the open runtime, CANN 9.2")
def test_null() -> None:
    assert fresh(null_can, environ=TWO) == [PARAM, ACL_PARAM]


def status(acl: Acl) -> list[int]:
    set_two(acl)
    found = []
    for act in (None, "aclrtDeviceEnablePeerAccess", "aclrtDeviceDisablePeerAccess"):
        if act is not None:
            assert getattr(acl, act)(*((1, 0) if "Enable" in act else (1,))) == OK
        found.append(acl.out_last(I32, "aclrtDevicePeerAccessStatus", 0, 1))
    return found


@cites("The state of the access can be asked for", "aclrtDevicePeerAccessStatus docs, CANN 9.1")
@chips(*PEERS)
@forms("ep")
@since("8.5")
def test_status() -> None:
    assert fresh(status, environ=TWO) == [0, 1, 0]


def across(acl: Acl, enable: bool) -> tuple[list[int], bool]:
    """Upload to device 0, copy to device 1 on a stream of device 0."""
    set_two(acl)
    kit = Kit(acl)
    acl.aclrtSetDevice(1)
    there = kit.device(4096)
    acl.aclrtSetDevice(0)
    here, stream = kit.device(4096, seed=1), kit.stream()
    codes = [acl.aclrtDeviceEnablePeerAccess(1, 0)] if enable else []
    codes += [kit.copy(there, here, D2D, stream), kit.sync(stream)]
    acl.aclrtSetDevice(1)
    return codes, kit.read(there) == content(4096, 1)


@cites("A copy between devices goes on a stream of the current device", "aclrtMemcpyAsync docs, CANN 9.1")
@chips(*PEERS)
@forms("ep")
def test_copy_between_devices() -> None:
    assert fresh(across, True, environ=TWO) == ([OK, OK, OK], True)


@cites("On A3 no access has to be enabled", "aclrtMemcpyAsync docs, CANN 9.1")
@chips("a3")
def test_copy_without_access() -> None:
    assert fresh(across, False, environ=TWO) == ([OK, OK], True)


def foreign(acl: Acl) -> int:
    set_two(acl)
    kit = Kit(acl)
    acl.aclrtSetDevice(1)
    stream = kit.stream()
    acl.aclrtSetDevice(0)
    return kit.copy(kit.device(64), kit.pinned(64), H2D, stream)


@cites("A stream of the other device is 107003", OBSERVED)
def test_stream_of_the_other_device() -> None:
    assert fresh(foreign, environ=TWO) == WRONG_CONTEXT


def switched(acl: Acl) -> list[int]:
    set_two(acl)
    contexts = []
    for device in (0, 1, 0):
        acl.aclrtSetDevice(device)
        contexts.append(acl.out(P, "aclrtGetCurrentContext"))
    acl.aclrtSetCurrentContext(contexts[1])
    return [contexts[0] == contexts[2], contexts[0] != contexts[1], acl.out(I32, "aclrtGetDevice")]


@cites("Each device has its own default context; making one current switches the device", OBSERVED)
def test_contexts_of_devices() -> None:
    assert fresh(switched, environ=TWO) == [True, True, 1]


def order_of_visible(acl: Acl) -> tuple[int, int]:
    count = acl.out(ctypes.c_uint32, "aclrtGetDeviceCount")
    return count, acl.aclrtSetDevice(1)


@cites("Of two devices one may be hidden; the numbers begin at 0", "aclrtSetDevice docs, CANN 9.1")
def test_hidden_device() -> None:
    count, code = fresh(order_of_visible, environ={**TWO, "ASCEND_RT_VISIBLE_DEVICES": "1"})
    assert count == 1
    assert code != OK
