"""From groups to incidents: a rule names the cause of a group, and equal incidents of a thread are one."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from npu_xfer._cann.codes import CODES, INNER, code_info
from npu_xfer.explain._facts import apis_in, codes_in, direction_of, facts_in, inner_codes, locations
from npu_xfer.explain._groups import groups_of
from npu_xfer.explain._notes import notes_for
from npu_xfer.explain._records import split_lines
from npu_xfer.explain._rules import rules
from npu_xfer.explain._texts import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from npu_xfer.explain._groups import Group
    from npu_xfer.explain._rules import Rule

__all__ = ["Incident", "explain_bytes", "explain_lines", "explain_paths", "explain_stream"]

_MOST_INCIDENTS = 2000
_MOST_EVIDENCE = 5
_MOST_PLANS = 5000
_MOST_PLAN_LINES = 400
# Words near a number without which it is no aclError, in lower case and without blanks.
_CANN = re.compile(
    r"acl(?:rt|mdl|op|nn|set|reset|init|fin|error)|ascend(?:cl|log|\])|torch_npu|c10_npu"
    r"|npu(?:function|error|warning|stream)|runtime\(|runtimeresult|inn\w{0,9}code"
    r"|(?<![a-z0-9])e[ehil]\d{4}(?!\d)"
)
_NEAR = 400  # characters
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


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
    notes: list[str] = field(default_factory=list)
    consequences: list[str] = field(default_factory=list)
    found: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    inner_codes: list[str] = field(default_factory=list)
    level: str | None = None
    information: bool = False
    source: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the class is under `class`."""
        data = asdict(self)
        return {"id": data.pop("id"), "class": data.pop("cls"), **data}


@dataclass(slots=True)
class _Hit:
    rule: Rule
    offset: int
    by_code: bool
    counted: list[list[int]] = field(default_factory=list)  # for each phrase of `count`, indices of lines
    hidden: list[_Hit] = field(default_factory=list)

    def count(self, group: Group) -> int:
        return max([1, *(sum(group.weights[at] for at in lines) for lines in self.counted)])


@dataclass(slots=True)
class _Reading:
    """A group's text and what was found in it."""

    text: str
    low: str
    numbers: list[int]
    words: list[str]
    hits: list[_Hit]


def _lower(text: str) -> str:
    low = text.lower()
    # A few letters become two in lower case, which would move every place behind them.
    return low if len(low) == len(text) else text.translate(_LOWER)


def _is_cann(low: str, code: int) -> bool:
    """Whether a number stands where CANN speaks, at one of its places."""
    word = str(code)
    at = low.find(word)
    while at >= 0:
        if _CANN.search(low, max(at - _NEAR, 0), at + _NEAR) is not None:
            return True
        at = low.find(word, at + len(word))
    return False


def _hits(low: str, numbers: list[int]) -> list[_Hit]:
    """Rules that speak of this text, without those that another one of them explains."""
    found = []
    for rule in rules():
        offsets = [start for phrase in rule.match if (start := phrase.first(low)) >= 0]
        if offsets:
            found.append(_Hit(rule, min(offsets), by_code=False))
            continue
        codes = [code for code in rule.codes if code in numbers and _is_cann(low, code)]
        if codes:
            found.append(_Hit(rule, low.find(str(codes[0])), by_code=True))
    for hit in found:
        hit.hidden = [other for other in found if other.rule.name in hit.rule.consequences]
    hidden = frozenset().union(*(hit.rule.hides for hit in found if not hit.by_code or hit.rule.rank >= 50))
    found = [hit for hit in found if hit.rule.name not in hidden]
    told = {code for hit in found if not hit.by_code for code in hit.rule.codes}
    found = [hit for hit in found if not (hit.by_code and told.intersection(hit.rule.codes))]
    # A general rule says nothing where a particular one speaks.
    if any(hit.rule.rank >= 50 for hit in found):
        found = [hit for hit in found if hit.rule.rank >= 20]
    return found


def _read(group: Group) -> _Reading:
    text = group.text()
    low = _lower(text)
    numbers, words = codes_in(text)
    numbers = [code for code in numbers if code in CODES and code]
    hits = _hits(low, numbers)
    for hit in hits:
        hit.counted = [[group.index_at(start) for start in phrase.starts(low)] for phrase in hit.rule.count]
    return _Reading(text, low, numbers, words, hits)


def _evidence(group: Group, low: str, hit: _Hit) -> tuple[list[dict[str, Any]], str | None]:
    """The lines that prove it, each once, and the highest level among them."""
    phrases = (*hit.rule.match, *hit.rule.count)
    offsets = {start for phrase in phrases for start in phrase.starts(low)} or {max(hit.offset, 0)}
    lines = {group.lines[group.index_at(offset)].number: offset for offset in sorted(offsets)}
    shown = [group.lines[group.index_at(offset)] for offset in lines.values()]
    levels = {line.level for line in shown}
    level = next((level for level in ("ERROR", "WARNING", "EVENT", "INFO") if level in levels), None)
    return [{"line": line.number, "text": line.raw.strip()[:500]} for line in shown[:_MOST_EVIDENCE]], level


def _consequences(hit: _Hit, numbers: list[int], lang: str) -> list[str]:
    found = []
    for other in hit.hidden:
        codes = [code for code in other.rule.codes if code in numbers and code not in hit.rule.codes]
        names = [f"{code} ({code_info(code).name})" for code in codes] or [other.rule.name]
        found += [say(lang, "follows", what=name) for name in names]
    return found


def _ident(hit: _Hit, group: Group) -> str:
    key = f"{hit.rule.name}|{group.pid}|{group.tid}"
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def _incident(group: Group, reading: _Reading, hit: _Hit, lang: str) -> Incident:
    rule, text = hit.rule, reading.text
    details = [one for one in rule.details if one.match.first(reading.low) >= 0]
    evidence, level = _evidence(group, reading.low, hit)
    apis = apis_in(text)
    direction = direction_of(text)
    inner, decimals = inner_codes(text)
    names = [f"{code} ({code_info(code).name}): {code_info(code).texts(lang)[0]}" for code in reading.numbers]
    known = [
        f"{code}: {info.meaning_zh if lang == 'zh' else info.meaning}"
        for code in inner
        if (info := INNER.get(int(code, 16))) is not None
    ]
    summary, causes, remedies = rule.texts(lang)
    return Incident(
        id=_ident(hit, group),
        cls=rule.name,
        codes=[str(code) for code in reading.numbers] + reading.words,
        api=apis[0] if apis else rule.api,
        direction=direction,
        summary=summary,
        causes=[one.cause_zh if lang == "zh" else one.cause for one in details] + list(causes),
        remedies=list(remedies),
        evidence=evidence,
        first_seen=group.first_seen,
        last_seen=group.last_seen,
        pid=group.pid,
        tid=group.tid,
        count=hit.count(group),
        role=rule.role,
        confidence="medium" if hit.by_code else "high",
        details=[one.name for one in details],
        notes=notes_for(rule.notes, text, direction, lang)
        + [say(lang, "decimal", decimal=decimal, inner=code) for decimal, code in decimals.items()]
        + names
        + known,
        consequences=_consequences(hit, reading.numbers, lang),
        found=locations(text, lang),
        facts=facts_in(text),
        inner_codes=inner,
        level=level,
        information=rule.information,
        source=rule.source,
    )


def _merge(known: Incident, count: int, codes: list[str], group: Group) -> None:
    known.count += count
    known.codes += [code for code in codes if code not in known.codes]
    known.first_seen = min(filter(None, (known.first_seen, group.first_seen)), default=None)
    known.last_seen = max(filter(None, (known.last_seen, group.last_seen)), default=None)


def _find(lines: Iterable[bytes], lang: str) -> dict[str, Incident]:
    found: dict[str, Incident] = {}
    # What a group of these forms of lines says, for the next one like it.
    plans: dict[tuple[int, ...], tuple[list[_Hit], list[str]]] = {}
    for group in groups_of(lines):
        key = tuple(group.shapes)
        plan = plans.get(key)
        if plan is not None and all(_ident(hit, group) in found for hit in plan[0]):
            for hit in plan[0]:
                _merge(found[_ident(hit, group)], hit.count(group), plan[1], group)
            continue
        reading = _read(group)
        codes = [str(code) for code in reading.numbers] + reading.words
        for hit in reading.hits:
            known = found.get(_ident(hit, group))
            if known is not None:
                _merge(known, hit.count(group), codes, group)
            elif len(found) < _MOST_INCIDENTS:
                incident = _incident(group, reading, hit, lang)
                found[incident.id] = incident
        if len(key) <= _MOST_PLAN_LINES:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plans[key] = (reading.hits, codes)
    return found


def explain_lines(lines: Iterable[bytes], lang: str = "en") -> list[Incident]:
    """Incidents of one log, in the order of their first lines. Equal ones of a thread are one, counted.

    `lang` is "en" or "zh".
    """
    secondary = {rule.name: rule.secondary_to for rule in rules()}
    incidents = sorted(
        _find(lines, lang).values(), key=lambda one: one.evidence[0]["line"] if one.evidence else 0
    )
    processes: dict[str, set[int | None]] = {}
    for incident in incidents:
        processes.setdefault(incident.cls, set()).add(incident.pid)
    for incident in incidents:
        for cls in secondary[incident.cls]:
            if {incident.pid, None} & processes.get(cls, set()):
                incident.role = "messenger"
    return incidents


def explain_stream(stream: BinaryIO, lang: str = "en") -> list[Incident]:
    """Incidents of a binary stream of any size."""
    return explain_lines(split_lines(stream), lang)


def explain_bytes(data: bytes, lang: str = "en") -> list[Incident]:
    """Incidents of a log in memory."""
    return explain_stream(io.BytesIO(data), lang)


def _of_file(file: Path, lang: str) -> list[Incident] | OSError:
    try:
        with file.open("rb") as stream:
            return explain_stream(stream, lang)
    except OSError as error:
        return error


def explain_paths(paths: Iterable[Path], lang: str = "en") -> Iterator[tuple[Path, list[Incident] | OSError]]:
    """Incidents of each file; a folder stands for the files called *.log or *.txt below it."""
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(one for one in path.rglob("*") if one.suffix in {".log", ".txt"} and one.is_file())
        for file in files:
            yield file, _of_file(file, lang)
