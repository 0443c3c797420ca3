"""`npu-xfer tune`: what is tuned, where it is written, and the table of what it brought."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table

import npu_xfer
from npu_xfer import tune
from npu_xfer._settings import default_stagers, format_nbytes, settings
from npu_xfer._tuning import KNOBS, Profile, machine_key, write_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from npu_xfer.cli._common import Screen

__all__ = ["draw", "n_steps", "run", "save_profile"]


def _defaults() -> dict[str, int]:
    """What holds without a profile; a 0 of n_stagers is what it stands for here."""
    chosen = settings()
    found = {name: int(getattr(chosen, name)) for name in KNOBS}
    found["n_stagers"] = found["n_stagers"] or default_stagers()
    return found


def n_steps() -> int:
    """Candidates that `run` tries, and the measurement at the end."""
    defaults, given = _defaults(), settings().given
    tried = (
        v != defaults[knob] for knob, values in tune.CANDIDATES.items() if knob not in given for v in values
    )
    return sum(tried) + 1


def run(device: int, samples: int, scale: float, on_step: Callable[[str, int], None]) -> tune.Found:
    """Measures. Raises XferError when the device cannot be opened."""
    return tune.run(
        device=device,
        defaults=_defaults(),
        fixed=settings().given,
        samples=samples,
        scale=scale,
        on_step=on_step,
    )


def save_profile(path: Path, found: tune.Found) -> None:
    """Writes what was found, also that the defaults are best. Raises OSError."""
    facts: dict[str, Any] = {
        "gain": found.gain,
        "by_workload": found.by_workload,
        "npu_xfer": npu_xfer.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
    write_profile(path, Profile(machine_key(settings()), found.values), facts)


def _text(knob: str, value: int) -> str:
    return format_nbytes(value) if knob.endswith("_bytes") else str(value)


def draw(found: tune.Found, screen: Screen) -> None:
    """Every candidate, then what is kept and what that brings."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("setting", "left"), ("value", "right"), ("speed", "right"), ("noise", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # rich's literal type of words
    table.add_column("")
    for step in found.steps:
        verdict = "kept" if step.kept else ""
        table.add_row(
            step.knob, _text(step.knob, step.value), f"{step.gain:.3f}x", f"{step.noise:.0%}", verdict
        )
    screen.show(table)
    screen.out.print()
    if not found.values:
        screen.say("The defaults stay: no other value is faster beyond the noise.")
        return
    kept = ", ".join(f"{knob}={_text(knob, value)}" for knob, value in found.values.items())
    screen.say(f"Kept: {kept}. In all {found.gain:.2f} times as fast as the defaults:")
    for name, gain in found.by_workload.items():
        screen.item(f"{name}: {gain:.2f}x")
