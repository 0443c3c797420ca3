"""A made-up machine for the doctor: a server with two NPUs where everything is in order, to be spoilt."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from npu_xfer.doctor import Host, Probed, Report, Stage, diagnose
from npu_xfer.doctor._host import UNLIMITED
from npu_xfer.doctor._probed import DONE

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
HOME = "/usr/local/Ascend/cann"
LIBRARY = f"{HOME}/lib64/libacl_rt.so"
GROUP = "/sys/fs/cgroup/pod"
PCI = "/sys/bus/pci/devices"
KEY = {"chip": "Ascend910B3", "version": "9.1.0", "cpu": "Kunpeng-920", "numa_node": 0}
PROFILE = (
    '{"format": 1, "values": {"n_lanes": 4}, "key": '
    '{"chip": "Ascend910B3", "version": "9.1.0", "cpu": "Kunpeng-920", "numa_node": 0}}'
)
CARDS = ("0000:81:00.0", "0000:82:00.0")
_FILES = {
    "/etc/ascend_install.info": "UserGroup=HwHiAiUser\nDriver_Install_Path_Param=/opt/npu\n"
    "Firmware_Install_Path_Param=/opt/npu\n",
    "/opt/npu/driver/version.info": "Version=7.35.23\nascendhal_version=7.35.23\npackage_version=25.2.0\n"
    "Innerversion=V100R001C21SPC002B220\ncompatible_version=[V100R001C20],[V100R001C21]\n"
    "compatible_version_fw=[6.4.0,6.4.99],[7.0.0,7.7.99]\n",
    f"{HOME}/aarch64-linux/ascend_toolkit_install.info": "version=9.1.0\n"
    "innerversion=V100R001C25SPC001B212\ncompatible_version=[V100R001C21],[V100R001C23]\n",
    "/opt/npu/firmware/version.info": "Version=7.7.0.1.231\n",
    f"{HOME}/share/info/runtime/version.info": "Version=9.1.0.1.230\nversion_dir=cann\n",
    "/proc/meminfo": "MemTotal: 100 kB\nMemAvailable:   67108864 kB\nHugePages_Total:    8\n"
    "Hugepagesize:       2048 kB\n",
    "/proc/self/cgroup": "0::/pod/job\n",
    "/proc/self/mountinfo": "22 1 0:1 / / rw - ext4 /dev/sda rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "/proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1\n",
    f"{GROUP}/memory.max": "max\n",
    f"{GROUP}/job/memory.max": str(8 * GIB),
    f"{GROUP}/job/memory.high": "max",
    f"{GROUP}/job/memory.current": str(GIB),
    f"{GROUP}/job/memory.stat": "anon 1\nactive_file 0\ninactive_file 0\nshmem 0\n",
    f"{GROUP}/job/cpu.max": "max 100000\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/devices/system/cpu/online": "0-7\n",
    "/sys/devices/system/node/node0/cpulist": "0-3\n",
    "/sys/devices/system/node/node1/cpulist": "4-7\n",
    "/home/me/.config/npu_xfer/tuning.json": PROFILE,
}


def _stages() -> dict[str, list[Stage]]:
    library = {
        "path": LIBRARY,
        "simulated": False,
        "reason": "CANN library found through ASCEND_HOME_PATH",
        "requested": "auto",
        "candidates": [{"path": LIBRARY, "source": "ASCEND_HOME_PATH", "present": True, "why_not": None}],
    }
    found = {
        "library": [Stage("library", None, library)],
        "versions": [
            Stage("versions", None, {"versions": {"acl": "1.17.0", "runtime": "9.1.0"}, "chip": KEY["chip"]})
        ],
        "tuning": [Stage("tuning", None, KEY)],
        "init": [Stage("init", None, {"ours": True})],
        "devices": [Stage("devices", None, {"count": 2, "run_mode": "host"})],
        "finalize": [Stage("finalize", None, {"done": True})],
    }
    for device, pci in enumerate(CARDS):
        opened = {
            "opened_s": 1.5,
            "healthy": True,
            "pci": pci,
            "free_nbytes": 60 * GIB,
            "total_nbytes": 64 * GIB,
        }
        link: dict[str, Any] = {"nbytes": 1 << 24, "h2d_bytes_per_s": 25_000_000_000}
        link |= {"d2h_bytes_per_s": 24_000_000_000, "n_wrong": 0, "first_wrong": None}
        found.setdefault("open", []).append(Stage("open", device, opened))
        found.setdefault("pinned", []).append(Stage("pinned", device, {"nbytes": 1 << 26, "took_s": 0.01}))
        found.setdefault("link", []).append(Stage("link", device, link))
    return found


@dataclass
class Machine:
    """Files below `root`, the facts of a process, and what the library answers."""

    root: Path
    host: Host
    stages: dict[str, list[Stage]] = field(default_factory=_stages)
    probed: Probed = field(default_factory=lambda: Probed(ended=DONE))

    def write(self, path: str, text: str) -> None:
        """Makes a file with this text."""
        file = self.host.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def node(self, name: str, mode: int = 0o660) -> None:
        """Makes what stands for a device node."""
        self.write(f"/dev/{name}", "")
        self.host.path(f"/dev/{name}").chmod(mode)

    def card(self, pci: str, node: int, **link: str) -> None:
        """Makes an NPU on the PCI bus."""
        files = {"vendor": "0x19e5", "class": "0x120000", "numa_node": str(node)}
        files |= {"current_link_width": "16", "max_link_width": "16"}
        files |= {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe"}
        for name, text in (files | link).items():
            self.write(f"{PCI}/{pci}/{name}", text + "\n")

    def remove(self, path: str) -> None:
        """Takes a file or a folder away, which has to be there."""
        file = self.host.path(path)
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()

    def process(self, **facts: Any) -> None:
        """Changes facts of the process."""
        self.host = replace(self.host, **facts)

    def environ(self, **values: str) -> None:
        """Sets variables of the environment."""
        self.process(environ={**self.host.environ, **values})

    def answer(self, stage: str, **ok: Any) -> None:
        """Changes what the first step of this name answered."""
        first = self.stages[stage][0]
        self.stages[stage][0] = replace(first, ok={**(first.ok or {}), **ok})

    def fail(self, stage: str, text: str = "it failed", **error: Any) -> None:
        """Makes the first step of this name fail, and none come after a step that all need."""
        first = self.stages[stage][0]
        self.stages[stage][0] = replace(first, ok=None, error={"text": text, **error})
        if stage in {"library", "init", "devices"}:
            names = list(self.stages)
            for later in names[names.index(stage) + 1 :]:
                del self.stages[later]

    def simulate(self) -> None:
        """Puts the simulator in the library's place."""
        absent = {"path": "libacl_rt.so", "source": "loader search", "present": False, "why_not": "not found"}
        self.answer("library", simulated=True, path="/lib/libascendcl_sim.so", candidates=[absent])

    def end(self, ended: str, at: str, **facts: Any) -> None:
        """How the process that asked the library ended."""
        self.probed = Probed(ended=ended, at=at, **facts)

    def report(self) -> Report:
        """What the doctor says."""
        stages = tuple(stage for steps in self.stages.values() for stage in steps)
        report = diagnose(self.host, probed=replace(self.probed, stages=stages))
        assert [one.found for one in report.findings if one.id == "check-failed"] == []
        return report


def healthy(root: Path) -> Machine:
    """Two NPUs at the first of two NUMA nodes, and a process on the cores of that node."""
    status = root.stat()
    host = Host(
        root=root,
        environ={"HOME": "/home/me", "ASCEND_HOME_PATH": HOME},
        cpus=frozenset(range(4)),
        uid=os.geteuid() + 4000,
        gids=frozenset({status.st_gid}),
        memlock_soft=UNLIMITED,
        memlock_hard=UNLIMITED,
        kernel="6.6.0-72.oe2403.aarch64",
        start_method="spawn",
    )
    machine = Machine(root, host)
    for path, text in _FILES.items():
        machine.write(path, text)
    machine.write("/etc/group", f"HwHiAiUser:x:{status.st_gid}:\nwheel:x:4242:\n")
    for name in ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"):
        machine.node(name)
    for pci in CARDS:
        machine.card(pci, 0)
    return machine
