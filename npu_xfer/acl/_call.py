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

__all__ = ["Absent", "NotPart", "absent", "function", "handle", "number", "out", "plain", "ret", "text"]


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


_POINTER = type(ctypes.byref(ctypes.c_int()))


def text(value: Any) -> bytes:
    """A string argument as C takes it; a NUL would end it early."""
    if not isinstance(value, str):
        raise TypeError(f"a str is needed, got {value!r}")
    if "\0" in value:
        raise ValueError(f"{value!r} has a NUL in it")
    return value.encode()


_INTEGERS = frozenset("bBhHiIlLqQP")  # ctypes' letters for whole numbers and addresses


def _as(kind: Any, value: Any) -> Any:
    """The value for one parameter. ctypes would cut a number that is too large, so that device 2**32 would be
    device 0; every number that fits as signed or as unsigned is taken, as pyACL programs pass both."""
    if getattr(kind, "_type_", None) not in _INTEGERS or isinstance(value, _POINTER):
        return value
    value = plain(value)
    n_bits = 8 * ctypes.sizeof(kind)
    if not -(1 << (n_bits - 1)) <= value < 1 << n_bits:
        raise OverflowError(f"{value} does not fit in the {n_bits} bits of this parameter")
    return value


def out(name: str, *args: Any) -> int:
    """Calls a function that returns a code; ctypes objects among the arguments are passed as they are."""
    called = function(name)
    code: int = called(*map(_as, called.argtypes, args))  # type: ignore[attr-defined]  # a ctypes function
    return code


def ret(name: str, *args: Any) -> int:
    """Calls a function that returns a code only."""
    return out(name, *args)


def handle(name: str, *args: Any) -> tuple[int, int]:
    """A function whose first parameter is a handle or address that it makes: (handle, code)."""
    made = ctypes.c_void_p()
    code = out(name, ctypes.byref(made), *args)
    return made.value or 0, code


def number(kind: Any, name: str, *args: Any, first: bool = False, start: int = 0) -> tuple[int, int]:
    """A function whose last (or first) parameter is a number that it writes: (number, code)."""
    value = kind(start)
    place = (ctypes.byref(value),)
    code = out(name, *(place + args if first else args + place))
    return value.value, code
