"""Helpers of several test files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np

from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

DEADLINE_S = 30.0
EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "200"))
"""How many examples the property tests of layouts, types and trees try; 10,000 for a night."""


def pattern(nbytes: int, seed: int = 0) -> NDArray[np.uint8]:
    """Bytes that differ at every place and for every seed."""
    return np.random.default_rng([seed, nbytes]).integers(0, 256, nbytes, dtype=np.uint8)


async def until(condition: Callable[[], bool]) -> None:
    """Lets the event loop turn until the condition holds; fails after DEADLINE_S."""
    with anyio.fail_after(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  # what is waited for happens outside of any event loop
            await anyio.sleep(0.001)


async def turns(n: int) -> None:
    """Lets the event loop turn n times, at least a millisecond each."""
    for _ in range(n):
        await anyio.sleep(0.001)


def until_blocking(condition: Callable[[], bool]) -> None:
    """The same without an event loop."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.001)


@contextlib.contextmanager
def held(*directions: str, device: int = 0) -> Iterator[None]:
    """DMA engines that start no copy inside the block."""
    for direction in directions:
        sim.hold_engine(device, direction)  # type: ignore[arg-type]  # parametrised by text
    try:
        yield
    finally:
        for direction in directions:
            sim.release_engine(device, direction)  # type: ignore[arg-type]  # the same


def run_python(
    code: str, *, env: dict[str, str] | None = None, **kwargs: Any
) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter on the simulator."""
    environ = {**os.environ, "NPU_XFER_LIBRARY": "sim", **(env or {})}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **kwargs,
    )


def sim_run(
    *arguments: str | Path, cwd: Path | None = None, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`npu-xfer sim run` in a process of its own; what the program prints is in stdout."""
    return subprocess.run(
        [sys.executable, "-m", "npu_xfer", "sim", "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"} | (environ or {}),
    )
