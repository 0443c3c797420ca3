"""Whatever holds host memory can be a source, and comes back with the bytes and the type that it had."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import weakref
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from foreign_objects import Interface, Tensor, TorchTensor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import EXAMPLES, held, pattern

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from npu_xfer import BlockingScheduler


@pytest.fixture
def xfer() -> Iterator[BlockingScheduler]:
    """Small chunks, so that most arrays cross several."""
    with npu_xfer.BlockingScheduler(staging_bytes=1 << 20, chunk_bytes=4096, inline_bytes=512) as scheduler:
        yield scheduler


ML_DTYPES = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "int4",
    "uint4",
]
DTYPES = [
    np.dtype("M8[ns]"),
    np.dtype("m8[s]"),
    np.dtype("S5"),
    np.dtype("U3"),
    np.dtype("?"),
    np.dtype("e"),
    np.dtype("G"),
    np.dtype([("a", "u1"), ("b", "f8"), ("c", "i2", (3, 2))]),
    np.dtype([("a", "u1"), ("b", "f8")], align=True),
    np.dtype([("when", "M8[s]"), ("what", ml_dtypes.bfloat16)]),
    *(np.dtype(getattr(ml_dtypes, name)) for name in ML_DTYPES),
]


@st.composite
def typed_arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """A view of any layout over bytes that are all different, of a type that not every buffer can name."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 6), max_size=3))
    steps = [draw(st.sampled_from([-2, -1, 1, 2])) for _ in shape]
    base_shape = [extent * abs(step) for extent, step in zip(shape, steps, strict=True)]
    n = int(np.prod(base_shape, dtype=int))
    raw = pattern(max(n * dtype.itemsize, 1))[: n * dtype.itemsize]
    if dtype.kind == "U":
        raw = (raw.view("u4") % 0xD000).view("u1")  # code points
    if dtype.kind == "b":
        raw = raw % 2
    base = np.ndarray(base_shape, dtype, buffer=raw.tobytes()) if n else np.empty(base_shape, dtype)
    index: tuple[Any, ...] = (..., *(slice(None, None, step) for step in steps))
    view: np.ndarray[Any, Any] = base[index].transpose(draw(st.permutations(range(len(shape)))))
    return view


def raw(source: np.ndarray[Any, Any]) -> bytes:
    """Its bytes in C order, padding too: of strided records, numpy's tobytes copies the fields only."""
    return source.view(np.dtype((np.void, source.itemsize))).tobytes() if source.size else b""


@given(source=typed_arrays())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_types_that_no_buffer_can_name(xfer: BlockingScheduler, source: np.ndarray[Any, Any]) -> None:
    device = xfer.to_device(source)
    assert (device.shape, device.dtype, device.nbytes) == (source.shape, source.dtype, source.nbytes)
    back = xfer.to_host(device)
    assert back.dtype == source.dtype
    assert raw(back) == raw(source)
    every_other: tuple[Any, ...] = (..., *(slice(None, None, 2) for _ in source.shape))
    target = np.zeros([2 * extent for extent in source.shape], source.dtype)[every_other]
    assert xfer.to_host(device, out=target) is target
    assert raw(target) == raw(source)


def test_records_keep_their_names_and_their_padding_is_their_own(xfer: BlockingScheduler) -> None:
    records = np.zeros(50, np.dtype([("a", "u1"), ("b", "f8"), ("c", "i2", (3,))], align=True))
    records["a"], records["b"], records["c"] = 7, np.arange(50), pattern(300).view("i2").reshape(50, 3)
    back = xfer.to_host(xfer.to_device(records))
    assert back.dtype.names == ("a", "b", "c")
    assert np.array_equal(back, records)
    assert back.tobytes() == records.tobytes()  # not the poison of device memory
    some = records[["a", "c"]]  # the field between stays where it is
    assert np.array_equal(xfer.to_host(xfer.to_device(some)), some)


def test_ways_of_nothing(xfer: BlockingScheduler) -> None:
    before = sim.call_count("aclrtMemcpyAsync") + sim.call_count("aclrtMemcpy")
    for source in [
        np.empty((0,), np.float32),
        np.empty((3, 0, 2)),
        np.empty((3, 0, 2)).T[:, :, ::-1],
        np.empty(0, ml_dtypes.bfloat16),
        np.zeros((2, 3), np.dtype([])),
        np.zeros(4, "V0"),
        b"",
        Tensor(np.empty((4, 0), np.float32), address=0),
    ]:
        device = xfer.to_device(source)
        assert device.nbytes == 0
        assert xfer.to_host(device).shape == device.shape
    assert sim.call_count("aclrtMemcpyAsync") + sim.call_count("aclrtMemcpy") == before


def buffers() -> list[tuple[str, Any, Any]]:
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_uint8), ("b", ctypes.c_double))

    mapped = mmap.mmap(-1, 10_000)
    mapped[:] = pattern(10_000).tobytes()
    text = pattern(100_001).tobytes()
    row: Any = ctypes.c_short * 3
    return [
        ("bytes", text, np.frombuffer(text, "u1")),
        ("bytearray", bytearray(text), np.frombuffer(text, "u1")),
        ("memoryview", memoryview(text)[5:77], np.frombuffer(text, "u1")[5:77]),
        ("memoryview with steps", memoryview(text)[::3], np.frombuffer(text, "u1")[::3]),
        ("memoryview backwards", memoryview(text)[::-2], np.frombuffer(text, "u1")[::-2]),
        (
            "memoryview in 2-d",
            memoryview(text[:600]).cast("f", [10, 15]),
            np.frombuffer(text[:600], "f4").reshape(10, 15),
        ),
        ("array.array", array.array("h", range(-3, 3)), np.arange(-3, 3, dtype="i2")),
        ("ctypes array", (ctypes.c_float * 4)(1, 2, 3, 4), np.array([1, 2, 3, 4], "f4")),
        (
            "ctypes 2-d",
            (row * 2)((1, 2, 3), (4, 5, 6)),
            np.array([[1, 2, 3], [4, 5, 6]], "i2"),
        ),
        (
            "ctypes structures",
            (Pair * 2)(Pair(1, 2.0), Pair(3, 4.0)),
            np.array([(1, 2.0), (3, 4.0)], np.dtype([("a", "u1"), ("b", "f8")], align=True)),
        ),
        ("mmap", mapped, pattern(10_000)),
        ("numpy scalar", np.float16(2.5), np.array(2.5, "f2")),
        ("0-d", np.array(7, "i8"), np.array(7, "i8")),
    ]


@pytest.mark.parametrize("name", [name for name, *_ in buffers()])
def test_buffers(xfer: BlockingScheduler, name: str) -> None:
    source, expected = next((source, expected) for key, source, expected in buffers() if key == name)
    device = xfer.to_device(source)
    assert (device.shape, device.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(xfer.to_host(device), expected)
    if isinstance(source, mmap.mmap):
        source.close()  # nothing holds it any more


@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_memory_maps(xfer: BlockingScheduler, tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(pattern(20_000).tobytes())
    mapped = np.memmap(path, np.uint8, mode, offset=17)
    assert np.array_equal(xfer.to_host(xfer.to_device(mapped)), pattern(20_000)[17:])


def test_a_bytearray_is_free_when_it_is_captured(xfer: BlockingScheduler) -> None:
    source = bytearray(pattern(100_000).tobytes())
    with held("h2d"):
        transfer = xfer.submit_to_device(source)
        assert not transfer.done
        source[:] = bytes(100_000)
        source.clear()  # raises BufferError while an export exists
    assert np.array_equal(xfer.to_host(transfer.result()), pattern(100_000))


def test_array_interfaces(xfer: BlockingScheduler) -> None:
    base = pattern(96).view("f4").reshape(4, 6)
    kept = base.copy()
    there = (base.ctypes.data, False)
    cases: list[tuple[Any, Any]] = [
        (Interface(base, shape=(4, 6), typestr="<f4", data=there), kept),
        (Interface(base, shape=(4, 6), typestr="<f4", data=there, strides=None, version=2), kept),
        (
            Interface(base, shape=(6, 4), typestr="<f4", data=(base.ctypes.data, True), strides=(4, 24)),
            kept.T,
        ),
        (Interface(shape=(5,), typestr="<f4", data=bytearray(kept.tobytes()), offset=8), kept.ravel()[2:7]),
        (
            Interface(shape=(5,), typestr="<f4", data=kept.tobytes(), offset=16, strides=(-4,)),
            kept.ravel()[4::-1],
        ),
        (
            Interface(shape=(3,), typestr="|V8", descr=[("a", "<i4"), ("", "|V4")], data=kept.tobytes()),
            None,
        ),
    ]
    for source, expected in cases:
        back = xfer.to_host(xfer.to_device(source))
        if expected is None:
            assert np.array_equal(back["a"], kept.ravel().view("i4")[:6:2])
        else:
            np.testing.assert_array_equal(back.view("u1"), np.ascontiguousarray(expected).view("u1"))


def test_an_interface_that_lies_is_refused(xfer: BlockingScheduler) -> None:
    copies = sim.call_count("aclrtMemcpyAsync")
    room = bytearray(16)
    lies: list[tuple[dict[str, Any], str]] = [
        ({"shape": (5,), "typestr": "<f4", "data": room}, "bytes 0 to 20 of memory that has 16"),
        ({"shape": (2,), "typestr": "<f4", "data": room, "strides": (16,)}, "bytes 0 to 20"),
        ({"shape": (2,), "typestr": "<f4", "data": room, "strides": (-4,)}, "bytes -4 to 4"),
        ({"shape": (4,), "typestr": "<f4", "data": room, "offset": 4}, "bytes 4 to 20"),
        ({"shape": (-1,), "typestr": "<f4", "data": room}, "extent of -1"),
        ({"shape": (2, 2), "typestr": "<f4", "data": room, "strides": (4,)}, "2 extents and 1 strides"),
        ({"shape": (2,), "data": room}, "typestr"),
        ({"shape": (2,), "typestr": "<f4", "data": (0, False)}, "address 0"),
        ({"shape": (2,), "typestr": "<f4", "data": None}, "gives no memory"),
        ({"shape": (2,), "typestr": "<f4", "data": room, "mask": room}, "mask"),
        ({"shape": (1,), "typestr": "|V8", "descr": [("a", "<i4")], "data": room}, "8 bytes, descr 4"),
    ]
    for interface, text in lies:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_device(Interface(**interface))
    with pytest.raises(npu_xfer.UnsupportedDType, match="byte order"):
        xfer.to_device(Interface(shape=(2,), typestr=">f4", data=room))
    assert sim.call_count("aclrtMemcpyAsync") == copies


def test_the_exporter_lives_as_long_as_its_bytes_are_needed(xfer: BlockingScheduler) -> None:
    source = pattern(200_000)
    exporter = Interface(source.copy(), shape=(200_000,), typestr="|u1")
    exporter.__array_interface__["data"] = (exporter.owner.ctypes.data, False)  # type: ignore[attr-defined]  # an array
    tensor = Tensor(source)
    gone = weakref.ref(exporter)
    with held("h2d"):
        plug = xfer.submit_to_device(pattern(1000))
        transfers = [xfer.submit_to_device(exporter), xfer.submit_to_device(tensor)]
        del exporter
    plug.result()
    assert all(np.array_equal(xfer.to_host(transfer.result()), source) for transfer in transfers)
    gc.collect()
    assert gone() is None
    assert tensor.n_out == 0


@pytest.mark.parametrize("versioned", [True, False])
def test_tensors(xfer: BlockingScheduler, versioned: bool) -> None:
    bits = pattern(9600).view("u2").reshape(60, 80)
    sources: list[tuple[Tensor, Any]] = [
        (Tensor(bits, versioned=versioned), bits),
        (Tensor(bits.T[::2, ::-1], versioned=versioned), bits.T[::2, ::-1]),
        (Tensor(bits, c_order=True, versioned=versioned), bits),
        (Tensor(np.array(3.5), versioned=versioned), np.array(3.5)),
        (Tensor(bits[::3], (4, 16), versioned=versioned), bits[::3].view(ml_dtypes.bfloat16)),
        (
            Tensor(bits.view("u1"), (10, 8), versioned=versioned),
            bits.view("u1").view(ml_dtypes.float8_e4m3fn),
        ),
        (Tensor(bits.view("u1"), (12, 8), versioned=versioned), bits.view("u1").view(ml_dtypes.float8_e5m2)),
        (Tensor(bits.view("u1") % 2, (6, 8), versioned=versioned), (bits.view("u1") % 2).view(bool)),
        (Tensor(pattern(160).view("c8"), versioned=versioned), pattern(160).view("c8")),
    ]
    for tensor, expected in sources:
        device = xfer.to_device(tensor)
        assert (device.shape, device.dtype) == (expected.shape, expected.dtype)
        assert xfer.to_host(device).tobytes() == expected.tobytes()
        assert tensor.n_out == 0
        into = Tensor(np.empty_like(tensor.array), tensor.element, versioned=versioned)
        assert xfer.to_host(device, out=into) is into
        assert into.array.tobytes() == tensor.array.tobytes()
        assert into.n_out == 0


def test_tensors_by_the_names_of_torch(xfer: BlockingScheduler) -> None:
    bits = pattern(9600).view("u2").reshape(60, 80)
    for part, name, dtype in [
        (bits.T[::3], "bfloat16", ml_dtypes.bfloat16),
        (bits.view("u1")[::-1], "float8_e5m2", ml_dtypes.float8_e5m2),
        (bits.view("i4")[5:], "int32", np.int32),
    ]:
        tensor = TorchTensor(part, name)
        device = xfer.to_device(tensor)
        assert device.dtype == dtype
        assert xfer.to_host(device).tobytes() == part.tobytes()
        into = TorchTensor(np.zeros_like(part), name)
        xfer.to_host(device, out=into)
        assert np.array_equal(into.array, part)
        assert xfer.to_device_many([tensor])[0].dtype == dtype
    for bad, text in [
        (TorchTensor(bits, "bfloat16", requires_grad=True), r"gradient.*detach\(\)"),
        (TorchTensor(bits.view("c8"), "complex64", conj=True), r"is_conj.*resolve_conj"),
        (TorchTensor(bits, "qint16"), "qint16"),
    ]:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_device(bad)


def test_tensors_that_are_refused(xfer: BlockingScheduler) -> None:
    class Conjugate(Tensor):
        def __dlpack__(self, **kwargs: Any) -> object:
            raise BufferError("conjugate bit")

    numbers = np.arange(4.0)
    for tensor, text in [
        (Tensor(numbers, requires_grad=True), r"requires a gradient.*detach\(\)"),
        (Tensor(numbers, device=(2, 1)), "device 1 of DLPack type 2"),
        (Conjugate(numbers), "conjugate bit"),
        (Tensor(numbers, (2, 64), lanes=2), "2 lanes"),
        (Tensor(numbers, (17, 4)), "4 bits of DLPack type 17"),
        (Tensor(numbers, (3, 64)), "DLPack type 3"),
        (Tensor(numbers, major=2), r"DLPack 2\.1"),
    ]:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_device(tensor)
        with pytest.raises(npu_xfer.InvalidTransfer, match=rf"tree\['w'\].*{text}"):
            xfer.to_device_many({"w": tensor})
    device = xfer.to_device(numbers)
    with pytest.raises(npu_xfer.InvalidTransfer, match="read-only"):
        xfer.to_host(device, out=Tensor(np.empty(4), read_only=True))


def test_without_ml_dtypes(xfer: BlockingScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    tensor = Tensor(pattern(8).view("u2"), (4, 16))
    with pytest.raises(npu_xfer.UnsupportedDType, match=r"bfloat16.*ml_dtypes"):
        xfer.to_device(tensor)
    assert tensor.n_out == 0


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (np.zeros(3, ">M8[s]"), "byte order"),
        (np.zeros(3, [("a", ">i4")]), "byte order"),
        (np.array(["a"], ">U1"), "byte order"),
        ((ctypes.c_float.__ctype_be__ * 3)(), "byte order"),
        (np.zeros(2, [("a", "i4"), ("b", "O")]), "Python objects"),
        ((ctypes.c_void_p * 2)(), "addresses"),
        ((ctypes.POINTER(ctypes.c_int) * 2)(), "addresses"),
        ((ctypes.py_object * 2)(), "Python objects"),
    ],
)
def test_types_that_are_refused(xfer: BlockingScheduler, source: Any, text: str) -> None:
    with pytest.raises(npu_xfer.UnsupportedDType, match=text):
        xfer.to_device(source)


def test_strings_of_any_length_are_refused(xfer: BlockingScheduler) -> None:
    kind = getattr(getattr(np, "dtypes", None), "StringDType", None)
    assert kind is not None or np.lib.NumpyVersion(np.__version__) < "2.0.0"
    if kind is not None:
        with pytest.raises(npu_xfer.UnsupportedDType, match="Python objects"):
            xfer.to_device(np.array(["a", "bc"], kind()))


def test_destinations(xfer: BlockingScheduler) -> None:
    data = pattern(50_000)
    device = xfer.to_device(data)
    for out in (bytearray(50_000), memoryview(bytearray(100_000))[::-2], (ctypes.c_uint8 * 50_000)()):
        assert xfer.to_host(device, out=out) is out
        assert np.array_equal(np.asarray(out), data)
    numbers = array.array("d", bytes(80))
    xfer.to_host(xfer.to_device(np.arange(10.0)), out=numbers)
    assert numbers.tolist() == list(range(10))
    for bad, text in [
        (bytes(50_000), "read-only"),
        (bytearray(49_999), r"bytearray, has shape \(49999,\)"),
        ((ctypes.c_float * 50_000)(), "float32"),
        (device, "out is a BlockingDeviceArray"),
        ([0], "list"),
    ]:
        with pytest.raises(npu_xfer.InvalidTransfer, match=text):
            xfer.to_host(device, out=bad)  # type: ignore[call-overload]  # on purpose
