"""What a run is made of: rows of samples, and the run that holds them. Plain data, to and from JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FORMAT = 1
LESS, MORE = "less", "more"  # which way is better


def mad(values: Sequence[float]) -> float:
    """Median of the distances from the median."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


@dataclass
class Row:
    """One way of doing one piece of work, measured. Its name is case/setting/who."""

    case: str
    setting: str
    who: str
    """"ours", or which baseline, or a limit such as "link"."""

    unit: str = "us"
    """Of the values; "us" is microseconds for one transfer."""

    values: list[float] = field(default_factory=list)
    """One for each sample; samples of the same setting were taken in turn, so that they pair up."""

    better: str = LESS
    n: int = 1
    """Transfers in one sample."""

    nbytes: int = 0
    """Of one transfer; 0 where the work is not a number of bytes."""

    verified: int = 0
    """Samples whose bytes were compared."""

    note: str = ""
    waived: str | None = None
    """Why it could not be measured here."""

    failure: str | None = None
    """A difference of content, or an error."""

    @property
    def key(self) -> str:
        return f"{self.case}/{self.setting}/{self.who}"

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def spread(self) -> float:
        """Median absolute deviation of the samples, relative to the median."""
        middle = self.median
        return mad(self.values) / abs(middle) if middle else 0.0

    @property
    def gb_per_s(self) -> float | None:
        middle = self.median
        return self.nbytes / middle / 1e3 if middle and self.nbytes and self.unit == "us" else None


@dataclass
class Run:
    """Everything that one run measured, and where."""

    machine: dict[str, Any]
    library: dict[str, Any]
    simulated: bool
    commit: str | None
    version: str
    date: str
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    targets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def where(self) -> str:
        """What every table and chart says."""
        return "SIMULATOR (ratios count, speeds are not an NPU's)" if self.simulated else "hardware"

    def to_json(self) -> str:
        data = {"format": FORMAT, **asdict(self)}
        for row, made in zip(self.rows, data["rows"], strict=True):
            made |= {"key": row.key, "median": row.median, "spread": row.spread, "gb_per_s": row.gb_per_s}
        return json.dumps(data, indent=1, allow_nan=False) + "\n"


def rows_from(data: Iterable[dict[str, Any]]) -> list[Row]:
    """Rows of JSON objects; derived fields are ignored."""
    names = set(Row.__dataclass_fields__)
    return [Row(**{name: value for name, value in one.items() if name in names}) for one in data]


def read_run(path: Path) -> Run:
    """A run from a file. Raises ValueError for what is none, or of another format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != FORMAT:
            raise ValueError(f"{path} is of another format than {FORMAT}")
        data["rows"] = rows_from(data["rows"])
        return Run(**data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no result of a benchmark run: {error!r}") from None
