"""Tables of a run, of its targets, and of two runs compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bench._targets import MISSED, REACHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from bench._compare import Change
    from bench._model import Row, Run
    from bench._targets import Verdict


def number(value: float | None) -> str:
    """Three digits that count, without an exponent where that stays readable."""
    if value is None:
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
        return f"{value:.{digits}f}"
    return f"{value:.2e}"


def _table(*columns: str, left: int = 1) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < left or i == len(columns) - 1 else "right")
    return table


def show_run(console: Console, run: Run) -> None:
    """Where it ran, then every case's rows."""
    machine = run.machine
    console.print(f"{run.where}: {run.library['path']}", style="bold yellow", markup=False)
    console.print(f"{machine['cpu']}, {machine['cpus']} cores, commit {run.commit}, {run.date}", markup=False)
    for name in dict.fromkeys(row.case for row in run.rows):
        console.print(f"\n{name} on {'the simulator' if run.simulated else 'hardware'}", style="bold")
        console.print(_rows_table([row for row in run.rows if row.case == name]))


def _rows_table(rows: Sequence[Row]) -> Table:
    table = _table("setting", "who", "median", "unit", "+-", "GB/s", "ours is", "bytes", left=2)
    ours = {row.setting: row.median for row in rows if row.who == "ours" and row.median}
    for row in rows:
        if row.waived is not None:
            table.add_row(row.setting, row.who, "-", "", "", "", "", f"waived: {row.waived}")
            continue
        if row.failure is not None:
            table.add_row(row.setting, row.who, "-", "", "", "", "", Text(f"FAILED: {row.failure}", "red"))
            continue
        mine, unit = ours.get(row.setting), row.unit
        ratio = (
            f"{row.median / mine:.2f}x" if mine and row.median and unit == "us" and row.who != "ours" else ""
        )
        checked = f"{row.verified} verified" if row.verified else row.note
        table.add_row(
            row.setting,
            row.who,
            number(row.median),
            unit,
            f"{row.spread:.0%}",
            number(row.gb_per_s) if row.gb_per_s else "",
            ratio,
            checked,
        )
    return table


def show_targets(console: Console, run: Run, verdicts: Sequence[Verdict]) -> None:
    console.print(f"\nTargets, {run.where}", style="bold", markup=False)
    table = _table("", "check", "wanted", "found", "+-", "verdict", "where, or why", left=2)
    styles = {REACHED: "green", MISSED: "red"}
    for one in verdicts:
        verdict = one.verdict + (" (informs)" if one.informs else "")
        table.add_row(
            one.target,
            one.check,
            one.wanted,
            number(one.value),
            number(one.spread) if one.value is not None else "",
            Text(verdict, styles.get(one.verdict, "yellow")),
            one.reason or one.setting,
        )
    console.print(table)


def show_changes(console: Console, changes: Sequence[Change], *, every: bool) -> None:
    """What moved beyond the noise; with `every`, also what did not."""
    table = _table("row", "before", "after", "after/before", "noise", "")
    styles = {"better": "green", "worse": "red"}
    for one in changes:
        if not every and one.verdict in {"same", "-"}:
            continue
        table.add_row(
            one.key,
            number(one.before),
            number(one.after),
            "-" if one.ratio is None else f"{one.ratio:.3f}",
            f"{one.noise:.0%}",
            Text(one.verdict, styles.get(one.verdict, "")),
        )
    console.print(table)
    counts = {name: sum(one.verdict == name for one in changes) for name in ("better", "worse", "same")}
    console.print(", ".join(f"{n} {name}" for name, n in counts.items()))
