"""`npu-xfer doctor`: the findings as text or JSON."""

# typer reads the annotations of this file when the program runs, so that they are not postponed here.

from collections import Counter
from typing import Annotated

import typer

from npu_xfer.cli._common import NOTICE, Screen, write_json
from npu_xfer.cli._outcomes import fail
from npu_xfer.doctor import Finding, Report, Severity, diagnose

__all__ = ["doctor"]

_STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "bold yellow",
    Severity.ERROR: "bold red",
}
_BROKEN = 2  # exit status when the doctor itself fails


def _draw_finding(screen: Screen, found: Finding) -> None:
    screen.say(f"{found.severity.name.lower()}: {found.id}", style=_STYLES[found.severity])
    screen.item(found.found)
    if found.severity > Severity.OK:
        screen.facts([("    why", found.why), ("    fix", found.fix), ("    source", found.source)])


def _draw(screen: Screen, report: Report, *, everything: bool) -> None:
    if report.simulated:
        screen.say(NOTICE, style="bold yellow")
        screen.out.print()
    for found in sorted(report.findings, key=lambda one: -one.severity):
        if everything or found.severity > Severity.OK:
            _draw_finding(screen, found)
    counts = Counter(found.severity for found in report.findings)
    screen.out.print()
    texts = [f"{counts[severity]} {severity.name.lower()}" for severity in reversed(Severity)]
    screen.say(", ".join(texts), style="bold")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    everything: Annotated[bool, typer.Option("--all/--no-ok", help="Show also what is in order.")] = True,
    runtime: Annotated[
        bool,
        typer.Option("--runtime/--no-runtime", help="Load the library and open each device for a moment."),
    ] = True,
    limit_s: Annotated[
        float,
        typer.Option("--limit", min=0.1, metavar="SECONDS", help="For each step of the library."),
    ] = 30.0,
) -> None:
    """Say what keeps transfers from working, or from being fast, on this machine.

    The library is called in a process of its own, so that one that crashes or hangs is a finding.
    Ends with status 0 when nothing is worse than a note, 1 for a warning or an error, 2 when the
    doctor itself fails.
    """
    screen = Screen()
    try:
        report = diagnose(runtime=runtime, limit_s=limit_s)
        if as_json:
            write_json("-", report.as_dict())
        else:
            _draw(screen, report, everything=everything)
    except Exception as error:
        fail(screen, f"the doctor itself failed: {type(error).__name__}: {error}", _BROKEN)
    raise typer.Exit(report.status)
