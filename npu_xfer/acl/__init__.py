"""pyACL's memory, stream, event and callback calls over the library that npu_xfer uses.

A program written for CANN's Python module `acl` runs with ``import npu_xfer.acl as acl``, on an NPU or on the
simulator, as far as it moves memory and orders streams. Names, order of arguments and results are pyACL's, as
its open source and its documents (CANN 9.1) give them: handles and addresses are ints; a call returns its
code, or a tuple with the code last; nothing raises AclError. Constants are the program's own, as in pyACL.

What pyACL has and this module has not (models, operators, media processing, ...) raises `NotPart`, a
NotImplementedError, when the name is looked up; `hasattr` answers False. A call that the loaded library lacks
raises LibraryError naming the CANN release that has it.
"""

from __future__ import annotations

from typing import Any

from npu_xfer.acl import media, rt, util
from npu_xfer.acl._call import Absent, NotPart, absent
from npu_xfer.acl._module import (
    finalize,
    finalize_reference,
    get_recent_err_msg,
    get_soc_name,
    get_version,
    get_version_str,
    init,
)

__all__ = [
    "NotPart",
    "finalize",
    "finalize_reference",
    "get_recent_err_msg",
    "get_soc_name",
    "get_version",
    "get_version_str",
    "init",
    "media",
    "rt",
    "util",
]

_GROUPS = ("mdl", "op", "blas", "prof", "himpi", "fv")


def __getattr__(name: str) -> Any:
    if name in _GROUPS:
        return Absent(f"acl.{name}")
    raise absent("acl", name)
