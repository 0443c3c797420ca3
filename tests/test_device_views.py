"""Views of device memory, and what a device array is to the rest of Python."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import TYPE_CHECKING, Any

import anyio
import ml_dtypes
import numpy as np
import pytest
from foreign_objects import consume, read_capsule, release
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import EXAMPLES, held, pattern, run_python, until

import npu_xfer
from npu_xfer import _native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer import BlockingScheduler


@pytest.fixture
def xfer() -> Iterator[BlockingScheduler]:
    with npu_xfer.BlockingScheduler() as scheduler:
        yield scheduler


def slices(extent: int) -> st.SearchStrategy[Any]:
    ends = st.one_of(st.none(), st.integers(-extent - 2, extent + 2))
    return st.builds(slice, ends, ends, st.sampled_from([None, 1, 1, 1, 2, -1]))


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    keys: list[Any] = [
        draw(st.one_of(st.integers(-extent, extent - 1) if extent else slices(extent), slices(extent)))
        for extent in shape[: draw(st.integers(0, len(shape)))]
    ]
    if draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), ...)
    return tuple(keys)


@given(data=st.data(), shape=st.lists(st.integers(0, 5), max_size=3).map(tuple))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_index_picks_what_numpy_picks(
    xfer: BlockingScheduler, data: st.DataObject, shape: tuple[int, ...]
) -> None:
    array = pattern(int(np.prod(shape, dtype=int)) * 4).view("<u4").reshape(shape)
    index = data.draw(indices(shape))
    device = xfer.to_device(array)
    try:
        expected = array[index if ... in index else (*index, ...)]  # a view, also of one element
    except IndexError:  # what comes behind the ellipsis is for other axes than it was drawn for
        with pytest.raises(IndexError):
            device[index]
        return
    if not expected.flags.c_contiguous:
        with pytest.raises(npu_xfer.InvalidTransfer, match="does not lie together"):
            device[index]
        return
    view = device[index]
    assert (view.shape, view.dtype, view.nbytes) == (expected.shape, expected.dtype, expected.nbytes)
    if expected.size:
        assert view.address == device.address + expected.ctypes.data - array.ctypes.data
        assert view.strides == np.empty(view.shape, view.dtype).strides
    assert np.array_equal(xfer.to_host(view), expected)
    changed = pattern(expected.nbytes, 9).view("<u4").reshape(expected.shape)
    assert xfer.to_device(changed, out=view) is view
    array[index] = changed
    assert np.array_equal(xfer.to_host(device), array)  # that part and no other


def test_what_is_no_index(xfer: BlockingScheduler) -> None:
    device = xfer.to_device(np.arange(12).reshape(3, 4))
    wrong: list[tuple[Any, type[Exception], str]] = [
        (3, IndexError, "index 3 is out of bounds for axis 0 of 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for axis 1 of 4"),
        ((0, 0, 0), IndexError, "3 indices for a device array of 2"),
        ((..., ...), IndexError, "one ellipsis"),
        (None, TypeError, "NoneType"),
        (True, TypeError, "bool"),
        ([0, 1], TypeError, "list"),
        (np.array([True, False, True]), TypeError, "ndarray"),
        (1.0, TypeError, "float"),
        ((slice(None), 1), npu_xfer.InvalidTransfer, "lie together"),
        (slice(None, None, 2), npu_xfer.InvalidTransfer, "to_host"),
    ]
    for index, kind, text in wrong:
        with pytest.raises(kind, match=text):
            device[index]


def test_views_of_views_in_other_shapes(xfer: BlockingScheduler) -> None:
    array = pattern(960).view("<f4").reshape(4, 60)
    device = xfer.to_device(array)
    inner = device[1:3].reshape(2, 6, 10)[1, 2:4]
    assert np.array_equal(xfer.to_host(inner).view("u4"), array[1:3].reshape(2, 6, 10)[1, 2:4].view("u4"))
    assert device.reshape(-1).shape == (240,)
    assert device.reshape((8, -1, 3)).shape == (8, 10, 3)
    assert device.reshape(np.int64(240)).shape == (240,)
    assert device[0, 0].reshape(()).shape == ()
    assert device[0:0].reshape(0, 7).shape == (0, 7)
    for bad in [(7, -1), (-1, -1), (-2, -120), (239,)]:
        with pytest.raises(npu_xfer.InvalidTransfer, match="240 elements"):
            device.reshape(bad)
    assert [row.address for row in device] == [device.address + 240 * row for row in range(4)]


def test_other_types(xfer: BlockingScheduler) -> None:
    array = pattern(96).reshape(4, 24)
    device = xfer.to_device(array)
    assert np.array_equal(xfer.to_host(device.view("<f8").view("<u2")), array.view("<u2"))
    assert device.view(ml_dtypes.bfloat16).shape == (4, 12)
    assert device.view(np.int8)[2].shape == (24,)
    for bad in ("V5", "O", "V0"):
        with pytest.raises(npu_xfer.InvalidTransfer, match="cannot be seen as"):
            device.view(bad)
    with pytest.raises(npu_xfer.InvalidTransfer, match="cannot be seen as"):
        device[0, 0].view("u2")


def test_a_view_keeps_the_memory(xfer: BlockingScheduler) -> None:
    view = xfer.to_device(pattern(100_000))[7:1000]
    others = [xfer.to_device(np.zeros(100_000, np.uint8)) for _ in range(20)]
    assert np.array_equal(xfer.to_host(view), pattern(100_000)[7:1000])
    used = xfer.stats().device_used_nbytes
    del others, view
    assert used - xfer.stats().device_used_nbytes == 21 * 100_000


def test_parts_of_a_batch_in_one_batch(xfer: BlockingScheduler) -> None:
    """Small arrays share device memory and copies; so do their parts, in any order and twice."""
    arrays = [pattern(1000, seed) for seed in range(50)]
    devices = xfer.to_device_many(arrays)
    rng = np.random.default_rng(3)
    picks = [(int(rng.integers(50)), sorted(map(int, rng.integers(0, 1001, 2)))) for _ in range(300)]
    back = xfer.to_host_many([devices[n][low:high] for n, (low, high) in picks])
    for got, (n, (low, high)) in zip(back, picks, strict=True):
        assert np.array_equal(got, arrays[n][low:high])


@pytest.mark.anyio
async def test_transfers_on_parts_keep_their_order() -> None:
    async with npu_xfer.Scheduler() as scheduler:
        device = await scheduler.to_device(np.zeros(1000, np.uint8))
        seen: list[Any] = [None, None]

        async def fetch(place: int, part: npu_xfer.DeviceArray) -> None:
            seen[place] = await part.to_host()

        async def write(seed: int, part: npu_xfer.DeviceArray) -> None:
            await scheduler.to_device(pattern(part.nbytes, seed), out=part)

        async with anyio.create_task_group() as group:
            with held("h2d", "d2h"):
                for n_submitted, (act, key, part) in enumerate(
                    [
                        (write, 0, device[200:800]),
                        (fetch, 0, device[100:300]),
                        (write, 1, device[:500]),
                        (fetch, 1, device),
                    ]
                ):
                    group.start_soon(act, key, part)
                    await until(lambda n=n_submitted: scheduler.stats().pending > n)  # type: ignore[misc]  # bound now
    expected = np.zeros(1000, np.uint8)
    expected[200:800] = pattern(600)
    assert np.array_equal(seen[0], expected[100:300])
    expected[:500] = pattern(500, 1)
    assert np.array_equal(seen[1], expected)


def test_equal_means_the_same_memory(xfer: BlockingScheduler) -> None:
    device, other = xfer.to_device_many([np.zeros((3, 4)), np.zeros((3, 4))])
    assert device == device[:]
    assert hash(device) == hash(device[:])
    assert device != other
    assert device[0] != device[1]
    assert device != device.reshape(4, 3)
    assert device != device.view(np.int64)
    assert device != "text"
    assert len({device, device[...], other}) == 2
    assert device[0:0] == device[1:1]


@pytest.mark.parametrize("dtype", ["f8", "M8[s]", "U3", "V5", [("a", "u1"), ("b", "f8")], ml_dtypes.bfloat16])
def test_pinned_zeros(xfer: BlockingScheduler, dtype: Any) -> None:
    dirty = xfer.empty_pinned((3, 40), dtype)
    dirty.reshape(-1).view(np.uint8)[:] = 0xA5
    address = dirty.ctypes.data
    del dirty
    zeros = xfer.zeros_pinned((3, 40), dtype)
    assert zeros.ctypes.data == address  # the recycled block
    assert (zeros.shape, zeros.dtype) == ((3, 40), np.dtype(dtype))
    assert not zeros.tobytes().strip(b"\0")
    device = xfer.to_device(zeros)
    assert xfer.stats().h2d.direct == 1
    assert not xfer.to_host(device).tobytes().strip(b"\0")
    assert xfer.zeros_pinned((), dtype).shape == ()
    assert xfer.zeros_pinned((2, 0), dtype).shape == (2, 0)


def test_what_a_device_array_refuses(xfer: BlockingScheduler) -> None:
    device = xfer.to_device(np.arange(3.0))
    anything: Any = device
    refusals: list[tuple[Any, str]] = [
        (lambda: bool(device), "is not None"),
        (lambda: 1.0 in device, "to_host"),
        (lambda: np.asarray(device), "to_host"),
        (lambda: np.array([device]), "to_host"),
        (lambda: np.ones(3) + device, "to_host"),
        (lambda: np.ones(3) == device, "to_host"),
        (lambda: float(anything), "float"),
        (lambda: copy.copy(device), r"array\.copy\(\)"),
        (lambda: copy.deepcopy({"w": device}), r"array\.copy\(\)"),
        (lambda: pickle.dumps(device), "to_host"),
        (lambda: len(device[0]), "0-d"),
        (lambda: iter(device[0]), "0-d"),
    ]
    for act, text in refusals:
        with pytest.raises(TypeError, match=text):
            act()
    with pytest.raises((BufferError, RuntimeError), match=r"to_host|[Uu]nsupported device"):
        np.from_dlpack(anything)
    assert repr(device[1:]).startswith("<BlockingDeviceArray shape=(2,) dtype=float64 device=0 nbytes=16")


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
def test_capsules(xfer: BlockingScheduler, version: tuple[int, int] | None) -> None:
    device = xfer.to_device(pattern(96).view(ml_dtypes.bfloat16).reshape(2, 4, 6))[1, 1:]
    assert device.__dlpack_device__() == (12, 0)
    capsule = device.__dlpack__(max_version=version, stream=7, dl_device=(12, 0), copy=False)
    name, described = read_capsule(capsule)
    assert name == ("dltensor_versioned" if version and version[0] else "dltensor")
    tensor = described.tensor
    assert tensor.data == device.address
    assert (tensor.device_type, tensor.device_id, tensor.byte_offset) == (12, 0, 0)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.ndim) == (4, 16, 1, 2)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([3, 6], [6, 1])
    opened = _native.open_capsule(capsule)
    assert (opened.address, opened.shape, opened.strides) == (device.address, (3, 6), (6, 1))
    with pytest.raises(BufferError, match="consumed before"):
        _native.open_capsule(capsule)


def test_a_capsule_keeps_the_memory_until_it_is_given_back(xfer: BlockingScheduler) -> None:
    for version in (None, (1, 0)):
        device = xfer.to_device(pattern(4096))
        unconsumed = device.__dlpack__(max_version=version)
        taken = consume(device.__dlpack__(max_version=version))
        del device
        gc.collect()
        assert xfer.stats().device_used_nbytes == 4096
        thread = threading.Thread(target=release, args=(taken,))
        thread.start()
        thread.join()
        assert xfer.stats().device_used_nbytes == 4096
        del unconsumed
        assert xfer.stats().device_used_nbytes == 0


def test_a_capsule_outlives_its_scheduler() -> None:
    with npu_xfer.BlockingScheduler() as xfer:
        device = xfer.to_device(pattern(4096))
        taken = consume(device.__dlpack__())
        unconsumed = device.__dlpack__(max_version=(1, 0))
    with pytest.raises(npu_xfer.ClosedError):
        device.__dlpack__()
    del unconsumed, device
    release(taken)


def test_a_capsule_outlives_the_interpreter() -> None:
    code = """
import atexit, sys, numpy, npu_xfer
xfer = npu_xfer.BlockingScheduler()
xfer.open()
device = xfer.to_device(numpy.ones(1000))
sys.kept = [device.__dlpack__(), device.__dlpack__(max_version=(1, 0)), device]
xfer.close()
print("end")
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_capsules_that_cannot_be(xfer: BlockingScheduler) -> None:
    device = xfer.to_device(np.arange(4.0))
    wrong: list[tuple[Any, str]] = [
        (lambda: device.__dlpack__(dl_device=(1, 0)), "await array.to_host"),
        (lambda: device.__dlpack__(dl_device=(12, 1)), "await array.to_host"),
        (lambda: device.__dlpack__(copy=True), "not a copy"),
        (lambda: device.view("M8[s]").__dlpack__(), "datetime64"),
        (lambda: device.view("V8").__dlpack__(), "no type for dtype"),
        (lambda: _native.open_capsule(device), "not a DLPack capsule"),
    ]
    for act, text in wrong:
        with pytest.raises(BufferError, match=text):
            act()
    nothing = read_capsule(capsule := device[0:0].__dlpack__())[1].tensor
    assert nothing.data is None
    assert nothing.shape[:1] == [0]
    del capsule
