"""Trees of arrays: taken apart into leaves, and put together again around the results.

A tree is a list, tuple, named tuple, dict or dataclass instance of trees; anything else is a leaf.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["flatten", "unflatten"]


def flatten(tree: object, moves: Callable[[object], bool]) -> tuple[list[object], Any]:
    """The leaves of `tree` for which `moves` is true, in order, and the plan for `unflatten`."""
    leaves: list[object] = []
    return leaves, _plan(tree, moves, leaves)


def unflatten(plan: Any, results: list[Any]) -> Any:
    """A tree like the one that was taken apart, with results[i] in the place of leaf i."""
    return _build(plan, iter(results))


@dataclasses.dataclass(frozen=True, slots=True)
class _Node:
    kind: type  # list, tuple, dict or the class of a dataclass or named tuple
    names: tuple[Any, ...] | None  # keys or field names; None for list and tuple
    children: tuple[Any, ...]


class _Leaf:
    """Stands for the next result."""


_LEAF = _Leaf()


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _plan(value: Any, moves: Callable[[object], bool], leaves: list[object]) -> Any:
    if isinstance(value, list) or (isinstance(value, tuple) and not _is_namedtuple(value)):
        return _Node(type(value), None, tuple(_plan(child, moves, leaves) for child in value))
    if _is_namedtuple(value):
        return _Node(type(value), value._fields, tuple(_plan(child, moves, leaves) for child in value))
    if isinstance(value, dict):
        children = tuple(_plan(child, moves, leaves) for child in value.values())
        return _Node(type(value), tuple(value), children)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if field.init)
        children = tuple(_plan(getattr(value, name), moves, leaves) for name in names)
        return _Node(type(value), names, children)
    if moves(value):
        leaves.append(value)
        return _LEAF
    return value


def _build(plan: Any, results: Iterator[Any]) -> Any:
    if plan is _LEAF:
        return next(results)
    if not isinstance(plan, _Node):
        return plan
    children = [_build(child, results) for child in plan.children]
    if plan.names is None:
        return children if plan.kind is list else plan.kind(children)
    if issubclass(plan.kind, dict):
        return dict(zip(plan.names, children, strict=True))
    return plan.kind(**dict(zip(plan.names, children, strict=True)))
