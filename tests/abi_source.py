"""Makes the C compiler compare the ctypes binding with the C headers.

The headers are read after preprocessing, so comments and macros cannot mislead; what is read from them is
compiled back against them, so a wrong reading is a compile error too. Every comparison of a value, a size, an
offset or a type is a static assertion of one generated file.
"""

from __future__ import annotations

import ctypes
import enum
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_xfer._cann import enums, structs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from npu_xfer._cann.abi import Prototype

NATIVE = Path(__file__).resolve().parent.parent / "native"

# What stands before a member's name in C.
PREFIX = {
    "AicoreErrorType": "ACL_RT_AICORE_ERROR_",
    "CallbackBlockType": "ACL_CALLBACK_",
    "DevAttr": "ACL_DEV_ATTR_",
    "DevFeatureType": "ACL_FEATURE_",
    "DevResLimitType": "ACL_RT_DEV_RES_",
    "DeviceLimit": "ACL_RT_DEV_LIMIT_",
    "DeviceState": "ACL_RT_DEVICE_STATE_",
    "DeviceStatus": "ACL_RT_DEVICE_STATUS_",
    "ErrorType": "ACL_RT_",
    "EventFlag": "ACL_EVENT_",
    "EventRecordFlag": "ACL_EVENT_RECORD_",
    "EventRecordedStatus": "ACL_EVENT_RECORDED_STATUS_",
    "EventStatus": "ACL_EVENT_STATUS_",
    "EventWaitFlag": "ACL_EVENT_WAIT_",
    "EventWaitStatus": "ACL_EVENT_WAIT_STATUS_",
    "FailureMode": "ACL_",
    "HostRegFlag": "ACL_HOST_REG_",
    "HostRegisterType": "ACL_HOST_REGISTER_",
    "LastErrLevel": "ACL_RT_",
    "MallocAttrType": "ACL_RT_MEM_ATTR_",
    "MallocPolicy": "ACL_MEM_MALLOC_",
    "MemAttr": "ACL_",
    "MemLocationType": "ACL_MEM_LOCATION_TYPE_",
    "MemType": "ACL_MEM_TYPE_",
    "MemcpyKind": "ACL_MEMCPY_",
    "NotifyFlag": "ACL_NOTIFY_",
    "RunMode": "ACL_",
    "StreamAttr": "ACL_STREAM_ATTR_",
    "StreamFlag": "ACL_STREAM_",
    "StreamState": "ACL_RT_STREAM_STATE_",
    "StreamStatus": "ACL_STREAM_STATUS_",
    "WaitValue": "ACL_STREAM_WAIT_VALUE_",
}
RENAMED = {("LastErrLevel", "THREAD"): "ACL_RT_THREAD_LEVEL"}

_TEXT: dict[Any, str] = {
    ctypes.c_char: "char",
    ctypes.c_uint8: "uint8_t",
    ctypes.c_uint16: "uint16_t",
    ctypes.c_int32: "int32_t",  # also c_int
    ctypes.c_uint32: "uint32_t",
    ctypes.c_int64: "int64_t",
    ctypes.c_uint64: "uint64_t",  # also c_size_t
    ctypes.c_float: "float",
    ctypes.c_char_p: "char *",
    ctypes.c_void_p: "void *",
}


def compiler() -> str | None:
    """The C compiler of this machine, or None."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def _run(cc: str, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [cc, "-std=c11", "-x", "c", *flags, f"-I{NATIVE}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


@dataclass
class Header:
    """What the C headers declare, as text."""

    functions: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    callbacks: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    needs: dict[str, tuple[str, str]] = field(default_factory=dict)
    enum_types: set[str] = field(default_factory=set)
    constants: list[set[str]] = field(default_factory=list)
    """The members of each enum."""

    codes: set[str] = field(default_factory=set)
    fields: dict[str, list[tuple[str, str, bool]]] = field(default_factory=dict)
    """Of each struct and union: C type, name, whether it is an array."""

    opaque: set[str] = field(default_factory=set)


def _parameters(text: str) -> list[str]:
    """The types of "const void *src, size_t count": each up to the name."""
    if text.strip() == "void":
        return []
    return [re.sub(r"\w+\s*$", "", one.strip()).strip() for one in text.split(",")]


def read_header(cc: str) -> Header:
    """Preprocesses the headers and reads their declarations."""
    found = Header()
    plain = _run(cc, '#include "acl/prototypes.h"\n', "-E", "-P")
    assert plain.returncode == 0, plain.stderr
    text = " ".join(plain.stdout.split())
    for name, body in re.findall(r"enum (\w* ?)\{([^}]*)\}", text):
        members = set(re.findall(r"\b(ACL_\w+) =", body))
        if not members:
            continue
        if name.strip():
            found.enum_types.add(name.strip())
        codes = {member for member in members if re.match(r"ACL_(SUCCESS|ERROR_)", member)}
        found.codes |= codes
        if members - codes:
            found.constants.append(members - codes)
    for kind, tag, body, name in re.findall(r"typedef (struct|union) (\w+) \{([^}]*)\} (\w+);", text):
        assert tag == name, f"{kind} {tag} has another name than {name}"
        rows = re.findall(r"([\w ]+?[ *]+)(\w+)(\[\d+\])?;", body)
        assert len(rows) == body.count(";"), name
        found.fields[name] = [(type_.strip(), field_, bool(size)) for type_, field_, size in rows]
    found.opaque = {name for _, name in re.findall(r"typedef struct (\w+) (\w+);", text)}
    for result, name, body in re.findall(r"typedef (\w+) \(\*(aclrt\w+)\)\(([^()]*)\);", text):
        found.callbacks[name] = (result, _parameters(body))
    declarations = re.sub(r"typedef [^;{]*(\{[^}]*\})?[^;]*;", "", text)
    for result, name, body in re.findall(r"([\w ]+[ *]+)\b(acl\w+) ?\(([^()]*)\);", declarations):
        found.functions[name] = (result.strip(), _parameters(body))
    listed = _run(
        cc,
        "#define ACL_FN(r, name, need, since, p) name need since\n#include <acl/symbols.def>\n",
        "-E",
        "-P",
    )
    rows = re.findall(r'\b(acl\w+) (MUST|MAY) "([^"]+)"', listed.stdout)
    found.needs = {name: (need, since) for name, need, since in rows}
    return found


def constant(cls: type[enum.IntEnum] | type[enum.IntFlag], member: str) -> str:
    """C's name of an enum member."""
    return RENAMED.get((cls.__name__, member), PREFIX[cls.__name__] + member)


def python_enums() -> list[Any]:
    """Every enum of the binding."""
    return [value for value in vars(enums).values() if isinstance(value, enum.EnumMeta)]


def python_structs() -> list[Any]:
    """Every struct and union of the binding."""
    every = (getattr(structs, name) for name in structs.__all__)
    return [value for value in every if issubclass(value, (ctypes.Structure, ctypes.Union))]


def _text(kind: Any) -> str:
    if kind in _TEXT:
        return _TEXT[kind]
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return f"aclrt{kind.__name__}"
    return _text(kind._type_) + " *"


def _strip(c_type: str) -> str:
    return re.sub(r"\bconst\b", "", c_type).strip()


class Checks:
    """Builds the assertions."""

    def __init__(self, header: Header) -> None:
        self.header = header

    def same(self, where: str, c_type: str, kind: Any) -> Iterator[str]:
        """One C type against one ctypes type."""
        c_type = _strip(c_type)
        base = c_type.replace("*", "").strip()
        text = f'"{where}: C has {c_type}, ctypes has {getattr(kind, "__name__", kind)}"'
        if c_type in self.header.callbacks:
            same = kind is getattr(structs, c_type.removeprefix("aclrt"))
            yield f"_Static_assert({int(same)}, {text});"
        elif base in self.header.enum_types:
            wanted = ctypes.c_int if c_type == base else ctypes.POINTER(ctypes.c_int)
            yield f"_Static_assert({int(kind is wanted)} && sizeof({base}) == sizeof(int), {text});"
        elif base in self.header.opaque:
            yield f"_Static_assert({int(kind is ctypes.c_void_p)}, {text});"
        else:
            yield f"_Static_assert(_Generic(({c_type} *)0, {_text(kind)} *: 1, default: 0), {text});"

    def call(
        self, name: str, c_result: str, c_types: list[str], restype: Any, argtypes: Iterable[Any]
    ) -> Iterator[str]:
        """Result and parameters of a function or a callback."""
        argtypes = list(argtypes)
        if len(c_types) != len(argtypes):
            yield f'_Static_assert(0, "{name}: C has {len(c_types)} parameters, ctypes {len(argtypes)}");'
            return
        if c_result == "void":
            yield f'_Static_assert({int(restype is None)}, "{name}: result");'
        else:
            yield from self.same(f"{name} result", c_result, restype)
        for number, (c_type, kind) in enumerate(zip(c_types, argtypes, strict=True), 1):
            yield from self.same(f"{name} parameter {number}", c_type, kind)

    def functions(self, prototypes: Mapping[str, Prototype]) -> Iterator[str]:
        """Every row of the table, and the reading of its declaration."""
        for name, (result, types) in self.header.functions.items():
            pointer = f"{result} (*const read_{name})({', '.join(types) or 'void'})"
            yield f"static {pointer} __attribute__((unused)) = {name};"
            if name in prototypes:
                row = prototypes[name]
                yield from self.call(name, result, types, row.restype, row.argtypes)

    def callback_types(self) -> Iterator[str]:
        for name, (result, types) in self.header.callbacks.items():
            pointer = f"{result} (*)({', '.join(types)})"
            yield f'_Static_assert(_Generic(({name})0, {pointer}: 1, default: 0), "{name} was misread");'
            kind = getattr(structs, name.removeprefix("aclrt"), None)
            if kind is not None:
                yield from self.call(name, result, types, kind._restype_, kind._argtypes_)

    def struct_layouts(self, classes: Iterable[Any]) -> Iterator[str]:
        for cls in classes:
            name = f"aclrt{cls.__name__}"
            yield f'_Static_assert(sizeof({name}) == {ctypes.sizeof(cls)}, "sizeof {name}");'
            c_types = {c_name: c_type for c_type, c_name, _ in self.header.fields.get(name, [])}
            for field_name, kind, *_ in cls._fields_:
                at = getattr(cls, field_name)
                here = f"{name}.{field_name}"
                yield f'_Static_assert(offsetof({name}, {field_name}) == {at.offset}, "{here} offset");'
                yield f'_Static_assert(sizeof((({name} *)0)->{field_name}) == {at.size}, "{here} size");'
                array = issubclass(kind, ctypes.Array)
                if field_name in c_types:
                    inner = kind._type_ if array else kind
                    yield from self.same(here, c_types[field_name], inner)

    def enum_values(self, classes: Iterable[Any]) -> Iterator[str]:
        for cls in classes:
            for member, value in cls.__members__.items():
                name = constant(cls, member)
                yield f'_Static_assert({name} == {int(value)}, "{cls.__name__}.{member}");'

    def code_values(self, codes: Mapping[int, str]) -> Iterator[str]:
        for code, name in codes.items():
            yield f'_Static_assert({name} == {code}, "code {name}");'


def faults(cc: str, assertions: Iterable[str]) -> list[str]:
    """What the compiler says against the assertions; empty when all hold."""
    lines = list(assertions)
    assert lines
    text = "\n".join(['#include "acl/prototypes.h"', *lines, ""])
    done = _run(cc, text, "-fsyntax-only", "-Wall", "-Wextra", "-Werror")
    found = [line for line in done.stderr.splitlines() if "error:" in line]
    assert (done.returncode == 0) == (not found), done.stderr
    return found
