"""From what a caller hands in to what the engine takes: a numpy array whose bytes may be moved as they are.

Checks here come before any runtime call, and name both what was asked and what was found.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import ItemsView, Iterator, Mapping, Set, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer._foreign import foreign_array, speaks
from npu_xfer.errors import InvalidTransfer, UnsupportedDType

if TYPE_CHECKING:
    from typing import TypeGuard

    from numpy.typing import NDArray

__all__ = [
    "as_destination",
    "as_source",
    "exportable",
    "is_plain",
    "is_source",
    "name_of",
    "prepare",
    "refuse_look_alike",
]


def is_source(value: object) -> bool:
    """Whether a leaf of a tree is something to move, rather than to pass through."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    return speaks(value) and not _is_ours(value)


def _is_ours(value: object) -> bool:
    return _home(value) == "npu_xfer"


def _home(value: object) -> str:
    """The package of its type; a type made at run time may not say."""
    return str(getattr(type(value), "__module__", "")).split(".")[0]


_PLAIN = frozenset(id(np.dtype(char)) for char in "?bhilqpBHILQPefdFD")
"""Identities of numpy's own native number types, which live as long as numpy. Most arrays have one."""


def is_plain(value: object) -> TypeGuard[NDArray[Any]]:
    """Whether it is an array that the engine takes as it is, without any further check."""
    return type(value) is np.ndarray and id(value.dtype) in _PLAIN


def as_source(value: object) -> NDArray[Any]:
    """The array behind `value`, without copying its data.

    Raises InvalidTransfer for anything that is no array in any protocol, UnsupportedDType for a dtype
    whose bytes mean nothing on a device (Python objects) or something else there (foreign byte order).
    """
    if type(value) is np.ndarray:
        array: NDArray[Any] = value
    elif isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise InvalidTransfer(
                "a masked array was given, and a device array has no mask",
                remedy="pass array.filled(value), or array.data and array.mask as two arrays",
            )
        array = value.view(np.ndarray)
    elif isinstance(value, np.generic):
        array = np.asarray(value)
    else:
        found = None if _is_ours(value) else foreign_array(value)
        if found is None:
            raise InvalidTransfer(f"{name_of(value)} was given, an array is needed", remedy=_advice(value))
        array = found
    _check_dtype(array.dtype)
    return array


def name_of(value: object) -> str:
    """The kind of thing that a caller handed in, for a message: "an int", "a torch.Tensor"."""
    kind = type(value)
    home = _home(value)
    name = kind.__qualname__ if home in {"builtins", "numpy", "npu_xfer"} else f"{home}.{kind.__qualname__}"
    return f"{'an' if name[0].lower() in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def _advice(value: object) -> str:
    if inspect.isawaitable(value):
        return "await it first"
    if isinstance(value, np.ndarray):
        return "it is in host memory already; to_device moves it"
    if isinstance(value, Iterator | Set | ValuesView | ItemsView | deque):
        return "make a list of it first"
    if _is_ours(value):
        return "it is on the device already; to_host fetches it"
    return "wrap it first, for example with numpy.asarray(...)"


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or hasattr(type(value), "__array__")


def refuse_look_alike(value: object, path: str, wanted: str) -> None:
    """Raises InvalidTransfer for a leaf that was surely meant to be moved, rather than passed through."""
    array_like = any(
        hasattr(type(value), name) for name in ("__array__", "__array_interface__", "__dlpack__")
    )
    container = isinstance(value, Iterator | Mapping | ValuesView | ItemsView) or (
        isinstance(value, Set | deque) and any(map(_is_array, value))
    )
    if array_like or container or inspect.isawaitable(value):
        where = f"tree{path}" if path else "the tree"
        raise InvalidTransfer(f"{where} is {name_of(value)}; {wanted}", remedy=_advice(value))


def _check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise UnsupportedDType(
            f"dtype {dtype} holds Python objects, whose bytes are addresses of this process",
            remedy="convert to a numeric dtype, for example array.astype(numpy.float32)",
        )
    if not _is_native(dtype):
        raise UnsupportedDType(
            f"dtype {dtype.str if dtype.names is None else dtype} has the other byte order; "
            "the device would read it as different numbers",
            remedy="convert with array.astype(array.dtype.newbyteorder('='))",
        )


def _is_native(dtype: np.dtype[Any]) -> bool:
    """isnative, also for the elements of sub-arrays in fields, where numpy does not look."""
    if dtype.subdtype is not None:
        return _is_native(dtype.subdtype[0])
    if dtype.fields is not None:
        return all(_is_native(field[0]) for field in dtype.fields.values())
    return dtype.isnative


def prepare(value: object) -> tuple[NDArray[Any], NDArray[Any]]:
    """The array behind `value`, checked, and the same as the engine takes it."""
    array = as_source(value)
    return array, exportable(array)


def exportable(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory under a dtype that exports a buffer.

    numpy refuses to export dates, durations and the types of other packages, also in fields.
    """
    dtype = array.dtype
    if id(dtype) in _PLAIN:
        return array
    if dtype.isbuiltin == 1 and dtype.kind not in "mM":
        return array
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return array.view(np.int64) if dtype.kind in "mM" else array.view(np.dtype((np.void, dtype.itemsize)))


def as_destination(value: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Checks a caller's host array as the target of a copy of this shape and dtype.

    Raises InvalidTransfer when it is no array in any protocol, has another shape or dtype, is read-only, or
    when several of its elements share memory.
    """
    who = "out"
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidTransfer(
            "out is a masked array, whose mask would hide what arrives", remedy="pass out.data"
        )
    if isinstance(value, np.ndarray):
        array: NDArray[Any] = value.view(np.ndarray)
    else:
        who = f"out, {name_of(value)},"
        found = None if _is_ours(value) else foreign_array(value)
        if found is None:
            raise InvalidTransfer(
                f"out is {name_of(value)}, a writable array is needed",
                remedy="pass numpy.empty(shape, dtype) or xfer.empty_pinned(shape, dtype)",
            )
        array = found
    if array.shape != shape or array.dtype != dtype:
        raise InvalidTransfer(
            f"{who} has shape {array.shape} and dtype {array.dtype}, "
            f"the device array has shape {shape} and dtype {dtype}",
            remedy="give both the same shape and dtype; a copy converts nothing",
        )
    _check_dtype(array.dtype)
    if not array.flags.writeable:
        raise InvalidTransfer(
            f"{who} is read-only", remedy="pass a writable array, or none and take the result"
        )
    if _elements_overlap(array):
        raise InvalidTransfer(
            f"elements of {who} share memory (shape {array.shape}, strides {array.strides})",
            remedy="pass an array that was not made by broadcasting or as_strided",
        )
    return array


def _elements_overlap(array: NDArray[Any]) -> bool:
    """Whether two elements may share bytes: exact for every layout that slicing and transposing can make."""
    if array.flags.c_contiguous or array.size < 2:
        return False
    reach = array.itemsize  # bytes from the first byte of an element to the last of the inner dimensions
    steps = sorted(
        (abs(stride), extent) for stride, extent in zip(array.strides, array.shape, strict=True) if extent > 1
    )
    for stride, extent in steps:
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False
