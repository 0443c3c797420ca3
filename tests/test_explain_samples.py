"""The logs of logs/: class, codes, call, direction and role, and what the command must and must not say."""

from __future__ import annotations

import pytest
from explain_samples import LOGS, SAMPLES, Sample
from typer.testing import CliRunner

from npu_xfer.cli._app import app
from npu_xfer.explain import explain_bytes


def squeezed(text: str) -> str:
    return "".join(text.split()).lower()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_sample_is_understood(sample: Sample) -> None:
    data = (LOGS / f"{sample.name}.txt").read_bytes()
    (one,) = explain_bytes(data)
    assert one.cls == sample.cls
    assert one.evidence
    lines = data.decode().splitlines()
    for line in one.evidence:
        assert line["text"] == lines[line["line"] - 1].strip()[:500]
    if sample.class_only:
        return
    assert set(sample.codes) <= {*one.codes, *one.inner_codes}
    assert sample.api is None or one.api == sample.api
    assert one.direction == sample.direction
    assert (one.role, one.count) == (sample.role, sample.count)
    assert one.remedies


@pytest.mark.parametrize("sample", [one for one in SAMPLES if not one.class_only], ids=lambda one: one.name)
def test_the_command_says_what_it_must(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_XFER_LANG", "en")
    result = CliRunner().invoke(app, ["explain", str(LOGS / f"{sample.name}.txt")])
    assert result.exit_code == 1
    shown = squeezed(result.stdout)
    # What the log's own lines say is not the command's statement.
    told = shown.partition(squeezed("Lines that prove it:"))[0]
    for piece in sample.must:
        assert squeezed(piece) in (shown if piece.startswith("[") else told), piece
    for piece in sample.must_not:
        where = shown if piece.startswith("[") or piece in {"devmm", "kworker"} else told
        assert squeezed(piece) not in where, piece


def test_every_log_has_its_expectation() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == {sample.name for sample in SAMPLES}
