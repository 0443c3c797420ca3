"""Faults on purpose: copies, calls, allocations and whole devices that fail, as rules."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from npu_xfer.sim._binding import accept, control, device_number, direction_number, text

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal, TypeAlias

    from npu_xfer.sim._binding import DirectionLike

    Action: TypeAlias = Literal[
        "call",
        "copy",
        "event",
        "free",
        "alloc",
        "streams",
        "events",
        "register",
        "slow",
        "stall",
        "lose",
        "sick",
        "random",
    ]

__all__ = ["ArmedFault", "Fault", "add_fault", "clear_faults", "fail_call", "fail_copy"]

# Where the grammar's key is another word than the field.
_KEYS = {
    "min_nbytes": "min_bytes",
    "max_nbytes": "max_bytes",
    "per_call_nbytes": "per_call",
    "total_nbytes": "total",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule. A field of None is not part of it; which fields an action takes is in native/sim/aclsim.h.

    action says what goes wrong: `call` and `free` (functions that return `code`), `copy` (queued copies that
    fail), `event` (records that fail), `alloc` (limits of memory), `streams` and `events` (limits of number),
    `register` (host registration), `slow` and `stall` (copies that take longer, or for ever), `lose` (the
    device), `sick` (a memory fault of the device), `random` (some of the copies).
    """

    action: Action
    code: int | None = None
    """The aclError; None takes the action's own."""

    name: str | None = None
    """The ACL function."""

    device: int | None = None
    direction: DirectionLike | None = None
    stream: int | None = None
    """A stream id, as aclrtStreamGetId gives it."""

    min_nbytes: int | None = None
    max_nbytes: int | None = None
    kind: Literal["device", "pinned"] | None = None
    """Which allocations; None means both."""

    per_call_nbytes: int | None = None
    total_nbytes: int | None = None
    limit: int | None = None
    factor: float | None = None
    """Of the modelled time of a slow copy."""

    delay_us: float | None = None
    nth: int | None = None
    """The first match that fires, from 1."""

    every: int | None = None
    """From then on only one match out of so many."""

    times: int | None = None
    """How often it fires; 0 for ever."""

    probability: float | None = None
    rate: float | None = None
    """The share of copies, for `random`."""

    seed: int | None = None

    @property
    def rule(self) -> str:
        """The rule as text, for ACLSIM_FAULTS."""
        words: list[str] = [self.action]
        for field in fields(self):
            value = getattr(self, field.name)
            if len(str(value).split()) > 1:
                raise ValueError(
                    f"{field.name} {value!r} has a blank in it, which begins another part of a rule"
                )
            if field.name != "action" and value is not None:
                words.append(f"{_KEYS.get(field.name, field.name)}={value!s}")
        return " ".join(words)


class ArmedFault:
    """A rule that is armed. `remove`, or the end of its with block, takes it away once: its stalled copies go
    on, and a device that it made ill is well again."""

    def __init__(self, fault_id: int, rule: str) -> None:
        self.id = fault_id
        self.rule = rule

    @property
    def fired(self) -> int:
        """How often it fired; 0 after it was removed."""
        count: int = control().faults_fired(self.id)
        return max(count, 0)

    def remove(self) -> None:
        """Takes the rule away. A second time does nothing."""
        control().remove_fault(self.id)

    def __enter__(self) -> ArmedFault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def add_fault(fault: Fault | str) -> ArmedFault:
    """Arms one rule, from now on. Raises ValueError with the reason when the simulator does not take it."""
    rule = fault if isinstance(fault, str) else fault.rule
    control_now = control()
    added = control_now.add_fault(text(rule, "a fault rule"))
    if added < 0:
        raise ValueError(f"the simulator refused the fault {rule!r}: {control_now.fault_error().decode()}")
    return ArmedFault(added, rule)


def fail_copy(
    code: int, *, direction: DirectionLike | None = None, device: int | None = None, nth: int = 1
) -> int:
    """Makes the nth copy (1: the next) that starts executing fail with an aclError; returns the fault's id.

    It moves no byte, its stream goes on, and the next synchronisation of the stream returns the code once.
    None as direction or device stands for any. Each fault fires once.
    """
    if nth < 1:
        raise ValueError(f"nth must be at least 1, got {nth}")
    number = -1 if direction is None else direction_number(direction)
    fault: int = control().fail_copy(device_number(device), number, nth, code)
    accept(fault, f"a fault for copies with direction {direction} and device {device}")
    return fault


def fail_call(name: str, code: int, *, nth: int = 1) -> int:
    """Makes the nth call (1: the next) of an ACL function return `code` and do nothing else; returns the
    fault's id. Raises ValueError for a name that is no ACL function."""
    if nth < 1:
        raise ValueError(f"nth must be at least 1, got {nth}")
    fault: int = control().fail_call(text(name, "the function"), nth, code)
    accept(fault, f"a fault for {name}, which it does not know")
    return fault


def clear_faults() -> int:
    """Removes every fault, ends stalls, heals devices; returns how many faults could still have fired."""
    count: int = control().clear_faults()
    return count
