"""aclrtMemcpyAsync and aclrtMemcpy: what is refused, in which order, and what arrives."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, chips, cites, forms, needs_control, since, until
from conformance.support.codes import ACL_PARAM, NO_CONTEXT, OK, PARAM, STALE, UNSUPPORTED, WRONG_CONTEXT
from conformance.support.kit import BUF, D2D, D2H, DEFAULT, H2D, H2H, Kit, content

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.support.threads import Side

P = ctypes.c_void_p
N = 64
DOCS = "aclrtMemcpyAsync docs, CANN 9.1"


def raw(kit: Kit, dst: int | None, dest_max: int, src: int | None, count: int, kind: int) -> int:
    code: int = kit.acl.aclrtMemcpyAsync(dst, dest_max, src, count, kind, None)
    return code


# ---- zero bytes ----

ZERO: dict[str, Callable[[Kit], tuple[int | None, int | None, int]]] = {
    "null pointers": lambda kit: (None, None, 0),
    "null source": lambda kit: (kit.device(N).address, None, H2D),
    "unknown kind": lambda kit: (kit.device(N).address, kit.pinned(N).address, 99),
    "good": lambda kit: (kit.device(N).address, kit.pinned(N).address, H2D),
}


@cites("From 9.1 on a copy of 0 bytes succeeds before anything is checked", OBSERVED)
@since("9.1")
@pytest.mark.parametrize("case", ZERO)
@pytest.mark.parametrize("dest_max", [0, N])
def test_zero_bytes(kit: Kit, case: str, dest_max: int) -> None:
    dst, src, kind = ZERO[case](kit)
    assert raw(kit, dst, dest_max, src, 0, kind) == OK


@cites("Before 9.1 a copy of 0 bytes is 107000, after the ACL layer's own checks", "runtime tag v9.0.0")
@until("9.0")
@pytest.mark.parametrize(
    ("case", "code"),
    [("null pointers", ACL_PARAM), ("null source", ACL_PARAM), ("unknown kind", ACL_PARAM), ("good", PARAM)],
)
def test_zero_bytes_before(kit: Kit, case: str, code: int) -> None:
    dst, src, kind = ZERO[case](kit)
    assert raw(kit, dst, N, src, 0, kind) == code


# ---- refusals, one at a time ----


@cites("A null pointer is 100000", OBSERVED)
@pytest.mark.parametrize("null", ["dst", "src"])
def test_null_pointers(kit: Kit, null: str) -> None:
    dst, src = kit.device(N).address, kit.pinned(N).address
    assert raw(kit, None if null == "dst" else dst, N, None if null == "src" else src, N, H2D) == ACL_PARAM


@cites("Kinds 6, 7 and unknown numbers are 100000", OBSERVED)
@pytest.mark.parametrize("kind", [6, 7, 8, 99, -1])
def test_unknown_kinds(kit: Kit, kind: int) -> None:
    assert kit.copy(kit.device(N), kit.pinned(N), kind, None) == ACL_PARAM


@cites("More bytes than destMax are 107000, and nothing is copied", OBSERVED)
def test_dest_max(kit: Kit) -> None:
    source, target = kit.pinned(N, seed=1), kit.device(N)
    assert raw(kit, target.address, 4, source.address, 8, H2D) == PARAM
    assert kit.sync(None) == OK
    assert kit.read(target) == bytes(N)


@cites("destMax may equal the count or be larger", DOCS)
@pytest.mark.parametrize("spare", [0, 1, 1 << 40])
def test_dest_max_fits(kit: Kit, spare: int) -> None:
    source, target = kit.pinned(N, seed=1), kit.device(N)
    assert raw(kit, target.address, N + spare, source.address, N, H2D) == OK
    assert kit.sync(None) == OK
    assert kit.read(target) == kit.read(source)


@cites("A copy onto itself is success without work", OBSERVED)
@since("8.5")
def test_onto_itself(kit: Kit) -> None:
    block = kit.device(N, seed=3)
    assert kit.copy(block, block, D2D, None) == OK
    assert kit.sync(None) == OK
    assert kit.read(block) == content(N, 3)


# ---- the order of the checks: of two faults the earlier one is reported ----


def foreign(kit: Kit, call: Callable[[int], int]) -> int:
    """The call's code for a stream of another context."""
    stream = kit.stream()
    here = kit.acl.out(P, "aclrtGetCurrentContext")
    other = kit.acl.out(P, "aclrtCreateContext", 0)
    try:
        return call(stream)
    finally:
        assert kit.acl.aclrtSetCurrentContext(here) == OK
        assert kit.acl.aclrtDestroyContext(other) == OK


@cites("The kind's range is checked before destMax", "aclrtMemcpyAsync of the open runtime, CANN 9.2")
def test_kind_before_dest_max(kit: Kit) -> None:
    assert raw(kit, kit.device(N).address, 4, kit.pinned(N).address, 8, 99) == ACL_PARAM


@cites("A destroyed stream is noticed before destMax", "aclrtMemcpyAsync of the open runtime, CANN 9.2")
@since("9.1")
def test_handle_before_dest_max(kit: Kit) -> None:
    stream, source, target = kit.stream(), kit.pinned(N), kit.device(N)
    assert kit.acl.aclrtDestroyStream(stream) == OK
    kit.forget(stream)
    assert kit.acl.aclrtMemcpyAsync(target.address, 4, source.address, 8, H2D, stream) == STALE
    assert kit.acl.aclrtMemcpyAsync(None, 4, source.address, 8, H2D, stream) == ACL_PARAM


@cites("destMax is checked before the context", "aclrtMemcpyAsync of the open runtime, CANN 9.2")
@since("8.5")
def test_dest_max_before_context(kit: Kit, side: Side) -> None:
    source, target = kit.pinned(N).address, kit.device(N).address
    assert side.run(lambda: raw(kit, target, 4, source, 8, H2D)) == PARAM
    assert side.run(lambda: raw(kit, target, 8, source, 8, H2D)) == NO_CONTEXT


@cites("H2H is refused before the stream's context is looked at", "the open runtime, CANN 9.2")
@since("8.5")
@forms("ep")
def test_h2h_before_stream_context(kit: Kit) -> None:
    source, target = kit.pinned(N), kit.pinned(N)
    assert foreign(kit, lambda stream: kit.copy(target, source, H2H, stream)) == UNSUPPORTED


@cites("A stream of another context is 107003", OBSERVED)
def test_stream_of_another_context(kit: Kit) -> None:
    source, target = kit.pinned(N), kit.device(N)
    assert foreign(kit, lambda stream: kit.copy(target, source, H2D, stream)) == WRONG_CONTEXT


@cites("H2H asynchronous is 207000 when the host runs the program", DOCS)
@forms("ep")
def test_h2h(kit: Kit) -> None:
    assert kit.copy(kit.pinned(N), kit.pinned(N), H2H, None) == UNSUPPORTED


@cites("On the chip itself H2H, H2D and D2H run as copies inside the device", DOCS)
@forms("rc")
@pytest.mark.parametrize(
    ("kind", "src", "dst"),
    [(H2H, "host", "host"), (H2D, "host", "device"), (D2H, "device", "host"), (D2D, "device", "device")],
)
def test_kinds_on_the_chip(kit: Kit, kind: int, src: str, dst: str) -> None:
    source, target = kit.place(src, 4096, seed=4), kit.place(dst, 4096)
    assert kit.copy(target, source, kind, None) == OK
    assert kit.sync(None) == OK
    assert kit.read(target) == content(4096, 4)


# ---- content and order ----


@cites("Any address and any length may be copied", "the open runtime has no alignment check, CANN 8.5 to 9.2")
@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 4097, 1 << 20])
@pytest.mark.parametrize("offset", [0, 1, 63])
def test_content(kit: Kit, nbytes: int, offset: int) -> None:
    up, down = kit.pinned(nbytes + offset, seed=5), kit.pinned(nbytes + 2 * offset)
    here, there = kit.device(nbytes + offset), kit.device(nbytes)
    stream = kit.stream()
    copy = kit.acl.aclrtMemcpyAsync
    assert copy(here.at(offset), nbytes, up.at(offset), nbytes, H2D, stream) == OK
    assert copy(there.address, nbytes, here.at(offset), nbytes, D2D, stream) == OK
    assert copy(down.at(offset), nbytes, there.address, nbytes, D2H, stream) == OK
    assert kit.sync(stream) == OK
    whole = bytes(offset) + kit.read(up)[offset:] + bytes(offset)
    assert kit.read(down) == whole


@cites("Copies of one stream run in the order of their submission", DOCS)
def test_one_stream_is_in_order(kit: Kit) -> None:
    sources, target, stream = [kit.pinned(4096, seed=n) for n in range(8)], kit.device(4096), kit.stream()
    for source in sources:
        assert kit.copy(target, source, H2D, stream) == OK
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(4096, 7)


@cites("A pinned source is read when the copy runs, not when it is submitted", DOCS)
@needs_control
def test_pinned_sources_are_read_late(kit: Kit) -> None:
    source, target, stream, hold = kit.pinned(4096, seed=1), kit.device(4096), kit.stream(), kit.hold("h2d")
    assert kit.copy(target, source, H2D, stream) == OK
    kit.write(source, content(4096, 2))
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(4096, 2)


@cites("Kind 5 takes the bytes during the call; the source may change at once", OBSERVED)
@forms("ep")
@pytest.mark.parametrize("place", ["host", "pageable"])
def test_buffered_kind(kit: Kit, place: str) -> None:
    source, target, stream = kit.place(place, 4096, seed=1), kit.device(4096), kit.stream()
    if kit.acl.simulated:
        kit.hold("h2d")
    assert kit.copy(target, source, BUF, stream) == OK
    kit.write(source, content(4096, 2))
    while kit.holds:
        assert not kit.done(stream)  # also for pageable memory it stays asynchronous
        kit.holds.pop().release()
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(4096, 1)


@cites("Kind 5 is from host to device only, checked from 9.1 on", DOCS)
@since("9.1")
@forms("ep")
@pytest.mark.parametrize(("src", "dst"), [("device", "device"), ("device", "host"), ("host", "host")])
def test_buffered_kind_elsewhere(kit: Kit, src: str, dst: str) -> None:
    assert kit.copy(kit.place(dst, N), kit.place(src, N), BUF, None) == PARAM


# ---- pageable memory ----


@cites("From 8.5 on a copy of pageable memory waits for its stream and returns when done", OBSERVED)
@since("8.5")
@forms("ep")
@needs_control
def test_pageable_waits_for_the_stream(kit: Kit, side: Side) -> None:
    stream, before, first = kit.stream(), kit.pinned(4096, seed=1), kit.device(4096)
    source, target, hold = kit.pageable(4096, seed=2), kit.device(4096), kit.hold("h2d")
    assert kit.copy(first, before, H2D, stream) == OK

    def there() -> tuple[int, bool]:
        assert kit.acl.aclrtSetDevice(0) == OK
        code = kit.copy(target, source, H2D, stream)
        done = kit.done(stream)
        assert kit.acl.aclrtResetDevice(0) == OK
        return code, done

    future = side.start(there)
    assert not future.done()
    hold.release()
    assert future.result(20) == (OK, True)
    assert kit.read(first) == content(4096, 1)
    assert kit.read(target) == content(4096, 2)


@cites("Up to 8.3 pageable memory is accepted like any other", "aclrtMemcpyAsync docs, CANN 8.3 and before")
@until("8.3")
@forms("ep")
@pytest.mark.parametrize("direction", ["up", "down"])
def test_pageable_before(kit: Kit, direction: str) -> None:
    host, device = kit.pageable(4096, seed=1), kit.device(4096, seed=2)
    if direction == "up":
        assert kit.copy(device, host, H2D, None) == OK
    else:
        assert kit.copy(host, device, D2H, None) == OK
    assert kit.sync(None) == OK
    assert kit.read(host) == kit.read(device) == content(4096, 1 if direction == "up" else 2)


# ---- the synchronous copy ----


@cites("aclrtMemcpy finds the direction itself, whatever the kind says", OBSERVED)
@since("8.5")
@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D, DEFAULT])
@pytest.mark.parametrize("src", ["host", "device", "pageable"])
@pytest.mark.parametrize("dst", ["host", "device", "pageable"])
def test_synchronous_copy(kit: Kit, src: str, dst: str, kind: int) -> None:
    source, target = kit.place(src, 4096, seed=6), kit.place(dst, 4096)
    assert kit.acl.aclrtMemcpy(target.address, 4096, source.address, 4096, kind) == OK
    assert kit.read(target) == content(4096, 6)


SYNC_REFUSALS: dict[str, tuple[Callable[[int, int], tuple[int | None, int, int | None, int, int]], int]] = {
    "null dst": (lambda d, s: (None, N, s, N, H2D), ACL_PARAM),
    "null src": (lambda d, s: (d, N, None, N, H2D), ACL_PARAM),
    "kind 99": (lambda d, s: (d, N, s, N, 99), ACL_PARAM),
    "dest_max": (lambda d, s: (d, 4, s, 8, H2D), PARAM),
}


@cites("aclrtMemcpy refuses as the asynchronous copy does", OBSERVED)
@pytest.mark.parametrize("case", SYNC_REFUSALS)
def test_synchronous_refusals(kit: Kit, case: str) -> None:
    arguments, code = SYNC_REFUSALS[case]
    assert kit.acl.aclrtMemcpy(*arguments(kit.device(N).address, kit.pinned(N).address)) == code


@cites("aclrtMemcpy of 0 bytes: success from 9.1 on, 107000 before", "the open runtime, CANN 9.0 and 9.1")
def test_synchronous_zero_bytes(kit: Kit) -> None:
    code = kit.acl.aclrtMemcpy(kit.device(N).address, N, kit.pinned(N).address, 0, H2D)
    assert code == (OK if kit.profile.since("9.1") else PARAM)


@cites("aclrtMemcpy does not wait for queued work and may overtake it", "aclrtMemcpy docs, CANN 9.1")
@needs_control
def test_synchronous_copy_overtakes(kit: Kit) -> None:
    stream, queued, target, hold = kit.stream(), kit.pinned(4096, seed=1), kit.device(4096), kit.hold("h2d")
    assert kit.copy(target, queued, H2D, stream) == OK
    kit.write(target, content(4096, 2))
    assert kit.read(target) == content(4096, 2)
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(4096, 1)


# ---- splitting ----


def last_task(kit: Kit) -> int:
    task: int = kit.acl.out(ctypes.c_uint32, "aclrtGetThreadLastTaskId")
    return task


@cites(
    "One task moves at most 64 MiB to or from the host, 256 MiB on 950; inside a device up to 4 GiB", OBSERVED
)
@since("8.5")
@forms("ep")
@pytest.mark.parametrize(("direction", "kind"), [("h2d", H2D), ("d2h", D2H), ("d2d", D2D)])
def test_large_copies_are_several_tasks(kit: Kit, direction: str, kind: int) -> None:
    nbytes = 200 << 20
    places = {"h2d": ("host", "device"), "d2h": ("device", "host"), "d2d": ("device", "device")}[direction]
    source, target = (kit.place(place, nbytes) for place in places)
    probe, stream = kit.pinned(N), kit.stream()
    chunk = 4 << 30 if direction == "d2d" else (256 << 20 if kit.profile.chip == "950" else 64 << 20)
    small = kit.device(N)
    assert kit.copy(small, probe, H2D, stream) == OK
    before = last_task(kit)
    assert kit.copy(target, source, kind, stream) == OK
    tasks = (last_task(kit) - before) % 65536
    assert tasks == -(-nbytes // chunk)
    assert kit.sync(stream, 60_000) == OK


@cites("aclrtMemcpyAsyncWithCondition copies pinned memory like the plain call", "CANN 9.1 docs")
@since("8.5")
def test_with_condition(kit: Kit) -> None:
    source, target, stream = kit.pinned(4096, seed=1), kit.device(4096), kit.stream()
    code = kit.acl.aclrtMemcpyAsyncWithCondition(target.address, 4096, source.address, 4096, H2D, stream)
    assert code == OK
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(4096, 1)


@cites("The offset variant reads its addresses from device memory and takes kind 6 only", "CANN 9.1 docs")
@since("8.5")
@chips("a2", "a3", "950", "910")
@pytest.mark.parametrize(("kind", "code"), [(6, OK), (D2D, PARAM), (H2D, PARAM)])
def test_with_offset(kit: Kit, kind: int, code: int) -> None:
    source, target, stream = kit.device(4096, seed=1), kit.device(4096), kit.stream()
    dst, src = kit.device(64), kit.device(64)
    for pointer, block in ((dst, target), (src, source)):
        kit.write(pointer, block.address.to_bytes(8, "little"))
    copy = kit.acl.aclrtMemcpyAsyncWithOffset
    assert copy(dst.address, 4096 - 128, 128, src.address, 64, 256, kind, stream) == code
    assert kit.sync(stream) == OK
    assert kit.read(target)[128:192] == (content(4096, 1)[256:320] if code == OK else bytes(64))
