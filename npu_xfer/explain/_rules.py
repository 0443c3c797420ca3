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
from typing import Any

__all__ = ["Detail", "Rule", "compile_phrase", "load", "rules"]

_HOLE = re.compile(r"\{(\*|\w+)\}")
_KEYS = {
    "class", "rank", "codes", "match", "count", "role", "hides", "secondary_to", "details", "summary",
    "causes", "remedies", "summary_zh", "causes_zh", "remedies_zh", "source", "examples", "information",
    "api",
}  # fmt: skip


def compile_phrase(phrase: str) -> re.Pattern[str]:
    """A phrase as an expression over text without blanks."""
    parts = []
    end = 0
    for hole in _HOLE.finditer(phrase):
        parts.append(re.escape("".join(phrase[end : hole.start()].split())))
        parts.append(".{0,60}?" if hole.group(1) == "*" else r"(?:0x)?[0-9a-f]+")
        end = hole.end()
    parts.append(re.escape("".join(phrase[end:].split())))
    return re.compile("".join(parts), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Detail:
    """A finer reading of a class, taken when its phrase is there too."""

    name: str
    match: re.Pattern[str]
    cause: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One class of failure."""

    name: str
    rank: int
    codes: tuple[int, ...]
    match: tuple[re.Pattern[str], ...]
    count: tuple[re.Pattern[str], ...]
    role: str
    hides: frozenset[str]
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
        secondary_to=frozenset(data.get("secondary_to", ())),
        details=tuple(
            Detail(item["name"], compile_phrase(item["match"]), item["cause"])
            for item in data.get("details", ())
        ),
        summary=data["summary"],
        causes=tuple(data["causes"]),
        remedies=tuple(data["remedies"]),
        summary_zh=data.get("summary_zh", data["summary"]),
        causes_zh=tuple(data.get("causes_zh", data["causes"])),
        remedies_zh=tuple(data.get("remedies_zh", data["remedies"])),
        source=data["source"],
        examples=tuple(data["examples"]),
        information=bool(data.get("information", False)),
        api=data.get("api"),
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
