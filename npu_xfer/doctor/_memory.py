"""Memory of the host: limits on locked memory, control groups, free memory, huge pages."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_xfer._settings import format_nbytes
from npu_xfer.doctor._findings import finding
from npu_xfer.doctor._host import UNLIMITED
from npu_xfer.doctor._library import asked_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed

__all__ = [
    "cgroup_folders",
    "check_cgroup",
    "check_free_memory",
    "check_huge_pages",
    "check_memlock",
    "needed_nbytes",
]

# Version 1 writes "no limit" as the largest number of pages; nobody means that many bytes.
_NO_LIMIT = 1 << 60
_THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def needed_nbytes(host: Host) -> int:
    """What the engine of one device may take: staging both ways, and idle results."""
    chosen = asked_settings(host)
    return 2 * chosen.staging_bytes + chosen.result_cache


def check_memlock(host: Host, probed: Probed) -> Iterator[Finding]:
    """RLIMIT_MEMLOCK."""
    need = needed_nbytes(host)
    if host.memlock_soft == UNLIMITED or host.memlock_soft >= need:
        limit = "unlimited" if host.memlock_soft == UNLIMITED else format_nbytes(host.memlock_soft)
        yield finding("memlock", limit=limit, soft=host.memlock_soft, hard=host.memlock_hard)
        return
    hard = "unlimited" if host.memlock_hard == UNLIMITED else format_nbytes(host.memlock_hard)
    yield finding(
        "memlock-low",
        limit=format_nbytes(host.memlock_soft),
        most=hard,
        need=format_nbytes(need),
        soft=host.memlock_soft,
        hard=host.memlock_hard,
        need_nbytes=need,
    )


# ---- control groups ----


def cgroup_folders(host: Host, controller: str) -> tuple[int, list[str]]:
    """Version (0: none) and this process's folders for a controller, from its own up to the mount."""
    path, version = None, 0
    for line in (host.read("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, where = rest.partition(":")
        if controller in names.split(","):
            path, version = where, 1
        elif number == "0" and not names and version == 0:
            path, version = where, 2
    if path is None:
        return 0, []
    mounted = _mount(host, controller, version)
    if mounted is None:
        return 0, []
    inside, point = mounted
    # The path is of the group's own namespace, the mount may show only a part of it (a container's).
    if inside != "/" and (path + "/").startswith(inside + "/"):
        path = path[len(inside) :]
    folder = posixpath.normpath(point + "/" + path.lstrip("/"))
    if not folder.startswith(point) or not host.is_folder(folder):
        folder = point
    folders = [folder]
    while folders[-1] != point:
        folders.append(posixpath.dirname(folders[-1]))
    return version, folders


def _mount(host: Host, controller: str, version: int) -> tuple[str, str] | None:
    """Root inside of the file system, and mount point."""
    for line in (host.read("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        if version == 2 and kinds[0] == "cgroup2":
            return fields[3], fields[4]
        if version == 1 and kinds[0] == "cgroup" and controller in kinds[2].split(","):
            return fields[3], fields[4]
    return None


@dataclass(frozen=True)
class _Group:
    folder: str
    limit_nbytes: int
    used_nbytes: int
    """Without the page cache, which the kernel drops before it refuses anything."""

    @property
    def free_nbytes(self) -> int:
        return self.limit_nbytes - self.used_nbytes


def _group(host: Host, version: int, folder: str) -> _Group | None:
    names = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
    limits = [host.number(f"{folder}/{name}") for name in names]
    known = [limit for limit in limits if limit is not None and 0 <= limit < _NO_LIMIT]
    used = host.number(f"{folder}/{'memory.current' if version == 2 else 'memory.usage_in_bytes'}")
    if not known or used is None:
        return None
    # Files on the two lists only: memory of tmpfs counts as cache elsewhere and cannot be dropped.
    stat = host.fields(f"{folder}/memory.stat", " ")
    prefix = "" if version == 2 else "total_"
    cache = sum(int(stat.get(f"{prefix}{name}_file", "0")) for name in ("active", "inactive"))
    return _Group(folder, min(known), max(0, used - cache))


def check_cgroup(host: Host, probed: Probed) -> Iterator[Finding]:
    """The tightest memory limit of the control groups around this process."""
    version, folders = cgroup_folders(host, "memory")
    groups = [group for folder in folders if (group := _group(host, version, folder))]
    if not groups:
        yield finding("cgroup-none", version=version)
        return
    tight = min(groups, key=lambda group: group.free_nbytes)
    need = needed_nbytes(host)
    facts = {
        "version": version,
        "folder": tight.folder,
        "limit": format_nbytes(tight.limit_nbytes),
        "free": format_nbytes(tight.free_nbytes),
        "need": format_nbytes(need),
        "limit_nbytes": tight.limit_nbytes,
        "free_nbytes": tight.free_nbytes,
        "need_nbytes": need,
    }
    yield finding("cgroup-tight" if tight.free_nbytes < need else "cgroup", **facts)


# ---- the whole machine ----


def _kib(host: Host, name: str) -> int | None:
    text = host.fields("/proc/meminfo", ":").get(name, "")
    match = re.match(r"(\d+) kB", text)
    return None if match is None else int(match.group(1)) * 1024


def check_free_memory(host: Host, probed: Probed) -> Iterator[Finding]:
    """Memory that the kernel can still give."""
    free, need = _kib(host, "MemAvailable"), needed_nbytes(host)
    if free is None:
        return
    facts = {
        "free": format_nbytes(free),
        "need": format_nbytes(need),
        "free_nbytes": free,
        "need_nbytes": need,
    }
    yield finding("memory-low" if free < need else "memory", **facts)


def check_huge_pages(host: Host, probed: Probed) -> Iterator[Finding]:
    """Transparent huge pages, and how many are set aside."""
    match = re.search(r"\[(\w+)\]", host.read(_THP) or "")
    mode = "unknown" if match is None else match.group(1)
    total = host.fields("/proc/meminfo", ":").get("HugePages_Total", "0")
    size = _kib(host, "Hugepagesize")
    facts = {"mode": mode, "reserved": total, "page": "unknown size" if size is None else format_nbytes(size)}
    yield finding("huge-pages-off" if mode == "never" else "huge-pages", **facts)
