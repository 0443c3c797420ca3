"""Arrays in device memory, as the host sees them: shape, dtype and an address it cannot read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from npu_xfer._types import After, Priority
from npu_xfer.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import numpy as np
    from numpy.typing import NDArray

    from npu_xfer import _native

__all__ = ["ArrayOnDevice", "DeviceArray"]


class ArrayOnDevice:
    """What the device arrays of both faces have in common. C order, contiguous.

    The memory belongs to the scheduler that made it and goes back to its pool when the last reference, of
    the program or of a transfer under way, is gone; so keep the object while a kernel of your own uses its
    `address`. It dies with that scheduler.
    """

    __slots__ = ("__weakref__", "_block", "_dtype", "_nbytes", "_owner", "_shape")

    _offset = 0  # of the first byte in the block

    def __init__(
        self,
        owner: Any,
        block: _native.Block | None,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        nbytes: int,
    ) -> None:
        self._owner = owner
        self._block = block  # None for zero bytes, which need no memory
        self._shape = shape
        self._dtype = dtype
        self._nbytes = nbytes

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

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d device array")
        return self.shape[0]

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("the bytes of a device array are not in host memory; use `await array.to_host()`")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a device array cannot be pickled; pickle what to_host returns")


class _HostFace(Protocol):
    def to_host(
        self,
        array: ArrayOnDevice,
        *,
        out: NDArray[Any] | None = ...,
        priority: Priority = ...,
        after: After | None = ...,
    ) -> Awaitable[NDArray[Any]]: ...


class DeviceArray(ArrayOnDevice):
    """An array in device memory that an asynchronous Scheduler made."""

    __slots__ = ()

    async def to_host(
        self,
        *,
        out: NDArray[Any] | None = None,
        priority: Priority = Priority.NORMAL,
        after: After | None = None,
    ) -> NDArray[Any]:
        """A copy in host memory; see `Scheduler.to_host`."""
        face: _HostFace = self._owner
        return await face.to_host(self, out=out, priority=priority, after=after)
