"""What `npu-xfer load` prints and writes from its reports."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.table import Table

from npu_xfer._settings import format_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npu_xfer.cli._load import FileReport, TensorReport

__all__ = ["as_json", "table"]

FORMAT = 1


def _gb_per_s(nbytes: int, seconds: float) -> float | None:
    return nbytes / seconds / 1e9 if nbytes and seconds else None


def _speed(nbytes: int, seconds: float) -> str:
    value = _gb_per_s(nbytes, seconds)
    return "-" if value is None else f"{value:.2f}"


def table(reports: Sequence[FileReport]) -> Table:
    """One row for each file, and a total when there are several."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("file", overflow="fold", min_width=12)
    for heading in ("tensors", "bytes", "H2D GB/s", "D2H GB/s"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("verified", no_wrap=True)
    # "." and "/" have no last part.
    names = [PurePath(report.name).name or report.name for report in reports]
    if len(set(names)) < len(names):
        names = [report.name for report in reports]
    for name, report in zip(names, reports, strict=True):
        drawn.add_row(name, *_cells([report]), style=None if report.verified else "red")
    if len(reports) > 1:
        drawn.add_section()
        drawn.add_row("total", *_cells(reports), style="bold")
    return drawn


def _cells(reports: Sequence[FileReport]) -> list[str]:
    nbytes = sum(report.nbytes for report in reports)
    tensors = [tensor for report in reports for tensor in report.tensors]
    unread = any(report.failure is not None for report in reports)
    n_good = sum(tensor.verified for tensor in tensors)
    if not tensors and unread:
        verdict = "NOT READ"
    elif n_good == len(tensors) and not unread:
        verdict = "all, SHA-256"
    else:
        verdict = f"{n_good} of {len(tensors)}"
    return [
        str(len(tensors)),
        format_nbytes(nbytes),
        _speed(nbytes, sum(report.h2d_s for report in reports)),
        _speed(nbytes, sum(report.d2h_s for report in reports)),
        verdict,
    ]


def as_json(reports: Sequence[FileReport], context: dict[str, Any]) -> dict[str, Any]:
    """The whole run, every tensor included. `context` goes first."""
    return {
        "kind": "npu-xfer load",
        "format": FORMAT,
        **context,
        "verified": all(report.verified for report in reports),
        "files": [_file_json(report) for report in reports],
    }


def _file_json(report: FileReport) -> dict[str, Any]:
    return {
        "file": report.name,
        "verified": report.verified,
        "failure": report.failure,
        "nbytes": report.nbytes,
        "h2d_s": report.h2d_s,
        "d2h_s": report.d2h_s,
        "h2d_gb_per_s": _gb_per_s(report.nbytes, report.h2d_s),
        "d2h_gb_per_s": _gb_per_s(report.nbytes, report.d2h_s),
        "tensors": [_tensor_json(tensor) for tensor in report.tensors],
    }


def _tensor_json(tensor: TensorReport) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "nbytes": tensor.nbytes,
        "sha256": tensor.sha256,
        "verified": tensor.verified,
        "failure": tensor.failure,
    }
