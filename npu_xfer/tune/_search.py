"""One setting after the other: measured with each candidate, kept where the gain is beyond the noise."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npu_xfer._settings import KIB, MIB
from npu_xfer.tune import _work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Seconds = Mapping[str, Sequence[float]]

__all__ = ["CANDIDATES", "Found", "Step", "run"]

CANDIDATES: dict[str, tuple[int, ...]] = {
    "n_stagers": (1, 2, 3, 4),
    "chunk_bytes": (512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB),
    "n_lanes": (2, 3, 4),
    "spin_us": (0, 20, 50, 100),
    "inline_bytes": (16 * KIB, 64 * KIB, 256 * KIB),
}
"""What is tried of each setting, in the order in which they are tuned."""

_LEAST_GAIN = 0.03  # a smaller one is not worth being different from the defaults


@dataclass(frozen=True, slots=True)
class Step:
    """One candidate, measured in turn with the best so far."""

    knob: str
    value: int
    gain: float
    """How many times as fast as the best so far, as a geometric mean over the workloads."""

    noise: float
    """By how much two equal settings may differ here."""

    kept: bool


@dataclass(slots=True)
class Found:
    """What came out."""

    values: dict[str, int] = field(default_factory=dict)
    """Settings that differ from the defaults."""

    steps: list[Step] = field(default_factory=list)
    gain: float = 1.0
    """Times as fast as the defaults, measured again at the end."""

    by_workload: dict[str, float] = field(default_factory=dict)


def _gains(before: Seconds, after: Seconds) -> tuple[dict[str, float], float]:
    """Times as fast, by workload, and the relative noise of their geometric mean."""
    gains, noise = {}, 0.0
    for name, old in before.items():
        ratios = [math.log(a / b) for a, b in zip(old, after[name], strict=True)]
        middle = statistics.median(ratios)
        gains[name] = math.exp(middle)
        noise += statistics.median(abs(one - middle) for one in ratios) ** 2
    # 1.4826 makes a standard deviation of a median deviation; two of them, for the mean of the workloads.
    return gains, 2 * 1.4826 * math.sqrt(noise) / len(gains)


def _mean(gains: Mapping[str, float]) -> float:
    return math.exp(statistics.fmean(math.log(gain) for gain in gains.values()))


def _versus(
    device: int,
    defaults: Mapping[str, int],
    old: dict[str, int],
    new: dict[str, int],
    samples: int,
    scale: float,
) -> tuple[dict[str, float], float]:
    """Both settings measured in turn, so that what the machine does meanwhile meets both.

    Every setting is an argument, so that a profile of an earlier run changes nothing.
    """
    pairs: list[dict[str, list[float]]] = [{}, {}]
    for _ in range(samples):
        for into, options in zip(pairs, (old, new), strict=True):
            for name, seconds in _work.measure(device, {**defaults, **options}, 1, scale).items():
                into.setdefault(name, []).extend(seconds)
    return _gains(pairs[0], pairs[1])


def run(
    *,
    device: int,
    defaults: Mapping[str, int],
    fixed: frozenset[str] = frozenset(),
    samples: int = 3,
    scale: float = 1.0,
    on_step: Callable[[str, int], None] = lambda _knob, _value: None,
) -> Found:
    """Tunes every setting but those in `fixed`, which the environment set. Blocks.

    `defaults` are the values that hold now, by setting. Raises XferError when the device cannot be opened.
    """
    found = Found()
    best: dict[str, int] = {}
    for knob, candidates in CANDIDATES.items():
        if knob in fixed:
            continue
        here = best
        for value in candidates:
            if value == defaults[knob]:
                continue
            on_step(knob, value)
            trial = {**best, knob: value}
            gains, noise = _versus(device, defaults, here, trial, samples, scale)
            gain = _mean(gains)
            kept = gain > 1 + max(_LEAST_GAIN, noise) and min(gains.values()) > 1 - 2 * _LEAST_GAIN
            found.steps.append(Step(knob, value, gain, noise, kept))
            if kept:
                here = trial
        best = here
    if best:
        on_step("all", 0)
        gains, noise = _versus(device, defaults, {}, best, samples, scale)
        if _mean(gains) <= 1 + max(_LEAST_GAIN, noise):
            best = {}  # what looked better one by one is not, together
        else:
            found.gain, found.by_workload = _mean(gains), gains
    found.values = best
    return found
