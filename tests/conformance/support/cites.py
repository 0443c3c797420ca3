"""Marks: where a test's expectation comes from, and for which profiles it holds."""

from __future__ import annotations

import pytest


def cites(statement: str, source: str) -> pytest.MarkDecorator:
    """`statement`: what CANN does, in our words. `source`: the function's documents with their release, or
    "observed on the open runtime" with its release."""
    return pytest.mark.cites(statement, source)


def since(gen: str) -> pytest.MarkDecorator:
    """Holds from this generation on."""
    return pytest.mark.since(gen)


def until(gen: str) -> pytest.MarkDecorator:
    """Holds up to this generation."""
    return pytest.mark.until(gen)


def chips(*names: str) -> pytest.MarkDecorator:
    """Holds on these chips."""
    return pytest.mark.chips(*names)


def forms(*names: str) -> pytest.MarkDecorator:
    """Holds in these forms, ep or rc."""
    return pytest.mark.forms(*names)


needs_control = pytest.mark.needs_control
"""Uses the simulator's control functions (holds, faults), which no real library has."""

OBSERVED = "observed on the open runtime, CANN 9.2"
