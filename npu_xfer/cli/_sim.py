"""Programs of others on the simulator: `npu-xfer sim run` starts them, `npu-xfer sim sdk` lets them be built.

A program is not changed: it finds the simulator under the names of CANN's libraries on its library path, and
`import acl` in its Python gives `npu_xfer.acl`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.locate import CANN_NAMES, simulator_path
from npu_xfer.cli._sim_lines import with_lines
from npu_xfer.errors import LibraryError, XferError
from npu_xfer.sim import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "Choices",
    "Ran",
    "Report",
    "installed_headers",
    "make_sdk",
    "run",
    "signals_for_program",
    "simulator_file",
    "status_of",
    "sum_reports",
]


_SHIM = '''"""`import acl` under `npu-xfer sim run`: the simulator, with the names of pyACL."""
import sys

try:
    import npu_xfer.acl
except ImportError as error:
    raise ImportError(
        f"`import acl` under `npu-xfer sim run` needs npu_xfer in the program's own Python: "
        f"install npu-xfer for {sys.executable} ({error})"
    ) from error

sys.modules[__name__] = npu_xfer.acl
for part in ("rt", "util", "media"):  # else `import acl.util` would load a second one
    sys.modules[f"{__name__}.{part}"] = getattr(npu_xfer.acl, part)
'''

# Has the library read its environment, in a process that the values cannot harm.
_PROBE = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).aclsim_get_mode()"
_NOT_FOR_THE_PROBE = (
    "ACLSIM_REPORT",
    "ACLSIM_TELL",
    "ASCEND_PROCESS_LOG_PATH",
    "ASCEND_SLOG_PRINT_TO_STDOUT",
)
_REFUSED = "aclsim: "

# Passed on to the program. A terminal sends SIGINT and SIGQUIT to the program itself as well.
_PASSED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)
_FROM_KERNEL = 0x80  # si_code SI_KERNEL: a key of the terminal
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell says it
_BY_SIGNAL = 128
_SEPARATORS = frozenset(":;")
_LOOK_S = 1.0  # how often a signal that another thread took is passed on
_FAR_S = 10 * 365 * 24 * 3600.0


# ---- what the library leaves in the environment and in files ----


@dataclass(frozen=True, slots=True)
class Choices:
    """What the simulator shall be; None leaves it to the environment of the caller, else to its default."""

    profile: str | None = None
    devices: int | None = None
    device_memory_nbytes: int | None = None
    link: str | None = None
    mode: str | None = None
    seed: int | None = None
    faults: Path | None = None
    strict: str | None = None

    def options(self) -> dict[str, str]:
        """The option behind each variable that is set here, as it is written on the command line."""
        return {
            name: f"--{name.removeprefix('ACLSIM_').lower().replace('_', '-')}" for name in self.variables()
        }

    def variables(self) -> dict[str, str]:
        """The variables that the simulator reads at its first call."""
        chosen = {
            "ACLSIM_PROFILE": self.profile,
            "ACLSIM_DEVICES": self.devices,
            "ACLSIM_DEVICE_MEMORY": self.device_memory_nbytes,
            "ACLSIM_LINK": self.link,
            "ACLSIM_MODE": self.mode,
            "ACLSIM_SEED": self.seed,
            "ACLSIM_FAULTS": None if self.faults is None else f"@{self.faults.absolute()}",
            "ACLSIM_STRICT": self.strict,
        }
        return {name: str(value) for name, value in chosen.items() if value is not None}


@dataclass(slots=True)
class Finding:
    """Something that would be wrong, slow or lucky on hardware."""

    kind: str
    count: int = 0
    texts: list[str] = field(default_factory=list)
    """Distinct ones; the simulator keeps the first few."""


@dataclass(slots=True)
class Report:
    """What the simulator saw in all processes of one program."""

    simulator: bool = True
    pids: list[int] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIRECTIONS, 0))
    nbytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIRECTIONS, 0))
    failed_copies: int = 0
    pageable_copies: int = 0
    unaligned_copies: int = 0
    faults_fired: int = 0
    """Failures that happened because they were asked for."""

    findings: list[Finding] = field(default_factory=list)
    leaks: dict[str, int] = field(default_factory=dict)
    virtual_ns: int | None = None
    """Simulated time of the process with the most; None where time was not virtual."""

    unfinished: list[int] = field(default_factory=list)
    """Processes that used the simulator and left no report: ended by a signal or _exit, or running still."""

    unreadable: list[str] = field(default_factory=list)
    """Reports that cannot be read, and why."""

    def n_calls(self) -> int:
        """Calls of ACL functions."""
        return sum(self.calls.values())

    def is_clean(self) -> bool:
        """Whether nothing was found and nothing leaked."""
        return not self.findings and not self.leaks

    def _add(self, raw: Mapping[str, Any]) -> None:
        self.pids.append(int(raw.get("pid", 0)))
        for known, key in ((self.profiles, "profile"), (self.modes, "mode")):
            value = raw.get(key)
            if value is not None and str(value) not in known:
                known.append(str(value))
        for name, count in raw.get("calls", {}).items():
            self.calls[name] = self.calls.get(name, 0) + int(count)
        for direction in DIRECTIONS:
            row = raw.get("copies", {}).get(direction, {})
            self.copies[direction] += int(row.get("count", 0))
            self.nbytes[direction] += int(row.get("bytes", 0))
        self.failed_copies += int(raw.get("failed_copies", 0))
        self.pageable_copies += int(raw.get("pageable_copies", 0))
        self.unaligned_copies += int(raw.get("unaligned_copies", 0))
        self.faults_fired += int(raw.get("faults_fired", 0))
        for row in raw.get("findings", []):
            self._find(str(row["kind"]), int(row["count"]), [str(text) for text in row.get("texts", [])])
        for name, what in raw.get("leaks", {}).items():
            count = len(what) if isinstance(what, list) else int(what)  # a list: numbers of devices
            if count > 0:
                self.leaks[name] = self.leaks.get(name, 0) + count
        if raw.get("virtual_ns") is not None:
            self.virtual_ns = max(self.virtual_ns or 0, int(raw["virtual_ns"]))

    def name_lines(self) -> None:
        """Puts files and lines for addresses of code, where they can be known."""
        lines = with_lines(text for finding in self.findings for text in finding.texts)
        for finding in self.findings:
            finding.texts = list(dict.fromkeys(lines[text] for text in finding.texts))

    def _find(self, kind: str, count: int, texts: Iterable[str]) -> None:
        if count == 0:
            return
        found = next((finding for finding in self.findings if finding.kind == kind), None)
        if found is None:
            found = Finding(kind)
            self.findings.append(found)
        found.count += count
        found.texts += [text for text in texts if text not in found.texts]


def _add_file(report: Report, file: Path) -> None:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
        if not text:  # see _reserve; the library makes PATH.PID at its first call and fills it at the end
            pid = file.name.rpartition(".")[2]
            if pid.isdecimal():
                report.unfinished.append(int(pid))
            return
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise ValueError("not an object")
        report._add(raw)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        report.unreadable.append(f"{file.name}: {error}")


def sum_reports(path: Path) -> Report:
    """Adds up `path` and `path`.PID of every further process; files that are no report are only noted."""
    report = Report()
    for file in [path, *sorted(path.parent.glob(f"{path.name}.*"))]:
        _add_file(report, file)
    return report


# ---- running ----


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended and what the simulator saw of it."""

    status: int
    """Its exit status, or 128 + the number of the signal that ended it."""

    signal_name: str | None
    report: Report | None
    """None when no process of the program left a report."""


def simulator_file() -> Path:
    """The simulator's library. Raises LibraryError without one."""
    path = simulator_path()
    if path is None or not os.path.isfile(path):
        raise LibraryError(
            "the simulator is not built: libascendcl_sim.so was not found beside npu_xfer._native",
            remedy="install npu-xfer, or run from outside of its source folder",
        )
    return Path(path)


def _prepended(folder: Path, old: str | None) -> str:
    # An empty entry in the middle would mean the working folder.
    return f"{folder}{os.pathsep}{old}" if old else str(folder)


def _reserve(path: Path) -> None:
    """Makes every process write to PATH.PID: the library leaves a file at PATH alone when it is younger than
    the process, else it takes it for one of an earlier run; a script's second program would do so here."""
    path.touch()
    far = time.time() + _FAR_S
    os.utime(path, (far, far))


def _environment(folder: Path, choices: Choices) -> dict[str, str]:
    """Fills `folder` with links to the simulator and the shim; the variables that make a program use them."""
    libraries, modules = folder / "lib", folder / "python"
    libraries.mkdir()
    modules.mkdir()
    for name in CANN_NAMES:
        # Links, not copies: the loader then sees one library under every name, with one state.
        (libraries / name).symlink_to(simulator_file())
    (modules / "acl.py").write_text(_SHIM, encoding="utf-8")
    environ = os.environ | choices.variables()
    environ["LD_LIBRARY_PATH"] = _prepended(libraries, environ.get("LD_LIBRARY_PATH"))
    environ["PYTHONPATH"] = _prepended(modules, environ.get("PYTHONPATH"))
    environ["NPU_XFER_LIBRARY"] = "sim"
    environ["ACLSIM_REPORT"] = str(folder / "report.json")
    _reserve(folder / "report.json")
    return environ


def _check_choices(environ: Mapping[str, str], choices: Choices) -> None:
    """Raises ValueError with what the library says of values that it does not take: it would go on with its
    default, and a program that does not look at the result of aclInit would never know."""
    asked = {name: value for name, value in environ.items() if name not in _NOT_FOR_THE_PROBE}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROBE, str(simulator_file())],
        env=asked,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    told = [line.removeprefix(_REFUSED) for line in done.stderr.splitlines() if line.startswith(_REFUSED)]
    for variable, option in choices.options().items():
        told = [re.sub(rf"^{variable}=@?", f"{option} ", line) for line in told]
    if told:
        raise ValueError("; ".join(told))


@contextlib.contextmanager
def signals_for_program() -> Iterator[None]:
    """Around `run` and what is told afterwards: a signal is for the program, also when it has just ended.

    Some senders signal their child and then its whole process group, as timeout does; and while the main
    thread does not wait, a signal goes to any thread that does not block it, such as those that numpy starts.
    Either would end this process before it has told about the program.
    """
    before = {one: signal.getsignal(one) for one in _PASSED_ON}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)


def _listen() -> None:
    for one in _PASSED_ON:
        if signal.getsignal(one) != signal.SIG_IGN:  # what is ignored, as by nohup, the program ignores too
            signal.signal(one, _pass_on)


_running: set[int] = set()  # the program that runs


def _pass_on(number: int, frame: object) -> None:
    for pid in tuple(_running):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(pid: int, watched: frozenset[signal.Signals]) -> int:
    """Waits for the program and passes signals on. Every signal of `watched` and SIGCHLD is blocked here."""
    ended: list[int] = []
    waiter = threading.get_ident()
    _running.add(pid)

    def watch() -> None:
        _, status = os.waitpid(pid, 0)
        _running.discard(pid)
        ended.append(status)
        signal.pthread_kill(waiter, signal.SIGCHLD)

    # The kernel's own SIGCHLD may go to any thread that does not block it, and be lost there.
    thread = threading.Thread(target=watch, name="npu-xfer-wait", daemon=True)
    thread.start()
    while not ended:
        info = signal.sigtimedwait(watched | {signal.SIGCHLD}, _LOOK_S)
        if info is not None and info.si_signo != signal.SIGCHLD and info.si_code != _FROM_KERNEL:
            _pass_on(info.si_signo, None)
    thread.join()
    return os.waitstatus_to_exitcode(ended[0])


def _run_program(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit status, negative for a signal. Raises OSError when the program cannot be started."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON | {signal.SIGCHLD})
    _listen()
    try:
        # Python ignores SIGPIPE and SIGXFSZ, and a program would inherit that.
        pid = os.posix_spawnp(
            argv[0], list(argv), environ, setsigmask=before, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
        )
        return _wait(pid, _PASSED_ON)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(argv: Sequence[str], choices: Choices) -> Ran:
    """Runs a program on the simulator, with this process's standard streams, and waits for it.

    To be called inside `signals_for_program`. Reports are read when the program itself has ended; what its
    children do later is not in them.
    Raises LibraryError without a simulator, XferError without a folder for temporary files, ValueError for a
    choice that the simulator does not take, OSError when the program cannot be started (see `status_of`).
    """
    simulator_file()
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="npu-xfer-"))
            if set(folder) & _SEPARATORS:
                raise OSError(f"{folder} has a : or ; in it, which separates folders on a library path")
            environ = _environment(Path(folder), choices)
        except OSError as error:
            raise XferError(
                f"no temporary folder for the program's libraries and reports: {error}",
                remedy="set TMPDIR to a folder that can be written",
            ) from error
        _check_choices(environ, choices)
        code = _run_program(argv, environ)
        report = sum_reports(Path(environ["ACLSIM_REPORT"]))
    report.name_lines()
    if not report.pids and not report.unfinished and not report.unreadable:
        return _ran(code, None)
    return _ran(code, report)


def _ran(code: int, report: Report | None) -> Ran:
    if code >= 0:
        return Ran(code, None, report)
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    return Ran(_BY_SIGNAL - code, name, report)


def status_of(error: OSError) -> int:
    """What a shell ends with when a program cannot be started for this reason."""
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE


# ---- building ----


def installed_headers() -> list[Path]:
    """The headers of the simulator, beside the library. Raises LibraryError when they are not installed."""
    folder = simulator_file().parent / "include" / "acl"
    found = sorted(path for path in folder.glob("*") if path.suffix in {".h", ".def"})
    if not found:
        raise LibraryError(
            f"the simulator's headers are missing from {folder}", remedy="install npu-xfer again"
        )
    return found


def _is_ours(path: Path) -> bool:
    """Whether a file was made by an earlier `sim sdk`, and may be replaced."""
    if path.is_symlink():
        target = os.readlink(path)
        return target == CANN_NAMES[1] or Path(target).name == simulator_file().name or "npu_xfer" in target
    marks = (b"aclsim_abi", b"NPUX_", b"ACL_FN(")
    return path.is_file() and any(mark in path.read_bytes() for mark in marks)


def _place(source: Path, target: Path, *, copy: bool) -> None:
    target.unlink(missing_ok=True)
    if copy:
        shutil.copyfile(source, target)
    else:
        target.symlink_to(source)


def make_sdk(folder: Path, *, copy: bool = False) -> list[Path]:
    """Makes include/acl and lib64 in `folder` as a CANN installation has them; returns the files.

    Raises XferError, before anything is made, when a file of these names is somebody else's.
    """
    folder = folder.absolute()
    library, other = (folder / "lib64" / CANN_NAMES[1], folder / "lib64" / CANN_NAMES[0])
    headers = [(source, folder / "include" / "acl" / source.name) for source in installed_headers()]
    targets = [target for _, target in headers] + [library, other]
    for target in targets:
        if (target.is_symlink() or target.exists()) and not _is_ours(target):
            raise XferError(
                f"{target} exists and was not made by npu-xfer",
                remedy="name another folder, or remove this file",
            )
    for parent in {target.parent for target in targets}:
        parent.mkdir(parents=True, exist_ok=True)
    for source, target in headers:
        _place(source, target, copy=copy)
    _place(simulator_file(), library, copy=copy)
    # A second copy would be a second simulator in a program that loads both names.
    _place(Path(library.name), other, copy=False)
    return targets
