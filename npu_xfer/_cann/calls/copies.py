"""Copies and fills: plain, two-dimensional, batches, descriptors, and waiting for a value."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.calls.base import Calls
from npu_xfer._cann.codes import ACL_SUCCESS, acl_error
from npu_xfer._cann.enums import MemcpyKind, MemLocationType, WaitValue
from npu_xfer._cann.structs import MemcpyBatchAttr, MemLocation

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BatchCopy", "CopyCalls", "Pitched", "batch_arrays"]

_NO_ENTRY = 2**64 - 1  # SIZE_MAX


@dataclass(frozen=True, slots=True)
class Pitched:
    """One side of a two-dimensional copy: where it starts, and the bytes from one row to the next."""

    address: int
    pitch_nbytes: int


@dataclass(frozen=True, slots=True)
class BatchCopy:
    """One copy of a batch. Exactly one side is the device's."""

    dst: int
    src: int
    nbytes: int
    to_device: bool


def batch_arrays(copies: Sequence[BatchCopy], device: int) -> list[Any]:
    """The arguments that all batch calls share. Copies of one direction in a row share one attribute."""
    n_copies = len(copies)
    pointers, sizes = ctypes.c_void_p * n_copies, ctypes.c_size_t * n_copies
    host = MemLocation(0, int(MemLocationType.HOST))
    there = MemLocation(device, int(MemLocationType.DEVICE))
    starts = [i for i, one in enumerate(copies) if i == 0 or copies[i - 1].to_device != one.to_device]
    attrs = (MemcpyBatchAttr * len(starts))()
    for attr, start in zip(attrs, starts, strict=True):
        attr.dstLoc, attr.srcLoc = (there, host) if copies[start].to_device else (host, there)
    nbytes = [one.nbytes for one in copies]
    return [
        pointers(*(one.dst for one in copies)),
        sizes(*nbytes),
        pointers(*(one.src for one in copies)),
        sizes(*nbytes),
        n_copies,
        attrs,
        (ctypes.c_size_t * len(starts))(*starts),
        len(starts),
    ]


class CopyCalls(Calls):
    """Copies and fills. The caller keeps the memory of a queued one until its stream has passed it."""

    def memcpy(self, dst: int, dst_nbytes: int, src: int, nbytes: int, kind: MemcpyKind) -> None:
        """Copies `nbytes` and returns when they have arrived. `dst_nbytes` is the room at `dst`."""
        self._call("aclrtMemcpy", dst, dst_nbytes, src, nbytes, int(kind))

    def memcpy_async(
        self, dst: int, dst_nbytes: int, src: int, nbytes: int, kind: MemcpyKind, stream: int
    ) -> None:
        """Queues a copy on the stream. The caller keeps both buffers until the stream has passed it; ordinary
        host memory makes the call wait, so hand over page-locked memory only."""
        self._call("aclrtMemcpyAsync", dst, dst_nbytes, src, nbytes, int(kind), stream)

    def memset(self, dst: int, dst_nbytes: int, value: int, nbytes: int) -> None:
        """Fills `nbytes` of device memory with one byte value and waits for it."""
        self._call("aclrtMemset", dst, dst_nbytes, value, nbytes)

    def memset_async(self, dst: int, dst_nbytes: int, value: int, nbytes: int, stream: int) -> None:
        """Queues a fill of device memory on the stream."""
        self._call("aclrtMemsetAsync", dst, dst_nbytes, value, nbytes, stream)

    def memset32(self, dst: int, dst_nbytes: int, value: int, n_values: int) -> None:
        """Fills device memory with `n_values` 32-bit values and waits for it."""
        self._call("aclrtMemsetD32", dst, dst_nbytes, value, n_values)

    def memset32_async(self, dst: int, dst_nbytes: int, value: int, n_values: int, stream: int) -> None:
        """Queues such a fill on the stream."""
        self._call("aclrtMemsetD32Async", dst, dst_nbytes, value, n_values, stream)

    def memcpy_async_if_pinned(
        self, dst: int, dst_nbytes: int, src: int, nbytes: int, kind: MemcpyKind, stream: int
    ) -> None:
        """As `memcpy_async`, and asks the driver whether the host side is page-locked. Deprecated by CANN."""
        self._call("aclrtMemcpyAsyncWithCondition", dst, dst_nbytes, src, nbytes, int(kind), stream)

    def memcpy_2d(self, dst: Pitched, src: Pitched, width_nbytes: int, n_rows: int, kind: MemcpyKind) -> None:
        """Copies `n_rows` rows of `width_nbytes` and returns when they have arrived. Between host and device
        only (code 207000 otherwise, observed on the open runtime)."""
        self._call(
            "aclrtMemcpy2d",
            dst.address,
            dst.pitch_nbytes,
            src.address,
            src.pitch_nbytes,
            width_nbytes,
            n_rows,
            int(kind),
        )

    def memcpy_2d_async(
        self, dst: Pitched, src: Pitched, width_nbytes: int, n_rows: int, kind: MemcpyKind, stream: int
    ) -> None:
        """Queues such a copy on the stream; some chips also take device to device."""
        self._call(
            "aclrtMemcpy2dAsync",
            dst.address,
            dst.pitch_nbytes,
            src.address,
            src.pitch_nbytes,
            width_nbytes,
            n_rows,
            int(kind),
            stream,
        )

    # ---- batches ----

    def memcpy_batch(self, copies: Sequence[BatchCopy], *, device: int) -> None:
        """Makes all copies between the host and `device`, in no particular order, and waits. A refused entry
        refuses the batch; the error's text names it. Some chips lack the call (code 207000)."""
        arrays = batch_arrays(copies, device)
        if self._library.has("aclrtMemcpyBatch"):
            self._batch("aclrtMemcpyBatch", arrays)
        else:
            self._call("aclrtMemcpyBatchV2", *arrays)

    def memcpy_batch_async(self, copies: Sequence[BatchCopy], stream: int, *, device: int) -> None:
        """Queues all copies on the stream. When one is refused, those before it may stay queued."""
        arrays = batch_arrays(copies, device)
        if self._library.has("aclrtMemcpyBatchAsync"):
            self._batch("aclrtMemcpyBatchAsync", arrays, stream)
        else:
            self._call("aclrtMemcpyBatchAsyncV2", *arrays, stream)

    def _batch(self, name: str, arrays: list[Any], *stream: int) -> None:
        """The older calls, which tell the refused entry; the V2 calls do not."""
        refused = ctypes.c_size_t(_NO_ENTRY)
        code = self._code(name, *arrays, ctypes.byref(refused), *stream)
        if code == ACL_SUCCESS:
            return
        message = self.recent_message()
        if refused.value != _NO_ENTRY:
            message = f"entry {refused.value} of the batch was refused. {message or ''}".rstrip()
        raise acl_error(name, code, message)

    # ---- addresses that are read late ----

    def memcpy_async_indirect(
        self,
        dst: int,
        dst_nbytes: int,
        dst_offset: int,
        src: int,
        nbytes: int,
        src_offset: int,
        kind: MemcpyKind,
        stream: int,
    ) -> None:
        """Queues a copy whose base addresses are read from device memory: `dst` and `src` are the addresses
        of the addresses, to which the offsets in bytes are added."""
        self._call(
            "aclrtMemcpyAsyncWithOffset",
            ctypes.cast(dst, ctypes.POINTER(ctypes.c_void_p)),
            dst_nbytes,
            dst_offset,
            ctypes.cast(src, ctypes.POINTER(ctypes.c_void_p)),
            nbytes,
            src_offset,
            int(kind),
            stream,
        )

    def memcpy_desc_nbytes(self, kind: MemcpyKind = MemcpyKind.INNER_DEVICE_TO_DEVICE) -> int:
        """Bytes of device memory that a copy descriptor takes."""
        return int(self._out_last(ctypes.c_size_t, "aclrtGetMemcpyDescSize", int(kind)))

    def set_memcpy_desc(
        self,
        desc: int,
        src: int,
        dst: int,
        nbytes: int,
        kind: MemcpyKind = MemcpyKind.INNER_DEVICE_TO_DEVICE,
    ) -> None:
        """Writes a copy into a descriptor in device memory, 64-byte aligned (code 107008 otherwise). Source
        comes first here, as in ACL."""
        self._call("aclrtSetMemcpyDesc", desc, int(kind), src, dst, nbytes, None)

    def memcpy_async_with_desc(
        self, desc: int, stream: int, kind: MemcpyKind = MemcpyKind.INNER_DEVICE_TO_DEVICE
    ) -> None:
        """Queues the copy that a descriptor holds when the stream comes to it."""
        self._call("aclrtMemcpyAsyncWithDesc", desc, int(kind), stream)

    # ---- a value in device memory as a signal ----

    def value_write(self, address: int, value: int, stream: int) -> None:
        """Queues the write of a 64-bit value to device memory."""
        self._call("aclrtValueWrite", address, value, 0, stream)

    def value_wait(self, address: int, value: int, compare: WaitValue, stream: int) -> None:
        """Makes the stream's later work wait until the 64-bit value in device memory compares as asked."""
        self._call("aclrtValueWait", address, value, int(compare), stream)
