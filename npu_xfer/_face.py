"""What the asynchronous and the blocking scheduler share: preparing requests and finishing them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from npu_xfer._batch import unflatten
from npu_xfer._buffers import as_destination, as_source, exportable
from npu_xfer._engine import Core
from npu_xfer._settings import settings as environment_settings
from npu_xfer.device_array import ArrayOnDevice
from npu_xfer.errors import BatchError, ClosedError, InvalidTransfer, UnsupportedDType, XferError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from npu_xfer import _native
    from npu_xfer._settings import Settings
    from npu_xfer._types import LibraryInfo, Stats
    from npu_xfer.transfer import Handle

__all__ = ["Face"]

H2D, D2H = 0, 1
CLOSE_TIMEOUT_S = 60.0

A = TypeVar("A", bound=ArrayOnDevice)


class Face(Generic[A]):
    """A scheduler without its way of waiting. `_array_type` is the device array it makes."""

    _array_type: type[A]

    def __init__(
        self,
        device: int = 0,
        *,
        library: str | None = None,
        staging_bytes: int | None = None,
        chunk_bytes: int | None = None,
        inline_bytes: int | None = None,
        n_lanes: int | None = None,
        result_cache: int | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
    ) -> None:
        """Describes a scheduler; it is opened by ``with`` or ``async with``.

        Args:
            device: number of the device, counted among those that this process sees.
            library: "auto", "cann", "sim" or a path, instead of NPU_XFER_LIBRARY.
            staging_bytes: cap of page-locked staging memory, in bytes for each direction.
            chunk_bytes: largest piece of a pageable array that is copied at once, in bytes.
            inline_bytes: arrays up to this many bytes are captured by the submitting call itself.
            n_lanes: streams, each with a thread, for each direction.
            result_cache: idle result memory kept for reuse, in bytes.
            close_timeout_s: how long closing waits for transfers under way, in seconds.
        """
        given: dict[str, Any] = {
            "library": library,
            "staging_bytes": staging_bytes,
            "chunk_bytes": chunk_bytes,
            "inline_bytes": inline_bytes,
            "n_lanes": n_lanes,
            "result_cache": result_cache,
        }
        self._device = device
        self._given = {name: value for name, value in given.items() if value is not None}
        self._close_timeout_s = close_timeout_s
        self._core: Core | None = None

    def _open_core(self) -> None:
        """Blocks while the device is set up."""
        if self._core is not None:
            raise XferError("this scheduler was opened before; make a new one")
        self._core = Core(self._device, self._resolve_settings())

    def _resolve_settings(self) -> Settings:
        return dataclasses.replace(environment_settings(), **self._given)

    def _opened(self) -> Core:
        if self._core is None:
            raise ClosedError(
                f"this {type(self).__name__} is not open yet",
                remedy=f"use it as a context manager: with {type(self).__name__}(...) as xfer",
            )
        return self._core

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._device

    @property
    def library(self) -> LibraryInfo:
        """Which ACL library this scheduler runs on, whether it is the simulator, and why it was chosen."""
        return self._opened().library

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core is not None and self._core.native.closed

    def empty_pinned(self, shape: int | Sequence[int], dtype: DTypeLike = float) -> NDArray[Any]:
        """An uninitialised numpy array in page-locked memory.

        Copies from and to it are direct: no staging, no host copy. A transfer borrows it: its bytes must not
        change until the transfer is done. The memory goes back to the pool when the last view of it dies; it
        stays valid after the scheduler is closed. Blocks while the runtime allocates.

        Raises ResourceError when the runtime has no page-locked memory left.
        """
        return self._opened().empty_pinned(shape, dtype)

    def stats(self) -> Stats:
        """A frozen snapshot of counters and memory; after close, the last one."""
        return self._opened().stats()

    def __repr__(self) -> str:
        if self._core is None:
            return f"<{type(self).__name__} device={self._device} not open>"
        state = "closed" if self.closed else "open"
        kind = "SIMULATED " if self._core.library.simulated else ""
        return f"<{type(self).__name__} device={self._device} {state} on {kind}{self._core.library.path}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} owns a device and threads and cannot be pickled; "
            "open one in each process, with the spawn start method"
        )

    # Requests: check, describe to the engine, hand over. -----------------------------------------------

    def _device_target(self, out: object, source: NDArray[Any]) -> _native.Block | None:
        if not isinstance(out, ArrayOnDevice):
            raise InvalidTransfer(
                f"out is a {type(out).__qualname__}, a device array is needed for a copy to the device",
                direction="h2d",
                nbytes=source.nbytes,
            )
        if out.shape != source.shape or out.dtype != source.dtype:
            raise InvalidTransfer(
                f"the source has shape {source.shape} and dtype {source.dtype}, "
                f"out has shape {out.shape} and dtype {out.dtype}",
                direction="h2d",
                nbytes=source.nbytes,
                remedy="give both the same shape and dtype; a copy converts nothing",
            )
        return self._device_block(out)

    def _device_block(self, array: object) -> _native.Block | None:
        """The memory of a device array that this scheduler can reach; None when it has no bytes."""
        if not isinstance(array, ArrayOnDevice):
            raise InvalidTransfer(
                f"a {type(array).__qualname__} was given, a device array is needed",
                direction="d2h",
                remedy="to_host takes what to_device returned",
            )
        if array.device != self._device:
            raise InvalidTransfer(
                f"the array is on device {array.device}, this scheduler copies for device {self._device}",
                remedy=f"use the scheduler of device {array.device}",
            )
        if array._owner is not self:
            raise InvalidTransfer(
                f"the array belongs to another scheduler of device {array.device}, which keeps its order",
                remedy="use the scheduler that made it; one scheduler serves any number of tasks",
            )
        return array._memory() if array.nbytes else None

    def _upload(self, port: _native.Port, handle: Handle[Any], array: NDArray[Any], out: A | None) -> None:
        block = None if out is None else self._device_target(out, array)
        offset = 0 if out is None else out._offset
        if self._opened().native.submit(port, handle._ticket(), H2D, exportable(array), block, offset):
            handle._captured = True

    def _upload_many(self, port: _native.Port, handle: Handle[Any], arrays: list[NDArray[Any]]) -> None:
        if not arrays:
            handle._settle(())
            return
        items: list[tuple[Any, _native.Block | None, int]] = [
            (exportable(array), None, 0) for array in arrays
        ]
        if self._opened().native.submit_many(port, handle._ticket(), H2D, items):
            handle._captured = True

    def _download(
        self, port: _native.Port, handle: Handle[Any], array: ArrayOnDevice, target: NDArray[Any]
    ) -> None:
        block = self._device_block(array)
        handle._captured = True
        if block is None:
            handle._settle((None,))
            return
        self._opened().native.submit(port, handle._ticket(), D2H, exportable(target), block, array._offset)

    def _download_many(
        self,
        port: _native.Port,
        handle: Handle[Any],
        arrays: list[ArrayOnDevice],
        targets: list[NDArray[Any]],
    ) -> None:
        """`arrays` have at least one byte each."""
        handle._captured = True
        if not arrays:
            handle._settle(())
            return
        items = [
            (exportable(target), self._device_block(array), array._offset)
            for array, target in zip(arrays, targets, strict=True)
        ]
        self._opened().native.submit_many(port, handle._ticket(), D2H, items)

    def _host_target(self, array: ArrayOnDevice, out: object | None) -> NDArray[Any]:
        self._device_block(array)
        if out is not None:
            return as_destination(out, array.shape, array.dtype)
        return self._opened().empty_result(array.shape, array.dtype, array.nbytes)

    # Outcomes: what a done handle turns into. ----------------------------------------------------------

    def _finish_upload(self, outcome: tuple[Any, ...], spec: tuple[Any, ...]) -> A:
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        shape, dtype, out = spec
        if out is not None:
            existing: A = out
            return existing
        return self._array_type(self, self._device, result, shape, dtype)

    def _finish_download(self, outcome: tuple[Any, ...], spec: NDArray[Any]) -> NDArray[Any]:
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return spec

    def _finish_upload_many(self, outcome: tuple[Any, ...], spec: tuple[Any, ...]) -> Any:
        arrays, plan = spec
        results = [
            None
            if isinstance(result, BaseException)
            else self._array_type(self, self._device, result, array.shape, array.dtype)
            for result, array in zip(outcome, arrays, strict=True)
        ]
        return _whole_or_raise(outcome, results, plan)

    def _finish_download_many(self, outcome: tuple[Any, ...], spec: tuple[Any, ...]) -> Any:
        targets, moved, plan = spec
        errors: list[Any] = [None] * len(targets)
        for place, result in zip(moved, outcome, strict=True):
            errors[place] = result
        return _whole_or_raise(
            errors,
            [None if isinstance(e, BaseException) else t for e, t in zip(errors, targets, strict=True)],
            plan,
        )


def _whole_or_raise(outcome: Sequence[Any], results: list[Any], plan: Any) -> Any:
    errors: dict[int, Any] = {
        place: error for place, error in enumerate(outcome) if isinstance(error, BaseException)
    }
    if errors:
        raise BatchError(errors, results)
    return unflatten(plan, results)


def as_sources(leaves: list[object]) -> list[NDArray[Any]]:
    """Every leaf as an array; nothing is started when one is bad, and its error says which it was."""
    return [_numbered_source(place, leaf, len(leaves)) for place, leaf in enumerate(leaves)]


def _numbered_source(place: int, leaf: object, n: int) -> NDArray[Any]:
    try:
        return as_source(leaf)
    except UnsupportedDType as error:
        raise UnsupportedDType(f"item {place} of {n}: {error}") from None
    except InvalidTransfer as error:
        raise InvalidTransfer(f"item {place} of {n}: {error}") from None
