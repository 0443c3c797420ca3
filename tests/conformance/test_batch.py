"""aclrtMemcpyBatch and its variants: attributes, indexes, the entry that failed."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, chips, cites, forms, needs_control, since
from conformance.support.codes import ACL_PARAM, OK, PARAM, UNSUPPORTED
from conformance.support.kit import Block, Kit, content

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [since("8.3"), forms("ep")]
HAVE = ("a2", "a3", "950")
V1 = ("aclrtMemcpyBatch", "aclrtMemcpyBatchAsync")
ALL = (*V1, "aclrtMemcpyBatchV2", "aclrtMemcpyBatchAsyncV2")
NONE = 2**64 - 1
HOST, DEVICE = 0, 1
UNTOUCHED = 77


class Attr(ctypes.Structure):
    """aclrtMemcpyBatchAttr; each location is (device id, place)."""

    _fields_ = [("dst", ctypes.c_uint32 * 2), ("src", ctypes.c_uint32 * 2), ("rsv", ctypes.c_uint8 * 16)]


UP = ((0, DEVICE), (0, HOST))
DOWN = ((0, HOST), (0, DEVICE))


@dataclass
class Batch:
    """The arguments of one call; a test changes one of them."""

    dsts: list[int]
    srcs: list[int]
    sizes: list[int]
    dest_maxs: list[int] = field(default_factory=list)
    attrs: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=lambda: [UP])
    indexes: list[int] = field(default_factory=lambda: [0])
    reserved: int = 0
    nulls: set[str] = field(default_factory=set)

    def call(self, kit: Kit, name: str) -> tuple[int, int | None]:
        """Code and, for the first variants, the failing entry. An asynchronous one is waited for."""
        n, n_attrs = len(self.sizes), len(self.attrs)
        attrs = (Attr * n_attrs)(*(Attr(dst, src) for dst, src in self.attrs))
        attrs[0].rsv[7] = self.reserved
        arrays = {
            "dsts": (ctypes.c_void_p * n)(*self.dsts),
            "dest_maxs": (ctypes.c_size_t * n)(*(self.dest_maxs or self.sizes)),
            "srcs": (ctypes.c_void_p * n)(*self.srcs),
            "sizes": (ctypes.c_size_t * n)(*self.sizes),
            "attrs": attrs,
            "indexes": (ctypes.c_size_t * n_attrs)(*self.indexes),
        }
        given = {key: None if key in self.nulls else value for key, value in arrays.items()}
        failed = ctypes.c_size_t(UNTOUCHED)
        args = [given[key] for key in ("dsts", "dest_maxs", "srcs", "sizes")] + [n]
        args += [given["attrs"], given["indexes"], n_attrs]
        if name in V1:
            args.append(None if "fail_index" in self.nulls else ctypes.byref(failed))
        if "Async" in name:
            args.append(None)
        code = getattr(kit.acl, name)(*args)
        assert kit.sync(None) == OK
        return code, failed.value if name in V1 else None


def upload(kit: Kit, sizes: list[int], *, place: str = "host") -> tuple[Batch, list[Block], list[Block]]:
    sources = [kit.place(place, size, seed=n) for n, size in enumerate(sizes)]
    targets = [kit.device(size) for size in sizes]
    batch = Batch([t.address for t in targets], [s.address for s in sources], sizes)
    return batch, sources, targets


def index(name: str, value: int) -> int | None:
    return value if name in V1 else None


@cites("A chip without batch copies says 207000", OBSERVED)
@chips("910", "310p", "310b")
@pytest.mark.parametrize("name", ALL)
def test_chips_without(kit: Kit, name: str) -> None:
    assert upload(kit, [64])[0].call(kit, name)[0] == UNSUPPORTED


@cites("Every entry is copied; without a failure the index is SIZE_MAX", "aclrtMemcpyBatch docs, CANN 9.1")
@chips(*HAVE)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("place", ["host", "pageable"])
@pytest.mark.parametrize("n", [1, 3, 50])
def test_content(kit: Kit, name: str, place: str, n: int) -> None:
    sizes = [64 + 37 * i for i in range(n)]
    batch, _, targets = upload(kit, sizes, place=place)
    assert batch.call(kit, name) == (OK, index(name, NONE))
    for i, target in enumerate(targets):
        assert kit.read(target) == content(sizes[i], i)


@cites("attrs[k] counts from attrsIndexes[k]; a batch may go both ways", "the open runtime, CANN 9.2")
@chips(*HAVE)
@pytest.mark.parametrize("name", ["aclrtMemcpyBatchAsync", "aclrtMemcpyBatchAsyncV2"])
def test_both_ways(kit: Kit, name: str) -> None:
    up = [(kit.pinned(64, seed=n), kit.device(64)) for n in range(2)]
    down = [(kit.device(64, seed=n), kit.pinned(64)) for n in range(2, 4)]
    pairs = up + down
    batch = Batch([t.address for _, t in pairs], [s.address for s, _ in pairs], [64] * 4)
    batch.attrs, batch.indexes = [UP, DOWN], [0, 2]
    assert batch.call(kit, name) == (OK, index(name, NONE))
    for n, (_, target) in enumerate(pairs):
        assert kit.read(target) == content(64, n)


@cites("Null arrays and a null failIndex are 100000", OBSERVED)
@chips(*HAVE)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("null", ["dsts", "dest_maxs", "srcs", "sizes", "attrs", "indexes", "fail_index"])
def test_null_pointers(kit: Kit, name: str, null: str) -> None:
    if null == "fail_index" and name not in V1:
        return
    batch = upload(kit, [64, 64])[0]
    batch.nulls = {null}
    assert batch.call(kit, name)[0] == ACL_PARAM


def no_entries(b: Batch) -> None:
    b.dsts, b.srcs, b.sizes = [], [], []


def all_zero(b: Batch) -> None:
    b.sizes, b.dest_maxs = [0, 0, 0], [64, 64, 64]


def over_dest_max(b: Batch) -> None:
    b.dest_maxs = [64, 4, 64]


def reserved(b: Batch) -> None:
    b.reserved = 1


def zero_second(b: Batch) -> None:
    b.sizes, b.dest_maxs = [64, 0, 64], [64, 64, 64]


def wrong_dst(b: Batch) -> None:
    b.attrs = [((0, HOST), (0, DEVICE))]


def same_side(b: Batch) -> None:
    b.attrs = [((0, DEVICE), (0, DEVICE))]


def wrong_device(b: Batch) -> None:
    b.attrs = [((9, DEVICE), (0, HOST))]


def first_not_zero(b: Batch) -> None:
    b.indexes = [1]


def not_rising(b: Batch) -> None:
    b.attrs, b.indexes = [UP, UP], [0, 0]


def past_the_end(b: Batch) -> None:
    b.attrs, b.indexes = [UP, UP], [0, 3]


def more_attrs(b: Batch) -> None:
    b.attrs, b.indexes = [UP] * 4, [0, 1, 2, 3]


# change -> code, failing entry of the first variants (None: not said)
CHANGES: dict[Callable[[Batch], None], tuple[int, int | None]] = {
    no_entries: (ACL_PARAM, None),
    all_zero: (OK, NONE),
    over_dest_max: (ACL_PARAM, UNTOUCHED),
    reserved: (ACL_PARAM, None),
    zero_second: (PARAM, 1),
    wrong_dst: (PARAM, 0),
    same_side: (PARAM, 0),
    wrong_device: (PARAM, 0),
    first_not_zero: (PARAM, NONE),
    not_rising: (PARAM, NONE),
    past_the_end: (PARAM, NONE),
    more_attrs: (PARAM, NONE),
}


@cites("The ACL layer's refusals are 100000, the runtime's 107000 with the entry", OBSERVED)
@chips(*HAVE)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", ALL)
def test_refusals(kit: Kit, name: str, change: Callable[[Batch], None]) -> None:
    if change is all_zero and not kit.profile.since("9.1"):
        pytest.skip("0 bytes came with 9.1")
    batch, _, targets = upload(kit, [64, 64, 64])
    change(batch)
    code, entry = CHANGES[change]
    got, failed = batch.call(kit, name)
    assert got == code
    if entry is not None and name in V1:
        assert failed == entry
    if code != OK and name in ("aclrtMemcpyBatch", "aclrtMemcpyBatchV2"):
        assert all(kit.read(target) == bytes(64) for target in targets)


@cites("The synchronous batch takes 4096 entries at most, the asynchronous one any number", OBSERVED)
@chips("a2", "a3")
@pytest.mark.parametrize(
    ("name", "n", "code"),
    [("aclrtMemcpyBatch", 4096, OK), ("aclrtMemcpyBatch", 4097, PARAM), ("aclrtMemcpyBatchAsync", 4097, OK)],
)
def test_the_limit(kit: Kit, name: str, n: int, code: int) -> None:
    source, target = kit.pinned(n, seed=1), kit.device(n)
    batch = Batch([target.at(i) for i in range(n)], [source.at(i) for i in range(n)], [1] * n)
    assert batch.call(kit, name)[0] == code
    assert kit.read(target) == (content(n, 1) if code == OK else bytes(n))


@cites("On A2 and A3 the asynchronous batch is a loop: entries are queued one by one", "CANN 9.2 sources")
@chips("a2", "a3")
@needs_control
def test_the_asynchronous_batch_is_queued(kit: Kit) -> None:
    batch, _, targets = upload(kit, [64, 64])
    n = len(batch.sizes)
    hold = kit.hold("h2d")
    failed = ctypes.c_size_t()
    attr = Attr(*UP)
    code = kit.acl.aclrtMemcpyBatchAsync(
        (ctypes.c_void_p * n)(*batch.dsts), (ctypes.c_size_t * n)(*batch.sizes),
        (ctypes.c_void_p * n)(*batch.srcs), (ctypes.c_size_t * n)(*batch.sizes), n,
        ctypes.byref(attr), ctypes.byref(ctypes.c_size_t(0)), 1, ctypes.byref(failed), None,
    )  # fmt: skip
    assert code == OK
    assert not kit.done(None)
    hold.release()
    assert kit.sync(None) == OK
    assert [kit.read(target) for target in targets] == [content(64, n) for n in range(2)]
