"""What the simulator saw: counters, calls, findings, and the whole as a report."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npu_xfer.errors import XferError
from npu_xfer.sim._binding import CCounters, accept, control, text

__all__ = [
    "FINDING_KINDS",
    "Counters",
    "Finding",
    "call_count",
    "clear_findings",
    "counters",
    "findings",
    "report",
    "reset_counters",
    "write_report",
]

FINDING_KINDS = (
    "pageable",
    "unaligned",
    "wrong-kind",
    "host-as-d2d",
    "source-changed",
    "freed",
    "unordered",
    "stale-handle",
    "in-callback",
    "leak",
)


@dataclass(frozen=True, slots=True)
class Counters:
    """What the simulator has done, and what exists in it now."""

    h2d_copies: int
    d2h_copies: int
    d2d_copies: int
    h2d_nbytes: int
    d2h_nbytes: int
    d2d_nbytes: int
    failed_copies: int
    """Copies that ended in an error."""

    pageable_copies: int
    """Asynchronous copies of ordinary memory, which were therefore executed synchronously."""

    unaligned_copies: int
    """Asynchronous copies with an address that is not 64-byte aligned."""

    live_streams: int
    live_events: int
    live_device_blocks: int
    live_device_nbytes: int
    live_pinned_blocks: int
    live_pinned_nbytes: int


def counters() -> Counters:
    """Counts of executed copies since the last `reset_counters`, and of what is alive now."""
    raw = CCounters()
    control().counters(ctypes.byref(raw))
    return Counters(
        raw.copies[0],
        raw.copies[1],
        raw.copies[2],
        raw.bytes[0],
        raw.bytes[1],
        raw.bytes[2],
        raw.failed_copies,
        raw.pageable_copies,
        raw.unaligned_copies,
        raw.live_streams,
        raw.live_events,
        raw.live_device_blocks,
        raw.live_device_bytes,
        raw.live_pinned_blocks,
        raw.live_pinned_bytes,
    )


def reset_counters() -> None:
    """Sets the call counts and the copy counts to 0; what is alive stays counted."""
    control().reset_counters()


def call_count(name: str, tid: int = 0) -> int:
    """Calls of one ACL function by a thread's kernel id (threading.get_native_id), or by all for 0.

    Raises ValueError for a name that is no ACL function.
    """
    count: int = control().call_count(text(name, "the function"), tid)
    accept(count, f"to count calls of {name}, which it does not know")
    return count


# ---- findings ----


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that would be wrong, slow or lucky on hardware."""

    kind: str
    """One of FINDING_KINDS."""

    count: int
    texts: tuple[str, ...]
    """The first 32 different ones."""


def _texts(kind: str) -> tuple[str, ...]:
    line = ctypes.create_string_buffer(1024)
    found: list[str] = []
    while control().finding_text(kind.encode(), len(found), line, len(line)) >= 0:
        found.append(line.value.decode(errors="replace"))
    return tuple(found)


def findings(kind: str | None = None) -> tuple[Finding, ...]:
    """What was found since the last `clear_findings`, by kind; only kinds with a count above 0.

    Raises ValueError for a kind that does not exist.
    """
    kinds = FINDING_KINDS if kind is None else (kind,)
    result: list[Finding] = []
    for each in kinds:
        count: int = control().finding_count(text(each, "the kind"))
        accept(count, f"to count findings of kind {each!r}; there are {', '.join(FINDING_KINDS)}")
        if count > 0:
            result.append(Finding(each, count, _texts(each)))
    return tuple(result)


def clear_findings() -> None:
    """Forgets every finding."""
    control().clear_findings()


# ---- the report ----


def write_report(path: str | os.PathLike[str]) -> None:
    """Writes the report as of now: the JSON object that ACLSIM_REPORT gives at the end of a process.

    Raises XferError when the file cannot be written.
    """
    name = os.fspath(path)
    if control().write_report(text(name, "the path")) < 0:
        raise XferError(f"the simulator cannot write its report to {name}", remedy="choose another folder")


def report() -> dict[str, Any]:
    """The report as of now. "leaks" are the objects that are alive."""
    with tempfile.TemporaryDirectory(prefix="npu_xfer_") as folder:
        path = Path(folder) / "report.json"
        write_report(path)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    return found
