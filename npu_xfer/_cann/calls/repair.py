"""Faults of a device: what is wrong, and repairing it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_xfer._cann.calls.base import Calls
from npu_xfer._cann.structs import ErrorInfo, MemUceInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BadRange", "RepairCalls"]

_N_RANGES = 20  # as many as an ErrorInfo holds


@dataclass(frozen=True, slots=True)
class BadRange:
    """Device memory with an uncorrectable error."""

    address: int
    nbytes: int


class RepairCalls(Calls):
    """After codes 507053 to 507057: ask, abort the device's tasks, repair (CANN 9.1 docs, chapter 13)."""

    def error_verbose(self, device: int) -> ErrorInfo:
        """What is wrong with the device; `errorType` is an `ErrorType`. `repair_error` takes it back."""
        info = ErrorInfo()
        self._call("aclrtGetErrorVerbose", device, ctypes.byref(info))
        return info

    def repair_error(self, device: int, info: ErrorInfo) -> None:
        """Repairs what `error_verbose` told, after `abort_device_tasks`."""
        self._call("aclrtRepairError", device, ctypes.byref(info))

    def bad_memory(self, device: int) -> list[BadRange]:
        """Ranges of device memory with an uncorrectable error, at most 20."""
        rows, found = (MemUceInfo * _N_RANGES)(), ctypes.c_size_t()
        self._call("aclrtGetMemUceInfo", device, rows, _N_RANGES, ctypes.byref(found))
        return [BadRange(row.addr or 0, row.len) for row in rows[: min(found.value, _N_RANGES)]]

    def repair_memory(self, device: int, ranges: Sequence[BadRange]) -> None:
        """Repairs such ranges, after `abort_device_tasks`. Their content is lost."""
        rows = (MemUceInfo * len(ranges))(*(MemUceInfo(one.address, one.nbytes) for one in ranges))
        self._call("aclrtMemUceRepair", device, rows, len(ranges))
