"""Holds, device memory from outside, and what the simulator is: devices, profile, mode, clock, guards."""

from __future__ import annotations

import ctypes
import enum
import functools
import operator
from typing import TYPE_CHECKING

from npu_xfer.errors import XferError
from npu_xfer.sim._binding import (
    MAX_DEVICES,
    accept,
    control,
    device_number,
    direction_number,
    stream_handle,
    text,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal, TypeAlias

    from npu_xfer.sim._binding import DirectionLike

    Mode: TypeAlias = Literal["threads", "virtual", "adversarial"]

__all__ = [
    "MODES",
    "Hold",
    "hold_engine",
    "hold_stream",
    "mode",
    "now_ns",
    "peek",
    "pending_tasks",
    "poke",
    "profile",
    "release_engine",
    "release_stream",
    "set_device_count",
    "set_guards",
    "set_mode",
    "set_profile",
    "set_strict",
]

MODES: tuple[Mode, ...] = ("threads", "virtual", "adversarial")


# ---- holds ----


class Hold:
    """One hold, taken already. `release`, or the end of its with block, gives it back once."""

    def __init__(self, release: functools.partial[None]) -> None:
        self._release: functools.partial[None] | None = release

    @property
    def held(self) -> bool:
        """Whether it was not released yet through this object."""
        return self._release is not None

    def release(self) -> None:
        """Gives the hold back. A second time does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold_engine(device: int, direction: DirectionLike) -> Hold:
    """Stops the DMA engine of one direction: it starts no further copy, a running one ends.

    Holds nest by count, and are remembered for a device that is not set yet. Release through the result or
    by `release_engine`, not both.
    """
    status = control().hold_engine(device_number(device), direction_number(direction))
    accept(status, f"to hold the {direction} engine of device {device}")
    return Hold(functools.partial(release_engine, device, direction))


def release_engine(device: int, direction: DirectionLike) -> None:
    """Gives back one hold of an engine. Raises ValueError when it is not held."""
    status = control().release_engine(device_number(device), direction_number(direction))
    accept(status, f"to release the {direction} engine of device {device}")


def hold_stream(stream: int) -> Hold:
    """Stops one stream, given by its handle: it starts no further task. Holds nest by count."""
    accept(control().hold_stream(stream_handle(stream)), f"to hold stream {stream:#x}")
    return Hold(functools.partial(release_stream, stream))


def release_stream(stream: int) -> None:
    """Gives back one hold of a stream. Raises ValueError when it is not held."""
    accept(control().release_stream(stream_handle(stream)), f"to release stream {stream:#x}")


def pending_tasks(device: int = 0) -> int:
    """Tasks (copies, records, waits, fills) submitted to the device's streams and not finished."""
    count: int = control().pending_tasks(device_number(device))
    accept(count, f"to count the tasks of device {device}")
    return count


def set_device_count(count: int) -> None:
    """Sets the number of devices, 1 to 64. Raises XferError while a device is set."""
    if not 1 <= count <= MAX_DEVICES:
        raise ValueError(f"count must be from 1 to {MAX_DEVICES}, got {count}")
    if control().set_device_count(count) < 0:
        raise XferError(
            f"the simulator keeps its device count instead of {count}: a device is set",
            remedy="close every scheduler and reset every device first",
        )


class _Outside(enum.Enum):
    PEEK = "read"
    POKE = "written"


def _inside(status: int, what: _Outside, address: int, nbytes: int) -> None:
    if status < 0:
        raise ValueError(f"{nbytes} bytes at {address:#x} cannot be {what.value}: not one live device block")


def peek(address: int, nbytes: int) -> bytes:
    """Bytes of device memory, read outside of any stream."""
    if nbytes < 0:
        raise ValueError(f"nbytes must be 0 or more, got {nbytes}")
    out = ctypes.create_string_buffer(nbytes)
    _inside(control().peek(address, out, nbytes), _Outside.PEEK, address, nbytes)
    return out.raw


def poke(address: int, data: bytes | bytearray | memoryview) -> None:
    """Writes device memory outside of any stream."""
    raw = bytes(memoryview(data).cast("B"))  # of an int, bytes() would make as many zeros
    _inside(control().poke(address, raw, len(raw)), _Outside.POKE, address, len(raw))


# ---- what is simulated ----


def profile() -> str:
    """Chip, form and CANN release that the simulator plays, such as "a2-ep-9.1"."""
    name = ctypes.create_string_buffer(64)
    accept(control().get_profile(name, len(name)), "to name its profile")
    return name.value.decode()


def set_profile(name: str) -> None:
    """Chooses chip, form and CANN release; parts that are not named take their default.

    Raises XferError for a name that it does not know, while a device is set, and after acl's initialisation.
    """
    if control().set_profile(text(name, "the profile")) < 0:
        raise XferError(
            f"the simulator keeps profile {profile()} instead of {name!r}",
            remedy="choose a profile that exists, before the first scheduler, or by ACLSIM_PROFILE",
        )


def mode() -> Mode:
    """How queued work is executed: by threads, on a virtual clock, or as late and disordered as is legal."""
    number: int = control().get_mode()
    return MODES[number]


def set_mode(mode: Mode, *, seed: int = 0) -> None:
    """Chooses how queued work is executed. Raises XferError while a device is set, ValueError for no mode."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if not 0 <= operator.index(seed) < 1 << 64:
        raise ValueError(f"seed must be from 0 to 2**64 - 1, got {seed}")
    if control().set_mode(MODES.index(mode), seed) < 0:
        raise XferError(
            f"the simulator keeps its mode instead of {mode}: a device is set",
            remedy="close every scheduler and reset every device first, or set ACLSIM_MODE",
        )


def now_ns() -> int:
    """The calling thread's time on the simulator's clock in ns: virtual or monotonic, by mode."""
    time_ns: int = control().now_ns()
    return time_ns


def set_guards(on: bool | None) -> None:
    """Switches the checks of order and of freed memory, whose results are findings; None: by mode."""
    control().set_guards(-1 if on is None else int(bool(on)))


def set_strict(on: bool) -> None:
    """Makes a copy that is not aligned as documented an error instead of a finding."""
    control().set_strict(int(bool(on)))
