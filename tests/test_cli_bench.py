"""`npu-xfer bench`: every case measured, the path told, corruption found."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import numpy as np
import pytest
from typer.testing import CliRunner

from npu_xfer import Scheduler, sim
from npu_xfer._library import choose_library
from npu_xfer._types import Direction
from npu_xfer.cli import _app, _bench, _bench_view
from npu_xfer.cli._app import app
from npu_xfer.cli._pattern import fill, first_difference

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = CliRunner()
QUICK = ["--seconds", "0.005", "--samples", "2"]


@pytest.fixture
def corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device arrays of 4099 bytes lose their last byte before they are read back."""
    if not sim.is_active():
        pytest.skip("only the simulator's device memory can be written from outside")
    to_host = Scheduler.to_host

    async def poke_first(self: Scheduler, array: Any, **kwargs: Any) -> Any:
        if array.nbytes == 4099:
            place = array.address + array.nbytes - 1
            sim.poke(place, b"\xee")  # the same again the next time
        return await to_host(self, array, **kwargs)

    monkeypatch.setattr(Scheduler, "to_host", poke_first)


def _bench_json(tmp_path: Path, *args: str) -> tuple[Any, Any]:
    target = tmp_path / "bench.json"
    ran = RUNNER.invoke(app, ["bench", *QUICK, *args, "--json", str(target)], env={"COLUMNS": "80"})
    return ran, json.loads(target.read_text()) if target.exists() else None


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_json_has_every_case_and_where_it_ran(tmp_path: Path, loop: str) -> None:
    pytest.importorskip(loop)
    ran, data = _bench_json(
        tmp_path, "--sizes", "64,4KiB", "--concurrency", "1,3", "--loop", loop, "--verify"
    )
    assert ran.exit_code == 0, ran.output
    assert data["simulated"] is sim.is_active()
    assert (data["notice"] is not None) is sim.is_active()
    assert data["loop"] == loop
    assert data["machine"]["cpus"] >= 1
    assert data["library"]["path"]
    found = {
        (case["direction"], case["memory"], case["nbytes"], case["concurrency"]) for case in data["cases"]
    }
    assert found == {
        (direction, memory, nbytes, concurrency)
        for direction in ("h2d", "d2h")
        for memory in ("pinned", "pageable")
        for nbytes in (64, 4096)
        for concurrency in (1, 3)
    }
    assert len(data["cases"]) == len(found)
    for case in data["cases"]:
        assert case["path"] == {"pinned": "direct", "pageable": "staged"}[case["memory"]]
        assert case["failure"] is None
        assert case["verified_samples"] == len(case["samples_s"]) == 2
        assert case["copies_per_sample"] % case["running"] == 0
        speeds = case["gb_per_s"]
        assert 0 < speeds["min"] <= speeds["median"] <= speeds["max"]
        moved = case["nbytes"] * case["copies_per_sample"]
        assert speeds["max"] == pytest.approx(moved / min(case["samples_s"]) / 1e9)


def test_the_table_fits_and_the_notice_comes_before_it_and_with_it() -> None:
    ran = RUNNER.invoke(
        app, ["bench", *QUICK, "--sizes", "1MiB", "--memory", "2MiB", "--verify"], env={"COLUMNS": "80"}
    )
    assert ran.exit_code == 0, ran.output
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    heading = next(place for place, line in enumerate(lines) if line.startswith("dir "))
    notices = [place for place, line in enumerate(lines) if line.startswith("SIMULATOR:")]
    assert bool(notices) is sim.is_active()
    if notices:
        assert min(notices) < heading < max(notices)
    assert len([line for line in lines if line.startswith(("h2d ", "d2h "))]) == 8
    # 64 arrays of 1 MiB do not fit in 2 MiB, which is said.
    assert len([line for line in lines if "2/64" in line and "equal" in line]) == 4
    # A gap between the four groups of two, and decimal points below each other.
    groups = "\n".join(lines[heading + 1 :]).split("\n\n")[:4]
    assert [len(group.splitlines()) for group in groups] == [2, 2, 2, 2]
    rows = [line for group in groups for line in group.splitlines()]
    ends = {line.rindex(".") for line in rows}
    assert len(ends) == 1
    assert any("--memory" in line for line in lines)
    assert "\x1b" not in ran.output


def test_json_on_standard_output_is_alone_there() -> None:
    ran = RUNNER.invoke(app, ["bench", *QUICK, "--sizes", "512", "--concurrency", "1", "--json", "-"])
    assert ran.exit_code == 0
    assert len(json.loads(ran.stdout)["cases"]) == 4
    assert "us/copy" in ran.stderr


@pytest.mark.sim_control
@pytest.mark.usefixtures("corrupt")
def test_verify_finds_a_planted_byte_and_names_the_case(tmp_path: Path) -> None:
    ran, data = _bench_json(tmp_path, "--sizes", "4098,4099", "--concurrency", "1,2", "--verify")
    assert ran.exit_code == 1
    for case in data["cases"]:
        if case["nbytes"] == 4099:
            assert case["failure"] == "worker 0: the byte at 4098 of 4099 is wrong"
            assert case["verified_samples"] == 0
        else:
            assert case["failure"] is None
            assert case["verified_samples"] == 2
    assert "h2d pinned 4099 B x1: worker 0: the byte at 4098" in ran.stderr
    assert "d2h pageable 4099 B x2: worker 0: the byte at 4098" in ran.stderr
    assert "4098 B" not in ran.stderr
    assert ran.stdout.count("FAILED") == 8


def test_three_digits_in_one_column() -> None:
    texts = [_bench_view._three_digits(value) for value in (0.0494, 0.9996, 5.42, 9.996, 99.96, 20602.0)]
    assert texts == ["0.049", "1.00", "5.42", "10.0", "100", "20602"]
    assert _bench_view._by_point(texts) == ["0.049", "1.00 ", "5.42 ", "10.0  ", "100    ", "20602    "]
    assert _bench_view._by_point(["-", "20602"]) == ["-", "20602"]


def test_a_wide_table_keeps_every_digit() -> None:
    ran = RUNNER.invoke(
        app, ["bench", *QUICK, "--sizes", "1048577", "--concurrency", "1", "--verify"], env={"COLUMNS": "40"}
    )
    assert ran.exit_code == 0, ran.output
    assert len([line for line in ran.stdout.splitlines() if "1048577 B" in line and "equal" in line]) == 4


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
@pytest.mark.parametrize("n_finished", [0, 3])
def test_an_interrupted_run_keeps_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str, n_finished: int
) -> None:
    pytest.importorskip(loop)
    measure = _bench._measure
    n_begun = 0

    async def interrupted(*args: Any) -> None:
        nonlocal n_begun
        n_begun += 1
        if n_begun > n_finished:
            signal.raise_signal(signal.SIGINT)
        await anyio.lowlevel.checkpoint()  # where the interruption arrives
        await measure(*args)

    monkeypatch.setattr(_bench, "_measure", interrupted)
    ran, data = _bench_json(tmp_path, "--sizes", "4KiB", "--concurrency", "1,2", "--loop", loop)
    assert ran.exit_code == 130, ran.output
    assert data["interrupted"] is True
    assert len(data["cases"]) == n_finished
    rows = [line for line in ran.stdout.splitlines() if line.startswith(("h2d ", "d2h "))]
    assert len(rows) == n_finished
    assert f"interrupted: {n_finished} of 8 cases were finished" in ran.stderr
    assert "Traceback" not in ran.output


def test_the_time_of_the_default_run_is_told() -> None:
    shown = RUNNER.invoke(app, ["bench", "--help"], env={"COLUMNS": "80"})
    assert "about half a minute" in " ".join(shown.stdout.split())
    assert _bench_view.banner(_bench.Plan(), as_default=True).startswith(
        "Measuring 40 cases, about half a minute; "
    )
    ran = RUNNER.invoke(app, ["bench", *QUICK, "--sizes", "64", "--concurrency", "1"])
    assert ran.stderr.startswith("Measuring 4 cases; ")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("h2d=25e9,d2h=24e9", {"h2d_bytes_per_s": 25 * 10**9, "d2h_bytes_per_s": 24 * 10**9}),
        ("h2d=25GB, d2h=1.5GB/s", {"h2d_bytes_per_s": 25 * 10**9, "d2h_bytes_per_s": 15 * 10**8}),
        ("latency_us=8,submit_us=1.9", {"latency_ns": 8000, "submit_ns": 1900}),
        ("latency_ns=8000,submit_ns=1900", {"latency_ns": 8000, "submit_ns": 1900}),
        ("h2d=0,d2h=1e6", {"h2d_bytes_per_s": 0, "d2h_bytes_per_s": 10**6}),
    ],
)
def test_a_link_in_every_spelling(text: str, fields: dict[str, int]) -> None:
    assert _app._link_fields(text) == fields


@pytest.mark.usefixtures("corrupt")
@pytest.mark.sim_control
def test_without_verify_nothing_is_called_verified(tmp_path: Path) -> None:
    ran, data = _bench_json(tmp_path, "--sizes", "4099", "--concurrency", "1")
    assert ran.exit_code == 0
    assert {case["verified_samples"] for case in data["cases"]} == {0}
    assert "equal" not in ran.stdout


@pytest.mark.sim_control
@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_a_failed_copy_ends_its_case_only(tmp_path: Path, concurrency: str) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator fails on request")
    sim.fail_copy(507011, direction="d2h", nth=1)
    try:
        ran, data = _bench_json(tmp_path, "--sizes", "4KiB", "--concurrency", concurrency)
    finally:
        sim.clear_faults()
    assert ran.exit_code == 1
    failed = [case for case in data["cases"] if case["failure"]]
    assert [(case["direction"], case["memory"]) for case in failed] == [("d2h", "pinned")]
    assert "507011" in failed[0]["failure"]
    assert len(data["cases"]) == 4


@pytest.mark.sim_control
def test_link_sets_the_simulators_speed_and_restores_it(tmp_path: Path) -> None:
    if not sim.is_active():
        pytest.skip("only the simulator has a link to set")
    before = sim.get_link()
    _, data = _bench_json(
        tmp_path, "--sizes", "64KiB", "--concurrency", "1", "--link", "h2d=1e8,d2h=5e7,latency_ns=1000"
    )
    assert sim.get_link() == before
    assert data["link"] == "h2d=1e8,d2h=5e7,latency_ns=1000"
    for case in data["cases"]:
        most = {"h2d": 0.1, "d2h": 0.05}[case["direction"]]
        assert case["gb_per_s"]["max"] < most * 1.05


def test_link_is_refused_on_a_real_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    real = dataclasses.replace(choose_library(), simulated=False)
    monkeypatch.setattr(_app, "choose_library", lambda: real)
    ran = RUNNER.invoke(app, ["bench", *QUICK, "--sizes", "64", "--link", "h2d=1e9"])
    assert ran.exit_code == 2
    assert "--link" in ran.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--sizes", "4Kx"], "'4Kx' is not a size"),
        (["--sizes", "0"], "0 bytes"),
        (["--sizes", "1GiB"], "limit of 512 MiB"),
        (["--sizes", "1TiB"], "--memory"),
        (["--link", "h2d=25"], "'h2d=25' is 25 bytes per second"),
        (["--link", "d2h=25"], "such as d2h=25e9 or d2h=25GB"),
        (["--link", "h2d=nan"], "'h2d=nan'"),
        (["--link", "h2d=1e99"], "'h2d=1e99'"),
        (["--link", "latency_us=2GB"], "'latency_us=2GB'"),
        (["--link", "latency_us=2,latency_ns=3"], "'latency_ns=3'"),
        (["--concurrency", "1,0"], "'1,0'"),
        (["--concurrency", "many"], "'many'"),
        (["--loop", "curio"], "'curio'"),
        (["--link", "h2d=fast"], "'h2d=fast'"),
        (["--link", "up=1"], "'up=1'"),
        (["--link", "h2d=-1"], "h2d=-1"),
    ],
)
def test_wrong_arguments_end_in_2(args: list[str], said: str) -> None:
    ran = RUNNER.invoke(app, ["bench", *QUICK, *args])
    assert ran.exit_code == 2, ran.output
    assert said in ran.stderr


def test_a_device_that_is_not_there_ends_in_1() -> None:
    ran = RUNNER.invoke(app, ["bench", *QUICK, "--sizes", "64", "--device", "63"])
    assert ran.exit_code == 1
    assert "device 63" in ran.stderr


def test_a_json_file_that_cannot_be_written_ends_in_1(tmp_path: Path) -> None:
    target = tmp_path / "no" / "such" / "folder.json"
    ran = RUNNER.invoke(app, ["bench", *QUICK, "--sizes", "64", "--concurrency", "1", "--json", str(target)])
    assert ran.exit_code == 1
    assert str(target) in ran.stderr
    assert "us/copy" in ran.stdout


def test_the_budget_in_bytes_bounds_the_copies() -> None:
    case = _bench.Case(Direction.H2D, "pinned", 1000, 4, 4)
    plan = _bench.Plan(seconds=1.0, samples=2, bytes_per_case=80_000)
    assert _bench._rounds(plan, case, 1e-6) == 10
    assert _bench._rounds(_bench.Plan(seconds=1.0, samples=2), case, 0.1) == 5
    assert _bench._rounds(plan, case, 100.0) == 1


@pytest.mark.parametrize(
    "nbytes", [1, 7, 8, 9, 4099, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 * (1 << 20) + 5]
)
def test_the_pattern_tells_every_place_and_seed_apart(nbytes: int) -> None:
    array = np.zeros(nbytes, np.uint8)
    fill(array, 5)
    assert first_difference(array, 5) is None
    if nbytes > 7:
        assert first_difference(array, 6) is not None
        assert len(np.unique(array[: nbytes // 8 * 8].view(np.uint64))) == nbytes // 8
    for place in {0, nbytes // 2, nbytes - 1}:
        array[place] ^= 1
        assert first_difference(array, 5) == place
        array[place] ^= 1
