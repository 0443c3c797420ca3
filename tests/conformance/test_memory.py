"""Allocation, release, filling and asking about memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, cites, forms, needs_control, since
from conformance.support.codes import ACL_PARAM, NO_MEMORY, OK, PARAM
from conformance.support.kit import H2D, Kit, content

if TYPE_CHECKING:
    from collections.abc import Callable

P, SIZE = ctypes.c_void_p, ctypes.c_size_t
DEVICE_ALLOCATORS = ("aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocCached")


@cites("Device memory is 64-byte aligned", "aclrtMalloc docs, CANN 9.1")
@pytest.mark.parametrize("name", DEVICE_ALLOCATORS)
@pytest.mark.parametrize("policy", range(3))
def test_device_allocation(kit: Kit, name: str, policy: int) -> None:
    addresses = [kit.acl.out(P, name, nbytes, policy) for nbytes in (1, 33, 4096)]
    assert [address % (32 if name.endswith("32") else 64) for address in addresses] == [0, 0, 0]
    assert [kit.acl.aclrtFree(address) for address in addresses] == [OK, OK, OK]


@cites("Pinned memory is 64-byte aligned", "aclrtMallocHost docs, CANN 9.1")
@pytest.mark.parametrize("nbytes", [1, 65, 1 << 20])
def test_pinned_allocation(kit: Kit, nbytes: int) -> None:
    assert kit.pinned(nbytes).address % 64 == 0


REFUSED: dict[str, Callable[[Kit], int]] = {
    "aclrtMalloc null": lambda kit: kit.acl.aclrtMalloc(None, 64, 0),
    "aclrtMalloc 0": lambda kit: kit.acl.aclrtMalloc(ctypes.byref(P()), 0, 0),
    "aclrtMallocHost null": lambda kit: kit.acl.aclrtMallocHost(None, 64),
    "aclrtMallocHost 0": lambda kit: kit.acl.aclrtMallocHost(ctypes.byref(P()), 0),
    "aclrtFree null": lambda kit: kit.acl.aclrtFree(None),
    "aclrtFreeHost null": lambda kit: kit.acl.aclrtFreeHost(None),
    "aclrtGetMemInfo free": lambda kit: kit.acl.aclrtGetMemInfo(1, None, ctypes.byref(SIZE())),
    "aclrtGetMemInfo total": lambda kit: kit.acl.aclrtGetMemInfo(1, ctypes.byref(SIZE()), None),
    "aclrtMemset null": lambda kit: kit.acl.aclrtMemset(None, 64, 0, 64),
    "aclrtMemsetAsync null": lambda kit: kit.acl.aclrtMemsetAsync(None, 64, 0, 64, None),
    "aclrtMallocWithCfg null": lambda kit: kit.acl.aclrtMallocWithCfg(None, 64, 0, None),
    "aclrtMallocHostWithCfg null": lambda kit: kit.acl.aclrtMallocHostWithCfg(None, 64, None),
    "aclrtMemFlush null": lambda kit: kit.acl.aclrtMemFlush(None, 64),
    "aclrtMemInvalidate null": lambda kit: kit.acl.aclrtMemInvalidate(None, 64),
    "aclrtMemsetD32 null": lambda kit: kit.acl.aclrtMemsetD32(None, 64, 0, 16),
    "aclrtMemsetD32Async null": lambda kit: kit.acl.aclrtMemsetD32Async(None, 64, 0, 16, None),
}


@cites("Null pointers and size 0 are 100000", OBSERVED)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(kit: Kit, name: str) -> None:
    assert REFUSED[name](kit) == ACL_PARAM


@cites("Policies unknown to the documents are not rejected", OBSERVED)
def test_unknown_policy(kit: Kit) -> None:
    address = kit.acl.out(P, "aclrtMalloc", 64, 99)
    assert kit.acl.aclrtFree(address) == OK


@cites("Freeing what was not allocated is 107000", OBSERVED)
@pytest.mark.parametrize("name", ["aclrtFree", "aclrtFreeHost"])
def test_free_unknown(kit: Kit, name: str) -> None:
    assert getattr(kit.acl, name)(kit.pageable(64).address) == PARAM


@cites("Freeing twice is 107000", OBSERVED)
def test_free_twice(kit: Kit) -> None:
    address = kit.acl.out(P, "aclrtMalloc", 64, 0)
    assert [kit.acl.aclrtFree(address), kit.acl.aclrtFree(address)] == [OK, PARAM]


@cites("More than the device has is 207001, and the next allocation works", "aclError docs, CANN 9.1")
def test_out_of_memory(kit: Kit) -> None:
    assert kit.acl.aclrtMalloc(ctypes.byref(P()), 1 << 50, 0) == NO_MEMORY
    assert kit.device(64).address


@cites("aclrtFree and aclrtFreeHost do not wait for queued work", OBSERVED)
@needs_control
@pytest.mark.parametrize("place", ["host", "device"])
def test_free_does_not_wait(kit: Kit, place: str) -> None:
    stream, other, hold = kit.stream(), kit.place(place, 4096), kit.hold("h2d")
    assert kit.copy(kit.device(4096), kit.pinned(4096), H2D, stream) == OK
    assert getattr(kit.acl, {"host": "aclrtFreeHost", "device": "aclrtFree"}[place])(other.address) == OK
    kit.forget(other.address)
    assert not kit.done(stream)
    hold.release()
    assert kit.sync(stream) == OK


@cites("The variants with synchronisation wait for the device first", "aclrtFreeWithDevSync docs, CANN 9.1")
@since("8.5")
@pytest.mark.parametrize("place", ["host", "device"])
def test_free_with_synchronisation(kit: Kit, place: str) -> None:
    stream, source, target = kit.stream(), kit.pinned(1 << 20, seed=1), kit.device(1 << 20)
    assert kit.copy(target, source, H2D, stream) == OK
    block, name = (
        (source, "aclrtFreeHostWithDevSync") if place == "host" else (target, "aclrtFreeWithDevSync")
    )
    assert getattr(kit.acl, name)(block.address) == OK
    kit.forget(block.address)
    assert kit.done(stream)


LOCATIONS = {"host": 0, "device": 1, "pageable": 2}


@cites("Pinned memory is type 0, device memory 1, other memory 2", OBSERVED)
@since("8.5")
@forms("ep")
@pytest.mark.parametrize("place", LOCATIONS)
@pytest.mark.parametrize("offset", [0, 100])
def test_attributes(kit: Kit, place: str, offset: int) -> None:
    raw = (ctypes.c_uint32 * 7)(*[99] * 7)
    assert kit.acl.aclrtPointerGetAttributes(kit.place(place, 4096).at(offset), raw) == OK
    assert raw[1] == LOCATIONS[place]
    if place != "pageable":
        assert raw[0] == 0


@cites("Null arguments of aclrtPointerGetAttributes are refused", "the open runtime, CANN 9.2")
@since("8.5")
@pytest.mark.parametrize("null", ["ptr", "attributes"])
def test_attributes_null(kit: Kit, null: str) -> None:
    raw = (ctypes.c_uint32 * 7)()
    args = (None, raw) if null == "ptr" else (kit.device(64).address, None)
    assert kit.acl.aclrtPointerGetAttributes(*args) in (ACL_PARAM, PARAM)


@cites("The block of any address inside it", "aclrtMemGetAddressRange docs, CANN 9.1")
@since("9.0")
@pytest.mark.parametrize("offset", [0, 1000])
def test_address_range(kit: Kit, offset: int) -> None:
    block, base, nbytes = kit.device(4096), P(), SIZE()
    assert kit.acl.aclrtMemGetAddressRange(block.at(offset), ctypes.byref(base), ctypes.byref(nbytes)) == OK
    assert base.value == block.address
    assert nbytes.value >= 4096


def free_bytes(kit: Kit, attribute: int) -> tuple[int, int]:
    free, total = SIZE(), SIZE()
    assert kit.acl.aclrtGetMemInfo(attribute, ctypes.byref(free), ctypes.byref(total)) == OK
    return free.value, total.value


@cites("Free memory shrinks by an allocation and is at most the total", "aclrtGetMemInfo docs, CANN 9.1")
def test_memory_info(kit: Kit) -> None:
    attribute = 1 if kit.profile.chip in ("a2", "a3", "910", "950") else 0
    before, total = free_bytes(kit, attribute)
    kit.device(64 << 20)
    after, same = free_bytes(kit, attribute)
    assert 0 < after < before <= total == same
    assert before - after >= 64 << 20


# ---- filling ----


@cites("aclrtMemset fills count bytes with the low byte of the value", "aclrtMemset docs, CANN 9.1")
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("place", ["host", "device"])
@pytest.mark.parametrize(("value", "byte"), [(0, 0), (0x5A, 0x5A), (0x1FF, 0xFF)])
def test_memset(kit: Kit, way: str, place: str, value: int, byte: int) -> None:
    block = kit.place(place, 4096, seed=1)
    if way == "sync":
        assert kit.acl.aclrtMemset(block.at(3), 4000, value, 1000) == OK
    else:
        assert kit.acl.aclrtMemsetAsync(block.at(3), 4000, value, 1000, None) == OK
        assert kit.sync(None) == OK
    was = content(4096, 1)
    assert kit.read(block) == was[:3] + bytes([byte]) * 1000 + was[1003:]


@cites(
    "An asynchronous fill of more than maxCount is 107000", "aclrtMemsetAsync of the open runtime, CANN 9.2"
)
def test_memset_limit(kit: Kit) -> None:
    block = kit.device(64, seed=1)
    assert kit.acl.aclrtMemsetAsync(block.address, 4, 0, 8, None) == PARAM
    assert kit.read(block) == content(64, 1)


@cites("A fill of 0 bytes is success from 9.1 on", "aclrtMemset of the open runtime, CANN 9.2")
@since("9.1")
@pytest.mark.parametrize("name", ["aclrtMemset", "aclrtMemsetAsync"])
def test_memset_of_nothing(kit: Kit, name: str) -> None:
    assert getattr(kit.acl, name)(None, 0, 0, 0, *([None] if name.endswith("Async") else [])) == OK


@cites("Device memory is filled in stream order, host memory at once", OBSERVED)
@needs_control
@forms("ep")
@pytest.mark.parametrize(("place", "at_once"), [("device", False), ("host", True)])
def test_memset_order(kit: Kit, place: str, at_once: bool) -> None:
    stream, block, hold = kit.stream(), kit.place(place, 4096, seed=1), kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.acl.aclrtMemsetAsync(block.address, 4096, 7, 4096, stream) == OK
    assert kit.read(block) == (bytes([7]) * 4096 if at_once else content(4096, 1))
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.read(block) == bytes([7]) * 4096


@cites(
    "aclrtMemsetD32 fills words on A2, A3 and 950; elsewhere it succeeds without filling", "CANN 9.2 sources"
)
@since("9.1")
@pytest.mark.parametrize("way", ["sync", "async"])
def test_memset_words(kit: Kit, way: str) -> None:
    block = kit.device(64)
    if way == "sync":
        assert kit.acl.aclrtMemsetD32(block.address, 64, 0x01020304, 8) == OK
    else:
        assert kit.acl.aclrtMemsetD32Async(block.address, 64, 0x01020304, 8, None) == OK
        assert kit.sync(None) == OK
    filled = kit.profile.chip in ("a2", "a3", "950")
    assert kit.read(block) == (bytes([4, 3, 2, 1]) * 8 if filled else bytes(32)) + bytes(32)


@cites("Words must be aligned and fit", "aclrtMemsetD32 of the open runtime, CANN 9.2")
@since("9.1")
@pytest.mark.parametrize("name", ["aclrtMemsetD32", "aclrtMemsetD32Async"])
@pytest.mark.parametrize(("offset", "n", "code"), [(2, 4, ACL_PARAM), (0, 17, ACL_PARAM), (0, 0, OK)])
def test_memset_words_refused(kit: Kit, name: str, offset: int, n: int, code: int) -> None:
    block = kit.device(64)
    stream = [None] if name.endswith("Async") else []
    assert getattr(kit.acl, name)(block.at(offset), 64, 1, n, *stream) == code


@cites("Cached memory can be flushed and invalidated", "aclrtMemFlush docs, CANN 9.1")
@forms("rc")
@pytest.mark.parametrize("name", ["aclrtMemFlush", "aclrtMemInvalidate"])
def test_cache(kit: Kit, name: str) -> None:
    assert getattr(kit.acl, name)(kit.device(4096).address, 4096) == OK
    assert getattr(kit.acl, name)(kit.device(4096).address, 0) == ACL_PARAM
