"""The targets of targets.json against the rows of a run: reached, not reached, or waived with the reason.

A check is a value of its own row ("value"), or a ratio to another row of the same setting: "speed" is how
many times as fast, "cost" how many times the time. The worst setting counts,
of those that "only" matches.
"""

from __future__ import annotations

import json
import operator
import statistics
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench._model import mad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench._model import Row

REACHED, MISSED, WAIVED = "reached", "not reached", "waived"
_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Verdict:
    """One check of one target."""

    target: str
    check: str
    wanted: str
    value: float | None
    spread: float
    setting: str
    verdict: str
    reason: str = ""
    informs: bool = False
    """Reported only: missing it fails nothing."""


def load_targets() -> list[dict[str, Any]]:
    data = json.loads((Path(__file__).parent / "targets.json").read_text(encoding="utf-8"))
    targets: list[dict[str, Any]] = data["targets"]
    return targets


def _ratio(top: Row, bottom: Row) -> tuple[float, float]:
    """Median and spread of top / bottom, sample by sample where both have as many."""
    if len(top.values) == len(bottom.values):
        each = [a / b for a, b in zip(top.values, bottom.values, strict=True)]
        return statistics.median(each), mad(each)
    assert top.median is not None
    assert bottom.median is not None
    return top.median / bottom.median, (top.spread + bottom.spread) * top.median / bottom.median


def _values(check: dict[str, Any], rows: Sequence[Row]) -> list[tuple[float, float, str]]:
    """(value, spread, setting) for every setting that has what the check needs."""
    found = []
    by_name = {(row.setting, row.who): row for row in rows if row.values}
    for (setting, who), row in by_name.items():
        if who != check["ours"] or not fnmatch(setting, check.get("only", "*")):
            continue
        if check["as"] == "value":
            assert row.median is not None
            found.append((row.median, row.spread * abs(row.median), setting))
        elif (other := by_name.get((setting, check["than"]))) is not None:
            pair = (other, row) if check["as"] == "speed" else (row, other)
            found.append((*_ratio(*pair), setting))
    return found


def _why_not(check: dict[str, Any], rows: Sequence[Row]) -> str:
    names = {check["ours"], check.get("than")}
    for row in rows:
        if row.waived and (row.who in names or row.setting == "all"):
            return row.waived
    return "the case was not run" if not rows else "no row for it in this run"


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """Every check of every target. Rows with a failure make their target not reached."""
    verdicts = []
    for target in load_targets():
        own = [row for row in rows if row.case == target["case"]]
        broken = next((row for row in own if row.failure), None)
        for check in target["checks"]:
            wanted = f"{check['relation']} {check['value']:g} {check.get('unit', 'times')}"
            common = (target["id"], check["name"], wanted)
            informs = bool(check.get("informs"))
            if broken is not None:
                verdicts.append(
                    Verdict(
                        *common, None, 0, broken.setting, MISSED, f"{broken.key}: {broken.failure}", informs
                    )
                )
                continue
            found = _values(check, own)
            if not found:
                verdicts.append(Verdict(*common, None, 0, "", WAIVED, _why_not(check, own), informs))
                continue
            worst = (min if check["relation"].startswith(">") else max)(found)
            held = _RELATIONS[check["relation"]](worst[0], check["value"])
            verdicts.append(Verdict(*common, *worst, REACHED if held else MISSED, "", informs))
    return verdicts
