"""Every aclError of CANN up to 9.2: number, name, what it means for a copy, why it happens, what to do.

The table is data, codes.json, with the source of each entry; exceptions, `npu-xfer explain` and
docs/errors.md are made from it. Numbers and names are CANN's; the meanings and the remedies are ours, in
English and Chinese. No runtime call. `acl_error` and `transfer_error` build the exceptions that carry them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from npu_xfer._settings import language
from npu_xfer.errors import AclError, ResourceError, TransferError, TransferResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACL_SUCCESS",
    "CODES",
    "INNER",
    "MESSAGES",
    "CodeInfo",
    "InnerInfo",
    "MessageInfo",
    "acl_error",
    "code_info",
    "code_name",
    "transfer_error",
]

ACL_SUCCESS = 0


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """One aclError. Texts are in English; those in Chinese have the ending _zh."""

    code: int
    """The number that the call returned."""

    name: str
    """CANN's constant, for example ACL_ERROR_RT_PARAM_INVALID."""

    meaning: str
    """What happened, as a phrase."""

    remedy: str
    """What to do, as a phrase in the imperative."""

    causes: str = ""
    """What usually brings it about."""

    meaning_zh: str = ""
    remedy_zh: str = ""
    causes_zh: str = ""

    retryable: bool = False
    """True when the same call may succeed later without a change of the program."""

    sticky: bool = False
    """True when later work on the same device fails too until it is repaired, reset or reopened."""

    device_lost: bool = False
    """True when the device does not answer any more: reset it or restart the process. Implies `sticky`."""

    resource: bool = False
    """True when something ran out and the same call may succeed later."""

    source: str = ""
    """The header that has the number and the name; empty for an unknown code."""

    def texts(self, lang: str) -> tuple[str, str]:
        """Meaning and remedy in "en" or "zh"."""
        return (self.meaning_zh, self.remedy_zh) if lang == "zh" else (self.meaning, self.remedy)


@dataclass(frozen=True, slots=True)
class InnerInfo:
    """An inner code of the runtime, as logs print it after retCode= and InnerCode=."""

    inner: int
    name: str | None
    """CANN's name, where it is known."""

    code: int | None
    """The aclError that the caller gets, where it is known."""

    meaning: str
    meaning_zh: str
    source: str


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """An id of a message text, such as EE1001."""

    id: str
    meaning: str
    meaning_zh: str
    source: str


def _row_info(row: Mapping[str, Any], groups: Mapping[str, dict[str, Any]]) -> CodeInfo:
    given: dict[str, Any] = {name: value for name, value in row.items() if name != "group"}
    return CodeInfo(**given | groups[row["group"]])


def _table() -> dict[str, Any]:
    file = resources.files("npu_xfer._cann") / "codes.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _inner_info(row: Mapping[str, Any]) -> InnerInfo:
    return InnerInfo(**{**row, "inner": int(row["inner"], 16)})


_TABLE = _table()
CODES: Mapping[int, CodeInfo] = MappingProxyType(
    {row["code"]: _row_info(row, _TABLE["groups"]) for row in _TABLE["codes"]}
)
INNER: Mapping[int, InnerInfo] = MappingProxyType(
    {info.inner: info for info in map(_inner_info, _TABLE["inner"])}
)
MESSAGES: Mapping[str, MessageInfo] = MappingProxyType(
    {row["id"]: MessageInfo(**row) for row in _TABLE["messages"]}
)


def code_info(code: int) -> CodeInfo:
    """What is known about an aclError. An unknown number gets the name UNKNOWN and the meaning of its class
    (1xxxxx caller, 2xxxxx resource, 3xxxxx limit, 5xxxxx internal or device)."""
    known = CODES.get(code)
    if known is not None:
        return known
    classes = _TABLE["classes"]
    row = classes.get(str(code // 100000), classes[""])
    return _row_info({**row, "code": code, "name": "UNKNOWN"}, _TABLE["groups"])


def code_name(code: int) -> str:
    """CANN's constant for an aclError, or UNKNOWN."""
    return code_info(code).name


_ARRAYS_REMEDY = _TABLE["groups"]["device arrays"]


def acl_error(call: str, code: int, message: str | None = None) -> AclError:
    """The exception for a control call that returned `code`: `ResourceError` when something ran out.

    `message` is the runtime's text, read right after the call on the same thread, or None.
    """
    info = code_info(code)
    kind = ResourceError if info.resource else AclError
    meaning, remedy = info.texts(language())
    return kind(call, code, info.name, meaning=meaning, message=message, remedy=remedy)


def transfer_error(
    call: str,
    code: int,
    message: str | None = None,
    *,
    direction: str,
    nbytes: int,
    device: int,
    stream: int | None = None,
) -> TransferError:
    """The exception for a transfer that was accepted and then failed with `code`."""
    info = code_info(code)
    kind = TransferResourceError if info.resource else TransferError
    lang = language()
    meaning, remedy = info.texts(lang)
    if call == "aclrtMalloc" and info.resource:
        remedy = _ARRAYS_REMEDY["remedy_zh" if lang == "zh" else "remedy"]
    return kind(
        call,
        code,
        info.name,
        direction=direction,
        nbytes=nbytes,
        device=device,
        stream=stream,
        meaning=meaning,
        message=message,
        remedy=remedy,
    )
