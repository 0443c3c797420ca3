"""What the simulator found, counted and reported, as Python sees it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from npu_xfer import _library, sim
from npu_xfer._cann.abi import MemcpyKind
from npu_xfer.errors import XferError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from npu_xfer._cann.runtime import Runtime

pytestmark = pytest.mark.sim_control

NBYTES = 4096


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    opened = _library.open_runtime()
    initialised = opened.init()
    opened.set_device(0)
    sim.clear_findings()
    sim.reset_counters()
    try:
        yield opened
    finally:
        sim.clear_findings()
        opened.reset_device(0)
        if initialised:
            opened.finalize()


def copy_pageable(runtime: Runtime, times: int = 1) -> None:
    ordinary = ctypes.create_string_buffer(b"\x05" * NBYTES, NBYTES)
    stream = runtime.create_stream()
    device = runtime.malloc(NBYTES)
    source = ctypes.addressof(ordinary)
    for _ in range(times):
        runtime.memcpy_async(device, NBYTES, source, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    runtime.synchronize_stream(stream)
    assert sim.peek(device, NBYTES) == b"\x05" * NBYTES
    runtime.free(device)
    runtime.destroy_stream(stream)


def test_a_pageable_copy_is_found(runtime: Runtime) -> None:
    assert sim.findings("pageable") == ()
    copy_pageable(runtime, times=3)
    (found,) = sim.findings("pageable")
    assert (found.kind, found.count) == ("pageable", 3)
    assert len(found.texts) >= 1
    assert str(NBYTES) in found.texts[0]
    assert found in sim.findings()
    sim.clear_findings()
    assert sim.findings() == ()


def test_an_unknown_kind_is_refused(runtime: Runtime) -> None:
    with pytest.raises(ValueError, match="there are pageable, unaligned"):
        sim.findings("gremlins")
    for kind in sim.FINDING_KINDS:
        assert sim.findings(kind) == ()


def test_the_report_tells_what_happened(runtime: Runtime) -> None:
    copy_pageable(runtime)
    block = runtime.malloc_host(100)
    told = sim.report()
    runtime.free_host(block)
    assert told["simulator"] is True
    assert told["pid"] == os.getpid()
    assert told["mode"] in ("threads", "virtual", "adversarial")
    assert told["calls"]["aclrtMemcpyAsync"] == 1
    assert told["copies"]["h2d"] == {"count": 1, "bytes": NBYTES}
    assert told["pageable_copies"] == 1
    kinds = {each["kind"]: each for each in told["findings"]}
    assert kinds["pageable"]["count"] == 1
    assert kinds["pageable"]["texts"] == list(sim.findings("pageable")[0].texts)
    assert told["leaks"]["pinned_blocks"] == sim.counters().live_pinned_blocks + 1
    assert told["leaks"]["devices"] == [0]


def test_a_report_that_cannot_be_written_says_so(runtime: Runtime, tmp_path: Path) -> None:
    sim.write_report(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["simulator"] is True
    with pytest.raises(XferError, match="cannot write its report"):
        sim.write_report(tmp_path / "none" / "report.json")


PROGRAM = """
import ctypes
from npu_xfer import _library
runtime = _library.open_runtime()
runtime.init()
runtime.set_device(0)
runtime.malloc_host(64)
stream = runtime.create_stream()
device = runtime.malloc(64)
ordinary = ctypes.create_string_buffer(64)
for _ in range(2):
    runtime.memcpy_async(device, 64, ctypes.addressof(ordinary), 64, 1, stream)
runtime.destroy_stream(stream)
runtime.free(device)
runtime.reset_device(0)
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NPU_XFER_LIBRARY": "sim", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def read(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def test_a_process_reports_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = run(PROGRAM, ACLSIM_REPORT=str(path))
    assert done.stderr == ""
    told = read(path)
    assert told["leaks"]["pinned_blocks"] == 1
    assert told["leaks"]["streams"] == 0
    assert told["leaks"]["devices"] == []
    assert {each["kind"] for each in told["findings"]} >= {"pageable", "leak"}
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def test_a_report_on_standard_error() -> None:
    done = run(PROGRAM, ACLSIM_REPORT="-")
    assert json.loads(done.stderr)["pageable_copies"] == 2


def test_findings_are_told_once(runtime: Runtime) -> None:
    done = run(PROGRAM, ACLSIM_TELL="1")
    lines = [line for line in done.stderr.splitlines() if line.startswith("aclsim: found pageable: ")]
    assert len(lines) == len(set(lines)) >= 1
    assert "aclsim: found leak: 1 page-locked block(s)" in done.stderr


def test_a_child_that_only_left_reports_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    forked = PROGRAM + "\nimport os\nchild = os.fork()\nif child == 0:\n    raise SystemExit\nos.wait()\n"
    run(forked, ACLSIM_REPORT=str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
