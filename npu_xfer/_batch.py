"""Trees of arrays: taken apart into leaves, and put together again around the results.

A tree is a list, tuple, named tuple, dict or dataclass instance of trees; anything else is a leaf.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Leaves", "flatten", "unflatten"]


@dataclasses.dataclass(slots=True)
class Leaves:
    """What was found in a tree: the leaves to move, and where each of them is."""

    values: list[Any] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)  # such as "['a'][0].weight"


def flatten(tree: object, moves: Callable[[object, str], bool]) -> tuple[Leaves, Any]:
    """The leaves of `tree` for which `moves(leaf, path)` is true, in order, and the plan for `unflatten`."""
    leaves = Leaves()
    return leaves, _plan(tree, moves, leaves, "")


def unflatten(plan: Any, results: list[Any]) -> Any:
    """A tree like the one that was taken apart, with results[i] in the place of leaf i."""
    return _build(plan, iter(results))


@dataclasses.dataclass(frozen=True, slots=True)
class _Node:
    like: Any  # the container itself
    names: tuple[Any, ...] | None  # keys or field names; None for list and tuple
    children: tuple[Any, ...]


class _Leaf:
    """Stands for the next result."""


_LEAF = _Leaf()


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _plan(value: Any, moves: Callable[[object, str], bool], leaves: Leaves, path: str) -> Any:
    def below(child: Any, step: str) -> Any:
        return _plan(child, moves, leaves, path + step)

    if isinstance(value, list) or (isinstance(value, tuple) and not _is_namedtuple(value)):
        return _Node(value, None, tuple(below(child, f"[{place}]") for place, child in enumerate(value)))
    if isinstance(value, dict):
        return _Node(value, tuple(value), tuple(below(child, f"[{key!r}]") for key, child in value.items()))
    names: tuple[str, ...] | None = None
    if _is_namedtuple(value):
        names = value._fields
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if field.init)
    if names is not None:
        return _Node(value, names, tuple(below(getattr(value, name), f".{name}") for name in names))
    if moves(value, path):
        leaves.values.append(value)
        leaves.paths.append(path)
        return _LEAF
    return value


def _build(plan: Any, results: Iterator[Any]) -> Any:
    if plan is _LEAF:
        return next(results)
    if not isinstance(plan, _Node):
        return plan
    children = [_build(child, results) for child in plan.children]
    if plan.names is None:
        return children if type(plan.like) is list else type(plan.like)(children)
    named = dict(zip(plan.names, children, strict=True))
    if isinstance(plan.like, dict):
        return _like_dict(plan.like, named)
    return type(plan.like)(**named)


def _like_dict(original: dict[Any, Any], named: dict[Any, Any]) -> dict[Any, Any]:
    """The same kind of dict, with what else it knows (a defaultdict's factory), around other values."""
    if type(original) is dict:
        return named
    result = copy.copy(original)
    result.update(named)
    return result
