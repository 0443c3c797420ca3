"""`npu-xfer sim`: options of its commands, and which text or status each outcome gives."""

# typer reads the annotations of this file when the program runs, so that they are not postponed here.

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated

import typer

from npu_xfer._settings import parse_nbytes
from npu_xfer.cli import _sim, _sim_profiles, _sim_view
from npu_xfer.cli._common import Screen, write_json
from npu_xfer.cli._outcomes import fail, outcomes, save
from npu_xfer.sim import MODES

__all__ = ["sim_app"]

_STRICT = ("align",)
_UNCLEAN = 3

sim_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    short_help="Run and build ACL programs without an NPU.",
    help="Run and build programs for ACL on the simulator, without CANN and without an NPU.",
    epilog="\b\nExamples:\n  npu-xfer sim run -- ./program --its options\n  npu-xfer sim sdk ./sim-sdk",
)


def _one_of(option: str, value: str | None, accepted: tuple[str, ...]) -> None:
    if value is not None and value not in accepted:
        raise ValueError(f"{option} {value!r} is not known; accepted: {', '.join(accepted)}")


@sim_app.command(
    name="run",
    short_help="Run a program on the simulator.",
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  npu-xfer sim run -- ./copy_test\n"
    "  npu-xfer sim run --profile 310p --devices 2 -- python3 infer.py\n"
    "  npu-xfer sim run --mode adversarial --seed 7 --check -- ./copy_test\n"
    "  npu-xfer sim run --mode virtual --link h2d=25e9,d2h=25e9 -- ./copy_test\n"
    "  npu-xfer sim run --faults rules.txt --report out.json -- ./copy_test\n\n"
    "The exit status is the program's, 128 + N when signal N ended it, 127 when it was not found and 126 "
    "when it cannot be executed. With --check it is 3 when the program ended with 0 and the simulator found "
    "something or something leaked.",
)
def run(
    program: Annotated[
        list[str],
        # Hidden: the usage line and the text below name it.
        typer.Argument(metavar="PROGRAM", hidden=True),
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", help="Chip, form and CANN release, such as a2 or 310p-rc-8.0."
        ),
    ] = None,
    devices: Annotated[
        int | None, typer.Option("--devices", min=1, max=64, metavar="N", help="Number of devices.")
    ] = None,
    device_memory: Annotated[
        str | None,
        typer.Option("--device-memory", metavar="SIZE", help="Memory of each device, such as 8GiB."),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link", metavar="MODEL", help="Rates and latencies, such as h2d=25e9,d2h=25e9,latency_us=8."
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="threads: copies run at once, beside the program. virtual: on a simulated clock. "
            "adversarial: as late as the rules allow, to find races.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=2**64 - 1, metavar="N", help="For what is drawn by chance."),
    ] = None,
    faults: Annotated[
        Path | None, typer.Option("--faults", metavar="FILE", help="Failures on purpose, one rule a line.")
    ] = None,
    strict: Annotated[
        str | None,
        typer.Option("--strict", metavar="WHAT", help="align: refuse copies that are not 64-byte aligned."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="End with 3 when the program is content and the simulator is not.")
    ] = False,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write what was seen as JSON to FILE.")
    ] = None,
) -> None:
    """Run PROGRAM with its arguments on the simulator, then say what the simulator saw.

    The program is used as it is. It finds the simulator as libascendcl.so and libacl_rt.so on its library
    path; in Python, `import acl` gives npu_xfer.acl, and npu_xfer uses the simulator. The words about it go
    to standard error.
    """
    screen = Screen(results_to_stderr=True)
    with outcomes(screen):
        _one_of("--mode", mode, MODES)
        _one_of("--strict", strict, _STRICT)
        if faults is not None and not faults.is_file():
            raise ValueError(f"--faults {faults} is not a file")
        choices = _sim.Choices(
            profile=profile,
            devices=devices,
            device_memory_nbytes=None if device_memory is None else parse_nbytes(device_memory),
            link=link,
            mode=mode,
            seed=seed,
            faults=faults,
            strict=strict,
        )
    with _sim.signals_for_program():
        with outcomes(screen):
            try:
                ran = _sim.run(program, choices)
            except OSError as error:
                text = f"{program[0]} cannot be started: {error.strerror or error}"
                fail(screen, text, _sim.status_of(error))
        _sim_view.draw(ran, screen)
        save(screen, report, _sim_view.as_json(ran))
    if check and ran.status == 0 and ran.report is not None and not ran.report.is_clean():
        screen.complain("--check: the program ended with 0, but see the findings and leaks above")
        raise typer.Exit(_UNCLEAN)
    raise typer.Exit(ran.status)


@sim_app.command(
    name="sdk",
    short_help="Headers and libraries to build against.",
    epilog="\b\nExamples:\n  npu-xfer sim sdk ./sim-sdk\n  npu-xfer sim sdk --copy /opt/sim-sdk",
)
def sdk(
    folder: Annotated[
        Path,
        # Hidden: typer would list it with the name of its Python type.
        typer.Argument(metavar="FOLDER", hidden=True),
    ],
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the files, so that FOLDER outlives this installation.")
    ] = False,
) -> None:
    """Make FOLDER look like a CANN installation: headers in include/acl, libraries in lib64.

    The libraries are the simulator. A program built against FOLDER records the library name libascendcl.so,
    and so runs on CANN too. Files that npu-xfer did not make are never replaced.
    """
    screen = Screen()
    with outcomes(screen):
        try:
            made = _sim.make_sdk(folder, copy=copy)
        except OSError as error:
            fail(screen, f"{error.filename or folder} cannot be made: {error.strerror or error}", 1)
    include, lib = (shlex.quote(str(folder / part)) for part in ("include", "lib64"))
    screen.out.print(f"{len(made)} files in {folder}. Build and run with:", markup=False, soft_wrap=True)
    for line in (
        f"  g++ -g prog.cpp -I {include} -L {lib} -lascendcl -o prog",
        "  npu-xfer sim run -- ./prog",
    ):
        screen.out.print(line, markup=False, soft_wrap=True)


@sim_app.command(
    name="profiles",
    short_help="The chips and CANN releases to choose from.",
    epilog="\b\nExamples:\n  npu-xfer sim profiles\n  npu-xfer sim profiles --json",
)
def profiles(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what the option --profile of `sim run` accepts.

    A name may be given in part: what is missing is that of the default. A function that a release lacks
    returns 200001.
    """
    screen = Screen()
    with outcomes(screen):
        found = _sim_profiles.known_profiles()
    if as_json:
        write_json("-", [dataclasses.asdict(profile) for profile in found])
    else:
        screen.show(_sim_profiles.table(found))
