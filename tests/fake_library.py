"""A library with every function of the table, which checks arguments and does nothing."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.abi import PROTOTYPES
from npu_xfer.errors import LibraryError

if TYPE_CHECKING:
    from collections.abc import Callable

# An address that the fake may write to; as a device, a handle or a size it is a number like any other.
MEMORY = ctypes.create_string_buffer(4096)


class FakeLibrary:
    """Every function of the table as a real ctypes function, so that each call converts its arguments. They
    write zeros to their outputs and return 0 (or what `codes` says)."""

    path = "fake"

    def __init__(self, *, lacks: frozenset[str] = frozenset()) -> None:
        self.lacks = lacks
        self.codes: dict[str, int] = {}
        self.default_code = 0
        self.arguments: list[tuple[Any, ...]] = []
        self.called: list[str] = []
        self._kept: list[Any] = []

    def has(self, name: str) -> bool:
        return name in PROTOTYPES and name not in self.lacks

    def function(self, name: str) -> Callable[..., Any]:
        if name in self.lacks:
            raise LibraryError(f"fake has no {name}")
        row = PROTOTYPES[name]
        kinds = [ctypes.c_void_p if kind is ctypes.c_char_p else kind for kind in row.argtypes]
        text = row.restype is ctypes.c_char_p

        def body(*args: Any) -> Any:
            self.called.append(name)
            self.arguments.append(args)
            for value in args:
                if (
                    isinstance(value, ctypes._Pointer)
                    and value
                    and issubclass(value._type_, ctypes._SimpleCData)
                ):
                    ctypes.memset(value, 0, ctypes.sizeof(value._type_))
            return None if text else self.codes.get(name, self.default_code)

        made = ctypes.CFUNCTYPE(ctypes.c_void_p if text else row.restype, *kinds)(body)
        made.argtypes = list(row.argtypes)
        self._kept.append(made)
        return made
