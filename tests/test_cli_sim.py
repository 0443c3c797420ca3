"""`npu-xfer sim`: programs of others, in C, C++ and Python, built against the simulator and run on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import sim_run
from typer.testing import CliRunner

from npu_xfer import _native
from npu_xfer.cli import _sim, _sim_view
from npu_xfer.cli._app import app

RUNNER = CliRunner()
SIMULATOR = Path(_native.__file__).parent / "libascendcl_sim.so"

# Copies a pattern there and back on odd sizes, and says how often the byte sum was right.
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "acl/acl.h"
int main(int argc, char **argv)
{
    static unsigned char back[1001];
    unsigned char *host = 0;
    void *device = 0, *pinned = 0;
    uint32_t count = 0;
    int good = 1;
    aclrtStream stream = 0;
    if (aclInit(0) != ACL_SUCCESS || aclrtGetDeviceCount(&count) != ACL_SUCCESS) return 20;
    if (aclrtSetDevice((int32_t)count - 1) != ACL_SUCCESS) return 21;
    if (aclrtCreateStream(&stream) != ACL_SUCCESS) return 21;
    if (aclrtMalloc(&device, 1001, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 22;
    if (aclrtMallocHost(&pinned, 1001) != ACL_SUCCESS) return 23;
    host = (unsigned char *)pinned;
    for (int i = 0; i < 1001; i++) host[i] = (unsigned char)(i * 7 + 3);
    if (aclrtMemcpyAsync(device, 1001, pinned, 1001, ACL_MEMCPY_HOST_TO_DEVICE, stream) != ACL_SUCCESS)
        return 24;
    if (aclrtSynchronizeStream(stream) != ACL_SUCCESS) return 25;
    if (aclrtMemcpy(back, 1001, device, 1001, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS) return 26;
    for (int i = 0; i < 1001; i++) good &= back[i] == (unsigned char)(i * 7 + 3);
    printf("devices=%u good=%d\\n", count, good);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "leak") == 0) return good ? 0 : 27;
        if (strcmp(argv[i], "five") == 0) return 5;
    }
    aclrtFree(device);
    aclrtFreeHost(pinned);
    aclrtDestroyStream(stream);
    aclrtResetDevice((int32_t)count - 1);
    aclFinalize();
    return good ? 0 : 27;
}
"""

# A program that leaves reports as the library does, without the library.
WRITER = """
import json, os, sys
path = os.environ["ACLSIM_REPORT"]
reports = json.loads(sys.argv[1])
for index, report in enumerate(reports):
    with open(path if index == 0 else f"{path}.{report['pid']}", "w") as file:
        file.write(report if isinstance(report, str) else json.dumps(report))
sys.exit(int(sys.argv[2]))
"""

PROFILE = """
import ctypes
name = ctypes.create_string_buffer(64)
assert ctypes.CDLL("libascendcl.so").aclsim_get_profile(name, ctypes.c_size_t(64)) == 0
print(name.value.decode())
"""


def report_of(pid: int, **changes: Any) -> dict[str, Any]:
    clean = {
        "simulator": True,
        "pid": pid,
        "profile": "a2-ep-9.1",
        "mode": "threads",
        "calls": {"aclInit": 1, "aclrtMemcpyAsync": 4},
        "copies": {
            "h2d": {"count": 3, "bytes": 3 << 20},
            "d2h": {"count": 1, "bytes": 512},
            "d2d": {"count": 0, "bytes": 0},
        },
        "failed_copies": 0,
        "pageable_copies": 1,
        "unaligned_copies": 2,
        "faults_fired": 0,
        "findings": [],
        "leaks": {"streams": 0, "devices": []},
    }
    return clean | changes


def run_writer(reports: list[Any], *options: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    return sim_run(*options, "--", sys.executable, "-c", WRITER, json.dumps(reports), str(status))


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdk")
    ran = RUNNER.invoke(app, ["sim", "sdk", str(folder)])
    assert ran.exit_code == 0, ran.output
    assert f"g++ -g prog.cpp -I {folder}/include -L {folder}/lib64 -lascendcl" in ran.stdout
    return folder


def compile_program(sdk: Path, folder: Path, compiler: str, *flags: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    source = folder / ("prog.cpp" if compiler.endswith("++") else "prog.c")
    source.write_text(PROGRAM)
    program = folder / "prog"
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
    places = ["-I", str(sdk / "include"), "-L", str(sdk / "lib64")]
    command = [compiler, *flags, *strict, str(source), *places, "-lascendcl", "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    return program


@pytest.fixture(scope="module")
def program(sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(sdk, tmp_path_factory.mktemp("program"), "cc", "-std=c11")


# ---- sdk ----


def test_sdk_has_the_layout_of_cann(sdk: Path) -> None:
    headers = {path.name for path in (sdk / "include" / "acl").iterdir()}
    assert {"acl.h", "acl_rt.h", "acl_base.h", "acl_base_rt.h", "aclsim.h"} <= headers
    for name in ("libascendcl.so", "libacl_rt.so"):
        assert os.path.samefile(sdk / "lib64" / name, SIMULATOR)


def test_sdk_can_be_made_again_and_copied_over(tmp_path: Path) -> None:
    _sim.make_sdk(tmp_path)
    made = _sim.make_sdk(tmp_path, copy=True)
    _sim.make_sdk(tmp_path, copy=True)
    library = tmp_path / "lib64" / "libascendcl.so"
    assert library.read_bytes() == SIMULATOR.read_bytes()
    assert not library.is_symlink()
    # One file, so that a program that loads both names has one simulator.
    assert os.path.samefile(library, tmp_path / "lib64" / "libacl_rt.so")
    assert all(path.is_file() for path in made)


@pytest.mark.parametrize("name", ["lib64/libascendcl.so", "lib64/libacl_rt.so", "include/acl/acl.h"])
def test_sdk_leaves_files_of_others_alone(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / name
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"the vendor's")
    ran = RUNNER.invoke(app, ["sim", "sdk", str(tmp_path)])
    assert ran.exit_code == 1
    assert f"{theirs} exists" in ran.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_bytes() == b"the vendor's"


def test_a_dangling_link_of_others_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "lib64" / "libascendcl.so"
    theirs.parent.mkdir()
    theirs.symlink_to("/nowhere/libascendcl.so.1")
    assert RUNNER.invoke(app, ["sim", "sdk", str(tmp_path)]).exit_code == 1
    assert os.readlink(theirs) == "/nowhere/libascendcl.so.1"


@pytest.mark.parametrize(
    ("compiler", "standard"), [("cc", "-std=c11"), ("c++", "-std=c++11"), ("c++", "-std=c++20")]
)
def test_a_program_compiles_and_runs(sdk: Path, tmp_path: Path, compiler: str, standard: str) -> None:
    program = compile_program(sdk, tmp_path, compiler, standard)
    needed = subprocess.run(
        ["readelf", "-d", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert "[libascendcl.so]" in needed.stdout
    ran = sim_run("--", program)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "devices=1 good=1\n"


@pytest.mark.parametrize("header", ["acl_rt", "acl_base", "acl_base_rt", "aclsim", "acl"])
def test_each_header_stands_alone(sdk: Path, tmp_path: Path, header: str) -> None:
    for compiler, standard, suffix in (("cc", "-std=c11", "c"), ("c++", "-std=c++11", "cpp")):
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler} here")
        source = tmp_path / f"one.{suffix}"
        source.write_text(f'#include "acl/{header}.h"\n#include "acl/{header}.h"\n')
        command = [compiler, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
        subprocess.run([*command, "-I", str(sdk / "include"), str(source)], check=True, timeout=60)


# ---- run: the program's surroundings ----


def test_choices_reach_the_simulator(program: Path) -> None:
    ran = sim_run("--devices", "3", "--device-memory", "64MiB", "--", program)
    assert ran.stdout == "devices=3 good=1\n", ran.stderr
    ran = sim_run("--device-memory", "512", "--", program)
    assert ran.returncode in {21, 22}, "no room for the device or for 1001 bytes"


def test_every_choice_becomes_its_variable(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("")
    code = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if 'ACLSIM' in k}))"
    where = ["--profile", "310p", "--devices", "2", "--device-memory", "8GiB", "--link", "h2d=1e9"]
    how = ["--mode", "virtual", "--seed", "9", "--faults", "rules", "--strict", "align"]
    ran = sim_run(*where, *how, "--", sys.executable, "-c", code, cwd=tmp_path)
    seen = json.loads(ran.stdout)
    assert seen.pop("ACLSIM_REPORT")
    assert seen == {
        "ACLSIM_PROFILE": "310p",
        "ACLSIM_DEVICES": "2",
        "ACLSIM_DEVICE_MEMORY": str(8 << 30),
        "ACLSIM_LINK": "h2d=1e9",
        "ACLSIM_MODE": "virtual",
        "ACLSIM_SEED": "9",
        "ACLSIM_FAULTS": f"@{tmp_path / 'rules'}",
        "ACLSIM_STRICT": "align",
    }


@pytest.mark.parametrize("name", ["libascendcl.so", "libacl_rt.so"])
def test_a_python_program_loads_it_by_either_name(name: str) -> None:
    code = (
        "import ctypes, os\n"
        f"library = ctypes.CDLL('{name}')\n"
        "other = ctypes.CDLL('libascendcl.so')\n"
        "count = ctypes.c_uint32()\n"
        "assert library.aclInit(None) == 0 and other.aclInit(None) == 100002, 'two simulators'\n"
        "assert library.aclrtGetDeviceCount(ctypes.byref(count)) == 0\n"
        "print(count.value, os.environ['NPU_XFER_LIBRARY'])\n"
    )
    ran = sim_run("--devices", "2", "--", sys.executable, "-c", code, environ={"NPU_XFER_LIBRARY": "cann"})
    assert ran.stdout == "2 sim\n", ran.stderr


def test_paths_of_the_caller_are_kept() -> None:
    code = "import os; print(os.environ['LD_LIBRARY_PATH'], os.environ['PYTHONPATH'])"
    ran = sim_run(
        "--", sys.executable, "-c", code, environ={"LD_LIBRARY_PATH": "/one:/two", "PYTHONPATH": "/mine"}
    )
    libraries, modules = ran.stdout.split()
    assert libraries.endswith("/lib:/one:/two")
    assert modules.endswith("/python:/mine")
    assert not Path(libraries.partition(":")[0]).exists(), "the folder is removed afterwards"


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_process_that_ends_without_a_report_is_named(tmp_path: Path, end: str) -> None:
    out = tmp_path / "report.json"
    code = (
        "import os, ctypes; acl = ctypes.CDLL('libascendcl.so'); acl.aclInit(None); "
        f"print(os.getpid(), flush=True); {end}"
    )
    for command in (
        [sys.executable, "-c", code],
        ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", code],
    ):
        ran = sim_run("--report", out, "--", *command)
        pid = int(ran.stdout)
        assert f"process {pid}" in ran.stderr
        assert "made no ACL call" not in ran.stderr
        assert ("ended by SIGKILL" in ran.stderr) == (ran.returncode == 137)
        assert json.loads(out.read_text())["unfinished"] == [pid]


def test_simulated_time_counts_from_the_start(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    code = "import ctypes; ctypes.CDLL('libascendcl.so').aclInit(None)"
    assert sim_run("--report", out, "--mode", "virtual", "--", sys.executable, "-c", code).returncode == 0
    assert json.loads(out.read_text())["virtual_ns"] < 1_000_000


def test_import_acl_is_npu_xfer_acl() -> None:
    code = "import acl, npu_xfer.acl; print(acl is npu_xfer.acl, acl.init(), acl.rt.set_device(0))"
    ran = sim_run("--", sys.executable, "-c", code)
    assert ran.stdout == "True 0 0\n", ran.stderr


# ---- run: how it ends ----


def test_import_of_a_part_of_acl_is_the_same_part() -> None:
    code = "import acl.util, acl.rt, npu_xfer.acl as ours; print(acl.util is ours.util, acl.rt is ours.rt)"
    ran = sim_run(
        sys.executable, "-c", f"import sys, npu_xfer.acl as n; u = n.util; {code}; print(n.util is u)"
    )
    assert ran.stdout.split() == ["True"] * 3


def test_import_acl_in_a_python_without_npu_xfer_says_so() -> None:
    code = "import sys; sys.modules['npu_xfer'] = None; import acl"
    ran = sim_run(sys.executable, "-c", code)
    assert ran.returncode == 1
    assert f"install npu-xfer for {sys.executable}" in ran.stderr


def test_the_status_is_the_programs(program: Path) -> None:
    assert sim_run("--", program, "five").returncode == 5


# ---- run: what is told afterwards ----


def test_what_was_seen_goes_to_standard_error() -> None:
    found = {"kind": "unordered", "count": 7, "texts": [f"streams {i} and {i + 1}" for i in range(6)]}
    ran = run_writer(
        [report_of(11, findings=[found], leaks={"streams": 2, "events": 0, "device_bytes": 512})]
    )
    assert ran.returncode == 0
    assert ran.stdout == ""
    told = ran.stderr
    assert "what the simulator saw" in told
    assert "SIMULATOR" in told
    lines = {line.split("  ")[0]: line for line in told.splitlines()}
    assert "H2D 3 (3 MiB), D2H 1 (512 B)" in lines["copies"]
    assert "D2D" not in lines["copies"]
    assert "5 of 2 functions: aclrtMemcpyAsync 4, aclInit 1" in lines["calls"]
    assert lines["pageable copies"].endswith(" 1")
    assert lines["unaligned copies"].endswith(" 2")
    assert lines["findings"].endswith("unordered 7")
    assert lines["leaks"].endswith("streams 2, device bytes 512 B")
    assert "streams 4 and 5" in told
    assert "streams 5 and 6" not in told
    assert "and 1 more" in told


def test_reports_of_several_processes_are_added_up(tmp_path: Path) -> None:
    first = report_of(
        1,
        findings=[{"kind": "freed", "count": 2, "texts": ["a", "b"]}],
        leaks={"events": 1, "devices": [0, 3]},
    )
    second = report_of(
        2,
        mode="virtual",
        virtual_ns=5000,
        findings=[
            {"kind": "freed", "count": 1, "texts": ["b"]},
            {"kind": "leak", "count": 1, "texts": ["c"]},
            {"kind": "pageable", "count": 0, "texts": []},
        ],
        leaks={"events": 2, "streams": 3},
    )
    target = tmp_path / "out.json"
    ran = run_writer([first, second], "--report", str(target), status=4)
    assert ran.returncode == 4
    told = json.loads(target.read_text())
    assert told["simulator"] is True
    assert told["notice"]
    assert told["status"] == 4
    assert told["pids"] == [1, 2]
    assert told["profiles"] == ["a2-ep-9.1"]
    assert told["modes"] == ["threads", "virtual"]
    assert told["calls"] == {"aclInit": 2, "aclrtMemcpyAsync": 8}
    assert told["copies"]["h2d"] == {"count": 6, "bytes": 6 << 20}
    assert told["pageable_copies"] == 2
    assert told["unaligned_copies"] == 4
    assert told["findings"] == [
        {"kind": "freed", "count": 3, "texts": ["a", "b"]},
        {"kind": "leak", "count": 1, "texts": ["c"]},
    ]
    assert told["leaks"] == {"events": 3, "devices": 2, "streams": 3}
    assert told["virtual_ns"] == 5000


@pytest.mark.parametrize(
    ("changes", "status", "expected"),
    [
        ({}, 0, 0),
        ({"findings": [{"kind": "freed", "count": 1, "texts": ["x"]}]}, 0, 3),
        ({"leaks": {"pinned_blocks": 1}}, 0, 3),
        ({"leaks": {"pinned_blocks": 1}}, 6, 6),
    ],
)
def test_check_turns_findings_into_a_status(changes: dict[str, Any], status: int, expected: int) -> None:
    assert run_writer([report_of(1, **changes)], "--check", status=status).returncode == expected
    assert run_writer([report_of(1, **changes)], status=status).returncode == status


def test_a_program_without_acl_is_told_so() -> None:
    ran = sim_run("--check", "--", "true")
    assert ran.returncode == 0
    assert "made no ACL call" in " ".join(ran.stderr.split())


def test_a_broken_report_is_told_and_is_no_crash(tmp_path: Path) -> None:
    for text in ('{"pid": 3, "calls"', "[]", '{"findings": [3]}', '{"copies": 7}'):
        path = tmp_path / "report.json"
        path.write_text(text)
        (tmp_path / "report.json.8").write_text(json.dumps(report_of(8)))
        report = _sim.sum_reports(path)
        assert len(report.unreadable) == 1, text
        assert report.copies["h2d"] == 3
        json.dumps(_sim_view.as_json(_sim.Ran(0, None, report)))


def test_the_report_of_a_real_program(program: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    ran = sim_run("--check", "--report", target, "--", program)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(target.read_text())
    assert told["calls"]["aclrtMemcpyAsync"] == 1
    assert told["copies"]["h2d"] == {"count": 1, "bytes": 1001}
    assert told["copies"]["d2h"] == {"count": 1, "bytes": 1001}
    assert told["leaks"] == {}
    ran = sim_run("--check", "--report", target, "--", program, "leak")
    assert ran.returncode == 3, ran.stderr
    assert json.loads(target.read_text())["leaks"]


def test_the_reports_of_several_real_programs(program: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    script = '"$0" && "$0" & "$0"; wait $!'
    ran = sim_run("--report", target, "--", "sh", "-c", script, program)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(target.read_text())
    assert len(set(told["pids"])) == 3
    assert told["copies"]["h2d"] == {"count": 3, "bytes": 3003}
    assert told["unreadable"] == []


def test_profiles_are_those_of_the_library() -> None:
    # In a process of its own: the library of this one may have devices that are set.
    command = [sys.executable, "-m", "npu_xfer", "sim", "profiles"]
    ran = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60, check=True)
    rows = {row["name"]: row for row in json.loads(ran.stdout)}
    assert [row["name"] for row in rows.values() if row["is_default"]] == ["a2-ep-9.1"]
    assert rows["a2-ep-8.0"]["n_functions"] < rows["a2-ep-9.1"]["n_functions"]
    assert rows["310p-rc-9.1"]["soc_name"] != rows["a2-ep-9.1"]["soc_name"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [line.split()[0] for line in told.splitlines()[1:]] == list(rows)
    for name in list(rows)[::9]:
        assert sim_run("--profile", name, "--", sys.executable, "-c", PROFILE).stdout == f"{name}\n"


@pytest.mark.parametrize("command", [["sim"], ["sim", "run"], ["sim", "sdk"], ["sim", "profiles"]])
def test_help_has_examples_and_fits_in_80_columns(command: list[str]) -> None:
    shown = RUNNER.invoke(app, [*command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert shown.exit_code == 0
    assert f"  npu-xfer {' '.join(command)}" in shown.stdout.partition("Examples:")[2]
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "Path" not in shown.stdout
