"""Cores of this process against the NUMA node of each device; the PCIe link of each device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_xfer.doctor._findings import Severity, finding
from npu_xfer.doctor._host import parse_cpus
from npu_xfer.doctor._memory import cgroup_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed

__all__ = ["check_cores", "check_numa", "check_pcie", "check_quota"]

_PCI = "/sys/bus/pci/devices"
_NODES = "/sys/devices/system/node"
_VENDOR = "0x19e5"  # Huawei
_ACCELERATOR = "0x1200"  # class "processing accelerator"; network cards have the same vendor
_FEW_CORES = 2
_BUSY_CORES = 2.0


@dataclass(frozen=True)
class _Card:
    pci: str
    label: str
    node: int


def _cards(host: Host, probed: Probed) -> list[_Card]:
    """NPUs on the PCI bus; those that the runtime told get their number, the others their address."""
    known = {
        str(stage.ok["pci"]).lower(): stage.device
        for stage in probed.of_devices("open")
        if stage.ok and stage.ok.get("pci") and not probed.simulated
    }
    found = []
    for pci in host.names(_PCI, r"[0-9a-fA-F:.]+"):
        if host.read(f"{_PCI}/{pci}/vendor") != _VENDOR:
            continue
        if not (host.read(f"{_PCI}/{pci}/class") or "").startswith(_ACCELERATOR):
            continue
        device = known.get(pci.lower())
        if known and device is None:
            continue  # not visible to this process
        label = f"the NPU at {pci}" if device is None else f"device {device} ({pci})"
        node = host.number(f"{_PCI}/{pci}/numa_node")
        found.append(_Card(pci, label, -1 if node is None else node))
    return found


def check_numa(host: Host, probed: Probed) -> Iterator[Finding]:
    """Whether the process runs on the cores, and takes memory, beside its devices."""
    nodes = host.names(_NODES, r"node\d+")
    cards = _cards(host, probed)
    if not cards:
        return
    if len(nodes) < 2:
        yield finding("numa-single", n=len(cards))
        return
    memory_nodes = parse_cpus(host.fields("/proc/self/status", ":").get("Mems_allowed_list", ""))
    for card in cards:
        cores = parse_cpus(host.read(f"{_NODES}/node{card.node}/cpulist") or "")
        facts = {"card": card.label, "pci": card.pci, "node": card.node, "cores": _text(cores)}
        facts["allowed"] = _text(host.cpus)
        if card.node < 0 or not cores:
            yield finding("numa-unknown", **facts)
        elif not cores & host.cpus:
            yield finding("numa-remote", **facts)
        elif not host.cpus <= cores:
            yield finding("numa-wide", **facts)
        else:
            yield finding("numa-local", **facts)
        if card.node >= 0 and memory_nodes and card.node not in memory_nodes:
            yield finding("numa-memory", mems=_text(memory_nodes), **facts)


def _text(cores: frozenset[int]) -> str:
    """Numbers as ranges."""
    parts: list[list[int]] = []
    for core in sorted(cores):
        if parts and parts[-1][1] == core - 1:
            parts[-1][1] = core
        else:
            parts.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _link(host: Host, pci: str, name: str) -> tuple[float, float] | None:
    """The link's figure now and at most."""
    values = []
    for when in ("current", "max"):
        text = host.read(f"{_PCI}/{pci}/{when}_link_{name}")
        try:
            values.append(float((text or "").split()[0]))
        except (IndexError, ValueError):
            return None
    return values[0], values[1]


def check_pcie(host: Host, probed: Probed) -> Iterator[Finding]:
    """Lanes and speed of each card against what it can do."""
    for card in _cards(host, probed):
        width, speed = _link(host, card.pci, "width"), _link(host, card.pci, "speed")
        if width is None or speed is None:
            continue
        facts = {
            "card": card.label,
            "width": int(width[0]),
            "max_width": int(width[1]),
            "speed": speed[0],
            "max_speed": speed[1],
        }
        if 0 < width[0] < width[1]:
            yield finding("pcie-narrow", **facts)
        elif speed[0] < speed[1]:
            yield finding("pcie-slow", **facts)
        else:
            yield finding("pcie", **facts)


def check_cores(host: Host, probed: Probed) -> Iterator[Finding]:
    """How many cores there are for the engine's threads."""
    online = parse_cpus(host.read("/sys/devices/system/cpu/online") or "")
    n = len(host.cpus)
    facts = {"n": n, "allowed": _text(host.cpus), "n_online": len(online) or n}
    yield finding("cores-few" if n < _FEW_CORES else "cores", **facts)


def check_quota(host: Host, probed: Probed) -> Iterator[Finding]:
    """The share of processor time that the control groups allow."""
    version, folders = cgroup_folders(host, "cpu")
    shares = []
    for folder in folders:
        if version == 2:
            quota, _, period = (host.read(f"{folder}/cpu.max") or "").partition(" ")
        else:
            quota = host.read(f"{folder}/cpu.cfs_quota_us") or ""
            period = host.read(f"{folder}/cpu.cfs_period_us") or ""
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            shares.append(int(quota) / int(period))
    if not shares or min(shares) >= len(host.cpus):
        return
    share = min(shares)
    severity = Severity.WARNING if share < _BUSY_CORES else Severity.NOTE
    yield finding("cpu-quota", share=round(share, 2), n=len(host.cpus)).at(severity)
