"""Host memory of other libraries as numpy arrays: DLPack, the array interface, the buffer protocol.

Nothing is copied; the array keeps what it came from alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer import _native
from npu_xfer.errors import InvalidTransfer, UnsupportedDType

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DLPACK_EXT_DEV",
    "dlpack_device",
    "element_of",
    "foreign_array",
    "ml_dtype",
    "needs_gradient",
    "speaks",
    "torch_dtype",
]

DLPACK_EXT_DEV = 12
"""DLPack's type for devices that it has no type of its own for; torch gives it to those of torch_npu."""

_READ_ONLY = 1  # Tensor.flags
_HOST_KINDS = {1: "cpu", 3: "cuda host", 11: "rocm host"}
"""DLPack device types whose memory the host can read."""

_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}
_ML_DTYPES = {
    (4, 16): "bfloat16",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
"""DLPack's type code and bits of what the ml_dtypes package has a numpy dtype for."""


class _Memory:
    """What numpy makes an array of, and keeps with it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(
        self,
        owner: object,
        address: int,
        read_only: bool,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, read_only),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
            "descr": dtype.descr,
        }


def _over(
    owner: object,
    address: int,
    read_only: bool,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    if 0 in shape or dtype.itemsize == 0:
        return np.empty(shape, dtype)
    if address == 0:
        raise InvalidTransfer(f"{_kind(owner)} says that its {shape} elements are at address 0")
    raw = np.dtype((np.void, dtype.itemsize))
    return np.asarray(_Memory(owner, address, read_only, shape, strides, raw)).view(dtype)


def _kind(value: object) -> str:
    return type(value).__qualname__


def speaks(value: object) -> bool:
    """Whether it is an array in one of the protocols; text and raw bytes are not meant by that."""
    if isinstance(value, str | bytes | bytearray | int | float | complex | type | None):
        return False
    if hasattr(value, "__dlpack__") or hasattr(type(value), "data_ptr") or _interface(value) is not None:
        return True
    if isinstance(value, ctypes.Array):
        return True
    return not isinstance(value, _CTYPES_SCALARS) and _exports(value)


_CTYPES_SCALARS = (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes._Pointer)


def _exports(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, BufferError, ValueError):
        return False
    return True


def _interface(value: Any) -> dict[str, Any] | None:
    """Its array interface; libraries raise various errors for memory that is elsewhere."""
    try:
        found = getattr(value, "__array_interface__", None)
    except Exception:
        return None
    return found if isinstance(found, dict) else None


def dlpack_device(value: Any) -> tuple[int, int] | None:
    """Type and number of the device on which it says it is; None when it does not speak DLPack."""
    if not hasattr(value, "__dlpack__"):
        return None
    if not hasattr(value, "__dlpack_device__"):
        return 1, 0
    try:
        kind, number = value.__dlpack_device__()
    except Exception as error:
        raise InvalidTransfer(f"{_kind(value)} does not say where its memory is: {error}") from error
    return int(kind), int(number)


def needs_gradient(value: Any) -> bool:
    """Whether it is a tensor that a framework differentiates: its graph would not know of the copy."""
    return getattr(value, "requires_grad", False) is True


def foreign_array(value: Any) -> NDArray[Any] | None:
    """The array behind an object of another library; None when it speaks no protocol.

    Raises InvalidTransfer, with a remedy, for memory that is not the host's and for a description that cannot
    be true; UnsupportedDType for elements that numpy has no type for.
    """
    place = getattr(getattr(value, "device", None), "type", "cpu")  # as torch names it
    if place == "npu":
        raise InvalidTransfer(
            f"{_kind(value)} is on {value.device} already, not in host memory",
            remedy="to_host fetches it; to_device can have it as out",
        )
    if hasattr(value, "data_ptr") and place == "cpu" and callable(getattr(value, "stride", None)):
        if needs_gradient(value):
            raise _gradient(value)
        if not hasattr(value, "__dlpack__") or _is_ml(_torch_name(value)):
            return _from_tensor(value)
    device = dlpack_device(value)
    interface = _interface(value)
    if device is not None:
        if needs_gradient(value):
            raise _gradient(value)
        if device[0] not in _HOST_KINDS:
            raise InvalidTransfer(
                f"{_kind(value)} is not in host memory, but on device {device[1]} of DLPack type {device[0]}",
                remedy="bring it to host memory with its own library first",
            )
        if interface is None:
            return _from_dlpack(value)
    if interface is not None:
        return _from_interface(value, interface)
    return _from_buffer(value)


def _gradient(value: object) -> InvalidTransfer:
    return InvalidTransfer(
        f"{_kind(value)} requires a gradient, which a copy would not carry", remedy="pass tensor.detach()"
    )


# torch's own names -------------------------------------------------------------------------------------


def _torch_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _is_ml(name: str) -> bool:
    return name.startswith(("bfloat", "float8"))


def torch_dtype(tensor: Any) -> np.dtype[Any]:
    """The dtype of the name that torch gives it. Raises UnsupportedDType if numpy has none."""
    name = _torch_name(tensor)
    if _is_ml(name):
        return ml_dtype(name, f"{_kind(tensor)} has")
    try:
        return np.dtype(name)
    except TypeError:
        raise UnsupportedDType(
            f"{_kind(tensor)} has elements of type {name}, for which numpy has no type",
            dtype=name,
            remedy="pass it as bytes, for example tensor.view(torch.uint8)",
        ) from None


def _from_tensor(tensor: Any) -> NDArray[Any]:
    """A tensor in host memory whose type DLPack did not always know, or that does not speak it."""
    for flag in ("is_conj", "is_neg"):
        if getattr(tensor, flag, bool)():
            raise InvalidTransfer(
                f"{_kind(tensor)} is a view that computes its values ({flag})",
                remedy="pass tensor.resolve_conj().resolve_neg()",
            )
    dtype = torch_dtype(tensor)
    strides = tuple(int(stride) * dtype.itemsize for stride in tensor.stride())
    return _over(tensor, int(tensor.data_ptr()), False, tuple(map(int, tensor.shape)), strides, dtype)


# DLPack ------------------------------------------------------------------------------------------------


def _capsule(value: Any) -> object:
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # an older producer
        return value.__dlpack__()


def open_dlpack(value: Any) -> _native.Tensor:
    """What it gives through DLPack. Raises InvalidTransfer, with its own words, when it gives nothing."""
    try:
        return _native.open_capsule(_capsule(value))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidTransfer(
            f"{_kind(value)} does not give its memory: {error}",
            remedy="pass a plain dense tensor, for example one with conjugation resolved, or a numpy array",
        ) from error


def _from_dlpack(value: Any) -> NDArray[Any]:
    tensor = open_dlpack(value)
    dtype = dtype_of(tensor.element, value)
    strides = tensor.strides
    in_bytes = None if strides is None else tuple(stride * dtype.itemsize for stride in strides)
    return _over(tensor, tensor.address, bool(tensor.flags & _READ_ONLY), tensor.shape, in_bytes, dtype)


def dtype_of(element: tuple[int, int, int], value: object) -> np.dtype[Any]:
    """The dtype for a type code, bits and lanes of DLPack. Raises UnsupportedDType, which names `value`."""
    code, bits, lanes = element
    if lanes == 1:
        if code == 6 and bits == 8:
            return np.dtype(np.bool_)
        if code in _KINDS and bits in (8, 16, 32, 64, 128):
            try:
                return np.dtype(f"{_KINDS[code]}{bits // 8}")
            except TypeError:
                pass
        if (code, bits) in _ML_DTYPES:
            return ml_dtype(_ML_DTYPES[code, bits], f"{_kind(value)} has")
    raise UnsupportedDType(
        f"{_kind(value)} has elements of {bits} bits of DLPack type {code}, {lanes} lanes, "
        "for which numpy has no type",
        remedy="pass it as bytes, for example tensor.view(torch.uint8)",
    )


def ml_dtype(name: str, who: str) -> np.dtype[Any]:
    """The dtype of this name from the ml_dtypes package, which is not required.

    Raises UnsupportedDType, saying `who` needs it, when the package is absent or older than the type.
    """
    found: Any = None
    with contextlib.suppress(ImportError):
        import ml_dtypes

        found = getattr(ml_dtypes, name, None)
    if found is None:
        raise UnsupportedDType(
            f"{who} dtype {name}, for which numpy needs the package ml_dtypes",
            dtype=name,
            remedy="pip install ml_dtypes, or pass integers of the same width: tensor.view(torch.int16)",
        )
    dtype: np.dtype[Any] = np.dtype(found)
    return dtype


_NUMPY_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_CODES_BY_NAME = {name: key for key, name in _ML_DTYPES.items()}


def element_of(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """DLPack's type code and bits for a dtype; None when it has none."""
    if dtype.isbuiltin == 1:
        code = _NUMPY_CODES.get(dtype.kind)
        known = code is not None and dtype.char not in "gG"  # those have padding inside
        return (code, dtype.itemsize * 8) if known and code is not None else None
    return _CODES_BY_NAME.get(dtype.name) if dtype.isbuiltin == 2 else None


# The array interface -----------------------------------------------------------------------------------


def _from_interface(value: Any, interface: dict[str, Any]) -> NDArray[Any]:
    """numpy itself believes what an interface says, and reads beyond the end of a buffer."""
    if interface.get("mask") is not None:
        raise InvalidTransfer(
            f"{_kind(value)} has a mask, and a device array has none", remedy="pass its data alone"
        )
    try:
        shape = tuple(map(_extent, interface["shape"]))
        dtype = _dtype_of_interface(interface)
        strides = interface.get("strides")
        strides = None if strides is None else tuple(map(int, strides))
        data = interface.get("data")
        offset = int(interface.get("offset") or 0)
        if strides is not None and len(strides) != len(shape):
            raise ValueError(f"{len(shape)} extents and {len(strides)} strides")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidTransfer(f"the array interface of {_kind(value)} makes no sense: {error}") from error
    if isinstance(data, tuple):
        return _over(value, int(data[0]), bool(data[1]), shape, strides, dtype)
    try:
        view = memoryview(value if data is None else data)
    except TypeError as error:
        raise InvalidTransfer(f"the array interface of {_kind(value)} gives no memory: {error}") from error
    if not view.contiguous:
        raise InvalidTransfer(f"the array interface of {_kind(value)} stands on memory that has gaps")
    low, high = _reach(shape, strides, dtype.itemsize)
    if math.prod(shape) and (offset + low < 0 or offset + high > view.nbytes):
        raise InvalidTransfer(
            f"the array interface of {_kind(value)} says shape {shape}, dtype {dtype} at offset {offset}: "
            f"bytes {offset + low} to {offset + high} of memory that has {view.nbytes}",
            remedy="correct its shape, strides or offset",
        )
    if 0 in shape or dtype.itemsize == 0:
        return np.empty(shape, dtype)
    array: NDArray[Any] = np.ndarray(shape, dtype, buffer=view.cast("B"), offset=offset, strides=strides)
    return array


def _extent(value: Any) -> int:
    extent = int(value)
    if extent < 0:
        raise ValueError(f"an extent of {extent}")
    return extent


def _dtype_of_interface(interface: dict[str, Any]) -> np.dtype[Any]:
    plain: np.dtype[Any] = np.dtype(interface["typestr"])
    descr = interface.get("descr")
    if plain.kind != "V" or not descr or descr == [("", interface["typestr"])]:
        return plain
    described = np.dtype([(name or f"_{place}", *rest) for place, (name, *rest) in enumerate(descr)])
    if described.itemsize != plain.itemsize:
        raise ValueError(f"typestr has {plain.itemsize} bytes, descr {described.itemsize}")
    return described


def _reach(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> tuple[int, int]:
    """First byte and the one behind the last, counted from the first element."""
    if strides is None:
        return 0, math.prod(shape) * itemsize
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + itemsize


# Buffers -----------------------------------------------------------------------------------------------


def _from_buffer(value: Any) -> NDArray[Any] | None:
    if isinstance(value, ctypes._Pointer):
        return None
    element: Any = None
    if isinstance(value, ctypes.Array | ctypes.Structure | ctypes.Union | ctypes._SimpleCData):
        element = type(value)  # numpy warns that it must guess the layout of a structure from its buffer
        while issubclass(element, ctypes.Array):
            element = element._type_
    try:
        view = memoryview(value)
    except (TypeError, BufferError):
        return None
    try:
        if element is None:
            return np.asarray(view)
        if issubclass(element, ctypes.c_void_p | ctypes.c_char_p | ctypes.c_wchar_p | ctypes._Pointer):
            raise UnsupportedDType(f"{_kind(value)} holds addresses of this process", dtype=element.__name__)
        dtype = np.dtype("U1" if element is ctypes.c_wchar else element)
        array: NDArray[Any] = np.ndarray(view.shape or (), dtype, buffer=value)
    except UnsupportedDType:
        raise
    except Exception as error:
        raise UnsupportedDType(
            f"{_kind(value)} has elements that numpy has no type for (format {view.format!r}): {error}",
            remedy="pass memoryview(value).cast('B'), its bytes",
        ) from error
    return array
