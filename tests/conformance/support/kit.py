"""What a test works with: streams, events and blocks that are released and checked at its end."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_xfer import sim

if TYPE_CHECKING:
    from conformance.support.face import Acl
    from conformance.support.profiles import Profile

H2H, H2D, D2H, D2D, DEFAULT, BUF = range(6)
SYNC, TIME_LINE = 0x1, 0x8
WAIT_MS = 10_000
"""How long a wait that must succeed may take."""

_Handle = ctypes.c_void_p


def content(nbytes: int, seed: int) -> bytes:
    """Bytes that differ at every place and for every seed."""
    return np.random.default_rng([seed, nbytes]).bytes(nbytes)


@dataclass(slots=True)
class Block:
    """Memory of one place: host, device or pageable."""

    place: str
    address: int
    nbytes: int
    keep: Any = None

    def at(self, offset: int) -> int:
        return self.address + offset


class Kit:
    """Makes objects for one test on one device. `close` releases them and checks each code."""

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self.streams: list[int] = []
        self.events: list[tuple[int, str]] = []
        self.blocks: list[Block] = []
        self.holds: list[sim.Hold] = []

    @property
    def profile(self) -> Profile:
        return self.acl.profile

    # ---- objects ----

    def stream(self) -> int:
        stream: int = self.acl.out(_Handle, "aclrtCreateStream")
        self.streams.append(stream)
        return stream

    def event(self, flag: int = SYNC) -> int:
        return self._event("aclrtCreateEventWithFlag", flag)

    def plain_event(self) -> int:
        return self._event("aclrtCreateEvent")

    def new_event(self, flag: int = SYNC) -> int:
        return self._event("aclrtCreateEventExWithFlag", flag)

    def _event(self, name: str, *args: int) -> int:
        event: int = self.acl.out(_Handle, name, *args)
        self.events.append((event, name))
        return event

    def forget(self, *handles: int) -> None:
        """The test itself has destroyed these."""
        self.streams = [each for each in self.streams if each not in handles]
        self.events = [each for each in self.events if each[0] not in handles]
        self.blocks = [each for each in self.blocks if each.address not in handles]

    # ---- memory ----

    def pinned(self, nbytes: int, seed: int | None = None) -> Block:
        address = self.acl.out(_Handle, "aclrtMallocHost", nbytes)
        return self._filled(Block("host", address, nbytes), seed)

    def device(self, nbytes: int, seed: int | None = None) -> Block:
        address = self.acl.out(_Handle, "aclrtMalloc", nbytes, 0)
        return self._filled(Block("device", address, nbytes), seed)

    def pageable(self, nbytes: int, seed: int | None = None) -> Block:
        buffer = ctypes.create_string_buffer(nbytes + 64)
        address = (ctypes.addressof(buffer) + 63) // 64 * 64
        return self._filled(Block("pageable", address, nbytes, buffer), seed, own=False)

    def place(self, name: str, nbytes: int, seed: int | None = None) -> Block:
        """A block by the name of its place."""
        make = {"host": self.pinned, "device": self.device, "pageable": self.pageable}[name]
        return make(nbytes, seed)

    def _filled(self, block: Block, seed: int | None, *, own: bool = True) -> Block:
        if own:
            self.blocks.append(block)
        self.write(block, bytes(block.nbytes) if seed is None else content(block.nbytes, seed))
        return block

    def write(self, block: Block, data: bytes) -> None:
        if block.place == "device":
            source = ctypes.create_string_buffer(data, len(data))
            assert self.acl.aclrtMemcpy(block.address, block.nbytes, source, len(data), H2D) == 0
        else:
            ctypes.memmove(block.address, data, len(data))

    def read(self, block: Block) -> bytes:
        if block.place != "device":
            return ctypes.string_at(block.address, block.nbytes)
        target = ctypes.create_string_buffer(block.nbytes)
        assert self.acl.aclrtMemcpy(target, block.nbytes, block.address, block.nbytes, D2H) == 0
        return target.raw

    # ---- actions ----

    def copy(self, dst: Block, src: Block, kind: int, stream: int | None, nbytes: int | None = None) -> int:
        """aclrtMemcpyAsync of the whole blocks."""
        count = min(dst.nbytes, src.nbytes) if nbytes is None else nbytes
        code: int = self.acl.aclrtMemcpyAsync(dst.address, dst.nbytes, src.address, count, kind, stream)
        return code

    def sync(self, stream: int | None, timeout_ms: int = WAIT_MS) -> int:
        """Waits with a limit, so that no test hangs."""
        code: int = self.acl.aclrtSynchronizeStreamWithTimeout(stream, timeout_ms)
        return code

    def done(self, stream: int | None) -> bool:
        status: int = self.acl.out_last(ctypes.c_int, "aclrtStreamQuery", stream)
        assert status in (0, 1)
        return status == 0

    def recorded(self, event: int) -> bool:
        status: int = self.acl.out_last(ctypes.c_int, "aclrtQueryEventStatus", event)
        assert status in (0, 1)
        return status == 1

    def hold(self, direction: str = "h2d", device: int = 0) -> sim.Hold:
        """Stops an engine until released or the end of the test. Needs control. On the chip itself all
        copies go through one engine."""
        if self.profile.form == "rc":
            direction = "d2d"
        hold = sim.hold_engine(device, direction)  # type: ignore[arg-type]  # a direction by its name
        self.holds.append(hold)
        return hold

    def close(self) -> None:
        for hold in self.holds:
            hold.release()
        bad = [
            (name, code)
            for name, handles in (
                ("aclrtDestroyStreamForce", self.streams),
                ("aclrtDestroyEvent", [event for event, _ in self.events]),
                ("aclrtFreeHost", [block.address for block in self.blocks if block.place == "host"]),
                ("aclrtFree", [block.address for block in self.blocks if block.place == "device"]),
            )
            for handle in handles
            if (code := getattr(self.acl, name)(handle))
        ]
        assert bad == []
