"""The rules: what is in rules/*.json, checked and compiled.

A phrase of a rule is plain text with holes: `{name}` stands for a number, `{*}` for up to 60 characters.
Blanks and case do not count, so that broken lines and lost blanks change nothing.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Detail", "Phrase", "Rule", "compile_phrase", "load", "rules"]

_HOLE = re.compile(r"\{(\*|\w+)\}")
_KEYS = {
    "class", "rank", "codes", "match", "count", "role", "hides", "consequences", "secondary_to", "details",
    "notes", "summary", "causes", "remedies", "summary_zh", "causes_zh", "remedies_zh", "source", "examples",
    "information", "api",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase, to be looked for in lower-case text without blanks."""

    parts: tuple[str, ...]
    """Its plain pieces; looking for these first is many times faster than the expression."""

    pattern: re.Pattern[str] | None
    """None when the phrase has no hole."""

    def first(self, text: str) -> int:
        """Where it begins for the first time, or -1."""
        if self.pattern is None:
            return text.find(self.parts[0])
        for part in self.parts:
            if part not in text:
                return -1
        match = self.pattern.search(text)
        return -1 if match is None else match.start()

    def starts(self, text: str) -> Iterator[int]:
        """Where it begins in the text."""
        if not all(part in text for part in self.parts):
            return
        if self.pattern is not None:
            yield from (match.start() for match in self.pattern.finditer(text))
            return
        (part,) = self.parts
        at = text.find(part)
        while at >= 0:
            yield at
            at = text.find(part, at + len(part))


def compile_phrase(phrase: str) -> Phrase:
    """A phrase in the form in which it is looked for."""
    pieces: list[str] = []
    expression = []
    end = 0
    holes = list(_HOLE.finditer(phrase))
    for hole in [*holes, None]:
        piece = "".join(phrase[end : hole.start() if hole else None].split()).lower()
        pieces.append(piece)
        expression.append(re.escape(piece))
        if hole is not None:
            expression.append(".{0,60}?" if hole.group(1) == "*" else r"(?:0x)?[0-9a-f]+")
            end = hole.end()
    parts = tuple(piece for piece in pieces if piece)
    if not parts:
        raise ValueError(f"nothing but holes in {phrase!r}")
    return Phrase(parts, re.compile("".join(expression)) if holes else None)


@dataclass(frozen=True, slots=True)
class Detail:
    """A finer reading of a class, taken when its phrase is there too."""

    name: str
    match: Phrase
    cause: str
    cause_zh: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One class of failure."""

    name: str
    rank: int
    codes: tuple[int, ...]
    match: tuple[Phrase, ...]
    count: tuple[Phrase, ...]
    role: str
    hides: frozenset[str]
    consequences: frozenset[str]
    secondary_to: frozenset[str]
    details: tuple[Detail, ...]
    summary: str
    causes: tuple[str, ...]
    remedies: tuple[str, ...]
    summary_zh: str
    causes_zh: tuple[str, ...]
    remedies_zh: tuple[str, ...]
    source: str
    examples: tuple[str, ...]
    information: bool
    api: str | None
    notes: tuple[str, ...]

    def texts(self, lang: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Summary, causes and remedies in a language."""
        if lang == "zh":
            return self.summary_zh, self.causes_zh, self.remedies_zh
        return self.summary, self.causes, self.remedies


def load(data: dict[str, Any]) -> Rule:
    """One rule from its file's content; raises ValueError or KeyError when it is not one."""
    unknown = set(data) - _KEYS
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    if not data["source"] or not (data.get("match") or data.get("codes")):
        raise ValueError("a rule needs a source, and phrases or codes")
    return Rule(
        name=data["class"],
        rank=int(data["rank"]),
        codes=tuple(int(code) for code in data.get("codes", ())),
        match=tuple(compile_phrase(phrase) for phrase in data.get("match", ())),
        count=tuple(compile_phrase(phrase) for phrase in data.get("count", ())),
        role=data.get("role", "cause"),
        hides=frozenset(data.get("hides", ())),
        consequences=frozenset(data.get("consequences", ())),
        secondary_to=frozenset(data.get("secondary_to", ())),
        details=tuple(
            Detail(item["name"], compile_phrase(item["match"]), item["cause"], item["cause_zh"])
            for item in data.get("details", ())
        ),
        summary=data["summary"],
        causes=tuple(data["causes"]),
        remedies=tuple(data["remedies"]),
        summary_zh=data["summary_zh"],
        causes_zh=tuple(data["causes_zh"]),
        remedies_zh=tuple(data["remedies_zh"]),
        source=data["source"],
        examples=tuple(data["examples"]),
        information=bool(data.get("information", False)),
        api=data.get("api"),
        notes=tuple(data.get("notes", ())),
    )


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules, the most specific first."""
    folder = resources.files("npu_xfer.explain") / "rules"
    found = [
        load(json.loads(item.read_text(encoding="utf-8")))
        for item in folder.iterdir()
        if item.name.endswith(".json")
    ]
    return tuple(sorted(found, key=lambda rule: (-rule.rank, rule.name)))
