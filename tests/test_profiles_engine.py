"""The schedulers on chips, forms and CANN releases that differ in something they use, in every mode.

The program is tests/engine_round_trips.py; it also runs by hand on any of `npu-xfer sim profiles`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("engine_round_trips.py")
EXTRA_SEEDS = "adversarial:2", "adversarial:3"

# What each stands for: the oldest release with the fewest functions; short queues and few events; one memory
# for both sides, with the oldest and the newest release; the first release of another event model; no
# per-copy alignment rule any more; the newest chip.
PROFILES = ["a2-ep-8.0", "310p-ep-8.3", "310b-rc-8.0", "310p-rc-9.1", "910-ep-8.5", "a3-ep-9.0", "950-ep-9.1"]


def run(profile: str, *modes: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "NPU_XFER_LIBRARY": "sim", "ACLSIM_PROFILE": profile}
    return subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), *modes],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_round_trips(profile: str) -> None:
    done = run(profile, "threads:0", "virtual:0", "adversarial:1", *EXTRA_SEEDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [profile]


def test_the_program_can_fail() -> None:
    """A byte that is wrong, and a block that is left, end it with an error."""
    wrong = "import engine_round_trips as e, numpy as np\ne.same(np.zeros(3), np.ones(3))\n"
    left = (
        "import engine_round_trips as e\n"
        "from npu_xfer import acl\n"
        "one = e.blocking\n"
        "def blocking():\n"
        "    one()\n"
        "    acl.rt.set_device(0)\n"
        "    acl.rt.malloc_host(64)\n"
        "e.blocking = blocking\n"
        "e.main(['threads:0'])\n"
    )
    for code, said in ((wrong, "float64(3,)"), (left, "live_pinned_blocks=1")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NPU_XFER_LIBRARY": "sim", "PYTHONPATH": str(PROGRAM.parent)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert said in done.stderr
