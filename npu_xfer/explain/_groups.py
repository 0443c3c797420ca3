"""From lines to groups: lines of one thread and time belong together.

A line whose form a group has a few times already is only counted, so that a log of one error, repeated, costs
neither memory nor the search for it again.
"""

from __future__ import annotations

import bisect
import io
import re
from typing import TYPE_CHECKING

from npu_xfer.explain._records import DULL, DULL_STARTS, PLAIN, TELLING, Shapes, parse, quick_header, worth_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from npu_xfer.explain._records import Line

__all__ = ["Group", "groups_of"]

_Key = tuple["int | None", "int | None"]

_MOST_CHARS = 1 << 15  # of one group's text without blanks
_MOST_GROUPS = 256  # open at once; the oldest is closed first
_MOST_LIKE = 3  # lines of one form that a group keeps
_MOST_PIECES = 8  # of a broken line
_ARMED_LINES = 40  # after a telling line, lines without a header are looked at too
_GAP_S = 5  # of silence ends a group
_CLOCK = re.compile(r"-(\d\d):(\d\d):(\d\d)")
_N_CLOCK = 19  # characters of a time up to its seconds


class Group:
    """Text of one thread, without blanks, and where in it each line begins."""

    def __init__(self, first: Line) -> None:
        self.pid, self.tid = first.pid, first.tid
        self.lines: list[Line] = []
        self.shapes: list[int] = []
        self.weights: list[int] = []  # lines that each kept line stands for
        self.first_seen: str | None = None
        self.last_seen: str | None = None
        self._text = io.StringIO()
        self._starts: list[int] = []
        self._like: dict[int, list[int]] = {}  # form -> indices of kept lines
        self._second: int | None = None
        self._clock = ""
        self._last = ""
        self._skipped: list[tuple[int, int, bytes]] = []  # counted pieces of the line that came last

    def add(self, line: Line, shape: int) -> None:
        """Keeps a line."""
        if line.record:
            self._skipped.clear()
        elif self._skipped:
            self._keep_beginning()
        text = "".join(line.text.split())
        if line.record or (self._last[-1:].isdigit() and line.text[:1].isspace()):
            self._text.write("\n")
        self._like.setdefault(shape, []).append(len(self.lines))
        self._starts.append(self._text.tell())
        self._text.write(text)
        self.lines.append(line)
        self.shapes.append(shape)
        self.weights.append(1)
        self._last = text or self._last
        if line.time:
            self._saw(line.time)
            if line.record:
                self._second = _second_of(line.time) if self._second is None else self._second
                self._clock = self._clock or line.time[:_N_CLOCK]

    def count_like(self, shape: int, time: str | None, place: tuple[int, bytes], *, record: bool) -> bool:
        """Counts a line in place of keeping it; false where it has to be kept, or ends the group.

        `place` is its number and itself: the beginning of a broken line is needed when its end is new.
        """
        like = self._like.get(shape)
        if like is None or len(like) < _MOST_LIKE:
            return False
        if time is not None:
            if self.ended_before(time):
                return False
            self._saw(time)
        self.weights[like[-1]] += 1
        if record:
            self._skipped.clear()
        if len(self._skipped) < _MOST_PIECES:
            self._skipped.append((shape, *place))
        return True

    def _keep_beginning(self) -> None:
        """Keeps what was counted of a broken line before the piece that is kept now."""
        skipped, self._skipped = self._skipped, []
        for shape, number, raw in skipped:
            self.weights[self._like[shape][-1]] -= 1
            self.add(parse(number, raw), shape)

    def ended_before(self, time: str | None) -> bool:
        """Whether a record of this time comes after a silence; remembers the time otherwise."""
        if time is None or time[:_N_CLOCK] == self._clock:
            return False
        second = _second_of(time)
        if second is None:
            return False
        if self._second is not None and second - self._second > _GAP_S:
            return True
        self._second = second
        self._clock = time[:_N_CLOCK]
        return False

    def is_full(self) -> bool:
        """Whether no more text should be added."""
        return self._text.tell() > _MOST_CHARS

    def text(self) -> str:
        """The kept lines without blanks; a record begins on a line of its own."""
        return self._text.getvalue()

    def index_at(self, offset: int) -> int:
        """Index of the kept line that holds this place of the text."""
        return max(bisect.bisect_right(self._starts, offset) - 1, 0)

    def _saw(self, time: str) -> None:
        if self.first_seen is None or time < self.first_seen:
            self.first_seen = time
        if self.last_seen is None or time > self.last_seen:
            self.last_seen = time


def _second_of(time: str) -> int | None:
    match = _CLOCK.search(time)
    return None if match is None else int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])


def _key_of(line: Line, last: _Key, open_groups: dict[_Key, Group]) -> _Key:
    """The group of a record. A header that is broken before its thread goes with the process's last one."""
    if line.tid is None:
        if last[0] == line.pid:
            return last
        return next((key for key in reversed(open_groups) if key[0] == line.pid), (line.pid, None))
    key = (line.pid, line.tid)
    if key not in open_groups and (headless := open_groups.pop((line.pid, None), None)) is not None:
        headless.tid = line.tid
        open_groups[key] = headless
    return key


def groups_of(lines: Iterable[bytes]) -> Iterator[Group]:
    """Groups of telling lines. A line without process and thread belongs to the one before it."""
    open_groups: dict[_Key, Group] = {}
    shapes = Shapes()
    key: _Key = (None, None)
    armed = 0
    for number, raw in enumerate(lines, 1):
        if raw.startswith(DULL_STARTS) and b"mem" not in raw:
            armed -= armed > 0
            continue
        shape = -1
        worth = TELLING
        header = quick_header(raw)
        if header is not None:
            shape = shapes.of(raw[header.end() :])
            quick: _Key = (int(header[1]), int(header[3]))
            group = open_groups.get(quick)
            if group is not None and group.count_like(shape, header[2].decode(), (number, raw), record=True):
                key, armed = quick, _ARMED_LINES
                continue
        else:
            worth = worth_of(raw)
            if worth == DULL or (worth == PLAIN and armed == 0):
                armed -= armed > 0
                continue
        line = parse(number, raw)
        if shape < 0:
            shape = shapes.of(line.text.encode())
        if line.record:
            key, armed = _key_of(line, key, open_groups), _ARMED_LINES
        else:
            armed = _ARMED_LINES if worth == TELLING else armed - 1
            if line.pid is not None and line.pid != key[0]:
                unnamed = open_groups.pop((None, None), None)
                key = (line.pid, None)
                if unnamed is not None and key not in open_groups:
                    # Lines that come before the first one that names the process are its own.
                    unnamed.pid = line.pid
                    open_groups[key] = unnamed
        group = open_groups.get(key)
        time = line.time if line.record else None
        if group is not None and group.count_like(shape, time, (number, raw), record=line.record):
            continue
        if group is not None and (group.is_full() or group.ended_before(time)):
            yield open_groups.pop(key)
            group = None
        if group is None:
            if len(open_groups) >= _MOST_GROUPS:
                yield open_groups.pop(next(iter(open_groups)))
            group = open_groups[key] = Group(line)
        group.add(line, shape)
    yield from open_groups.values()
