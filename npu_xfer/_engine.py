"""One open native engine: opening, errors, host memory, statistics, closing.

Threads: any; the engine locks for itself. Opening and closing block, so event loops do them on a worker.
"""

from __future__ import annotations

import atexit
import errno
import logging
import math
import operator
import os
import sys
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer import _native
from npu_xfer._cann.codes import acl_error, transfer_error
from npu_xfer._library import choose_library
from npu_xfer._settings import PAGEABLE_PATHS, default_stagers
from npu_xfer._tuning import tuned
from npu_xfer._types import LaneStats, Stats
from npu_xfer.errors import (
    ClosedError,
    EngineDead,
    ForkedProcessError,
    InvalidTransfer,
    LibraryError,
    TransferTimeout,
    TransferWarning,
    TransferWithdrawn,
    WouldBlock,
    XferError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import SupportsIndex

    from numpy.typing import DTypeLike, NDArray

    from npu_xfer._settings import Settings
    from npu_xfer.device_array import ArrayOnDevice

__all__ = ["Core", "extents_of"]

_log = logging.getLogger("npu_xfer")

_EXIT_CLOSE_S = 5.0
_GROUP_NBYTES = 1 << 20  # of small results that share memory
_POOLED_RESULT_NBYTES = 256 << 10  # below this numpy's own allocation is faster and already warm


def _make_error(
    status: int,
    acl_code: int,
    call: str,
    text: str,
    direction: str | None,
    nbytes: int,
    stream: int,
    device: int,
) -> XferError:
    """The native layer's error as an exception; the native layer calls this, for every error it has."""
    if status == -errno.ECHILD:
        return ForkedProcessError("device", pid=os.getpid())
    if status == -errno.ESHUTDOWN:
        return ClosedError("the scheduler is closed" if direction is None else text)
    if status == -errno.EAGAIN:
        return WouldBlock(text)
    if status == -errno.ETIME and direction is not None:  # acl_code: the age in milliseconds; see deadline.c
        return TransferTimeout(
            direction=direction,
            nbytes=nbytes,
            device=device,
            stream=stream if stream >= 0 else None,
            age_s=acl_code / 1000,
            waited_for=text,
            in_flight=call == "device",
        )
    if status == -errno.ECANCELED and direction is not None:
        return TransferWithdrawn(direction=direction, nbytes=nbytes, device=device)
    if status == -errno.EOWNERDEAD:
        return EngineDead(acl_error(call, acl_code, text) if acl_code else text)
    if status == -errno.EIO and direction is not None:
        return transfer_error(
            call,
            acl_code,
            text or None,
            direction=direction,
            nbytes=nbytes,
            device=device,
            stream=stream if stream >= 0 else None,
        )
    if status == -errno.EIO:
        return acl_error(call, acl_code, text or None)
    if status in (-errno.ENOENT, -errno.ENOSYS):
        return LibraryError(text, remedy="see `npu-xfer info` for which library is chosen and why")
    if status == -errno.EXDEV:
        return InvalidTransfer(text, remedy="use the scheduler that made the array")
    if status == -errno.ENODEV:
        return InvalidTransfer(
            text,
            remedy="pick a device that `npu-xfer info` lists; ASCEND_RT_VISIBLE_DEVICES hides some from CANN",
        )
    return XferError(f"{call}: {text} ({errno.errorcode.get(-status, status)})")


_native.set_error_factory(_make_error)


class Core:
    """An engine on one device and the library that it runs on."""

    def __init__(self, device: int, settings: Settings) -> None:
        """Opens the device. Blocks; raises LibraryError, AclError or InvalidTransfer.

        On failure nothing stays open. The calling thread's ACL device and context are not touched.
        """
        self.device = device
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self.library = choose_library(settings)
        settings, self.tuning = tuned(settings)
        self.settings = settings
        self.native = _native.Engine(
            self.library.path,
            device,
            settings.staging_bytes,
            settings.chunk_bytes,
            settings.inline_bytes,
            settings.result_cache,
            settings.n_lanes,
            settings.n_stagers or default_stagers(),
            settings.spin_us * 1000,
            PAGEABLE_PATHS.index(settings.pageable_path),
            settings.window_transfers,
            settings.window_bytes,
        )
        _say_simulated(self)
        _open_cores.add(self)

    def empty_pinned(self, shape: int | Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """An uninitialised numpy array in page-locked memory; the memory returns with its last view."""
        extents = extents_of(shape)
        element = np.dtype(dtype)
        if element.hasobject:
            raise InvalidTransfer(
                f"dtype {element} holds Python objects; page-locked memory holds plain bytes"
            )
        nbytes = math.prod(extents) * element.itemsize
        if nbytes == 0 or nbytes > sys.maxsize or any(extent < 0 for extent in extents):
            return np.empty(
                extents, element
            )  # numpy refuses negative and impossible extents in its own words
        return _array_over(self.native.pinned(nbytes), extents, element)

    def empty_result(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> NDArray[Any]:
        """An uninitialised array for a result, in recycled memory when it is large."""
        if nbytes < _POOLED_RESULT_NBYTES:
            return np.empty(shape, dtype)
        return _array_over(self.native.result(nbytes), shape, dtype)

    def empty_results(self, arrays: Sequence[ArrayOnDevice]) -> list[NDArray[Any]]:
        """An uninitialised array for each; small ones share recycled memory, a group of up to 1 MiB each.

        (Fresh memory costs a page fault for every 4 KiB.) One that is kept keeps the memory of its group.
        """
        results: list[Any] = []
        group: list[ArrayOnDevice] = []
        room = 0
        for array in arrays:
            nbytes = array.nbytes
            if nbytes >= _POOLED_RESULT_NBYTES:
                self._share(group, room, results)
                group, room = [], 0
                results.append(_array_over(self.native.result(nbytes), array.shape, array.dtype))
                continue
            if room + nbytes > _GROUP_NBYTES:
                self._share(group, room, results)
                group, room = [], 0
            group.append(array)
            room += (nbytes + 63) & ~63
        self._share(group, room, results)
        return results

    def _share(self, group: list[ArrayOnDevice], room: int, results: list[Any]) -> None:
        """Appends a result for each of the group to `results`."""
        if room < _POOLED_RESULT_NBYTES:
            results.extend(np.empty(array.shape, array.dtype) for array in group)
            return
        block = self.native.result(room)
        offset = 0
        for array in group:
            results.append(np.ndarray(array.shape, array.dtype, buffer=block, offset=offset))  # type: ignore[arg-type]  # the stubs do not know the buffer protocol
            offset += (array.nbytes + 63) & ~63

    def stats(self) -> Stats:
        """The counters now; after close, as they were when the last transfer had ended."""
        raw = self.native.stats()
        pools = [raw["pinned"], raw["staging_h2d"], raw["staging_d2h"]]
        return Stats(
            h2d=_lane_stats(raw["h2d"]),
            d2h=_lane_stats(raw["d2h"]),
            d2d=LaneStats(transfers=raw["h2d"]["on_device_transfers"], nbytes=raw["h2d"]["on_device_nbytes"]),
            pending=raw["pending"],
            pinned_held_nbytes=sum(held for held, *_ in pools),
            pinned_used_nbytes=sum(used for _, used, *_ in pools),
            device_held_nbytes=raw["device"][0],
            device_used_nbytes=raw["device"][1],
            library=self.library.path,
            simulated=self.library.simulated,
        )

    def close(self, timeout_s: float) -> int:
        """Drains for at most timeout_s and tears everything down; returns how many transfers had no end.

        Blocks. A second call does nothing. What could not be torn down is reported as TransferWarning.
        """
        if self._pid != os.getpid():
            return 0  # a child of fork: nothing of it is here, and the lock may be held for ever
        with self._closing:  # a second close returns when the first has ended, not before
            _open_cores.discard(self)
            if self.native.closed:
                return 0
            abandoned, _, n_stuck, code, call = self.native.close(timeout_s)
        if n_stuck:
            warnings.warn(
                f"device {self.device}: {abandoned} transfers had no end {timeout_s:g} s after close; "
                f"{n_stuck} streams are stuck, their memory is kept until the process ends",
                TransferWarning,
                stacklevel=2,
            )
        if code:
            warnings.warn(
                f"device {self.device}: closing went on after {acl_error(call, code)}",
                TransferWarning,
                stacklevel=2,
            )
        return abandoned


def extents_of(shape: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    """A shape as numpy takes it: whole numbers, of any integer type, and nothing that would be rounded."""
    try:
        return (operator.index(shape),)  # type: ignore[arg-type]  # a sequence raises TypeError
    except TypeError:
        return tuple(operator.index(extent) for extent in shape)  # type: ignore[union-attr]  # no index: a sequence


def _array_over(block: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A view of a Block, which it keeps alive. (numpy's stubs do not know the buffer protocol.)"""
    array: NDArray[Any] = np.ndarray(shape, dtype, buffer=block)
    return array


def _lane_stats(raw: dict[str, int]) -> LaneStats:
    return LaneStats(
        transfers=raw["direct_transfers"]
        + raw["staged_transfers"]
        + raw["sync_transfers"]
        + raw["empty_transfers"],
        nbytes=raw["direct_nbytes"] + raw["staged_nbytes"] + raw["sync_nbytes"],
        failed=raw["failed"],
        withdrawn=raw["withdrawn"],
        direct=raw["direct_transfers"],
        staged=raw["staged_transfers"],
        sync=raw["sync_transfers"],
        empty=raw["empty_transfers"],
        copies=raw["copies"],
        reissued=raw["reissued"],
    )


_open_cores: weakref.WeakSet[Core] = weakref.WeakSet()
_said_simulated = False


def open_cores() -> list[Core]:
    """The engines of this process that are open."""
    return list(_open_cores)


def _say_simulated(core: Core) -> None:
    """Once a process, and only when nobody asked for the simulator by name."""
    global _said_simulated
    if core.library.simulated and core.library.requested == "auto" and not _said_simulated:
        _said_simulated = True
        _log.warning("npu_xfer runs on its simulator, not on an NPU: %s", core.library.reason)


@atexit.register
def _close_at_exit() -> None:
    for core in list(_open_cores):
        if core.native.closed:
            continue
        try:
            core.close(_EXIT_CLOSE_S)
        finally:  # also where warnings are errors; the next core then gets its turn in __del__
            warnings.warn(
                f"a scheduler on device {core.device} was never closed; use `with` or call close",
                TransferWarning,
                stacklevel=1,
            )
