"""`npu-xfer sim run`: how a program ends, by itself, by a signal, or before it began."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import sim_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_options_after_the_program_are_its_own() -> None:
    ran = sim_run(sys.executable, "-c", "import sys; print(sys.argv[1:])", "--check", "--", "-x")
    assert ran.stdout == "['--check', '--', '-x']\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_a_signal_that_ends_it(number: signal.Signals) -> None:
    ran = sim_run("--", "sh", "-c", f"kill -{int(number)} $$")
    assert ran.returncode == 128 + number
    assert f"ended by {number.name}" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.02)\n"  # pause() may be entered after the handler ran
    )
    command = [sys.executable, "-m", "npu_xfer", "sim", "run", "--", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert running.wait(30) == 9


@pytest.fixture
def hup_ends_programs() -> Iterator[None]:
    """As usual, also where these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hup_ends_programs")
def test_a_signal_to_the_whole_group_does_not_cost_the_summary() -> None:
    """As timeout(1) does it: to npu-xfer, and then to its process group, which may be when the program has
    ended of the first one already. Threads of numpy's do not block the second one."""
    # The default action: a handler of Python's that ran just before pause() would leave the program waiting.
    code = "import signal as s; s.signal(s.SIGINT, s.SIG_DFL); print('ready', flush=True); s.pause()"
    command = [sys.executable, "-m", "npu_xfer", "sim", "run", "--", sys.executable, "-S", "-c", code]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            running.send_signal(number)
            os.killpg(running.pid, number)
            _, told = running.communicate(timeout=30)
        assert running.returncode == 128 + number
        assert f"ended by {number.name}" in told


def test_what_nohup_ignores_stays_ignored() -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    command = [sys.executable, "-m", "npu_xfer", "sim", "run", "--", sys.executable, "-c", code]
    ran = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == "True\n", ran.stderr


def test_a_choice_that_only_the_library_knows_starts_nothing(tmp_path: Path) -> None:
    """The library itself goes on with its default, and a program need not look at aclInit's result."""
    rules = tmp_path / "rules"
    rules.write_text("call name=aclrtMalloc code=207001\nexplode everything\n")
    for options, text in (
        (["--profile", "a9"], "--profile a9 is not valid"),
        (["--profile", "a2-rc"], "only 310p and 310b"),
        (["--link", "h2d=banana"], "--link h2d=banana is not valid"),
        (["--device-memory", "0"], "--device-memory 0 is not valid"),
        (["--faults", rules], f"--faults {rules} is not valid"),
    ):
        ran = sim_run(*options, "--", "echo", "started")
        assert ran.returncode == 2, options
        assert text in ran.stderr
        assert ran.stdout == ""
    ran = sim_run("--", "echo", "started", environ={"ACLSIM_DEVICES": "none"})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "ACLSIM_DEVICES=none is not valid" in ran.stderr


@pytest.mark.parametrize("name", ["missing", "a:b"])
def test_a_temporary_folder_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    """It is not the program that cannot be started; and a : in it would split the library path."""
    folder = tmp_path / name
    if name != "missing":
        folder.mkdir()
    tried = f"import tempfile; tempfile.tempdir = {str(folder)!r}; "
    command = "from npu_xfer.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", tried + command, "sim", "run", "--", "echo", "started"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "temporary folder" in ran.stderr
    assert "TMPDIR" in ran.stderr


@pytest.mark.parametrize(("name", "status"), [("/nonexistent/program", 127), ("/", 126)])
def test_a_program_that_cannot_be_started(name: str, status: int) -> None:
    ran = sim_run("--", name)
    assert ran.returncode == status
    assert f"{name} cannot be started" in ran.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--mode", "fast"], "accepted: threads, virtual, adversarial"),
        (["--strict", "all"], "accepted: align"),
        (["--faults", "/nonexistent/rules"], "is not a file"),
        (["--device-memory", "8 cakes"], "8 cakes"),
    ],
)
def test_what_the_user_said_wrong_starts_nothing(options: list[str], text: str) -> None:
    ran = sim_run(*options, "--", "echo", "started")
    assert ran.returncode == 2
    assert text in ran.stderr
    assert ran.stdout == ""
