"""The C programs of the folder c, compiled here and run against the library in use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import cites, forms

if TYPE_CHECKING:
    from conformance.support.face import Acl

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "native"
PROGRAMS = sorted(path.stem for path in (HERE / "c").glob("*.c"))
LINE = re.compile(r"(ok|not ok) - .+ \[.+\](: expected -?\d+, found -?\d+)?|skip - .+|\d+ checks, \d+ failed")


def build(program: str, folder: Path) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = folder / program
    sources = [HERE / "c" / f"{program}.c", NATIVE / "acl" / "loader.c", NATIVE / "base" / "err.c"]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", f"-I{HERE / 'c'}"]
    done = subprocess.run(
        [compiler, *flags, *map(str, sources), "-o", str(made), "-ldl", "-lpthread"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return made


@cites("Each program prints its expectations with their sources", "the programs of the folder c")
@forms("ep")
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(acl: Acl, tmp_path: Path, program: str) -> None:
    done = subprocess.run(
        [build(program, tmp_path), acl.path], capture_output=True, text=True, timeout=60, check=False
    )
    print(done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("not ok")] == []
    assert done.returncode == 0
    assert all(LINE.fullmatch(line) for line in lines)
    assert sum(line.startswith("ok") for line in lines) >= 12


@cites("A failing expectation is seen", "this test plants one")
def test_a_failing_check_is_seen(acl: Acl, tmp_path: Path) -> None:
    copied = tmp_path / "c"
    shutil.copytree(HERE / "c", copied)
    assert len(PROGRAMS) == 4
    header = (copied / "conf.h").read_text()
    assert "expected == found" in header
    (copied / "conf.h").write_text(header.replace("expected == found", "expected + 1 == found"))
    (copied / "threads.c").rename(copied / "planted.c")
    made = tmp_path / "planted"
    subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{NATIVE}", f"-I{copied}", copied / "planted.c",
         NATIVE / "acl" / "loader.c", NATIVE / "base" / "err.c", "-o", made, "-ldl", "-lpthread"],
        check=True, timeout=60,
    )  # fmt: skip
    done = subprocess.run([made, acl.path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "not ok" in done.stdout
