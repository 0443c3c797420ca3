"""How the face calls the library: ints in, codes out. Also what it says about names that it lacks.

Threads: any; each call runs on the calling thread without the GIL, and CANN's current device is per thread.
"""

from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any

from npu_xfer._library import located_library
from npu_xfer.acl._site import tell

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Absent", "NotPart", "absent", "function", "handle", "number", "out", "plain", "ret"]


class NotPart(NotImplementedError, AttributeError):
    """A name of pyACL that npu_xfer.acl does not have. Also an AttributeError, so that `hasattr` works."""


def absent(where: str, name: str) -> AttributeError:
    """The error for a missing name. Python's own probes (``__path__`` ...) get a plain one."""
    if name.startswith("_"):
        return AttributeError(f"module {where} has no attribute {name}")
    return NotPart(
        f"{where}.{name} is not part of npu_xfer.acl (memory and streams only); use CANN's own acl for it"
    )


class Absent:
    """A group of pyACL's calls that this package does not have, such as acl.mdl."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __repr__(self) -> str:
        return f"<{self._where}: not part of npu_xfer.acl>"

    def __getattr__(self, name: str) -> Any:
        raise absent(self._where, name)


def function(name: str) -> Callable[..., Any]:
    """The typed ctypes function, to be called at once: the simulator is told by whom.

    Raises LibraryError when the chosen library lacks it.
    """
    found: Callable[..., Any] = located_library().library.function(name)
    tell()
    return found


def plain(value: Any) -> int:
    """The int behind an argument. numpy's integers count, as in pyACL; None and floats do not (ctypes would
    take None as NULL)."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"an address, a handle or a number is needed as int, got {value!r}: pass 0 for NULL"
        ) from None


def ret(name: str, *args: Any) -> int:
    """Calls a function that returns a code only."""
    code: int = function(name)(*map(plain, args))
    return code


def handle(name: str, *args: Any) -> tuple[int, int]:
    """A function whose first parameter is a handle or address that it makes: (handle, code)."""
    made = ctypes.c_void_p()
    code: int = function(name)(ctypes.byref(made), *map(plain, args))
    return made.value or 0, code


def number(kind: Any, name: str, *args: Any, first: bool = False, start: int = 0) -> tuple[int, int]:
    """A function whose last (or first) parameter is a number that it writes: (number, code)."""
    value = kind(start)
    place = (ctypes.byref(value),)
    rest = tuple(map(plain, args))
    code: int = function(name)(*(place + rest if first else rest + place))
    return value.value, code


def out(name: str, *args: Any) -> int:
    """Calls a function that returns a code, with ctypes objects among the arguments."""
    code: int = function(name)(*(plain(one) if hasattr(one, "__index__") else one for one in args))
    return code
