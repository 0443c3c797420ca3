"""`npu-xfer explain`: incidents of CANN logs, as text or JSON."""

# typer reads the annotations of this file when the program runs, so that they are not postponed here.

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from npu_xfer._settings import language
from npu_xfer.cli._common import Screen
from npu_xfer.explain import Incident, explain_paths, explain_stream
from npu_xfer.explain._texts import say

__all__ = ["explain"]


def _default_paths() -> list[Path]:
    """Where CANN writes its logs when nothing is named."""
    named = os.environ.get("ASCEND_PROCESS_LOG_PATH")
    return [Path(named)] if named else [Path.home() / "ascend" / "log"]


def _draw(screen: Screen, incident: Incident, lang: str) -> None:
    def word(key: str, **values: object) -> str:
        return say(lang, key, **values)

    seen = word("seen", count=incident.count) if incident.count > 1 else ""
    screen.say(word("title", cls=incident.cls, role=word(incident.role), seen=seen), style="bold")
    screen.say(incident.summary)
    facts = ", ".join(f"{name} {value}" for name, value in incident.facts.items())
    unknown = word("unknown fact")
    screen.facts(
        [
            (word("call"), incident.api or unknown),
            (word("direction label"), incident.direction or unknown),
            (word("found"), incident.found or facts or unknown),
            (word("numbers"), facts or unknown),
            (word("codes"), ", ".join(incident.codes + incident.inner_codes) or unknown),
            (word("process"), unknown if incident.pid is None else str(incident.pid)),
            (word("thread"), unknown if incident.tid is None else str(incident.tid)),
            (word("time"), incident.first_seen or unknown),
        ]
    )
    evidence = [f"{line['line']}: {line['text']}" for line in incident.evidence]
    for title, texts in (
        ("why", incident.causes),
        ("do", incident.remedies),
        ("also", incident.notes),
        ("follows from", incident.consequences),
        ("proof", evidence),
    ):
        if texts:
            screen.say(word("colon", title=word(title)))
            for text in texts:
                screen.item(text)
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
    lang = language()
    incidents: list[tuple[str, Incident]] = []
    unreadable = False
    for path in paths or _default_paths():
        if str(path) == "-":
            incidents += [("-", one) for one in explain_stream(sys.stdin.buffer, lang)]
            continue
        for file, result in explain_paths([path], lang):
            if isinstance(result, OSError):
                unreadable = True
                screen.complain(say(lang, "unreadable", file=file, why=result.strerror or result))
            else:
                incidents += [(str(file), one) for one in result]
    if as_json:
        typer.echo(
            json.dumps(
                [one.as_dict() | {"file": file} for file, one in incidents], indent=2, ensure_ascii=False
            )
        )
    else:
        for _, one in incidents:
            _draw(screen, one, lang)
        if not incidents and not unreadable:
            screen.say(say(lang, "nothing"))
    if unreadable or incidents:
        raise typer.Exit(2 if unreadable else 1)
