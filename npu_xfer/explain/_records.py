"""Lines of a log, freed of what collectors put around them: colours, quote marks, file names, worker names.

A log may hold invalid bytes, lines without an end and lines broken anywhere; nothing here raises for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Line", "interesting", "parse", "split_lines"]

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
_DULL = re.compile(rb"\[(?:INFO|DEBUG|EVENT|TRACE|WARNING)\]")
_SPARK = re.compile(
    rb"error|fail|exception|heartbeat|capture|sdma|timeout|time.out|NULL|[=: ][125]0[07]\d{3}\b"
    rb"|mem stats|E[EHIL]\d{4}|rank|kind=|loc",
    re.IGNORECASE,
)


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
    if _DULL.search(line, 0, 200):
        return b"mem stats" in line
    return armed or _SPARK.search(line) is not None


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
