"""A raw face over the ACL library in use: every call returns its code, nothing raises, nothing is hidden.

Its prototypes come from native/acl/symbols.def by a small parser of its own, with every pointer as void *,
so that a mistake in the package's typed table cannot hide one in the library, or the other way round.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from pathlib import Path
from typing import Any

import pytest

from conformance.support.profiles import GENERATIONS, Profile, detect, generation_of
from npu_xfer._library import located_library

SYMBOLS = Path(__file__).resolve().parents[3] / "native" / "acl" / "symbols.def"

_ROW = re.compile(r"(?ms)^ACL_FN\(([^,]+), (\w+), (?:MUST|MAY), \"([^\"]+)\",\s*\((.*?)\)\)$")
_SCALARS: dict[str, Any] = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
}
_HANDLES = {"aclrtStream", "aclrtEvent", "aclrtContext", "aclrtNotify"}


class IpcEventHandle(ctypes.Structure):
    """aclrtIpcEventHandle, the one structure that is passed by value."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


def _type(text: str) -> Any:
    if "*" in text:
        return ctypes.c_void_p
    word = text.split()[0]
    if word in _SCALARS:
        return _SCALARS[word]
    if word == "aclrtIpcEventHandle":
        return IpcEventHandle
    if word in _HANDLES or word.endswith(("Callback", "HostFunc")):
        return ctypes.c_void_p
    return ctypes.c_int  # what is left are enums, which are int sized


class Symbol:
    """One row of symbols.def."""

    def __init__(self, result: str, name: str, release: str, parameters: str) -> None:
        self.name = name
        self.since = release
        self.gen = generation_of(release)
        self.parameters = (
            [] if parameters == "void" else [_type(each.strip()) for each in parameters.split(",")]
        )
        self.result: Any = {"aclError": ctypes.c_int, "uint32_t": ctypes.c_uint32}.get(
            result, ctypes.c_char_p
        )


@functools.cache
def symbols() -> dict[str, Symbol]:
    """Every function of symbols.def, in its order."""
    rows = {row[1]: Symbol(*row) for row in _ROW.findall(SYMBOLS.read_text())}
    assert len(rows) == SYMBOLS.read_text().count("\nACL_FN("), "a row of symbols.def is not understood"
    return rows


class Acl:
    """The functions as attributes under their full names. One that the profile's release lacks skips the
    test; one that it should have and does not export fails it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.library = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        self.simulated = hasattr(self.library, "aclsim_abi")

    @functools.cached_property
    def profile(self) -> Profile:
        return detect(self.library)

    def in_release(self, name: str) -> bool:
        """Whether the documents say that the release in use has this function."""
        return GENERATIONS.index(symbols()[name].gen) <= GENERATIONS.index(self.profile.gen)

    def has(self, name: str) -> bool:
        """Whether it can be called here."""
        return self.in_release(name) and hasattr(self.library, name)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("acl"):
            raise AttributeError(name)
        symbol = symbols()[name]
        if not self.in_release(name):
            pytest.skip(f"{name} came with CANN {symbol.since}, this is {self.profile.name}")
        if not hasattr(self.library, name):
            if not self.simulated and symbol.since.startswith("9.2"):
                pytest.skip(f"{name} came with CANN {symbol.since}")
            pytest.fail(f"the library has no {name}, which CANN has since {symbol.since}", pytrace=False)
        function = getattr(self.library, name)
        function.restype = symbol.result
        function.argtypes = symbol.parameters
        setattr(self, name, function)
        return function

    # ---- outputs, for calls that must succeed ----

    def out(self, ctype: Any, name: str, *args: Any) -> Any:
        """Calls a function whose first parameter is the output, which must return 0; its value."""
        value = ctype()
        code = getattr(self, name)(ctypes.byref(value), *args)
        assert code == 0, f"{name}{args} -> {code}: {self.message()}"
        return value.value

    def out_last(self, ctype: Any, name: str, *args: Any) -> Any:
        """The same with the output as last parameter."""
        value = ctype()
        code = getattr(self, name)(*args, ctypes.byref(value))
        assert code == 0, f"{name}{args} -> {code}: {self.message()}"
        return value.value

    def message(self) -> str | None:
        """aclGetRecentErrMsg as text."""
        text = self.aclGetRecentErrMsg()
        return None if text is None else text.decode(errors="replace")


@functools.cache
def open_acl() -> Acl:
    """The library that NPU_XFER_LIBRARY and the usual search choose."""
    return Acl(located_library().library.path)
