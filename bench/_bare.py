"""The C baseline: compiled once for a run, into a temporary folder, with the compiler of the package."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "NPU_XFER_BENCH_BARE"  # the compiled library, for the processes of the cases
SYNC, WINDOW, QUEUE, SINGLE = range(4)  # enum bare_mode
SLAB_NBYTES = 32 << 20  # as in bare.c


class Unavailable(Exception):
    """No C baseline here, and why."""


def build(folder: Path) -> Path:
    """Compiles the baseline into a folder. Raises Unavailable without a C compiler."""
    target = folder / "libbare.so"
    native = ROOT / "native"
    compiler = [
        os.environ.get("CC", "cc"),
        "-O2",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-shared",
        "-fPIC",
        "-pthread",
    ]
    sources = [ROOT / "bench" / "bare.c", native / "acl" / "loader.c", native / "base" / "err.c"]
    command = [*compiler, f"-I{native}", *map(str, sources), "-o", str(target), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unavailable(f"no C compiler: {error}") from None
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"the C baseline does not compile: {error.stderr}") from None
    return target


class Bare:
    """The C loops, on one device, for the thread that makes this. Each returns seconds."""

    def __init__(self, library: str, device: int = 0) -> None:
        path = os.environ.get(VARIABLE)
        if not path:
            raise Unavailable("the C baseline was not compiled")
        self._code = ctypes.CDLL(path)
        p, n, i = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for name, parameters in {
            "bare_copies": [i, i, p, p, n, n, i, i],
            "bare_duplex": [p, p, p, p, n, i, i],
            "bare_wakes": [p, p, n, i],
            "bare_host_copy": [p, p, n, n, i, i],
        }.items():
            function = getattr(self._code, name)
            function.restype, function.argtypes = ctypes.c_double, parameters
        code = self._code.bare_open(library.encode(), device)
        if code:
            raise Unavailable(f"the C baseline cannot open device {device}: aclError {code}")

    def _seconds(self, name: str, *args: Any) -> float:
        seconds: float = getattr(self._code, name)(*args)
        if seconds < 0:
            raise RuntimeError(f"{name} ended with aclError {-int(seconds)}")
        return seconds

    def copies(
        self,
        *,
        to_device: bool,
        mode: int,
        host: int,
        device: int,
        nbytes: int,
        n: int,
        depth: int = 1,
        stride: int = 0,
    ) -> float:
        """n copies of nbytes each, between host + i * stride and device + i * stride."""
        return self._seconds("bare_copies", int(to_device), mode, host, device, nbytes, stride, n, depth)

    def duplex(
        self, up: int, down: int, device_up: int, device_down: int, *, nbytes: int, n: int, depth: int
    ) -> float:
        """n copies each way at once."""
        return self._seconds("bare_duplex", up, down, device_up, device_down, nbytes, n, depth)

    def wakes(self, host: int, device: int, *, nbytes: int, n: int) -> float:
        """n rounds of a copy, a thread that waits for it, an eventfd and epoll; nbytes 0: no copy."""
        return self._seconds("bare_wakes", host, device, nbytes, n)

    def host_copy(
        self, far: int, slabs: int, *, nbytes: int, chunk: int, n_threads: int, from_slab: bool
    ) -> float:
        """nbytes between ordinary memory and slabs of 32 MiB for each thread."""
        return self._seconds("bare_host_copy", far, slabs, nbytes, chunk, n_threads, int(from_slab))


@functools.cache
def bare(library: str) -> Bare:
    """The baseline on device 0 for the calling thread, opened once."""
    return Bare(library)
