"""What a pending transfer waits for, as the engine saw it at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Pending", "pending_rows"]

_WAITS = (
    "other transfers, named by `after`, to end",
    "earlier transfers that use the same memory",
    "work on a stream that `after` names",
    "a thread that fills staging memory",
    "a stream to take it",
    "a thread of the scheduler, or memory",
    "the device, which has a part of it",
)
_PATHS = ("direct", "staged", "empty", "sync")


@dataclass(frozen=True)
class Pending:
    """One array that is under way. `age_s` is in seconds; `planned_nbytes` is what is cut into chunks."""

    direction: str
    path: str
    priority: int
    nbytes: int
    planned_nbytes: int
    age_s: float
    waits_for: str
    withdrawn: bool
    stream: int | None
    """ACL's number of the stream that has a part of it."""

    def __str__(self) -> str:
        taken_back = ", withdrawn" if self.withdrawn else ""
        where = "" if self.stream is None else f" (stream {self.stream})"
        return (
            f"{self.direction.upper()} transfer of {self.nbytes} bytes ({self.path}{taken_back}), "
            f"{self.age_s:.1f} s old, waits for {self.waits_for}{where}"
        )


def pending_rows(native: Any, most: int, handle: object = None) -> list[Pending]:
    """The oldest first; no more than `most`."""
    if native.closed:
        return []
    _, rows = native.report(most, handle)
    return [
        Pending(
            ("h2d", "d2h")[direction],
            _PATHS[path],
            priority,
            nbytes,
            planned,
            age_s,
            _WAITS[stage],
            withdrawn,
            None if stream < 0 else stream,
        )
        for direction, path, priority, stage, nbytes, planned, age_s, withdrawn, stream in rows
    ]
