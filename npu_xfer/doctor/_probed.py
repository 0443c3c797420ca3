"""Runs the child that calls the ACL library, and keeps what it said before it ended, died or hung."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DONE", "NOT_RUN", "Probed", "Stage", "probe"]

DONE = "done"
NOT_RUN = "not run"
_KILLED_S = 2.0  # a process that waits inside of the driver cannot be killed, and is left behind
_STDERR_NBYTES = 2000
_CODE = "import sys; sys.path[:] = {path!r}; from npu_xfer.doctor._probe import main; main()"


@dataclass(frozen=True)
class Stage:
    """One step of the child."""

    name: str
    device: int | None = None
    ok: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Probed:
    """What the child found. Without a run, nothing."""

    stages: tuple[Stage, ...] = ()
    ended: str = NOT_RUN
    """DONE, NOT_RUN, "hang", or "crash"."""

    at: str = ""
    """The step in which it crashed or hung; empty before the first one."""

    how: str = ""
    """For a crash: the signal or the exit status."""

    limit_s: float = 0.0
    stderr: str = ""
    """The end of what it and the library printed."""

    def ok(self, name: str) -> Mapping[str, Any]:
        """The result of a step; empty when it has none."""
        return next((stage.ok for stage in self.stages if stage.name == name and stage.ok), {})

    def error(self, name: str) -> Mapping[str, Any]:
        """The error of a step; empty when it did not fail."""
        return next((stage.error for stage in self.stages if stage.name == name and stage.error), {})

    def of_devices(self, name: str) -> list[Stage]:
        """This step on each device where it ended."""
        return [stage for stage in self.stages if stage.name == name and (stage.ok or stage.error)]

    @property
    def simulated(self) -> bool | None:
        """Whether the library is the simulator; None when none was opened."""
        found = self.ok("library").get("simulated")
        return None if found is None else bool(found)


def _stage(line: Mapping[str, Any]) -> Stage:
    return Stage(str(line["stage"]), line.get("device"), line.get("ok"), line.get("error"))


def _label(stage: Stage) -> str:
    return stage.name if stage.device is None else f"{stage.name} of device {stage.device}"


class _Child:
    """Reads the child's lines; each has `limit_s` from the one before."""

    def __init__(self, process: subprocess.Popen[bytes], limit_s: float) -> None:
        self._process = process
        self._limit_s = limit_s
        self.stages: list[Stage] = []
        self.current: Stage | None = None
        self._rest = b""

    def read(self) -> bool:
        """Until the child closes its end; False when it said nothing for too long."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            while selector.select(self._limit_s):
                data = os.read(fd, 1 << 16)
                if not data:
                    return True
                self._take(data)
        return False

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            stage = _stage(json.loads(raw))
            if stage.ok is None and stage.error is None:
                self.current = stage
            else:
                self.stages.append(stage)
                self.current = None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the child with everything it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_S)


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def probe(environ: Mapping[str, str], *, limit_s: float) -> Probed:
    """Runs every step in a new process. `limit_s` is for each step alone. Raises OSError when no process can
    be started."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE.format(path=sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=printed,
            env=dict(environ),
            start_new_session=True,
        )
        child = _Child(process, limit_s)
        ended, how = "hang", ""
        try:
            if child.read():
                started = time.monotonic()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(limit_s)
                    ended, how = (DONE, "") if status == 0 else ("crash", _how(status))
                if ended == "hang":
                    how = f"after its last step, for {time.monotonic() - started:.0f} s"
        finally:
            _end(process)
            assert process.stdout is not None
            process.stdout.close()
        printed.seek(0, os.SEEK_END)
        printed.seek(max(0, printed.tell() - _STDERR_NBYTES))
        text = printed.read().decode("utf-8", "replace").strip()
    between = "the end" if child.stages else "the start"
    at = between if child.current is None else _label(child.current)
    return Probed(tuple(child.stages), ended, at if ended != DONE else "", how, limit_s, text)
