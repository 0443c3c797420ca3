"""What the asynchronous and the blocking scheduler share: preparing requests and finishing them."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import numpy as np

from npu_xfer._batch import NOT_MOVED, flatten, unflatten
from npu_xfer._buffers import (
    as_destination,
    as_source,
    exportable,
    is_plain,
    is_source,
    name_of,
    refuse_look_alike,
)
from npu_xfer._engine import Core, extents_of
from npu_xfer._lent import Lent, Region, region_of
from npu_xfer._settings import settings as environment_settings
from npu_xfer._settings import whole_number
from npu_xfer._why import Pending, pending_rows
from npu_xfer.device_array import ArrayOnDevice
from npu_xfer.errors import BatchError, ClosedError, InvalidTransfer, TransferTimeout, XferError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from npu_xfer import _native
    from npu_xfer._types import LibraryInfo, Stats
    from npu_xfer.transfer import Handle

__all__ = ["Face"]

H2D, D2H = 0, 1
CLOSE_TIMEOUT_S = 60.0
_MOST_OF_ONE = 10_000

A = TypeVar("A", bound=ArrayOnDevice)
ScalarT = TypeVar("ScalarT", bound="np.generic")


class Face(Generic[A]):
    """A scheduler without its way of waiting. `_array_type` is the device array it makes."""

    _array_type: type[A]
    _opened_by: str  # the statement that opens it
    _core: Core | None = None  # here for __del__, should __init__ fail

    def __init__(
        self,
        device: int = 0,
        *,
        library: str | None = None,
        staging_bytes: int | str | None = None,
        chunk_bytes: int | str | None = None,
        inline_bytes: int | str | None = None,
        n_lanes: int | None = None,
        pageable_path: str | None = None,
        window_transfers: int | None = None,
        window_bytes: int | str | None = None,
        n_stagers: int | None = None,
        spin_us: int | None = None,
        result_cache: int | str | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
    ) -> None:
        """Describes a scheduler; it is opened by ``with`` or ``async with``.

        Args:
            device: number of the device, counted among those that this process sees.
            library: "auto", "cann", "sim" or a path, instead of NPU_XFER_LIBRARY.
            staging_bytes: cap of page-locked staging memory for each direction: bytes, or text as "64MiB".
            chunk_bytes: largest piece of a pageable array that is copied at once.
            inline_bytes: arrays up to this many bytes are captured by the submitting call itself.
            n_lanes: streams, each with a thread, for each direction; 1 to 32. Of three or more, one is kept
                for transfers of `Priority.LATENCY`.
            pageable_path: how ordinary memory is moved: "staged", "sync" (the runtime's own synchronous copy
                on a thread of the scheduler, where the end of one transfer is awaited) or "auto", which
                measures both. The sources of `submit_to_device` and `to_device_many` are always staged.
            window_transfers: most transfers accepted and not done; a submit beyond them waits its turn.
            window_bytes: the same in bytes. A request that is larger than the window goes alone. 0: no limit.
            n_stagers: threads that copy between ordinary and staging memory, both directions together; 0 or
                not given: by the number of cores.
            spin_us: microseconds for which a thread that has run out of work looks for more before it
                sleeps; 0 turns it off.
            result_cache: idle memory of results that is kept for reuse.
            close_timeout_s: how long closing waits for transfers under way, in seconds.

        Raises TypeError or ValueError for a bad value, naming it and what is accepted; this also reads the
        environment variables, once in a process.
        """
        self._device = whole_number("device", device)
        self._settings = environment_settings().with_arguments(
            library=library,
            staging_bytes=staging_bytes,
            chunk_bytes=chunk_bytes,
            inline_bytes=inline_bytes,
            n_lanes=n_lanes,
            pageable_path=pageable_path,
            window_transfers=window_transfers,
            window_bytes=window_bytes,
            n_stagers=n_stagers,
            spin_us=spin_us,
            result_cache=result_cache,
        )
        if not close_timeout_s >= 0:
            raise ValueError(
                f"close_timeout_s={close_timeout_s!r} is not valid; accepted: seconds, 0 or more"
            )
        self._close_timeout_s = close_timeout_s
        self._lent = Lent()

    def _open_core(self) -> None:
        """Blocks while the device is set up."""
        if self._core is not None:
            raise XferError("this scheduler was opened before; make a new one")
        self._core = Core(self._device, self._settings)

    def _opened(self) -> Core:
        if self._core is None:
            raise ClosedError(
                f"this {type(self).__name__} is not open yet",
                remedy=f"use `{self._opened_by} npu_xfer.{type(self).__name__}(...) as xfer`, or call open()",
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

    @overload
    def empty_pinned(self, shape: int | Sequence[int]) -> NDArray[np.float64]: ...
    @overload
    def empty_pinned(
        self, shape: int | Sequence[int], dtype: type[ScalarT] | np.dtype[ScalarT]
    ) -> NDArray[ScalarT]: ...
    @overload
    def empty_pinned(self, shape: int | Sequence[int], dtype: DTypeLike) -> NDArray[Any]: ...
    def empty_pinned(self, shape: int | Sequence[int], dtype: DTypeLike = float) -> NDArray[Any]:
        """An uninitialised numpy array in page-locked memory.

        Copies from and to it are direct: no staging, no host copy. A transfer borrows it: its bytes must not
        change until the transfer is done. The memory goes back to the pool when the last view of it dies; it
        stays valid after the scheduler is closed. Blocks while the runtime allocates.

        Raises ResourceError when the runtime has no page-locked memory left.
        """
        return self._opened().empty_pinned(shape, dtype)

    @overload
    def zeros_pinned(self, shape: int | Sequence[int]) -> NDArray[np.float64]: ...
    @overload
    def zeros_pinned(
        self, shape: int | Sequence[int], dtype: type[ScalarT] | np.dtype[ScalarT]
    ) -> NDArray[ScalarT]: ...
    @overload
    def zeros_pinned(self, shape: int | Sequence[int], dtype: DTypeLike) -> NDArray[Any]: ...
    def zeros_pinned(self, shape: int | Sequence[int], dtype: DTypeLike = float) -> NDArray[Any]:
        """The same as `empty_pinned`, filled with zeros."""
        array = self.empty_pinned(shape, dtype)
        if array.nbytes:
            array.reshape(-1).view(np.uint8).fill(0)  # whatever the type, and padding too
        return array

    def as_device_array(self, tensor: object) -> A:
        """A device array on the memory of another library's device tensor, which it keeps; no copy.

        For tensors of torch_npu, and what speaks DLPack for an extension device, in C order. `to_host` and
        ``out=`` of `to_device` take such tensors as they are. What kernels still do with the memory is not
        known here: order it with ``after=``, or synchronise first.

        Raises InvalidTransfer for anything else, for one on another device, and while a part of the memory is
        in use under another description.
        """
        if isinstance(tensor, ArrayOnDevice):
            self._device_block(tensor)
            own: A = tensor  # type: ignore[assignment]  # made by this scheduler, so of its type
            return own
        region = region_of(tensor)
        if region is None:
            raise InvalidTransfer(
                f"{name_of(tensor)} was given, a device array is needed",
                direction="d2h",
                remedy="await it first" if inspect.isawaitable(tensor) else "pass what to_device returned",
            )
        return self._lent_array(region)

    def device_array_at(
        self, address: int, shape: int | Sequence[int], dtype: DTypeLike, *, owner: object = None
    ) -> A:
        """A device array on memory of this device that you allocated, by its address; no copy.

        It must stay allocated while the array, a view of it or a transfer on it is there; `owner` is kept
        until then. Nothing can check the address.

        Raises InvalidTransfer for an address or shape that cannot be.
        """
        extents, element = extents_of(shape), np.dtype(dtype)
        nbytes = math.prod(extents) * element.itemsize
        if element.hasobject or min(extents, default=0) < 0 or not 0 < address <= (1 << 64) - 1 - nbytes:
            raise InvalidTransfer(
                f"no device memory holds shape {extents} of dtype {element} at address {address:#x}"
            )
        low, high = address, address + nbytes
        return self._lent_array(Region(address, extents, element, self._device, owner, low, high))

    def _on_device(self, value: object) -> A | None:
        """The device array that `value` is, or stands for; None for what is not device memory."""
        if isinstance(value, np.ndarray):
            return None
        if isinstance(value, ArrayOnDevice):
            return self.as_device_array(value)
        region = region_of(value)
        return None if region is None else self._lent_array(region)

    def _way(self, src: object, dst: object) -> str:
        """The direction of a copy, from where the two are; dst None is new memory on the device."""
        from_device = self._on_device(src) is not None
        to_device = dst is None or self._on_device(dst) is not None
        if not (from_device or to_device):
            raise InvalidTransfer(
                f"source ({name_of(src)}) and destination ({name_of(dst)}) are both in host memory",
                remedy="use numpy.copyto",
            )
        return ("d" if from_device else "h") + "2" + ("d" if to_device else "h")

    def _lent_array(self, region: Region) -> A:
        if region.device != self._device:
            raise InvalidTransfer(
                f"the tensor is on device {region.device}, this scheduler copies for device {self._device}",
                remedy=f"use the scheduler of device {region.device}",
            )
        if self.closed:
            raise ClosedError
        nbytes = math.prod(region.shape) * region.dtype.itemsize
        block, offset = None, 0
        if nbytes:
            block, offset = self._lent.block(self._opened().native, region)
        return self._array_type(self, block, region.shape, region.dtype, nbytes, offset)

    def stats(self) -> Stats:
        """A frozen snapshot of counters and memory; after close, the last one."""
        return self._opened().stats()

    def pending(self, most: int = 1000) -> list[Pending]:
        """What is under way and what each array waits for, the oldest first; at most `most` of them."""
        return pending_rows(self._opened().native, most)

    def why(self, transfer: Handle[Any]) -> list[Pending]:
        """What the arrays of a transfer wait for, one entry each; empty when it is over."""
        return pending_rows(self._opened().native, _MOST_OF_ONE, transfer._ticket())

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

    def _device_target(
        self, out: object, source: NDArray[Any] | ArrayOnDevice
    ) -> tuple[_native.Block | None, int]:
        """The memory of `out`, and where in it to begin."""
        if not isinstance(out, ArrayOnDevice):
            region = region_of(out)
            if region is None:
                raise InvalidTransfer(
                    f"out is {name_of(out)}, a device array is needed for a copy to the device",
                    direction="h2d",
                    nbytes=source.nbytes,
                    remedy="pass a DeviceArray or a device tensor of the same shape and dtype, or no out",
                )
            out = self._lent_array(region)
        if out.shape != source.shape or out.dtype != source.dtype:
            raise InvalidTransfer(
                f"the source has shape {source.shape} and dtype {source.dtype}, "
                f"out has shape {out.shape} and dtype {out.dtype}",
                direction="h2d",
                nbytes=source.nbytes,
                remedy="give both the same shape and dtype; a copy converts nothing",
            )
        return self._device_block(out), out._offset

    def _device_block(self, array: object) -> _native.Block | None:
        """The memory of a device array that this scheduler can reach; None when it has no bytes."""
        if not isinstance(array, ArrayOnDevice):
            raise InvalidTransfer(
                f"{name_of(array)} was given, a device array is needed",
                direction="d2h",
                remedy="await it first" if inspect.isawaitable(array) else "pass what to_device returned",
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

    def _upload(
        self,
        port: _native.Port,
        handle: Handle[Any],
        array: NDArray[Any],
        out: object | None,
        priority: int,
        awaits_end: bool,
        wait: _native.Wait | None,
    ) -> None:
        block, offset = (None, 0) if out is None else self._device_target(out, array)
        if self._opened().native.submit(
            port, handle._ticket(), H2D, exportable(array), block, offset, priority, awaits_end, wait
        ):
            handle._captured = True

    def _copy_on_device(
        self,
        port: _native.Port,
        handle: Handle[Any],
        source: A,
        out: object | None,
        priority: int,
        wait: _native.Wait | None,
    ) -> None:
        block, offset = (None, 0) if out is None else self._device_target(out, source)
        memory = self._device_block(source)
        if memory is None:
            handle._captured = True
            handle._settle((None,), False)
            return
        if block is not None:
            distance = abs(block.address + offset - source.address)
            if distance < source.nbytes:
                raise InvalidTransfer(
                    f"source and destination overlap: {source.nbytes} bytes, {distance} bytes apart",
                    direction="d2d",
                    nbytes=source.nbytes,
                    remedy="copy to other memory, or in parts that do not overlap",
                )
        place = (memory, source._offset, source.nbytes)
        if self._opened().native.submit(
            port, handle._ticket(), H2D, place, block, offset, priority, True, wait
        ):
            handle._captured = True

    def _upload_many(
        self,
        port: _native.Port,
        handle: Handle[Any],
        arrays: list[NDArray[Any]],
        priority: int,
        wait: _native.Wait | None,
    ) -> None:
        if not arrays:
            handle._settle((), False)
            return
        items = [exportable(array) for array in arrays]
        if self._opened().native.submit_many(port, handle._ticket(), H2D, items, priority, wait):
            handle._captured = True

    def _download(
        self,
        port: _native.Port,
        handle: Handle[Any],
        array: ArrayOnDevice,
        target: NDArray[Any],
        priority: int,
        wait: _native.Wait | None,
    ) -> None:
        block = self._device_block(array)
        handle._captured = True
        if block is None:
            handle._settle((None,), False)
            return
        self._opened().native.submit(
            port, handle._ticket(), D2H, exportable(target), block, array._offset, priority, True, wait
        )

    def _download_many(
        self,
        port: _native.Port,
        handle: Handle[Any],
        arrays: list[ArrayOnDevice],
        targets: list[NDArray[Any]],
        priority: int,
        wait: _native.Wait | None,
    ) -> None:
        """`arrays` have at least one byte each, and were checked by `_host_targets`."""
        handle._captured = True
        if not arrays:
            handle._settle((), False)
            return
        items = [
            (exportable(target), array._block, array._offset)
            for array, target in zip(arrays, targets, strict=True)
        ]
        self._opened().native.submit_many(port, handle._ticket(), D2H, items, priority, wait)

    def _no_room(self, direction: str, nbytes: int) -> TransferTimeout:
        return TransferTimeout(
            direction=direction,
            nbytes=nbytes,
            device=self._device,
            age_s=0.0,
            waited_for="room in the window",
            in_flight=False,
        )

    def _host_target(self, array: ArrayOnDevice, out: object | None) -> NDArray[Any]:
        self._device_block(array)
        if out is not None:
            return as_destination(out, array.shape, array.dtype)
        return self._opened().empty_result(array.shape, array.dtype, array.nbytes)

    def _host_targets(self, tree: object) -> tuple[list[ArrayOnDevice], list[NDArray[Any]], Any]:
        """The device arrays of a tree that have bytes, a new host array for each, and what finishes them."""
        arrays, plan = device_arrays_of(tree, self._lent_array)
        for array in arrays:
            self._device_block(array)
        targets = self._opened().empty_results(arrays)
        moved = [place for place, array in enumerate(arrays) if array.nbytes]
        spec = (targets, moved, plan)
        if len(moved) == len(arrays):
            return arrays, targets, spec
        return [arrays[place] for place in moved], [targets[place] for place in moved], spec

    # Outcomes: what a done handle turns into. ----------------------------------------------------------

    def _finish_upload(self, outcome: tuple[Any, ...], spec: tuple[Any, ...]) -> A:
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        shape, dtype, nbytes, out = spec
        if out is not None:
            existing: A = out
            return existing
        return self._array_type(self, result, shape, dtype, nbytes)

    def _finish_download(self, outcome: tuple[Any, ...], spec: NDArray[Any]) -> NDArray[Any]:
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return spec

    def _finish_upload_many(self, outcome: tuple[Any, ...], spec: tuple[Any, ...]) -> Any:
        arrays, plan = spec
        make = self._array_type
        if not _has_errors(outcome):
            results = [
                make(self, block, array.shape, array.dtype, array.nbytes)
                for block, array in zip(outcome, arrays, strict=True)
            ]
            return unflatten(plan, results)
        return _whole_or_raise(
            outcome,
            [
                None
                if isinstance(result, BaseException)
                else make(self, result, array.shape, array.dtype, array.nbytes)
                for result, array in zip(outcome, arrays, strict=True)
            ],
            plan,
        )

    def _finish_download_many(self, outcome: tuple[Any, ...], spec: tuple[Any, ...]) -> Any:
        targets, moved, plan = spec
        if not _has_errors(outcome):
            return unflatten(plan, targets)
        errors: list[Any] = [None] * len(targets)
        for place, result in zip(moved, outcome, strict=True):
            errors[place] = result
        return _whole_or_raise(
            errors,
            [None if isinstance(e, BaseException) else t for e, t in zip(errors, targets, strict=True)],
            plan,
        )


def _has_errors(outcome: tuple[Any, ...]) -> bool:
    """Whether there is an exception in it; looks at each type once."""
    return any(issubclass(kind, BaseException) for kind in set(map(type, outcome)))


def _whole_or_raise(outcome: Sequence[Any], results: list[Any], plan: Any) -> Any:
    errors: dict[int, Any] = {
        place: error for place, error in enumerate(outcome) if isinstance(error, BaseException)
    }
    if errors:
        raise BatchError(errors, results)
    return unflatten(plan, results)


def sources_of(tree: object) -> tuple[list[NDArray[Any]], Any]:
    """Every numpy array in the tree, and the plan to put it together again.

    Raises InvalidTransfer, naming the place in the tree, for an array that cannot be moved and for a leaf
    that was surely meant to be one; numbers, text, None and the like pass through.
    """

    def take(leaf: object, where: Callable[[], str]) -> Any:
        if is_source(leaf):
            return _source_at(leaf, where)
        refuse_look_alike(leaf, where(), "a numpy array is needed")
        return NOT_MOVED

    return flatten(tree, take, is_plain)


def _source_at(value: object, where: Callable[[], str]) -> NDArray[Any]:
    try:
        return as_source(value)
    except InvalidTransfer as error:
        raise type(error)(f"tree{where()}: {error}") from None


def _is_on_device(value: object) -> bool:
    return isinstance(value, ArrayOnDevice)


def device_arrays_of(
    tree: object, lent_array: Callable[[Region], ArrayOnDevice]
) -> tuple[list[ArrayOnDevice], Any]:
    """The same for the device arrays in a tree, and the device tensors of other libraries."""

    def take(leaf: object, where: Callable[[], str]) -> Any:
        try:
            region = region_of(leaf)
            if region is not None:
                return lent_array(region)
        except InvalidTransfer as error:
            raise type(error)(f"tree{where()}: {error}") from None
        refuse_look_alike(leaf, where(), "a device array is needed")
        return NOT_MOVED

    return flatten(tree, take, _is_on_device)


Face.__init__.__qualname__ = "Scheduler.__init__"  # what Python names when an argument is misspelt
