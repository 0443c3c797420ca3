"""Builds the public C++ examples of the open CANN runtime against `npu-xfer sim sdk` and runs them.

    python tests/public_examples.py CHECKOUT/example

CHECKOUT is a clone of hicann/runtime; nothing of it is kept here and nothing is fetched. The examples' own
CMake files need the vendor's compiler for their kernels, so g++ builds the host sources together with
tests/examples_public/kernels.cpp. Ends with status 1 unless every example compiles, runs on the simulator and
prints what its README, or the open runtime itself, prints.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npu_xfer.cli._sim import make_sdk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KERNELS = Path(__file__).resolve().parent / "examples_public" / "kernels.cpp"
_COMPILE_S, _RUN_S = 120, 120
_FLAGS = ("-std=c++17", "-O1", "-w", "-pthread")


@dataclass(frozen=True, slots=True)
class Example:
    """One example, and what its output must hold."""

    folder: str
    expected: tuple[str, ...]
    """Regular expressions, found one after the other."""

    sources: tuple[str, ...] = ("main.cpp",)
    """Several programs of one source each for `both`."""

    n_errors: int = 0
    """Lines that the example itself marks as errors; some examples show what an error looks like."""

    devices: int = 1
    makes: tuple[str, ...] = ()
    """Folders that its run.sh makes."""

    waits_for_kernels: bool = False
    """The example reads what a kernel writes without waiting for it."""

    both: bool = False
    """Two programs, run at the same time."""


def _memory(folder: str, *, waits: bool = False) -> Example:
    expected = ("Source data: 123", "Destination data: 123")
    return Example(f"1_basic_features/memory/{folder}", expected, waits_for_kernels=waits)


EXAMPLES = (
    Example(
        "0_quickstart/1_error_handling",
        ("ret=100000", "peekErr=0, lastErr=0, recentErrMsg=<null>", "finalize successfully"),
        n_errors=1,
    ),
    Example("1_basic_features/context/0_context_query", (r"core limit: \d", r"\[SUCCESS\]")),
    Example(
        "1_basic_features/device/1_device_multi_thread",
        (r"deviceCount: 1\b", r"hostDst\[1\]: 2\.0", r"hostDst\[9\]: 18\.0", "successfully"),
    ),
    Example("1_basic_features/device/2_device_P2P", ("verify success", "sample successfully"), devices=2),
    Example(
        "1_basic_features/event/0_event_status",
        ("status is 0", "status is 0", "status is 1", "answer is 1", "cleanup completed"),
    ),
    Example(
        "1_basic_features/event/1_event_timestamp",
        # The second time is that of the long kernel: seconds, not microseconds.
        (r"answer is 0", r"time \d+\.\d+ ms", "answer is 1", r"time [1-9]\d{3}\.\d+ ms", "cleanup completed"),
    ),
    _memory("0_h2h_memory_copy"),
    _memory("1_h2d_sync_memory_copy"),
    _memory("2_h2d_async_memory_copy"),
    _memory("3_d2h_sync_memory_copy"),
    _memory("4_d2h_async_memory_copy"),
    _memory("5_d2d_sync_memory_copy", waits=True),
    _memory("6_d2d_async_memory_copy"),
    Example(
        "1_basic_features/memory/9_multistream_sync_memory",
        ("writing thread starts: 123", "waiting thread: 123"),
        sources=("main.cpp", "file_ops.cpp"),
        makes=("file",),
    ),
    Example(
        "1_basic_features/stream/0_simple_stream",
        ("result is: 1", "result is: 2", "status is: 0", "result is: 3002", "cleanup completed"),
    ),
    Example(
        "1_basic_features/stream/1_stream_with_failure_mode",
        ("state=1", "code 507035", "result is 2", "code 507035", "result is: 1", "state=2", "successfully"),
        n_errors=2,
    ),
    Example(
        "1_basic_features/stream/2_multi_stream",
        ("answer is 2", "code 507046", "answer is 2", "code 507047", "answer is 2", "cleanup completed"),
        n_errors=2,
    ),
    Example(
        "2_advanced_features/callback/1_callback_hostfunc",
        ("Hostfunc callback", "result is: 1", "cleanup completed"),
        sources=("main.cpp", "../callback_utils.cpp"),
    ),
    Example(
        "2_advanced_features/callback/2_callback_exception",
        ("error task id is", "error code id is 507035", "Thread exit", "successfully"),
        sources=("main.cpp", "exception_callback_sample.cpp", "../callback_utils.cpp"),
        n_errors=2,
    ),
    Example(
        "2_advanced_features/ipcevent/0_ipcevent",
        ("B: event received", "B: event status = 1", "A: consumer finished", "A: cleanup completed"),
        sources=("proc_a.cpp", "proc_b.cpp"),
        both=True,
    ),
)


@dataclass(slots=True)
class Row:
    """How far one example came."""

    example: Example
    compiled: bool = False
    linked: bool = False
    ran: bool = False
    as_expected: bool = False
    why_not: str = ""


class Bench:
    """The folder of one run: headers, libraries, objects and programs."""

    def __init__(self, checkout: Path, work: Path, options: Sequence[str]) -> None:
        """`options`: further ones of `npu-xfer sim run`."""
        self._checkout = checkout
        self._work = work
        self._options = options
        make_sdk(work / "sdk")
        self._kernels = work / "kernels.o"
        self._compile(_KERNELS, self._kernels, [checkout])

    def _compile(self, source: Path, target: Path, includes: Sequence[Path]) -> None:
        """Raises CalledProcessError with the compiler's words."""
        folders = [f"-I{folder}" for folder in (*includes, self._work / "sdk" / "include")]
        command = ["g++", *_FLAGS, "-c", str(source), "-o", str(target), *folders]
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_COMPILE_S)

    def _link(self, objects: Sequence[Path], target: Path) -> None:
        library = self._work / "sdk" / "lib64"
        command = ["g++", *_FLAGS, *map(str, objects), str(self._kernels), "-o", str(target)]
        command += [f"-L{library}", "-lascendcl"]
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_COMPILE_S)

    def _build(self, row: Row, folder: Path) -> list[Path]:
        example = row.example
        source_folder = self._checkout / example.folder
        objects = []
        for name in example.sources:
            objects.append(folder / f"{Path(name).stem}.o")
            includes = [self._checkout, source_folder, source_folder.parent]
            self._compile(source_folder / name, objects[-1], includes)
        row.compiled = True
        groups = [[part] for part in objects] if example.both else [objects]
        programs = [group[0].with_suffix("") for group in groups]
        for group, program in zip(groups, programs, strict=True):
            self._link(group, program)
        row.linked = True
        return programs

    def _run(self, example: Example, folder: Path, programs: Sequence[Path]) -> tuple[int, str]:
        command = [str(program) for program in programs]
        if example.both:
            # The status is 0 only when both programs ended with 0.
            script = '"$0" & "$1"; second=$?; wait $! && exit $second'
            command = ["sh", "-c", script, *command]
        options = [f"--devices={example.devices}", *self._options]
        environ = os.environ | ({"EXAMPLE_WAITS_FOR_KERNELS": "1"} if example.waits_for_kernels else {})
        for name in example.makes:
            (folder / name).mkdir(exist_ok=True)
        ran = subprocess.run(
            [sys.executable, "-m", "npu_xfer", "sim", "run", *options, "--", *command],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RUN_S,
            check=False,
        )
        (folder / "stdout.txt").write_text(ran.stdout)
        (folder / "stderr.txt").write_text(ran.stderr)
        return ran.returncode, ran.stdout

    def try_example(self, example: Example) -> Row:
        """Builds and runs one example."""
        row = Row(example)
        folder = self._work / example.folder.replace("/", "-")
        folder.mkdir()
        try:
            programs = self._build(row, folder)
            status, output = self._run(example, folder, programs)
        except subprocess.CalledProcessError as error:
            row.why_not = _build_failure(error.stderr)
            return row
        except subprocess.TimeoutExpired as error:
            row.why_not = f"not finished after {error.timeout:g} s"
            return row
        row.ran = status == 0
        row.why_not = _difference(example, status, output)
        row.as_expected = not row.why_not
        return row


def _build_failure(text: str) -> str:
    missing = sorted(set(re.findall(r"undefined reference to `(\w+)", text)))
    if missing:
        return "not in the library: " + ", ".join(missing)
    errors = [line for line in text.splitlines() if "error:" in line]
    return errors[0].rpartition("/")[2] if errors else text.strip().splitlines()[-1]


def _difference(example: Example, status: int, output: str) -> str:
    """What is not as expected, or nothing."""
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    first = f"; first error line: {errors[0]}" if errors else ""
    if status != 0:
        return f"exit status {status}{first}"
    if len(errors) != example.n_errors:
        return f"{len(errors)} error lines instead of {example.n_errors}{first}"
    position = 0
    for pattern in example.expected:
        found = re.compile(pattern).search(output, position)
        if found is None:
            return f"no {pattern!r} in its place"
        position = found.end()
    return ""


def _table(rows: Sequence[Row]) -> Iterator[str]:
    names = ("compiled", "linked", "ran", "as expected")
    widest = max(len(row.example.folder) for row in rows)
    yield "  ".join([f"{'example':{widest}}", *names, "why not"])
    for row in rows:
        states = (row.compiled, row.linked, row.ran, row.as_expected)
        cells = [f"{'yes' if state else 'no':{len(name)}}" for name, state in zip(names, states, strict=True)]
        yield "  ".join([f"{row.example.folder:{widest}}", *cells, row.why_not]).rstrip()


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description="Runs the public C++ examples on the simulator.")
    parser.add_argument("checkout", type=Path, help="the folder `example` of a checkout of the runtime")
    parser.add_argument("--only", default="", help="only examples with this in their path")
    parser.add_argument("--keep", type=Path, help="build in this new folder, and keep programs and outputs")
    parser.add_argument(
        "--sim", default="", metavar="OPTIONS", help='for `npu-xfer sim run`, such as --sim="--mode virtual"'
    )
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "kernel_func" / "kernel_ops.h").is_file():
        parser.error(f"{checkout} is not the folder of the examples: it has no kernel_func/kernel_ops.h")
    chosen = [example for example in EXAMPLES if arguments.only in example.folder]
    if not chosen:
        parser.error(f"no example has {arguments.only!r} in its path")
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True)
        bench = Bench(checkout, (arguments.keep or Path(scratch)).resolve(), shlex.split(arguments.sim))
        rows = [bench.try_example(example) for example in chosen]
    for line in _table(rows):
        print(line)
    good = sum(row.as_expected for row in rows)
    print(f"{good} of {len(rows)} as expected, on the simulator")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
