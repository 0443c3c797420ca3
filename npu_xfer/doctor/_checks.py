"""The checks in their order, each on its own: one that raises becomes a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_xfer.doctor import _cpus, _devices, _library, _memory, _process, _runtime, _versions
from npu_xfer.doctor._findings import Report, finding, for_simulator
from npu_xfer.doctor._host import Host
from npu_xfer.doctor._probed import NOT_RUN, Probed, probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from npu_xfer.doctor._findings import Finding

    Check = Callable[[Host, Probed], Iterable[Finding]]

__all__ = ["CHECKS", "diagnose"]

STEP_LIMIT_S = 30.0
"""For each step of the process that calls the library; the first open of a device takes seconds."""

CHECKS: tuple[Check, ...] = (
    _library.check_settings,
    _library.check_library,
    _library.check_homes,
    _library.check_probe,
    _versions.check_versions,
    _versions.check_packages,
    _versions.check_known,
    _devices.check_nodes,
    _devices.check_permissions,
    _devices.check_visible,
    _runtime.check_start,
    _devices.check_run_mode,
    _devices.check_count,
    _runtime.check_open,
    _runtime.check_pinned,
    _runtime.check_link,
    _memory.check_memlock,
    _memory.check_cgroup,
    _memory.check_free_memory,
    _memory.check_huge_pages,
    _cpus.check_cores,
    _cpus.check_quota,
    _cpus.check_numa,
    _cpus.check_pcie,
    _process.check_kernel,
    _process.check_start_method,
    _process.check_tuning,
)


def _failed(what: str, error: Exception) -> Finding:
    return finding("check-failed", check=what, error=f"{type(error).__name__}: {error}")


def _run(check: Check, host: Host, probed: Probed) -> list[Finding]:
    found: list[Finding] = []
    try:
        for one in check(host, probed):
            found.append(one)  # noqa: PERF402  # what came before an exception is kept
    except Exception as error:
        found.append(_failed(check.__name__, error))
    return found


def diagnose(
    host: Host | None = None,
    *,
    runtime: bool = True,
    limit_s: float = STEP_LIMIT_S,
    probed: Probed | None = None,
    checks: Iterable[Check] = CHECKS,
) -> Report:
    """Runs every check on `host` (this machine) and gives what they found.

    With `runtime` the ACL library is loaded and each device opened for a moment, in another process, which
    gets `limit_s` seconds for each step. `probed` is what such a process found, for tests.
    """
    host = Host.this() if host is None else host
    found: list[Finding] = []
    if probed is None:
        probed = Probed()
        if runtime:
            try:
                probed = probe(_library.usable_environ(host), limit_s=limit_s)
            except Exception as error:
                found.append(_failed("probe", error))
    if probed.ended == NOT_RUN and not found:
        found.append(finding("runtime-not-asked"))
    for check in checks:
        found += _run(check, host, probed)
    # Without an answer of the library, what was asked for.
    simulated = probed.simulated
    if simulated or (simulated is None and _library.asked_settings(host).library == "sim"):
        found = [for_simulator(one) for one in found]
    return Report(tuple(found), simulated)
