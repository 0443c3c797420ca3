"""acl.util: addresses of Python objects, and threads for callbacks, under pyACL's names.

An address says nothing about its owner: the program keeps the bytes or the array alive while it uses the
address. pyACL calls the numpy functions deprecated in favour of the bytes functions, and warns; these do not.
"""

from __future__ import annotations

import ctypes
import errno
import math
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer.acl._call import absent, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "bytes_to_ptr",
    "numpy_contiguous_to_ptr",
    "numpy_to_ptr",
    "ptr_to_bytes",
    "ptr_to_numpy",
    "start_thread",
    "stop_thread",
]


def bytes_to_ptr(bytes_data: bytes) -> int:
    """Address of the bytes' own memory. pyACL programs also let a copy write there."""
    if not isinstance(bytes_data, bytes):
        raise ValueError(f"bytes_to_ptr needs bytes, got {type(bytes_data).__name__}")
    return ctypes.cast(ctypes.c_char_p(bytes_data), ctypes.c_void_p).value or 0


def ptr_to_bytes(ptr: int, size: int) -> bytes:
    """A copy of `size` bytes of host memory."""
    address, nbytes = _address(ptr), plain(size)
    if nbytes < 0:  # ctypes would take -1 for "up to the first NUL"
        raise ValueError(f"size must be 0 or more, got {size}")
    return ctypes.string_at(address, nbytes)


def _address(ptr: Any) -> int:
    """Python itself makes fresh memory of unknown contents where it is given NULL."""
    address = plain(ptr)
    if not 0 < address < 1 << 64:
        raise ValueError(f"{ptr!r} is no address of memory")
    return address


def _array(data: Any, name: str) -> NDArray[Any]:
    if not isinstance(data, np.ndarray):
        raise ValueError(f"{name} needs a numpy array, got {type(data).__name__}")
    return data


def numpy_to_ptr(data: NDArray[Any]) -> int:
    """Address of the array's memory. Warns when the array has gaps, because a copy would not know them."""
    array = _array(data, "numpy_to_ptr")
    if not array.flags.c_contiguous:
        warnings.warn(
            "the array is not contiguous, and its address alone does not say so; "
            "use numpy_contiguous_to_ptr or bytes_to_ptr",
            UserWarning,
            stacklevel=2,
        )
    return int(array.ctypes.data)


def numpy_contiguous_to_ptr(data: NDArray[Any]) -> tuple[int, NDArray[Any]]:
    """(address, the array without gaps that it belongs to). No ret."""
    array = np.ascontiguousarray(_array(data, "numpy_contiguous_to_ptr"))
    return int(array.ctypes.data), array


def _dtype(number: int) -> np.dtype[Any]:
    for code in np.typecodes["All"]:
        dtype = np.dtype(code)
        if dtype.num == number:
            return dtype
    raise ValueError(f"numpy has no type number {number}; pass array.dtype.num")


def ptr_to_numpy(ptr: int, shape: tuple[int, ...], npy_type: int) -> NDArray[Any]:
    """An array over host memory, not a copy. `npy_type` is numpy's type number (``array.dtype.num``)."""
    dtype = _dtype(npy_type)
    if not isinstance(shape, tuple):
        raise TypeError(f"ptr_to_numpy needs a tuple of ints as shape, got {type(shape).__name__}")
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"npy_type {npy_type} is {dtype}, which has no fixed size in plain memory")
    extents = [plain(extent) for extent in shape]
    if min(extents, default=0) < 0:
        raise ValueError(f"shape {shape} has a negative extent")
    memory = (ctypes.c_char * (math.prod(extents) * dtype.itemsize)).from_address(_address(ptr))
    array: NDArray[Any] = np.ndarray(shape, dtype, buffer=memoryview(memory))
    return array


# ---- threads ----


class _Thread:
    """One thread of start_thread. It stays until stop_thread, as a joinable thread of C does: its number
    cannot be given to another thread before."""

    def __init__(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._released = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="npu_xfer.acl", daemon=True)

    def _run(self) -> None:
        try:
            self._function(*self._arguments)
        except BaseException as error:
            self.error = error
            sys.excepthook(type(error), error, error.__traceback__)
        del self._function, self._arguments
        self._released.wait()

    def join(self) -> None:
        self._released.set()
        self.thread.join()


_lock = threading.Lock()
_threads: dict[int, _Thread] = {}


def start_thread(fn: Callable[..., object], args_list: Any) -> tuple[int, int]:
    """Runs ``fn(args_list)`` (``fn()`` for None) on a new thread: (thread_id, ret). The number is the one
    that subscribe_report takes."""
    if not callable(fn):
        raise TypeError(f"start_thread needs a function, got {type(fn).__name__}")
    one = _Thread(fn, () if args_list is None else (args_list,))
    with _lock:
        one.thread.start()
        number = one.thread.ident
        assert number is not None
        _threads[number] = one
    return number, 0


def stop_thread(thread_id: int) -> int:
    """Waits until the function has returned: ret. RuntimeError when it raised; its traceback was printed
    then."""
    with _lock:
        one = _threads.get(thread_id)
        if one is None:
            return errno.ESRCH
        if one.thread is threading.current_thread():
            return errno.EDEADLK
        del _threads[thread_id]
    one.join()
    if one.error is not None:
        raise RuntimeError(f"exception={type(one.error).__name__},msg=thread call failed;") from one.error
    return 0


def __getattr__(name: str) -> Any:
    raise absent("acl.util", name)
