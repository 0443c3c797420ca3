"""The child process of the doctor: calls the ACL library step by step and says where it is.

One JSON object a line, to a copy of the standard output that only this file knows: {"stage", "device"} when a
step begins, and the same with "ok" or "error" when it ends. What the library prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer._cann.enums import MemcpyKind
from npu_xfer._library import located_library, open_runtime
from npu_xfer._settings import MIB, settings
from npu_xfer._tuning import machine_key
from npu_xfer.errors import AclError, LibraryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from npu_xfer._cann.runtime import Runtime

__all__ = ["main"]

PINNED_NBYTES = 64 * MIB
LINK_NBYTES = 16 * MIB
_SAMPLES = 5


class _Teller:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def tell(self, **line: Any) -> None:
        os.write(self._fd, (json.dumps(line) + "\n").encode())

    def stage(self, name: str, work: Callable[[], dict[str, Any]], device: int | None = None) -> bool:
        """Runs one step; False when it failed."""
        self.tell(stage=name, device=device)
        try:
            done = work()
        except Exception as error:
            self.tell(stage=name, device=device, error=_describe(error))
            return False
        self.tell(stage=name, device=device, ok=done)
        return True


def _describe(error: Exception) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type(error).__name__, "text": str(error)}
    if isinstance(error, LibraryError):
        facts |= {"text": error.summary, "candidates": [list(pair) for pair in error.candidates]}
    if isinstance(error, AclError):
        facts |= {"call": error.call, "code": error.code, "name": error.name}
    return facts


def _library() -> dict[str, Any]:
    located = located_library(settings())
    return {
        **dataclasses.asdict(located.info),
        "candidates": [dataclasses.asdict(candidate) for candidate in located.tried],
    }


def _versions(runtime: Runtime) -> dict[str, Any]:
    return {"versions": runtime.versions(), "chip": runtime.soc_name()}


def _devices(runtime: Runtime) -> dict[str, Any]:
    # Asked first: without a device the run mode cannot be told either.
    count = runtime.device_count()
    return {"count": count, "run_mode": runtime.run_mode().name.lower()}


def _open(runtime: Runtime, device: int) -> dict[str, Any]:
    started = time.perf_counter()
    runtime.set_device(device)
    opened_s = time.perf_counter() - started
    facts: dict[str, Any] = {"opened_s": round(opened_s, 3)}
    if runtime.library.has("aclrtQueryDeviceStatus"):
        facts["healthy"] = runtime.device_is_healthy(device)
    if runtime.library.has("aclrtDeviceGetPCIBusId"):
        with contextlib.suppress(AclError):
            facts["pci"] = runtime.device_pci_bus_id(device)
    with contextlib.suppress(AclError):
        memory = runtime.mem_info()
        facts |= {"free_nbytes": memory.free_nbytes, "total_nbytes": memory.total_nbytes}
    return facts


def _pinned(runtime: Runtime) -> dict[str, Any]:
    started = time.perf_counter()
    address = runtime.malloc_host(PINNED_NBYTES)
    took_s = time.perf_counter() - started
    try:
        ctypes.memset(address, 0x5A, PINNED_NBYTES)  # a limit on memory may strike only here
    finally:
        runtime.free_host(address)
    return {"nbytes": PINNED_NBYTES, "took_s": round(took_s, 4)}


def _array(address: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * LINK_NBYTES).from_address(address))


def _reset(runtime: Runtime, device: int) -> dict[str, Any]:
    runtime.reset_device(device)
    return {}


def _link(runtime: Runtime) -> dict[str, Any]:
    """Copies a pattern to the device and back: rates, and the first byte that came back wrong."""
    with contextlib.ExitStack() as stack:
        src = runtime.malloc_host(LINK_NBYTES)
        stack.callback(runtime.free_host, src)
        dst = runtime.malloc_host(LINK_NBYTES)
        stack.callback(runtime.free_host, dst)
        middle = runtime.malloc(LINK_NBYTES)
        stack.callback(runtime.free, middle)
        stream = runtime.create_plain_stream()
        stack.callback(runtime.destroy_stream, stream)
        pattern = np.random.default_rng(os.getpid()).integers(0, 256, LINK_NBYTES, dtype=np.uint8)
        _array(src)[:] = pattern
        _array(dst)[:] = ~pattern

        def rate(to: int, source: int, kind: MemcpyKind) -> float:
            took = []
            for _ in range(_SAMPLES):
                started = time.perf_counter()
                runtime.memcpy_async(to, LINK_NBYTES, source, LINK_NBYTES, kind, stream)
                runtime.synchronize_stream(stream)
                took.append(time.perf_counter() - started)
            return LINK_NBYTES / max(statistics.median(took), 1e-9)

        h2d = rate(middle, src, MemcpyKind.HOST_TO_DEVICE)
        d2h = rate(dst, middle, MemcpyKind.DEVICE_TO_HOST)
        wrong = np.flatnonzero(_array(dst) != pattern)
        return {
            "nbytes": LINK_NBYTES,
            "h2d_bytes_per_s": round(h2d),
            "d2h_bytes_per_s": round(d2h),
            "n_wrong": len(wrong),
            "first_wrong": int(wrong[0]) if len(wrong) else None,
        }


def _device(teller: _Teller, runtime: Runtime, device: int) -> None:
    if not teller.stage("open", lambda: _open(runtime, device), device):
        return
    if teller.stage("pinned", lambda: _pinned(runtime), device):
        teller.stage("link", lambda: _link(runtime), device)
    teller.stage("reset", lambda: _reset(runtime, device), device)


def main() -> None:
    """Everything, in the order in which one step needs the other."""
    teller = _Teller(os.dup(1))
    os.dup2(2, 1)
    if not teller.stage("library", _library):
        return
    runtime = open_runtime(settings())
    teller.stage("versions", lambda: _versions(runtime))
    teller.stage("tuning", lambda: dataclasses.asdict(machine_key(settings())))
    if not teller.stage("init", lambda: {"ours": runtime.init()}):
        return
    found: dict[str, Any] = {}
    if teller.stage("devices", lambda: found.update(_devices(runtime)) or found):
        for device in range(found["count"]):
            _device(teller, runtime, device)
    teller.stage("finalize", lambda: {"done": runtime.finalize()})
