"""The command line as a whole, and `npu-xfer info`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import npu_xfer
from npu_xfer import sim
from npu_xfer.cli import _info
from npu_xfer.cli._app import app
from npu_xfer.cli._common import Screen, exact_nbytes, first_cause, run_in_loop

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = CliRunner()


def _python(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "error", "COLUMNS": "80"} | environ,
    )


def test_importing_the_package_leaves_the_command_alone() -> None:
    code = "import npu_xfer, sys; print(*sys.modules)"
    loaded = _python("-c", code).stdout.split()
    assert "npu_xfer.scheduler" in loaded
    assert not [name for name in loaded if name.startswith(("npu_xfer.cli", "typer", "rich"))]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_one_line_says_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from npu_xfer.cli import main; main()"
    ran = _python("-c", code)
    assert ran.returncode == 2
    assert ran.stderr == (
        f"npu-xfer needs {missing}: pip install typer rich safetensors "
        "(the packages of the extra npu-xfer[cli])\n"
    )
    assert ran.stdout == ""


def test_version_through_python_m() -> None:
    ran = _python("-m", "npu_xfer", "--version")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"npu-xfer {npu_xfer.__version__} ")


@pytest.mark.parametrize("command", [[], ["info"], ["doctor"], ["bench"], ["load"]])
def test_help_has_examples_and_fits_in_80_columns(command: list[str]) -> None:
    shown = RUNNER.invoke(app, [*command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert shown.exit_code == 0
    assert f"  npu-xfer {' '.join(command)}" in shown.stdout.partition("Examples:")[2]
    assert max(map(len, shown.stdout.splitlines())) <= 80
    # Names of Python types are no help.
    assert "Path" not in shown.stdout
    assert "......" not in shown.stdout
    assert command != ["load"] or "[FILE]..." in shown.stdout


def test_info_tells_library_devices_and_capabilities() -> None:
    ran = RUNNER.invoke(app, ["info", "--json"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert report["npu_xfer"] == npu_xfer.__version__
    assert report["simulated"] is sim.is_active()
    assert os.path.isfile(report["path"])
    assert report["reason"]
    assert report["devices"]
    assert report["error"] is None
    for device in report["devices"]:
        assert device["error"] is None
        assert device["soc_name"]
        assert 0 < device["free_nbytes"] <= device["total_nbytes"]
    capabilities = {row["text"]: row["available"] for row in report["capabilities"]}
    assert capabilities["names each failed copy"] in {True, False}


def test_info_without_devices_makes_no_runtime_call() -> None:
    if not sim.is_active():
        pytest.skip("only the simulator counts calls")
    sim.reset_counters()
    ran = RUNNER.invoke(app, ["info", "--json", "--no-devices"])
    assert ran.exit_code == 0
    report = json.loads(ran.stdout)
    assert report["devices"] == []
    assert report["capabilities"][0]["available"] is None
    assert sim.call_count("aclInit") == sim.call_count("aclrtSetDevice") == 0


@pytest.mark.sim_control
def test_info_shows_every_device() -> None:
    if not sim.is_active():
        pytest.skip("only the simulator has as many devices as wanted")
    sim.set_device_count(3)
    try:
        ran = RUNNER.invoke(app, ["info", "--json"])
    finally:
        sim.set_device_count(1)
    assert [device["device"] for device in json.loads(ran.stdout)["devices"]] == [0, 1, 2]


@pytest.mark.sim_control
@pytest.mark.parametrize("call", ["aclInit", "aclrtGetDeviceCount"])
def test_info_ends_in_1_when_the_runtime_does_not_work(call: str) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator fails on request")
    code = f"""
import sys
from npu_xfer import sim
from npu_xfer.cli import main
sim.fail_call("{call}", 507899)
sys.argv = ["npu-xfer", "info"]
main()
"""
    ran = _python("-c", code)
    assert ran.returncode == 1
    assert call in ran.stderr
    assert "507899" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "simulated  yes" in ran.stdout


def test_info_is_readable_at_80_columns_and_plain_in_a_pipe() -> None:
    ran = _python("-m", "npu_xfer", "info")
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith("library ")) <= 80
    assert lines == [line.rstrip() for line in lines]
    if sim.is_active():
        assert lines[0].startswith("SIMULATOR:")
        assert lines[0].endswith("say nothing about an NPU.")


def _report(**changes: Any) -> _info.Report:
    report = _info.Report(
        npu_xfer="0",
        python="CPython 3",
        platform="Linux",
        numpy="2",
        simulated=False,
        notice=None,
        path="/a path/" + "with-a-long-name/" * 7 + "libascendcl.so",
        requested="auto",
        reason="it was found in " + "/opt/ascend-toolkit" * 6 + " and it is first there",
        candidates=(),
        versions={},
        devices=(),
        capabilities=(),
        missing_functions={},
        error=None,
    )
    return dataclasses.replace(report, **changes)


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_info_never_breaks_a_path(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    report = _report()
    _info.draw(report, Screen())
    lines = capsys.readouterr().out.splitlines()
    assert f"library    {report.path}" in lines
    assert any("/opt/ascend-toolkit" * 6 in line for line in lines)
    assert "asked for  auto (the default)" in lines
    assert lines[[line[:3] for line in lines].index("why")].startswith("why        it was found in")


def test_info_names_the_variable_that_was_set(capsys: pytest.CaptureFixture[str]) -> None:
    _info.draw(_report(requested="cann"), Screen())
    assert "asked for  cann (NPU_XFER_LIBRARY)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("ACLSIM_DEVICES", "x", "a whole number from 1 to 64"),
        ("ACLSIM_DEVICES", "99", "a whole number from 1 to 64"),
        ("ACLSIM_DEVICE_MEMORY", "1XB", "bytes as a whole number"),
        ("ACLSIM_LINK", "foo", "h2d, d2h and d2d in bytes per second"),
    ],
)
def test_a_bad_variable_of_the_simulator_stops_the_command(name: str, value: str, accepted: str) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator reads them")
    ran = _python("-m", "npu_xfer", "load", "--demo", **{name: value})
    assert ran.returncode == 1
    said, complaint = ran.stderr.splitlines()
    assert said.startswith(f"aclsim: {name}={value} is not valid; accepted: {accepted}")
    assert said in complaint
    assert "100000" in complaint


def test_a_library_that_is_not_there_ends_every_command_in_1(tmp_path: Path) -> None:
    gone = str(tmp_path / "libascendcl.so")
    for command in (["info"], ["bench", "--sizes", "4KiB"], ["load", "--demo"]):
        ran = _python("-m", "npu_xfer", *command, NPU_XFER_LIBRARY=gone)
        assert ran.returncode == 1, command
        assert ran.stdout == ""
        assert gone in ran.stderr
        assert "no such file" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_a_bad_variable_is_a_wrong_command_line() -> None:
    ran = _python("-m", "npu_xfer", "info", NPU_XFER_LIBRARY="npu")
    assert ran.returncode == 2
    assert "NPU_XFER_LIBRARY='npu'" in ran.stderr


def test_exact_nbytes_never_rounds() -> None:
    assert exact_nbytes(4096) == "4 KiB"
    assert exact_nbytes(4097) == "4097 B"
    assert exact_nbytes(1536) == "1.5 KiB"


def test_first_cause_looks_into_nested_groups() -> None:
    cause = KeyError("x")

    class Group(Exception):
        def __init__(self, *inner: Exception) -> None:
            self.exceptions = inner

    assert first_cause(Group(Group(cause), ValueError())) is cause


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_run_in_loop_runs_the_loop_that_was_asked_for(loop: str) -> None:
    pytest.importorskip(loop)

    async def which() -> str:
        try:
            return type(asyncio.get_running_loop()).__module__.partition(".")[0]
        except RuntimeError:
            return "trio"

    assert run_in_loop(loop, which) == loop


def test_run_in_loop_refuses_other_loops() -> None:
    async def nothing() -> None:
        pass

    with pytest.raises(ValueError, match="accepted: asyncio, uvloop, trio"):
        run_in_loop("curio", nothing)
