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

__all__ = ["as_json", "banner", "footnotes", "table"]

FORMAT = 1


def banner(plan: Plan, *, as_default: bool) -> str:
    """What a run says before it starts."""
    how_long = ", about half a minute" if as_default else ""
    return f"Measuring {len(plan.cases())} cases{how_long}; Ctrl-C ends it and keeps what is finished."


def _three_digits(value: float) -> str:
    """A positive number with three significant digits, never in exponent form."""
    # Limits where the next format would round up to a digit more.
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.9995 else f"{value:.3f}"


def _by_point(texts: Sequence[str]) -> list[str]:
    """Numbers of one column with their decimal points below each other, when the column goes to the right."""
    behind = [len(text) - text.index(".") if "." in text else 0 for text in texts]
    return [text + " " * (max(behind) - n) for text, n in zip(texts, behind, strict=True)]


_NUMBERS = ("GB/s", "min", "max", "us/copy")


def table(results: Sequence[Result]) -> Table:
    """One row for each case, and a gap where the direction or the kind of memory changes.

    Less than 80 columns wide, but for long sizes.
    """
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("dir", "memory"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("size", "at once"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("path", no_wrap=True)
    for heading in _NUMBERS:
        drawn.add_column(heading, justify="right", no_wrap=True)
    if any(result.verified_samples or result.failure for result in results):
        drawn.add_column("bytes", no_wrap=True)
    numbers = zip(*map(_by_point, zip(*map(_numbers, results), strict=True)), strict=True)
    before: tuple[str, str] | None = None
    for result, columns in zip(results, numbers, strict=True):
        group = (str(result.case.direction), result.case.memory)
        if before not in {None, group}:
            drawn.add_row()
        before = group
        cells = [*group, *_left_cells(result), *columns, _verdict(result)]
        drawn.add_row(*cells[: len(drawn.columns)], style="red" if result.failure else None)
    return drawn


def _left_cells(result: Result) -> list[str]:
    case = result.case
    at_once = str(case.running)
    if case.running < case.concurrency:
        at_once = f"{case.running}/{case.concurrency}"
    return [exact_nbytes(case.nbytes), at_once, result.path or "-"]


def _numbers(result: Result) -> list[str]:
    """In the order of _NUMBERS."""
    speeds = result.gb_per_s()
    us_per_copy = result.us_per_copy()
    if not speeds or us_per_copy is None:
        return ["-"] * len(_NUMBERS)
    return [
        *(_three_digits(value) for value in (statistics.median(speeds), min(speeds), max(speeds))),
        f"{us_per_copy:.1f}",
    ]


def _verdict(result: Result) -> str:
    return "FAILED" if result.failure else "equal" if result.verified_samples else ""


def footnotes(plan: Plan, results: Sequence[Result]) -> list[str]:
    """What a reader of the table must know."""
    counts = sorted({len(result.samples_s) for result in results})
    n_samples = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = [
        f"GB/s: median, least and most of {n_samples} samples, in 10^9 bytes per second. us/copy: time of a "
        "sample divided by its copies, so with many at once it is not how long one copy takes."
    ]
    fewer = [result.case for result in results if result.case.running < result.case.concurrency]
    if fewer:
        notes.append(
            f"at once: {fewer[0].running}/{fewer[0].concurrency} is {fewer[0].running} where "
            f"{fewer[0].concurrency} were asked for, because the host arrays may take at most "
            f"{format_nbytes(plan.memory_nbytes)} (--memory)."
        )
    return notes


def as_json(
    plan: Plan, results: Sequence[Result], context: dict[str, Any], *, interrupted: bool
) -> dict[str, Any]:
    """The whole run, every sample included. `context` goes first."""
    settings = dataclasses.asdict(plan)
    return {
        "kind": "npu-xfer bench",
        "format": FORMAT,
        **context,
        "plan": settings,
        "interrupted": interrupted,
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
