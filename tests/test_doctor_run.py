"""`npu-xfer doctor` itself: the command, its child process, libraries that break or hang, and its docs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from npu_xfer._cann.abi import PROTOTYPES
from npu_xfer.cli import _doctor
from npu_xfer.cli._app import app
from npu_xfer.doctor import Host, Probed, Severity, catalogue, diagnose
from npu_xfer.doctor.__main__ import findings_table
from npu_xfer.doctor._probed import DONE, probe

RUNNER = CliRunner()
DOCS = Path(__file__).resolve().parent.parent / "docs" / "doctor.md"
LIMIT_S = 60.0


def sim_environ(**more: str) -> dict[str, str]:
    return {**os.environ, "NPU_XFER_LIBRARY": "sim", **more}


def by_id(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in report["findings"]}


# ---- the simulator ----


def test_every_step_works_on_the_simulator() -> None:
    probed = probe(sim_environ(ACLSIM_DEVICES="2"), limit_s=LIMIT_S)
    assert (probed.ended, probed.at, probed.simulated) == (DONE, "", True)
    assert [stage.error for stage in probed.stages if stage.error] == []
    assert [(stage.name, stage.device) for stage in probed.stages] == [
        ("library", None),
        ("versions", None),
        ("tuning", None),
        ("init", None),
        ("devices", None),
        *[(name, device) for device in (0, 1) for name in ("open", "pinned", "link", "reset")],
        ("finalize", None),
    ]
    assert probed.ok("link")["n_wrong"] == 0
    assert probed.ok("link")["h2d_bytes_per_s"] > 0


def test_the_command_says_simulator_and_ends_with_0() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "npu_xfer", "doctor", "--json"],
        env=sim_environ(NPU_XFER_TUNING="off"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(ran.stdout)
    found = by_id(report)
    assert report["simulated"] is True
    assert {"library-simulator", "device-open", "pinned-ok", "link-ok", "run-mode-host"} <= found.keys()
    assert "check-failed" not in found
    assert ran.returncode == report["status"]
    bad = {name for name, one in found.items() if one["severity"] in {"warning", "error"}}
    # Of the machine that runs the test, and none of the simulator's.
    assert {found[name]["group"] for name in bad} <= {"memory", "cpu"}


@pytest.mark.parametrize(
    ("faults", "name"),
    [
        ("call name=aclrtMallocHost code=207001 times=0", "pinned-failed"),
        ("call name=aclrtSetDevice code=507033 times=0", "device-open-failed"),
        ("copy code=507001 direction=d2h", "link-failed"),
        ("call name=aclInit code=100039 times=0", "runtime-init-failed"),
    ],
)
def test_a_fault_of_the_simulator_is_found(faults: str, name: str) -> None:
    report = diagnose(Host(environ=sim_environ(ACLSIM_FAULTS=faults)), limit_s=LIMIT_S)
    (found,) = [one for one in report.findings if one.id == name]
    assert found.severity is Severity.ERROR
    assert str(found.facts["code"]) in faults
    assert str(found.facts["code"]) in found.found


def test_invalid_settings_do_not_hide_the_library() -> None:
    report = diagnose(Host(environ=sim_environ(NPU_XFER_CHUNK="much")), limit_s=LIMIT_S)
    assert {"settings-invalid", "library-simulator", "link-ok"} <= set(report.ids())
    assert "library-unusable" not in report.ids()
    report = diagnose(Host(environ=sim_environ(NPU_XFER_LIBRARY="nonsense")), limit_s=LIMIT_S)
    assert "settings-invalid" in report.ids()


# ---- bad libraries ----


# A library with all required functions: memory is the host's, and copies do nothing at all.
STUBS = {
    "aclInit": "(const char *path) {{ (void)path; {init} return 0; }}",
    "aclrtGetDeviceCount": "(unsigned *count) {{ *count = 1; return 0; }}",
    "aclrtGetRunMode": "(int *mode) {{ *mode = 1; return 0; }}",
    "aclrtMallocHost": "(void **made, size_t nbytes) {{ *made = malloc(nbytes); return 0; }}",
    "aclrtMalloc": "(void **made, size_t nbytes) {{ *made = malloc(nbytes); return 0; }}",
}


def build(folder: Path, init: str = "") -> Path:
    """Compiles it; aclInit does `init`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to make bad libraries with")
    names = [name for name, row in PROTOTYPES.items() if row.must and name != "aclrtGetSocName"]
    assert set(names) >= STUBS.keys()
    source = folder / "bad.c"
    source.write_text(
        "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "const char *aclrtGetSocName(void) { return 0; }\n"
        + "".join(
            f"int {name}{STUBS.get(name, '(void) {{ return 0; }}').format(init=init)}\n" for name in names
        )
    )
    path = folder / "libbad.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(path), str(source)], check=True, timeout=60)
    return path


def test_copies_that_do_nothing_are_wrong_data(tmp_path: Path) -> None:
    environ = {**os.environ, "NPU_XFER_LIBRARY": str(build(tmp_path))}
    report = diagnose(Host(environ=environ), limit_s=LIMIT_S)
    (found,) = [one for one in report.findings if one.id == "link-data-wrong"]
    # What was there before differs from the pattern in every byte.
    assert (found.facts["n_wrong"], found.facts["first_wrong"]) == (found.facts["nbytes"], 0)
    assert report.simulated is False


def test_a_broken_file_is_named_with_its_reason(tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("no ELF")
    environ = {**os.environ, "NPU_XFER_LIBRARY": str(broken)}
    report = diagnose(Host(environ=environ), limit_s=LIMIT_S)
    (found,) = [one for one in report.findings if one.id == "library-unusable"]
    assert found.facts["candidates"][0][0] == str(broken)
    assert "cannot be loaded" in found.found
    assert (report.status, report.simulated) == (1, None)
    assert "memory" in {one.group for one in report.findings}


def test_a_library_that_crashes_is_a_finding(tmp_path: Path) -> None:
    path = build(tmp_path, 'puts("noise"); fflush(stdout); raise(SIGSEGV);')
    report = diagnose(Host(environ={**os.environ, "NPU_XFER_LIBRARY": str(path)}), limit_s=LIMIT_S)
    (found,) = [one for one in report.findings if one.id == "runtime-crash"]
    assert (found.facts["at"], found.facts["how"]) == ("init", "SIGSEGV")
    assert "noise" in found.facts["stderr"]
    # What was known before is not lost.
    assert "library-cann" in report.ids()
    assert "kernel" in "".join(report.ids())


def test_a_library_that_hangs_is_stopped(tmp_path: Path) -> None:
    note_pid = 'FILE *out = fopen(getenv("PID_FILE"), "w"); fprintf(out, "%d", getpid()); fclose(out);'
    path = build(tmp_path, note_pid + " for (;;) pause();")
    pid_file = tmp_path / "pid"
    environ = {**os.environ, "NPU_XFER_LIBRARY": str(path), "PID_FILE": str(pid_file)}
    # Long enough for the steps before it on a busy machine; the hang itself costs this once.
    report = diagnose(Host(environ=environ), limit_s=8.0)
    (found,) = [one for one in report.findings if one.id == "runtime-hang"]
    assert found.facts["at"] == "init"
    assert report.status == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_child_that_cannot_begin_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    report = diagnose(Host(environ=sim_environ()), limit_s=LIMIT_S)
    (found,) = [one for one in report.findings if one.id == "probe-not-started"]
    assert "No module named" in found.facts["stderr"]


def test_no_child_at_all_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    report = diagnose(Host(environ=sim_environ()), limit_s=LIMIT_S)
    (found,) = [one for one in report.findings if one.id == "check-failed"]
    assert "probe" in found.found
    assert "versions" in report.ids()


# ---- the command ----


def test_text_shows_id_reason_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_XFER_CHUNK", "much")
    ran = RUNNER.invoke(app, ["doctor", "--no-runtime", "--no-ok"], env={"COLUMNS": "80"})
    assert ran.exit_code == 1
    assert "error: settings-invalid" in ran.stdout
    for word in ("why", "fix", "source"):
        assert f"    {word}" in ran.stdout
    assert "\nok: " not in ran.stdout
    # The worst comes first.
    assert ran.stdout.index("error: ") < ran.stdout.index("note: ")
    assert max(map(len, ran.stdout.splitlines())) <= 80


def test_the_doctor_itself_failing_is_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(_doctor, "diagnose", broken)
    ran = RUNNER.invoke(app, ["doctor"])
    assert ran.exit_code == 2
    assert "the doctor itself failed: RuntimeError: boom" in ran.stderr


def test_it_works_without_typer_and_rich() -> None:
    code = (
        "import sys; sys.modules['typer'] = sys.modules['rich'] = None\n"
        "from npu_xfer.doctor.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "--json"],
        env=sim_environ(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "library-simulator" in by_id(json.loads(ran.stdout))
    assert ran.returncode in {0, 1}


# ---- data and docs ----


def test_the_report_keeps_to_its_schema() -> None:
    schema = json.loads((resources.files("npu_xfer.doctor") / "schema.json").read_text(encoding="utf-8"))
    report = json.loads(json.dumps(diagnose(Host.this(), probed=Probed()).as_dict(), allow_nan=False))
    properties = schema["properties"]
    assert set(report) == set(properties) == set(schema["required"])
    assert report["format"] == properties["format"]["const"]
    severities = [severity.name.lower() for severity in Severity]
    assert properties["worst"]["enum"] == severities
    item = properties["findings"]["items"]
    assert item["properties"]["severity"]["enum"] == severities
    assert set(item["properties"]["group"]["enum"]) == {text.group for text in catalogue().values()}
    assert report["findings"]
    kinds = {"string": str, "object": dict}
    for found in report["findings"]:
        assert set(found) == set(item["properties"]) == set(item["required"])
        assert found["severity"] in severities
        for name, rule in item["properties"].items():
            assert "type" not in rule or isinstance(found[name], kinds[rule["type"]])


def test_the_docs_list_every_finding() -> None:
    _, mark, listed = DOCS.read_text(encoding="utf-8").partition("<!-- findings -->\n")
    assert mark
    assert listed == findings_table(), "run: python -m npu_xfer.doctor --findings"


def test_every_finding_says_what_why_how_and_where_from() -> None:
    assert len(catalogue()) > 60
    for text in catalogue().values():
        assert all((text.found, text.why, text.fix, text.source)), text.id
        assert text.simulated <= text.severity, text.id
        if text.severity > Severity.NOTE:
            assert not text.fix.startswith("Nothing"), text.id


def test_known_combinations_name_findings() -> None:
    rows = json.loads((resources.files("npu_xfer.doctor") / "known.json").read_text(encoding="utf-8"))
    assert rows
    for row in rows:
        assert row["id"] in catalogue()
        assert row["versions"].keys() <= {"cann", "driver", "firmware"}
        assert all(limits.keys() <= {"from", "below"} for limits in row["versions"].values())
