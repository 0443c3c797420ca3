"""What `npu-xfer sim run` prints after a program: on standard error, the program's output stays clean."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from npu_xfer._settings import format_nbytes
from npu_xfer.cli._common import NOTICE
from npu_xfer.cli._sim import Report
from npu_xfer.cli._sim_lines import sites
from npu_xfer.sim import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npu_xfer.cli._common import Screen
    from npu_xfer.cli._sim import Finding, Ran

__all__ = ["as_json", "draw"]

_TITLE = "--- npu-xfer sim: what the simulator saw ---"
_BUSIEST = 5  # functions in the line about calls
_TEXTS = 5  # texts of one kind of finding

_MEANINGS = {
    "pageable": "asynchronous copies of ordinary memory (not from aclrtMallocHost)",
    "unaligned": "asynchronous copies with an address that is not on a multiple of 64 bytes",
    "wrong-kind": "a copy's kind did not fit where its memory lies, and was corrected",
    "host-as-d2d": "ordinary host memory handed to the copy engine as if it were device memory",
    "source-changed": "a copy's source was overwritten before the copy read it",
    "freed": "memory was freed while a copy used it, or before anybody knew that it did not",
    "unordered": "copies of overlapping memory on streams that nothing orders",
    "stale-handle": "a stream or event was used after it was destroyed",
    "in-callback": "an ACL call inside a callback that may deadlock on hardware",
    "leak": "alive at the end of the process",
}


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _calls(report: Report) -> str:
    if not report.calls:
        return "none"
    busiest = sorted(report.calls.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {count}" for name, count in busiest[:_BUSIEST])
    rest = ", ..." if len(busiest) > _BUSIEST else ""
    return f"{report.n_calls()} of {_plural(len(busiest), 'function')}: {shown}{rest}"


def _copies(report: Report) -> str:
    made = [
        f"{direction.upper()} {report.copies[direction]} ({format_nbytes(report.nbytes[direction])})"
        for direction in DIRECTIONS
        if report.copies[direction]
    ]
    return ", ".join(made) or "none"


def _findings(report: Report) -> list[Finding]:
    """Without what the line about leaks says."""
    return [finding for finding in report.findings if finding.kind != "leak" or not report.leaks]


def _leak(name: str, count: int) -> str:
    words = name.replace("_", " ")
    return f"{words} {format_nbytes(count)}" if name.endswith("_bytes") else f"{words} {count}"


def _facts(report: Report) -> list[tuple[str, str]]:
    rows = []
    if report.profiles:
        rows.append(("profile", ", ".join(report.profiles)))
    if report.modes:
        rows.append(("mode", ", ".join(report.modes)))
    if len(report.pids) > 1:
        rows.append(("processes", str(len(report.pids))))
    if report.virtual_ns is not None:
        rows.append(("simulated time", f"{report.virtual_ns / 1e6:.3f} ms"))
    rows += [("calls", _calls(report)), ("copies", _copies(report))]
    for name, count in (
        ("failed copies", report.failed_copies),
        ("pageable copies", report.pageable_copies),
        ("unaligned copies", report.unaligned_copies),
    ):
        rows.append((name, str(count)))
    if report.faults_fired:
        rows.append(("faults fired", str(report.faults_fired)))
    found = [f"{finding.kind} {finding.count}" for finding in _findings(report)]
    rows.append(("findings", ", ".join(found) or "none"))
    rows.append(("leaks", ", ".join(_leak(name, count) for name, count in report.leaks.items()) or "none"))
    return rows


def _one_of_each(texts: Sequence[str]) -> list[str]:
    """The first text of each mistake, by the places in the code that it names."""
    seen: dict[object, str] = {}
    for text in texts:
        seen.setdefault(sites(text) or text, text)
    return list(seen.values())


def _draw_findings(findings: Sequence[Finding], screen: Screen) -> None:
    for finding in findings:
        meaning = _MEANINGS.get(finding.kind)
        screen.say(
            f"found {finding.kind}, {_plural(finding.count, 'time')}" + (f": {meaning}" if meaning else "")
        )
        shown = _one_of_each(finding.texts)[:_TEXTS]
        for text in shown:
            screen.item(text)
        left = len(finding.texts) - len(shown)
        if left > 0:
            screen.out.print(f"  and {left} more like this; --report FILE has them", markup=False)


def _without_report(ran: Ran) -> str:
    if ran.signal_name is not None:
        text = f"The program was ended by {ran.signal_name} and left no report of what it did with ACL."
        if ran.signal_name == "SIGSEGV":
            text += (
                " The host cannot touch device memory: reading or writing through a pointer from aclrtMalloc "
                "ends a program like this."
            )
        return text
    return (
        "The program made no ACL call on the simulator: it loaded neither libascendcl.so nor libacl_rt.so by "
        "name, or ended without its exit handlers (_exit). A library that is named by its full path, or "
        "found through RPATH, is not replaced."
    )


def draw(ran: Ran, screen: Screen) -> None:
    """Prints the summary on the screen's results."""
    screen.out.print()
    screen.out.print(_TITLE, style="bold yellow", markup=False)
    screen.say(NOTICE)
    report = ran.report
    if report is not None:
        if report.unfinished:
            if ran.signal_name is not None:
                screen.say(f"The program was ended by {ran.signal_name}.")
            pids = ", ".join(map(str, report.unfinished))
            screen.say(
                f"Without a report of what it did with ACL: process {pids}. It was ended by a signal or by "
                "_exit, as multiprocessing ends workers that it forked or terminates, or it runs still."
            )
        for text in report.unreadable:
            screen.say(f"A process left a report that cannot be read: {text}")
    if report is None or (report.n_calls() == 0 and not report.unfinished):
        screen.say(_without_report(ran))
    if report is None or not report.pids:
        return
    screen.facts(_facts(report))
    if "devices" in report.leaks:
        screen.say(
            "A device leaks when aclrtSetDevice was called more often than aclrtResetDevice, in all threads."
        )
    _draw_findings(report.findings, screen)


def as_json(ran: Ran) -> dict[str, Any]:
    """Everything, for --report: the sums of all processes, in the form that the library itself writes."""
    raw = dataclasses.asdict(ran.report if ran.report is not None else Report())
    nbytes = raw.pop("nbytes")
    raw["copies"] = {
        direction: {"count": count, "bytes": nbytes[direction]} for direction, count in raw["copies"].items()
    }
    return {"notice": NOTICE, "status": ran.status, "signal": ran.signal_name} | raw
