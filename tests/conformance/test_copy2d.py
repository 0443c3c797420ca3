"""aclrtMemcpy2d and aclrtMemcpy2dAsync: rows with a pitch."""

from __future__ import annotations

import pytest

from conformance.support.cites import OBSERVED, chips, cites, forms, since
from conformance.support.codes import ACL_PARAM, OK, PARAM, UNSUPPORTED
from conformance.support.kit import BUF, D2D, D2H, DEFAULT, H2D, H2H, Block, Kit

pytestmark = forms("ep")
WAYS = ("sync", "async")
DOCS = "aclrtMemcpy2d docs, CANN 9.1"
MAX_WIDTH, MAX_HEIGHT = 5_000_000, 5 * 1024 * 1024


def copy2d(
    kit: Kit, way: str, dst: int | None, dpitch: int, src: int | None, spitch: int, w: int, h: int, kind: int
) -> int:
    """Both ways are finished when it returns."""
    if way == "sync":
        code: int = kit.acl.aclrtMemcpy2d(dst, dpitch, src, spitch, w, h, kind)
        return code
    code = kit.acl.aclrtMemcpy2dAsync(dst, dpitch, src, spitch, w, h, kind, None)
    return code or kit.sync(None)


def rows(data: bytes, pitch: int, width: int, height: int) -> list[bytes]:
    return [data[row * pitch : row * pitch + width] for row in range(height)]


def check(kit: Kit, target: Block, dpitch: int, source: Block, spitch: int, w: int, h: int) -> None:
    """The rows arrived, and nothing between them was touched."""
    got, sent = kit.read(target), kit.read(source)
    assert rows(got, dpitch, w, h) == rows(sent, spitch, w, h)
    gaps = b"".join(got[row * dpitch + w : (row + 1) * dpitch] for row in range(h))
    assert gaps == bytes(len(gaps))


@cites("Rows arrive at their pitch and nothing else is written", DOCS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "src", "dst"), [(H2D, "host", "device"), (D2H, "device", "host")])
@pytest.mark.parametrize(("dpitch", "spitch", "w", "h"), [(64, 64, 64, 8), (128, 96, 64, 7), (65, 33, 33, 5)])
def test_content(
    kit: Kit, way: str, kind: int, src: str, dst: str, dpitch: int, spitch: int, w: int, h: int
) -> None:
    source, target = kit.place(src, spitch * h, seed=1), kit.place(dst, dpitch * h)
    assert copy2d(kit, way, target.address, dpitch, source.address, spitch, w, h, kind) == OK
    check(kit, target, dpitch, source, spitch, w, h)


@cites("Pageable memory may be an operand", DOCS)
@since("8.5")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "src", "dst"), [(H2D, "pageable", "device"), (D2H, "device", "pageable")])
def test_pageable(kit: Kit, way: str, kind: int, src: str, dst: str) -> None:
    source, target = kit.place(src, 96 * 4, seed=2), kit.place(dst, 128 * 4)
    assert copy2d(kit, way, target.address, 128, source.address, 96, 64, 4, kind) == OK
    check(kit, target, 128, source, 96, 64, 4)


@cites("DEFAULT finds the direction", DOCS)
@since("8.5")
@pytest.mark.parametrize("way", WAYS)
def test_default(kit: Kit, way: str) -> None:
    source, target = kit.pinned(256, seed=3), kit.device(256)
    assert copy2d(kit, way, target.address, 64, source.address, 64, 32, 4, DEFAULT) == OK
    check(kit, target, 64, source, 64, 32, 4)


@cites("Inside a device: 207000 synchronously, done asynchronously on A2, A3 and 950", OBSERVED)
@chips("a2", "a3", "950")
@pytest.mark.parametrize(("way", "code"), [("sync", UNSUPPORTED), ("async", OK)])
def test_inside_a_device(kit: Kit, way: str, code: int) -> None:
    source, target = kit.device(256, seed=4), kit.device(256)
    assert copy2d(kit, way, target.address, 64, source.address, 64, 32, 4, D2D) == code
    if code == OK:
        check(kit, target, 64, source, 64, 32, 4)


@cites("Kinds other than 1 to 4 are 100000", DOCS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [H2H, BUF, 6, 7, 99])
def test_kinds(kit: Kit, way: str, kind: int) -> None:
    source, target = kit.pinned(256), kit.device(256)
    assert copy2d(kit, way, target.address, 64, source.address, 64, 32, 4, kind) == ACL_PARAM


# pitches, width, height -> code; the blocks have 256 bytes
SHAPES = {
    "width over spitch": (64, 16, 32, 4, ACL_PARAM),
    "width over dpitch": (16, 64, 32, 4, ACL_PARAM),
    "width over limit": (MAX_WIDTH + 1, MAX_WIDTH + 1, MAX_WIDTH + 1, 1, PARAM),
    "height over limit": (64, 64, 64, MAX_HEIGHT + 1, PARAM),
}


@cites("width is at most both pitches; width 5,000,000 and height 5 Mi are the limits", DOCS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(kit: Kit, way: str, shape: str) -> None:
    dpitch, spitch, w, h, code = SHAPES[shape]
    source, target = kit.pinned(256), kit.device(256)
    assert copy2d(kit, way, target.address, dpitch, source.address, spitch, w, h, H2D) == code


@cites("A copy without width or height is success", DOCS)
@since("9.1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("w", "h"), [(0, 4), (32, 0), (0, 0)])
def test_empty(kit: Kit, way: str, w: int, h: int) -> None:
    source, target = kit.pinned(256, seed=5), kit.device(256)
    assert copy2d(kit, way, target.address, 64, source.address, 64, w, h, H2D) == OK
    assert kit.read(target) == bytes(256)


@cites("A null pointer is 100000", DOCS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("null", ["dst", "src"])
def test_null_pointers(kit: Kit, way: str, null: str) -> None:
    dst, src = (None if null == name else kit.device(256).address for name in ("dst", "src"))
    assert copy2d(kit, way, dst, 64, src, 64, 32, 4, H2D) == ACL_PARAM
