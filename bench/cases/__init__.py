"""The cases by name. Each is an async function that is given a Context and adds its rows to it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from bench._measure import Context

_MODULES = ("large", "small", "latency", "crowd", "sweep", "devices", "layers")


@dataclass(frozen=True)
class Case:
    """One case, which runs in a process of its own."""

    name: str
    what: str
    function: Callable[[Context], Coroutine[Any, Any, None]]
    environ: dict[str, str]
    """Environment of its process, beside what the user set."""


CASES: dict[str, Case] = {}


def case(
    name: str, what: str, **environ: str
) -> Callable[
    [Callable[[Context], Coroutine[Any, Any, None]]], Callable[[Context], Coroutine[Any, Any, None]]
]:
    """Registers a case."""

    def register(
        function: Callable[[Context], Coroutine[Any, Any, None]],
    ) -> Callable[[Context], Coroutine[Any, Any, None]]:
        assert name not in CASES, name
        CASES[name] = Case(name, what, function, environ)
        return function

    return register


def load_cases() -> dict[str, Case]:
    """Every case, in the order of the modules."""
    for module in _MODULES:
        importlib.import_module(f"bench.cases.{module}")
    return CASES
