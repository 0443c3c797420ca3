"""Settings and the ACL library: which one, why, and where each candidate failed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from npu_xfer._settings import Settings
from npu_xfer.doctor._findings import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed

CANN_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
LIBRARY_FOLDERS = ("lib64", os.path.join("runtime", "lib64"))

__all__ = [
    "asked_settings",
    "check_homes",
    "check_library",
    "check_probe",
    "check_settings",
    "usable_environ",
]

# The library that comes with the driver and not with the toolkit.
_DRIVER_LIBRARIES = ("libascend_hal.so",)


def asked_settings(host: Host) -> Settings:
    """What the environment asks for, or the defaults when it cannot be read."""
    try:
        return Settings.from_environ(host.environ)
    except ValueError:
        return Settings()


def usable_environ(host: Host) -> dict[str, str]:
    """The environment without what makes the settings invalid: the library can be asked all the same."""
    try:
        Settings.from_environ(host.environ)
    except ValueError:
        kept = {name: value for name, value in host.environ.items() if not name.startswith("NPU_XFER_")}
        library = {name: host.environ[name] for name in ("NPU_XFER_LIBRARY",) if name in host.environ}
        try:
            Settings.from_environ(library)
        except ValueError:
            return kept
        return kept | library
    return dict(host.environ)


def check_settings(host: Host, probed: Probed) -> Iterator[Finding]:
    """The variables NPU_XFER_*."""
    try:
        Settings.from_environ(host.environ)
    except ValueError as error:
        yield finding("settings-invalid", error=str(error))


def check_homes(host: Host, probed: Probed) -> Iterator[Finding]:
    """The folders in which CANN is looked for."""
    homes = asked_settings(host).cann_homes
    for variable, home in homes:
        if not host.is_folder(home):
            yield finding("cann-home-missing", variable=variable, home=home)
    used = str(probed.ok("library").get("path", ""))
    if not used or probed.simulated or not homes or _is_of_homes(used, [home for _, home in homes], probed):
        return
    named = ", ".join(f"{variable}={home}" for variable, home in homes)
    yield finding("library-elsewhere", path=used, homes=named)


def _is_of_homes(used: str, homes: list[str], probed: Probed) -> bool:
    """Whether the library is of one of the homes, whose folders are often links into another folder."""
    candidates = probed.ok("library").get("candidates", ())
    if any(one["why_not"] is None and one["source"] in CANN_HOMES for one in candidates):
        return True
    real = os.path.realpath(used)
    for home in homes:
        linked = (os.path.join(home, folder, os.path.basename(used)) for folder in LIBRARY_FOLDERS)
        inside = real.startswith(os.path.realpath(home) + os.sep)
        if inside or real in {os.path.realpath(path) for path in linked}:
            return True
    return False


def _lines(candidates: list[tuple[str, str]]) -> str:
    return "; ".join(f"{path}: {why}" for path, why in candidates)


def check_library(host: Host, probed: Probed) -> Iterator[Finding]:
    """The library that was chosen, or why none was."""
    error = probed.error("library")
    if error:
        yield _unusable(error)
        return
    found = probed.ok("library")
    if not found:
        return
    facts = {name: found[name] for name in ("path", "reason", "requested")}
    if found["simulated"]:
        yield finding("library-simulator", **facts)
        nodes = host.names("/dev", r"davinci\d+")
        if nodes and found["requested"] == "auto":
            yield finding("simulator-beside-devices", nodes=nodes, listed=", ".join(nodes))
    else:
        yield finding("library-cann", **facts)
    skipped = [(one["path"], one["why_not"]) for one in found["candidates"] if one["why_not"]]
    present = [
        (one["path"], one["why_not"]) for one in found["candidates"] if one["why_not"] and one["present"]
    ]
    if present:
        yield finding("library-passed-over", candidates=present, listed=_lines(present))
    if skipped and found["simulated"]:
        yield finding("library-looked-for", candidates=skipped, listed=_lines(skipped))


def _unusable(error: Any) -> Finding:
    candidates = [(path, why) for path, why in error.get("candidates", ())]
    facts = {"error": error["text"], "candidates": candidates, "listed": _lines(candidates) or "none"}
    missing = [
        name for name in _DRIVER_LIBRARIES if any(name in why for path, why in candidates if name not in path)
    ]
    if missing:
        return finding("library-without-driver", missing=missing[0], **facts)
    return finding("library-unusable", **facts)


def check_probe(host: Host, probed: Probed) -> Iterator[Finding]:
    """Whether the process that calls the library came to its end."""
    facts = {"at": probed.at, "stderr": probed.stderr, "printed": probed.stderr[-300:] or "nothing"}
    if probed.ended == "crash":
        name = "probe-not-started" if probed.at == "the start" else "runtime-crash"
        yield finding(name, how=probed.how, **facts)
    elif probed.ended == "hang":
        yield finding("runtime-hang", limit_s=probed.limit_s, **facts)
