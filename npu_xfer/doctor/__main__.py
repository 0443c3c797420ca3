"""`python -m npu_xfer.doctor`: the same without the packages of the extra npu-xfer[cli].

`--json` prints JSON; `--findings` prints the table of docs/doctor.md.
"""

from __future__ import annotations

import json
import sys

from npu_xfer.doctor import Severity, catalogue, diagnose

__all__ = ["findings_table", "main"]

_COLUMNS = ("id", "severity", "found", "why it matters", "what to do", "source")


def findings_table() -> str:
    """Every finding as Markdown, a table for each group."""
    lines: list[str] = []
    group = None
    for text in catalogue().values():
        if text.group != group:
            lines += [""] if lines else []
            lines += [
                f"### {text.group}",
                "",
                "| " + " | ".join(_COLUMNS) + " |",
                "|---" * len(_COLUMNS) + "|",
            ]
            group = text.group
        severity = text.severity.name.lower()
        if text.simulated != text.severity:
            severity += f" ({text.simulated.name.lower()} on the simulator)"
        cells = (f"`{text.id}`", severity, text.found, text.why, text.fix, text.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Prints what is asked for and gives the exit status."""
    unknown = set(arguments) - {"--json", "--findings"}
    if unknown:
        print(f"unknown: {' '.join(sorted(unknown))}; accepted: --json, --findings", file=sys.stderr)
        return 2
    if "--findings" in arguments:
        print(findings_table(), end="")
        return 0
    report = diagnose()
    if "--json" in arguments:
        print(json.dumps(report.as_dict(), indent=2, allow_nan=False))
        return report.status
    for found in report.findings:
        print(f"{found.severity.name.lower():8}{found.id}: {found.found}")
        if found.severity > Severity.OK:
            print(f"        why: {found.why}\n        fix: {found.fix}\n        source: {found.source}")
    return report.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
