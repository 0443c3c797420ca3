"""Tuning profiles: matched by their key, applied to what nobody set; and the search that makes them."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from npu_xfer import BlockingScheduler, _tuning
from npu_xfer._library import forget_library
from npu_xfer._settings import MIB, Settings, settings
from npu_xfer.cli._app import app
from npu_xfer.tune import CANDIDATES, WORKLOADS, _search, _work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNER = CliRunner()


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where "auto" looks, empty; settings are read anew."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NPU_XFER_TUNING", raising=False)
    forget_library()
    yield tmp_path / "npu_xfer" / "tuning.json"
    forget_library()


def _write(path: Path, values: dict[str, int], **other: str) -> None:
    key = dataclasses.replace(_tuning.machine_key(settings()), **other)  # type: ignore[arg-type]  # text fields
    _tuning.write_profile(path, _tuning.Profile(key, values), {"gain": 1.5})


def _opened(**options: Any) -> tuple[Settings, str]:
    with BlockingScheduler(**options) as xfer:
        core = xfer._opened()
        return core.settings, core.tuning


def test_without_a_profile_nothing_changes(profile: Path) -> None:
    found, text = _opened()
    assert found == settings()
    assert "npu-xfer tune" in text
    assert not profile.exists()


def test_a_profile_that_fits_is_used_and_says_so(profile: Path) -> None:
    _write(profile, {"chunk_bytes": MIB, "n_lanes": 2})
    found, text = _opened()
    assert (found.chunk_bytes, found.n_lanes) == (MIB, 2)
    assert str(profile) in text
    assert "n_lanes=2" in text


def test_arguments_and_variables_go_first(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(profile, {"chunk_bytes": MIB, "n_lanes": 2, "spin_us": 7})
    monkeypatch.setenv("NPU_XFER_LANES", "4")
    settings.cache_clear()
    found, _ = _opened(chunk_bytes=2 * MIB)
    assert (found.chunk_bytes, found.n_lanes, found.spin_us) == (2 * MIB, 4, 7)


def test_a_chunk_that_does_not_fit_in_less_staging_is_cut(profile: Path) -> None:
    _write(profile, {"n_lanes": 2})
    found, _ = _opened(staging_bytes=MIB)
    assert (found.chunk_bytes, found.n_lanes) == (MIB, 2)


@pytest.mark.parametrize("field", ["chip", "version", "cpu"])
def test_a_profile_of_another_machine_is_not_used(profile: Path, field: str) -> None:
    _write(profile, {"n_lanes": 2}, **{field: "another"})
    found, text = _opened()
    assert found == settings()
    assert "measured elsewhere" in text
    assert field in text


def test_off_turns_it_off_and_a_path_is_read(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(profile, {"n_lanes": 2})
    other = profile.with_name("other.json")
    _write(other, {"n_lanes": 1})
    for value, lanes in (("off", settings().n_lanes), (str(other), 1), ("auto", 2)):
        monkeypatch.setenv("NPU_XFER_TUNING", value)
        settings.cache_clear()
        assert _opened()[0].n_lanes == lanes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no tuning profile"),
        ("[]", "no tuning profile"),
        ('{"format": 2}', "format"),
        ('{"format": 1, "values": {"library": 1}, "key": {}}', "library"),
        ('{"format": 1, "values": {"n_lanes": "2"}, "key": {}}', "whole number"),
        ('{"format": 1, "values": {}, "key": {}}', "no tuning profile"),
    ],
)
def test_a_broken_profile_is_a_warning_and_no_error(
    profile: Path, caplog: pytest.LogCaptureFixture, text: str, why: str
) -> None:
    profile.parent.mkdir()
    profile.write_text(text)
    with caplog.at_level(logging.WARNING, "npu_xfer"):
        found, said = _opened()
    assert found == settings()
    assert why in said
    assert any(why in record.getMessage() for record in caplog.records)


def test_values_out_of_range_are_refused_as_arguments_are(profile: Path) -> None:
    _write(profile, {"n_lanes": 1000})
    found, text = _opened()
    assert found == settings()
    assert "1 to 32" in text


def test_a_named_file_that_is_missing_is_a_warning(
    profile: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NPU_XFER_TUNING", str(profile))
    settings.cache_clear()
    with caplog.at_level(logging.WARNING, "npu_xfer"):
        _, text = _opened()
    assert "not used" in text
    assert any("tuning" in record.getMessage() for record in caplog.records)


def _speeds(monkeypatch: pytest.MonkeyPatch, factor: dict[tuple[str, int], float]) -> None:
    """Makes settings as fast as this table says, without measuring."""

    def measure(_device: int, options: dict[str, int], samples: int, _scale: float) -> dict[str, list[float]]:
        seconds = 1.0
        for knob, value in options.items():
            seconds /= factor.get((knob, value), 1.0)
        return {name: [seconds] * samples for name in WORKLOADS}

    monkeypatch.setattr(_work, "measure", measure)


DEFAULTS = {"chunk_bytes": 4 * MIB, "n_lanes": 3, "n_stagers": 1, "inline_bytes": 65536, "spin_us": 50}


def test_the_fastest_value_of_each_setting_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _speeds(
        monkeypatch, {("n_stagers", 2): 1.5, ("n_stagers", 3): 1.8, ("n_lanes", 2): 1.2, ("spin_us", 0): 0.5}
    )
    found = _search.run(device=0, defaults=DEFAULTS)
    assert found.values == {"n_stagers": 3, "n_lanes": 2}
    assert found.gain == pytest.approx(1.8 * 1.2)
    assert set(found.by_workload) == set(WORKLOADS)
    assert {step.knob for step in found.steps} == set(CANDIDATES)


def test_a_gain_within_the_noise_keeps_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    _speeds(monkeypatch, {("n_stagers", 2): 1.02, ("n_lanes", 2): 0.9})
    found = _search.run(device=0, defaults=DEFAULTS)
    assert found.values == {}
    assert found.gain == 1.0


def test_what_the_environment_set_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    _speeds(monkeypatch, {("n_stagers", 2): 2.0})
    found = _search.run(device=0, defaults=DEFAULTS, fixed=frozenset({"n_stagers"}))
    assert found.values == {}
    assert "n_stagers" not in {step.knob for step in found.steps}


def test_the_command_writes_a_profile_that_info_shows(profile: Path) -> None:
    ran = RUNNER.invoke(app, ["tune", "--samples", "2", "--scale", "0.0001"], env={"COLUMNS": "80"})
    assert ran.exit_code == 0, ran.output
    assert "Written to" in ran.output
    data = json.loads(profile.read_text())
    assert set(data["values"]) <= set(_tuning.KNOBS)
    assert data["key"]["chip"]
    shown = RUNNER.invoke(app, ["info", "--json"])
    assert str(profile) in json.loads(shown.output)["tuning"]


def test_the_command_says_when_the_profile_cannot_be_written(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _speeds(monkeypatch, {})
    profile.parent.write_text("a file where the folder should be")
    ran = RUNNER.invoke(app, ["tune", "--samples", "2"])
    assert ran.exit_code == 1
    assert "cannot be written" in ran.output
