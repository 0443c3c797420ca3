"""`npu-xfer info`: which ACL library is used and why, what it can do, and which devices it shows."""

from __future__ import annotations

import dataclasses
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

import npu_xfer
from npu_xfer._cann.abi import PROTOTYPES
from npu_xfer._library import located_library, open_runtime
from npu_xfer._settings import format_nbytes
from npu_xfer.blocking import BlockingScheduler
from npu_xfer.cli._common import NOTICE
from npu_xfer.errors import XferError

if TYPE_CHECKING:
    from npu_xfer._cann.library import Library
    from npu_xfer._cann.runtime import Runtime
    from npu_xfer.cli._common import Screen

__all__ = ["Capability", "DeviceInfo", "Report", "collect", "draw"]


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that only some ACL libraries can do."""

    text: str
    available: bool | None
    """None when it was not tried."""

    why: str
    """What that depends on."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device; the fields stay None where the runtime gave no answer."""

    device: int
    soc_name: str | None = None
    free_nbytes: int | None = None
    total_nbytes: int | None = None
    healthy: bool | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `info` tells."""

    npu_xfer: str
    python: str
    platform: str
    numpy: str
    simulated: bool
    notice: str | None
    path: str
    requested: str
    reason: str
    candidates: tuple[dict[str, Any], ...]
    versions: dict[str, str]
    devices: tuple[DeviceInfo, ...]
    capabilities: tuple[Capability, ...]
    missing_functions: dict[str, str]
    """Optional functions that the library lacks, each with the CANN release that has it."""

    error: str | None
    """Why the runtime could not be started or shows no device; None when it works."""

    tuning: str | None = None
    """Which tuning profile the engine took, or why none; None when no engine was opened."""


# What each optional function is good for; a row is available when the library has all functions named in it.
_BY_FUNCTION = (
    ("creates events that hold a hardware id only while recorded", ("aclrtCreateEventExWithFlag",)),
    ("waits for an event with a time limit", ("aclrtSynchronizeEventWithTimeout",)),
    ("tells where an address lives", ("aclrtPointerGetAttributes",)),
    ("tells the health of a device", ("aclrtQueryDeviceStatus",)),
    ("tells the version of its packages", ("aclsysGetVersionStr",)),
)


def collect(*, with_devices: bool = True) -> Report:
    """Loads the library and, `with_devices`, sets up each device for a moment.

    Raises LibraryError when no library can be used; a runtime or a device that does not work is part of the
    report instead.
    """
    located = located_library()
    runtime = open_runtime()
    versions: dict[str, str] = {}
    devices: tuple[DeviceInfo, ...] = ()
    error: str | None = None
    faults_known: bool | None = None
    tuning: str | None = None
    if with_devices:
        # The engine goes first: what it can do depends on whether it was the one that initialised ACL.
        engine, engine_error = _open_engine()
        try:
            faults_known = None if engine is None else engine._opened().native.faults_known
            tuning = None if engine is None else engine._opened().tuning
            versions, devices, error = _ask(runtime)
        finally:
            if engine is not None:
                engine.close()
        error = error or engine_error
    info = located.info
    return Report(
        npu_xfer=npu_xfer.__version__,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
        numpy=np.__version__,
        simulated=info.simulated,
        notice=NOTICE if info.simulated else None,
        path=info.path,
        requested=info.requested,
        tuning=tuning,
        reason=info.reason,
        candidates=tuple(dataclasses.asdict(candidate) for candidate in located.tried),
        versions=versions,
        devices=devices,
        capabilities=_capabilities(located.library, faults_known),
        missing_functions={name: PROTOTYPES[name].since for name in located.library.missing(must=False)},
        error=error,
    )


def _open_engine() -> tuple[BlockingScheduler | None, str | None]:
    scheduler = BlockingScheduler(0)
    try:
        scheduler.open()
    except XferError as error:
        return None, f"device 0 cannot be opened for transfers: {error}"
    return scheduler, None


def _ask(runtime: Runtime) -> tuple[dict[str, str], tuple[DeviceInfo, ...], str | None]:
    """Versions, devices, and what prevented them."""
    try:
        ours = runtime.init()
    except XferError as error:
        return {}, (), str(error)
    try:
        versions = runtime.versions()
        count = runtime.device_count()
        devices = tuple(_device(runtime, device) for device in range(count))
        return versions, devices, None if count else "the runtime shows no device"
    except XferError as error:
        return {}, (), str(error)
    finally:
        if ours:
            runtime.finalize()


def _device(runtime: Runtime, device: int) -> DeviceInfo:
    try:
        healthy = runtime.device_is_healthy(device) if runtime.library.has("aclrtQueryDeviceStatus") else None
        runtime.set_device(device)
        try:
            memory = runtime.mem_info()
            return DeviceInfo(
                device, runtime.soc_name(), memory.free_nbytes, memory.total_nbytes, healthy=healthy
            )
        finally:
            runtime.reset_device(device)
    except XferError as error:
        return DeviceInfo(device, error=str(error))


def _capabilities(library: Library, faults_known: bool | None) -> tuple[Capability, ...]:
    found = [
        Capability(
            "names each failed copy",
            faults_known,
            "else one failed copy makes the engine repeat its neighbours on the stream, one by one",
        )
    ]
    for text, names in _BY_FUNCTION:
        found.append(Capability(text, all(library.has(name) for name in names), ", ".join(names)))
    return tuple(found)


# ---- drawing ----


def draw(report: Report, screen: Screen) -> None:
    """Prints the facts and two short tables."""
    if report.notice:
        screen.say(report.notice, style="bold yellow")
        screen.out.print()
    versions = ", ".join(f"{name} {text}" for name, text in report.versions.items())
    asked = "auto (the default)" if report.requested == "auto" else f"{report.requested} (NPU_XFER_LIBRARY)"
    rows = (
        ("npu-xfer", f"{report.npu_xfer} ({report.python}, numpy {report.numpy})"),
        ("platform", report.platform),
        ("library", report.path),
        ("simulated", "yes" if report.simulated else "no"),
        ("asked for", asked),
        ("why", report.reason),
        ("versions", versions or "not told"),
        ("tuning", report.tuning or "not asked: no device was opened"),
    )
    screen.facts(rows, whole={"library"})
    if report.devices:
        screen.out.print()
        screen.show(_device_table(report))
    screen.out.print()
    screen.show(_capability_table(report))
    missing = ", ".join(f"{name} (CANN {since})" for name, since in report.missing_functions.items())
    screen.out.print()
    screen.say(f"Optional functions that this library lacks: {missing or 'none'}")


def _device_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("device", justify="right")
    table.add_column("soc")
    table.add_column("memory", justify="right")
    table.add_column("free", justify="right")
    table.add_column("state", overflow="fold")
    for device in report.devices:
        state = {True: "healthy", False: "not healthy", None: "no health report"}[device.healthy]
        table.add_row(
            str(device.device),
            device.soc_name or "-",
            "-" if device.total_nbytes is None else format_nbytes(device.total_nbytes),
            "-" if device.free_nbytes is None else format_nbytes(device.free_nbytes),
            device.error or state,
        )
    return table


def _capability_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("this library", no_wrap=True)
    table.add_column("")
    for capability in report.capabilities:
        word = {True: "yes", False: "no", None: "not tried"}[capability.available]
        table.add_row(capability.text, word)
    return table
