"""The command line itself: options, and which text or status each outcome gives.

Exit status: 0 when everything worked, 1 when something failed or came back wrong, 2 for a wrong command line,
130 after Ctrl-C. `sim run` ends with its program's.
"""

# typer reads the annotations of this file when the program runs, so that they are not postponed here.

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import DownloadColumn, MofNCompleteColumn, Progress

from npu_xfer import sim
from npu_xfer._library import choose_library
from npu_xfer._settings import MIB, format_nbytes, parse_nbytes
from npu_xfer._tuning import profile_path
from npu_xfer._types import LibraryInfo
from npu_xfer.cli import _bench, _bench_view, _doctor, _explain, _info, _load, _load_view, _tune
from npu_xfer.cli._common import (
    LOOPS,
    Screen,
    first_cause,
    progress_bar,
    provenance,
    version_text,
    write_json,
)
from npu_xfer.cli._outcomes import fail, outcomes, save
from npu_xfer.cli._sim_app import sim_app

__all__ = ["app"]

_INTERRUPTED = 130  # what a shell makes of SIGINT

app = typer.Typer(
    name="npu-xfer",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_EXAMPLES = """
\b
Examples:
  npu-xfer info
  npu-xfer doctor
  npu-xfer load --demo
  npu-xfer load model.safetensors --json report.json
  npu-xfer bench --sizes 64KiB,16MiB --verify
  npu-xfer sim run -- ./program

The environment variable NPU_XFER_LIBRARY says which ACL library to use: auto (the default), cann, sim, or the
path of one.
"""

DeviceOption = Annotated[int, typer.Option("--device", min=0, metavar="N", help="Number of the device.")]
LoopOption = Annotated[str, typer.Option("--loop", metavar="NAME", help=f"Event loop: {', '.join(LOOPS)}.")]
JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write everything as JSON to FILE; - is standard output."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Copies between host memory and Ascend NPUs: what is installed, whether it works, how fast it is."""
    # The notice below replaces the log's line about the simulator.
    logging.getLogger("npu_xfer").addHandler(logging.NullHandler())


# ---- info ----


@app.command(
    short_help="Which ACL library, why, and its devices.",
    epilog="\b\nExamples:\n  npu-xfer info\n  npu-xfer info --json --no-devices",
)
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    devices: Annotated[
        bool,
        typer.Option(
            "--devices/--no-devices",
            help="Set up each device for a moment to ask it. Else nothing is called.",
        ),
    ] = True,
) -> None:
    """Show which ACL library is used and why, what it can do, and its devices.

    Ends with status 1 when no library can be used or device 0 does not open.
    """
    screen = Screen()
    with outcomes(screen):
        report = _info.collect(with_devices=devices)
    if as_json:
        write_json("-", dataclasses.asdict(report))
    else:
        _info.draw(report, screen)
    if report.error is not None:
        fail(screen, report.error, 1)


# ---- bench ----


def _list_of_sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(parse_nbytes(part) for part in text.split(","))
    if 0 in sizes:
        raise ValueError("a size of 0 bytes cannot be measured")
    return sizes


def _list_of_counts(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 4096 for part in parts):
        raise ValueError(f"{text!r} is not a list of numbers from 1 to 4096, such as 1,64")
    return tuple(int(part) for part in parts)


# Key on the command line: argument of sim.set_link, and how many of its units one of the key's is. The
# spellings of ACLSIM_LINK are among them.
_LINK_KEYS = {
    "h2d": ("h2d_bytes_per_s", 1),
    "d2h": ("d2h_bytes_per_s", 1),
    "latency_us": ("latency_ns", 1000),
    "submit_us": ("submit_ns", 1000),
    "latency_ns": ("latency_ns", 1),
    "submit_ns": ("submit_ns", 1),
}
_LEAST_RATE = 10**6  # a default run at less would take hours, and is a rate in GB/s taken for bytes
_LINK_FORMS = (
    "h2d=RATE and d2h=RATE in bytes per second, such as h2d=25e9 or h2d=25GB, and latency_us, submit_us, "
    "latency_ns or submit_ns=NUMBER"
)


def _link_number(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        if key not in {"h2d", "d2h"}:
            raise
        number = float(parse_nbytes(value.strip().removesuffix("/s")))
    if not 0 <= number < 1e18:  # so written that a NaN is refused
        raise ValueError("out of range")
    return number


def _link_fields(text: str) -> dict[str, int]:
    """Arguments of sim.set_link from "h2d=25e9,d2h=25GB,latency_us=2"."""
    found: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        try:
            field, factor = _LINK_KEYS[key]
            number = _link_number(key, value)
        except (KeyError, ValueError):
            raise ValueError(f"--link: {part!r} is not valid; accepted: {_LINK_FORMS}") from None
        if field in found:
            raise ValueError(f"--link: {part!r} sets {field} for the second time; accepted: each once")
        if field.endswith("_bytes_per_s") and 0 < number < _LEAST_RATE:
            raise ValueError(
                f"--link: {part!r} is {number:g} bytes per second; accepted: 0 for no limit, or "
                f"{_LEAST_RATE} or more, such as {key}=25e9 or {key}=25GB"
            )
        found[field] = round(number * factor)
    return found


@contextlib.contextmanager
def _modelled_link(link: str | None, library: LibraryInfo) -> Iterator[None]:
    if link is None:
        yield
        return
    fields = _link_fields(link)
    if not library.simulated:
        raise ValueError("--link changes the simulator's link; this library is a real one")
    arguments: dict[str, Any] = {**fields}
    with sim.set_link(**arguments):
        yield


def _bench_epilog() -> str:
    sizes = ",".join(format_nbytes(nbytes).replace(" ", "") for nbytes in _bench.DEFAULT_SIZES)
    return (
        "\b\nExamples:\n"
        "  npu-xfer bench\n"
        "  npu-xfer bench --sizes 4KiB,1MiB --concurrency 1,8,64 --verify\n"
        "  npu-xfer bench --loop trio --json bench.json\n"
        "  npu-xfer bench --link h2d=25e9,d2h=25e9      (simulator only)\n\n"
        f"The default sizes are {sizes}; this run takes about half a minute.\n"
        "Ctrl-C ends a run early: what was finished is printed, and written with --json."
    )


@app.command(short_help="Measure copies.", epilog=_bench_epilog())
def bench(
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="LIST", help="Sizes of one copy, such as 4KiB,1MiB.")
    ] = None,
    concurrency: Annotated[
        str, typer.Option("--concurrency", metavar="LIST", help="Copies under way at once.")
    ] = "1,64",
    device: DeviceOption = 0,
    loop: LoopOption = "asyncio",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.001, metavar="N", help="Measuring time for one case.")
    ] = 0.4,
    nbytes: Annotated[
        str | None, typer.Option("--bytes", metavar="SIZE", help="Copy at most this much in one case.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, max=1000, metavar="N", help="Samples of one case.")
    ] = 7,
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="Limit for the host arrays of one case.")
    ] = "512MiB",
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every byte after each sample, outside of the timing.")
    ] = False,
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            metavar="MODEL",
            help="Simulator only: bytes per second and latencies, such as h2d=25e9,d2h=25GB,latency_us=8.",
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Measure copies: both directions, page-locked and ordinary memory, several sizes.

    With the default options this takes about half a minute. Ends with status 1 when a copy fails or, with
    --verify, arrives wrong.
    """
    screen = Screen(results_to_stderr=json_file == "-")
    with outcomes(screen):
        plan = _bench.Plan(
            sizes=_bench.DEFAULT_SIZES if sizes is None else _list_of_sizes(sizes),
            concurrency=_list_of_counts(concurrency),
            seconds=seconds,
            bytes_per_case=None if nbytes is None else parse_nbytes(nbytes),
            samples=samples,
            memory_nbytes=parse_nbytes(memory),
            verify=verify,
        )
        n_cases = len(plan.cases())
        library = choose_library()
        screen.notice(library)
        results: list[_bench.Result] = []
        interrupted = False
        with _modelled_link(link, library):
            screen.remark(_bench_view.banner(plan, as_default=plan == _bench.Plan()))
            try:
                with progress_bar(screen, MofNCompleteColumn()) as bar:
                    watch = _Watch(bar, n_cases)
                    _bench.run(plan, device=device, loop=loop, on_case=watch.case, on_result=results.append)
            except BaseException as error:
                # trio's comes inside exception groups.
                if not isinstance(first_cause(error), KeyboardInterrupt):
                    raise
                interrupted = True
    if results:
        screen.show(_bench_view.table(results), whole=True)
        screen.out.print()
        screen.notice(library)
        for note in _bench_view.footnotes(plan, results):
            screen.say(note)
    context = provenance(library) | {"device": device, "loop": loop, "link": link}
    save(screen, json_file, _bench_view.as_json(plan, results, context, interrupted=interrupted))
    failed = [result for result in results if result.failure is not None]
    for result in failed:
        screen.complain(f"{result.case}: {result.failure}")
    if interrupted:
        fail(screen, f"interrupted: {len(results)} of {n_cases} cases were finished", _INTERRUPTED)
    if failed:
        raise typer.Exit(1)


# ---- tune ----


@app.command(
    short_help="Find settings that are faster on this machine.",
    epilog="\b\nExamples:\n  npu-xfer tune\n  npu-xfer tune --output tuning.json --samples 7",
)
def tune(
    device: DeviceOption = 0,
    samples: Annotated[
        int, typer.Option("--samples", min=2, max=100, metavar="N", help="Samples of each candidate.")
    ] = 3,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write there; NPU_XFER_TUNING=FILE then uses it."),
    ] = None,
    scale: Annotated[float, typer.Option("--scale", min=1e-6, max=16, hidden=True)] = 1.0,
) -> None:
    """Measure chunk size, threads, streams, spinning and the inline limit, and keep what is faster.

    The result is a profile for this chip, CANN version, processor and NUMA node. Schedulers that open there
    use it by themselves, for what neither an argument nor a variable sets; NPU_XFER_TUNING=off turns it off.
    A setting whose gain is within the noise keeps its default. Takes about a minute.
    """
    screen = Screen()
    with outcomes(screen):
        screen.notice(choose_library())
        target = profile_path() if output is None else output
        with progress_bar(screen, MofNCompleteColumn()) as bar:
            watch = _Watch(bar, _tune.n_steps())
            found = _tune.run(device, samples, scale, watch.step)
    _tune.draw(found, screen)
    try:
        _tune.save_profile(target, found)
    except OSError as error:
        fail(screen, f"the profile cannot be written: {error}", 1)
    screen.say(f"Written to {target}")


class _Watch:
    """Moves the bar as a run goes on."""

    def __init__(self, bar: Progress, total: int | None = None) -> None:
        self._bar = bar
        self._task = bar.add_task("opening the device", total=total)
        self._n_begun = 0

    def case(self, case: _bench.Case) -> None:
        """A case begins; those before it are done."""
        self._bar.update(self._task, description=str(case), completed=self._n_begun, refresh=True)
        self._n_begun += 1

    def step(self, name: str, value: int) -> None:
        """A candidate of a tuning begins."""
        self._bar.update(self._task, description=f"{name}={value}", completed=self._n_begun, refresh=True)
        self._n_begun += 1

    def file(self, name: str, nbytes: int) -> None:
        """A file of so many bytes begins."""
        self._bar.update(self._task, description=name, total=nbytes, completed=0, refresh=True)

    def advance(self, nbytes: int) -> None:
        """So many bytes more are done."""
        self._bar.update(self._task, advance=nbytes, refresh=True)


# ---- load ----


@app.command(
    short_help="Move tensors there and back, verified.",
    epilog="\b\nExamples:\n"
    "  npu-xfer load --demo\n"
    "  npu-xfer load model.safetensors\n"
    "  npu-xfer load weights.npz table.npy --json report.json",
)
def load(
    files: Annotated[
        list[Path] | None,
        # Hidden: typer would list it as "FILE <list[Path]>". The usage line and the text below name it.
        typer.Argument(metavar="FILE", hidden=True),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Move a made-up set of arrays; needs no file.")
    ] = False,
    device: DeviceOption = 0,
    loop: LoopOption = "asyncio",
    window: Annotated[
        str, typer.Option("--window", metavar="SIZE", help="Bytes on the device at once.")
    ] = "256MiB",
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, max=1024, metavar="N", help="Copies under way at once.")
    ] = 8,
    json_file: JsonOption = None,
) -> None:
    """Move every tensor of each FILE to the device and back, and compare SHA-256 of the bytes.

    Each FILE is a .npy, .npz or .safetensors file.

    Each direction is timed alone, without reading the file and without hashing. The first file also pays for
    allocating device and page-locked memory. Ends with status 1 when a file cannot be read or a byte differs.
    """
    screen = Screen(results_to_stderr=json_file == "-")
    if not files and not demo:
        fail(screen, "nothing to load: name a .npy, .npz or .safetensors file, or pass --demo", 2)
    with outcomes(screen):
        window_nbytes = parse_nbytes(window)
        if window_nbytes < MIB:
            raise ValueError(f"--window {window} is too small; accepted: 1 MiB or more")
        library = choose_library()
        screen.notice(library)
        with progress_bar(screen, DownloadColumn(binary_units=True)) as bar:
            watch = _Watch(bar)
            reports = _load.run(
                files or [],
                demo=demo,
                device=device,
                loop=loop,
                window_nbytes=window_nbytes,
                in_flight=in_flight,
                on_file=watch.file,
                advance=watch.advance,
            )
    screen.show(_load_view.table(reports))
    context = provenance(library) | {
        "device": device,
        "loop": loop,
        "window_nbytes": window_nbytes,
        "in_flight": in_flight,
    }
    save(screen, json_file, _load_view.as_json(reports, context))
    for report in reports:
        for text in report.failures():
            screen.complain(text)
    if not all(report.verified for report in reports):
        raise typer.Exit(1)


# ---- explain ----

app.command(short_help="What a CANN log says: cause and remedy.")(_explain.explain)


# ---- doctor ----

app.command(
    short_help="What keeps transfers from working or being fast.",
    epilog="\b\nExamples:\n  npu-xfer doctor\n  npu-xfer doctor --json --no-runtime",
)(_doctor.doctor)


# ---- sim ----

app.add_typer(sim_app, name="sim")
