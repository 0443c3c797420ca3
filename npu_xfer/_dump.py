"""A text of everything that is under way in this process, on request or on a signal."""

from __future__ import annotations

import os
import signal
from typing import Any

from npu_xfer._engine import open_cores
from npu_xfer._why import pending_rows

__all__ = ["dump", "dump_on_signal"]

_MOST = 50  # of each scheduler: the oldest


def _text() -> str:
    lines = [f"npu_xfer, process {os.getpid()}: what is under way"]
    for core in open_cores():
        kind = "SIMULATED " if core.library.simulated else ""
        rows = pending_rows(core.native, _MOST)
        total = 0 if core.native.closed else core.native.pending
        lines.append(f"device {core.device} on {kind}{core.library.path}: {total} pending")
        lines += [f"  {row}" for row in rows]
        if total > len(rows):
            lines.append(f"  and {total - len(rows)} that came later")
    return "\n".join(lines) + "\n"


def dump(fd: int = 2) -> None:
    """Writes what every open scheduler of this process has under way, the oldest first, to a file descriptor.

    For each transfer: direction, bytes, path, age, what it waits for, and the stream that has a part of it.
    """
    text = _text().encode()
    while text:
        text = text[os.write(fd, text) :]


def dump_on_signal(signum: int = signal.SIGUSR1, fd: int = 2) -> Any:
    """Makes the process `dump` when it gets a signal (``kill -USR1 PID``); returns the handler before.

    Call it on the main thread, where Python runs handlers, also while that thread waits in an event loop.
    """

    def handler(_signum: int, _frame: object) -> None:
        dump(fd)

    return signal.signal(signum, handler)
