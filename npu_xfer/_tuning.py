"""The tuning profile of this machine: which file, whether it fits, and what it changes.

`npu-xfer tune` writes it. The key is compared when a scheduler opens; nothing here runs at import, and
without a file the runtime is asked nothing. A profile changes only what neither the environment nor an
argument set.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_xfer._library import located_library, open_runtime
from npu_xfer.errors import XferError

if TYPE_CHECKING:
    from npu_xfer._settings import Settings

__all__ = ["KNOBS", "Key", "Profile", "machine_key", "profile_path", "read_profile", "tuned", "write_profile"]

_log = logging.getLogger("npu_xfer")
_FORMAT = 1
KNOBS = ("chunk_bytes", "n_lanes", "n_stagers", "inline_bytes", "spin_us")
"""The settings that a profile may hold."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a profile was measured on. One that differs in any field does not fit."""

    chip: str
    """The runtime's name of the chip; "simulator" in front when it is simulated."""

    version: str
    """Of the runtime's package, or of its ACL where it tells no other."""

    cpu: str
    numa_node: int
    """Of the cores that this process may use; -1 when these are of several nodes."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A key and the settings that were better than the defaults there."""

    key: Key
    values: dict[str, int]
    path: str = ""


def profile_path() -> Path:
    """Where `npu-xfer tune` writes and "auto" looks: the user's configuration folder by the XDG rule."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".config"
    return folder / "npu_xfer" / "tuning.json"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                field, _, value = line.partition(":")
                if field.strip().lower() in {"model name", "hardware", "cpu part"}:
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _numa_node() -> int:
    """The one node that all cores of this process belong to, or -1."""
    nodes = set()
    for core in os.sched_getaffinity(0):
        found = list(Path(f"/sys/devices/system/cpu/cpu{core}").glob("node[0-9]*"))
        nodes |= {int(path.name.removeprefix("node")) for path in found}
    return nodes.pop() if len(nodes) == 1 else -1


def machine_key(settings: Settings) -> Key:
    """This machine's key. Asks the runtime for its names, which needs no initialisation of it."""
    runtime = open_runtime(settings)
    versions = runtime.versions()
    chip = runtime.soc_name() or "unknown"
    return Key(
        f"simulator {chip}" if located_library(settings).info.simulated else chip,
        versions.get("runtime") or versions.get("acl") or "unknown",
        _cpu(),
        _numa_node(),
    )


def read_profile(path: Path) -> Profile:
    """The profile of a file. Raises OSError, or ValueError for a file that is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"its format is {data['format']!r}, not {_FORMAT}")
        values: dict[str, Any] = data["values"]
        unknown = values.keys() - set(KNOBS)
        if unknown:
            raise ValueError(f"no settings that can be tuned: {', '.join(sorted(unknown))}")
        if not all(type(value) is int for value in values.values()):
            raise ValueError("a value is no whole number")
        return Profile(Key(**data["key"]), values, str(path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is no tuning profile: {error}") from None


def write_profile(path: Path, profile: Profile, facts: dict[str, Any]) -> None:
    """Writes it, whole or not at all; `facts` is what a reader may want to know beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"format": _FORMAT, "key": asdict(profile.key), "values": profile.values, **facts}
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    beside.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    beside.replace(path)


def tuned(settings: Settings) -> tuple[Settings, str]:
    """The settings with the profile's values in them, and one sentence on what was done.

    A profile that cannot be read or does not fit changes nothing; one that was named and cannot be used is
    also logged as a warning, since somebody expects it to work.
    """
    if settings.tuning == "off":
        return settings, "off (NPU_XFER_TUNING)"
    named = settings.tuning != "auto"
    try:
        path = Path(settings.tuning) if named else profile_path()
        profile = read_profile(path)
    except FileNotFoundError as error:
        if not named:
            return settings, "none; `npu-xfer tune` makes one"
        return settings, _complain(str(error))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: there is no home folder
        return settings, _complain(str(error))
    try:
        key = machine_key(settings)
    except XferError as error:
        return settings, _complain(f"{path}: the runtime does not tell what it is: {error}")
    if key != profile.key:
        here, there = asdict(key), asdict(profile.key)
        other = ", ".join(
            f"{name} {there[name]!r} here {here[name]!r}" for name in here if here[name] != there[name]
        )
        text = f"{path} was measured elsewhere ({other})"
        return settings, _complain(text) if named else f"not used: {text}"
    values = {name: value for name, value in profile.values.items() if name not in settings.given}
    try:
        # As arguments, so that ranges are checked; what was given stays what it was.
        changed = replace(settings.with_arguments(**values), given=settings.given)
    except ValueError as error:
        return settings, _complain(f"{path}: {error}")
    what = ", ".join(f"{name}={value}" for name, value in values.items()) or "nothing"
    return changed, f"{path}: {what}"


def _complain(text: str) -> str:
    _log.warning("npu_xfer: the tuning profile is not used: %s", text)
    return f"not used: {text}"
