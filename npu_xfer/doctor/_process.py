"""The kernel, the tuning profile, and how this Python starts processes."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from npu_xfer._tuning import read_profile
from npu_xfer.doctor._findings import finding
from npu_xfer.doctor._library import asked_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed

__all__ = ["check_kernel", "check_start_method", "check_tuning"]

_REGISTERS_PINNED_ONLY = (5, 10)  # and what is older
_FILE = os.path.join("npu_xfer", "tuning.json")


def check_kernel(host: Host, probed: Probed) -> Iterator[Finding]:
    """The kernel's version against the rule of aclrtHostRegister."""
    match = re.match(r"(\d+)\.(\d+)", host.kernel)
    if match is None:
        yield finding("kernel-unknown", kernel=host.kernel or "nothing")
        return
    old = tuple(map(int, match.groups())) <= _REGISTERS_PINNED_ONLY
    yield finding("kernel-old" if old else "kernel", kernel=host.kernel)


def check_start_method(host: Host, probed: Probed) -> Iterator[Finding]:
    """Fork is what ACL does not survive."""
    if host.start_method == "fork":
        yield finding("start-method-fork", method=host.start_method)


def check_tuning(host: Host, probed: Probed) -> Iterator[Finding]:
    """Whether the tuning profile is of this machine."""
    asked = asked_settings(host).tuning
    if asked == "off":
        yield finding("tuning-off")
        return
    named = asked != "auto"
    home = host.config_home
    if not named and home is None:
        yield finding("tuning-none", path="no home folder")
        return
    path = asked if named else os.path.join(home or "", _FILE)
    try:
        profile = read_profile(host.path(os.path.abspath(path)))
    except FileNotFoundError:
        yield finding("tuning-missing" if named else "tuning-none", path=path)
        return
    except (OSError, ValueError) as error:
        yield finding("tuning-unreadable", path=path, error=str(error))
        return
    here, there = dict(probed.ok("tuning")), asdict(profile.key)
    if not here:
        yield finding("tuning-unknown", path=path)
        return
    other = {name: (there[name], here.get(name)) for name in there if there[name] != here.get(name)}
    if other:
        listed = ", ".join(f"{name} {was!r}, here {now!r}" for name, (was, now) in other.items())
        yield finding("tuning-stale", path=path, differs=other, listed=listed)
    else:
        values = ", ".join(f"{name}={value}" for name, value in profile.values.items())
        yield finding("tuning", path=path, values=profile.values, listed=values or "nothing")
