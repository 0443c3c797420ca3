"""Which ACL library to use, and why.

`auto` takes CANN wherever one is present and the simulator only where none is: a CANN library that is present
and does not load is an error, because falling back to simulated copies would hide a broken installation.

The order: libacl_rt.so, then libascendcl.so, in lib64 and runtime/lib64 of ASCEND_HOME_PATH and then of
ASCEND_TOOLKIT_HOME; then the dynamic loader's own search (what the process has loaded already,
LD_LIBRARY_PATH, the system's cache).
"""

from __future__ import annotations

import errno
import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_xfer._cann.library import Library, open_library
from npu_xfer._types import LibraryInfo
from npu_xfer.errors import LibraryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer._settings import Settings

__all__ = ["CANN_NAMES", "SIMULATOR_NAME", "Candidate", "Located", "find_library", "simulator_path"]

# libacl_rt.so is the thin runtime-only library of newer releases; libascendcl.so exists in all of them.
CANN_NAMES = ("libacl_rt.so", "libascendcl.so")
SIMULATOR_NAME = "libascendcl_sim.so"
_LIBRARY_FOLDERS = ("lib64", os.path.join("runtime", "lib64"))
_CHOOSE = "set NPU_XFER_LIBRARY to auto, cann, sim or the path of a library"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One library that was looked at."""

    path: str
    """File, or bare name for the dynamic loader's search."""

    source: str
    """Where it came from: a variable of the environment, "loader search" or "this package"."""

    present: bool
    """False when there is no such library; True when there is one, usable or not."""

    why_not: str | None = None
    """Why it was not used; None for the one that was."""


@dataclass(frozen=True, slots=True)
class Located:
    """The chosen library, opened, and everything looked at on the way."""

    info: LibraryInfo
    library: Library
    tried: tuple[Candidate, ...]


def simulator_path() -> str | None:
    """Where the simulator library should be: beside the built extension. None without a built extension.

    The extension is found by its spec and not imported. The file may be missing.
    """
    try:
        spec = importlib.util.find_spec("npu_xfer._native")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return os.path.join(os.path.dirname(spec.origin), SIMULATOR_NAME)


def _cann_places(settings: Settings) -> Iterator[tuple[str, str]]:
    seen = set()
    for variable, home in settings.cann_homes:
        for folder in _LIBRARY_FOLDERS:
            for name in CANN_NAMES:
                path = os.path.join(home, folder, name)
                if path not in seen:
                    seen.add(path)
                    yield path, variable
    for name in CANN_NAMES:
        yield name, "loader search"


def _is_absent(path: str, error: OSError) -> bool:
    """Whether dlopen failed because there is no such library, and not because of what is inside it.

    For a bare name the loader's text starts with the name that it missed. That name is our own only when
    nothing was found; a dependency that is missing is named instead, and a found file by its full path. The
    reason is compared with strerror, since both follow the locale.
    """
    if "/" in path:
        return not os.path.lexists(path)
    text = str(error)
    return text.startswith(f"{path}:") and text.endswith(os.strerror(errno.ENOENT))


def _try_open(path: str, source: str) -> tuple[Library | None, Candidate]:
    if "/" in path and not os.path.lexists(path):
        return None, Candidate(path, source, present=False, why_not="no such file")
    try:
        return open_library(path), Candidate(path, source, present=True)
    except OSError as error:
        absent = _is_absent(path, error)
        why = "not found" if absent else f"cannot be loaded: {error}"
        return None, Candidate(path, source, present=not absent, why_not=why)
    except LibraryError as error:
        return None, Candidate(path, source, present=True, why_not=error.summary)


def _refuse(summary: str, tried: list[Candidate], remedy: str) -> LibraryError:
    return LibraryError(summary, candidates=[(c.path, c.why_not or "loaded") for c in tried], remedy=remedy)


def _located(library: Library, reason: str, requested: str, tried: list[Candidate]) -> Located:
    skipped = [f"{c.path} ({c.why_not})" for c in tried if c.present and c.why_not]
    if skipped:
        reason += "; passed over: " + ", ".join(skipped)
    info = LibraryInfo(library.file(), library.simulated, reason, requested)
    return Located(info, library, tuple(tried))


def _find_cann(settings: Settings, tried: list[Candidate]) -> Located | None:
    """The first CANN library that works; None when none is present; LibraryError when none works."""
    for path, source in _cann_places(settings):
        library, candidate = _try_open(path, source)
        tried.append(candidate)
        if library is not None:
            return _located(library, f"CANN library found through {source}", settings.library, tried)
    if any(candidate.present for candidate in tried):
        raise _refuse(
            "a CANN library is present but none can be used",
            tried,
            "repair the installation (source set_env.sh, install the driver), or set NPU_XFER_LIBRARY=sim to "
            "work with simulated devices on purpose",
        )
    return None


def _find_simulator(settings: Settings, tried: list[Candidate], reason: str) -> Located:
    path = simulator_path()
    if path is None:
        raise _refuse(
            "the simulator is not built: npu_xfer._native was not found",
            tried,
            "install npu-xfer, or run from outside of its source folder",
        )
    library, candidate = _try_open(path, "this package")
    tried.append(candidate)
    if library is None:
        raise _refuse("the simulator cannot be used", tried, "install npu-xfer again")
    return _located(library, reason, settings.library, tried)


def find_library(settings: Settings) -> Located:
    """Chooses and opens the ACL library that the settings ask for.

    Loads libraries and calls none of their functions. Raises LibraryError with each candidate and the reason
    why it was not used.
    """
    tried: list[Candidate] = []
    requested = settings.library
    if requested == "sim":
        return _find_simulator(settings, tried, "the simulator was asked for")
    if requested in {"auto", "cann"}:
        found = _find_cann(settings, tried)
        if found is not None:
            return found
        if requested == "auto":
            return _find_simulator(settings, tried, "no CANN library is present, so the simulator is used")
        raise _refuse(
            "no CANN library was found",
            tried,
            "install CANN and source its set_env.sh, or set NPU_XFER_LIBRARY to its path or to sim",
        )
    library, candidate = _try_open(requested, "NPU_XFER_LIBRARY")
    tried.append(candidate)
    if library is None:
        raise _refuse("the library that was asked for cannot be used", tried, _CHOOSE)
    return _located(library, "this path was asked for", requested, tried)
