"""Device memory of other libraries as source and destination: torch_npu's protocol, DLPack, an address."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import ml_dtypes
import numpy as np
import pytest
from foreign_objects import Tensor
from support import held, pattern, until

import npu_xfer
from npu_xfer import acl, sim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer import BlockingScheduler


class NpuTensor:
    """As torch_npu has it. Views share the storage."""

    def __init__(
        self,
        storage: Storage,
        shape: tuple[int, ...],
        dtype: str,
        offset: int = 0,
        *,
        strides: tuple[int, ...] | None = None,
        device: int = 0,
        requires_grad: bool = False,
    ) -> None:
        self._storage = storage
        self._offset = offset
        self.shape = shape
        self.dtype = f"torch.{dtype}"
        self.device = SimpleNamespace(type="npu", index=device)
        self.requires_grad = requires_grad
        self._strides = strides
        if strides is None:
            self._strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))

    def stride(self) -> tuple[int, ...] | None:
        return self._strides

    def data_ptr(self) -> int:
        return self._storage.address + self._offset

    def untyped_storage(self) -> Storage:
        return self._storage


class Storage:
    def __init__(self, nbytes: int) -> None:
        self.size = nbytes
        self.address, code = acl.rt.malloc(nbytes, 0)
        assert code == 0

    def data_ptr(self) -> int:
        return self.address

    def nbytes(self) -> int:
        return self.size

    def __del__(self) -> None:
        assert acl.rt.free(self.address) == 0


@pytest.fixture
def xfer() -> Iterator[BlockingScheduler]:
    with npu_xfer.BlockingScheduler(chunk_bytes="64KiB") as scheduler:
        assert acl.rt.set_device(0) == 0
        yield scheduler
        gc.collect()
        assert acl.rt.reset_device(0) == 0


@pytest.mark.parametrize("nbytes", [8, 4096, 300_000])
def test_a_tensor_is_destination_and_source(xfer: BlockingScheduler, nbytes: int) -> None:
    data = pattern(nbytes).view("f4")
    tensor = NpuTensor(Storage(nbytes + 64), data.shape, "float32", 64)
    assert xfer.to_device(data, out=tensor) is tensor
    back = xfer.to_host(tensor)
    assert (back.dtype, back.shape) == (data.dtype, data.shape)
    assert back.tobytes() == data.tobytes()
    out = np.zeros(2 * data.size, "f4")[::2]
    assert xfer.to_host(tensor, out=out) is out
    assert out.tobytes() == data.tobytes()
    assert xfer.stats().device_used_nbytes == 0  # the memory is the tensor's own


def test_types_and_shapes(xfer: BlockingScheduler) -> None:
    storage = Storage(4096)
    for name, dtype in [
        ("bfloat16", np.dtype(ml_dtypes.bfloat16)),
        ("float8_e4m3fn", np.dtype(ml_dtypes.float8_e4m3fn)),
        ("float16", np.dtype("f2")),
        ("bool", np.dtype("?")),
        ("int64", np.dtype("i8")),
        ("complex64", np.dtype("c8")),
    ]:
        raw = pattern(6 * dtype.itemsize) % 2
        data = raw.view(dtype).reshape(2, 1, 3)
        tensor = NpuTensor(storage, (2, 1, 3), name, 32, strides=(3, 77, 1))  # of one element: any stride
        xfer.to_device(data, out=tensor)
        back = xfer.to_host(tensor)
        assert back.dtype == dtype
        assert back.tobytes() == data.tobytes()
    empty = NpuTensor(storage, (0, 3), "float32", strides=(1, 1))
    assert xfer.to_host(empty).shape == (0, 3)
    assert xfer.to_device(np.empty((0, 3), "f4"), out=empty) is empty


def test_trees_of_tensors(xfer: BlockingScheduler) -> None:
    storage = Storage(10_000)
    tensors = [NpuTensor(storage, (1000,), "uint8", 1000 * n) for n in range(10)]
    for n, tensor in enumerate(tensors):
        xfer.to_device(pattern(1000, n), out=tensor)
    own = xfer.to_device(np.arange(3))
    back = xfer.to_host_many({"tensors": tensors, "own": own, "text": "x"})
    assert all(np.array_equal(got, pattern(1000, n)) for n, got in enumerate(back["tensors"]))
    assert np.array_equal(back["own"], np.arange(3))
    assert back["text"] == "x"


def test_dlpack_of_an_extension_device(xfer: BlockingScheduler) -> None:
    storage = Storage(4096)
    data = pattern(400).view("f4").reshape(10, 10)
    tensor = Tensor(data, device=(12, 0), address=storage.address + 128)
    xfer.to_device(data, out=tensor)
    assert xfer.to_host(tensor).tobytes() == data.tobytes()
    assert xfer.as_device_array(tensor)[3].address == storage.address + 128 + 120
    gc.collect()
    assert tensor.n_out == 0
    turned = Tensor(data.T, device=(12, 0), address=storage.address)
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"C order.*contiguous\(\)"):
        xfer.to_host(turned)
    assert turned.n_out == 0


def test_a_device_array_that_went_round(xfer: BlockingScheduler) -> None:
    """Through another library and back: the same memory, whose order and life are still known."""
    for nbytes in (1000, 200_000):
        device = xfer.to_device_many([pattern(500), pattern(nbytes)])[1]  # a piece of a block; one of its own
        again = xfer.as_device_array(device)
        assert again is device
        round_trip: Any = SimpleNamespace(
            __dlpack__=device[100:].__dlpack__, __dlpack_device__=device.__dlpack_device__
        )
        other = xfer.as_device_array(round_trip)
        assert other.address == device.address + 100
        xfer.to_device(pattern(nbytes - 100, 1), out=other)
        assert np.array_equal(xfer.to_host(device)[100:], pattern(nbytes - 100, 1))
        used = xfer.stats().device_used_nbytes
        del device, again, round_trip
        gc.collect()
        assert xfer.stats().device_used_nbytes == used
        assert np.array_equal(xfer.to_host(other), pattern(nbytes - 100, 1))
        del other
        gc.collect()
        assert xfer.stats().device_used_nbytes == 0


def test_an_address(xfer: BlockingScheduler) -> None:
    storage = Storage(4096)
    gone = weakref.ref(storage)
    region = xfer.device_array_at(storage.address, (4, 256), np.float32, owner=storage)
    del storage
    data = pattern(4096).view("f4").reshape(4, 256)
    xfer.to_device(data[1:3], out=region[1:3])
    assert xfer.to_host(region[1:3]).tobytes() == data[1:3].tobytes()
    assert xfer.device_array_at(64, 0, "i4").nbytes == 0
    for address, shape in [(0, 4), (-1, 4), ((1 << 64) - 4, 4), (1 << 64, 4), (64, -1)]:
        with pytest.raises(npu_xfer.InvalidTransfer, match="no device memory"):
            xfer.device_array_at(address, shape, "u1")
    assert gone() is not None
    del region
    gc.collect()
    assert gone() is None


def test_what_is_refused(xfer: BlockingScheduler) -> None:
    storage = Storage(4096)
    data = np.zeros((2, 3), "f4")
    bad: list[tuple[NpuTensor, str]] = [
        (NpuTensor(storage, (2, 3), "float32", strides=(1, 2)), "C order"),
        (NpuTensor(storage, (2, 3), "float32", requires_grad=True), r"detach\(\)"),
        (NpuTensor(storage, (2, 3), "float32", device=3), "on device 3"),
        (NpuTensor(storage, (2, 3), "quint8"), "quint8"),
        (NpuTensor(storage, (2, 3), "bfloat17"), "bfloat17"),
    ]
    for tensor, text in bad:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_device(data, out=tensor)
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_host(tensor)
        with pytest.raises(npu_xfer.InvalidTransfer, match=rf"tree\[0\].*{text}"):
            xfer.to_host_many([tensor])
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"shape \(2, 3\).*shape \(3, 2\)"):
        xfer.to_device(data, out=NpuTensor(storage, (3, 2), "float32"))
    there: Any = NpuTensor(storage, (2, 3), "float32")
    with pytest.raises(npu_xfer.InvalidTransfer, match="already"):
        xfer.to_device_many({"w": there})
    on_cuda = Tensor(data, device=(2, 0))
    with pytest.raises(npu_xfer.InvalidTransfer, match=r"foreign_objects\.Tensor was given, a device"):
        xfer.to_host(on_cuda)
    assert xfer.stats().h2d.copies == 0


@pytest.mark.anyio
async def test_order_and_life_under_way() -> None:
    """Transfers through different tensors of one storage keep their order; it lives until they are over."""
    async with npu_xfer.Scheduler() as xfer:
        assert acl.rt.set_device(0) == 0
        storage = Storage(100_000)
        gone = weakref.ref(storage)
        seen: dict[int, Any] = {}

        async def write(seed: int, low: int, high: int) -> None:
            tensor = NpuTensor(storage_of(), (high - low,), "uint8", low)
            await xfer.to_device(pattern(high - low, seed), out=tensor)

        async def fetch(key: int, low: int, high: int) -> None:
            seen[key] = await xfer.to_host(NpuTensor(storage_of(), (high - low,), "uint8", low))

        def storage_of() -> Storage:
            found = gone()
            assert found is not None
            return found

        async with anyio.create_task_group() as group:
            with held("h2d", "d2h"):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as doomed:
                        doomed.start_soon(write, 0, 0, 100_000)
                        await until(lambda: sim.pending_tasks(0) == 1)  # issued: nothing withdraws it
                        for n, (act, low, high) in enumerate(
                            [(fetch, 0, 60_000), (write, 30_000, 90_000), (fetch, 1, 100_000)]
                        ):
                            group.start_soon(act, n, low, high)
                            await until(lambda n=n: xfer.stats().pending == n + 2)  # type: ignore[misc]  # bound now
                        scope.cancel()  # its copy goes on, and its tensor has gone
                del storage
                gc.collect()
                assert gone() is not None
        expected = pattern(100_000)
        assert np.array_equal(seen[0], expected[:60_000])
        expected[30_000:90_000] = pattern(60_000, 1)
        assert np.array_equal(seen[2], expected[1:100_000])
        gc.collect()
        assert gone() is None
        assert acl.rt.reset_device(0) == 0


def test_descriptions_that_overlap_in_part(xfer: BlockingScheduler) -> None:
    storage = Storage(4096)
    low = xfer.device_array_at(storage.address, 100, "u1")
    for start, n in [(50, 100), (99, 1000)]:
        with pytest.raises(npu_xfer.InvalidTransfer, match="the order of the two is not known"):
            xfer.device_array_at(storage.address + start, n, "u1")
    inside = xfer.device_array_at(storage.address + 10, 90, "u1")
    behind = xfer.device_array_at(storage.address + 100, 50, "u1")
    with pytest.raises(npu_xfer.InvalidTransfer, match="overlaps"):
        xfer.device_array_at(storage.address, 4096, "u1")
    del low
    with pytest.raises(npu_xfer.InvalidTransfer, match="overlaps"):  # it is still in use, by the one inside
        xfer.device_array_at(storage.address, 4096, "u1")
    del inside, behind
    gc.collect()
    whole = xfer.device_array_at(storage.address, 4096, "u1")
    xfer.to_device(pattern(4096), out=whole)
    assert np.array_equal(xfer.to_host(whole), pattern(4096))


def test_many_lent_regions_leave_nothing(xfer: BlockingScheduler) -> None:
    storage = Storage(1 << 20)
    for n in range(1000):
        xfer.to_device(pattern(64, n), out=xfer.device_array_at(storage.address + 64 * n, 64, "u1"))
    assert len(xfer._lent._starts) < 130
    whole = xfer.to_host(xfer.device_array_at(storage.address, 64_000, "u1"))
    assert np.array_equal(whole.reshape(1000, 64)[777], pattern(64, 777))


def test_after_close() -> None:
    with npu_xfer.BlockingScheduler() as xfer:
        array = xfer.device_array_at(4096, 4, "u1")
    with pytest.raises(npu_xfer.ClosedError):
        array.address  # noqa: B018  # a property
    with pytest.raises(npu_xfer.ClosedError):
        xfer.device_array_at(4096, 4, "u1")
