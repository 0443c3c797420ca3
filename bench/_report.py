"""Samples, their median and spread, and the lines that every benchmark prints first."""

from __future__ import annotations

import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Row:
    """One measured way of doing the same work."""

    name: str
    seconds: Sequence[float]  # samples
    n: int  # transfers in one sample
    nbytes: int  # of each

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def us_each(self) -> float:
        return self.median_s / self.n * 1e6

    @property
    def gb_s(self) -> float:
        return self.n * self.nbytes / self.median_s / 1e9


def show(title: str, rows: Sequence[Row]) -> None:
    """A table; the first row is the baseline that the ratios are taken to (greater: faster than it)."""
    print(f"\n{title}")
    print(f"  {'':44} {'us each':>10} {'GB/s':>8} {'min..max s':>18} {'x baseline':>11}")
    for row in rows:
        spread = f"{min(row.seconds):.4f}..{max(row.seconds):.4f}"
        ratio = rows[0].median_s / row.median_s
        print(f"  {row.name:44} {row.us_each:10.2f} {row.gb_s:8.2f} {spread:>18} {ratio:10.2f}x")


def header(library: npu_xfer.LibraryInfo) -> None:
    """Machine and library, and that a simulator is a simulator."""
    print(f"python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, {library.path}")
    if library.simulated:
        print(
            "SIMULATOR: ratios between rows of one run mean something, absolute speeds say nothing of an NPU"
        )


def describe_link() -> str:
    """The link model of the simulator, or that this is hardware."""
    if not sim.is_active():
        return "hardware"
    link = sim.get_link(0)
    return "instant" if link == sim.Link() else str(link)


def write_json(path: str | None, name: str, groups: dict[str, Sequence[Row]]) -> None:
    if path is None:
        return
    record = {
        "benchmark": name,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "version": npu_xfer.__version__,
        "groups": {title: [asdict(row) for row in rows] for title, rows in groups.items()},
    }
    Path(path).write_text(json.dumps(record, indent=1))
