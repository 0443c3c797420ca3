"""Arrays in device memory, as the host sees them: shape, dtype and an address it cannot read."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from npu_xfer import _native
from npu_xfer._foreign import DLPACK_EXT_DEV, element_of
from npu_xfer._types import After, Priority
from npu_xfer.errors import ClosedError, InvalidTransfer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence
    from typing import SupportsIndex

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from npu_xfer._types import HostTarget

__all__ = ["ArrayOnDevice", "DeviceArray"]


class ArrayOnDevice:
    """What the device arrays of both faces have in common. C order, contiguous.

    Slicing along the first axis, `reshape` and `view` give arrays on the same memory, without a copy; two
    arrays are equal when they are the same memory, shape and dtype, whatever it holds.

    The memory belongs to the scheduler that made it and goes back to its pool when the last reference, of
    the program or of a transfer under way, is gone; so keep the object while a kernel of your own uses its
    `address`. It dies with that scheduler.
    """

    __slots__ = ("__weakref__", "_block", "_dtype", "_nbytes", "_offset", "_owner", "_shape")

    def __init__(
        self,
        owner: Any,
        block: _native.Block | None,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        nbytes: int,
        offset: int = 0,
    ) -> None:
        self._owner = owner
        self._block = block  # None for zero bytes, which need no memory
        self._shape = shape
        self._dtype = dtype
        self._nbytes = nbytes
        self._offset = offset  # of the first byte in the block

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as numpy names it."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self._nbytes

    @property
    def device(self) -> int:
        """Number of the device that holds the memory."""
        number: int = self._owner.device
        return number

    @property
    def address(self) -> int:
        """Device address of the first byte, for an ACL call of your own; 0 when there are no bytes.

        A host access to it is a segmentation fault.
        """
        return self._memory().address + self._offset if self.nbytes else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each dimension; always those of C order."""
        return _c_strides(self._shape, self._dtype.itemsize)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def _memory(self) -> _native.Block:
        if self._block is None or not self._block.alive:
            raise ClosedError(
                f"this array of {self.nbytes} bytes was on device {self.device}, whose scheduler is closed; "
                "its bytes are gone",
                remedy="fetch results with to_host before the scheduler is closed",
            )
        return self._block

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} shape={self.shape} dtype={self.dtype} "
            f"device={self.device} nbytes={self.nbytes}>"
        )

    # Views. ----------------------------------------------------------------------------------------------

    def _view(self, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> Self:
        nbytes = math.prod(shape) * dtype.itemsize
        block = self._block if nbytes else None
        return type(self)(self._owner, block, shape, dtype, nbytes, self._offset + offset)

    def __getitem__(self, index: Any) -> Self:
        """The part of it that `index` picks, on the same memory: ``a[3]``, ``a[2:5]``, ``a[1, :4]``.

        Whole numbers, slices and an ellipsis, as in numpy, as long as what they pick lies together. Raises
        IndexError beyond the end, TypeError for other kinds of index, InvalidTransfer for elements that do
        not lie together.
        """
        shape, strides, offset = _picked(index, self._shape, self.strides)
        if 0 not in shape and not _lies_together(shape, strides, self._dtype.itemsize):
            raise InvalidTransfer(
                f"what this index picks of a device array of shape {self._shape} does not lie together",
                remedy="slice the first axis with step 1, or slice what to_host returns",
            )
        return self._view(shape, self._dtype, offset)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Self:
        """The same memory in another shape; one extent may be -1, and is what the others leave.

        Raises InvalidTransfer for a shape that needs another number of elements.
        """
        given: Any = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        extents = [operator.index(extent) for extent in given]
        known = math.prod(extent for extent in extents if extent != -1)
        if extents.count(-1) == 1 and known > 0 and self.size % known == 0:
            extents[extents.index(-1)] = self.size // known
        if any(extent < 0 for extent in extents) or math.prod(extents) != self.size:
            raise InvalidTransfer(f"{self.size} elements of shape {self._shape} have no shape {tuple(given)}")
        return self._view(tuple(extents), self._dtype, 0)

    def view(self, dtype: DTypeLike) -> Self:
        """The same bytes as elements of another type; the last extent changes with the size of the element.

        Raises InvalidTransfer when a row is not a whole number of such elements.
        """
        other = np.dtype(dtype)
        if other == self._dtype:
            return self._view(self._shape, other, 0)
        if other.hasobject or other.itemsize == 0:
            raise InvalidTransfer(f"device memory cannot be seen as dtype {other}")
        if other.itemsize == self._dtype.itemsize:
            return self._view(self._shape, other, 0)
        row = self._shape[-1] * self._dtype.itemsize if self._shape else -1
        if row % other.itemsize:
            raise InvalidTransfer(
                f"shape {self._shape} of dtype {self._dtype} cannot be seen as dtype {other}",
                remedy="its last extent must be a whole number of elements; reshape it first",
            )
        return self._view((*self._shape[:-1], row // other.itemsize), other, 0)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d device array")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[place] for place in range(len(self)))

    # What it is to others. -------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayOnDevice):
            return NotImplemented
        return (
            self._block is other._block
            and (self._offset == other._offset or self._block is None)
            and self._owner is other._owner
            and self._shape == other._shape
            and self._dtype == other._dtype
        )

    def __hash__(self) -> int:
        return hash((id(self._block), self._shape))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "whether a device array is true depends on bytes that are not in host memory; "
            "test `is not None`, its `size`, or what to_host returns"
        )

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(
            "what a device array contains is not in host memory; use `item in await array.to_host()`"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("the bytes of a device array are not in host memory; use `await array.to_host()`")

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type for devices of extensions, which torch_npu uses too, and the number of the device."""
        return DLPACK_EXT_DEV, self.device

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule on the same memory, which it keeps until its consumer lets go.

        The bytes of every transfer that was awaited are visible to all streams, so nothing is done for
        `stream`. It is no part of the order of later transfers: await them before the consumer's kernels
        run. Raises BufferError for another device, a copy, or a dtype that DLPack does not know.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(
                "the bytes of a device array leave its device by an await only; use `await array.to_host()`"
            )
        if copy:
            raise BufferError("DLPack gives the memory of a device array itself, not a copy")
        element = element_of(self._dtype)
        if element is None:
            raise BufferError(f"DLPack has no type for dtype {self._dtype}; pass array.view(numpy.uint8)")
        block = self._memory() if self._nbytes else None
        versioned = max_version is not None and max_version[0] >= 1
        return _native.make_capsule(
            block, self._offset, self._shape, *element, *self.__dlpack_device__(), versioned
        )

    def __copy__(self) -> NoReturn:
        raise TypeError("copying a device array is a transfer; use `await array.copy()`")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a device array cannot be pickled; pickle what to_host returns")


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def _lies_together(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    whole = _c_strides(shape, itemsize)
    return all(n == 1 or one == other for n, one, other in zip(shape, strides, whole, strict=True))


def _whole_number(key: Any) -> int:
    try:
        if isinstance(key, bool):
            raise TypeError
        return operator.index(key)
    except TypeError:
        raise TypeError(
            f"a device array takes whole numbers and slices as an index, not {type(key).__name__}; "
            "pick other elements from what to_host returns"
        ) from None


def _picked(
    index: Any, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and offset in bytes of what an index picks, as numpy would have them."""
    keys = list(index) if isinstance(index, tuple) else [index]
    dots = [place for place, key in enumerate(keys) if key is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis")
    if len(keys) - len(dots) > len(shape):
        raise IndexError(f"{len(keys) - len(dots)} indices for a device array of {len(shape)} dimensions")
    for place in dots:
        keys[place : place + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    new_shape, new_strides, offset = list(shape), list(strides), 0
    for axis in range(len(keys) - 1, -1, -1):
        key = keys[axis]
        if isinstance(key, slice):
            start, stop, step = key.indices(shape[axis])
            new_shape[axis] = len(range(start, stop, step))
            new_strides[axis] = strides[axis] * step
            offset += start * strides[axis]
            continue
        place = _whole_number(key)
        if not -shape[axis] <= place < shape[axis]:
            raise IndexError(f"index {place} is out of bounds for axis {axis} of {shape[axis]}")
        offset += place % shape[axis] * strides[axis]
        del new_shape[axis], new_strides[axis]
    return tuple(new_shape), tuple(new_strides), offset


class _HostFace(Protocol):
    def to_host(
        self,
        array: ArrayOnDevice,
        *,
        out: HostTarget | None = ...,
        priority: Priority = ...,
        after: After | None = ...,
        deadline_s: float | None = ...,
    ) -> Awaitable[NDArray[Any]]: ...
    def copy(self, src: ArrayOnDevice) -> Awaitable[DeviceArray]: ...


class DeviceArray(ArrayOnDevice):
    """An array in device memory that an asynchronous Scheduler made."""

    __slots__ = ()

    async def to_host(
        self,
        *,
        out: HostTarget | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
        deadline_s: float | None = None,
    ) -> NDArray[Any]:
        """A copy in host memory; see `Scheduler.to_host`."""
        face: _HostFace = self._owner
        return await face.to_host(self, out=out, priority=priority, after=after, deadline_s=deadline_s)

    async def copy(self) -> DeviceArray:
        """A new device array with the same bytes, which do not pass the host."""
        face: _HostFace = self._owner
        return await face.copy(self)
