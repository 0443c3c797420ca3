"""Planted bugs of order are found whatever the seed, and the same programs without the bug are clean."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("planted_races.py")
N_SEEDS = 10

_PLACE = r"\[planted_races\.py:\d+ in \w+\]"
_TASK = rf"aclrtMem\w+Async {_PLACE}, task \d+ of stream \d+ on device 0 \(thread \d+\),"
_BOTH = rf"^unordered: {_TASK} {{}} \[0x\w+, 0x\w+\) and {_TASK} {{}} \[0x\w+, 0x\w+\)"
_FREED = rf"^freed: {{}} {_PLACE} \(thread \d+\) frees {{}} memory 0x\w+, which {_TASK} {{}}"
# What the finding says: who submitted what, and what came across it. None: only wrong bytes tell, because
# nobody but the program's own reading is at fault.
SAYS = {
    "source_overwritten": rf"^source-changed: the 4096 bytes at 0x\w+ changed after {_TASK} was submitted",
    "slab_reused": rf"^source-changed: the 4096 bytes at 0x\w+ changed after {_TASK} was submitted",
    "wait_event_missing": _BOTH.format("writes", "reads"),
    "inside_unordered": _BOTH.format("writes", "reads"),
    "result_read_early": None,
    "device_freed": _FREED.format("aclrtFree", "device", "writes"),
    "device_source_freed": _FREED.format("aclrtFree", "device", "reads"),
    "pinned_freed": _FREED.format("aclrtFreeHost", "pinned host", "reads"),
    "registered_source_overwritten": rf"^source-changed: the 4096 bytes at 0x\w+ changed after {_TASK}",
    "source_refilled_by_device": _BOTH.format("reads", "writes"),
    "fill_unordered": _BOTH.format("writes", "reads"),
    "wait_before_record": _BOTH.format("writes", "reads"),
    "waited_otherwise": rf"^source-changed: the 4096 bytes at 0x\w+ changed after {_TASK}",
}


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, list[tuple[bool, list[str]]]]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "NPU_XFER_LIBRARY": "sim"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_program_ran(results: dict[str, Any]) -> None:
    assert results.keys() == SAYS.keys()
    assert {len(runs) for both in results.values() for runs in both.values()} == {N_SEEDS}


@pytest.mark.parametrize("program", SAYS)
def test_the_bug_is_found_in_every_seed(results: dict[str, Any], program: str) -> None:
    says = SAYS[program]
    for wrong_bytes, texts in results[program]["planted"]:
        if says is None:
            assert wrong_bytes
        else:
            assert any(re.search(says, text) for text in texts), texts


@pytest.mark.parametrize("program", SAYS)
def test_the_corrected_program_is_clean_in_every_seed(results: dict[str, Any], program: str) -> None:
    assert results[program]["correct"] == [[False, []]] * N_SEEDS
