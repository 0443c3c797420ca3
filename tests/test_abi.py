"""The ctypes table against the C list, and struct layouts against numbers."""

from __future__ import annotations

import ctypes
import enum
import re
from pathlib import Path
from typing import Any

import pytest

from npu_xfer._cann import abi
from npu_xfer._cann.abi import PROTOTYPES, ExceptionInfoCallback, MemLocation, PtrAttributes

ACL = Path(__file__).parent.parent / "native" / "acl"

_ENUM_PREFIX = {
    "RunMode": "ACL_",
    "MemcpyKind": "ACL_MEMCPY_",
    "MallocPolicy": "ACL_MEM_MALLOC_",
    "EventStatus": "ACL_EVENT_STATUS_",
    "EventRecordedStatus": "ACL_EVENT_RECORDED_STATUS_",
    "EventWaitStatus": "ACL_EVENT_WAIT_STATUS_",
    "StreamStatus": "ACL_STREAM_STATUS_",
    "EventFlag": "ACL_EVENT_",
    "StreamFlag": "ACL_STREAM_",
    "MemLocationType": "ACL_MEM_LOCATION_TYPE_",
    "MemAttr": "ACL_",
    "DeviceStatus": "ACL_RT_DEVICE_STATUS_",
}

_BY_C_TYPE: dict[str, Any] = {
    "aclError": ctypes.c_int,
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "size_t": ctypes.c_size_t,
    "const char*": ctypes.c_char_p,
    "char*": ctypes.c_char_p,
    "void*": ctypes.c_void_p,
    "const void*": ctypes.c_void_p,
    "const aclrtExceptionInfo*": ctypes.c_void_p,
    "void**": ctypes.POINTER(ctypes.c_void_p),
    "int32_t*": ctypes.POINTER(ctypes.c_int32),
    "uint32_t*": ctypes.POINTER(ctypes.c_uint32),
    "uint64_t*": ctypes.POINTER(ctypes.c_uint64),
    "size_t*": ctypes.POINTER(ctypes.c_size_t),
    "float*": ctypes.POINTER(ctypes.c_float),
    "aclrtStream": ctypes.c_void_p,
    "aclrtEvent": ctypes.c_void_p,
    "aclrtContext": ctypes.c_void_p,
    "aclrtStream*": ctypes.POINTER(ctypes.c_void_p),
    "aclrtEvent*": ctypes.POINTER(ctypes.c_void_p),
    "aclrtContext*": ctypes.POINTER(ctypes.c_void_p),
    "aclrtPtrAttributes*": ctypes.POINTER(PtrAttributes),
    "aclrtExceptionInfoCallback": ExceptionInfoCallback,
    "aclrtMemcpyKind": ctypes.c_int,
    "aclrtMemMallocPolicy": ctypes.c_int,
    "aclrtMemAttr": ctypes.c_int,
    "aclrtLastErrLevel": ctypes.c_int,
    "aclrtRunMode*": ctypes.POINTER(ctypes.c_int),
    "aclrtDeviceStatus*": ctypes.POINTER(ctypes.c_int),
    "aclrtStreamStatus*": ctypes.POINTER(ctypes.c_int),
    "aclrtEventStatus*": ctypes.POINTER(ctypes.c_int),
    "aclrtEventRecordedStatus*": ctypes.POINTER(ctypes.c_int),
    "aclrtEventWaitStatus*": ctypes.POINTER(ctypes.c_int),
}


def _c_type(text: str) -> Any:
    text = re.sub(r"\s*\*\s*", "*", text.strip())
    return _BY_C_TYPE[text]


def _parameter_type(text: str) -> Any:
    """The type of "const void *src": everything up to the name."""
    match = re.fullmatch(r"(.*?)(\w+)", text.strip())
    assert match is not None
    return _c_type(match.group(1))


def _symbols() -> list[tuple[str, str, str, str, list[str]]]:
    text = re.sub(r"/\*.*?\*/", "", (ACL / "symbols.def").read_text("utf-8"), flags=re.DOTALL)
    rows = re.findall(r'ACL_FN\(([^,]+),\s*(\w+),\s*(MUST|MAY),\s*"([^"]+)",\s*\((.*?)\)\)', text, re.DOTALL)
    assert len(rows) == text.count("ACL_FN(")
    return [
        (result, name, need, since, [] if parameters.strip() == "void" else parameters.split(","))
        for result, name, need, since, parameters in rows
    ]


SYMBOLS = _symbols()


def test_same_functions_in_the_same_order() -> None:
    assert len(SYMBOLS) > 50
    assert list(PROTOTYPES) == [name for _, name, _, _, _ in SYMBOLS]


@pytest.mark.parametrize("row", SYMBOLS, ids=[row[1] for row in SYMBOLS])
def test_prototype_equals_the_c_declaration(row: tuple[str, str, str, str, list[str]]) -> None:
    result, name, need, since, parameters = row
    prototype = PROTOTYPES[name]
    assert (prototype.need, prototype.since) == (need, since)
    assert prototype.restype is _c_type(result)
    assert list(prototype.argtypes) == [_parameter_type(parameter) for parameter in parameters]


def test_struct_layouts() -> None:
    assert ctypes.sizeof(MemLocation) == 8
    assert (MemLocation.id.offset, MemLocation.type.offset) == (0, 4)  # type: ignore[attr-defined]  # ctypes makes them
    assert ctypes.sizeof(PtrAttributes) == 28
    offsets = [getattr(PtrAttributes, field).offset for field in ("location", "pageSize", "rsv")]
    assert offsets == [0, 8, 12]


@pytest.mark.parametrize("name", sorted(_ENUM_PREFIX))
def test_enum_values_equal_the_c_header(name: str) -> None:
    header = (ACL / "abi.h").read_text("utf-8")
    c_values = {
        key: int(value, 0) for key, value in re.findall(r"\b(ACL_\w+) = (0x[0-9A-Fa-f]+|\d+)", header)
    }
    members = list(getattr(abi, name).__members__.items())
    assert members
    assert {key: int(value) for key, value in members} == {
        key: c_values[_ENUM_PREFIX[name] + key] for key, _ in members
    }


def test_every_enum_is_compared() -> None:
    found = {
        name for name, value in vars(abi).items() if isinstance(value, enum.EnumMeta) and name in abi.__all__
    }
    assert found == set(_ENUM_PREFIX) | {"LastErrLevel"}


def test_the_two_event_queries_have_opposite_numbers() -> None:
    assert int(abi.EventStatus.COMPLETE) == int(abi.EventRecordedStatus.NOT_READY) == 0
    assert int(abi.EventStatus.NOT_READY) == int(abi.EventRecordedStatus.COMPLETE) == 1


def test_an_empty_callback_is_null() -> None:
    assert not ExceptionInfoCallback()
