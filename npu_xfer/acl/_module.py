"""The calls of the module itself: acl.init, acl.finalize, ..."""

from __future__ import annotations

import ctypes

from npu_xfer._cann.calls.life import VERSION_NBYTES
from npu_xfer.acl._call import function, number, out, text

__all__ = [
    "finalize",
    "finalize_reference",
    "get_recent_err_msg",
    "get_soc_name",
    "get_version",
    "get_version_str",
    "init",
]


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")


def init(config_path: str | None = None) -> int:
    """Initialises ACL: ret. Code 100002 when it was initialised before."""
    return out("aclInit", None if config_path is None else text(config_path))


def finalize() -> int:
    """Finalises ACL for the whole process: ret."""
    return out("aclFinalize")


def finalize_reference() -> tuple[int, int]:
    """Gives back one init: (how many are left, ret)."""
    return number(ctypes.c_uint64, "aclFinalizeReference")


def get_version() -> tuple[int, int, int, int]:
    """Version of the ACL interface: (major, minor, patch, ret)."""
    parts = [ctypes.c_int32() for _ in range(3)]
    code = out("aclrtGetVersion", *map(ctypes.byref, parts))
    return parts[0].value, parts[1].value, parts[2].value, code


def get_version_str(pkg_name: str) -> tuple[str, int]:
    """Version text of an installed CANN package: (text, ret)."""
    version = ctypes.create_string_buffer(VERSION_NBYTES + 1)
    code = out("aclsysGetVersionStr", text(pkg_name), ctypes.cast(version, ctypes.c_char_p))
    return version.value.decode("utf-8", "replace"), code


def get_soc_name() -> str | None:
    """Name of the chip, or None. No ret."""
    return _text(function("aclrtGetSocName")())


def get_recent_err_msg() -> str | None:
    """The runtime's text for the last failure on this thread, or None. Reading it removes it."""
    return _text(function("aclGetRecentErrMsg")())
