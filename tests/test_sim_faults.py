"""Faults of the simulator from Python: rules as objects and as text, and what each makes of real calls."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import until_blocking

from npu_xfer import _library, sim
from npu_xfer._cann.abi import MemcpyKind
from npu_xfer._types import Direction
from npu_xfer.errors import AclError, LibraryError, ResourceError
from npu_xfer.sim import _binding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from npu_xfer._cann.runtime import Runtime

pytestmark = pytest.mark.sim_control

NBYTES = 4096


class Bench:
    """One stream, one device block and one page-locked block with content."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.stream = runtime.create_stream()
        self.device = runtime.malloc(NBYTES)
        self.pinned = runtime.malloc_host(NBYTES)
        ctypes.memset(self.pinned, 7, NBYTES)
        sim.poke(self.device, bytes(NBYTES))

    def h2d(self) -> None:
        self.runtime.memcpy_async(
            self.device, NBYTES, self.pinned, NBYTES, MemcpyKind.HOST_TO_DEVICE, self.stream
        )

    def code(self) -> int:
        """Of one copy and its synchronisation."""
        try:
            self.h2d()
            self.runtime.synchronize_stream(self.stream)
        except AclError as error:
            return error.code
        return 0

    def arrived(self) -> bool:
        return sim.peek(self.device, NBYTES) == b"\x07" * NBYTES


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    opened = _library.open_runtime()
    initialised = opened.init()
    opened.set_device(0)
    try:
        yield opened
    finally:
        sim.clear_faults()
        opened.reset_device(0)
        if initialised:
            opened.finalize()


@pytest.fixture
def bench(runtime: Runtime) -> Iterator[Bench]:
    made = Bench(runtime)
    yield made
    sim.clear_faults()
    runtime.destroy_stream(made.stream)
    runtime.free(made.device)
    runtime.free_host(made.pinned)


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        (sim.Fault(action="copy"), "copy"),
        (
            sim.Fault(action="copy", code=507013, direction=Direction.H2D, min_nbytes=1, max_nbytes=9, nth=2),
            "copy code=507013 direction=h2d min_bytes=1 max_bytes=9 nth=2",
        ),
        (sim.Fault(action="alloc", kind="pinned", total_nbytes=64), "alloc kind=pinned total=64"),
        (sim.Fault(action="slow", factor=1.5, delay_us=2), "slow factor=1.5 delay_us=2"),
        (sim.Fault(action="random", rate=0.25, seed=3), "random rate=0.25 seed=3"),
    ],
)
def test_a_fault_is_its_rule(fault: sim.Fault, rule: str) -> None:
    assert fault.rule == rule


@pytest.mark.parametrize(
    "fault",
    [
        sim.Fault(action="call", name="aclrtMalloc", code=207001, device=0, nth=2, every=2, times=0),
        sim.Fault(action="copy", code=1, stream=3, direction="d2h", min_nbytes=1, max_nbytes=2, device=1),
        sim.Fault(action="event", code=507001, device=0, stream=4),
        sim.Fault(action="free", name="aclrtFreeHost"),
        sim.Fault(action="alloc", kind="device", per_call_nbytes=1 << 40, total_nbytes=1 << 41),
        sim.Fault(action="streams", limit=10**6),
        sim.Fault(action="events", limit=10**6),
        sim.Fault(action="register", times=2),
        sim.Fault(action="slow", factor=2, delay_us=0.5, probability=0.5, seed=9),
        sim.Fault(action="stall", nth=10**6),
        sim.Fault(action="lose", nth=10**6),
        sim.Fault(action="sick", code=507057, nth=10**6),
        sim.Fault(action="random", rate=0.001, seed=1, direction="h2d"),
    ],
)
def test_the_simulator_takes_every_field(runtime: Runtime, fault: sim.Fault) -> None:
    with sim.add_fault(fault) as armed:
        assert armed.id > 0
        assert armed.rule == fault.rule
        assert armed.fired == 0
    assert sim.clear_faults() == 0


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("explode", "'explode' is no action"),
        ("copy colour=red", "copy has no key 'colour'"),
        (sim.Fault(action="copy", nth=0), "nth=0"),
        (sim.Fault(action="call", code=1), "call needs name="),
    ],
)
def test_a_bad_rule_says_what_is_wrong(runtime: Runtime, rule: sim.Fault | str, says: str) -> None:
    with pytest.raises(ValueError, match="refused the fault") as caught:
        sim.add_fault(rule)
    assert says in str(caught.value)


def test_a_fault_ends_with_its_block(bench: Bench) -> None:
    with sim.add_fault(sim.Fault(action="copy", code=507013, times=0)) as armed:
        assert bench.code() == 507013
        assert bench.code() == 507013
        assert armed.fired == 2
        assert not bench.arrived()
    assert bench.code() == 0
    assert bench.arrived()
    armed.remove()
    assert armed.fired == 0


def test_the_second_copy_of_one_direction_fails(bench: Bench) -> None:
    sim.add_fault("copy direction=h2d nth=2")
    assert [bench.code() for _ in range(4)] == [0, 507001, 0, 0]


def test_a_probability_repeats_with_its_seed(bench: Bench) -> None:
    def draw(seed: int) -> list[int]:
        with sim.add_fault(sim.Fault(action="copy", probability=0.5, seed=seed)):
            return [bench.code() for _ in range(40)]

    first = draw(5)
    assert {0, 507001} == set(first)
    assert draw(5) == first
    assert draw(6) != first


def test_limits_of_memory_and_streams(runtime: Runtime) -> None:
    with (
        sim.add_fault(sim.Fault(action="alloc", kind="device", per_call_nbytes=1024)),
        pytest.raises(ResourceError, match="ACL_ERROR_RT_MEMORY_ALLOCATION"),
    ):
        runtime.malloc(1025)
    runtime.free(runtime.malloc(1025))
    with (
        sim.add_fault(sim.Fault(action="streams", limit=0)),
        pytest.raises(ResourceError, match="ACL_ERROR_RT_NO_STREAM_RESOURCE"),
    ):
        runtime.create_stream()
    runtime.destroy_stream(runtime.create_stream())


def test_a_stalled_copy_waits_for_its_rule(bench: Bench) -> None:
    with sim.add_fault(sim.Fault(action="stall")) as armed:
        bench.h2d()
        until_blocking(lambda: armed.fired == 1)
        assert not bench.runtime.synchronize_stream(bench.stream, timeout_s=0.02)
        assert not bench.arrived()
    assert bench.runtime.synchronize_stream(bench.stream, timeout_s=30)
    assert bench.arrived()


def test_a_lost_device_fails_until_it_is_well(bench: Bench) -> None:
    with sim.add_fault(sim.Fault(action="lose", device=0)):
        assert bench.code() == 507010
        with pytest.raises(AclError, match="507010"):
            bench.runtime.malloc(64)
    assert bench.code() == 0
    assert bench.arrived()


def test_a_sick_device_stays_sick(bench: Bench) -> None:
    sim.add_fault(sim.Fault(action="sick", code=507055, nth=2))
    assert [bench.code() for _ in range(4)] == [0, 507055, 507055, 507055]
    sim.clear_faults()
    assert bench.code() == 0


PROGRAM = """
import sys
from npu_xfer import _library
from npu_xfer.errors import AclError
runtime = _library.open_runtime()
try:
    runtime.init()
    runtime.set_device(0)
    runtime.malloc(64)
except AclError as error:
    print(error)
"""


def run(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NPU_XFER_LIBRARY": "sim", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


def test_rules_from_the_environment(tmp_path: Path) -> None:
    rule = "call name=aclrtMalloc code=207001"
    assert "ACL_ERROR_RT_MEMORY_ALLOCATION" in run(ACLSIM_FAULTS=rule)
    file = tmp_path / "faults.txt"
    file.write_text(f"# two rules; the second one matters\ncopy nth=5\n{rule}  # here\n")
    assert "ACL_ERROR_RT_MEMORY_ALLOCATION" in run(ACLSIM_FAULTS=f"@{file}")
    assert run(ACLSIM_FAULTS="") == ""


def test_bad_rules_in_the_environment_are_refused(tmp_path: Path) -> None:
    text = run(ACLSIM_FAULTS="copy; explode")
    assert "aclsim: ACLSIM_FAULTS=copy; explode is not valid" in text
    assert "'explode' is no action" in text
    assert "cannot read the file" in run(ACLSIM_FAULTS=f"@{tmp_path / 'none'}")


def test_a_simulator_of_another_build_is_refused() -> None:
    if not sim.is_active():
        pytest.skip("the chosen ACL library is not the simulator")
    library = _library.located_library().library
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(_binding._FUNCTIONS, "aclsim_not_in_any_build", (ctypes.c_int, ()))
        with pytest.raises(LibraryError, match=r"lacks a control function.*aclsim_not_in_any_build"):
            _binding._bind.__wrapped__(library)
