"""Control of the simulator: hold its engines, model its link, make things fail, look at what happened.

The functions act on the library that the settings choose (`NPU_XFER_LIBRARY`), which is the same instance
that schedulers of this process use. Each raises LibraryError when that library is not the simulator;
`is_active` asks without raising. All may be called from any thread and none waits for simulated work.

A device of None means all devices, also those set later.
"""

from npu_xfer.sim._binding import DIRECTIONS, is_active
from npu_xfer.sim._control import (
    MODES,
    Hold,
    hold_engine,
    hold_stream,
    mode,
    now_ns,
    peek,
    pending_tasks,
    poke,
    profile,
    release_engine,
    release_stream,
    set_device_count,
    set_guards,
    set_mode,
    set_profile,
    set_strict,
)
from npu_xfer.sim._faults import ArmedFault, Fault, add_fault, clear_faults, fail_call, fail_copy
from npu_xfer.sim._links import Link, LinkChange, get_link, set_link
from npu_xfer.sim._report import (
    FINDING_KINDS,
    Counters,
    Finding,
    call_count,
    clear_findings,
    counters,
    findings,
    report,
    reset_counters,
    write_report,
)

__all__ = [
    "DIRECTIONS",
    "FINDING_KINDS",
    "MODES",
    "ArmedFault",
    "Counters",
    "Fault",
    "Finding",
    "Hold",
    "Link",
    "LinkChange",
    "add_fault",
    "call_count",
    "clear_faults",
    "clear_findings",
    "counters",
    "fail_call",
    "fail_copy",
    "findings",
    "get_link",
    "hold_engine",
    "hold_stream",
    "is_active",
    "mode",
    "now_ns",
    "peek",
    "pending_tasks",
    "poke",
    "profile",
    "release_engine",
    "release_stream",
    "report",
    "reset_counters",
    "set_device_count",
    "set_guards",
    "set_link",
    "set_mode",
    "set_profile",
    "set_strict",
    "write_report",
]
