"""Measuring copies. Nothing here draws: `run` returns records, and calls back between cases.

A case is one direction, kind of host memory, size and concurrency. Each of its workers owns one host array
and one device array and copies between them again and again. A sample is the time in which all workers make
the same number of copies; filling and checking happen outside of it.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np

from npu_xfer._settings import KIB, MIB, format_nbytes
from npu_xfer._types import Direction
from npu_xfer.cli._common import exact_nbytes, first_cause, run_in_loop
from npu_xfer.cli._pattern import fill, first_difference
from npu_xfer.errors import EngineDead, XferError
from npu_xfer.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from npu_xfer._types import LaneStats
    from npu_xfer.device_array import DeviceArray

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

__all__ = ["DEFAULT_SIZES", "MEMORIES", "Case", "Plan", "Result", "run"]

DEFAULT_SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
MEMORIES = ("pinned", "pageable")

_LEAST_SAMPLES = 3  # a case that is far over its time budget still takes these
_WARM_UP_S = 0.02  # warm-up rounds double until one takes this long
_MOST_WARM_UPS = 12
_POISON = 0xA5


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured."""

    direction: Direction
    memory: str
    """Of the host array: "pinned" (from empty_pinned) or "pageable"."""

    nbytes: int
    """Of one copy."""

    concurrency: int
    """Copies under way at once, as asked for."""

    running: int
    """Copies under way at once: fewer than `concurrency` where the arrays would take too much memory."""

    def __str__(self) -> str:
        return f"{self.direction} {self.memory} {exact_nbytes(self.nbytes)} x{self.concurrency}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure and for how long."""

    sizes: tuple[int, ...] = DEFAULT_SIZES
    concurrency: tuple[int, ...] = (1, 64)
    seconds: float = 0.4
    """Time for the samples of one case; a case takes at least 3 samples of one copy for each worker."""

    bytes_per_case: int | None = None
    """At most this many bytes copied by the samples of one case; None for no limit."""

    samples: int = 7
    memory_nbytes: int = 512 * MIB
    """At most this much memory in the host arrays of a case."""

    verify: bool = False

    def cases(self) -> list[Case]:
        """Every combination. Raises ValueError for a size that does not fit in the memory."""
        too_large = [nbytes for nbytes in self.sizes if nbytes > self.memory_nbytes]
        if too_large:
            raise ValueError(
                f"one array of {format_nbytes(too_large[0])} is more than the limit of "
                f"{format_nbytes(self.memory_nbytes)} for host arrays; raise the limit with --memory, "
                "or pick smaller --sizes"
            )
        return [
            Case(direction, memory, nbytes, concurrency, min(concurrency, self.memory_nbytes // nbytes))
            for direction in Direction
            for memory in MEMORIES
            for nbytes in self.sizes
            for concurrency in self.concurrency
        ]


@dataclass(slots=True)
class Result:
    """One case's figures."""

    case: Case
    path: str = ""
    """How the bytes travelled: "direct" or "staged"."""

    copies_per_sample: int = 0
    samples_s: list[float] = field(default_factory=list)
    """Duration of each sample, in seconds."""

    verified_samples: int = 0
    failure: str | None = None
    """A content difference or a failed copy."""

    def gb_per_s(self) -> list[float]:
        """Of each sample, in 10**9 bytes per second."""
        moved = self.case.nbytes * self.copies_per_sample
        return [moved / seconds / 1e9 for seconds in self.samples_s]

    def us_per_copy(self) -> float | None:
        """Median time of a sample divided by its copies, in microseconds."""
        if not self.samples_s:
            return None
        return statistics.median(self.samples_s) / self.copies_per_sample * 1e6


class _Workers:
    """The arrays of one case and the copies between them."""

    def __init__(self, xfer: Scheduler, case: Case) -> None:
        self._xfer = xfer
        self._case = case
        self._to_device = case.direction is Direction.H2D
        self._hosts: list[Bytes] = []
        self._on_device: list[DeviceArray] = []
        self._seed = 0  # of worker 0; the others count on from it

    async def prepare(self) -> None:
        """Allocates and fills every array, and touches every page."""
        for worker in range(self._case.running):
            nbytes = self._case.nbytes
            host: Bytes = (
                self._xfer.empty_pinned(nbytes, np.uint8)
                if self._case.memory == "pinned"
                else np.empty(nbytes, np.uint8)
            )
            fill(host, worker)
            self._hosts.append(host)
            self._on_device.append(await self._xfer.to_device(host))

    async def timed(self, rounds: int) -> float:
        """Seconds in which each worker makes `rounds` copies."""
        copy = self._upload if self._to_device else self._download
        gc.disable()
        try:
            start_ns = time.perf_counter_ns()
            if self._case.running == 1:
                await copy(0, rounds)
            else:
                async with anyio.create_task_group() as group:
                    for worker in range(self._case.running):
                        group.start_soon(copy, worker, rounds)
            return (time.perf_counter_ns() - start_ns) / 1e9
        finally:
            gc.enable()

    async def _upload(self, worker: int, rounds: int) -> None:
        host, on_device, to_device = self._hosts[worker], self._on_device[worker], self._xfer.to_device
        for _ in range(rounds):
            await to_device(host, out=on_device)

    async def _download(self, worker: int, rounds: int) -> None:
        host, on_device, to_host = self._hosts[worker], self._on_device[worker], self._xfer.to_host
        for _ in range(rounds):
            await to_host(on_device, out=host)

    def soil(self) -> None:
        """Makes sure that the destinations do not already hold what the next sample copies."""
        if self._to_device:
            self._seed += self._case.running
        for worker, host in enumerate(self._hosts):
            if self._to_device:
                fill(host, self._seed + worker)
            else:
                host.fill(_POISON)

    async def check(self) -> str | None:
        """Compares every destination with its pattern; says where the first difference is."""
        for worker, host in enumerate(self._hosts):
            arrived = await self._xfer.to_host(self._on_device[worker]) if self._to_device else host
            place = first_difference(arrived, self._seed + worker)
            if place is not None:
                return f"worker {worker}: the byte at {place} of {self._case.nbytes} is wrong"
        return None


async def _warm_up(workers: _Workers) -> float:
    """Seconds for one round of copies, once everything is warm."""
    rounds = 1
    for _ in range(_MOST_WARM_UPS):
        seconds = await workers.timed(rounds)
        if seconds >= _WARM_UP_S:
            break
        rounds *= 2
    return max(seconds / rounds, 1e-9)


def _rounds(plan: Plan, case: Case, seconds_per_round: float) -> int:
    rounds = plan.seconds / plan.samples / seconds_per_round
    if plan.bytes_per_case is not None:
        rounds = min(rounds, plan.bytes_per_case / plan.samples / (case.nbytes * case.running))
    return max(1, int(rounds))


def _paths(before: LaneStats, after: LaneStats) -> str:
    used = [name for name in ("direct", "staged") if getattr(after, name) > getattr(before, name)]
    return "+".join(used)


async def _measure(xfer: Scheduler, plan: Plan, result: Result) -> None:
    case = result.case
    lane = str(case.direction)
    workers = _Workers(xfer, case)
    await workers.prepare()
    gc.collect()  # what is left of earlier cases, so that it can stay off inside samples
    before = getattr(xfer.stats(), lane)
    rounds = _rounds(plan, case, await _warm_up(workers))
    result.copies_per_sample = rounds * case.running
    for done in range(1, plan.samples + 1):
        if plan.verify:
            workers.soil()
        result.samples_s.append(await workers.timed(rounds))
        if plan.verify:
            result.failure = await workers.check()
            if result.failure is not None:
                break
            result.verified_samples += 1
        if done >= _LEAST_SAMPLES and sum(result.samples_s) > 2 * plan.seconds:
            break
    result.path = _paths(before, getattr(xfer.stats(), lane))


async def _run(
    plan: Plan,
    device: int,
    on_case: Callable[[Case], None],
    on_result: Callable[[Result], None],
) -> None:
    async with Scheduler(device) as xfer:
        for case in plan.cases():
            on_case(case)
            result = Result(case)
            try:
                await _measure(xfer, plan, result)
            except Exception as error:
                cause = first_cause(error)
                if not isinstance(cause, XferError):
                    raise
                result.failure = str(cause)
                on_result(result)
                if isinstance(cause, EngineDead):
                    break
            else:
                on_result(result)


def run(
    plan: Plan,
    *,
    device: int,
    loop: str,
    on_case: Callable[[Case], None],
    on_result: Callable[[Result], None],
) -> None:
    """Measures every case of the plan, in order, in a new event loop.

    `on_case` is called before each case, `on_result` after it, so that an interrupted run keeps what it
    finished. A case whose copies fail or arrive wrong says so in its result, and the next one is tried.
    Raises XferError when the device cannot be opened, ValueError for a loop that is not installed.
    """
    run_in_loop(loop, functools.partial(_run, plan, device, on_case, on_result))
