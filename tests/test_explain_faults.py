"""What the simulator logs for each failure is explained as that failure; docs/explain.md says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from explain_docs import PAGE, SCHEMA, page
from explain_samples import LOGS
from fault_programs import PROGRAMS
from typer.testing import CliRunner

from npu_xfer import sim
from npu_xfer._cann.codes import CODES
from npu_xfer.cli._app import app
from npu_xfer.explain import explain_paths, rules


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    made = tmp_path_factory.mktemp("faults")
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("ACLSIM_", "ASCEND_"))}
    subprocess.run(
        [sys.executable, Path(__file__).parent / "fault_programs.py", made],
        env=clean,
        timeout=100,
        check=True,
    )
    return made


@pytest.mark.sim_control
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fault_is_explained_as_itself(folder: Path, name: str) -> None:
    found = [
        one for _, result in explain_paths([folder / name]) if isinstance(result, list) for one in result
    ]
    wanted = PROGRAMS[name].cls
    assert [one.cls for one in found] == ([] if wanted is None else [wanted])
    assert (folder / name).exists() == (wanted is not None)
    for one in found:
        assert any(code.isdigit() and int(code) in CODES for code in one.codes)
        assert one.role == "cause"
        assert one.count == 1
        assert one.facts.get("device", "0") == "0"


@pytest.mark.sim_control
def test_both_numberings_name_the_same_memory(folder: Path) -> None:
    """An upload from ordinary memory, declared as a download: old releases count it as 1, new ones as 2."""
    for name, numbering in (("kind-8.3", "1 to 5"), ("kind-8.5", "0 to 4"), ("kind-9.1", "0 to 4")):
        ((_, found),) = list(explain_paths([folder / name / "debug"]))
        assert isinstance(found, list)
        assert found[0].direction == "d2h"
        assert found[0].found is not None
        assert numbering in found[0].found
        assert "the source should be device memory" in found[0].found
        assert "the destination should be host memory but is device memory" in found[0].found


def test_the_page_of_explain_is_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert text == page(text), "run python tests/explain_docs.py"


def test_the_output_fits_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    result = CliRunner().invoke(app, ["explain", "--json", str(LOGS)])
    found = json.loads(result.stdout)
    assert len(found) >= 19
    validator.validate(found)
    assert not validator.is_valid([{**found[0], "role": "guess"}])
    assert not validator.is_valid([{name: value for name, value in found[0].items() if name != "id"}])
    assert {one["class"] for one in found} <= {rule.name for rule in rules()}
