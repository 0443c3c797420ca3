"""`npu-xfer explain`: incidents of CANN logs, as text or JSON."""

# typer reads the annotations of this file when the program runs, so that they are not postponed here.

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from npu_xfer.cli._common import Screen
from npu_xfer.explain import Incident, explain_paths, explain_stream

__all__ = ["explain"]


def _default_paths() -> list[Path]:
    """Where CANN writes its logs when nothing is named."""
    named = os.environ.get("ASCEND_PROCESS_LOG_PATH")
    return [Path(named)] if named else [Path.home() / "ascend" / "log"]


def _draw(screen: Screen, incident: Incident) -> None:
    seen = f", seen {incident.count} times" if incident.count > 1 else ""
    screen.say(f"{incident.cls} ({incident.role}{seen})", style="bold")
    screen.say(incident.summary)
    facts = ", ".join(f"{name} {value}" for name, value in incident.facts.items())
    unknown = "not in the log"
    screen.facts(
        [
            ("call", incident.api or unknown),
            ("direction", incident.direction or unknown),
            ("found", incident.found or facts or unknown),
            ("numbers", facts or unknown),
            ("codes", ", ".join(incident.codes + incident.inner_codes) or unknown),
            ("process", unknown if incident.pid is None else str(incident.pid)),
            ("thread", unknown if incident.tid is None else str(incident.tid)),
            ("time", incident.first_seen or unknown),
        ]
    )
    for title, texts in (("Why", incident.causes), ("Do", incident.remedies)):
        screen.say(f"{title}:")
        for text in texts:
            screen.item(text)
    for title, texts in (("Also", incident.notes), ("Follows from it", incident.consequences)):
        if texts:
            screen.say(f"{title}:")
            for text in texts:
                screen.item(text)
    screen.say("Lines that prove it:")
    for line in incident.evidence:
        screen.item(f"{line['line']}: {line['text']}")
    screen.out.print()


def explain(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", hidden=True),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Say what CANN logs report: what failed, why, and what to do. No device is touched.

    Each PATH is a file, a folder, or - for standard input; without one, the folder that CANN writes to.
    Ends with status 0 when nothing was found, 1 when something was, 2 when a PATH cannot be read.
    """
    screen = Screen()
    incidents: list[tuple[str, Incident]] = []
    unreadable = False
    for path in paths or _default_paths():
        if str(path) == "-":
            incidents += [("-", one) for one in explain_stream(sys.stdin.buffer)]
            continue
        for file, result in explain_paths([path]):
            if isinstance(result, OSError):
                unreadable = True
                screen.complain(f"{file} cannot be read: {result.strerror or result}")
            else:
                incidents += [(str(file), one) for one in result]
    if as_json:
        typer.echo(json.dumps([one.as_dict() | {"file": file} for file, one in incidents], indent=2))
    else:
        for _, one in incidents:
            _draw(screen, one)
        if not incidents and not unreadable:
            screen.say("Nothing found.")
    if unreadable or incidents:
        raise typer.Exit(2 if unreadable else 1)
