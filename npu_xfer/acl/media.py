"""acl.media: its two memory calls, so that programs which only copy to and from such memory run.

The memory is plain device memory of aclrtMalloc. It is not promised to suit the media units, whose own calls
are not part of this package.
"""

from __future__ import annotations

from typing import Any

from npu_xfer._cann.enums import MallocPolicy
from npu_xfer.acl._call import absent, handle, ret

__all__ = ["dvpp_free", "dvpp_malloc"]


def dvpp_malloc(size: int) -> tuple[int, int]:
    """Device memory, for copies only: (dev_ptr, ret)."""
    return handle("aclrtMalloc", size, MallocPolicy.HUGE_FIRST)


def dvpp_free(dev_ptr: int) -> int:
    """Frees what dvpp_malloc gave: ret."""
    return ret("aclrtFree", dev_ptr)


def __getattr__(name: str) -> Any:
    raise absent("acl.media", name)
