"""Tells the simulator which line of the user's program makes the next call, so that its findings name it.

Threads: any; the place is the calling thread's. Nothing is told to a real CANN.
"""

from __future__ import annotations

import ctypes
import functools
import os.path
import sys
from typing import TYPE_CHECKING

from npu_xfer._library import located_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from npu_xfer._cann.locate import Located

__all__ = ["tell"]

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


@functools.lru_cache(maxsize=4)
def _setter(located: Located) -> Callable[[bytes], None] | None:
    if not located.info.simulated:
        return None
    function = getattr(located.library.handle, "aclsim_set_site", None)  # a simulator of an older build
    if function is None:
        return None
    function.restype = None
    function.argtypes = [ctypes.c_char_p]
    found: Callable[[bytes], None] = function
    return found


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def tell() -> None:
    """To be called just before the ACL function."""
    setter = _setter(located_library())
    frame = _caller() if setter is not None else None
    if setter is not None and frame is not None:
        name = os.path.basename(frame.f_code.co_filename)
        setter(f"{name}:{frame.f_lineno} in {frame.f_code.co_name}".encode("utf-8", "replace"))
