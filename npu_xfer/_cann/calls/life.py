"""Initialising, finalising, versions."""

from __future__ import annotations

import ctypes

from npu_xfer._cann.calls.base import Calls
from npu_xfer._cann.codes import ACL_SUCCESS

__all__ = ["VERSION_NBYTES", "LifeCalls"]

_REPEAT_INITIALIZE = 100002
_REPEAT_FINALIZE = 100037
VERSION_NBYTES = 128  # what aclsysGetVersionStr fills at most


class LifeCalls(Calls):
    """`aclInit` to `aclFinalize`, and what the library says about itself."""

    def init(self, config_path: str | None = None) -> bool:
        """Initialises ACL. False when another part of the process did so before: leave finalising to it."""
        code = self._code("aclInit", None if config_path is None else config_path.encode())
        return self._answer("aclInit", code, {_REPEAT_INITIALIZE: False})

    def finalize(self) -> bool:
        """Finalises ACL for the whole process, whoever else uses it. False when that had happened before."""
        return self._answer("aclFinalize", self._code("aclFinalize"), {_REPEAT_FINALIZE: False})

    def finalize_reference(self) -> int | None:
        """Gives back one `init` and finalises with the last one: how many are left. None when ACL was
        finalised before. Every `init` counts, also the one that answered False."""
        left = ctypes.c_uint64()
        code = self._code("aclFinalizeReference", ctypes.byref(left))
        return left.value if self._answer("aclFinalizeReference", code, {_REPEAT_FINALIZE: False}) else None

    def acl_version(self) -> tuple[int, int, int]:
        """Version of the ACL interface (not of CANN): major, minor, patch."""
        parts = [ctypes.c_int32() for _ in range(3)]
        self._call("aclrtGetVersion", *(ctypes.byref(part) for part in parts))
        return parts[0].value, parts[1].value, parts[2].value

    def package_version(self, package: str = "runtime") -> str:
        """Version text of an installed CANN package, for example "8.5.0"."""
        text = ctypes.create_string_buffer(VERSION_NBYTES + 1)
        self._call("aclsysGetVersionStr", package.encode(), ctypes.cast(text, ctypes.c_char_p))
        return text.value.decode("utf-8", "replace")

    def package_version_number(self, package: str = "runtime") -> int:
        """Version of an installed CANN package as one number that grows with releases."""
        number = ctypes.c_int32()
        self._call("aclsysGetVersionNum", package.encode(), ctypes.byref(number))
        return number.value

    def versions(self) -> dict[str, str]:
        """What the library tells about itself: "acl" and "runtime", each only where it answers."""
        found: dict[str, str] = {}
        if self._library.has("aclrtGetVersion"):
            found["acl"] = ".".join(str(part) for part in self.acl_version())
        if self._library.has("aclsysGetVersionStr"):
            text = ctypes.create_string_buffer(VERSION_NBYTES + 1)
            code = self._code("aclsysGetVersionStr", b"runtime", ctypes.cast(text, ctypes.c_char_p))
            if code == ACL_SUCCESS:
                found["runtime"] = text.value.decode("utf-8", "replace")
            else:
                self.recent_message()
        return found

    def soc_name(self) -> str | None:
        """Name of the chip, for example "Ascend910B1"; None when the runtime does not know it."""
        raw: bytes | None = self._library.function("aclrtGetSocName")()
        return raw.decode("utf-8", "replace") if raw else None
