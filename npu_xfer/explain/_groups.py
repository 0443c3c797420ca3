"""From lines to incidents: lines of one thread and time belong together, and a rule names their cause."""

from __future__ import annotations

import bisect
import hashlib
import io
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from npu_xfer._cann.codes import CODES, code_info
from npu_xfer.explain._facts import apis_in, codes_in, direction_of, facts_in, inner_codes, locations
from npu_xfer.explain._records import interesting, parse, split_lines
from npu_xfer.explain._rules import rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from npu_xfer.explain._records import Line
    from npu_xfer.explain._rules import Rule

__all__ = ["Incident", "explain_bytes", "explain_lines", "explain_paths", "explain_stream"]

_MOST_CHARS = 1 << 15  # of one group's text without blanks
_MOST_GROUPS = 64  # open at once; the oldest is closed first
_MOST_INCIDENTS = 2000
_MOST_EVIDENCE = 5
_ARMED_LINES = 40  # after a telling line, lines without a header are looked at too
_GAP_S = 5  # of silence ends a group
# Words without which a number is no aclError.
_CANN = re.compile(r"acl|ascend|npu|runtime\(|runtimeresult|inn\w{0,9}code|E[EHIL]\d{4}", re.IGNORECASE)
_CLOCK = re.compile(r"-(\d\d):(\d\d):(\d\d)")


@dataclass(slots=True)
class Incident:
    """One failure, however many records tell of it."""

    id: str
    cls: str
    codes: list[str]
    api: str | None
    direction: str | None
    summary: str
    causes: list[str]
    remedies: list[str]
    evidence: list[dict[str, Any]]
    first_seen: str | None
    last_seen: str | None
    pid: int | None
    tid: int | None
    count: int
    role: str
    confidence: str
    details: list[str] = field(default_factory=list)
    found: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    inner_codes: list[str] = field(default_factory=list)
    information: bool = False
    source: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the class is under `class`."""
        data = asdict(self)
        return {"id": data.pop("id"), "class": data.pop("cls"), **data}


class _Group:
    """Text of one thread, without blanks, and where in it each line begins."""

    def __init__(self, first: Line) -> None:
        self.pid, self.tid = first.pid, first.tid
        self.text = io.StringIO()
        self.starts: list[int] = []
        self.lines: list[Line] = []
        self.second: int | None = None
        self.last = ""

    def add(self, line: Line) -> None:
        text = "".join(line.text.split())
        if line.record or (self.last[-1:].isdigit() and line.text[:1].isspace()):
            self.text.write("\n")
        self.starts.append(self.text.tell())
        self.text.write(text)
        self.lines.append(line)
        self.last = text or self.last

    def line_at(self, offset: int) -> Line:
        return self.lines[max(bisect.bisect_right(self.starts, offset) - 1, 0)]


def _second(time: str | None) -> int | None:
    match = _CLOCK.search(time or "")
    return None if match is None else int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])


def _key_of(
    line: Line, last: tuple[int | None, int | None], open_groups: dict[tuple[int | None, int | None], _Group]
) -> tuple[int | None, int | None]:
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


def _groups(lines: Iterable[bytes]) -> Iterator[_Group]:
    """Groups of telling lines. A line without process and thread belongs to the one before it."""
    open_groups: dict[tuple[int | None, int | None], _Group] = {}
    key: tuple[int | None, int | None] = (None, None)
    armed = 0
    for number, raw in enumerate(lines, 1):
        if not interesting(raw, armed > 0):
            armed -= armed > 0
            continue
        line = parse(number, raw)
        if line.record:
            key, armed = _key_of(line, key, open_groups), _ARMED_LINES
        else:
            armed = _ARMED_LINES if interesting(raw, armed=False) else armed - 1
            if line.pid is not None and line.pid != key[0]:
                unnamed = open_groups.pop((None, None), None)
                key = (line.pid, None)
                if unnamed is not None and key not in open_groups:
                    # Lines that come before the first one that names the process are its own.
                    unnamed.pid = line.pid
                    open_groups[key] = unnamed
        group = open_groups.get(key)
        second = _second(line.time) if line.record else None
        if group is not None and (
            group.text.tell() > _MOST_CHARS
            or (second is not None and group.second is not None and second - group.second > _GAP_S)
        ):
            yield open_groups.pop(key)
            group = None
        if group is None:
            if len(open_groups) >= _MOST_GROUPS:
                yield open_groups.pop(next(iter(open_groups)))
            group = open_groups[key] = _Group(line)
        group.add(line)
        group.second = group.second if second is None else second
    yield from open_groups.values()


@dataclass(slots=True)
class _Hit:
    rule: Rule
    offset: int
    by_code: bool


def _hits(text: str, numbers: list[int]) -> list[_Hit]:
    """Rules that speak of this text, without those that another one of them explains."""
    found = []
    for rule in rules():
        offsets = [match.start() for phrase in rule.match if (match := phrase.search(text))]
        if offsets:
            found.append(_Hit(rule, min(offsets), by_code=False))
            continue
        codes = [code for code in rule.codes if code in numbers]
        if codes and _CANN.search(text):
            found.append(_Hit(rule, text.find(str(codes[0])), by_code=True))
    hidden = frozenset().union(*(hit.rule.hides for hit in found if not hit.by_code or hit.rule.rank >= 50))
    found = [hit for hit in found if hit.rule.name not in hidden]
    told = {code for hit in found if not hit.by_code for code in hit.rule.codes}
    found = [hit for hit in found if not (hit.by_code and told.intersection(hit.rule.codes))]
    # A general rule says nothing where a particular one speaks.
    if any(hit.rule.rank >= 50 for hit in found):
        found = [hit for hit in found if hit.rule.rank >= 20]
    return found


def _incident(group: _Group, text: str, hit: _Hit, numbers: list[int], words: list[str]) -> Incident:
    rule = hit.rule
    details = [detail for detail in rule.details if detail.match.search(text)]
    offsets = sorted(
        {match.start() for phrase in (*rule.match, *rule.count) for match in phrase.finditer(text)}
        or {max(hit.offset, 0)}
    )
    evidence: dict[int, str] = {}
    for offset in offsets:
        line = group.line_at(offset)
        evidence[line.number] = line.raw.strip()[:500]
    shown = [{"line": number, "text": raw} for number, raw in list(evidence.items())[:_MOST_EVIDENCE]]
    times = [line.time for line in group.lines if line.time]
    apis = apis_in(text)
    key = f"{rule.name}|{group.pid}|{group.tid}"
    known = [f"{code} ({code_info(code).name})" for code in numbers if code in CODES]
    return Incident(
        id=hashlib.sha256(key.encode()).hexdigest()[:12],
        cls=rule.name,
        codes=[str(code) for code in numbers] + words,
        api=apis[0] if apis else rule.api,
        direction=direction_of(text),
        summary=rule.summary,
        causes=[detail.cause for detail in details] + list(rule.causes)
        + [f"the log names {', '.join(known)}"] * bool(known),
        remedies=list(rule.remedies),
        evidence=shown,
        first_seen=min(times) if times else None,
        last_seen=max(times) if times else None,
        pid=group.pid,
        tid=group.tid,
        count=max([1, *(len(phrase.findall(text)) for phrase in rule.count)]),
        role=rule.role,
        confidence="medium" if hit.by_code else "high",
        details=[detail.name for detail in details],
        found=locations(text),
        facts=facts_in(text),
        inner_codes=inner_codes(text),
        information=rule.information,
        source=rule.source,
    )  # fmt: skip


def _of_group(group: _Group) -> list[Incident]:
    text = group.text.getvalue()
    numbers, words = codes_in(text)
    numbers = [code for code in numbers if code in CODES and code]
    return [_incident(group, text, hit, numbers, words) for hit in _hits(text, numbers)]


def explain_lines(lines: Iterable[bytes]) -> list[Incident]:
    """Incidents of one log, in the order of their first lines. Equal ones of a thread are one, counted."""
    found: dict[str, Incident] = {}
    for group in _groups(lines):
        for incident in _of_group(group):
            known = found.get(incident.id)
            if known is None:
                if len(found) < _MOST_INCIDENTS:
                    found[incident.id] = incident
                continue
            known.count += incident.count
            known.codes += [code for code in incident.codes if code not in known.codes]
            known.last_seen = max(filter(None, (known.last_seen, incident.last_seen)), default=None)
    secondary = {rule.name: rule.secondary_to for rule in rules()}
    incidents = sorted(found.values(), key=lambda one: one.evidence[0]["line"] if one.evidence else 0)
    for incident in incidents:
        if any(
            other.cls in secondary[incident.cls] and (other.pid == incident.pid or other.pid is None)
            for other in incidents
        ):
            incident.role = "messenger"
    return incidents


def explain_bytes(data: bytes) -> list[Incident]:
    """Incidents of a log in memory."""
    return explain_lines(split_lines(io.BytesIO(data)))


def explain_stream(stream: BinaryIO) -> list[Incident]:
    """Incidents of a binary stream of any size."""
    return explain_lines(split_lines(stream))


def _of_file(file: Path) -> list[Incident] | OSError:
    try:
        with file.open("rb") as stream:
            return explain_stream(stream)
    except OSError as error:
        return error


def explain_paths(paths: Iterable[Path]) -> Iterator[tuple[Path, list[Incident] | OSError]]:
    """Incidents of each file; a folder stands for the files called *.log or *.txt below it."""
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(one for one in path.rglob("*") if one.suffix in {".log", ".txt"} and one.is_file())
        for file in files:
            yield file, _of_file(file)
