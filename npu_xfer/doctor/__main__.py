"""`python -m npu_xfer.doctor [--json]`: the same without the packages of the extra npu-xfer[cli]."""

from __future__ import annotations

import json
import sys

from npu_xfer.doctor import diagnose


def main() -> int:
    """Prints the report and gives the exit status."""
    unknown = set(sys.argv[1:]) - {"--json"}
    if unknown:
        print(f"unknown arguments: {' '.join(sorted(unknown))}; accepted: --json", file=sys.stderr)
        return 2
    report = diagnose()
    if "--json" in sys.argv[1:]:
        print(json.dumps(report.as_dict(), indent=2, allow_nan=False))
        return report.status
    for finding in report.findings:
        print(f"{finding.severity.name.lower():8}{finding.id}: {finding.found}")
        if finding.severity.value:
            print(f"        why: {finding.why}\n        fix: {finding.fix}\n        source: {finding.source}")
    return report.status


if __name__ == "__main__":
    sys.exit(main())
