"""Enums and frozen records that every floor shares. No behaviour, no runtime call."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["After", "Direction", "LaneStats", "LibraryInfo", "Priority", "RawEvent", "Stats"]


class _TextEnum(str, enum.Enum):
    """Members compare equal to their text, so that "h2d" and Direction.H2D are interchangeable."""

    def __str__(self) -> str:
        return str(self.value)


class Direction(_TextEnum):
    """Which way the bytes go, seen from the host."""

    H2D = "h2d"  # host memory to device memory
    D2H = "d2h"  # device memory to host memory

    @property
    def number(self) -> int:
        """The number that the native engine and the simulator use for it: 0 for H2D, 1 for D2H."""
        return 0 if self is Direction.H2D else 1


class Priority(enum.IntEnum):
    """Which of two transfers that could go now goes first; see `Scheduler.to_device`.

    The scheduler serves them; ACL's own stream priority does nothing.
    """

    LATENCY = 0
    """Goes before all others; it waits for at most what is on the streams already, about two chunks."""

    NORMAL = 1
    """The default."""

    BULK = 2
    """Takes what the others leave; passed over eight times it goes next."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """An ACL event by its address, for ``after=``, where a plain int means a stream.

    It must have been recorded, must allow a stream to wait for it (flag ACL_EVENT_SYNC), and must stay until
    the transfer that waits for it is done.
    """

    address: int


class StreamLike(Protocol):
    """An ACL stream of another library, such as ``torch.npu.Stream``."""

    @property
    def npu_stream(self) -> int:
        """Its address."""


class EventLike(Protocol):
    """An ACL event of another library, such as ``torch.npu.Event``; recorded."""

    @property
    def npu_event(self) -> int:
        """Its address."""


class _TransferLike(Protocol):
    @property
    def captured(self) -> bool: ...
    def _ticket(self) -> Any: ...


_One: TypeAlias = "int | StreamLike | EventLike | RawEvent | _TransferLike"
After: TypeAlias = "_One | Sequence[_One]"
"""What a transfer can wait for: a stream or its address, an event, a transfer, or several of these."""


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """Which ACL library was chosen, and why."""

    path: str
    """File that was loaded; a bare library name when the dynamic loader does not tell the file."""

    simulated: bool
    """True for the simulator, whatever its path."""

    reason: str
    """One sentence: how it was found, and what was passed over."""

    requested: str
    """What NPU_XFER_LIBRARY or the caller asked for: "auto", "cann", "sim" or a path."""


@dataclass(frozen=True, slots=True)
class LaneStats:
    """One direction's transfers since the scheduler opened."""

    transfers: int = 0
    """Transfers that ended well."""

    nbytes: int = 0
    """Bytes that these moved."""

    failed: int = 0
    """Transfers that ended in an error."""

    direct: int = 0
    """Of `transfers`: DMA from or to the caller's page-locked memory."""

    staged: int = 0
    """Of `transfers`: through the staging pool."""

    sync: int = 0
    """Of `transfers`: ordinary memory by the runtime's synchronous copy, on a thread of the scheduler."""

    empty: int = 0
    """Of `transfers`: nothing to move, no runtime call."""

    copies: int = 0
    """ACL copies issued; a large transfer takes several."""

    reissued: int = 0
    """Of `copies`: repeated alone, to prove them after a copy beside them on the stream had failed."""


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of one scheduler. Fields are read one after another, not all at one instant."""

    h2d: LaneStats
    """Host to device."""

    d2h: LaneStats
    """Device to host."""

    pending: int
    """Transfers accepted and not done, both directions."""

    pinned_held_nbytes: int
    """Page-locked host memory held from the runtime, in bytes: staging, results, empty_pinned."""

    pinned_used_nbytes: int
    """Of that, bytes in use by transfers or by arrays that are still referenced."""

    device_held_nbytes: int
    """Device memory held from the runtime, in bytes."""

    device_used_nbytes: int
    """Of that, bytes in use by transfers or by device arrays that are still referenced."""

    library: str
    """Path of the ACL library."""

    simulated: bool
    """True when that library is the simulator: speeds then say nothing about an NPU."""
