"""The programs in examples/ and README run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run_file(path: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        env={**os.environ, "NPU_XFER_LIBRARY": "sim"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_round_trip(loop: str) -> None:
    assert run_file(ROOT / "examples" / "round_trip.py", loop) == "67108864 bytes, equal: True\n"


def test_readme_example(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    found = re.search(r"<!-- ci: example -->\n```python\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    program = tmp_path / "example.py"
    program.write_text(found.group(1))
    said = run_file(program)
    assert "(64, 3, 224, 224) True" in said
    assert "SIMULATED" in said
