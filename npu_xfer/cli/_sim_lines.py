"""Lines of code for what the simulator found: "[/path/prog+0x12f3]" becomes "[prog.cpp:36 in main]".

The simulator writes where a call returns to; addr2line (binutils) knows the line, when the program was built
with -g. Without either the name of the file and the offset stay.
"""

from __future__ import annotations

import os.path
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["sites", "with_lines"]

_ADDRESS = re.compile(r"\[([^\[\]\n]+)\+(0x[0-9a-f]+)\]")
_SITE = re.compile(r"\w+ \[[^\[\]\n]+\]")
_PATIENCE_S = 20.0  # for one program file: large debug information takes seconds


def _ask(tool: str, program: str, offsets: Sequence[str]) -> dict[str, str]:
    """offset -> "file:line in function", for those that are known."""
    try:
        told = subprocess.run(
            [tool, "-C", "-f", "-e", program, *offsets],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    found = {}
    for offset, function, place in zip(offsets, told[::2], told[1::2], strict=False):
        # "??:0" or "??:?" without debug information; "prog.c:36 (discriminator 2)" with too much of it
        file, _, line = place.split(" (")[0].rpartition(":")
        if file not in {"", "??"} and line.isdecimal() and line != "0":
            found[offset] = f"{os.path.basename(file)}:{line} in {function.split('(')[0]}"
        # Without a line the function is a guess: in a stripped library the nearest one that is exported.
    return found


def with_lines(texts: Iterable[str]) -> dict[str, str]:
    """Each text and what it becomes. Never raises: a text without a known place only loses the folders."""
    texts = list(texts)
    wanted: dict[str, set[str]] = {}
    for text in texts:
        for program, offset in _ADDRESS.findall(text):
            wanted.setdefault(program, set()).add(offset)
    tool = shutil.which("addr2line")
    known: dict[tuple[str, str], str] = {}
    for program, offsets in wanted.items():
        if tool is not None and os.path.isfile(program):
            told = _ask(tool, program, sorted(offsets))
            known |= {(program, offset): place for offset, place in told.items()}

    def place(match: re.Match[str]) -> str:
        program, offset = match.groups()
        if os.path.basename(program).startswith("libffi."):
            return "[through ctypes or another user of libffi]"
        return f"[{known.get((program, offset), f'{os.path.basename(program)}+{offset}')}]"

    return {text: _ADDRESS.sub(place, text) for text in texts}


def sites(text: str) -> tuple[str, ...]:
    """The calls and places that a text names, in order: two texts with the same ones are the same mistake."""
    return tuple(_SITE.findall(text))
