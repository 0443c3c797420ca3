"""The typed control functions of the simulator, and the checks that every part of this package shares."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from npu_xfer._library import choose_library, located_library
from npu_xfer.errors import LibraryError

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from npu_xfer._cann.library import Library
    from npu_xfer._types import Direction

    DirectionLike: TypeAlias = Direction | Literal["h2d", "d2h", "d2d"]

__all__ = [
    "MAX_DEVICES",
    "CCounters",
    "CLink",
    "Control",
    "accept",
    "control",
    "device_number",
    "direction_number",
    "is_active",
]

_ABI = 1
MAX_DEVICES = 64
_NUMBER = {"h2d": 0, "d2h": 1, "d2d": 2}


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


class Control:
    """The typed aclsim functions of one library."""

    def __init__(self, library: Library) -> None:
        for name, row in _FUNCTIONS.items():
            function = getattr(library.handle, name)
            function.restype, function.argtypes = row[0], list(row[1])
            setattr(self, name.removeprefix("aclsim_"), function)

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
    if device < 0:
        raise ValueError(f"device must be None or at least 0, got {device}")
    return device


def accept(status: int, what: str) -> None:
    if status < 0:
        raise ValueError(f"the simulator refused {what}")
