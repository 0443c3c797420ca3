"""How fast simulated devices are."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from npu_xfer.sim._binding import MAX_DEVICES, CLink, accept, control, device_number

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Link", "LinkChange", "get_link", "set_link"]


@dataclass(frozen=True, slots=True)
class Link:
    """How fast a simulated device is. The default takes no time at all."""

    h2d_bytes_per_s: int = 0
    """Host to device, in bytes per second; 0 for no time."""

    d2h_bytes_per_s: int = 0
    """Device to host, in bytes per second; 0 for no time."""

    d2d_bytes_per_s: int = 0
    """Inside the device, in bytes per second; 0 for no time."""

    latency_ns: int = 0
    """Added to each copy, on the engine."""

    submit_ns: int = 0
    """Time that the submitting thread spends in each asynchronous call."""

    move_bytes: bool = True
    """False takes the time and moves nothing, for measurements only."""


def _to_c(link: Link) -> CLink:
    for field in ("h2d_bytes_per_s", "d2h_bytes_per_s", "d2d_bytes_per_s", "latency_ns", "submit_ns"):
        if not 0 <= getattr(link, field) < 2**64:
            raise ValueError(f"{field} must be from 0 to 2**64 - 1, got {getattr(link, field)}")
    return CLink(
        h2d_bytes_per_s=link.h2d_bytes_per_s,
        d2h_bytes_per_s=link.d2h_bytes_per_s,
        d2d_bytes_per_s=link.d2d_bytes_per_s,
        latency_ns=link.latency_ns,
        submit_ns=link.submit_ns,
        move_bytes=int(link.move_bytes),
    )


def _get_link(device: int) -> Link | None:
    found = CLink()
    if control().get_link(device, ctypes.byref(found)) < 0:
        return None
    return Link(
        found.h2d_bytes_per_s,
        found.d2h_bytes_per_s,
        found.d2d_bytes_per_s,
        found.latency_ns,
        found.submit_ns,
        bool(found.move_bytes),
    )


def get_link(device: int = 0) -> Link:
    """The link of one device. Raises ValueError for a device that does not exist."""
    link = _get_link(device_number(device))
    if link is None:
        raise ValueError(f"the simulator has no device {device}")
    return link


class LinkChange:
    """A link that was set already. `restore`, or the end of its with block, brings the earlier one back."""

    def __init__(self, link: Link, before: dict[int, Link]) -> None:
        self.link = link
        self._before: dict[int, Link] | None = before

    def restore(self) -> None:
        """Brings back the links as they were. A second time does nothing."""
        before, self._before = self._before, None
        for device, link in (before or {}).items():
            accept(control().set_link(device, ctypes.byref(_to_c(link))), f"the link of device {device}")

    def __enter__(self) -> Link:
        return self.link

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()


def set_link(
    link: Link | None = None,
    *,
    device: int | None = None,
    h2d_bytes_per_s: int | None = None,
    d2h_bytes_per_s: int | None = None,
    d2d_bytes_per_s: int | None = None,
    latency_ns: int | None = None,
    submit_ns: int | None = None,
    move_bytes: bool | None = None,
) -> LinkChange:
    """Sets how fast devices are, from now on; copies that run already keep their time.

    `link` None starts from the present link (of device 0 for all devices); each named value replaces a field.
    The result may be used in a with statement, which restores the earlier links at its end.
    """
    number = device_number(device)
    base = link if link is not None else get_link(device or 0)
    named = {
        "h2d_bytes_per_s": h2d_bytes_per_s,
        "d2h_bytes_per_s": d2h_bytes_per_s,
        "d2d_bytes_per_s": d2d_bytes_per_s,
        "latency_ns": latency_ns,
        "submit_ns": submit_ns,
        "move_bytes": move_bytes,
    }
    changes: dict[str, Any] = {field: value for field, value in named.items() if value is not None}
    wanted = replace(base, **changes)
    before: dict[int, Link] = {}
    if device is None:
        # First the one for all, which also serves devices that come later, then each device's own.
        before[-1] = get_link(0)
        for each in range(MAX_DEVICES):
            found = _get_link(each)
            if found is None:
                break
            before[each] = found
    else:
        before[device] = get_link(device)
    accept(control().set_link(number, ctypes.byref(_to_c(wanted))), f"the link of device {device}")
    return LinkChange(wanted, before)
