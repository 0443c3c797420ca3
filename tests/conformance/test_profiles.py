"""This suite under other profiles of the simulator, and the table of all of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import cites, needs_control
from conformance.support.profiles import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Each of these differs from the default one, a2-ep-9.1, in something that tests decide by.
OTHERS = [
    "a2-ep-8.0",
    "a2-ep-8.3",
    "a2-ep-8.5",
    "a3-ep-9.0",
    "310p-ep-9.1",
    "310b-rc-9.1",
    "950-ep-9.1",
    "910-ep-8.5",
]
# What no profile changes, and takes its time: run once, in the default profile.
ONCE = ["test_profiles.py", "test_c.py", "test_init.py"]
DEADLINE_S = 110


def child(profile: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, args)],
        env={**os.environ, "ACLSIM_PROFILE": profile},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def suite(profile: str) -> subprocess.CompletedProcess[str]:
    ignored = [f"--ignore={HERE / name}" for name in ONCE]
    return child(
        profile, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--no-header", *ignored, HERE
    )


@pytest.fixture(scope="module")
def suites() -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """All of them, several at a time: much of each is waiting."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        yield {profile: pool.submit(suite, profile) for profile in OTHERS}


@cites("Every expectation holds in each profile, as far as its marks say", "the tests of this folder")
@needs_control
@pytest.mark.skipif("ACLSIM_PROFILE" in os.environ, reason="one profile was asked for")
@pytest.mark.timeout(4 * DEADLINE_S)
@pytest.mark.parametrize("profile", OTHERS)
def test_the_suite(suites: dict[str, Future[subprocess.CompletedProcess[str]]], profile: str) -> None:
    done = suites[profile].result()
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


@cites("A library says which profile it is", "this package's own rule")
@needs_control
@pytest.mark.parametrize("profile", OTHERS)
def test_the_profile_in_use(profile: str) -> None:
    code = "from conformance.support.face import open_acl; print(open_acl().profile.name)"
    done = child(profile, "-c", f"import sys; sys.path.insert(0, 'tests'); {code}")
    assert done.stdout.strip() == profile, done.stderr
    assert parse(profile).name == profile


@cites("docs/simulator-profiles.md is what the simulator answers", "this package's own rule")
@needs_control
def test_the_table() -> None:
    done = child("a2-ep-9.1", HERE / "matrix.py", "--check")
    assert done.returncode == 0, done.stderr


@cites("A test that cites nothing stops the run", "this package's own rule")
def test_an_uncited_test_is_found(tmp_path: Path) -> None:
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text("def test_nothing():\n    pass\n")
    done = child("a2-ep-9.1", "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--collect-only", tmp_path)
    assert done.returncode != 0
    assert "cite nothing" in done.stdout + done.stderr
