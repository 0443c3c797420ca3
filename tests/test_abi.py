"""The ctypes binding against the C headers, compared by the C compiler."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
from typing import Any

import pytest
from abi_source import (
    PREFIX,
    Checks,
    compiler,
    constant,
    faults,
    python_enums,
    python_structs,
    read_header,
)

from npu_xfer._cann import abi, enums, structs
from npu_xfer._cann.abi import PROTOTYPES, ExceptionInfoCallback, Prototype
from npu_xfer._cann.codes import CODES

CC = compiler() or ""
if not CC:
    pytest.skip("no C compiler", allow_module_level=True)
HEADER = read_header(CC)
CHECKS = Checks(HEADER)


def test_the_headers_were_read_whole() -> None:
    assert len(HEADER.functions) > 150
    assert len(HEADER.needs) == len(HEADER.functions)
    assert len(HEADER.constants) > 30
    assert len(HEADER.fields) > 12
    assert len(HEADER.callbacks) == 5
    assert len(HEADER.codes) > 200


def test_same_functions_in_the_same_order_with_the_same_need_and_release() -> None:
    assert list(PROTOTYPES) == list(HEADER.needs) == list(HEADER.functions)
    assert {name: (row.need, row.since) for name, row in PROTOTYPES.items()} == HEADER.needs


def test_every_prototype_compiles_to_the_c_declaration() -> None:
    assert faults(CC, CHECKS.functions(PROTOTYPES)) == []


def test_callback_types() -> None:
    ours = {name for name in structs.__all__ if name.endswith(("Callback", "HostFunc"))}
    assert {f"aclrt{name}" for name in ours} == set(HEADER.callbacks)
    assert faults(CC, CHECKS.callback_types()) == []


def test_every_struct_has_the_same_fields_sizes_and_offsets() -> None:
    ours = {f"aclrt{cls.__name__}": [name for name, *_ in cls._fields_] for cls in python_structs()}
    assert ours == {name: [row[1] for row in rows] for name, rows in HEADER.fields.items()}
    arrays = {
        f"aclrt{cls.__name__}.{name}"
        for cls in python_structs()
        for name, kind, *_ in cls._fields_
        if issubclass(kind, ctypes.Array)
    }
    assert arrays == {f"{name}.{row[1]}" for name, rows in HEADER.fields.items() for row in rows if row[2]}
    assert faults(CC, CHECKS.struct_layouts(python_structs())) == []


def test_every_enum_member_has_the_value_of_the_header() -> None:
    classes = python_enums()
    assert {cls.__name__ for cls in classes} == set(PREFIX) == set(enums.__all__)
    assert faults(CC, CHECKS.enum_values(classes)) == []


def test_every_constant_of_the_header_is_in_one_enum() -> None:
    ours = [{constant(cls, member) for member in cls.__members__} for cls in python_enums()]
    assert sorted(map(sorted, ours)) == sorted(map(sorted, HEADER.constants))


def test_every_code_has_the_value_of_the_header() -> None:
    codes = {code: info.name for code, info in CODES.items()}
    assert set(codes.values()) == HEADER.codes - {"ACL_ERROR_NONE"}  # the other name of 0
    assert faults(CC, CHECKS.code_values(codes)) == []


# ---- the comparison itself: a difference that is planted must be found, by name ----


def _with(name: str, **changes: Any) -> dict[str, Prototype]:
    return {**PROTOTYPES, name: dataclasses.replace(PROTOTYPES[name], **changes)}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("aclrtMemcpy", {"restype": ctypes.c_uint32}),
        ("aclrtMemcpy", {"argtypes": PROTOTYPES["aclrtMemcpy"].argtypes[:-1]}),
        ("aclrtSetDevice", {"argtypes": (ctypes.c_uint32,)}),
        ("aclrtPeekAtLastError", {"argtypes": (ctypes.c_uint32,)}),
        ("aclrtGetDeviceCount", {"argtypes": (ctypes.POINTER(ctypes.c_int32),)}),
        ("aclrtSetStreamFailureMode", {"argtypes": (ctypes.c_void_p, ctypes.c_uint32)}),
        ("aclrtGetSocName", {"restype": ctypes.c_void_p}),
        ("aclrtIpcOpenEventHandle", {"argtypes": (structs.Uuid, ctypes.POINTER(ctypes.c_void_p))}),
        ("aclrtSetExceptionInfoCallback", {"argtypes": (structs.StreamStateCallback,)}),
        ("aclrtGetTaskIdFromExceptionInfo", {"argtypes": (ctypes.c_uint64,)}),
    ],
)
def test_a_wrong_prototype_is_found(name: str, changes: dict[str, Any]) -> None:
    found = faults(CC, CHECKS.functions(_with(name, **changes)))
    assert len(found) == 1
    assert name in found[0]


def test_a_misread_declaration_is_found() -> None:
    header = dataclasses.replace(HEADER, functions={"aclrtFree": ("aclError", ["size_t"])})
    assert len(faults(CC, Checks(header).functions({}))) == 1


def test_a_wrong_struct_is_found() -> None:
    swapped = type(
        "MemLocation",
        (ctypes.Structure,),
        {"_fields_": [("type", ctypes.c_int), ("id", ctypes.c_uint32)]},
    )
    assert len(faults(CC, CHECKS.struct_layouts([swapped]))) == 2  # both offsets
    signed = type(
        "MemLocation",
        (ctypes.Structure,),
        {"_fields_": [("id", ctypes.c_int32), ("type", ctypes.c_int)]},
    )
    assert "aclrtMemLocation.id" in faults(CC, CHECKS.struct_layouts([signed]))[0]
    short = type("Uuid", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_char * 15)]})
    assert len(faults(CC, CHECKS.struct_layouts([short]))) == 2


def test_a_wrong_enum_value_or_code_is_found() -> None:
    class EventStatus(enum.IntEnum):
        COMPLETE = 1

    assert "EventStatus.COMPLETE" in faults(CC, CHECKS.enum_values([EventStatus]))[0]
    assert "ACL_ERROR_UNINITIALIZE" in faults(CC, CHECKS.code_values({100000: "ACL_ERROR_UNINITIALIZE"}))[0]


def test_the_two_event_queries_have_opposite_numbers() -> None:
    assert int(abi.EventStatus.COMPLETE) == int(abi.EventRecordedStatus.NOT_READY) == 0
    assert int(abi.EventStatus.NOT_READY) == int(abi.EventRecordedStatus.COMPLETE) == 1


def test_an_empty_callback_is_null() -> None:
    assert not ExceptionInfoCallback()
