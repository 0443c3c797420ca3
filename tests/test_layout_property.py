"""Any shape, strides and dtype go to the device in C order and come back into any layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import EXAMPLES, pattern

import npu_xfer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from npu_xfer import BlockingScheduler

DTYPES = ["u1", "<i2", "V3", "<f4", "<f8", "V12", "<c16", "V24"]


@pytest.fixture
def xfer() -> Iterator[BlockingScheduler]:
    """One for all examples; its small chunks make most arrays cross several."""
    with npu_xfer.BlockingScheduler(staging_bytes=1 << 20, chunk_bytes=4096, inline_bytes=512) as scheduler:
        yield scheduler


@st.composite
def arrays(draw: st.DrawFn) -> NDArray[Any]:
    """A view with steps of either sign, transposed, perhaps broadcast, over bytes that are all different."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.lists(st.integers(0, 9), max_size=4))
    steps = [draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in shape]
    base_shape = [extent * abs(step) for extent, step in zip(shape, steps, strict=True)]
    n = int(np.prod(base_shape, dtype=int))
    base = pattern(n * dtype.itemsize).view(dtype).reshape(base_shape)
    index: tuple[Any, ...] = (..., *(slice(None, None, step) for step in steps))
    view = base[index]
    view = view.transpose(draw(st.permutations(range(view.ndim))))
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(1, 5)), *view.shape))
    result: NDArray[Any] = view
    return result


@given(array=arrays(), seed=st.integers(0, 3))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(xfer: BlockingScheduler, array: NDArray[Any], seed: int) -> None:
    device = xfer.to_device(array)
    assert device.shape == array.shape
    expected = array.tobytes()
    assert xfer.to_host(device).tobytes() == expected
    rng = np.random.default_rng(seed)
    order = rng.permutation(array.ndim)
    wide = [extent * 2 for extent in array.shape]
    room = np.zeros([wide[axis] for axis in order], array.dtype).transpose(np.argsort(order))
    every_other: tuple[Any, ...] = (..., *(slice(None, None, int(rng.choice([-2, 2]))) for _ in wide))
    target = room[every_other]
    xfer.to_host(device, out=target)
    assert target.tobytes() == expected
