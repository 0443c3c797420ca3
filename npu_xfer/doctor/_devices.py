"""Device nodes, who may use them, which devices this process sees, and what the runtime says of each."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from npu_xfer.doctor._findings import finding
from npu_xfer.doctor._versions import INSTALL_INFO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed

__all__ = [
    "check_count",
    "check_nodes",
    "check_permissions",
    "check_run_mode",
    "check_visible",
    "device_nodes",
]

_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_MANAGER = "davinci_manager"
# A server has the first two; a board that boots from the chip has svm0 for the memory.
_MEMORY = ("devmm_svm", "svm0")
_LINK = "hisi_hdc"
_GROUP = "HwHiAiUser"  # unless the installation says otherwise


def device_nodes(host: Host) -> list[str]:
    """Names of the nodes of NPUs, real and virtual."""
    return host.names("/dev", r"v?davinci\d+")


def check_nodes(host: Host, probed: Probed) -> Iterator[Finding]:
    """The nodes of the driver."""
    nodes = device_nodes(host)
    if not nodes:
        yield finding("devices-none")
        return
    yield finding("devices", nodes=nodes, n=len(nodes), listed=", ".join(nodes))
    present = set(host.names("/dev", rf"{_MANAGER}|{'|'.join(_MEMORY)}|{_LINK}"))
    missing = [_MANAGER] if _MANAGER not in present else []
    if not present & set(_MEMORY):
        missing.append(_MEMORY[0])
    if _LINK not in present and _MEMORY[1] not in present:
        missing.append(_LINK)
    if missing:
        yield finding(
            "device-node-missing", missing=missing, listed=", ".join(f"/dev/{name}" for name in missing)
        )


def check_permissions(host: Host, probed: Probed) -> Iterator[Finding]:
    """Whether this user may use the nodes."""
    names = [*device_nodes(host), *host.names("/dev", rf"{_MANAGER}|{'|'.join(_MEMORY)}|{_LINK}")]
    denied = [f"/dev/{name}" for name in names if not host.may_use(f"/dev/{name}")]
    if denied:
        yield finding(
            "device-permission",
            nodes=denied,
            listed=", ".join(denied),
            group=host.group_of(denied[0]),
            join=host.fields(INSTALL_INFO, "=").get("UserGroup", _GROUP),
            uid=host.uid,
        )
    elif names:
        yield finding("device-permission-ok", nodes=[f"/dev/{name}" for name in names], n=len(names))


def check_visible(host: Host, probed: Probed) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES, read as the runtime reads it: numbers up to the first other character."""
    text = host.environ.get(_VISIBLE, "")
    if not text:
        return
    match = re.match(r"\d+(?:,\d+)*", text)
    ids = [] if match is None else [int(part) for part in match.group().split(",")]
    if not ids or match is None:
        yield finding("visible-devices-none", value=text)
        return
    n_nodes = len(device_nodes(host))
    if any(later <= earlier for earlier, later in pairwise(ids)):
        yield finding("visible-devices-order", value=text)
        return
    read = [one for one in ids if one < n_nodes] if n_nodes else ids
    if not read:
        yield finding("visible-devices-none", value=text)
    elif len(read) < len(ids) or match.end() < len(text):
        yield finding("visible-devices-cut", value=text, read=read, listed=", ".join(map(str, read)))
    else:
        yield finding("visible-devices", value=text, read=read, last=len(read) - 1)


def check_run_mode(host: Host, probed: Probed) -> Iterator[Finding]:
    """Whether the program runs on the host or on the chip."""
    mode = probed.ok("devices").get("run_mode")
    if mode is not None:
        yield finding("run-mode-host" if mode == "host" else "run-mode-device", mode=mode)


def check_count(host: Host, probed: Probed) -> Iterator[Finding]:
    """What the runtime shows against the nodes."""
    count = probed.ok("devices").get("count")
    if count is None:
        return
    if count == 0:
        yield finding("runtime-no-device")
        return
    n_nodes = len(device_nodes(host))
    if probed.simulated is False and n_nodes and not host.environ.get(_VISIBLE) and count != n_nodes:
        yield finding("device-count-differs", count=count, n_nodes=n_nodes)
