"""What is refused before the runtime sees it, and what our objects refuse to be."""

from __future__ import annotations

import copy
import pickle
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
    with pytest.raises(npu_xfer.UnsupportedDType, match="item 1 of 2"):
        blocking.to_device_many([pattern(4), np.zeros(2, ">i8")])
    assert blocking.stats().h2d.transfers == 0


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
            blocking.to_host(device, out=out)  # type: ignore[arg-type]
    assert blocking.stats().d2h.copies == 0


def test_bad_device_destinations(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(np.zeros(4, np.float32))
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"shape \(5,\)"):
        blocking.to_device(np.zeros(5, np.float32), out=device)
    with pytest.raises(npu_xfer.InvalidTransfer, match="ndarray"):
        blocking.to_device(np.zeros(5), out=np.zeros(5))  # type: ignore[arg-type]
    with pytest.raises(npu_xfer.InvalidTransfer, match="ndarray"):
        blocking.to_host(np.zeros(5))  # type: ignore[arg-type]


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
        memoryview(device._block)  # type: ignore[arg-type]


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
        core.native.submit(port, object(), 0, pattern(101), device._block, 0)
    with pytest.raises(ValueError, match="do not fit"):
        core.native.submit(port, object(), 1, np.zeros(50, np.uint8), device._block, 60)
    with pytest.raises(ValueError, match="read-only"):
        core.native.submit(port, object(), 1, np.frombuffer(b"x" * 50, np.uint8), device._block, 0)
