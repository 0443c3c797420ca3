"""Stand-ins for objects of other libraries: what they promise through protocols, and nothing else."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

CPU = (1, 0)
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManaged(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor:
    """Speaks DLPack as a tensor library does: bfloat16 and the like too, elements counted in strides.

    `n_out` capsules were handed out and not given back yet.
    """

    def __init__(
        self,
        array: Any,
        element: tuple[int, int] | None = None,
        *,
        device: tuple[int, int] = CPU,
        address: int | None = None,
        versioned: bool = True,
        read_only: bool = False,
        lanes: int = 1,
        major: int = 1,
        requires_grad: bool = False,
        c_order: bool = False,
    ) -> None:
        self.array = np.asarray(array)
        self.element = element or (_CODES[self.array.dtype.kind], self.array.itemsize * 8)
        self.device = device
        self.address = self.array.ctypes.data if address is None else address
        self.versioned = versioned
        self.read_only = read_only
        self.lanes = lanes
        self.major = major
        self.requires_grad = requires_grad
        self.c_order = c_order
        self.n_out = 0
        self._alive: dict[int, Any] = {}
        self._deleter = _DELETER(self._delete)

    def _delete(self, address: int) -> None:
        del self._alive[address]
        self.n_out -= 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **kwargs: Any) -> object:
        if kwargs and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        array = self.array
        dims = ctypes.c_int64 * array.ndim
        shape = dims(*array.shape)
        strides = dims(*(stride // array.itemsize for stride in array.strides))
        held: Any = DLVersioned() if self.versioned else DLManaged()
        held.deleter = ctypes.cast(self._deleter, ctypes.c_void_p)
        if self.versioned:
            held.major, held.minor, held.flags = self.major, 1, int(self.read_only)
        code, bits = self.element
        tensor = held.tensor
        half = 2 if self.address > 2 else 0  # the first element is at data + byte_offset
        tensor.data, tensor.byte_offset = self.address - half, half
        tensor.device_type, tensor.device_id = self.device
        tensor.ndim, tensor.code, tensor.bits, tensor.lanes = array.ndim, code, bits, self.lanes
        tensor.shape = shape
        if not self.c_order:
            tensor.strides = strides
        self._alive[ctypes.addressof(held)] = (held, shape, strides, self.array, self)
        self.n_out += 1
        return _new_capsule(
            ctypes.addressof(held), b"dltensor_versioned" if self.versioned else b"dltensor", None
        )


class TorchTensor:
    """A tensor in host memory under torch's names, without DLPack."""

    def __init__(self, array: Any, dtype: str, *, requires_grad: bool = False, conj: bool = False) -> None:
        self.array = array
        self.dtype = f"torch.{dtype}"
        self.shape = array.shape
        self.device = SimpleNamespace(type="cpu", index=None)
        self.requires_grad = requires_grad
        self._conj = conj

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def is_conj(self) -> bool:
        return self._conj


class Interface:
    """An object that has an array interface and nothing else."""

    def __init__(self, owner: object = None, **interface: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, **interface}


def read_capsule(capsule: object) -> tuple[str, Any]:
    """The name of a capsule and its ctypes structure, not consumed."""
    name = _capsule_name(capsule)
    kind = DLVersioned if name == b"dltensor_versioned" else DLManaged
    return name.decode(), kind.from_address(_capsule_pointer(capsule, name))


def consume(capsule: object) -> Any:
    """Takes a capsule as a consumer does; `release` of the result gives it back."""
    name, held = read_capsule(capsule)
    used = b"used_" + name.encode()
    _KEPT.append(used)  # a capsule does not copy its name
    assert ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), ctypes.c_char_p(used)) == 0
    return held


def release(held: Any) -> None:
    """Calls the deleter."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(held.deleter)(ctypes.addressof(held))


_KEPT: list[bytes] = []
