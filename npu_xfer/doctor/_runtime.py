"""What the runtime did when it was asked: start, open each device, page-locked memory, copies both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_xfer._settings import format_nbytes
from npu_xfer.doctor._findings import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed, Stage

__all__ = ["check_link", "check_open", "check_pinned", "check_start"]


def check_start(host: Host, probed: Probed) -> Iterator[Finding]:
    """aclInit, and the count of devices."""
    for name, told in (("init", "runtime-init-failed"), ("devices", "runtime-devices-failed")):
        error = probed.error(name)
        if error:
            yield finding(told, error=error["text"], code=error.get("code"))
    for name in ("versions", "reset", "finalize"):
        error = probed.error(name)
        if error:
            yield finding("runtime-call-failed", step=name, error=error["text"], code=error.get("code"))


def _failed(name: str, stage: Stage) -> Finding | None:
    if not stage.error:
        return None
    return finding(name, device=stage.device, error=stage.error["text"], code=stage.error.get("code"))


def check_open(host: Host, probed: Probed) -> Iterator[Finding]:
    """Each device: whether it opens and is healthy."""
    for stage in probed.of_devices("open"):
        failed = _failed("device-open-failed", stage)
        if failed:
            yield failed
            continue
        found = dict(stage.ok or {})
        if found.get("healthy") is False:
            yield finding("device-unhealthy", device=stage.device)
        total = found.get("total_nbytes")
        memory = "memory not told"
        if total is not None:
            memory = f"{format_nbytes(found['free_nbytes'])} of {format_nbytes(total)} free"
        yield finding("device-open", device=stage.device, memory=memory, **found)


def check_pinned(host: Host, probed: Probed) -> Iterator[Finding]:
    """Page-locked memory."""
    for stage in probed.of_devices("pinned"):
        failed = _failed("pinned-failed", stage)
        if failed:
            yield failed
            continue
        found = dict(stage.ok or {})
        yield finding("pinned-ok", device=stage.device, size=format_nbytes(found["nbytes"]), **found)


def check_link(host: Host, probed: Probed) -> Iterator[Finding]:
    """A pattern to the device and back."""
    for stage in probed.of_devices("link"):
        failed = _failed("link-failed", stage)
        if failed:
            yield failed
            continue
        found = dict(stage.ok or {})
        if found["n_wrong"]:
            yield finding("link-data-wrong", device=stage.device, **found)
            continue
        note = ""
        if probed.simulated:
            note = " SIMULATOR: the rates say nothing about an NPU."
        yield finding(
            "link-ok",
            device=stage.device,
            up=f"{found['h2d_bytes_per_s'] / 1e9:.2f} GB/s",
            down=f"{found['d2h_bytes_per_s'] / 1e9:.2f} GB/s",
            size=format_nbytes(found["nbytes"]),
            note=note,
            **found,
        )
