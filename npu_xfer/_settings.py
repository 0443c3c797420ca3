"""The environment, read once, into one frozen object.

Threads: `settings` may be called from any thread; the first call wins.
Nothing here touches the ACL runtime. Every size is in bytes.
"""

from __future__ import annotations

import functools
import operator
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "GIB",
    "KIB",
    "LANGUAGES",
    "MIB",
    "PAGEABLE_PATHS",
    "Settings",
    "default_stagers",
    "format_nbytes",
    "language",
    "parse_nbytes",
    "settings",
    "whole_number",
]

_T = TypeVar("_T")

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

PAGEABLE_PATHS = ("auto", "staged", "sync")
"""Ways for ordinary memory; the index is the number that the native engine uses."""

LANGUAGES = ("en", "zh")
"""Languages in which errors are explained."""

_LOCALES = ("LC_ALL", "LC_MESSAGES", "LANG")  # in the order in which the C library looks

_UNITS = {
    "": 1,
    "B": 1,
    "K": KIB,
    "KIB": KIB,
    "M": MIB,
    "MIB": MIB,
    "G": GIB,
    "GIB": GIB,
    "T": 1 << 40,
    "TIB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_SIZE_FORMS = "bytes as a whole number, or a number with KiB, MiB, GiB, TiB (or KB, MB, GB, TB)"


def parse_nbytes(text: str) -> int:
    """Number of bytes written as "4096", "64MiB", "1.5 GiB" or "10MB"; K, M, G and T alone mean KiB, MiB, ...

    Raises ValueError for anything else, and for a value that is not a whole number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = _UNITS.get(match.group(2).upper()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a size; accepted: {_SIZE_FORMS}")
    whole, _, fraction = match.group(1).partition(".")
    scale: int = 10 ** len(fraction)
    nbytes, rest = divmod(int(whole + fraction) * factor, scale)
    if rest:
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return nbytes


def format_nbytes(nbytes: int) -> str:
    """Shortest common form of a number of bytes with at most one decimal: 512 B, 64 KiB, 1.5 GiB."""
    if nbytes < 0:
        return "-" + format_nbytes(-nbytes)
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        # 1023.95 would print as 1024.0, so that it belongs to the next unit.
        if value < 1023.95 or unit == "TiB":
            text = f"{value:.1f}"
            return f"{text.removesuffix('.0')} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def _parse_size(text: str, *, least: int) -> int:
    nbytes = parse_nbytes(text)
    if nbytes < least:
        raise ValueError(f"{nbytes} bytes is too small; accepted: {format_nbytes(least)} or more")
    return nbytes


def _parse_count(text: str, *, least: int, most: int) -> int:
    accepted = f"accepted: a whole number from {least} to {most}"
    try:
        count = int(text.strip())
    except ValueError:
        raise ValueError(accepted) from None
    if not least <= count <= most:
        raise ValueError(accepted)
    return count


def _parse_path(text: str) -> str:
    if text.strip().lower() not in PAGEABLE_PATHS:
        raise ValueError(f"accepted: {', '.join(PAGEABLE_PATHS)}")
    return text.strip().lower()


def _parse_library(text: str) -> str:
    value = text.strip()
    word = value.lower()
    if word in {"", "auto", "cann", "sim"}:
        return word or "auto"
    if "/" in value or ".so" in value:
        return os.path.expanduser(value)
    raise ValueError("accepted: auto, cann, sim, or the path of a library (with a / or .so in it)")


_VARIABLES = {
    "NPU_XFER_STAGING": "staging_bytes",
    "NPU_XFER_CHUNK": "chunk_bytes",
    "NPU_XFER_LANES": "n_lanes",
    "NPU_XFER_STAGERS": "n_stagers",
    "NPU_XFER_SPIN": "spin_us",
    "NPU_XFER_INLINE": "inline_bytes",
    "NPU_XFER_RESULTS": "result_cache",
}


def _parse_tuning(text: str) -> str:
    word = text.strip()
    return word.lower() if word.lower() in {"auto", "off"} else os.path.expanduser(word)


def _parse_language(text: str) -> str:
    word = text.strip().lower()
    if word not in LANGUAGES:
        raise ValueError(f"accepted: {', '.join(LANGUAGES)}")
    return word


def _language(environ: Mapping[str, str]) -> str:
    locale = next((text for name in _LOCALES if (text := environ.get(name, "").strip())), "")
    return _read(environ, "NPU_XFER_LANG", _parse_language, "zh" if locale[:2].lower() == "zh" else "en")


def _read(environ: Mapping[str, str], variable: str, parse: Callable[[str], _T], default: _T) -> _T:
    text = environ.get(variable, "")
    if not text.strip():
        return default
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{variable}={text!r} is not valid: {error}") from None


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for. Arguments of a scheduler go before these."""

    library: str = "auto"
    """NPU_XFER_LIBRARY: "auto" (CANN if present, else the simulator), "cann", "sim", or a library's path."""

    staging_bytes: int = 256 * MIB
    """NPU_XFER_STAGING: page-locked staging memory, in bytes per direction and device."""

    chunk_bytes: int = 4 * MIB
    """NPU_XFER_CHUNK: largest piece, in bytes, that goes to the device as one copy."""

    n_lanes: int = 3
    """NPU_XFER_LANES: streams per direction and device."""

    pageable_path: str = "auto"
    """NPU_XFER_PATH: how ordinary memory is moved: "staged", "sync" (the runtime's synchronous copy, where
    the end of one transfer is awaited), or "auto", which measures both."""

    window_transfers: int = 1 << 18
    """NPU_XFER_WINDOW: most transfers accepted and not done; a submit beyond them waits. 0: no limit."""

    window_bytes: int = 64 * GIB
    """NPU_XFER_WINDOW_BYTES: most bytes in these; a larger request goes alone. 0: no limit."""

    n_stagers: int = 0
    """NPU_XFER_STAGERS: threads per device that copy between ordinary and staging memory; 0: half of the
    cores that this process may use, from 1 to 4."""

    spin_us: int = 50
    """NPU_XFER_SPIN: microseconds for which a stream's thread that has run out of work looks for more before
    it sleeps; 0 turns it off. At most one thread of a process does so (one for four cores)."""

    inline_bytes: int = 64 * KIB
    """NPU_XFER_INLINE: sources of at most this many bytes are captured on the calling thread."""

    result_cache: int = 256 * MIB
    """NPU_XFER_RESULTS: idle memory of results, in bytes, that is kept for reuse; 0 turns it off."""

    tuning: str = "auto"
    """NPU_XFER_TUNING: "auto" (what `npu-xfer tune` wrote for this machine), "off", or a file."""

    language: str = "en"
    """NPU_XFER_LANG: "en" or "zh", the language of what errors mean and what to do; the default is Chinese
    where the locale (LC_ALL, LC_MESSAGES, LANG) is."""

    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Names of the fields that the environment or an argument set; a tuning profile leaves these alone."""

    cann_homes: tuple[tuple[str, str], ...] = ()
    """(variable, folder) of ASCEND_HOME_PATH and ASCEND_TOOLKIT_HOME, where set, in this order."""

    def __post_init__(self) -> None:
        if self.chunk_bytes > self.staging_bytes:
            raise ValueError(
                f"NPU_XFER_CHUNK={self.chunk_bytes} is larger than NPU_XFER_STAGING={self.staging_bytes}; "
                "accepted: a chunk of at most the staging memory"
            )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from a mapping such as os.environ. Pure: reads nothing else.

        An unset or empty variable keeps the default. Raises ValueError naming the variable, its value and
        what is accepted.
        """
        default = cls()
        sizes = functools.partial(_parse_size, least=64 * KIB)
        staging_bytes = _read(environ, "NPU_XFER_STAGING", sizes, default.staging_bytes)
        chunk_default = min(default.chunk_bytes, staging_bytes)
        homes = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
        given = {name for variable, name in _VARIABLES.items() if environ.get(variable, "").strip()}
        return cls(
            tuning=_read(environ, "NPU_XFER_TUNING", _parse_tuning, default.tuning),
            language=_language(environ),
            given=frozenset(given),
            library=_read(environ, "NPU_XFER_LIBRARY", _parse_library, default.library),
            staging_bytes=staging_bytes,
            chunk_bytes=_read(
                environ, "NPU_XFER_CHUNK", functools.partial(_parse_size, least=4 * KIB), chunk_default
            ),
            n_lanes=_read(
                environ, "NPU_XFER_LANES", functools.partial(_parse_count, least=1, most=32), default.n_lanes
            ),
            pageable_path=_read(environ, "NPU_XFER_PATH", _parse_path, default.pageable_path),
            window_transfers=_read(
                environ,
                "NPU_XFER_WINDOW",
                functools.partial(_parse_count, least=0, most=1 << 30),
                default.window_transfers,
            ),
            window_bytes=_read(environ, "NPU_XFER_WINDOW_BYTES", parse_nbytes, default.window_bytes),
            n_stagers=_read(
                environ,
                "NPU_XFER_STAGERS",
                functools.partial(_parse_count, least=0, most=64),
                default.n_stagers,
            ),
            spin_us=_read(
                environ,
                "NPU_XFER_SPIN",
                functools.partial(_parse_count, least=0, most=10_000),
                default.spin_us,
            ),
            inline_bytes=_read(environ, "NPU_XFER_INLINE", parse_nbytes, default.inline_bytes),
            result_cache=_read(environ, "NPU_XFER_RESULTS", parse_nbytes, default.result_cache),
            cann_homes=tuple((name, environ[name]) for name in homes if environ.get(name)),
        )

    def with_arguments(self, **given: Any) -> Settings:
        """These settings with a scheduler's arguments in the place of some; None means not given.

        Sizes may be written as the variables are ("64MiB"). Raises TypeError or ValueError naming the
        argument, its value and what is accepted.
        """
        changed = {name: _argument(name, value) for name, value in given.items() if value is not None}
        asked = set(changed)
        staging_bytes = changed.get("staging_bytes", self.staging_bytes)
        chunk_bytes = changed.get("chunk_bytes")
        if chunk_bytes is None:
            changed["chunk_bytes"] = min(self.chunk_bytes, staging_bytes)
        elif chunk_bytes > staging_bytes:
            raise ValueError(
                f"chunk_bytes={chunk_bytes} is larger than the staging memory of {staging_bytes} bytes; "
                "accepted: at most staging_bytes"
            )
        return replace(self, **changed, given=self.given | (changed.keys() & asked))


_LEAST = {
    "staging_bytes": 64 * KIB,
    "chunk_bytes": 4 * KIB,
    "inline_bytes": 0,
    "result_cache": 0,
    "n_lanes": 1,
    "n_stagers": 0,
    "window_transfers": 0,
    "window_bytes": 0,
    "spin_us": 0,
}
_MOST = {"n_lanes": 32, "n_stagers": 64, "spin_us": 10_000, "window_transfers": 1 << 30}


def _argument(name: str, value: Any) -> Any:
    if name == "pageable_path":
        try:
            return _parse_path(value)
        except (AttributeError, ValueError):
            raise ValueError(
                f"pageable_path={value!r} is not valid; accepted: {', '.join(PAGEABLE_PATHS)}"
            ) from None
    if name == "library":
        try:
            return _parse_library(os.fspath(value))
        except ValueError as error:
            raise ValueError(f"library={value!r} is not valid: {error}") from None
    return whole_number(name, value, least=_LEAST[name], most=_MOST.get(name), size=name not in _MOST)


def whole_number(
    name: str, value: Any, *, least: int = 0, most: int | None = None, size: bool = False
) -> int:
    """An argument that is a whole number in a range; with `size`, also written as text with a unit.

    Raises TypeError or ValueError naming the argument, its value and what is accepted.
    """
    accepted = f"{least} or more" if most is None else f"{least} to {most}"
    accepted = f"accepted: a whole number, {accepted}" + (', or text such as "64MiB"' if size else "")
    try:
        number = parse_nbytes(value) if size and isinstance(value, str) else operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r} is not a whole number; {accepted}") from None
    except ValueError as error:
        raise ValueError(f"{name}={value!r} is not valid: {error}") from None
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        raise ValueError(f"{name}={value!r} is not valid; {accepted}")
    return number


def default_stagers() -> int:
    """How many staging threads suit this process: the user's code and the device's driver need cores too."""
    return max(1, min(4, len(os.sched_getaffinity(0)) // 2))


@functools.cache
def settings() -> Settings:
    """The process's settings, read from os.environ at the first call and kept.

    Raises ValueError for a variable with a bad value; nothing is kept then. `settings.cache_clear()` makes
    the next call read again, for tests.
    """
    return Settings.from_environ(os.environ)


def language() -> str:
    """The language of explanations, "en" or "zh"; English where the environment has a bad value somewhere."""
    try:
        return settings().language
    except ValueError:
        return "en"
