"""The command line: list, run, compare. Exit status 0 also when a target is missed, unless --strict."""

# typer reads the annotations of this file when the program runs, so that they are not postponed here.

import contextlib
import dataclasses
import fnmatch
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench._bare import Unavailable, build
from bench._child import run_case
from bench._compare import compare as compare_runs
from bench._measure import SCALES
from bench._model import Run, read_run
from bench._targets import MISSED, judge, load_targets
from bench._view import show_changes, show_run, show_targets
from bench._where import describe
from bench.cases import Case, load_cases

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _console(width: int | None = None) -> Console:
    console = Console(highlight=False, width=width)
    if not console.is_terminal and width is None:
        return Console(highlight=False, width=150)  # a table in a log is not cut to 80
    return console


def _chosen(patterns: list[str] | None) -> list[Case]:
    cases = load_cases()
    if not patterns:
        return list(cases.values())
    chosen = [case for case in cases.values() if any(fnmatch.fnmatch(case.name, glob) for glob in patterns)]
    if not chosen:
        raise typer.BadParameter(f"no case matches {', '.join(patterns)}; cases: {', '.join(cases)}")
    return chosen


@app.command("list")
def list_cases() -> None:
    """Show the cases and the targets that need them."""
    console = _console()
    needed: dict[str, list[str]] = {}
    for target in load_targets():
        needed.setdefault(target["case"], []).append(target["id"])
    for case in load_cases().values():
        ids = ", ".join(needed.get(case.name, []))
        console.print(f"{case.name:10} {ids:8} {case.what}", markup=False)


@contextlib.contextmanager
def _baseline(console: Console) -> Iterator[Path | None]:
    with tempfile.TemporaryDirectory(prefix="npu_xfer_bench_") as folder:
        try:
            library = build(Path(folder))
        except Unavailable as error:
            console.print(f"waived: bare C: {error}", style="yellow", markup=False)
            library = None
        yield library


def _measure(console: Console, cases: list[Case], scale: str, run: Run) -> None:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        auto_refresh=False,  # a thread of its own would disturb what is measured
        disable=not console.is_terminal,
    )
    with progress, _baseline(console) as library:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            progress.update(task, description=case.name, refresh=True)
            start = time.monotonic()
            run.rows += run_case(case, scale, library)
            progress.advance(task)
            run.settings["seconds"][case.name] = round(time.monotonic() - start, 1)


@app.command("run")
def run_suite(
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="GLOB", help="Only these cases; may be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 5 minutes on 2 cores: the default.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="1 GiB, 100,000 transfers, long sweeps.")] = False,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="To see that everything works; figures mean nothing.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything to FILE.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw charts.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE.html", help="Tables and charts in one file.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 1 when a target is missed.")] = False,
) -> None:
    """Measure, print tables, and say which targets are reached."""
    if quick + full + tiny > 1:
        raise typer.BadParameter("only one of --quick, --full and --tiny")
    scale = SCALES[2 if full else 0 if tiny else 1]
    console = _console()
    cases = _chosen(case)
    run = describe(scale)
    with contextlib.suppress(KeyboardInterrupt):  # what was measured until then is shown
        _measure(console, cases, scale, run)
    verdicts = judge(run.rows)
    if case:
        verdicts = [
            one
            for one in verdicts
            if any(one.target == t["id"] and t["case"] in {c.name for c in cases} for t in load_targets())
        ]
    run.targets = [dataclasses.asdict(one) for one in verdicts]
    show_run(console, run)
    show_targets(console, run, verdicts)
    if json is not None:
        json.write_text(run.to_json(), encoding="utf-8")
    if plot is not None or html is not None:
        from bench import _plot  # matplotlib is wanted by these two options only

        _plot.write(run, verdicts, plot, html)
    failures = [row for row in run.rows if row.failure]
    missed = [one for one in verdicts if one.verdict == MISSED and not one.informs]
    if failures or (strict and missed):
        raise typer.Exit(1)


@app.command("compare")
def compare_files(
    before: Annotated[Path, typer.Argument(metavar="A.json")],
    after: Annotated[Path, typer.Argument(metavar="B.json")],
    every: Annotated[bool, typer.Option("--all", help="Also what did not move.")] = False,
) -> None:
    """Show what moved from one run to another beyond the noise of both."""
    console = _console()
    try:
        runs = read_run(before), read_run(after)
    except (OSError, ValueError) as error:
        console.print(f"bench: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    for name, run in zip(("before", "after"), runs, strict=True):
        console.print(f"{name}: {run.where}, commit {run.commit}, {run.date}", markup=False)
    if runs[0].simulated != runs[1].simulated or runs[0].machine["cpu"] != runs[1].machine["cpu"]:
        console.print("these runs are of different machines or libraries", style="bold yellow")
    show_changes(console, compare_runs(*runs), every=every)
