"""Taking samples: contenders in turn, warmed up, with the garbage collector off, and verified after each."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import inspect
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bench._bare import Bare, Unavailable, bare
from bench._model import Row
from npu_xfer import sim
from npu_xfer._library import choose_library, open_runtime
from npu_xfer._settings import KIB, MIB
from npu_xfer.cli._pattern import fill, first_difference

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from npu_xfer._cann.runtime import Runtime

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]
    Contender = Callable[[], Awaitable[float] | float]
    Check = Callable[[], Awaitable[str | None] | str | None]

SCALES = ("tiny", "quick", "full")

T = TypeVar("T")


class Waived(Exception):
    """This case, or this row, cannot be measured here; the text says why."""


@dataclass
class Context:
    """What a case is given, and where it puts its rows."""

    case: str
    scale: str
    rows: list[Row] = field(default_factory=list)

    def pick(self, *, tiny: T, quick: T, full: T | None = None) -> T:
        """The value of this scale; full is as quick unless given."""
        if self.scale == "tiny":
            return tiny
        return full if self.scale == "full" and full is not None else quick

    @property
    def samples(self) -> int:
        return self.pick(tiny=2, quick=5, full=9)

    def row(self, setting: str, who: str, values: Iterable[float], **more: Any) -> Row:
        row = Row(self.case, setting, who, values=list(values), **more)
        self.rows.append(row)
        return row

    def limit(self, setting: str, who: str, value: float, **more: Any) -> Row:
        """A row that is computed, not measured: the link, or a count."""
        return self.row(setting, who, [value], **more)

    def waive(self, setting: str, who: str, why: str) -> Row:
        return self.row(setting, who, [], waived=why)

    def bare(self) -> Bare | None:
        """The C baseline, or None where there is none; the first call says why in a row."""
        try:
            return bare(choose_library().path)
        except Unavailable as error:
            if not any(row.who == "bare" and row.waived for row in self.rows):
                self.waive("all", "bare", str(error))
            return None

    @contextlib.contextmanager
    def link(self, **named: Any) -> Iterator[None]:
        """The simulator's link inside the block. Waives the case on hardware, whose link is what it is."""
        self.need_simulator()
        with sim.set_link(sim.Link(), **named):
            yield

    @contextlib.contextmanager
    def chip_link(self, **named: Any) -> Iterator[None]:
        """The link of an A2 board as the simulator's profile assumes it: 25 GB/s each way, 8 us, 1.9 us."""
        with self.link(
            **{
                "h2d_bytes_per_s": 25_000_000_000,
                "d2h_bytes_per_s": 25_000_000_000,
                "latency_ns": 8000,
                "submit_ns": 1900,
                **named,
            }
        ):
            yield

    def need_simulator(self) -> None:
        if not sim.is_active():
            raise Waived("needs the simulator's control of its link, engines or clock")

    async def compare(
        self,
        setting: str,
        contenders: dict[str, Contender],
        *,
        n: int,
        nbytes: int,
        checks: dict[str, Check] | None = None,
        note: str = "",
        warm_up: int = 1,
    ) -> dict[str, Row]:
        """Rows in us for one transfer. Each contender moves n transfers and returns its seconds.

        `checks` run after every sample of their contender and say what is wrong with the bytes.
        """
        rows = {who: self.row(setting, who, [], n=n, nbytes=nbytes, note=note) for who in contenders}
        for sample in range(-warm_up, self.samples):
            for who, contender in contenders.items():
                row = rows[who]
                if row.failure is not None:
                    continue
                seconds = await timed(contender)
                check = (checks or {}).get(who)
                if check is not None:
                    found = check()
                    row.failure = await found if inspect.isawaitable(found) else found
                    row.verified += sample >= 0 and row.failure is None
                if sample >= 0:
                    row.values.append(seconds / n * 1e6)
        return rows


async def timed(contender: Contender) -> float:
    """The seconds that one run of it says, with the garbage collector off meanwhile."""
    gc.collect()
    gc.disable()
    try:
        seconds = contender()
        return await seconds if inspect.isawaitable(seconds) else seconds
    finally:
        gc.enable()


async def spread(n: int, n_tasks: int, one: Callable[[], Awaitable[object]]) -> float:
    """Seconds for n calls of `one`, awaited one after the other in each of n_tasks tasks."""

    async def task(share: int) -> None:
        for _ in range(share):
            await one()

    start = time.perf_counter()
    await asyncio.gather(*(task(n // n_tasks + (i < n % n_tasks)) for i in range(n_tasks)))
    return time.perf_counter() - start


class Ground:
    """Runtime memory and streams for baselines, of the calling thread's device 0, until the process ends."""

    def __init__(self) -> None:
        self.runtime: Runtime = open_runtime()
        self.runtime.init()
        self.runtime.set_device(0)

    def device(self, nbytes: int) -> int:
        """Address of new device memory."""
        return self.runtime.malloc(nbytes)

    def pinned(self, nbytes: int) -> int:
        """Address of new page-locked memory, touched."""
        address = self.runtime.malloc_host(nbytes)
        self.view(address, nbytes)[:] = 1
        return address

    @staticmethod
    def view(address: int, nbytes: int) -> Bytes:
        """The bytes at an address of host memory."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def pattern(nbytes: int, seed: int = 1) -> Bytes:
    """An ordinary array whose bytes tell place and seed."""
    array = np.empty(nbytes, np.uint8)
    fill(array, seed)
    return array


def difference(array: Bytes, seed: int = 1) -> str | None:
    place = first_difference(array, seed)
    return None if place is None else f"the byte at {place} of {array.nbytes} is wrong"


def text_of(nbytes: int) -> str:
    """A size without blanks, for the names of rows."""
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes % unit == 0 and nbytes >= unit:
            return f"{nbytes // unit}{name}"
    return f"{nbytes}B"
