"""What the checks know about the machine: files below one root, and the facts of this process.

Tests give a made-up root and made-up facts. Nothing here calls the ACL library.
"""

from __future__ import annotations

import os
import re
import resource
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UNLIMITED", "Host", "parse_cpus"]

UNLIMITED = -1
"""A limit that is none."""

_MAX_FILE_NBYTES = 1 << 20


def parse_cpus(text: str) -> frozenset[int]:
    """The numbers of a list such as "0-3,8"; empty for text that is none."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _limit(value: int) -> int:
    return UNLIMITED if value == resource.RLIM_INFINITY else value


@dataclass(frozen=True)
class Host:
    """One machine as one process sees it."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset({0})
    """That this process may run on."""

    uid: int = 0
    gids: frozenset[int] = frozenset({0})
    memlock_soft: int = UNLIMITED
    """In bytes; UNLIMITED for none."""

    memlock_hard: int = UNLIMITED
    kernel: str = ""
    """Its release, such as "5.10.0-60.18.0.50.oe2203.aarch64"."""

    start_method: str = "spawn"
    """How multiprocessing starts processes here when it is not told."""

    @classmethod
    def this(cls) -> Host:
        """The machine and the process that this runs in."""
        import multiprocessing

        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        return cls(
            environ=dict(os.environ),
            cpus=frozenset(os.sched_getaffinity(0)),
            uid=os.geteuid(),
            gids=frozenset({os.getegid(), *os.getgroups()}),
            memlock_soft=_limit(soft),
            memlock_hard=_limit(hard),
            kernel=os.uname().release,
            start_method=multiprocessing.get_all_start_methods()[0],
        )

    def path(self, name: str | Path) -> Path:
        """Where an absolute path of the machine is."""
        return self.root / str(name).lstrip("/")

    def read(self, name: str | Path) -> str | None:
        """A file's text, without blanks around it; None when it cannot be read."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read(_MAX_FILE_NBYTES).decode("utf-8", "replace").strip()
        except OSError:
            return None

    def number(self, name: str | Path) -> int | None:
        """A file's whole number; None when it holds none."""
        text = self.read(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def fields(self, name: str | Path, separator: str) -> dict[str, str]:
        """The file's lines "key separator value"; blank for a separator stands for any blanks."""
        found: dict[str, str] = {}
        for line in (self.read(name) or "").splitlines():
            key, _, value = line.replace("\t", " ").strip().partition(separator)
            if key.strip() and value.strip():
                found.setdefault(key.strip(), value.strip())
        return found

    def names(self, folder: str | Path, pattern: str) -> list[str]:
        """Names in a folder that the whole expression matches, in the order of the numbers in them."""
        try:
            names = [name for name in os.listdir(self.path(folder)) if re.fullmatch(pattern, name)]
        except OSError:
            return []
        return sorted(names, key=lambda name: ([int(part) for part in re.findall(r"\d+", name)], name))

    def may_use(self, name: str | Path) -> bool:
        """Whether the mode of this file lets the process read and write it. Access lists and the device rules
        of a container do not show in it."""
        if self.uid == 0:
            return True
        status = self.path(name).stat()
        if status.st_uid == self.uid:
            bits = status.st_mode >> 6
        elif status.st_gid in self.gids:
            bits = status.st_mode >> 3
        else:
            bits = status.st_mode
        return bits & 6 == 6

    def group_of(self, name: str | Path) -> str:
        """The name of the group that owns a file, or its number."""
        gid = self.path(name).stat().st_gid
        for line in (self.read("/etc/group") or "").splitlines():
            parts = line.split(":")
            if len(parts) > 2 and parts[2] == str(gid):
                return parts[0]
        return str(gid)

    def is_folder(self, name: str | Path) -> bool:
        """Whether this is a folder."""
        return self.path(name).is_dir()

    @property
    def config_home(self) -> str | None:
        """The user's configuration folder by the XDG rule; None without a home folder."""
        base = self.environ.get("XDG_CONFIG_HOME", "")
        home = self.environ.get("HOME", "")
        return base if os.path.isabs(base) else os.path.join(home, ".config") if home else None
