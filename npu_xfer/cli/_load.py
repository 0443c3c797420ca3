"""Moving every tensor of a file to the device and back, and comparing the bytes.

Tensors go in waves of a bounded number of bytes; one that is larger is cut into pieces. A wave is hashed on
the host, copied to the device, copied back, and hashed again, in this order, so that each direction is timed
alone and neither disk nor hashing is inside a figure. Nothing here draws.
"""

from __future__ import annotations

import functools
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import numpy as np

from npu_xfer.cli._common import run_in_loop
from npu_xfer.cli._sources import DEMO_NAME, Entry, UnreadableError, demo_entries, open_entries
from npu_xfer.errors import XferError
from npu_xfer.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from npu_xfer.device_array import DeviceArray

__all__ = ["FileReport", "TensorReport", "run"]


@dataclass(slots=True)
class TensorReport:
    """What happened to one tensor."""

    name: str
    dtype: str
    """As the file calls it."""

    shape: tuple[int, ...] = ()
    nbytes: int = 0
    sha256: str | None = None
    """Of the source's bytes, in C order."""

    sha256_back: str | None = None
    """Of the bytes that came back from the device."""

    failure: str | None = None
    failure_kind: str | None = None
    """What failures of the same kind share; None for one that is like no other."""

    @property
    def verified(self) -> bool:
        """Whether the bytes that came back are those that went."""
        return self.failure is None and self.sha256 is not None and self.sha256 == self.sha256_back


@dataclass(slots=True)
class FileReport:
    """What happened to one file."""

    name: str
    tensors: list[TensorReport] = field(default_factory=list)
    nbytes: int = 0
    """Bytes that went to the device and came back, equal or not."""

    h2d_s: float = 0.0
    d2h_s: float = 0.0
    failure: str | None = None
    """Why the file as a whole could not be read."""

    @property
    def verified(self) -> bool:
        """Whether every tensor came back equal."""
        return self.failure is None and all(tensor.verified for tensor in self.tensors)

    def failures(self) -> list[str]:
        """What went wrong, naming file and tensor: the first of each kind whole, of the others the number."""
        found = [f"{self.name}: {self.failure}"] if self.failure is not None else []
        kinds: dict[str, list[TensorReport]] = {}
        for tensor in self.tensors:
            if not tensor.verified:
                kinds.setdefault(tensor.failure_kind or f"only {tensor.name!r}", []).append(tensor)
        for first, *others in kinds.values():
            found.append(f"{self.name}: tensor {first.name!r}: {first.failure or 'not verified'}")
            if others:
                some = "1 more tensor" if len(others) == 1 else f"{len(others)} more tensors"
                found.append(f"{self.name}: and {some} failed in the same way; --json FILE lists them all")
        return found


class _Tensor:
    """A report in the making, with its two running hashes."""

    def __init__(self, report: TensorReport) -> None:
        self.report = report
        self.sent = hashlib.sha256()
        self.back = hashlib.sha256()

    def fail(self, text: str, kind: str | None = None) -> None:
        """Keeps the first failure only."""
        if self.report.failure is None:
            self.report.failure, self.report.failure_kind = text, kind

    def finish(self) -> None:
        report = self.report
        report.sha256 = self.sent.hexdigest()
        report.sha256_back = self.back.hexdigest() if report.failure is None else None
        if report.failure is None and report.sha256 != report.sha256_back:
            report.failure = (
                f"the bytes differ after the trip: SHA-256 {report.sha256} went, "
                f"{report.sha256_back} came back"
            )


@dataclass(slots=True)
class _Piece:
    """What goes in one copy: a tensor, or a part of a large one."""

    tensor: _Tensor
    array: NDArray[Any]
    on_device: DeviceArray | None = None
    arrived: NDArray[Any] | None = None


def _update(digest: Any, array: NDArray[Any]) -> None:
    """Adds the array's bytes in C order."""
    if array.nbytes:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _pieces(array: NDArray[Any], window_nbytes: int) -> Iterator[NDArray[Any]]:
    """The array itself, or parts of at most `window_nbytes` of one whose memory has no gaps."""
    if array.nbytes <= window_nbytes or not (array.flags.c_contiguous or array.flags.f_contiguous):
        yield array
        return
    row = (array if array.flags.c_contiguous else array.T).reshape(-1)
    n_elements = max(1, window_nbytes // array.itemsize)
    for start in range(0, row.size, n_elements):
        yield row[start : start + n_elements]


class _Loader:
    """Moves one file after another through one scheduler."""

    def __init__(
        self, xfer: Scheduler, window_nbytes: int, in_flight: int, advance: Callable[[int], None]
    ) -> None:
        self._xfer = xfer
        self._window_nbytes = window_nbytes
        self._limiter = anyio.CapacityLimiter(in_flight)
        self._advance = advance
        self._wave: list[_Piece] = []
        self._wave_nbytes = 0

    async def move(self, entries: Sequence[Entry], report: FileReport) -> None:
        """Moves every entry and appends its verdict to the report."""
        tensors: list[_Tensor] = []
        for entry in entries:
            tensor = _Tensor(TensorReport(entry.name, entry.dtype))
            report.tensors.append(tensor.report)
            try:
                array = await anyio.to_thread.run_sync(entry.open)
            except UnreadableError as error:
                tensor.fail(str(error), f"unreadable: {error}")
                self._advance(entry.nbytes)
                continue
            tensor.report.shape = array.shape
            tensor.report.nbytes = array.nbytes
            tensor.report.dtype = entry.dtype or array.dtype.str
            tensors.append(tensor)
            await self._take(tensor, array, report)
        await self._flush(report)
        for tensor in tensors:
            tensor.finish()

    async def _take(self, tensor: _Tensor, array: NDArray[Any], report: FileReport) -> None:
        """Adds a tensor to the wave, and sends the wave off whenever it is full."""
        for part in _pieces(array, self._window_nbytes):
            if self._wave and self._wave_nbytes + part.nbytes > self._window_nbytes:
                await self._flush(report)
            self._wave.append(_Piece(tensor, part))
            self._wave_nbytes += part.nbytes

    async def _flush(self, report: FileReport) -> None:
        wave, self._wave, self._wave_nbytes = self._wave, [], 0
        await anyio.to_thread.run_sync(_hash_sources, wave)
        report.h2d_s += await self._each(wave, self._upload)
        report.d2h_s += await self._each(wave, self._download)
        await anyio.to_thread.run_sync(_hash_arrivals, wave)
        for piece in wave:
            if piece.arrived is not None:
                report.nbytes += piece.arrived.nbytes
            self._advance(piece.array.nbytes)

    async def _each(self, wave: list[_Piece], act: Callable[[_Piece], Any]) -> float:
        """Seconds for `act` on every piece, a few at once."""

        async def one(piece: _Piece) -> None:
            async with self._limiter:
                try:
                    await act(piece)
                except XferError as error:
                    piece.tensor.fail(str(error), f"{type(error).__name__} {error.code}")

        start_ns = time.perf_counter_ns()
        async with anyio.create_task_group() as group:
            for piece in wave:
                if piece.tensor.report.failure is None:
                    group.start_soon(one, piece)
        return (time.perf_counter_ns() - start_ns) / 1e9

    async def _upload(self, piece: _Piece) -> None:
        piece.on_device = await self._xfer.to_device(piece.array)

    async def _download(self, piece: _Piece) -> None:
        on_device, piece.on_device = piece.on_device, None
        if on_device is not None:
            piece.arrived = await self._xfer.to_host(on_device)


def _hash_sources(wave: list[_Piece]) -> None:
    for piece in wave:
        _update(piece.tensor.sent, piece.array)


def _hash_arrivals(wave: list[_Piece]) -> None:
    for piece in wave:
        arrived = piece.arrived
        if arrived is None:
            continue
        if (arrived.shape, arrived.dtype) != (piece.array.shape, piece.array.dtype):
            piece.tensor.fail(
                f"shape {piece.array.shape} and dtype {piece.array.dtype} went, "
                f"shape {arrived.shape} and dtype {arrived.dtype} came back"
            )
        _update(piece.tensor.back, arrived)


async def _move_file(loader: _Loader, path: Path, on_file: Callable[[str, int], None]) -> FileReport:
    report = FileReport(str(path))
    try:
        with open_entries(path) as entries:
            on_file(path.name, sum(entry.nbytes for entry in entries))
            await loader.move(entries, report)
    except UnreadableError as error:
        report.failure = str(error)
    return report


async def _run(
    paths: Sequence[Path],
    demo: bool,
    device: int,
    window_nbytes: int,
    in_flight: int,
    on_file: Callable[[str, int], None],
    advance: Callable[[int], None],
) -> list[FileReport]:
    reports: list[FileReport] = []
    async with Scheduler(device) as xfer:
        loader = _Loader(xfer, window_nbytes, in_flight, advance)
        if demo:
            entries = demo_entries()
            on_file(DEMO_NAME, sum(entry.nbytes for entry in entries))
            report = FileReport(DEMO_NAME)
            await loader.move(entries, report)
            reports.append(report)
        reports += [await _move_file(loader, path, on_file) for path in paths]
    return reports


def run(
    paths: Sequence[Path],
    *,
    demo: bool,
    device: int,
    loop: str,
    window_nbytes: int,
    in_flight: int,
    on_file: Callable[[str, int], None],
    advance: Callable[[int], None],
) -> list[FileReport]:
    """Moves the demonstration set, if asked for, and then each file; one report for each, in this order.

    Args:
        window_nbytes: at most this many bytes are on the device at once, and as many back on the host. One
            tensor without plain memory order, or of an .npz, may exceed it alone.
        in_flight: copies under way at once.
        on_file: called before each file that can be read, with its name and number of bytes.
        advance: called with the bytes that are done.

    What cannot be read or comes back wrong is in the reports. Raises XferError when the device cannot be
    opened, ValueError for a loop that is not installed.
    """
    return run_in_loop(
        loop,
        functools.partial(_run, paths, demo, device, window_nbytes, in_flight, on_file, advance),
    )
