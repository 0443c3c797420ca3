"""Facts that a log states: codes, the copy's direction, both memory locations, sizes and numbers.

All of it is read from text without blanks, since lines are broken anywhere.
"""

from __future__ import annotations

import re

from npu_xfer.explain._texts import say

__all__ = ["apis_in", "codes_in", "direction_of", "facts_in", "inner_codes", "locations"]

_NUMBER = re.compile(r"[1235]\d{5}(?!\d|\.\d)")
_BEFORE = re.compile(r"([A-Za-z_]{0,16})(?:[=:\[]|is|returned)\[?$", re.IGNORECASE)
_NOT_CODES = ("size", "length", "cnt", "count", "pid", "tid", "_id", "line", "num", "peak", "bytes", "time")
# No border on the left: blanks are gone, and with them the ends of words.
_TEXT_CODE = re.compile(r"E[EHILK]\d{4}(?!\d)|ERR\d{5}(?!\d)|E39999")
_INNER = re.compile(r"0x0?(7[0-9a-f]{6})(?![0-9a-f])|=(117[45]\d{5})(?!\d)", re.IGNORECASE)
_API = re.compile(
    r"(?<![A-Za-z])(?:[Aa]cl(?:rt|mdlRI)?[A-Z]\w{0,50}?(?=Impl|Warpper|Wrapper|[^A-Za-z0-9]|execut)"
    r"|rt[A-Z]\w{0,50}?(?=execut|:))"
)
_OLD = re.compile(r"srcloctype=(\d),?dstloctype=(\d),?kind=(\d)", re.IGNORECASE)
_NEW = re.compile(
    r"copykind=(?:\w+\()?(\d)\)?,?srcloc=(?:\w+\()?(\d)\)?,?dstloc=(?:\w+\()?(\d)", re.IGNORECASE
)
_KIND = re.compile(r"memcpyfailed,kind=(\d)|cnt=\d+,kind=(\d)", re.IGNORECASE)
_FIELDS = {
    "nbytes": r"(?<![a-z_])(?:cnt|length|size)=(\d+)(?!x)",
    "device": r"(?<!_)device_?(?:id)?[=\[(](?:chipid:)?(\d+)|opendevice(\d+)|setdevice(\d+)failed"
    r"|device:(\d+)",
    "stream": r"stream_?id=(\d+)",
    "task": r"task_id=(\d+)",
    "event": r"event_?id=(\d+)",
    "slot": r"slot_id=(\d+)",
    "device_error": r"(?<![a-z])errorcode=(0x[0-9a-f]+)",
    "visible_devices": r"visible_devices:\[([\d,]+)\]",
    "valid_range": r"rang[e]?(\[\d+-\d+\))",
}
_COMPILED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _FIELDS.items()}

_DIRECTIONS = {0: "h2h", 1: "h2d", 2: "d2h", 3: "d2d"}
_OLD_NAMES = {1: "host", 2: "device", 3: "SVM", 4: "DVPP", 5: "user"}
_NEW_NAMES = {0: "host", 1: "device", 2: "unregistered host", 3: "managed", 4: "host (NUMA)"}
_SIDES = {0: ("host", "host"), 1: ("host", "device"), 2: ("device", "host"), 3: ("device", "device")}


def codes_in(text: str) -> tuple[list[int], list[str]]:
    """aclErrors and the codes of message texts, each once, in order."""
    numbers: dict[int, None] = {}
    for match in _NUMBER.finditer(text):
        before = _BEFORE.search(text[max(match.start() - 28, 0) : match.start()])
        if before is not None and not before.group(1).lower().endswith(_NOT_CODES):
            numbers[int(match.group())] = None
    return list(numbers), list(dict.fromkeys(_TEXT_CODE.findall(text)))


def inner_codes(text: str) -> tuple[list[str], dict[str, str]]:
    """The runtime's inner codes in hexadecimal, and a map to these from those that the log has in decimal."""
    codes: dict[str, None] = {}
    decimals = {}
    for match in _INNER.finditer(text):
        code = f"0x{(match.group(1) or f'{int(match.group(2)):x}').lower()}"
        codes[code] = None
        if match.group(2):
            decimals[match.group(2)] = code
    return list(codes), decimals


def apis_in(text: str) -> list[str]:
    """Functions of ACL and of the runtime, those of ACL first."""
    found = dict.fromkeys(match.group().replace("Acl", "acl", 1) for match in _API.finditer(text))
    return sorted(found, key=lambda name: not name.startswith("acl"))


def direction_of(text: str) -> str | None:
    """Direction that the call asked for. The driver's own copy_type is another number and does not count."""
    for pattern, group in ((_OLD, 3), (_NEW, 1)):
        if (match := pattern.search(text)) is not None:
            return _DIRECTIONS.get(int(match.group(group)))
    if (match := _KIND.search(text)) is not None:
        return _DIRECTIONS.get(int(match.group(1) or match.group(2)))
    return "d2d" if "copy_d2d" in text.lower() else None


def locations(text: str, lang: str = "en") -> str | None:
    """What both addresses were, by the numbering that the message's own wording belongs to."""
    names, numbering = _OLD_NAMES, "old numbering"
    if (match := _OLD.search(text)) is not None:
        src, dst, kind = (int(part) for part in match.groups())
        if 0 in (src, dst):
            names, numbering = _NEW_NAMES, "new numbering"
    elif (match := _NEW.search(text)) is not None:
        kind, src, dst = (int(part) for part in match.groups())
        names, numbering = _NEW_NAMES, "new numbering"
    else:
        return None
    shown = [
        say(lang, names[number]) if number in names else say(lang, "unknown", number=number)
        for number in (src, dst)
    ]
    said = say(lang, "sides", src=shown[0], dst=shown[1], numbering=say(lang, numbering))
    if (wanted := _SIDES.get(kind)) is None:
        return said
    wrong = [
        say(lang, "wrong side", side=say(lang, side), want=say(lang, want), have=have)
        for side, want, number, have in zip(("source", "destination"), wanted, (src, dst), shown, strict=True)
        if want not in names.get(number, "")
    ]
    asked = say(lang, "asked", asked=_DIRECTIONS[kind].upper(), kind=kind, said=said)
    return asked + (say(lang, "semicolon") + say(lang, "and").join(wrong) if wrong else "")


def facts_in(text: str) -> dict[str, str]:
    """Named numbers of the text, the first of each."""
    found = {}
    for name, pattern in _COMPILED.items():
        if (match := pattern.search(text)) is not None:
            found[name] = next(group for group in match.groups() if group is not None)
    return found
