"""The benchmark suite: every case runs, results can be read back, targets and comparisons judge right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from npu_xfer import sim

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # bench/ runs from a checkout and is no installed package
from bench import _app, _child, _compare, _model, _targets  # noqa: E402  # needs the line above
from bench.cases import load_cases  # noqa: E402  # the same

RUNNER = CliRunner()


def _row(case: str, setting: str, who: str, *values: float, **more: Any) -> _model.Row:
    return _model.Row(case, setting, who, values=list(values), **more)


def _run(rows: list[_model.Row], **more: Any) -> _model.Run:
    facts: dict[str, Any] = {
        "machine": {"cpu": "one", "cpus": 2},
        "library": {"path": "lib.so"},
        "simulated": True,
        "commit": "0",
        "version": "0",
        "date": "2026-01-01",
        "settings": {},
    }
    return _model.Run(**{**facts, **more}, rows=rows)


def test_targets_cover_every_row_and_name_cases_that_exist() -> None:
    targets = _targets.load_targets()
    assert [one["id"] for one in targets] == [f"T{i}" for i in range(1, 16)]
    assert {one["case"] for one in targets} <= set(load_cases())
    for one in targets:
        assert one["checks"]
        for check in one["checks"]:
            assert check["as"] in {"speed", "cost", "value"}
            assert ("than" in check) is (check["as"] != "value")


def test_list_names_every_case_with_its_targets() -> None:
    shown = RUNNER.invoke(_app.app, ["list"])
    assert shown.exit_code == 0
    lines = {line.split()[0]: line for line in shown.output.splitlines()}
    assert list(lines) == list(load_cases())
    assert lines["large"].split()[1] == "T1"


@pytest.mark.parametrize("name", list(load_cases()))
def test_every_case_runs_with_tiny_sizes(name: str, tmp_path: Path) -> None:
    if not sim.is_active():
        pytest.skip("the tests' machine-independent sizes are for the simulator")
    target = tmp_path / "run.json"
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "run", "--tiny", "--case", name, "--json", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "SIMULATOR" in ran.stdout
    run = _model.read_run(target)
    assert run.simulated
    assert run.machine["cpus"] >= 1
    assert run.machine["numa_nodes"] >= 1
    assert run.library["profile"]
    assert run.settings["scale"] == "tiny"
    assert {row.case for row in run.rows} == {name}
    assert all(row.failure is None and (row.values or row.waived) for row in run.rows)
    assert any(row.verified or "verified" in row.note for row in run.rows)
    data = json.loads(target.read_text())
    assert data["format"] == _model.FORMAT
    for row in data["rows"]:
        assert row["key"] == f"{row['case']}/{row['setting']}/{row['who']}"
        assert (row["median"] is None) is (not row["values"])
    needs = [one for one in _targets.load_targets() if one["case"] == name]
    assert len(run.targets) == sum(len(one["checks"]) for one in needs)
    assert all(one["verdict"] != _targets.WAIVED or one["reason"] for one in run.targets)


def test_a_ratio_is_of_samples_in_pairs_and_the_worst_setting_counts() -> None:
    rows = [
        _row("large", "a", "ours", 100, 200, 300),
        _row("large", "a", "bare", 100, 200, 300),
        _row("large", "b", "ours", 100, 100, 100),
        _row("large", "b", "bare", 50, 60, 90),
        _row("large", "c", "ours", 1000, 1000, 1000),
    ]
    found = {(one.target, one.check): one for one in _targets.judge(rows)}
    one = found["T1", "speed / bare C"]
    assert (one.value, one.setting, one.verdict) == (0.6, "b", _targets.MISSED)
    assert found["T1", "speed / link"].verdict == _targets.WAIVED
    assert found["T6", "time / C loop: copy, waiting thread, eventfd"].verdict == _targets.WAIVED


def test_a_check_looks_at_the_settings_that_it_names() -> None:
    rows = [
        _row("many", f"{way} 4KiB", who, us)
        for way, ours in (("h2d", 1.0), ("d2h", 5.0))
        for who, us in (("ours", ours), ("bare", 10.0))
    ]
    found = {one.check: one for one in _targets.judge(rows) if one.target == "T5"}
    assert found["speed / bare C, single copies"].value == 10
    assert found["the same, to the host"].value == 2
    assert found["the same, to the host"].informs


def test_a_target_on_its_edge_is_reached_and_a_failure_reaches_none() -> None:
    good = [_row("alone", "s", "ours", 15.0), _row("alone", "s", "bare", 10.0)]
    assert next(one for one in _targets.judge(good) if one.target == "T6").verdict == _targets.REACHED
    good.append(_row("alone", "t", "ours", failure="the byte at 0 is wrong"))
    bad = next(one for one in _targets.judge(good) if one.target == "T6")
    assert bad.verdict == _targets.MISSED
    assert "the byte at 0 is wrong" in bad.reason


def test_a_waived_check_says_why() -> None:
    rows = [_row("idle", "all", "ours", waived="needs a held engine")]
    one = next(one for one in _targets.judge(rows) if one.target == "T13")
    assert (one.verdict, one.reason) == (_targets.WAIVED, "needs a held engine")


def test_compare_tells_what_moved_beyond_the_noise(tmp_path: Path) -> None:
    before = [
        _row("c", "quiet", "ours", 100, 100, 100),
        _row("c", "noisy", "ours", 80, 100, 120),
        _row("c", "rate", "ours", 10, 10, 10, unit="GB/s", better="more"),
        _row("c", "old", "ours", 1),
    ]
    after = [
        _row("c", "quiet", "ours", 120, 120, 120),
        _row("c", "noisy", "ours", 90, 120, 140),
        _row("c", "rate", "ours", 20, 20, 20, unit="GB/s", better="more"),
        _row("c", "new", "ours", 1),
    ]
    changes = {one.key: one.verdict for one in _compare.compare(_run(before), _run(after))}
    assert changes == {
        "c/quiet/ours": "worse",
        "c/noisy/ours": "same",
        "c/rate/ours": "better",
        "c/new/ours": "new",
        "c/old/ours": "gone",
    }
    files = []
    for name, rows in (("a.json", before), ("b.json", after)):
        files.append(str(tmp_path / name))
        (tmp_path / name).write_text(_run(rows).to_json())
    shown = RUNNER.invoke(_app.app, ["compare", *files])
    assert shown.exit_code == 0, shown.output
    assert "1 better, 1 worse, 1 same" in shown.output
    assert "c/quiet/ours" in shown.output
    assert "c/noisy/ours" not in shown.output
    assert "c/noisy/ours" in RUNNER.invoke(_app.app, ["compare", "--all", *files]).output


def test_compare_says_when_the_machines_differ_and_what_it_cannot_read(tmp_path: Path) -> None:
    one, other, none = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    one.write_text(_run([]).to_json())
    other.write_text(_run([], machine={"cpu": "another", "cpus": 2}).to_json())
    none.write_text("[]")
    assert "different machines" in RUNNER.invoke(_app.app, ["compare", str(one), str(other)]).output
    ran = RUNNER.invoke(_app.app, ["compare", str(one), str(none)])
    assert ran.exit_code == 2
    assert "no result of a benchmark run" in ran.output


def test_strict_fails_for_a_missed_target_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_row("alone", "s", "ours", 30.0), _row("alone", "s", "bare", 10.0)]
    monkeypatch.setattr(_app, "run_case", lambda *_: rows)
    assert RUNNER.invoke(_app.app, ["run", "--case", "alone"]).exit_code == 0
    missed = RUNNER.invoke(_app.app, ["run", "--case", "alone", "--strict"])
    assert missed.exit_code == 1
    assert "not reached" in missed.output
    rows[0].values[:] = [11.0]
    assert RUNNER.invoke(_app.app, ["run", "--case", "alone", "--strict"]).exit_code == 0
    rows[0].failure = "wrong bytes"
    assert RUNNER.invoke(_app.app, ["run", "--case", "alone"]).exit_code == 1


def test_a_case_that_crashes_or_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    case = load_cases()["idle"]
    monkeypatch.setenv("ACLSIM_PROFILE", "no-such-chip")
    crashed = _child.run_case(case, "tiny", None)
    assert "ended with status" in (crashed[0].failure or "")
    monkeypatch.setitem(_child._LIMIT_S, "tiny", 0.001)
    hung = _child.run_case(case, "tiny", None)
    assert "no end within" in (hung[0].failure or "")


def test_charts_and_html_say_where_and_hold_everything(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench import _plot

    rows = [
        _row("sweep", f"h2d direct {size}", who, us, nbytes=nbytes)
        for size, nbytes in (("4KiB", 4096), ("1MiB", 1 << 20))
        for who, us in (("ours", 10.0), ("bare", 9.0))
    ]
    rows += [_row("alone", "<s>", "ours", 15.0), _row("alone", "<s>", "bare", 10.0)]
    run = _run(rows)
    png, html = tmp_path / "a.png", tmp_path / "a.html"
    _plot.write(run, _targets.judge(rows), png, html)
    assert png.read_bytes().startswith(b"\x89PNG")
    text = html.read_text()
    assert "SIMULATOR" in text
    assert "&lt;s&gt;" in text
    assert "data:image/png;base64," in text
    assert "http" not in text.replace("http-equiv", "")
