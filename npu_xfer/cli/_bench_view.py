"""What `npu-xfer bench` prints and writes from its results."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING, Any

from rich.table import Table

from npu_xfer._settings import format_nbytes
from npu_xfer.cli._common import exact_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npu_xfer.cli._bench import Plan, Result

__all__ = ["as_json", "footnotes", "table"]

FORMAT = 1


def _three_digits(value: float) -> str:
    """A positive number with three significant digits, never in exponent form."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def table(results: Sequence[Result]) -> Table:
    """One row for each case, less than 80 columns wide."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("dir", "memory"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("size", "at once"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("path", no_wrap=True)
    for heading in ("GB/s", "min - max", "us/copy"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    if any(result.verified_samples or result.failure for result in results):
        drawn.add_column("bytes", no_wrap=True)
    for result in results:
        drawn.add_row(*_cells(result)[: len(drawn.columns)], style="red" if result.failure else None)
    return drawn


def _cells(result: Result) -> list[str]:
    case = result.case
    at_once = (
        str(case.running) if case.running == case.concurrency else f"{case.running} of {case.concurrency}"
    )
    speeds = result.gb_per_s()
    us_per_copy = result.us_per_copy()
    return [
        str(case.direction),
        case.memory,
        exact_nbytes(case.nbytes),
        at_once,
        result.path or "-",
        _three_digits(statistics.median(speeds)) if speeds else "-",
        f"{_three_digits(min(speeds))} - {_three_digits(max(speeds))}" if speeds else "-",
        "-" if us_per_copy is None else _three_digits(us_per_copy),
        "FAILED" if result.failure else "equal" if result.verified_samples else "",
    ]


def footnotes(plan: Plan, results: Sequence[Result]) -> list[str]:
    """What a reader of the table must know."""
    counts = sorted({len(result.samples_s) for result in results})
    n_samples = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = [
        f"GB/s: median of {n_samples} samples, 10^9 bytes per second. us/copy: time of a sample divided by "
        "its copies, so with many at once it is not how long one copy takes."
    ]
    if any(result.case.running < result.case.concurrency for result in results):
        notes.append(
            "at once: fewer than asked for where the host arrays would take more than "
            f"{format_nbytes(plan.memory_nbytes)} (--memory)."
        )
    return notes


def as_json(plan: Plan, results: Sequence[Result], context: dict[str, Any]) -> dict[str, Any]:
    """The whole run, every sample included. `context` goes first."""
    settings = dataclasses.asdict(plan)
    return {
        "kind": "npu-xfer bench",
        "format": FORMAT,
        **context,
        "plan": settings,
        "cases": [_case_json(result) for result in results],
    }


def _case_json(result: Result) -> dict[str, Any]:
    speeds = result.gb_per_s()
    spread = {"median": statistics.median(speeds), "min": min(speeds), "max": max(speeds)} if speeds else None
    return {
        "direction": str(result.case.direction),
        "memory": result.case.memory,
        "nbytes": result.case.nbytes,
        "concurrency": result.case.concurrency,
        "running": result.case.running,
        "path": result.path,
        "copies_per_sample": result.copies_per_sample,
        "samples_s": result.samples_s,
        "gb_per_s": spread,
        "us_per_copy": result.us_per_copy(),
        "verified_samples": result.verified_samples,
        "failure": result.failure,
    }
