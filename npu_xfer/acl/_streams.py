"""Streams of acl.rt. A function without a word on its result returns ret, the code."""

from __future__ import annotations

import ctypes
from typing import Any

from npu_xfer._cann.enums import StreamAttr, StreamStatus
from npu_xfer._cann.structs import StreamAttrValue
from npu_xfer.acl._call import handle, number, out, ret

__all__ = [
    "create_stream",
    "create_stream_with_config",
    "destroy_stream",
    "destroy_stream_force",
    "get_stream_attribute",
    "get_stream_available_num",
    "set_stream_attribute",
    "set_stream_failure_mode",
    "stream_abort",
    "stream_get_id",
    "stream_query",
    "synchronize_stream",
    "synchronize_stream_with_timeout",
]

# The key of pyACL's dictionary for each attribute; every other attribute has the key "reserved".
_KEY = {
    StreamAttr.FAILURE_MODE: "failureMode",
    StreamAttr.FLOAT_OVERFLOW_CHECK: "overflowSwitch",
    StreamAttr.USER_CUSTOM_TAG: "userCustomTag",
}


def create_stream() -> tuple[int, int]:
    """(stream, ret)."""
    return handle("aclrtCreateStream")


def create_stream_with_config(priority: int, flag: int) -> tuple[int, int]:
    """(stream, ret)."""
    return handle("aclrtCreateStreamWithConfig", priority, flag)


def destroy_stream(stream: int) -> int:
    """Destroys the stream after its work."""
    return ret("aclrtDestroyStream", stream)


def destroy_stream_force(stream: int) -> int:
    """Destroys the stream without its work."""
    return ret("aclrtDestroyStreamForce", stream)


def synchronize_stream(stream: int) -> int:
    """Waits until the stream is idle; returns the code of a copy that failed, once."""
    return ret("aclrtSynchronizeStream", stream)


def synchronize_stream_with_timeout(stream: int, timeout: int) -> int:
    """The same for at most `timeout` milliseconds (-1: for ever); code 507046 when it ran out."""
    return ret("aclrtSynchronizeStreamWithTimeout", stream, timeout)


def stream_query(stream: int) -> tuple[int, int]:
    """(0 when the stream is idle or 1, ret)."""
    return number(ctypes.c_int, "aclrtStreamQuery", stream, start=StreamStatus.RESERVED)


def stream_abort(stream: int) -> int:
    """Drops the stream's work."""
    return ret("aclrtStreamAbort", stream)


def stream_get_id(stream: int) -> tuple[int, int]:
    """(the runtime's number, ret)."""
    return number(ctypes.c_int32, "aclrtStreamGetId", stream)


def get_stream_available_num() -> tuple[int, int]:
    """How many more streams the device takes: (count, ret)."""
    return number(ctypes.c_uint32, "aclrtGetStreamAvailableNum")


def set_stream_failure_mode(stream: int, mode: int) -> int:
    """0: later work goes on after a failure, 1: it stops."""
    return ret("aclrtSetStreamFailureMode", stream, mode)


def set_stream_attribute(stream: int, stm_attr_type: int, value: dict[str, Any]) -> int:
    """Sets the attribute to the dictionary's value, whose key belongs to the attribute."""
    union = StreamAttrValue()
    key = _KEY.get(stm_attr_type)  # type: ignore[call-overload]  # a plain int finds its IntEnum
    if not isinstance(value, dict) or (key or "reserved") not in value:
        raise ValueError(
            f"attribute {stm_attr_type} needs a dictionary with {key or 'reserved'!r}, got {value!r}"
        )
    if key is None:
        if len(value["reserved"]) > len(union.reserve):
            raise ValueError(
                f"reserved has {len(value['reserved'])} numbers; there is room for {len(union.reserve)}"
            )
        for i, part in enumerate(value["reserved"]):
            union.reserve[i] = part
    else:
        setattr(union, key, value[key])
    return out("aclrtSetStreamAttribute", stream, stm_attr_type, ctypes.byref(union))


def get_stream_attribute(stream: int, stm_attr_type: int) -> tuple[dict[str, Any], int]:
    """(the attribute's dictionary, ret)."""
    union = StreamAttrValue()
    code = out("aclrtGetStreamAttribute", stream, stm_attr_type, ctypes.byref(union))
    key = _KEY.get(stm_attr_type)  # type: ignore[call-overload]  # the same
    value = {"reserved": list(union.reserve)} if key is None else {key: getattr(union, key)}
    return value, code
