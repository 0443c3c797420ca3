"""`npu-xfer load`: every kind of file there and back, and every way in which one can be wrong."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from npu_xfer import Scheduler, sim
from npu_xfer.cli._app import app
from npu_xfer.cli._load import _pieces
from npu_xfer.cli._sources import UnreadableError, demo_entries, open_entries

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = CliRunner()


def _load(tmp_path: Path, *args: object) -> tuple[Any, Any]:
    target = tmp_path / "report.json"
    ran = RUNNER.invoke(app, ["load", *map(str, args), "--json", str(target)], env={"COLUMNS": "80"})
    return ran, json.loads(target.read_text()) if target.exists() else None


def _safetensors(path: Path, *rows: tuple[str, str, list[int], bytes]) -> Path:
    """A file written by hand, so that types which numpy lacks can be in it."""
    header: dict[str, Any] = {"__metadata__": {"made": "by hand"}}
    data = b""
    for name, dtype, shape, raw in rows:
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def _noise(nbytes: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).bytes(nbytes)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_the_demonstration_is_verified_whole(tmp_path: Path, loop: str) -> None:
    pytest.importorskip(loop)
    ran, data = _load(tmp_path, "--demo", "--loop", loop)
    assert ran.exit_code == 0, ran.output
    (file,) = data["files"]
    assert data["verified"] is file["verified"] is True
    assert data["simulated"] is sim.is_active()
    expected = {
        entry.name: hashlib.sha256(np.ascontiguousarray(entry.open()).tobytes()).hexdigest()
        for entry in demo_entries()
    }
    assert {tensor["name"]: tensor["sha256"] for tensor in file["tensors"]} == expected
    assert file["nbytes"] == sum(entry.nbytes for entry in demo_entries())
    assert file["h2d_gb_per_s"] > 0
    assert file["d2h_gb_per_s"] > 0
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in ran.output
    assert lines[0].startswith("SIMULATOR:") is sim.is_active()


def test_the_demonstration_has_every_kind_of_array() -> None:
    arrays = [entry.open() for entry in demo_entries()]
    assert any(array.ndim == 0 for array in arrays)
    assert any(array.nbytes == 0 for array in arrays)
    assert any(not array.flags.c_contiguous for array in arrays)
    assert any(stride < 0 for array in arrays for stride in array.strides)
    assert any(0 in array.strides and array.size > 1 for array in arrays)
    assert len({array.dtype for array in arrays}) > 8
    for first, again in zip(arrays, (entry.open() for entry in demo_entries()), strict=True):
        assert first.tobytes() == again.tobytes()


def test_npy_npz_and_safetensors_in_one_run(tmp_path: Path) -> None:
    fortran = np.asfortranarray(np.arange(35, dtype=np.float32).reshape(5, 7))
    np.save(tmp_path / "fortran.npy", fortran)
    np.save(tmp_path / "zero.npy", np.empty((0, 4)))
    np.save(tmp_path / "scalar.npy", np.float64(-2.5))
    big_endian = np.arange(11, dtype=">i4")
    np.save(tmp_path / "big.npy", big_endian)
    np.savez(tmp_path / "two.npz", a=np.arange(1001, dtype=np.int16), b=np.bool_([1, 0, 1]))
    np.savez_compressed(tmp_path / "packed.npz", c=np.arange(4099, dtype=np.int64)[::-1])
    brain = _noise(2 * 3 * 5)
    tiny = _noise(7, 2)
    mixed = _safetensors(
        tmp_path / "mixed.safetensors",
        ("odd", "U8", [3], b"abc"),
        ("brain", "BF16", [3, 5], brain),  # starts at an odd byte
        ("tiny", "F8_E4M3", [7], tiny),
        ("none", "F32", [0, 2], b""),
        ("alone", "I64", [], struct.pack("<q", -3)),
    )
    names = ["fortran.npy", "zero.npy", "scalar.npy", "big.npy", "two.npz", "packed.npz"]
    ran, data = _load(tmp_path, *(tmp_path / name for name in names), mixed)
    assert ran.exit_code == 0, ran.output
    found = {tensor["name"]: tensor for file in data["files"] for tensor in file["tensors"]}
    assert len(data["files"]) == 7
    assert all(tensor["verified"] for tensor in found.values())
    expected = {
        "fortran": np.ascontiguousarray(fortran).tobytes(),
        "zero": b"",
        "scalar": np.float64(-2.5).tobytes(),
        "big": big_endian.tobytes(),
        "a": np.arange(1001, dtype=np.int16).tobytes(),
        "b": b"\x01\x00\x01",
        "c": np.arange(4099, dtype=np.int64)[::-1].tobytes(),
        "odd": b"abc",
        "brain": brain,
        "tiny": tiny,
        "none": b"",
        "alone": struct.pack("<q", -3),
    }
    assert {name: found[name]["sha256"] for name in found} == {
        name: hashlib.sha256(raw).hexdigest() for name, raw in expected.items()
    }
    assert (found["brain"]["dtype"], found["brain"]["shape"]) == ("BF16", [3, 5])
    assert found["tiny"]["dtype"] == "F8_E4M3"
    assert found["big"]["dtype"] == ">i4"
    assert "total" in ran.stdout


def test_a_tensor_larger_than_the_window_goes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    to_device = Scheduler.to_device

    async def watch(self: Scheduler, array: Any, **kwargs: Any) -> Any:
        moved.append(array.nbytes)
        return await to_device(self, array, **kwargs)

    monkeypatch.setattr(Scheduler, "to_device", watch)
    raw = _noise((5 << 20) + 16)
    np.save(tmp_path / "c.npy", np.frombuffer(raw, np.float32))
    np.save(tmp_path / "f.npy", np.frombuffer(raw, np.float32).reshape(2, -1, order="F"))
    ran, data = _load(tmp_path, tmp_path / "c.npy", tmp_path / "f.npy", "--window", "1MiB")
    assert ran.exit_code == 0, ran.output
    assert max(moved) <= 1 << 20
    assert len(moved) == 12
    # A Fortran array goes in the order that the file has.
    assert [file["tensors"][0]["sha256"] for file in data["files"]] == [hashlib.sha256(raw).hexdigest()] * 2


def test_pieces_hold_every_element_once() -> None:
    array = np.arange(1000, dtype=np.int64).reshape(10, 100)
    parts = list(_pieces(array, 1000))
    assert max(part.nbytes for part in parts) <= 1000
    assert np.array_equal(np.concatenate(parts), array.reshape(-1))
    strided = array[:, ::2]
    (whole,) = _pieces(strided, 1000)
    assert whole is strided


@pytest.mark.sim_control
def test_a_byte_changed_on_the_device_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator's device memory can be written from outside")
    to_host = Scheduler.to_host

    async def poke_first(self: Scheduler, array: Any, **kwargs: Any) -> Any:
        if array.nbytes == 777:
            place = array.address + 776
            sim.poke(place, bytes([sim.peek(place, 1)[0] ^ 1]))
        return await to_host(self, array, **kwargs)

    monkeypatch.setattr(Scheduler, "to_host", poke_first)
    np.savez(tmp_path / "x.npz", good=np.arange(778, dtype=np.uint8), bad=np.arange(777) % 3 == 0)
    ran, data = _load(tmp_path, tmp_path / "x.npz")
    assert ran.exit_code == 1
    assert data["verified"] is False
    verdicts = {tensor["name"]: tensor["verified"] for tensor in data["files"][0]["tensors"]}
    assert verdicts == {"good": True, "bad": False}
    assert f"{tmp_path / 'x.npz'}: tensor 'bad': the bytes differ" in ran.stderr
    assert "'good'" not in ran.stderr
    assert "1 of 2" in ran.stdout


@pytest.mark.sim_control
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_a_failed_copy_names_its_tensor(tmp_path: Path, direction: Any) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator fails on request")
    np.save(tmp_path / "lone.npy", np.arange(100_000))
    np.save(tmp_path / "next.npy", np.arange(7))
    sim.fail_copy(507011, direction=direction)
    try:
        ran, data = _load(tmp_path, tmp_path / "lone.npy", tmp_path / "next.npy")
    finally:
        sim.clear_faults()
    assert ran.exit_code == 1
    assert [file["verified"] for file in data["files"]] == [False, True]
    assert "lone.npy: tensor 'lone': " in ran.stderr
    assert "507011" in ran.stderr


def _bad_files(folder: Path) -> dict[str, str]:
    """Name of each file and what must be said about it."""
    good = folder / "good.npz"
    np.savez(good, x=np.arange(1000))
    raw = bytearray(good.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    (folder / "damaged.npz").write_bytes(raw)
    (folder / "short.npz").write_bytes(good.read_bytes()[:-30])
    with zipfile.ZipFile(folder / "objects.npz", "w") as archive:
        np.save(folder / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
        archive.write(folder / "objects.npy", "thing.npy")
    (folder / "text.npy").write_text("no array")
    np.save(folder / "whole.npy", np.arange(1000))
    (folder / "cut.npy").write_bytes((folder / "whole.npy").read_bytes()[:-1])
    (folder / "text.safetensors").write_text("no tensors at all")
    whole = _safetensors(folder / "whole.safetensors", ("x", "F32", [4], _noise(16)))
    (folder / "cut.safetensors").write_bytes(whole.read_bytes()[:-1])
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "model.bin").write_bytes(b"\0" * 8)
    (folder / "folder.npy").mkdir()
    return {
        "damaged.npz": "tensor 'x': ",
        "short.npz": "not an .npz archive",
        "objects.npz": "tensor 'thing': its type is object, ",
        "objects.npy": "its type is object, which holds Python objects, and these have no bytes to move; ",
        "text.npy": "magic bytes",
        "cut.npy": "",
        "text.safetensors": "",
        "cut.safetensors": "",
        "empty.safetensors": "",
        "model.bin": "accepted: .npy, .npz, .safetensors",
        "folder.npy": "this is a folder without a .npy, .npz or .safetensors file; name a file",
        "gone.npy": "No such file",
    }


def test_every_unreadable_file_is_named_and_the_rest_is_moved(tmp_path: Path) -> None:
    bad = _bad_files(tmp_path)
    ran, data = _load(tmp_path, *(tmp_path / name for name in bad), tmp_path / "whole.npy")
    assert ran.exit_code == 1, ran.output
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    for file, (name, said) in zip(data["files"], bad.items(), strict=False):
        assert file["verified"] is False, name
        assert f"npu-xfer: {tmp_path / name}: {said}" in ran.stderr or said in ran.stderr, name
        assert f"npu-xfer: {tmp_path / name}: " in ran.stderr, name
    assert data["files"][-1]["verified"] is True
    assert len(ran.stderr.splitlines()) == len(bad)


def test_a_folder_is_named_and_so_is_a_file_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "b.npy", np.arange(3))
    np.save(tmp_path / "a.npy", np.arange(3))
    monkeypatch.chdir(tmp_path)
    ran, data = _load(tmp_path, ".")
    assert ran.exit_code == 1
    assert data["files"][0]["file"] == "."
    assert "npu-xfer: .: this is a folder; name the files in it, such as a.npy" in ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines() if "NOT READ" in line] == ["."]


@pytest.mark.sim_control
def test_alike_failures_are_told_once(tmp_path: Path) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator fails on request")
    arrays: dict[str, Any] = {f"t{n}": np.arange(1000 + n) for n in range(6)}
    np.savez(tmp_path / "x.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
        archive.write(tmp_path / "objects.npy", "object.npy")
    for nth in range(1, 5):
        sim.fail_copy(507011, direction="h2d", nth=nth)
    sim.fail_copy(507012, direction="h2d", nth=5)
    try:
        ran, data = _load(tmp_path, tmp_path / "x.npz", "--in-flight", "1")
    finally:
        sim.clear_faults()
    assert ran.exit_code == 1
    failures = [tensor["failure"] for tensor in data["files"][0]["tensors"]]
    assert sum("507011" in (text or "") for text in failures) == 4
    said = [line for line in ran.stderr.splitlines() if "x.npz: " in line]
    assert len(said) == 4, said
    assert sum("507011" in line for line in said) == 1
    assert sum("507012" in line for line in said) == 1
    assert sum("'object'" in line for line in said) == 1
    assert sum("x.npz: and 3 more tensors failed in the same way; --json" in line for line in said) == 1


def test_a_file_that_cannot_be_opened_keeps_its_cause(tmp_path: Path) -> None:
    with (
        pytest.raises(UnreadableError, match="No such file") as caught,
        open_entries(tmp_path / "gone.safetensors"),
    ):
        pass
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_without_a_file_it_is_a_wrong_command_line() -> None:
    ran = RUNNER.invoke(app, ["load"])
    assert ran.exit_code == 2
    assert "--demo" in ran.stderr


def test_a_window_too_small_is_refused() -> None:
    ran = RUNNER.invoke(app, ["load", "--demo", "--window", "4KiB"])
    assert ran.exit_code == 2
    assert "1 MiB" in ran.stderr
