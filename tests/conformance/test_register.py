"""Host memory that is registered with a device."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, chips, cites, forms, needs_control, since
from conformance.support.codes import ACL_PARAM, ALREADY_REGISTERED, NOT_REGISTERED, OK, PARAM, UNSUPPORTED
from conformance.support.kit import H2D, Block, Kit, content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [since("8.5"), chips("a2", "a3", "950"), forms("ep")]
P = ctypes.c_void_p
PAGE = 4096
MAPPED, IOMEMORY, READONLY, PINNED = 0x2, 0x4, 0x8, 0x10000000
DOCS = "aclrtHostRegisterV2 docs, CANN 9.1"


@pytest.fixture
def pages(kit: Kit) -> Iterator[Block]:
    """Four whole pages of ordinary memory; unregistered again at the end, whatever the test did."""
    area = mmap.mmap(-1, 4 * PAGE)
    view = ctypes.c_char.from_buffer(area)
    block = Block("pageable", ctypes.addressof(view), 4 * PAGE, area)
    kit.write(block, content(4 * PAGE, 1))
    yield block
    kit.acl.aclrtHostUnregister(block.address)
    del view, block.keep
    area.close()


def register(kit: Kit, block: Block, flag: int = MAPPED | PINNED) -> int:
    code: int = kit.acl.aclrtHostRegisterV2(block.address, block.nbytes, flag)
    return code


@cites("A registered range is registered once and unregistered once: 507910, 507911", OBSERVED)
def test_once(kit: Kit, pages: Block) -> None:
    assert [register(kit, pages), register(kit, pages)] == [OK, ALREADY_REGISTERED]
    unregister = kit.acl.aclrtHostUnregister
    assert [unregister(pages.address), unregister(pages.address)] == [OK, NOT_REGISTERED]


@cites("Flags are unions of 0x2, 0x4, 0x8 and 0x10000000; 0 and others are 107000", DOCS)
@pytest.mark.parametrize("flag", [0, 0x1, 0x10, MAPPED | 0x20, 0x20000000])
def test_flags(kit: Kit, pages: Block, flag: int) -> None:
    assert register(kit, pages, flag) == PARAM


REFUSED: dict[str, Callable[[Kit, Block], int]] = {
    "V2 null": lambda kit, block: kit.acl.aclrtHostRegisterV2(None, PAGE, MAPPED),
    "V2 size": lambda kit, block: kit.acl.aclrtHostRegisterV2(block.address, 0, MAPPED),
    "null": lambda kit, block: kit.acl.aclrtHostRegister(None, PAGE, 0, ctypes.byref(P())),
    "no output": lambda kit, block: kit.acl.aclrtHostRegister(block.address, PAGE, 0, None),
    "size": lambda kit, block: kit.acl.aclrtHostRegister(block.address, 0, 0, ctypes.byref(P())),
    "unregister null": lambda kit, block: kit.acl.aclrtHostUnregister(None),
    "pointer null": lambda kit, block: kit.acl.aclrtHostGetDevicePointer(None, ctypes.byref(P()), 0),
    "pointer output": lambda kit, block: kit.acl.aclrtHostGetDevicePointer(block.address, None, 0),
    "pointer flag": lambda kit, block: kit.acl.aclrtHostGetDevicePointer(block.address, ctypes.byref(P()), 1),
}


@cites("Null pointers, size 0 and a flag for the device pointer are 100000", "the open runtime, CANN 9.2")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(kit: Kit, pages: Block, name: str) -> None:
    assert REFUSED[name](kit, pages) == ACL_PARAM


@cites("Unknown types of aclrtHostRegister are 207000", "aclrtHostRegister of the open runtime, CANN 9.2")
def test_unknown_type(kit: Kit, pages: Block) -> None:
    assert kit.acl.aclrtHostRegister(pages.address, PAGE, 1, ctypes.byref(P())) == UNSUPPORTED


@cites("Registered memory counts as pinned: location HOST, truly asynchronous copies", DOCS)
@needs_control
def test_registered_memory_is_pinned(kit: Kit, pages: Block) -> None:
    assert register(kit, pages) == OK
    raw = (ctypes.c_uint32 * 7)()
    assert kit.acl.aclrtPointerGetAttributes(pages.at(100), raw) == OK
    assert raw[1] == 0
    stream, target, hold = kit.stream(), kit.device(4 * PAGE), kit.hold("h2d")
    assert kit.copy(target, pages, H2D, stream) == OK
    assert not kit.done(stream)
    hold.release()
    assert kit.sync(stream) == OK
    assert kit.read(target) == content(4 * PAGE, 1)


@cites("After unregistering the memory is ordinary again", DOCS)
def test_unregistered_memory(kit: Kit, pages: Block) -> None:
    assert register(kit, pages) == OK
    assert kit.acl.aclrtHostUnregister(pages.address) == OK
    raw = (ctypes.c_uint32 * 7)()
    assert kit.acl.aclrtPointerGetAttributes(pages.address, raw) == OK
    assert raw[1] == 2


@cites("A mapped range has a device pointer", "aclrtHostGetDevicePointer docs, CANN 9.1")
def test_device_pointer(kit: Kit, pages: Block) -> None:
    assert register(kit, pages, MAPPED) == OK
    pointer = P()
    assert kit.acl.aclrtHostGetDevicePointer(pages.address, ctypes.byref(pointer), 0) == OK
    assert pointer.value


@cites("aclrtHostRegister gives the device pointer itself", "aclrtHostRegister docs, CANN 9.1")
def test_register_with_pointer(kit: Kit, pages: Block) -> None:
    pointer = P()
    assert kit.acl.aclrtHostRegister(pages.address, 4 * PAGE, 0, ctypes.byref(pointer)) == OK
    assert pointer.value
    assert kit.acl.aclrtHostUnregister(pages.address) == OK


@cites("Addresses are multiples of 4 KiB", DOCS)
def test_alignment(kit: Kit, pages: Block) -> None:
    assert kit.acl.aclrtHostRegisterV2(pages.at(64), PAGE, MAPPED) != OK
