"""Readings that need arithmetic: memory statements, clocks of two time zones, what a log leaves out.

A rule names those it wants under `notes`.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from npu_xfer._settings import format_nbytes
from npu_xfer.explain._texts import say

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NOTES", "notes_for"]

# Text has no blanks here.
_MEMORY = re.compile(
    r"dev(\d+)memstats\(bytes\):module_name=(\w+?),module_id=\d+,?current_alloced_size=(\d+)"
    r"(?:,alloced_peak_size=(\d+))?",
    re.IGNORECASE,
)
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)")
_GLOG = re.compile(r"\[[WEIF](\d\d)(\d\d)(\d\d):(\d\d):(\d\d)")  # of torch: month and day, no year
_HOUR_S = 3600
_SAME_EVENT_S = 60
_MOST_ZONE_HOURS = 14


def _memory(text: str, direction: str | None, lang: str) -> list[str]:
    devices: dict[str, dict[str, tuple[int, int]]] = {}
    for device, module, now, peak in _MEMORY.findall(text):
        devices.setdefault(device, {})[module] = (int(now), int(peak or now))
    notes = []
    for device, modules in devices.items():
        module, (now, peak) = max(modules.items(), key=lambda one: one[1][0])
        rest = sum(other for name, (other, _) in modules.items() if name != module)
        near = now * 100 >= peak * 99
        top = say(lang, "at peak") if near else say(lang, "below peak", shown=format_nbytes(peak))
        notes.append(
            say(
                lang, "memory", device=device, module=module, nbytes=now, shown=format_nbytes(now),
                peak=top, others=format_nbytes(rest),
            )
        )  # fmt: skip
    return notes


def _moments(text: str) -> list[datetime]:
    parts = [tuple(map(int, match.groups())) for match in _STAMP.finditer(text)]
    year = parts[0][0] if parts else 2000
    parts += [(year, *map(int, match.groups())) for match in _GLOG.finditer(text)]
    return [moment for part in dict.fromkeys(parts) if (moment := _moment(part)) is not None]


def _moment(part: tuple[int, ...]) -> datetime | None:
    year, month, day, hour, minute, second = part
    try:
        return datetime(year, month, day, hour, minute, second)  # no time zone is known
    except ValueError:
        return None


def _clocks(text: str, direction: str | None, lang: str) -> list[str]:
    moments = _moments(text)[:50]
    for at, one in enumerate(moments):
        for other in moments[at + 1 :]:
            apart = abs((one - other).total_seconds())
            hours = round(apart / _HOUR_S)
            if 1 <= hours <= _MOST_ZONE_HOURS and abs(apart - hours * _HOUR_S) <= _SAME_EVENT_S:
                return [say(lang, "clocks", hours=hours)]
    return []


def _missing(text: str, direction: str | None, lang: str) -> list[str]:
    sized = re.search(r"(?<![a-z_])(?:cnt|length|size)=\d", text, re.IGNORECASE) is not None
    if direction is not None and sized:
        return []
    what = "both" if direction is None and not sized else "size" if not sized else "direction"
    return [say(lang, "missing", what=say(lang, what))]


NOTES: dict[str, Callable[[str, str | None, str], list[str]]] = {
    "memory": _memory,
    "clocks": _clocks,
    "missing": _missing,
}
"""By the name that rules use."""


def notes_for(names: tuple[str, ...], text: str, direction: str | None, lang: str) -> list[str]:
    """The readings that a rule wants, from text without blanks."""
    return [note for name in names for note in NOTES[name](text, direction, lang)]
