"""One case in a process of its own: fresh settings, profile and memory, and an end if it hangs.

The parent calls `run_case`; the child is ``python -m bench._child NAME SCALE FILE``.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench._bare import ROOT, VARIABLE
from bench._measure import Context, Waived
from bench._model import Row, rows_from
from bench.cases import load_cases

if TYPE_CHECKING:
    from bench.cases import Case

_LIMIT_S = {"tiny": 60.0, "quick": 120.0, "full": 1800.0}


def run_case(case: Case, scale: str, bare_library: Path | None) -> list[Row]:
    """The rows of one case. One that fails, crashes or hangs has a row that says so."""
    environ = {**os.environ, **case.environ, "PYTHONPATH": str(ROOT)}
    environ.setdefault("NPU_XFER_TUNING", "off")  # a profile of this user would not be seen in the result
    if bare_library is not None:
        environ[VARIABLE] = str(bare_library)
    with tempfile.TemporaryDirectory(prefix="npu_xfer_bench_") as folder:
        target = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "bench._child", case.name, scale, str(target)]
        try:
            ended = subprocess.run(
                command,
                env=environ,
                cwd=ROOT,
                timeout=_LIMIT_S[scale],
                capture_output=True,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [Row(case.name, "all", "ours", failure=f"no end within {_LIMIT_S[scale]:g} s")]
        if not target.exists():
            tail = " | ".join(ended.stderr.strip().splitlines()[-3:])
            return [Row(case.name, "all", "ours", failure=f"ended with status {ended.returncode}: {tail}")]
        return rows_from(json.loads(target.read_text(encoding="utf-8")))


def _main(name: str, scale: str, target: str) -> None:
    context = Context(name, scale)
    try:
        asyncio.run(load_cases()[name].function(context))
    except Waived as reason:
        context.waive("all", "ours", str(reason))
    Path(target).write_text(json.dumps([asdict(row) for row in context.rows]), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
