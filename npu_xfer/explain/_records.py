"""Lines of a log, freed of what collectors put around them: colours, quote marks, file names, worker names.

A log may hold invalid bytes, lines without an end and lines broken anywhere; nothing here raises for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Line", "Shapes", "interesting", "parse", "quick_header", "split_lines"]

_BLOCK_NBYTES = 1 << 20
_LONGEST = 1 << 14  # of a line; the rest counts as lines of their own

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What stands before a record: quote marks, line numbers and file names of grep, ranks and workers.
_PREFIX = re.compile(
    r"^(?:\s*>\s?|\ufeff|[^\s:\[\]]{0,300}\.log:(?:\d+:)?|\d+:(?=\[)"
    r"|\s?\[rank\d+\]:|\s?\([A-Za-z]\w*(?: [\w.]+)? pid=\d+\)"
    r"|\s?(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+:\d+\])"
)
_HEADER = re.compile(
    r"\[(?P<level>ERROR|WARNING|INFO|DEBUG|EVENT)\]\s*(?P<module>[A-Z]\w*)\s*\((?P<pid>\d+),[^)]*\)\s*:"
    r"\s*(?P<date>\d{4}-\d\d-\d\d)-(?P<clock>[\d:.]+)(?:\s*\[[^\]]*\]\s*(?:\(?tid:)?(?P<tid>\d+))?"
)
_PID = re.compile(r"\bpid[=:]\s*(\d+)|\bPID:\s*(\d+)", re.IGNORECASE)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)-([\d:]{5,8}[\d.]*)")
_QUICK = re.compile(
    rb"\[ERROR\] ?[A-Z]\w* ?\((\d+),[^)]*\) ?:(\d{4}-\d\d-\d\d-[\d:.]+) ?\[[^\]]*\] ?(?:\(?tid:)?(\d+)"
)
_DULL_STARTS = (b"[INFO]", b"[DEBUG]", b"[EVENT]", b"[TRACE]", b"[WARNING]")
_DULL = re.compile(rb"\[(?:INFO|DEBUG|EVENT|TRACE|WARNING)\]")
# Lower-case words of telling lines; codes are looked for only where none of them is there.
_SPARKS = (
    b"error", b"fail", b"exception", b"timeout", b"null", b"rank", b"loc", b"kind=", b"heartbeat", b"capture",
    b"sdma", b"time out", b"time-out", b"mem stats",
)  # fmt: skip
_SPARK_CODE = re.compile(rb"E[EHIL]\d{4}")
_SPARK_NUMBER = re.compile(rb"[=: ][125]0[07]\d{3}\b")
# What differs between lines of one shape: numbers, also hexadecimal ones.
_NO_NUMBERS = bytes(set(b"0123456789abcdefABCDEFxX \t\r"))
_CODES = re.compile(rb"(?<!\d)(?:[15]0[07]|20[07]|148|300)\d{3}(?!\d)|E[EHILK]\d{4}")
_MOST_SHAPES = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `record` is true when it begins with a header of CANN's own."""

    number: int
    raw: str
    text: str
    level: str | None
    record: bool
    pid: int | None
    tid: int | None
    time: str | None


def split_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines of a binary stream in constant memory; one without an end is cut at 16 KiB."""
    rest = b""
    while block := stream.read(_BLOCK_NBYTES):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from lines
        while len(rest) > _LONGEST:
            yield rest[:_LONGEST]
            rest = rest[_LONGEST:]
    if rest:
        yield rest


def interesting(line: bytes, armed: bool) -> bool:
    """Whether a line is worth parsing: the many lines of lower levels are not, except memory statements."""
    if line.startswith(_DULL_STARTS) or _DULL.search(line, 0, 200):
        return b"mem stats" in line
    if armed:
        return True
    low = line.lower()
    return (
        any(word in low for word in _SPARKS)
        or _SPARK_CODE.search(line) is not None
        or _SPARK_NUMBER.search(line) is not None
    )


def quick_header(line: bytes) -> re.Match[bytes] | None:
    """An undamaged header of an ERROR record at the line's beginning: its process, time and thread."""
    return _QUICK.match(line)


class Shapes:
    """A number for each form of line: lines that differ in nothing but numbers, codes excepted, share one.

    A line that ends or begins with digits may be a broken one, so that these count too. A forgotten form gets
    a new number, never that of another.
    """

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._next = 0

    def of(self, text: bytes) -> int:
        """The number of a line's form; `text` is the line, best without its header."""
        if b"mem stats" in text:  # its numbers are what it says
            key: object = text
        else:
            key = (text.translate(None, _NO_NUMBERS), *_CODES.findall(text))
            if text[-1:].isdigit() or text[:1].isdigit():
                key = (key, text[-8:], text[:8])
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            shape = self._known[key] = self._next
            self._next += 1
        return shape


def parse(number: int, raw: bytes) -> Line:
    """Takes one line apart."""
    shown = _COLOUR.sub("", raw[:_LONGEST].decode("utf-8", "replace")).rstrip("\r\n")
    text = shown
    pid = None
    while match := _PREFIX.match(text):
        found = _PID.search(match.group())
        if found is not None:
            pid = int(found.group(1) or found.group(2))
        text = text[match.end() :]
    header = _HEADER.search(text)
    if header is not None:
        tid = header["tid"]
        return Line(
            number, shown, text, header["level"], True, int(header["pid"]), int(tid) if tid else None,
            f"{header['date']}-{header['clock']}",
        )  # fmt: skip
    if pid is None and (found := _PID.search(text)) is not None:
        pid = int(found.group(1) or found.group(2))
    clock = _TIME.search(text)
    return Line(number, shown, text, None, False, pid, None, clock.group() if clock else None)
