"""One opened ACL library: a dlopen handle with typed functions.

Threads: safe from any thread; the handle never closes, because the runtime cannot be unloaded safely.
Opening runs the library's own initialisers and no ACL function.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from npu_xfer._cann.abi import PROTOTYPES
from npu_xfer.errors import LibraryError

__all__ = ["Library", "open_library"]

_N_NAMED = 6  # missing functions that a message names


class Library:
    """The functions of `PROTOTYPES` in one shared library. Made by `open_library`."""

    def __init__(self, path: str, handle: ctypes.CDLL) -> None:
        self._path = path
        self._handle = handle
        self._functions: dict[str, Any] = {}
        # Only the simulator exports this: 0 for a function that the release it simulates does not have.
        self._ask: Any = getattr(handle, "aclsim_has_function", None)
        if self._ask is not None:
            self._ask.argtypes = [ctypes.c_char_p]
            self._ask.restype = ctypes.c_int

    def __repr__(self) -> str:
        return f"Library({self._path!r})"

    @property
    def path(self) -> str:
        """What was given to dlopen: a file, or a bare name."""
        return self._path

    @property
    def handle(self) -> ctypes.CDLL:
        """The ctypes handle, for functions outside of the ACL table."""
        return self._handle

    @property
    def simulated(self) -> bool:
        """True when this is the simulator: only that exports aclsim_abi."""
        return hasattr(self._handle, "aclsim_abi")

    def has(self, name: str) -> bool:
        """Whether the library exports this function, and the release that it simulates has it. No call of an
        ACL function is made."""
        return hasattr(self._handle, name) and (self._ask is None or self._ask(name.encode()) != 0)

    def missing(self, *, must: bool = True) -> tuple[str, ...]:
        """Names of the table that the library does not have: the required ones, or the optional ones."""
        return tuple(name for name, row in PROTOTYPES.items() if row.must is must and not self.has(name))

    def function(self, name: str) -> Any:
        """The ctypes function with its types set. Raises LibraryError when the library lacks it, and KeyError
        for a name that is not in the table."""
        found = self._functions.get(name)
        if found is None:
            prototype = PROTOTYPES[name]
            if not self.has(name):
                raise LibraryError(
                    f"{self._path} has no {name}",
                    remedy=f"it needs CANN {prototype.since} or later; ask Library.has first",
                )
            found = getattr(self._handle, name)
            found.restype = prototype.restype
            found.argtypes = list(prototype.argtypes)
            self._functions[name] = found
        return found

    def file(self) -> str:
        """The file behind the handle, as the dynamic loader knows it; `path` when it cannot be told."""
        return _file_of(self._handle) or self._path


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    ]


def _file_of(handle: ctypes.CDLL) -> str | None:
    try:
        address = ctypes.cast(handle.aclInit, ctypes.c_void_p)
        dladdr = ctypes.CDLL(None).dladdr
    except (AttributeError, OSError):
        return None
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_DlInfo)]
    dladdr.restype = ctypes.c_int
    info = _DlInfo()
    if not dladdr(address, ctypes.byref(info)) or not info.dli_fname:
        return None
    return os.fsdecode(info.dli_fname)


def open_library(path: str) -> Library:
    """Opens the library at `path` (a file, or a name for the dynamic loader's own search).

    Its symbols stay local to the handle. Raises OSError with the dynamic loader's text when it cannot be
    loaded, and LibraryError naming the required functions that it lacks.
    """
    library = Library(path, ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW))
    missing = library.missing()
    if missing:
        named = ", ".join(missing[:_N_NAMED]) + (", ..." if len(missing) > _N_NAMED else "")
        raise LibraryError(
            f"{path} is not a usable ACL library: it lacks {len(missing)} required functions ({named})",
            remedy="install CANN 7.0.0 or later, or set NPU_XFER_LIBRARY to the right file or to sim",
        )
    return library
