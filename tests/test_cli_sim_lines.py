"""Findings lead to a line of code: of a C program with debug information, of a program on `import acl`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import sim_run

from npu_xfer.cli import _sim, _sim_lines, _sim_view
from npu_xfer.cli._common import Screen

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """#include <acl/acl.h>
#include <string.h>
int main(void)
{
    aclrtStream stream;
    void *host, *device;
    if (aclrtSetDevice(0) || aclrtCreateStream(&stream) || aclrtMallocHost(&host, 4096) ||
        aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST))
        return 2;
    for (int i = 0; i < 3; i++)
        if (aclrtMemcpyAsync(device, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream)) /* line 11 */
            return 3;
    memset(host, 1, 4096);
    return aclrtSynchronizeStream(stream);
}
"""

FEEDER = """
import acl
acl.rt.set_device(0)
stream, _ = acl.rt.create_stream()
host, _ = acl.rt.malloc_host(4096)
device, _ = acl.rt.malloc(4096, 0)
def feed():
    acl.rt.memcpy_async(device, 4096, host, 4096, 2, stream)  # line 8
feed()
acl.rt.synchronize_stream(stream)
"""


def build(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    sdk = folder / "sdk"
    _sim.make_sdk(sdk)
    source, program = folder / "late.c", folder / "late"
    source.write_text(PROGRAM)
    places = ["-I", str(sdk / "include"), "-L", str(sdk / "lib64")]
    command = [compiler, *flags, str(source), *places, "-lascendcl", "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    return program


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="no addr2line here")
def test_a_c_program_with_debug_information_is_named_by_line(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    ran = sim_run("--mode", "adversarial", "--report", target, "--", build(tmp_path, "-g", "-O0"))
    told = " ".join(ran.stderr.split())
    assert "changed after aclrtMemcpyAsync [late.c:11 in main], task 0" in told
    (found,) = [row for row in json.loads(target.read_text())["findings"] if row["kind"] == "source-changed"]
    assert found["count"] == 3
    assert all("[late.c:11 in main]" in text for text in found["texts"])
    assert told.count("late.c:11") == 1, "one text for one place"
    assert "and 2 more like this" in told
    assert max(map(len, ran.stderr.splitlines())) <= 80


def test_one_without_it_is_named_by_offset(tmp_path: Path) -> None:
    ran = sim_run("--mode", "adversarial", "--", build(tmp_path, "-s"))
    assert "aclrtMemcpyAsync [late+0x" in " ".join(ran.stderr.split())
    assert str(tmp_path) not in ran.stderr


def test_a_python_program_is_named_by_line(tmp_path: Path) -> None:
    file = tmp_path / "feeder.py"
    file.write_text(FEEDER)
    ran = sim_run("--", sys.executable, file)
    told = " ".join(ran.stderr.split())
    assert "aclrtMemcpyAsync [feeder.py:8 in feed] from 0x" in told
    assert "found wrong-kind, 1 time" in told
    assert "1 stream(s) not destroyed; made by aclrtCreateStream [feeder.py:4 in <module>]" in told
    assert "1 page-locked block(s) with 4096 bytes not freed; made by aclrtMallocHost [feeder.py:5" in told
    assert "1 device block(s)" in told


def test_what_cannot_be_known_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = f"aclrtFree [{tmp_path}/gone+0x12] (thread 3) frees [0x10, 0x20)"
    said = "aclrtFree [feed.py:3 in <module>] frees"
    assert _sim_lines.with_lines(["aclrtFree [/usr/lib/libffi.so.8+0x12]"]) == {
        "aclrtFree [/usr/lib/libffi.so.8+0x12]": "aclrtFree [through ctypes or another user of libffi]"
    }
    assert _sim_lines.with_lines([gone, said]) == {
        gone: "aclrtFree [gone+0x12] (thread 3) frees [0x10, 0x20)",
        said: said,
    }
    monkeypatch.setattr(shutil, "which", lambda name: None)
    here = f"aclrtFree [{sys.executable}+0x12]"
    assert _sim_lines.with_lines([here])[here].endswith("+0x12]")
    assert _sim_lines.sites(gone) == (f"aclrtFree [{tmp_path}/gone+0x12]",)
    assert _sim_lines.sites("reads [0x1, 0x2) and aclrtFree [a.c:2 in f] and aclrtMalloc [b.c:3 in g]") == (
        "aclrtFree [a.c:2 in f]",
        "aclrtMalloc [b.c:3 in g]",
    )


def test_a_crash_by_a_device_pointer_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    _sim_view.draw(_sim.Ran(139, "SIGSEGV", None), Screen())
    assert "The host cannot touch device memory" in " ".join(capsys.readouterr().out.split())
