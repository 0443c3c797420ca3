"""Device memory that another library allocated: what it says of itself, and the blocks that stand for it.

A tensor of torch_npu is known by `data_ptr`, `device.type` "npu" and `device.index`; anything else by DLPack.
"""

from __future__ import annotations

import math
import threading
import weakref
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from npu_xfer._foreign import (
    DLPACK_EXT_DEV,
    dlpack_device,
    dtype_of,
    needs_gradient,
    open_dlpack,
    torch_dtype,
)
from npu_xfer.errors import InvalidTransfer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from npu_xfer import _native

__all__ = ["Lent", "Region", "region_of"]


class Region(NamedTuple):
    """An array in device memory, C order, and who owns it."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    owner: object
    low: int  # first byte of the allocation, as far as it is known
    high: int  # the one behind its last


def region_of(value: Any) -> Region | None:
    """The device memory behind an object of another library; None when it is not one of a device.

    Raises InvalidTransfer when its elements do not lie in C order or it requires a gradient,
    UnsupportedDType when numpy has no name for its type.
    """
    kind = getattr(getattr(value, "device", None), "type", None)
    if kind == "npu" and hasattr(value, "data_ptr"):
        region = _of_tensor(value)
    elif hasattr(value, "__dlpack__"):
        device = dlpack_device(value)
        if device is None or device[0] != DLPACK_EXT_DEV:
            return None
        region = _of_dlpack(value)
    else:
        return None
    if needs_gradient(value):
        raise InvalidTransfer(
            f"{type(value).__qualname__} requires a gradient, which a copy would not carry",
            remedy="pass tensor.detach()",
        )
    return region


def _of_tensor(tensor: Any) -> Region:
    shape = tuple(map(int, tensor.shape))
    dtype = torch_dtype(tensor)
    _check_order(tensor, shape, tuple(map(int, tensor.stride())))
    address = int(tensor.data_ptr())
    low, high = address, address + math.prod(shape) * dtype.itemsize
    if hasattr(tensor, "untyped_storage"):
        storage = tensor.untyped_storage()
        start = int(storage.data_ptr())
        if start <= low and high <= start + int(storage.nbytes()):
            low, high = start, start + int(storage.nbytes())
    index = tensor.device.index
    return Region(
        address, shape, dtype, int(tensor.get_device() if index is None else index), tensor, low, high
    )


def _of_dlpack(value: Any) -> Region:
    tensor = open_dlpack(value)
    dtype = dtype_of(tensor.element, value)
    if tensor.strides is not None:
        _check_order(value, tensor.shape, tensor.strides)
    address = tensor.address
    high = address + math.prod(tensor.shape) * dtype.itemsize
    return Region(address, tensor.shape, dtype, tensor.device[1], tensor, address, high)


def _check_order(value: object, shape: Sequence[int], strides: Sequence[int]) -> None:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected and 0 not in shape:
            raise InvalidTransfer(
                f"{type(value).__qualname__} of shape {tuple(shape)} has strides {tuple(strides)}; "
                "device memory is copied in C order only",
                remedy="pass tensor.contiguous()",
            )
        expected *= extent


class Lent:
    """The blocks that stand for lent memory now: memory that two transfers use has one, which orders them."""

    def __init__(self) -> None:
        self._mu = threading.Lock()
        self._starts: list[int] = []  # ascending; the ranges do not overlap
        self._blocks: dict[int, tuple[int, weakref.ref[_native.Block]]] = {}  # by start: end and block

    def block(self, engine: _native.Engine, region: Region) -> tuple[_native.Block, int]:
        """A block that contains the region, and where in it the region begins.

        Raises InvalidTransfer when only a part of it is in use under another description.
        """
        with self._mu:
            place = bisect_right(self._starts, region.low)
            if place > 0:
                start = self._starts[place - 1]
                end, reference = self._blocks[start]
                block = reference()
                if block is not None and region.high <= end:
                    return block, region.address - block.address
                place -= end > region.low
            while place < len(self._starts) and self._starts[place] < region.high:
                start = self._starts[place]
                end, reference = self._blocks[start]
                if reference() is not None:
                    raise InvalidTransfer(
                        f"device memory {region.low:#x} to {region.high:#x} overlaps {start:#x} to {end:#x}, "
                        "which is in use, and the order of the two is not known",
                        remedy="use the same tensor for both, or drop what uses the other first",
                    )
                del self._starts[place], self._blocks[start]
            block, offset = engine.lend(region.low, region.high - region.low, region.owner)
            if offset == 0 and block.address == region.low:
                self._forget_dead()
                self._starts.insert(bisect_right(self._starts, region.low), region.low)
                self._blocks[region.low] = (region.high, weakref.ref(block))
            return block, offset + region.address - region.low

    def _forget_dead(self) -> None:
        """Now and then, so that memory that is never used again leaves nothing behind."""
        n = len(self._starts)
        if n < 64 or n & (n - 1):  # at powers of two
            return
        for start in list(self._starts):
            if self._blocks[start][1]() is None:
                del self._blocks[start]
        self._starts = sorted(self._blocks)
