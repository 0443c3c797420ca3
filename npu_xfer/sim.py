"""Control of the simulator: hold its engines, model its link, make copies fail, look at what happened.

The functions act on the library that the settings choose (`NPU_XFER_LIBRARY`), which is the same instance
that schedulers of this process use. Each raises LibraryError when that library is not the simulator;
`is_active` asks without raising. All may be called from any thread and none waits for simulated work.

A device of None means all devices, also those set later.
"""

from __future__ import annotations

import ctypes
import enum
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from npu_xfer._library import choose_library, located_library
from npu_xfer.errors import LibraryError, XferError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal, TypeAlias

    from npu_xfer._cann.library import Library
    from npu_xfer._types import Direction

    DirectionLike: TypeAlias = Direction | Literal["h2d", "d2h", "d2d"]

__all__ = [
    "Counters",
    "Hold",
    "Link",
    "LinkChange",
    "call_count",
    "clear_faults",
    "counters",
    "fail_call",
    "fail_copy",
    "get_link",
    "hold_engine",
    "hold_stream",
    "is_active",
    "peek",
    "pending_tasks",
    "poke",
    "release_engine",
    "release_stream",
    "reset_counters",
    "set_device_count",
    "set_link",
]

_ABI = 1
_MAX_DEVICES = 64
_NUMBER = {"h2d": 0, "d2h": 1, "d2d": 2}


class _Link(ctypes.Structure):
    _fields_ = [
        ("h2d_bytes_per_s", ctypes.c_uint64),
        ("d2h_bytes_per_s", ctypes.c_uint64),
        ("d2d_bytes_per_s", ctypes.c_uint64),
        ("latency_ns", ctypes.c_uint64),
        ("submit_ns", ctypes.c_uint64),
        ("move_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class _Counters(ctypes.Structure):
    _fields_ = [
        ("copies", ctypes.c_uint64 * 3),
        ("bytes", ctypes.c_uint64 * 3),
        ("failed_copies", ctypes.c_uint64),
        ("pageable_copies", ctypes.c_uint64),
        ("unaligned_copies", ctypes.c_uint64),
        ("live_streams", ctypes.c_uint64),
        ("live_events", ctypes.c_uint64),
        ("live_device_blocks", ctypes.c_uint64),
        ("live_device_bytes", ctypes.c_uint64),
        ("live_pinned_blocks", ctypes.c_uint64),
        ("live_pinned_bytes", ctypes.c_uint64),
    ]


# name -> (result, parameters), as in native/sim/aclsim.h
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "aclsim_abi": (ctypes.c_int, ()),
    "aclsim_set_device_count": (ctypes.c_int, (ctypes.c_uint32,)),
    "aclsim_set_link": (ctypes.c_int, (ctypes.c_int32, ctypes.POINTER(_Link))),
    "aclsim_get_link": (ctypes.c_int, (ctypes.c_int32, ctypes.POINTER(_Link))),
    "aclsim_hold_engine": (ctypes.c_int, (ctypes.c_int32, ctypes.c_int)),
    "aclsim_release_engine": (ctypes.c_int, (ctypes.c_int32, ctypes.c_int)),
    "aclsim_hold_stream": (ctypes.c_int, (ctypes.c_void_p,)),
    "aclsim_release_stream": (ctypes.c_int, (ctypes.c_void_p,)),
    "aclsim_pending_tasks": (ctypes.c_int64, (ctypes.c_int32,)),
    "aclsim_fail_copy": (
        ctypes.c_int64,
        (ctypes.c_int32, ctypes.c_int, ctypes.c_uint64, ctypes.c_int32),
    ),
    "aclsim_fail_call": (ctypes.c_int64, (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32)),
    "aclsim_clear_faults": (ctypes.c_int64, ()),
    "aclsim_call_count": (ctypes.c_int64, (ctypes.c_char_p, ctypes.c_uint64)),
    "aclsim_counters": (None, (ctypes.POINTER(_Counters),)),
    "aclsim_reset_counters": (None, ()),
    "aclsim_peek": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    "aclsim_poke": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
}


class _Control:
    """The typed aclsim functions of one library."""

    def __init__(self, library: Library) -> None:
        for name, (restype, argtypes) in _FUNCTIONS.items():
            function = getattr(library.handle, name)
            function.restype = restype
            function.argtypes = list(argtypes)
            setattr(self, name.removeprefix("aclsim_"), function)

    def __getattr__(self, name: str) -> Any:  # for the type checker: set in __init__
        raise AttributeError(name)


@functools.lru_cache(maxsize=4)
def _bind(library: Library) -> _Control:
    if not library.simulated:
        info = choose_library()
        raise LibraryError(
            f"the loaded ACL library is not the simulator: {info.path} ({info.reason})",
            remedy="set NPU_XFER_LIBRARY=sim before the process starts",
        )
    try:
        control = _Control(library)
    except AttributeError as error:
        raise LibraryError(
            f"the simulator {library.path} lacks a control function: {error}", remedy="install npu-xfer again"
        ) from None
    abi = control.abi()
    if abi != _ABI:
        raise LibraryError(
            f"the simulator {library.path} has control interface {abi}, this package needs {_ABI}",
            remedy="install npu-xfer again, so that both come from one build",
        )
    return control


def _control() -> _Control:
    return _bind(located_library().library)


def is_active() -> bool:
    """Whether the chosen library is the simulator. Raises LibraryError when there is no library at all."""
    return choose_library().simulated


def _direction_number(direction: DirectionLike) -> int:
    number = _NUMBER.get(str(direction))
    if number is None:
        raise ValueError(f"direction must be one of h2d, d2h, d2d, got {direction!r}")
    return number


def _device_number(device: int | None) -> int:
    if device is None:
        return -1
    if device < 0:
        raise ValueError(f"device must be None or at least 0, got {device}")
    return device


def _accept(status: int, what: str) -> None:
    if status < 0:
        raise ValueError(f"the simulator refused {what}")


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
    status = _control().hold_engine(_device_number(device), _direction_number(direction))
    _accept(status, f"to hold the {direction} engine of device {device}")
    return Hold(functools.partial(release_engine, device, direction))


def release_engine(device: int, direction: DirectionLike) -> None:
    """Gives back one hold of an engine. Raises ValueError when it is not held."""
    status = _control().release_engine(_device_number(device), _direction_number(direction))
    _accept(status, f"to release the {direction} engine of device {device}")


def hold_stream(stream: int) -> Hold:
    """Stops one stream, given by its handle: it starts no further task. Holds nest by count."""
    _accept(_control().hold_stream(stream), f"to hold stream {stream:#x}")
    return Hold(functools.partial(release_stream, stream))


def release_stream(stream: int) -> None:
    """Gives back one hold of a stream. Raises ValueError when it is not held."""
    _accept(_control().release_stream(stream), f"to release stream {stream:#x}")


def pending_tasks(device: int = 0) -> int:
    """Tasks (copies, records, waits, fills) submitted to the device's streams and not finished."""
    count: int = _control().pending_tasks(_device_number(device))
    _accept(count, f"to count the tasks of device {device}")
    return count


# ---- the link ----


@dataclass(frozen=True, slots=True)
class Link:
    """How fast a simulated device is. The default takes no time at all."""

    h2d_bytes_per_s: int = 0
    """Host to device, in bytes per second; 0 for no time."""

    d2h_bytes_per_s: int = 0
    """Device to host, in bytes per second; 0 for no time."""

    d2d_bytes_per_s: int = 0
    """Inside the device, in bytes per second; 0 for no time."""

    latency_ns: int = 0
    """Added to each copy, on the engine."""

    submit_ns: int = 0
    """Time that the submitting thread spends in each asynchronous call."""

    move_bytes: bool = True
    """False takes the time and moves nothing, for measurements only."""


def _to_c(link: Link) -> _Link:
    for field in ("h2d_bytes_per_s", "d2h_bytes_per_s", "d2d_bytes_per_s", "latency_ns", "submit_ns"):
        if not 0 <= getattr(link, field) < 2**64:
            raise ValueError(f"{field} must be from 0 to 2**64 - 1, got {getattr(link, field)}")
    return _Link(
        h2d_bytes_per_s=link.h2d_bytes_per_s,
        d2h_bytes_per_s=link.d2h_bytes_per_s,
        d2d_bytes_per_s=link.d2d_bytes_per_s,
        latency_ns=link.latency_ns,
        submit_ns=link.submit_ns,
        move_bytes=int(link.move_bytes),
    )


def _get_link(device: int) -> Link | None:
    found = _Link()
    if _control().get_link(device, ctypes.byref(found)) < 0:
        return None
    return Link(
        found.h2d_bytes_per_s,
        found.d2h_bytes_per_s,
        found.d2d_bytes_per_s,
        found.latency_ns,
        found.submit_ns,
        bool(found.move_bytes),
    )


def get_link(device: int = 0) -> Link:
    """The link of one device. Raises ValueError for a device that does not exist."""
    link = _get_link(_device_number(device))
    if link is None:
        raise ValueError(f"the simulator has no device {device}")
    return link


class LinkChange:
    """A link that was set already. `restore`, or the end of its with block, brings the earlier one back."""

    def __init__(self, link: Link, before: dict[int, Link]) -> None:
        self.link = link
        self._before: dict[int, Link] | None = before

    def restore(self) -> None:
        """Brings back the links as they were. A second time does nothing."""
        before, self._before = self._before, None
        for device, link in (before or {}).items():
            _accept(_control().set_link(device, ctypes.byref(_to_c(link))), f"the link of device {device}")

    def __enter__(self) -> Link:
        return self.link

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()


def set_link(
    link: Link | None = None,
    *,
    device: int | None = None,
    h2d_bytes_per_s: int | None = None,
    d2h_bytes_per_s: int | None = None,
    d2d_bytes_per_s: int | None = None,
    latency_ns: int | None = None,
    submit_ns: int | None = None,
    move_bytes: bool | None = None,
) -> LinkChange:
    """Sets how fast devices are, from now on; copies that run already keep their time.

    `link` None starts from the present link (of device 0 for all devices); each named value replaces a field.
    The result may be used in a with statement, which restores the earlier links at its end.
    """
    number = _device_number(device)
    base = link if link is not None else get_link(device or 0)
    named = {
        "h2d_bytes_per_s": h2d_bytes_per_s,
        "d2h_bytes_per_s": d2h_bytes_per_s,
        "d2d_bytes_per_s": d2d_bytes_per_s,
        "latency_ns": latency_ns,
        "submit_ns": submit_ns,
        "move_bytes": move_bytes,
    }
    changes: dict[str, Any] = {field: value for field, value in named.items() if value is not None}
    wanted = replace(base, **changes)
    before: dict[int, Link] = {}
    if device is None:
        # First the one for all, which also serves devices that come later, then each device's own.
        before[-1] = get_link(0)
        for each in range(_MAX_DEVICES):
            found = _get_link(each)
            if found is None:
                break
            before[each] = found
    else:
        before[device] = get_link(device)
    _accept(_control().set_link(number, ctypes.byref(_to_c(wanted))), f"the link of device {device}")
    return LinkChange(wanted, before)


# ---- faults ----


def fail_copy(
    code: int, *, direction: DirectionLike | None = None, device: int | None = None, nth: int = 1
) -> int:
    """Makes the nth copy (1: the next) that starts executing fail with an aclError; returns the fault's id.

    It moves no byte, its stream goes on, and the next synchronisation of the stream returns the code once.
    None as direction or device stands for any. Each fault fires once.
    """
    if nth < 1:
        raise ValueError(f"nth must be at least 1, got {nth}")
    number = -1 if direction is None else _direction_number(direction)
    fault: int = _control().fail_copy(_device_number(device), number, nth, code)
    _accept(fault, f"a fault for copies with direction {direction} and device {device}")
    return fault


def fail_call(name: str, code: int, *, nth: int = 1) -> int:
    """Makes the nth call (1: the next) of an ACL function return `code` and do nothing else; returns the
    fault's id. Raises ValueError for a name that is no ACL function."""
    if nth < 1:
        raise ValueError(f"nth must be at least 1, got {nth}")
    fault: int = _control().fail_call(name.encode(), nth, code)
    _accept(fault, f"a fault for {name}, which it does not know")
    return fault


def clear_faults() -> int:
    """Disarms every fault that has not fired; returns how many these were."""
    count: int = _control().clear_faults()
    return count


# ---- looking ----


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
    raw = _Counters()
    _control().counters(ctypes.byref(raw))
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
    _control().reset_counters()


def call_count(name: str, tid: int = 0) -> int:
    """Calls of one ACL function by a thread's kernel id (threading.get_native_id), or by all for 0.

    Raises ValueError for a name that is no ACL function.
    """
    count: int = _control().call_count(name.encode(), tid)
    _accept(count, f"to count calls of {name}, which it does not know")
    return count


def set_device_count(count: int) -> None:
    """Sets the number of devices, 1 to 64. Raises XferError while a device is set."""
    if not 1 <= count <= _MAX_DEVICES:
        raise ValueError(f"count must be from 1 to {_MAX_DEVICES}, got {count}")
    if _control().set_device_count(count) < 0:
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
    out = ctypes.create_string_buffer(nbytes)
    _inside(_control().peek(address, out, nbytes), _Outside.PEEK, address, nbytes)
    return out.raw


def poke(address: int, data: bytes | bytearray | memoryview) -> None:
    """Writes device memory outside of any stream."""
    raw = bytes(data)
    _inside(_control().poke(address, raw, len(raw)), _Outside.POKE, address, len(raw))
