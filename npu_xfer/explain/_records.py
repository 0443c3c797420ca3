"""Lines of a log, freed of what collectors put around them: colours, quote marks, file names, worker names.

A log may hold invalid bytes, lines without an end and lines broken anywhere; nothing here raises for them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "DULL",
    "DULL_STARTS",
    "PLAIN",
    "TELLING",
    "Line",
    "Shapes",
    "parse",
    "quick_header",
    "split_lines",
    "worth_of",
]

_BLOCK_NBYTES = 1 << 20
_LONGEST = 1 << 14  # of a line; the rest counts as lines of their own

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What stands before a record: quote marks, line numbers and file names of grep, ranks and workers.
_PREFIX = re.compile(
    r"^(?:\s*>\s?|\ufeff|[^\s:\[\]]{0,300}\.log:(?:\d+:)?|\d+:(?=\[)"
    r"|\s?\[rank\d+\]:|\s?\([A-Za-z]\w*(?: [\w.]+)? pid=\d+\)"
    r"|\s?(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+:\d+\])"
)
# All behind the process may be missing where a line is broken.
_HEADER = re.compile(
    r"\[(?P<level>ERROR|WARNING|INFO|DEBUG|EVENT)\]\s*(?P<module>[A-Z]\w*)\s*\((?P<pid>\d+),"
    r"(?:[^)]*\)\s*:?\s*(?P<date>\d{4}-\d\d-\d\d)-(?P<clock>[\d:.]+)"
    r"(?:\s*\[[^\]]*\]\s*(?:\(?tid:)?(?P<tid>\d+)(?!\d|$))?)?"
)
_PID = re.compile(r"\b(?:pid|PID|Pid)[=:]\s*(\d+)(?!\d|$)")  # a number at the end may go on
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)-([\d:]{5,8}[\d.]*)")
_QUICK = re.compile(
    rb"\[ERROR\] ?[A-Z]\w* ?\((\d+),[^)]*\) ?:(\d{4}-\d\d-\d\d-[\d:.]+) ?\[[^\]]*\] ?"
    rb"(?:\(?tid:)?(\d+)(?![\d\r]|$)"
)
DULL, PLAIN, TELLING = range(3)
"""What a line is worth: never looked at; looked at near a telling line only; telling."""

DULL_STARTS = (b"[INFO]", b"[DEBUG]", b"[EVENT]", b"[TRACE]", b"[WARNING]")
_DULL = re.compile(rb"\[(?:INFO|DEBUG|EVENT|TRACE|WARNING)\]")
_SPARK_CODE = re.compile(rb"E[EHIL]\d{4}")
_SPARK_NUMBER = re.compile(rb"[=: ][125]0[07]\d{3}\b")
# What differs between lines of one shape: numbers, also hexadecimal ones.
_NO_NUMBERS = bytes(set(b"0123456789abcdefABCDEFxX \t\r"))
# Digits on its left are looked for last, so that the search can go from one fitting first digit to the next.
_CODES = re.compile(rb"[1235](?:0[07]|48)\d{3}(?!\d)(?<!\d{7})")
_WORD_CODES = re.compile(rb"E[EHILK]\d{4}")
_BROKEN_END = re.compile(rb"(?<!id)[=: \[][1235]\d{0,4}$")
_MOST_SHAPES = 20_000


class Line(NamedTuple):
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


def worth_of(line: bytes) -> int:
    """What a line is worth, without taking it apart: DULL, PLAIN or TELLING."""
    if line.startswith(DULL_STARTS) or (b"[" in line and _DULL.search(line, 0, 200)):
        return TELLING if b"mem stats" in line or b"mem_stats" in line else DULL
    low = line.lower()
    # Written out, because this runs for every line of a text that is no log at all.
    if (
        b"error" in low or b"fail" in low or b"exception" in low or b"null" in low
        or b"rank" in low or b"loc" in low or b"kind=" in low or b"heartbeat" in low or b"capture" in low
        or b"sdma" in low or b"mem stats" in low
        or (b"time" in low and (b"timeout" in low or b"time out" in low or b"time-out" in low))
    ):  # fmt: skip
        return TELLING
    if _SPARK_CODE.search(line) or ((b"00" in line or b"07" in line) and _SPARK_NUMBER.search(line)):
        return TELLING
    return PLAIN


def quick_header(line: bytes) -> re.Match[bytes] | None:
    """An undamaged header of an ERROR record at the line's beginning: its process, time and thread."""
    return _QUICK.match(line) if line.startswith(b"[ERROR]") else None


class Shapes:
    """A number for each form of line: lines that differ in nothing but numbers, codes excepted, share one.

    Where a line may be broken inside of a code, at its end or beginning, these digits count too. A forgotten
    form gets a new number, never that of another.
    """

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._next = 0

    def of(self, text: bytes) -> int:
        """The number of a line's form; `text` is the line, best without its header."""
        if b"mem stats" in text:  # its numbers are what it says
            key: object = text
        else:
            key = (text.translate(None, _NO_NUMBERS), *_CODES.findall(text), *_WORD_CODES.findall(text))
            if text[-1:].isdigit() and (broken := _BROKEN_END.search(text, max(len(text) - 8, 0))):
                key = (key, broken.group())
            if text[:1].isdigit():
                key = (key, text[:6])
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            shape = self._known[key] = self._next
            self._next += 1
        return shape


def _pid_in(text: str, default: int | None) -> int | None:
    # Two plain looks save most searches, which are slow.
    if "pid" not in text and "PID" not in text and "Pid" not in text:
        return default
    found = _PID.search(text)
    return default if found is None else int(found[1])


def parse(number: int, raw: bytes) -> Line:
    """Takes one line apart."""
    shown = raw[:_LONGEST].decode("utf-8", "replace").rstrip("\r\n")
    if "\x1b" in shown:
        shown = _COLOUR.sub("", shown)
    text = shown
    pid = None
    while match := _PREFIX.match(text):
        pid = _pid_in(match.group(), pid)
        text = text[match.end() :]
    header = _HEADER.search(text)
    if header is not None:
        tid = header["tid"]
        return Line(
            number, shown, text, header["level"], True, int(header["pid"]), int(tid) if tid else None,
            f"{header['date']}-{header['clock']}" if header["date"] else None,
        )  # fmt: skip
    if pid is None:
        pid = _pid_in(text, None)
    clock = _TIME.search(text)
    return Line(number, shown, text, None, False, pid, None, clock.group() if clock else None)
