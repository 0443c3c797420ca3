"""Trees of arrays: taken apart into leaves, and put together again around the results.

A tree is a list, tuple, named tuple, dict or dataclass instance of trees; anything else is a leaf.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, Any

from npu_xfer.errors import InvalidTransfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["NOT_MOVED", "flatten", "unflatten"]


class _NotMoved:
    """What `take` answers for a leaf that is passed through."""


NOT_MOVED = _NotMoved()


def flatten(
    tree: object, take: Callable[[object, Callable[[], str]], Any], is_plain: Callable[[object], bool]
) -> tuple[list[Any], Any]:
    """What `take` makes of the leaves of `tree`, in order, without NOT_MOVED; and the plan for `unflatten`.

    `take(leaf, where)` may ask `where()` for the place in the tree, such as "['a'][0].weight". Leaves for
    which `is_plain` is true are moved as they are.
    """
    values: list[Any] = []
    return values, _Walk(values, take, is_plain).plan(tree)


def unflatten(plan: Any, results: list[Any]) -> Any:
    """A tree like the one that was taken apart, with results[i] in the place of leaf i."""
    return _build(plan, iter(results))


@dataclasses.dataclass(frozen=True, slots=True)
class _Node:
    like: Any  # the container itself
    names: tuple[Any, ...] | None  # keys or field names; None for list and tuple
    children: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """A list or tuple of nothing but plain leaves."""

    like: Any
    length: int


class _Leaf:
    """Stands for the next result."""


_LEAF = _Leaf()


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


class _Walk:
    """One way through a tree. `steps` lead to where it is now."""

    def __init__(
        self,
        values: list[Any],
        take: Callable[[object, Callable[[], str]], Any],
        is_plain: Callable[[object], bool],
    ) -> None:
        self._values = values
        self._take = take
        self._is_plain = is_plain
        self._steps: list[str] = []
        self._open: set[int] = set()  # identities of the containers on the way here

    def _where(self) -> str:
        return "".join(self._steps)

    def _node(self, value: Any, names: tuple[Any, ...] | None, children: list[tuple[Any, str]]) -> _Node:
        if id(value) in self._open:
            where = self._where() or "the tree"
            raise InvalidTransfer(f"tree: {where} is a {type(value).__name__} that contains itself")
        self._open.add(id(value))
        plans = []
        for child, step in children:
            self._steps.append(step)
            plans.append(self.plan(child))
            self._steps.pop()
        self._open.discard(id(value))
        return _Node(value, names, tuple(plans))

    def plan(self, value: Any) -> Any:
        if self._is_plain(value):
            self._values.append(value)
            return _LEAF
        if isinstance(value, list) or (isinstance(value, tuple) and not _is_namedtuple(value)):
            if all(map(self._is_plain, value)):  # the usual batch: no step, no path, no leaf by leaf
                self._values.extend(value)
                return _Run(value, len(value))
            return self._node(value, None, [(child, f"[{place}]") for place, child in enumerate(value)])
        if isinstance(value, dict):
            return self._node(value, tuple(value), [(child, f"[{key!r}]") for key, child in value.items()])
        names: tuple[str, ...] | None = None
        if _is_namedtuple(value):
            names = value._fields
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
        if names is not None:
            children = [(getattr(value, name), f".{name}") for name in names]
            return self._node(value, names, children)
        taken = self._take(value, self._where)
        if taken is NOT_MOVED:
            return value
        self._values.append(taken)
        return _LEAF


def _build(plan: Any, results: Iterator[Any]) -> Any:
    if plan is _LEAF:
        return next(results)
    if isinstance(plan, _Run):
        return _like_sequence(plan.like, list(itertools.islice(results, plan.length)))
    if not isinstance(plan, _Node):
        return plan
    children = [_build(child, results) for child in plan.children]
    if plan.names is None:
        return _like_sequence(plan.like, children)
    named = dict(zip(plan.names, children, strict=True))
    if isinstance(plan.like, dict):
        return _like_dict(plan.like, named)
    return type(plan.like)(**named) if isinstance(plan.like, tuple) else _like_dataclass(plan.like, named)


def _like_sequence(original: Any, children: list[Any]) -> Any:
    return children if type(original) is list else type(original)(children)


def _like_dataclass(original: Any, named: dict[str, Any]) -> Any:
    """The same with other values in its fields. Its __init__ is not run: it was written for what was there.

    What else it knows is kept, except what a cached_property derived from the fields.
    """
    kind = type(original)
    try:
        result = object.__new__(kind)
    except TypeError:  # an exception, for example
        return kind(**named)
    for name, value in getattr(original, "__dict__", {}).items():
        if name not in named and not isinstance(getattr(kind, name, None), functools.cached_property):
            object.__setattr__(result, name, value)
    for name, value in named.items():
        object.__setattr__(result, name, value)  # also of a frozen one
    return result


def _like_dict(original: dict[Any, Any], named: dict[Any, Any]) -> dict[Any, Any]:
    """The same kind of dict, with what else it knows (a defaultdict's factory), around other values."""
    if type(original) is dict:
        return named
    result = copy.copy(original)
    result.update(named)
    return result
