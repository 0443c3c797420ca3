"""Trees keep their structure; what is no array stays as it is; one batch moves the rest."""

from __future__ import annotations

import array
import dataclasses
import functools
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest
from foreign_objects import Tensor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import EXAMPLES, pattern

import npu_xfer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer import BlockingScheduler


@pytest.fixture
def xfer() -> Iterator[BlockingScheduler]:
    with npu_xfer.BlockingScheduler() as scheduler:
        yield scheduler


class Point(NamedTuple):
    x: Any
    y: Any = None


@dataclasses.dataclass
class Layer:
    weight: Any
    name: str = "layer"


@dataclasses.dataclass(frozen=True)
class Frozen:
    weight: Any
    derived: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", self.weight + 1)  # would fail for a device array
        object.__setattr__(self, "note", "kept")

    @functools.cached_property
    def total(self) -> float:
        return float(self.weight.sum())


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    a: Any
    b: Any
    unset: Any = dataclasses.field(init=False)


@dataclasses.dataclass
class Needs:
    start: dataclasses.InitVar[int]
    data: Any = None

    def __post_init__(self, start: int) -> None:
        self.data = np.arange(start, start + 4)


class Rows(list):  # type: ignore[type-arg]  # a list of anything
    pass


leaves = st.one_of(
    st.integers(0, 300).map(lambda n: pattern(n).view("u1")),
    st.integers(0, 50).map(lambda n: pattern(2 * n).view(ml_dtypes.bfloat16)),
    st.integers(1, 9).map(lambda n: np.arange(n * n).reshape(n, n).T),
    st.sampled_from(
        [None, 3, 2.5, "text", b"bytes", len, Point, (), [], {}, True, bytearray(b"raw"), object()]
    ),
)
trees = st.recursive(
    leaves,
    lambda children: st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.lists(children, max_size=4).map(Rows),
        st.dictionaries(st.one_of(st.integers(), st.text(max_size=3)), children, max_size=4),
        st.builds(Point, children, children),
        st.builds(Layer, children),
        st.builds(Slots, children, children),
    ),
    max_leaves=20,
)


def assert_same(result: Any, tree: Any) -> None:
    assert type(result) is type(tree)
    if isinstance(tree, np.ndarray):
        assert result.dtype == tree.dtype
        assert result.shape == tree.shape
        assert result.tobytes() == tree.tobytes()
    elif isinstance(tree, dict):
        assert list(result) == list(tree)
        for key in tree:
            assert_same(result[key], tree[key])
    elif isinstance(tree, list | tuple):
        assert len(result) == len(tree)
        for one, other in zip(result, tree, strict=True):
            assert_same(one, other)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            assert hasattr(result, field.name) == hasattr(tree, field.name)
            if hasattr(tree, field.name):
                assert_same(getattr(result, field.name), getattr(tree, field.name))
    else:
        assert result is tree


@given(tree=trees)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_comes_back(xfer: BlockingScheduler, tree: Any) -> None:
    assert_same(xfer.to_host_many(xfer.to_device_many(tree)), tree)


def test_dataclasses_are_made_without_their_init(xfer: BlockingScheduler) -> None:
    frozen = Frozen(np.arange(5.0))
    assert frozen.total == 10
    tree: list[Any] = [frozen, Needs(7)]
    on_device = xfer.to_device_many(tree)
    assert on_device[0].note == "kept"
    assert "total" not in on_device[0].__dict__  # it was of the host array
    back = xfer.to_host_many(on_device)
    assert np.array_equal(back[0].derived, np.arange(5.0) + 1)
    assert back[0].total == 10
    assert np.array_equal(back[1].data, np.arange(7, 11))
    assert isinstance(tree[0].weight, np.ndarray)  # the tree itself is as it was


def test_a_dataclass_that_object_cannot_make(xfer: BlockingScheduler) -> None:
    @dataclasses.dataclass
    class Problem(Exception):
        data: Any

    back = xfer.to_host_many(xfer.to_device_many(Problem(np.arange(3))))
    assert np.array_equal(back.data, np.arange(3))


def test_leaves_of_other_libraries_move_too(xfer: BlockingScheduler) -> None:
    tree = {
        "tensor": Tensor(pattern(40).view("f4")),
        "numbers": array.array("i", [1, 2, 3]),
        "view": memoryview(b"12345")[::2],
        "scalar": np.float32(1.5),
        "raw": b"not moved",
    }
    back = xfer.to_host_many(xfer.to_device_many(tree))
    assert back["tensor"].tobytes() == pattern(40).tobytes()
    assert back["numbers"].tolist() == [1, 2, 3]
    assert back["view"].tobytes() == b"135"
    assert back["scalar"] == np.float32(1.5)
    assert back["raw"] is tree["raw"]


def test_objects_that_have_every_attribute_are_no_arrays(xfer: BlockingScheduler) -> None:
    anything = Mock()
    assert xfer.to_device_many([anything])[0] is anything
    assert xfer.to_host_many([anything])[0] is anything


def test_what_hides_arrays_is_refused(xfer: BlockingScheduler) -> None:
    arrays = {"a": np.ones(3)}
    for tree, text in [
        ([arrays.values()], r"tree\[0\] is a dict_values.*make a list"),
        ({"q": deque([np.ones(2)])}, r"tree\['q'\] is a collections.deque.*make a list"),
        (Layer(arrays.items()), r"tree\.weight is a dict_items"),
    ]:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_device_many(tree)
    device = xfer.to_device(np.ones(3))
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"tree\[0\] is a set"):
        xfer.to_host_many([{device}])
    harmless = [deque([1]), {1, 2}, frozenset(), deque()]
    assert all(a is b for a, b in zip(xfer.to_device_many(harmless), harmless, strict=True))


def test_a_tree_that_contains_itself(xfer: BlockingScheduler) -> None:
    tree: dict[str, Any] = {"a": np.ones(2)}
    tree["b"] = [tree]
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"\['b'\]\[0\] is a dict that contains itself"):
        xfer.to_device_many(tree)
    twice = np.arange(4)
    shared = [twice, "x"]
    back = xfer.to_host_many(xfer.to_device_many(OrderedDict(p=shared, q=shared)))  # no circle
    assert np.array_equal(back["q"][0], twice)
