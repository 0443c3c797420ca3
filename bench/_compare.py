"""Two runs against each other: the ratio of each row, and whether it is beyond the noise of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench._model import MORE

if TYPE_CHECKING:
    from bench._model import Run

_SIGMAS = 3 * 1.4826  # three standard deviations, from a median absolute deviation
_LEAST = 0.03  # below this nothing counts as moved, however quiet the samples were


@dataclass(frozen=True)
class Change:
    """One row in both runs. `verdict` is better, worse, same, new, gone, or "-" where there is no value."""

    key: str
    before: float | None
    after: float | None
    ratio: float | None
    noise: float
    verdict: str


def compare(before: Run, after: Run) -> list[Change]:
    """Every row of either run, in the order of the later one."""
    old = {row.key: row for row in before.rows}
    new = {row.key: row for row in after.rows}
    changes = []
    for key in [*new, *(key for key in old if key not in new)]:
        a, b = old.get(key), new.get(key)
        if a is None or b is None:
            only = a or b
            value = only.median if only is not None else None
            changes.append(
                Change(
                    key,
                    value if b is None else None,
                    value if a is None else None,
                    None,
                    0,
                    "gone" if b is None else "new",
                )
            )
            continue
        noise = max(_LEAST, _SIGMAS * (a.spread**2 + b.spread**2) ** 0.5)
        if not a.median or b.median is None:
            changes.append(Change(key, a.median, b.median, None, noise, "-"))
            continue
        ratio = b.median / a.median
        moved = ratio > 1 + noise or ratio < 1 / (1 + noise)
        up_is_good = b.better == MORE
        verdict = "same" if not moved else "better" if (ratio > 1) == up_is_good else "worse"
        changes.append(Change(key, a.median, b.median, ratio, noise, verdict))
    return changes
