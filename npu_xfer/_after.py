"""What ``after=`` and ``order_before`` take: streams and events of other libraries, and transfers."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from npu_xfer._types import RawEvent
from npu_xfer.errors import InvalidTransfer
from npu_xfer.transfer import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Waits", "stream_address", "waits_of"]

_ACCEPTED = (
    "accepted: the address of an ACL stream (int), an object with `npu_stream` (torch.npu.Stream) or with "
    "`npu_event` (a recorded torch.npu.Event), npu_xfer.RawEvent(address), a transfer of this scheduler, "
    "or a list of these"
)


class Waits:
    """Sorted by kind: streams whose work so far, events and transfers that are to be over first."""

    __slots__ = ("events", "handles", "streams")

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.events: list[int] = []
        self.handles: list[Any] = []  # what the engine knows the transfers by


def _check_device(value: object, device: int, name: str) -> None:
    """Refuses an object that says that it belongs to another device."""
    index = getattr(getattr(value, "device", None), "index", None)
    if isinstance(index, int) and index != device:
        raise InvalidTransfer(
            f"{name} is {type(value).__name__} of device {index}, this scheduler copies for device {device}",
            remedy="pass a stream of this device, or use the scheduler of that one",
        )


def stream_address(value: object, device: int, name: str) -> int:
    """The ACL stream that an int or an object with `npu_stream` means; 0 is the default stream.

    (Reading `npu_stream` of torch_npu also flushes its own queue to the stream.)
    """
    raw: Any = getattr(value, "npu_stream", value)
    try:
        address = operator.index(raw)
    except TypeError:
        address = -1
    if isinstance(raw, bool) or not 0 <= address < 1 << 64:
        raise InvalidTransfer(
            f"{name} is {value!r}, which is no stream",
            remedy="pass the address of an ACL stream (int), or an object with `npu_stream`",
        )
    _check_device(value, device, name)
    return address


def _event_address(value: object, device: int) -> int:
    address: int = value.address if isinstance(value, RawEvent) else operator.index(value.npu_event)  # type: ignore[attr-defined]  # the caller has looked
    if address == 0:
        raise InvalidTransfer("after has an event that was never recorded", remedy="record it first")
    _check_device(value, device, "after")
    return address


def waits_of(after: object, device: int, is_ours: Callable[[Handle[Any]], bool]) -> Waits:
    """Sorts what was given as ``after``; raises InvalidTransfer, and makes no runtime call."""
    waits = Waits()
    for item in after if isinstance(after, (list, tuple)) else [after]:
        if isinstance(item, Handle):
            if not is_ours(item):
                raise InvalidTransfer(
                    "after has a transfer of another scheduler, whose end this one does not see",
                    remedy="await that transfer first",
                )
            waits.handles.append(item._ticket())
        elif isinstance(item, RawEvent) or hasattr(item, "npu_event"):
            waits.events.append(_event_address(item, device))
        elif hasattr(item, "npu_stream") or hasattr(item, "__index__"):
            waits.streams.append(stream_address(item, device, "after"))
        else:
            raise InvalidTransfer(f"after has {item!r}, which nothing can wait for", remedy=_ACCEPTED)
    return waits
