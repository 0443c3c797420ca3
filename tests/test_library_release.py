"""A simulated older release lacks functions, and the package sees it as on the real one.

Each case runs in its own process, because the profile is read once.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from npu_xfer._library import located_library
from npu_xfer.errors import LibraryError

library = located_library().library
print(library.has("aclrtPointerGetAttributes"), library.has("aclrtMalloc"), library.has("aclrtNoSuchCall"))
print("aclrtPointerGetAttributes" in library.missing(must=False), library.missing())
try:
    library.function("aclrtPointerGetAttributes")
    print("found")
except LibraryError as error:
    print(error)
"""


def _run(profile: str) -> list[str]:
    environ = {**os.environ, "NPU_XFER_LIBRARY": "sim", "ACLSIM_PROFILE": profile}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("profile", ["classic", "a3-8.3"])
def test_older_release_lacks_the_function(profile: str) -> None:
    has, missing, found = _run(profile)
    assert has == "False True False"
    assert missing == "True ()"
    assert "has no aclrtPointerGetAttributes" in found
    assert "8.5.0" in found


@pytest.mark.parametrize("profile", ["", "310p-rc-8.5"])
def test_newer_release_has_it(profile: str) -> None:
    assert _run(profile) == ["True True False", "False ()", "found"]


def test_schedulers_run_on_the_oldest_release() -> None:
    script = """
import numpy as np
import npu_xfer

source = np.arange(70_000, dtype=np.int32)
with npu_xfer.BlockingScheduler() as xfer:
    print(np.array_equal(xfer.to_device(source).to_host(), source))
"""
    environ = {**os.environ, "NPU_XFER_LIBRARY": "sim", "ACLSIM_PROFILE": "classic"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"
