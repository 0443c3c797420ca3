"""What a check reports, and the texts of every finding.

The texts are data (findings/GROUP.json): a check names an id and gives the facts, so that a translation needs
no code. `{name}` in a text stands for the fact of that name.
"""

from __future__ import annotations

import enum
import functools
import json
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

__all__ = [
    "FORMAT",
    "GROUPS",
    "Finding",
    "Report",
    "Severity",
    "Text",
    "catalogue",
    "finding",
    "for_simulator",
]

FORMAT = 1
"""Of the JSON report; grows when a reader of the old one would go wrong."""


class Severity(enum.IntEnum):
    """How bad a finding is; a larger one is worse."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Text:
    """One entry of findings/*.json."""

    id: str
    group: str
    severity: Severity
    simulated: Severity
    """Instead of `severity` where the simulator is in use."""

    found: str
    why: str
    fix: str
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what was seen."""

    id: str
    """Stable: a script may compare it."""

    group: str
    severity: Severity
    found: str
    why: str
    fix: str
    source: str
    facts: dict[str, Any]

    def at(self, severity: Severity) -> Finding:
        """The same, better or worse than the catalogue says."""
        return replace(self, severity=severity)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.id,
            "group": self.group,
            "severity": self.severity.name.lower(),
            "found": self.found,
            "why": self.why,
            "fix": self.fix,
            "source": self.source,
            "facts": self.facts,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found, in the order of the checks."""

    findings: tuple[Finding, ...]
    simulated: bool | None
    """None when no library could be opened or none was tried."""

    @property
    def worst(self) -> Severity:
        """Of all findings; OK without any."""
        return max((one.severity for one in self.findings), default=Severity.OK)

    @property
    def status(self) -> int:
        """The exit status: 1 for a warning or an error, else 0."""
        return int(self.worst > Severity.NOTE)

    def ids(self) -> list[str]:
        """The id of each finding."""
        return [one.id for one in self.findings]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; schema.json describes it."""
        return {
            "format": FORMAT,
            "simulated": self.simulated,
            "worst": self.worst.name.lower(),
            "status": self.status,
            "findings": [one.as_dict() for one in self.findings],
        }


GROUPS = ("doctor", "library", "versions", "devices", "runtime", "memory", "cpu", "process")
"""What the findings are about; a file of texts each."""


def _load(name: str, group: str, data: dict[str, str]) -> Text:
    severity = Severity[data["severity"].upper()]
    return Text(
        id=name,
        group=group,
        severity=severity,
        simulated=Severity[data.get("simulated", data["severity"]).upper()],
        found=data["found"],
        why=data["why"],
        fix=data.get("fix", "Nothing to do."),
        source=data["source"],
    )


@functools.cache
def catalogue() -> dict[str, Text]:
    """Every finding that there is, by id."""
    found = {}
    for group in GROUPS:
        raw = (resources.files("npu_xfer.doctor") / "findings" / f"{group}.json").read_text(encoding="utf-8")
        found.update({name: _load(name, group, data) for name, data in json.loads(raw).items()})
    return found


def finding(name: str, /, **facts: Any) -> Finding:
    """A finding with its texts filled in."""
    text = catalogue()[name]
    return Finding(
        id=name,
        group=text.group,
        severity=text.severity,
        found=text.found.format_map(facts),
        why=text.why.format_map(facts),
        fix=text.fix.format_map(facts),
        source=text.source,
        facts=facts,
    )


def for_simulator(found: Finding) -> Finding:
    """The same with the severity that it has on the simulator, where that is milder."""
    text = catalogue()[found.id]
    return found if text.simulated >= found.severity else found.at(text.simulated)
