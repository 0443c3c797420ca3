"""Where `npu-xfer load` gets its tensors: .npy, .npz and .safetensors files, and a made-up set.

Files are mapped, not read, wherever their format allows it, and each tensor is opened only when its turn
comes. A type that numpy lacks (bfloat16, float8) or holds in the other byte order is moved as the raw bytes
that the file has.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["DEMO_NAME", "Entry", "UnreadableError", "demo_entries", "open_entries"]

DEMO_NAME = "demo"
SUFFIXES = (".npy", ".npz", ".safetensors")
# What numpy and zipfile raise for a damaged, encrypted or unknown member.
_MEMBER_ERRORS = (ValueError, EOFError, OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)
_NPY_MAGIC = b"\x93NUMPY"
_SAFETENSORS = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "u2",
    "I16": "i2",
    "U32": "u4",
    "I32": "i4",
    "U64": "u8",
    "I64": "i8",
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
    "C64": "c8",
    "BF16": "u2",  # as raw words, which need no ml_dtypes
}


class UnreadableError(Exception):
    """A file, or one tensor in it, cannot be read. The text says why and does not name the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor that has not been opened yet."""

    name: str
    dtype: str
    """As the file calls it; empty when that is known only after opening."""

    nbytes: int
    """For the progress bar; an estimate for members of an .npz."""

    open: Callable[[], NDArray[Any]]
    """Gives the array to move. Raises UnreadableError."""


@contextlib.contextmanager
def open_entries(path: Path) -> Iterator[list[Entry]]:
    """The tensors of a file, which stays open inside the with block. Raises UnreadableError."""
    if path.is_dir():
        raise UnreadableError(_about_folder(path))
    readers = {".npy": _open_npy, ".npz": _open_npz, ".safetensors": _open_safetensors}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UnreadableError(f"unknown kind of file; accepted: {', '.join(SUFFIXES)}")
    try:
        context = reader(path)
        entries = context.__enter__()
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error
    try:
        yield entries
    finally:
        context.__exit__(None, None, None)


def _about_folder(path: Path) -> str:
    try:
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    except OSError as error:
        return f"this is a folder that cannot be listed: {error.strerror or error}"
    if not inside:
        return f"this is a folder without a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file; name a file"
    return f"this is a folder; name the files in it, such as {inside[0]}"


def _movable(array: NDArray[Any]) -> NDArray[Any]:
    """The same bytes under a type that a scheduler takes."""
    if array.dtype.hasobject:
        raise UnreadableError(_about_objects(array.dtype))
    return array if array.dtype.isnative else array.view(array.dtype.newbyteorder("="))


def _about_objects(dtype: np.dtype[Any]) -> str:
    return (
        f"its type is {dtype}, which holds Python objects, and these have no bytes to move; save it as "
        "numbers, such as numpy.save(FILE, array.astype('float32'))"
    )


def _npy_dtype(file: IO[bytes]) -> np.dtype[Any] | None:
    """The type that an .npy file's header names; None for a header of another kind."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        reader = readers.get(np.lib.format.read_magic(file))
        return None if reader is None else reader(file)[2]
    except (ValueError, EOFError):
        return None  # numpy says it better when it is asked for the whole array


@contextlib.contextmanager
def _open_npy(path: Path) -> Iterator[list[Entry]]:
    with path.open("rb") as file:
        if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
            raise UnreadableError("this is not an .npy file: it does not start with its magic bytes")
        file.seek(0)
        dtype = _npy_dtype(file)
    if dtype is not None and dtype.hasobject:
        raise UnreadableError(_about_objects(dtype))
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UnreadableError(str(error)) from error
    yield [Entry(path.stem, array.dtype.str, array.nbytes, functools.partial(_movable, array))]


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[list[Entry]]:
    try:
        # numpy's own reader is given only what is a zip file: anything else it takes for a pickle.
        with zipfile.ZipFile(path) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
        members = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UnreadableError(f"this is not an .npz archive: {error}") from error
    with members:
        yield [
            Entry(name.removesuffix(".npy"), "", nbytes, functools.partial(_read_member, members, name))
            for name, nbytes in sizes.items()
        ]


def _member_dtype(members: Any, name: str) -> np.dtype[Any] | None:
    try:
        with members.zip.open(name) as file:
            return _npy_dtype(file)
    except _MEMBER_ERRORS:
        return None


def _read_member(members: Any, name: str) -> NDArray[Any]:
    try:
        value = members[name]
    except _MEMBER_ERRORS as error:
        dtype = _member_dtype(members, name)
        if dtype is not None and dtype.hasobject:
            raise UnreadableError(_about_objects(dtype)) from error
        raise UnreadableError(str(error)) from error
    # A member that is no array comes as bytes.
    return _movable(value if isinstance(value, np.ndarray) else np.frombuffer(value, np.uint8))


@contextlib.contextmanager
def _open_safetensors(path: Path) -> Iterator[list[Entry]]:
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError:
        raise UnreadableError(
            "reading it needs safetensors: pip install safetensors (a part of the extra npu-xfer[cli])"
        ) from None
    path.open("rb").close()  # an OSError with its own words comes from here
    try:
        # The package checks the header against the file; its numpy reader does not know bfloat16 and float8.
        with safe_open(str(path), framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise UnreadableError(str(error)) from error
    with path.open("rb") as file:
        header_nbytes = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(header_nbytes))
    header.pop("__metadata__", None)
    mapped = np.memmap(path, np.uint8, "r").view(np.ndarray)
    data = mapped[8 + header_nbytes :]
    by_place = sorted(header.items(), key=lambda item: item[1]["data_offsets"][0])
    yield [
        Entry(
            name,
            str(row["dtype"]),
            row["data_offsets"][1] - row["data_offsets"][0],
            functools.partial(_safetensor, data, row),
        )
        for name, row in by_place
    ]


def _safetensor(data: NDArray[np.uint8], row: dict[str, Any]) -> NDArray[Any]:
    start, stop = row["data_offsets"]
    raw = data[start:stop]
    shape = tuple(row["shape"])
    dtype = np.dtype(_SAFETENSORS.get(row["dtype"], "u1"))
    # A type of less than a byte, or one that is not known yet, stays a row of bytes.
    if math.prod(shape) * dtype.itemsize != raw.nbytes:
        return raw
    return raw.view(dtype).reshape(shape)


# ---- made up ----


def demo_entries() -> list[Entry]:
    """About 42 MiB in arrays of every layout and kind of type, the same bytes each time."""
    return [
        Entry(name, array.dtype.str, array.nbytes, functools.partial(_movable, array))
        for name, array in _demo_arrays().items()
    ]


def _demo_arrays() -> dict[str, NDArray[Any]]:
    random = np.random.Generator(np.random.PCG64(20240229))
    raw: NDArray[np.uint8] = np.frombuffer(random.bytes(16 << 20), np.uint8)

    def some(dtype: str, *shape: int) -> NDArray[Any]:
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        return raw[:nbytes].view(dtype).reshape(shape)

    square = some("f4", 2048, 2048)
    record = np.dtype([("id", "i8"), ("score", "f4"), ("tag", "S3")])
    return {
        "weights float32": square,
        "weights float16": some("f2", 1024, 4096),
        "weights bfloat16, as raw words": some("u2", 1000, 1003),
        "quantised int8": some("i1", 3001, 1777),
        "token ids int64": some("i8", 4096, 64),
        "mask bool": some("u1", 513, 1025) % 2 == 0,
        "spectrum complex64": some("c8", 255, 257),
        "fortran order": np.asfortranarray(some("f4", 1023, 511)),
        "every second column": square[:1024, ::2],
        "transposed": square.T[:100],
        "backwards": some("i4", 99991)[::-1],
        "broadcast": np.broadcast_to(some("f8", 1000), (50, 1000)),
        "odd address": raw[3 : 3 + 100003],
        "records": some("u1", record.itemsize * 4099).view(record),
        "times": some("i8", 777).view("M8[ns]"),
        "text": np.array(["host", "device", "and back"]),
        "one byte": raw[7:8],
        "0-d": np.array(np.float64(2.5)),
        "no elements": np.empty((0, 3, 5), np.float32),
    }
