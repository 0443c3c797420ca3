"""The answers of the library in use, or of every profile of the simulator, as one table.

    python tests/conformance/matrix.py            writes docs/simulator-profiles.md
    python tests/conformance/matrix.py --check    exits 1 when that file is not what would be written
    python tests/conformance/matrix.py --print    prints it instead; on CANN this is the only way

Each profile is probed in a process of its own, forked before any library is loaded.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "simulator-profiles.md"
sys.path.insert(0, str(ROOT / "tests"))

# Importing loads no ACL library; open_acl does, in the child.
from conformance.support.face import open_acl, symbols  # noqa: E402  # needs the path above
from conformance.support.probes import run  # noqa: E402  # needs the path above
from conformance.support.profiles import GENERATIONS  # noqa: E402  # needs the path above

# The chip itself runs the program on two of them; the 950 came with CANN 8.5.
FORMS = {
    "910": ("ep",),
    "310p": ("ep", "rc"),
    "310b": ("ep", "rc"),
    "a2": ("ep",),
    "a3": ("ep",),
    "950": ("ep",),
}
PROFILES = [
    f"{chip}-{form}-{gen}"
    for chip, forms in FORMS.items()
    for form in forms
    for gen in GENERATIONS
    if chip != "950" or gen not in ("8.0", "8.3")
]
DEADLINE_S = 30.0
Answers = dict[str, dict[str, str]]


def _probe(environ: dict[str, str]) -> tuple[str, Answers | None]:
    os.environ.update(environ)
    acl = open_acl()
    if "ACLSIM_PROFILE" in environ and acl.profile.name != environ["ACLSIM_PROFILE"]:
        return acl.profile.name, None
    return acl.profile.name, run(acl)


def _forked(function: Callable[[], Any]) -> Any:
    """The function's result from a child. ChildProcessError when it crashes or hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        try:
            with os.fdopen(write, "w") as out:
                json.dump(function(), out)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    chunks: list[bytes] = []
    try:
        while select.select([read], [], [], DEADLINE_S)[0]:
            chunk = os.read(read, 1 << 16)
            if not chunk:
                break
            chunks.append(chunk)
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(read)
        _, status = os.waitpid(child, 0)
    if status != 0:
        raise ChildProcessError(f"the probe ended with status {status:#x}")
    return json.loads(b"".join(chunks))


def collect(profiles: list[str] | None) -> dict[str, Answers]:
    """Answers by profile. None: of the library as it is."""
    if profiles is None:
        name, answers = _forked(lambda: _probe({}))
        return {} if answers is None else {name: answers}
    found = {}
    for profile in profiles:
        environ = {"ACLSIM_PROFILE": profile, "ACLSIM_DEVICES": "2"}
        try:
            _, answers = _forked(functools.partial(_probe, environ))
        except ChildProcessError as failed:
            raise SystemExit(f"{profile}: {failed}") from None
        if answers is not None:
            found[profile] = answers
    return found


def _groups(columns: dict[str, Any]) -> list[tuple[list[str], Any]]:
    """Profiles with the same answers together, in the order of the first of each."""
    groups: list[tuple[list[str], Any]] = []
    for profile, column in columns.items():
        for names, same in groups:
            if same == column:
                names.append(profile)
                break
        else:
            groups.append(([profile], column))
    return groups


def _names(profiles: list[str]) -> str:
    """Profiles of one chip and form together: "a2-ep 8.5 9.0, a3-ep all"."""
    by_form: dict[str, list[str]] = {}
    for profile in profiles:
        form, _, gen = profile.rpartition("-")
        by_form.setdefault(form, []).append(gen)
    every = {form: sum(profile.startswith(f"{form}-") for profile in PROFILES) for form in by_form}
    return ", ".join(
        f"{form} {'all' if len(gens) == every[form] else ' '.join(gens)}" for form, gens in by_form.items()
    )


def _table(first: str, columns: dict[str, dict[str, str]]) -> list[str]:
    """Named groups, then one row for each probe with a column for each group."""
    groups = _groups(columns)
    letters = [f"{chr(ord('A') + i % 26)}{'' if i < 26 else i // 26}" for i in range(len(groups))]
    lines = [f"- **{letter}**: {_names(names)}" for letter, (names, _) in zip(letters, groups, strict=True)]
    lines += ["", f"| {first} | {' | '.join(letters)} |", "|---" * (len(groups) + 1) + "|"]
    for row in groups[0][1]:
        lines.append(f"| {row} | {' | '.join(column[row] for _, column in groups)} |")
    return lines


def _functions(answers: Answers) -> dict[str, str]:
    """One cell for each function: the valid call's answer, then the bad call's in brackets."""
    cells = {}
    for name in symbols():
        valid, bad = answers["valid"].get(name), answers["bad"].get(name)
        cells[name] = valid or ""
        if bad == "-":
            cells[name] = "-"
        elif bad is not None and valid != "-":
            cells[name] = f"{cells[name]} ({bad})".strip()
    return cells


def _over_time(by_gen: dict[str, str]) -> str:
    """One cell from a function's answers by generation, without those of before it came."""
    runs: list[tuple[str, str]] = []
    for gen, cell in by_gen.items():
        if (cell != "-" or runs) and (not runs or runs[-1][1] != cell):
            runs.append((gen, cell))
    if not runs:
        return "-"
    return "; ".join([runs[0][1], *(f"from {gen}: {cell}" for gen, cell in runs[1:])])


def _function_table(found: dict[str, Answers]) -> list[str]:
    """One row for each function: the generation that first has it, and a column for each group of chips."""
    by_form: dict[str, dict[str, dict[str, str]]] = {}
    for profile, answers in found.items():
        form, _, gen = profile.rpartition("-")
        by_form.setdefault(form, {})[gen] = _functions(answers)
    columns = {
        form: {name: _over_time({gen: cells[name] for gen, cells in gens.items()}) for name in symbols()}
        for form, gens in by_form.items()
    }
    groups = _groups(columns)
    lines = [f"| function | since | {' | '.join(', '.join(names) for names, _ in groups)} |"]
    lines.append("|---" * (len(groups) + 2) + "|")
    for name, symbol in symbols().items():
        cells = [column[name] for _, column in groups]
        lines.append(f"| {name} | {symbol.gen} | {' | '.join(cells)} |")
    return lines


def render(found: dict[str, Answers]) -> str:
    """The file's text."""
    lines = [
        "<!-- Made by `python tests/conformance/matrix.py`; a test compares it. Do not edit. -->",
        "",
        "# What each profile of the simulator answers",
        "",
        "A profile is a chip, how it is used (ep: the host runs the program; rc: the chip does)",
        "and a CANN generation; 9.1 stands for 9.1 and everything later. Choose one with `ACLSIM_PROFILE`.",
        "Profiles with equal answers share a column. Numbers are the codes of `aclError`.",
        "",
        "## Copies",
        "",
        *_table("call", {profile: answers["copies"] for profile, answers in found.items()}),
        "",
        "## Functions",
        "",
        "The code of a harmless valid call, and in brackets that of a call with a null or invalid argument.",
        "`text` and `null`: it returns a string or none. Releases before `since` lack the function.",
        "",
        *_function_table(found),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--print", action="store_true", help="write to standard output")
    parser.add_argument("--profiles", help="only these, separated by commas; implies --print")
    options = parser.parse_args()
    os.environ.setdefault("NPU_XFER_LIBRARY", "sim")
    real = not _forked(lambda: open_acl().simulated)
    profiles = options.profiles.split(",") if options.profiles else PROFILES
    found = collect(None if real else profiles)
    if not found:
        print("no profile could be probed", file=sys.stderr)
        return 2
    text = render(found)
    if options.print or options.profiles or real:
        print(text, end="")
        return 0
    if options.check:
        same = TARGET.is_file() and TARGET.read_text() == text
        if not same:
            print(f"{TARGET} is out of date; run python {Path(__file__).name}", file=sys.stderr)
        return 0 if same else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
