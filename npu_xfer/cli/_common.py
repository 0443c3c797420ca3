"""What the subcommands share: where text goes, the simulator's notice, JSON, facts about the machine."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

import npu_xfer
from npu_xfer._settings import format_nbytes, parse_nbytes, settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
    from typing import TypeVar

    from rich.table import Table

    from npu_xfer._types import LibraryInfo

    T = TypeVar("T")

__all__ = [
    "LOOPS",
    "NOTICE",
    "Screen",
    "exact_nbytes",
    "first_cause",
    "machine",
    "progress_bar",
    "provenance",
    "run_in_loop",
    "version_text",
    "write_json",
]

NOTICE = "SIMULATOR: copies stay in this host's memory; speeds say nothing about an NPU."
LOOPS = ("asyncio", "uvloop", "trio")
_GIT_TIMEOUT_S = 5.0
_WIDEST = 10_000


class Screen:
    """Where a command writes: results to `out`, progress and complaints to `err`."""

    def __init__(self, *, results_to_stderr: bool = False) -> None:
        """`results_to_stderr` leaves standard output to JSON."""
        self.err = Console(stderr=True, highlight=False)
        self.out = self.err if results_to_stderr else Console(highlight=False)

    def say(self, text: str, style: str | None = None) -> None:
        """Prints one paragraph of results, wrapped at the terminal's width."""
        for line in self._wrapped(text, ""):
            self.out.print(line, style=style, markup=False, soft_wrap=True)

    def item(self, text: str) -> None:
        """Prints one of several texts under a heading, indented."""
        for line in self._wrapped(text, "  - "):
            self.out.print(line, markup=False, soft_wrap=True)

    def _wrapped(self, text: str, indent: str) -> list[str]:
        """Lines of at most the terminal's width, where words allow it: a path is never cut in two."""
        return textwrap.wrap(
            text,
            self.out.width,
            initial_indent=indent,
            subsequent_indent=" " * len(indent),
            break_long_words=False,
            break_on_hyphens=False,
        )

    def facts(self, rows: Sequence[tuple[str, str]], *, whole: Container[str] = ()) -> None:
        """Prints a name and a text in each row; the texts begin in one column. Those of the names in `whole`
        stay in one line, so that a path with blanks can be copied too."""
        widest = max(cell_len(name) for name, _ in rows)  # a Chinese character fills two columns
        for name, text in rows:
            indent = " " * (widest + 2)
            lines = [indent + text] if name in whole else self._wrapped(text, indent) or [indent]
            lines[0] = f"{name}{indent[cell_len(name) :]}{lines[0][len(indent) :]}"
            first = Text(lines[0])
            first.stylize("bold", 0, len(name))
            for line in (first, *lines[1:]):
                self.out.print(line, markup=False, soft_wrap=True)

    def show(self, table: Table, *, whole: bool = False) -> None:
        """Prints a table, without the blanks that would pad its last column.

        A `whole` one runs over the terminal's edge, where it must, rather than lose digits.
        """
        if whole:
            options = self.out.options.update(max_width=_WIDEST)
            table.width = Measurement.get(self.out, options, table).maximum
        with self.out.capture() as captured:
            self.out.print(table, crop=not whole)
        for line in captured.get().splitlines():
            self.out.file.write(line.rstrip() + "\n")

    def notice(self, info: LibraryInfo) -> None:
        """Prints the simulator's notice when `info` is the simulator."""
        if info.simulated:
            self.say(NOTICE, style="bold yellow")
            self.out.print()

    def remark(self, text: str) -> None:
        """Prints one line about the progress, on standard error."""
        self.err.print(text, markup=False, soft_wrap=True)

    def complain(self, text: str) -> None:
        """Prints one error on standard error, unwrapped so that it can be searched for."""
        self.err.print(f"npu-xfer: {text}", style="red", markup=False, soft_wrap=True)


def exact_nbytes(nbytes: int) -> str:
    """A number of bytes as text that stands for this number only."""
    text = format_nbytes(nbytes)
    return text if parse_nbytes(text) == nbytes else f"{nbytes} B"


def write_json(target: str, data: object) -> None:
    """Writes to a file, or to standard output for "-". Raises OSError when the file cannot be written."""
    text = json.dumps(data, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        Path(target).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def progress_bar(screen: Screen, *columns: ProgressColumn) -> Iterator[Progress]:
    """A bar on standard error, drawn only on a terminal and only when told to: no thread of its own that
    could disturb a measurement."""
    on_terminal = screen.err.is_terminal
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=screen.err,
        auto_refresh=False,
        transient=True,
        disable=not on_terminal,
    )
    # One that is not started prints nothing; some releases of rich end a disabled one with an empty line.
    with bar if on_terminal else contextlib.nullcontext():
        yield bar


def run_in_loop(loop: str, main: Callable[[], Awaitable[T]]) -> T:
    """Runs `main` in a new event loop of this kind. Raises ValueError for a loop that is not installed."""
    if loop not in LOOPS:
        raise ValueError(f"{loop!r} is no event loop; accepted: {', '.join(LOOPS)}")
    if loop != "asyncio" and importlib.util.find_spec(loop) is None:
        raise ValueError(f"{loop} is not installed: pip install {loop}")
    if loop == "trio":
        return anyio.run(main, backend="trio")
    return anyio.run(main, backend="asyncio", backend_options={"use_uvloop": loop == "uvloop"})


def first_cause(error: BaseException) -> BaseException:
    """The first exception inside task groups' exception groups."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


def _commit() -> str | None:
    """The commit of the checkout that this package runs from; None for an installed copy."""
    checkout = Path(npu_xfer.__file__).resolve().parent.parent
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                field, _, value = line.partition(":")
                if field.strip().lower() in {"model name", "hardware"}:
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """The computer, without its name."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_nbytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def provenance(info: LibraryInfo) -> dict[str, Any]:
    """What a reader of a result must know about where it comes from, ready for JSON."""
    return {
        "simulated": info.simulated,
        "notice": NOTICE if info.simulated else None,
        "library": dataclasses.asdict(info),
        "npu_xfer": {"version": npu_xfer.__version__, "commit": _commit()},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "machine": machine(),
        "engine_settings": {
            name: value
            for name, value in dataclasses.asdict(settings()).items()
            if name not in {"library", "cann_homes", "given"}
        },
    }


def version_text() -> str:
    """One line for --version."""
    return f"npu-xfer {npu_xfer.__version__} (Python {platform.python_version()}, numpy {np.__version__})"
