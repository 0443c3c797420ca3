"""The typed control functions of the simulator, and the checks that every part of this package shares."""

from __future__ import annotations

import ctypes
import functools
import operator
from typing import TYPE_CHECKING, Any

from npu_xfer._library import choose_library, located_library
from npu_xfer.errors import LibraryError

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from npu_xfer._cann.library import Library
    from npu_xfer._types import Direction

    DirectionLike: TypeAlias = Direction | Literal["h2d", "d2h", "d2d"]

__all__ = [
    "DIRECTIONS",
    "MAX_DEVICES",
    "CCounters",
    "CLink",
    "Control",
    "accept",
    "control",
    "device_number",
    "direction_number",
    "is_active",
    "stream_handle",
    "text",
]

_ABI = 1
MAX_DEVICES = 64
DIRECTIONS = ("h2d", "d2h", "d2d")  # in the order of aclsim.h
_NUMBER = {name: number for number, name in enumerate(DIRECTIONS)}


class CLink(ctypes.Structure):
    _fields_ = [
        ("h2d_bytes_per_s", ctypes.c_uint64),
        ("d2h_bytes_per_s", ctypes.c_uint64),
        ("d2d_bytes_per_s", ctypes.c_uint64),
        ("latency_ns", ctypes.c_uint64),
        ("submit_ns", ctypes.c_uint64),
        ("move_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class CCounters(ctypes.Structure):
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
    "aclsim_set_link": (ctypes.c_int, (ctypes.c_int32, ctypes.POINTER(CLink))),
    "aclsim_get_link": (ctypes.c_int, (ctypes.c_int32, ctypes.POINTER(CLink))),
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
    "aclsim_add_fault": (ctypes.c_int64, (ctypes.c_char_p,)),
    "aclsim_fault_error": (ctypes.c_char_p, ()),
    "aclsim_remove_fault": (ctypes.c_int, (ctypes.c_int64,)),
    "aclsim_faults_fired": (ctypes.c_int64, (ctypes.c_int64,)),
    "aclsim_finding_count": (ctypes.c_int64, (ctypes.c_char_p,)),
    "aclsim_finding_text": (
        ctypes.c_int,
        (ctypes.c_char_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t),
    ),
    "aclsim_clear_findings": (None, ()),
    "aclsim_set_site": (None, (ctypes.c_char_p,)),
    "aclsim_write_report": (ctypes.c_int, (ctypes.c_char_p,)),
    "aclsim_call_count": (ctypes.c_int64, (ctypes.c_char_p, ctypes.c_uint64)),
    "aclsim_counters": (None, (ctypes.POINTER(CCounters),)),
    "aclsim_reset_counters": (None, ()),
    "aclsim_peek": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    "aclsim_poke": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    "aclsim_set_profile": (ctypes.c_int, (ctypes.c_char_p,)),
    "aclsim_get_profile": (ctypes.c_int, (ctypes.c_char_p, ctypes.c_size_t)),
    "aclsim_set_mode": (ctypes.c_int, (ctypes.c_int, ctypes.c_uint64)),
    "aclsim_get_mode": (ctypes.c_int, ()),
    "aclsim_now_ns": (ctypes.c_uint64, ()),
    "aclsim_set_guards": (ctypes.c_int, (ctypes.c_int,)),
    "aclsim_set_strict": (None, (ctypes.c_int,)),
}


def _number_range(kind: Any) -> range | None:
    """What a whole number or an address may be; None for other parameters."""
    if getattr(kind, "_type_", None) not in _WHOLE:
        return None
    n_bits = 8 * ctypes.sizeof(kind)
    signed = kind(-1).value == -1
    return range(-(1 << (n_bits - 1)), 1 << (n_bits - 1)) if signed else range(1 << n_bits)


_WHOLE = frozenset("iIlLqQP")  # ctypes' letters


def _fitting(value: Any, accepted: range | None) -> Any:
    """ctypes alone cuts a number that does not fit: device 2**32 would be device 0."""
    if accepted is None or isinstance(value, ctypes.Array | bytes):  # memory of Python's for an address
        return value
    number = operator.index(value)
    if number not in accepted:
        raise OverflowError(f"{number} is not from {accepted.start} to {accepted.stop - 1}")
    return number


def _checked(library: Library, name: str, restype: Any, argtypes: tuple[Any, ...]) -> Any:
    function = getattr(library.handle, name)
    function.restype, function.argtypes = restype, list(argtypes)
    ranges = [_number_range(kind) for kind in argtypes]

    def checked(*arguments: Any) -> Any:
        return function(*map(_fitting, arguments, ranges))

    return checked


def text(value: str, what: str) -> bytes:
    """A text as C takes it; a NUL would end it early."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, got {value!r}")
    if "\0" in value:
        raise ValueError(f"{what} {value!r} has a NUL in it")
    return value.encode(errors="surrogateescape")  # as a path may have it


class Control:
    """The typed aclsim functions of one library."""

    def __init__(self, library: Library) -> None:
        for name, row in _FUNCTIONS.items():
            setattr(self, name.removeprefix("aclsim_"), _checked(library, name, *row))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@functools.lru_cache(maxsize=4)
def _bind(library: Library) -> Control:
    if not library.simulated:
        info = choose_library()
        raise LibraryError(
            f"the loaded ACL library is not the simulator: {info.path} ({info.reason})",
            remedy="set NPU_XFER_LIBRARY=sim before the process starts",
        )
    try:
        found = Control(library)
    except AttributeError as error:
        raise LibraryError(
            f"the simulator {library.path} lacks a control function: {error}", remedy="install npu-xfer again"
        ) from None
    abi = found.abi()
    if abi != _ABI:
        raise LibraryError(
            f"the simulator {library.path} has control interface {abi}, this package needs {_ABI}",
            remedy="install npu-xfer again, so that both come from one build",
        )
    return found


def control() -> Control:
    return _bind(located_library().library)


def is_active() -> bool:
    """Whether the chosen library is the simulator. Raises LibraryError when there is no library at all."""
    return choose_library().simulated


def direction_number(direction: DirectionLike) -> int:
    number = _NUMBER.get(str(direction))
    if number is None:
        raise ValueError(f"direction must be one of h2d, d2h, d2d, got {direction!r}")
    return number


def device_number(device: int | None) -> int:
    if device is None:
        return -1
    if not 0 <= device < MAX_DEVICES:
        raise ValueError(f"device must be None or from 0 to {MAX_DEVICES - 1}, got {device}")
    return device


def stream_handle(stream: int) -> int:
    """A handle as a pyACL or npu_xfer call gives it; 0 would be no stream."""
    handle = operator.index(stream)
    if handle == 0:
        raise ValueError("stream must be the handle of a stream, got 0")
    return handle


def accept(status: int, what: str) -> None:
    if status < 0:
        raise ValueError(f"the simulator refused {what}")
