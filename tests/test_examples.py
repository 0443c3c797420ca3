"""The programs in examples/ and README run as they are written."""

from __future__ import annotations

import os
import re
import shutil
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


def test_interop() -> None:
    assert run_file(ROOT / "examples" / "interop.py").splitlines() == [
        "host tensor: [0.0, 1.0, 2.0]",
        "through DLPack: [5.0, 6.0, 7.0]",
        "the same memory: True",
    ]


def run_command(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=100, check=False
    )


def sim(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command(sys.executable, "-m", "npu_xfer", "sim", *arguments)


def build_race(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    sdk, program = folder / "sdk", folder / "acl_race"
    assert sim("sdk", sdk).returncode == 0
    source = ROOT / "examples" / "acl_race.c"
    built = run_command(
        compiler, *flags, source, "-I", sdk / "include", "-L", sdk / "lib64", "-lascendcl", "-o", program
    )
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.parametrize("seed", range(3))
def test_the_race_is_found(tmp_path: Path, seed: int) -> None:
    program = build_race(tmp_path)
    ran = sim("run", "--mode", "adversarial", "--seed", str(seed), "--check", "--", program)
    assert ran.returncode == 3
    assert ran.stdout == "the bytes are wrong\n"
    assert "unordered" in ran.stderr


@pytest.mark.parametrize("mode", ["threads", "virtual", "adversarial"])
def test_the_fixed_program_is_clean(tmp_path: Path, mode: str) -> None:
    ran = sim("run", "--mode", mode, "--check", "--", build_race(tmp_path, "-DFIXED"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "the bytes are right\n"


def test_pyacl_code_runs_unchanged() -> None:
    ran = sim("run", "--check", "--", sys.executable, ROOT / "examples" / "pyacl_copy.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "equal: True\n"


def test_readme_example(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    found = re.search(r"<!-- ci: example -->\n```python\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    program = tmp_path / "example.py"
    program.write_text(found.group(1))
    said = run_file(program)
    assert "(64, 3, 224, 224) True" in said
    assert "SIMULATED" in said
