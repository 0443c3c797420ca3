"""What is asked of every test, that nothing outlives it, can fail; and garbage in a cycle is no leak."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

TESTS = """
import numpy as np
import npu_xfer
from npu_xfer import acl

kept = []


def test_clean():
    with npu_xfer.BlockingScheduler() as xfer:
        xfer.to_device(np.zeros(1000))


def test_a_cycle():
    scheduler = npu_xfer.BlockingScheduler()
    scheduler.open()
    array = scheduler.to_device(np.zeros(1000))
    cycle = [scheduler, array]
    cycle.append(cycle)
    scheduler.close()


def test_after_the_cycle():
    pass


def test_stream():
    kept.append(acl.rt.set_device(0))
    kept.append(acl.rt.create_stream())


def test_pinned():
    kept.append(acl.rt.malloc_host(64))


def test_device():
    kept.append(acl.rt.malloc(64, 0))


def test_event():
    kept.append(acl.rt.create_event())


def test_after_all():
    pass
"""


def test_leaks_are_found_and_charged_to_their_test(tmp_path: Path) -> None:
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-q", "-p", "no:cacheprovider", "-c", str(HERE.parent / "pyproject.toml"), "-rEf", "--tb=line"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "NPU_XFER_LIBRARY": "sim"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = [
        line.split(" - ")[0].rpartition("::")[2]
        for line in done.stdout.splitlines()
        if line.startswith("ERROR ")
    ]
    assert found == ["test_stream", "test_pinned", "test_device", "test_event"], done.stdout
    for kind in ("streams", "pinned_blocks", "device_blocks", "events"):
        assert f"leaked {kind}" in done.stdout
    assert "8 passed" in done.stdout
