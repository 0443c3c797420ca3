"""Every finding of the doctor, on made-up machines: one where all is well, and what spoils it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doctor_machine import CARDS, GIB, GROUP, HOME, LIBRARY, PCI, healthy

from npu_xfer.doctor import CHECKS, Host, Probed, Severity, Stage, catalogue, diagnose
from npu_xfer.doctor._host import parse_cpus
from npu_xfer.doctor._memory import cgroup_folders
from npu_xfer.doctor._versions import version_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from doctor_machine import Machine

    from npu_xfer.doctor import Finding

ERROR, WARNING, NOTE, OK = Severity.ERROR, Severity.WARNING, Severity.NOTE, Severity.OK


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return healthy(tmp_path)


def two_candidates(machine: Machine, *, first_present: bool, simulated: bool = False) -> None:
    skipped = {"path": f"{HOME}/x.so", "source": "x", "present": first_present, "why_not": "cannot be loaded"}
    used = {"path": LIBRARY, "source": "x", "present": True, "why_not": None}
    machine.answer("library", candidates=[skipped, used], simulated=simulated)


def cgroup_v1(machine: Machine) -> None:
    """The same limits as version 1 writes them, in a container that shows only its own part."""
    machine.write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n")
    machine.write(
        "/proc/self/mountinfo",
        "31 30 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "32 30 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
    )
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", str(GIB))
    machine.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", str(GIB - 4096))
    machine.write("/sys/fs/cgroup/memory/memory.stat", "inactive_file 0\ntotal_inactive_file 4096\n")
    machine.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000")
    machine.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")


def each(*acts: Callable[[Machine], object]) -> Callable[[Machine], None]:
    def spoil(machine: Machine) -> None:
        for act in acts:
            act(machine)

    return spoil


# (id, severity there, what brings it about, a part of what is found)
SPOILS: list[tuple[str, Severity, Callable[[Machine], object], str]] = [
    ("runtime-not-asked", NOTE, lambda m: m.end("not run", ""), "not loaded"),
    ("settings-invalid", ERROR, lambda m: m.environ(NPU_XFER_CHUNK="much"), "NPU_XFER_CHUNK='much'"),
    ("library-simulator", NOTE, lambda m: m.simulate(), "SIMULATOR"),
    ("simulator-beside-devices", WARNING, lambda m: m.simulate(), "davinci0, davinci1"),
    ("library-looked-for", NOTE, lambda m: m.simulate(), "libacl_rt.so: not found"),
    ("library-passed-over", WARNING, lambda m: two_candidates(m, first_present=True), "x.so: cannot be"),
    (
        "library-unusable",
        ERROR,
        lambda m: m.fail("library", "none works", candidates=[["/a.so", "cannot be loaded: bad ELF"]]),
        "/a.so: cannot be loaded: bad ELF",
    ),
    (
        "library-without-driver",
        ERROR,
        lambda m: m.fail("library", "none works", candidates=[["/a.so", "libascend_hal.so: cannot open"]]),
        "libascend_hal.so is missing",
    ),
    (
        "cann-home-missing",
        WARNING,
        lambda m: m.environ(ASCEND_TOOLKIT_HOME="/opt/gone"),
        "ASCEND_TOOLKIT_HOME=/opt/gone",
    ),
    ("library-elsewhere", WARNING, lambda m: m.answer("library", path="/other/libacl_rt.so", candidates=[
        {"path": "libacl_rt.so", "source": "loader search", "present": True, "why_not": None}
    ]), "/other/libacl_rt.so is in use"),
    ("probe-not-started", ERROR, lambda m: m.end("crash", "the start", how="exit status 1"), "exit status 1"),
    ("runtime-crash", ERROR, lambda m: m.end("crash", "init", how="SIGSEGV", stderr="ouch"), "(SIGSEGV)"),
    ("runtime-hang", ERROR, lambda m: m.end("hang", "open of device 0", limit_s=30.0), "within 30 s"),
    ("cann-version-unknown", NOTE, each(
        lambda m: m.answer("versions", versions={"acl": "1.15.0"}),
        lambda m: m.remove(f"{HOME}/share"),
    ), "not told"),
    ("driver-version-unknown", WARNING, lambda m: m.remove("/opt/npu/driver/version.info"), "No version"),
    (
        "cann-versions-differ",
        WARNING,
        lambda m: m.write(f"{HOME}/share/info/runtime/version.info", "Version=8.3.RC1\n"),
        "the library in use: 9.1.0",
    ),
    ("cann-too-old", WARNING, lambda m: m.answer("versions", versions={"runtime": "6.3.RC2"}), "6.3.RC2"),
    ("cann-strict-direction", NOTE, lambda m: m.answer("versions", versions={"runtime": "8.3.RC1"}), "8.3"),
    ("cann-unchecked-handles", NOTE, lambda m: m.answer("versions", versions={"runtime": "9.0.0"}), "9.0.0"),
    (
        "driver-no-location",
        NOTE,
        lambda m: m.write("/opt/npu/driver/version.info", "Version=24.1.rc2\n"),
        "24.1.rc2",
    ),
    ("driver-firmware", WARNING, lambda m: m.write("/opt/npu/firmware/version.info", "Version=7.8.0.2.212\n"),
        "Firmware 7.8.0.2.212"),
    ("driver-unlisted", NOTE, lambda m: m.write(
        f"{HOME}/aarch64-linux/ascend_toolkit_install.info",
        "version=8.5.0\ninnerversion=V100R001C25SPC1\ncompatible_version=[V100R001C23],[V100R001C25]\n",
    ), "CANN 8.5.0 (V100R001C25)"),
    ("devices-none", ERROR, lambda m: m.remove("/dev"), "no /dev/davinci0"),
    ("device-node-missing", ERROR, lambda m: m.remove("/dev/hisi_hdc"), "/dev/hisi_hdc"),
    ("device-permission", ERROR, lambda m: m.process(gids=frozenset()), "/dev/davinci0"),
    ("visible-devices", NOTE, lambda m: m.environ(ASCEND_RT_VISIBLE_DEVICES="1"), "0 to 0 here"),
    ("visible-devices-cut", WARNING, lambda m: m.environ(ASCEND_RT_VISIBLE_DEVICES="0, 1"), "read as 0 only"),
    ("visible-devices-order", ERROR, lambda m: m.environ(ASCEND_RT_VISIBLE_DEVICES="1,0"), "not ascending"),
    ("visible-devices-none", ERROR, lambda m: m.environ(ASCEND_RT_VISIBLE_DEVICES="7"), "no device"),
    ("run-mode-device", NOTE, lambda m: m.answer("devices", run_mode="device"), "on the chip"),
    ("runtime-no-device", ERROR, lambda m: m.answer("devices", count=0), "no device"),
    ("device-count-differs", WARNING, lambda m: m.answer("devices", count=1), "1 devices, /dev has 2"),
    ("device-open-failed", ERROR, lambda m: m.fail("open", "507033"), "Device 0 does not open: 507033"),
    ("device-unhealthy", ERROR, lambda m: m.answer("open", healthy=False), "device 0"),
    ("runtime-init-failed", ERROR, lambda m: m.fail("init", "100039", code=100039), "100039"),
    ("runtime-devices-failed", ERROR, lambda m: m.fail("devices", "507899"), "507899"),
    ("runtime-call-failed", WARNING, lambda m: m.fail("finalize", "100037"), '"finalize" failed: 100037'),
    ("pinned-failed", ERROR, lambda m: m.fail("pinned", "207001"), "207001"),
    ("link-failed", ERROR, lambda m: m.fail("link", "507001"), "507001"),
    ("link-data-wrong", ERROR, lambda m: m.answer("link", n_wrong=3, first_wrong=64), "3 of 16777216 bytes"),
    (
        "memlock-low",
        NOTE,
        lambda m: m.process(memlock_soft=65536, memlock_hard=8 << 20),
        "64 KiB (at most 8 MiB)",
    ),
    ("cgroup-none", OK, lambda m: m.remove("/proc/self/mountinfo"), "No memory limit"),
    ("cgroup-tight", WARNING, each(
        lambda m: m.write(f"{GROUP}/memory.max", str(GIB // 2)),
        lambda m: m.write(f"{GROUP}/memory.current", "0"),
    ), "leaves 512 MiB of 512 MiB (v2"),
    ("cgroup-tight", WARNING, cgroup_v1, "leaves 8 KiB of 1 GiB (v1"),
    ("memory-low", WARNING, lambda m: m.write("/proc/meminfo", "MemAvailable: 2048 kB\n"), "2 MiB of memory"),
    (
        "huge-pages-off",
        NOTE,
        lambda m: m.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        "are off; 8 pages of 2 MiB",
    ),
    ("cores-few", NOTE, lambda m: m.process(cpus=frozenset({2})), "Only one core (2) of 8"),
    ("cpu-quota", WARNING, lambda m: m.write(f"{GROUP}/cpu.max", "150000 100000"), "1.5 of 4 cores"),
    ("cpu-quota", NOTE, lambda m: m.write(f"{GROUP}/job/cpu.max", "300000 100000"), "3 of 4 cores"),
    ("cpu-quota", WARNING, cgroup_v1, "1 of 4 cores"),
    ("numa-single", OK, lambda m: m.remove("/sys/devices/system/node/node1"), "One NUMA node"),
    ("numa-wide", NOTE, lambda m: m.process(cpus=frozenset(range(8))), "may run on 0-7"),
    ("numa-remote", WARNING, lambda m: m.card(CARDS[0], 1), "device 0 (0000:81:00.0) is at NUMA node 1"),
    (
        "numa-memory",
        WARNING,
        lambda m: m.write("/proc/self/status", "Mems_allowed_list:\t1\n"),
        "memory of node 1",
    ),
    ("numa-unknown", NOTE, lambda m: m.card(CARDS[1], -1), "device 1"),
    ("pcie-narrow", WARNING, lambda m: m.card(CARDS[0], 0, current_link_width="8"), "x8 of x16"),
    ("pcie-slow", NOTE, lambda m: m.card(CARDS[0], 0, current_link_speed="8.0 GT/s PCIe"), "8 of 32 GT/s"),
    ("kernel-old", NOTE, lambda m: m.process(kernel="5.10.0-60.oe2203"), "5.10.0-60.oe2203"),
    ("kernel-unknown", NOTE, lambda m: m.process(kernel="hurd"), "hurd"),
    ("start-method-fork", NOTE, lambda m: m.process(start_method="fork"), "fork"),
    ("tuning-off", NOTE, lambda m: m.environ(NPU_XFER_TUNING="off"), "off"),
    ("tuning-none", NOTE, lambda m: m.remove("/home/me/.config"), "/home/me/.config/npu_xfer/tuning.json"),
    ("tuning-missing", WARNING, lambda m: m.environ(NPU_XFER_TUNING="/gone.json"), "/gone.json"),
    (
        "tuning-unreadable",
        WARNING,
        lambda m: m.write("/home/me/.config/npu_xfer/tuning.json", "{"),
        "no tuning profile",
    ),
    ("tuning-stale", WARNING, lambda m: m.answer("tuning", version="9.2.0"), "version '9.1.0', here '9.2.0'"),
    ("tuning-unknown", NOTE, lambda m: m.fail("tuning"), "not known"),
]  # fmt: skip


def test_a_healthy_machine_has_nothing_worse_than_ok(machine: Machine) -> None:
    report = machine.report()
    assert [(one.id, one.found) for one in report.findings if one.severity > OK] == []
    assert (report.status, report.simulated) == (0, False)
    assert {one.group for one in report.findings} == {text.group for text in catalogue().values()} - {
        "doctor"
    }
    assert report.ids().count("link-ok") == 2


@pytest.mark.parametrize(("name", "severity", "spoil", "part"), SPOILS, ids=[row[0] for row in SPOILS])
def test_what_is_wrong_is_found(
    machine: Machine,
    name: str,
    severity: Severity,
    spoil: Callable[[Machine], object],
    part: str,
) -> None:
    assert name not in machine.report().ids()
    spoil(machine)
    report = machine.report()
    (found, *_) = [one for one in report.findings if one.id == name]
    assert found.severity is severity
    assert part in found.found
    assert found.why
    assert found.fix
    assert found.source
    assert report.status == int(report.worst > NOTE)
    assert report.worst >= severity


def test_every_finding_has_a_machine(machine: Machine) -> None:
    made = {row[0] for row in SPOILS} | set(machine.report().ids()) | {"check-failed"}
    assert made == set(catalogue())


def test_a_check_that_raises_leaves_the_others(machine: Machine) -> None:
    def broken(host: Host, probed: Probed) -> Iterator[Finding]:
        yield from CHECKS[1](host, probed)
        raise RuntimeError("boom")

    report = diagnose(machine.host, probed=Probed(), checks=(broken, *CHECKS))
    (found,) = [one for one in report.findings if one.id == "check-failed"]
    assert found.severity is WARNING
    assert "broken" in found.found
    assert "boom" in found.found
    assert "versions" in report.ids()
    assert report.status == 1


def test_an_empty_machine_has_no_check_that_fails(tmp_path: Path) -> None:
    report = diagnose(Host(root=tmp_path), probed=Probed())
    assert "check-failed" not in report.ids()
    assert "devices-none" in report.ids()


def test_on_the_simulator_what_concerns_devices_is_a_note(machine: Machine) -> None:
    machine.simulate()
    machine.remove("/dev")
    machine.remove("/opt/npu/driver")
    report = machine.report()
    assert report.simulated is True
    assert {"devices-none", "driver-version-unknown"} <= set(report.ids())
    assert report.worst is NOTE
    link = next(one for one in report.findings if one.id == "link-ok")
    assert "SIMULATOR" in link.found


def test_the_simulator_on_purpose_is_no_warning(machine: Machine) -> None:
    machine.simulate()
    assert "simulator-beside-devices" in machine.report().ids()
    machine.answer("library", requested="sim")
    assert "simulator-beside-devices" not in machine.report().ids()


def test_the_simulator_asked_for_is_known_without_the_library(machine: Machine) -> None:
    machine.remove("/dev")
    machine.environ(NPU_XFER_LIBRARY="sim")
    assert diagnose(machine.host, probed=Probed()).worst is NOTE


@pytest.mark.parametrize(
    ("value", "name", "read"),
    [
        ("0,1", "visible-devices", [0, 1]),
        ("0,5", "visible-devices-cut", [0]),
        ("0,", "visible-devices-cut", [0]),
        ("0,0", "visible-devices-order", None),
        (" 0", "visible-devices-none", None),
        ("x", "visible-devices-none", None),
        ("", None, None),
    ],
)
def test_visible_devices(machine: Machine, value: str, name: str | None, read: list[int] | None) -> None:
    machine.environ(ASCEND_RT_VISIBLE_DEVICES=value)
    found = [one for one in machine.report().findings if one.id.startswith("visible-")]
    assert [one.id for one in found] == ([] if name is None else [name])
    if read is not None:
        assert found[0].facts["read"] == read


def test_page_cache_is_not_used_memory(machine: Machine) -> None:
    machine.write(f"{GROUP}/job/memory.current", str(8 * GIB - 4096))
    assert "cgroup-tight" in machine.report().ids()
    machine.write(
        f"{GROUP}/job/memory.stat",
        f"active_file {GIB}\ninactive_file {3 * GIB}\nfile {7 * GIB}\nshmem {3 * GIB}\n",
    )
    (found,) = [one for one in machine.report().findings if one.group == "memory" and "cgroup" in one.id]
    # Memory of tmpfs is in "file" and is not free.
    assert (found.id, found.facts["free_nbytes"]) == ("cgroup", 4 * GIB + 4096)


def test_the_lower_limit_of_a_group_counts(machine: Machine) -> None:
    machine.write(f"{GROUP}/job/memory.high", str(GIB + 1024))
    (found,) = [one for one in machine.report().findings if one.id == "cgroup-tight"]
    assert found.facts["free_nbytes"] == 1024


def test_folders_of_control_groups(machine: Machine) -> None:
    assert cgroup_folders(machine.host, "memory") == (2, [f"{GROUP}/job", GROUP, "/sys/fs/cgroup"])
    # A path of outside, which the container's mount does not show.
    machine.write("/proc/self/cgroup", "0::/../../kubepods/pod1\n")
    assert cgroup_folders(machine.host, "memory") == (2, ["/sys/fs/cgroup"])
    cgroup_v1(machine)
    assert cgroup_folders(machine.host, "memory") == (1, ["/sys/fs/cgroup/memory"])


def test_a_board_has_svm0_and_no_link_node(machine: Machine) -> None:
    machine.remove("/dev/hisi_hdc")
    machine.remove("/dev/devmm_svm")
    (found,) = [one for one in machine.report().findings if one.id == "device-node-missing"]
    assert found.facts["missing"] == ["devmm_svm", "hisi_hdc"]
    machine.node("svm0")
    assert "device-node-missing" not in machine.report().ids()


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "allowed"),
    [
        (0o660, 1, 1, True),
        (0o640, 1, 1, False),
        (0o666, 1, 0, True),
        (0o660, 1, 0, False),
        (0o000, 0, 0, True),
    ],
)
def test_permissions_by_mode(machine: Machine, mode: int, uid: int, gid: int, allowed: bool) -> None:
    """`uid` 0 stands for the super-user, `gid` 1 for a member of the node's group."""
    machine.node("davinci0", mode)
    gids = machine.host.gids if gid else frozenset()
    machine.process(uid=machine.host.uid if uid else 0, gids=gids)
    assert machine.host.may_use("/dev/davinci0") is allowed


def test_the_group_to_join_is_named(machine: Machine) -> None:
    machine.write("/etc/ascend_install.info", "UserGroup=npu\n")
    machine.process(gids=frozenset())
    (found,) = [one for one in machine.report().findings if one.id == "device-permission"]
    assert "usermod -aG npu" in found.fix
    assert "(group HwHiAiUser)" in found.found


def test_network_cards_of_the_same_vendor_are_no_npus(machine: Machine) -> None:
    machine.stages["open"] = [Stage("open", 0, {"opened_s": 1.0})]
    machine.write(f"{PCI}/0000:01:00.0/vendor", "0x19e5\n")
    machine.write(f"{PCI}/0000:01:00.0/class", "0x020000\n")
    machine.write(f"{PCI}/0000:01:00.0/numa_node", "1\n")
    assert "numa-remote" not in machine.report().ids()


def test_cards_without_numbers_have_their_address(machine: Machine) -> None:
    machine.stages["open"] = [Stage("open", 0, {"opened_s": 1.0})]
    machine.card(CARDS[1], 1)
    (found,) = [one for one in machine.report().findings if one.id == "numa-remote"]
    assert found.found.startswith(f"the NPU at {CARDS[1]} ")


def test_versions_in_their_order() -> None:
    ordered = [
        "6.3.RC2", "7.0.0", "8.0.RC1.alpha003", "8.0.RC1", "8.0.RC2.alpha001", "8.0.0", "8.3.RC1",
        "8.5.0-beta.1", "8.5.0", "9.0.0-alpha.1", "9.0.0-alpha.2", "9.0.0-beta.1", "9.0.0-rc.1", "9.0.0",
        "9.0.1", "24.1.rc2", "25.0.RC1", "25.0.rc1.1", "25.2.0",
    ]  # fmt: skip
    keys = [version_key(text) for text in ordered]
    assert None not in keys
    assert sorted(keys, key=lambda key: key or ()) == keys
    assert version_key("unknown") is None


def test_the_name_of_the_release_goes_before_the_component(machine: Machine) -> None:
    machine.write(f"{HOME}/share/info/runtime/version.info", "Version=7.6.0.1.220\nversion_dir=8.0.0\n")
    machine.answer("versions", versions={"acl": "1.0.0"})
    (found,) = [one for one in machine.report().findings if one.id == "versions"]
    assert (found.facts["cann"], found.facts["driver"]) == ("8.0.0", "25.2.0")


def test_a_home_of_links_has_its_library_elsewhere(machine: Machine, tmp_path: Path) -> None:
    real = tmp_path / "8.0.0" / "libacl_rt.so"
    real.parent.mkdir()
    real.touch()
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "lib64").symlink_to(real.parent)
    loader = {"path": "libacl_rt.so", "source": "loader search", "present": True, "why_not": None}
    machine.answer("library", path=str(real), candidates=[loader])
    assert "library-elsewhere" in machine.report().ids()
    machine.environ(ASCEND_HOME_PATH=str(tmp_path / "latest"))
    assert "library-elsewhere" not in machine.report().ids()


@pytest.mark.parametrize(("text", "cpus"), [("0-2,5", {0, 1, 2, 5}), ("", set()), ("x-1,3", {3}), ("7", {7})])
def test_lists_of_cpus(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus


def test_this_machine_is_read() -> None:
    host = Host.this()
    assert host.cpus
    assert host.kernel
    assert host.read("/proc/self/status")
    assert host.start_method in {"fork", "forkserver", "spawn"}
