"""The wheel holds the data that the package reads: codes, rules, texts, schema."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Without what is compiled, which does not matter here.
BUILD = """
import sys
from scikit_build_core.build import build_wheel
build_wheel(sys.argv[1], {"wheel.cmake": "false", "wheel.py-api": ""})
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder],
        cwd=ROOT,
        env={**os.environ, "SKBUILD_BUILD_DIR": str(folder / "build")},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_data_file(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if name.startswith("npu_xfer/")}
    wanted = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "npu_xfer").rglob("*")
        if path.suffix in {".json", ".py"} or path.name == "py.typed"
    }
    assert {
        "npu_xfer/_cann/codes.json",
        "npu_xfer/explain/schema.json",
        "npu_xfer/explain/texts.json",
    } <= wanted
    assert sum(name.startswith("npu_xfer/explain/rules/") for name in wanted) > 30
    assert wanted <= held
    for name in wanted:
        if name.endswith(".json"):
            assert wheel.read(name) == (ROOT / name).read_bytes()
