"""`npu-xfer sim profiles`: what `sim run --profile` accepts, asked from the library itself."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass

from rich.table import Table

from npu_xfer._cann.abi import PROTOTYPES
from npu_xfer.cli._sim import simulator_file
from npu_xfer.errors import LibraryError

__all__ = ["Profile", "known_profiles", "table"]

# Candidates; the library decides which of their combinations there are.
_CHIPS = ("910", "310p", "310b", "a2", "a3", "950")
_FORMS = ("ep", "rc")
_RELEASES = ("8.0", "8.3", "8.5", "9.0", "9.1")
_NAME_NBYTES = 64


@dataclass(frozen=True, slots=True)
class Profile:
    """One chip in one form under one CANN release."""

    name: str
    soc_name: str
    is_default: bool
    n_functions: int
    """ACL functions that this release has, of those that npu_xfer knows."""


def _current(library: ctypes.CDLL) -> str:
    name = ctypes.create_string_buffer(_NAME_NBYTES)
    if library.aclsim_get_profile(name, ctypes.c_size_t(_NAME_NBYTES)) != 0:
        raise LibraryError("the simulator does not tell its profile", remedy="install npu-xfer again")
    return name.value.decode()


def known_profiles() -> list[Profile]:
    """Every profile, by trying. Leaves the simulator of this process with the profile that it had.

    Raises LibraryError when the library knows no profiles.
    """
    library = ctypes.CDLL(str(simulator_file()))
    for name in ("aclsim_set_profile", "aclsim_get_profile", "aclsim_has_function"):
        if not hasattr(library, name):
            raise LibraryError(f"this simulator has no {name}", remedy="install npu-xfer again")
    library.aclrtGetSocName.restype = ctypes.c_char_p
    default = _current(library)
    found = []
    try:
        for parts in itertools.product(_CHIPS, _FORMS, _RELEASES):
            if library.aclsim_set_profile("-".join(parts).encode()) != 0:
                continue
            name = _current(library)
            soc_name = library.aclrtGetSocName() or b""
            n_functions = sum(library.aclsim_has_function(fn.encode()) == 1 for fn in PROTOTYPES)
            found.append(Profile(name, soc_name.decode(), name == default, n_functions))
    finally:
        library.aclsim_set_profile(default.encode())
    return found


def table(profiles: list[Profile]) -> Table:
    """One row for each."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("profile", "soc name", "ACL functions", ""):
        rows.add_column(title, justify="right" if title == "ACL functions" else "left")
    for profile in profiles:
        mark = "default" if profile.is_default else ""
        rows.add_row(profile.name, profile.soc_name, str(profile.n_functions), mark)
    return rows
