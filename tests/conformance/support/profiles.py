"""Which chip, form and CANN generation the library in use is, so that a test can expect the right code."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

GENERATIONS = ("8.0", "8.3", "8.5", "9.0", "9.1")
"""In order; the last stands for 9.1 and everything later."""

# The first function that only a generation and its successors have.
_FIRST_SEEN = {
    "9.1": "aclrtMemsetD32",
    "9.0": "aclrtMemGetAddressRange",
    "8.5": "aclFinalizeReference",
    "8.3": "aclrtMemcpyBatch",
}
# The beginning of what aclrtGetSocName answers, longest first.
_CHIPS = (
    ("Ascend910_95", "950"),
    ("Ascend910_93", "a3"),
    ("Ascend950", "950"),
    ("Ascend910B", "a2"),
    ("Ascend310B", "310b"),
    ("Ascend310P", "310p"),
    ("Ascend910", "910"),
)
DEFAULT = "a2-ep-9.1"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a test may decide by."""

    chip: str
    """910, 310p, 310b, a2, a3 or 950."""

    form: str
    """ep: the host runs the program; rc: the chip does."""

    gen: str
    """One of GENERATIONS."""

    simulated: bool

    @property
    def name(self) -> str:
        return f"{self.chip}-{self.form}-{self.gen}"

    def since(self, gen: str) -> bool:
        """Whether this generation is `gen` or later."""
        return GENERATIONS.index(self.gen) >= GENERATIONS.index(gen)


def generation_of(release: str) -> str:
    """The generation that a release of symbols.def, such as 8.3.RC1, belongs to."""
    major, minor = (int(part) for part in release.split(".")[:2])
    later = [gen for gen in GENERATIONS if tuple(map(int, gen.split("."))) >= (major, minor)]
    return later[0] if later else GENERATIONS[-1]


def parse(name: str, *, simulated: bool = True) -> Profile:
    """A full name such as a2-ep-9.1."""
    chip, form, gen = name.lower().split("-")
    return Profile(chip, form, gen, simulated)


def _from_simulator(library: ctypes.CDLL) -> Profile:
    ask: Callable[[ctypes.Array[ctypes.c_char], ctypes.c_size_t], int] | None
    ask = getattr(library, "aclsim_get_profile", None)
    if ask is None:
        return parse(os.environ.get("ACLSIM_PROFILE", DEFAULT))
    name = ctypes.create_string_buffer(64)
    ask(name, ctypes.c_size_t(64))
    return parse(name.value.decode())


def _from_hardware(library: ctypes.CDLL) -> Profile:
    ask = library.aclrtGetSocName
    ask.restype = ctypes.c_char_p
    soc = (ask() or b"").decode()
    chip = next((chip for start, chip in _CHIPS if soc.startswith(start)), "a2")
    gen = next((gen for gen, name in _FIRST_SEEN.items() if hasattr(library, name)), "8.0")
    mode = ctypes.c_int(-1)
    library.aclrtGetRunMode(ctypes.byref(mode))
    return Profile(chip, "rc" if mode.value == 0 else "ep", gen, simulated=False)


def detect(library: ctypes.CDLL) -> Profile:
    """The simulator says it; on hardware the chip's name and the exported functions tell it."""
    if hasattr(library, "aclsim_abi"):
        return _from_simulator(library)
    return _from_hardware(library)
