"""A stand-in for a program with streams of its own on the device, through pyACL's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer import acl, sim

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray
    from typing_extensions import Self

H2D, D2H = 1, 2


def ok(code: int) -> None:
    assert code == 0, (code, acl.get_recent_err_msg())


def made(result: tuple[int, int]) -> int:
    ok(result[1])
    return result[0]


class Foreign:
    """One stream, and page-locked memory from and to which it copies. Use it inside an open scheduler."""

    def __init__(self, nbytes: int) -> None:
        ok(acl.rt.set_device(0))
        self.nbytes = nbytes
        self.stream = made(acl.rt.create_stream())
        self._addresses = [made(acl.rt.malloc_host(nbytes)) for _ in range(2)]
        self._scratch = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc_host(64))
        self.source, self.target = (self._array(address) for address in self._addresses)
        self.target[:] = 0
        self._hold: sim.Hold | None = None

    def _array(self, address: int) -> NDArray[np.uint8]:
        array: NDArray[np.uint8] = acl.util.ptr_to_numpy(address, (self.nbytes,), np.dtype(np.uint8).num)
        return array

    def hold(self) -> None:
        """Puts a copy onto the stream that does not start; a hold stops copies, not records and waits."""
        self._hold = sim.hold_stream(self.stream)
        ok(acl.rt.memcpy_async(self._scratch[0], 64, self._scratch[1], 64, H2D, self.stream))

    def release(self) -> None:
        assert self._hold is not None
        hold, self._hold = self._hold, None
        hold.release()

    def write(self, address: int, data: NDArray[Any]) -> None:
        """Puts a copy of `data` to the device onto the stream; at most one of these until `finish`."""
        self.source[: data.nbytes] = data.reshape(-1).view(np.uint8)
        ok(acl.rt.memcpy_async(address, data.nbytes, self._addresses[0], data.nbytes, H2D, self.stream))

    def read(self, address: int, nbytes: int) -> None:
        """Puts a copy from the device to `target` onto the stream."""
        ok(acl.rt.memcpy_async(self._addresses[1], nbytes, address, nbytes, D2H, self.stream))

    def idle(self) -> bool:
        return made(acl.rt.stream_query(self.stream)) == 0

    def finish(self) -> None:
        ok(acl.rt.synchronize_stream(self.stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hold is not None:
            self.release()
        self.finish()
        ok(acl.rt.destroy_stream(self.stream))
        del self.source, self.target
        for address in self._addresses:
            ok(acl.rt.free_host(address))
        ok(acl.rt.free(self._scratch[0]))
        ok(acl.rt.free_host(self._scratch[1]))
        ok(acl.rt.reset_device(0))
