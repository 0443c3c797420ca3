"""The C baseline: compiled on first use, into a temporary folder, with the compiler of the package."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYNC_PAGEABLE, ASYNC_PINNED = 0, 1


@functools.cache
def _library() -> ctypes.CDLL:
    folder = tempfile.mkdtemp(prefix="npu_xfer_bench_")
    target = Path(folder) / "libbare.so"
    native = ROOT / "native"
    command = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC"]
    sources = [ROOT / "bench" / "bare.c", native / "acl" / "loader.c", native / "base" / "err.c"]
    subprocess.run([*command, f"-I{native}", *map(str, sources), "-o", str(target), "-ldl"], check=True)
    library = ctypes.CDLL(str(target))
    library.bare_copies.restype = ctypes.c_double
    library.bare_copies.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
    ]
    return library


def bare_copies(
    library: str, *, to_device: bool, mode: int, nbytes: int, n_copies: int, depth: int = 1, device: int = 0
) -> float:
    """Seconds for n_copies copies of nbytes each from a C loop. Raises RuntimeError with the aclError."""
    seconds: float = _library().bare_copies(
        library.encode(), device, int(to_device), mode, nbytes, n_copies, depth
    )
    if seconds < 0:
        raise RuntimeError(f"the bare C loop ended with aclError {-int(seconds)}")
    return seconds
