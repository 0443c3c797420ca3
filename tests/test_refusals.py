"""What is refused before the runtime sees it, and what our objects refuse to be."""

from __future__ import annotations

import copy
import pickle
import re
from collections import OrderedDict, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import pattern

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer import BlockingScheduler


@pytest.fixture
def blocking() -> Iterator[BlockingScheduler]:
    with npu_xfer.BlockingScheduler() as scheduler:
        yield scheduler


BAD_SOURCES: dict[str, tuple[Any, type[Exception], str]] = {
    "list": ([1, 2], npu_xfer.InvalidTransfer, "list"),
    "objects": (np.array([{}, None]), npu_xfer.UnsupportedDType, "Python objects"),
    "big endian": (np.zeros(3, ">f4"), npu_xfer.UnsupportedDType, "byte order"),
    "masked": (np.ma.masked_array([1, 2], [False, True]), npu_xfer.InvalidTransfer, "mask"),
    "none": (None, npu_xfer.InvalidTransfer, "NoneType"),
}


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_bad_sources(blocking: BlockingScheduler, name: str) -> None:
    source, kind, text = BAD_SOURCES[name]
    calls = sim.call_count("aclrtMemcpyAsync")
    with pytest.raises(kind, match=text):
        blocking.to_device(source)
    assert sim.call_count("aclrtMemcpyAsync") == calls


def test_bad_item_of_a_batch_starts_nothing(blocking: BlockingScheduler) -> None:
    with pytest.raises(npu_xfer.UnsupportedDType, match=r"tree\[1\]"):
        blocking.to_device_many([pattern(4), np.zeros(2, ">i8")])
    assert blocking.stats().h2d.transfers == 0


class Foreign:
    """Looks like an array to numpy, as a tensor of another library does."""

    def __array__(self) -> Any:
        raise AssertionError("nobody may convert it silently")


def test_batches_refuse_what_was_meant_to_be_moved(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(np.ones(3))
    for tree, text in [
        ((np.ones(i) for i in range(3)), "the tree is a generator"),
        ({"w": [1, Foreign()]}, r"tree\['w'\]\[1\] is a "),
        ([MappingProxyType({"w": np.ones(3)})], r"tree\[0\] is a mappingproxy"),
        ([device], r"tree\[0\] is a BlockingDeviceArray"),
    ]:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            blocking.to_device_many(tree)
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"tree\[1\] is an ndarray"):
        blocking.to_host_many([device, np.ones(3)])


def test_kinds_of_dict_are_kept(blocking: BlockingScheduler) -> None:
    tree = defaultdict(list, a=np.ones(2), b="text")
    devices = blocking.to_device_many(OrderedDict(x=tree))
    assert type(devices) is OrderedDict
    assert type(devices["x"]) is defaultdict
    assert devices["x"].default_factory is list
    assert devices["x"]["b"] == "text"
    assert np.array_equal(devices["x"]["a"].to_host(), np.ones(2))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n_lanes": 0}, "n_lanes=0 is not valid; accepted: a whole number, 1 to 32"),
        ({"chunk_bytes": 5}, "chunk_bytes=5"),
        ({"staging_bytes": "1 parsec"}, "staging_bytes='1 parsec'"),
        ({"staging_bytes": "1MiB", "chunk_bytes": "2MiB"}, "chunk_bytes=2097152 is larger"),
        ({"result_cache": -1}, "result_cache=-1"),
        ({"library": "foo"}, "library='foo'"),
        ({"device": -1}, "device=-1"),
        ({"close_timeout_s": -1}, "close_timeout_s=-1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        npu_xfer.Scheduler(**arguments)
    with pytest.raises(ValueError, match=re.escape(text)):
        npu_xfer.BlockingScheduler(**arguments)


def test_arguments_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match="device='npu:0' is not a whole number"):
        npu_xfer.Scheduler("npu:0")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(
        TypeError, match=r"Scheduler\.__init__\(\) got an unexpected keyword argument 'lanes'"
    ):
        npu_xfer.Scheduler(lanes=3)  # type: ignore[call-arg]  # on purpose


def test_sizes_may_be_text() -> None:
    with npu_xfer.BlockingScheduler(staging_bytes="1MiB") as xfer:  # the chunk shrinks with it
        assert np.array_equal(xfer.to_host(xfer.to_device(pattern(9 << 20))), pattern(9 << 20))


def test_a_device_array_cannot_be_changed(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(pattern(6))
    for name in ("shape", "dtype", "nbytes"):
        with pytest.raises(AttributeError):
            setattr(device, name, None)


def test_bad_host_destinations(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(np.zeros((4, 6), np.float32))
    read_only = np.zeros((4, 6), np.float32)
    read_only.flags.writeable = False
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(32, np.float32), (4, 6), (8, 4))
    for out, text in [
        (np.zeros((6, 4), np.float32), r"shape \(6, 4\)"),
        (np.zeros((4, 6), np.float64), "float64"),
        (read_only, "read-only"),
        (overlapping, "share memory"),
        (bytearray(96), "bytearray"),
    ]:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            blocking.to_host(device, out=out)  # type: ignore[call-overload]  # on purpose
    assert blocking.stats().d2h.copies == 0


def test_bad_device_destinations(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(np.zeros(4, np.float32))
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"shape \(5,\)"):
        blocking.to_device(np.zeros(5, np.float32), out=device)
    with pytest.raises(npu_xfer.InvalidTransfer, match="ndarray"):
        blocking.to_device(np.zeros(5), out=np.zeros(5))
    with pytest.raises(npu_xfer.InvalidTransfer, match="ndarray"):
        blocking.to_host(np.zeros(5))


def test_no_such_device() -> None:
    with pytest.raises(npu_xfer.InvalidTransfer, match="device 99"), npu_xfer.BlockingScheduler(99):
        pass


def test_no_such_library() -> None:
    with (
        pytest.raises(npu_xfer.LibraryError, match="libnothere"),
        npu_xfer.BlockingScheduler(library="/nowhere/libnothere.so"),
    ):
        pass


def test_device_array_refuses_to_be_something_else(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(pattern(6).reshape(2, 3))
    assert len(device) == 2
    assert "shape=(2, 3)" in repr(device)
    with pytest.raises(TypeError, match="to_host"):
        np.asarray(device)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(device)
    with pytest.raises(BufferError, match="to_host"):
        memoryview(device._block)  # type: ignore[arg-type]  # on purpose


def test_scheduler_refuses_to_be_pickled_or_copied(blocking: BlockingScheduler) -> None:
    with pytest.raises(TypeError, match="spawn"):
        pickle.dumps(blocking)
    with pytest.raises(TypeError, match="spawn"):
        copy.copy(blocking)


def test_use_before_open() -> None:
    scheduler = npu_xfer.BlockingScheduler()
    assert "not open" in repr(scheduler)
    with pytest.raises(npu_xfer.ClosedError, match="not open yet"):
        scheduler.to_device(pattern(4))


def test_native_layer_checks_again(blocking: BlockingScheduler) -> None:
    """Whatever the Python checks let through, no length leaves its block."""
    from npu_xfer import _native

    device = blocking.to_device(pattern(100))
    core: Any = blocking._core
    port = _native.Port()
    with pytest.raises(ValueError, match="do not fit"):
        core.native.submit(port, object(), 0, pattern(101), device._block, 0, 1, False)
    with pytest.raises(ValueError, match="do not fit"):
        core.native.submit(port, object(), 1, np.zeros(50, np.uint8), device._block, 60, 1, False)
    with pytest.raises(ValueError, match="read-only"):
        core.native.submit(port, object(), 1, np.frombuffer(b"x" * 50, np.uint8), device._block, 0, 1, False)
