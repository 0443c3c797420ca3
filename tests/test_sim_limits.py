"""npu_xfer.sim given what does not fit: nothing is cut to fit, and nothing else happens instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npu_xfer import acl, sim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.sim_control


@pytest.mark.parametrize(
    "call",
    [
        lambda: sim.hold_engine(1 << 32, "h2d"),  # would be device 0
        lambda: sim.pending_tasks(1 << 32),
        lambda: sim.pending_tasks(64),
        lambda: sim.set_link(sim.Link(), device=1 << 32),
        lambda: sim.fail_copy(507001, device=1 << 32),
        lambda: sim.hold_stream(0),
        lambda: sim.set_mode("threads", seed=1 << 64),
        lambda: sim.set_mode("threads", seed=-1),
        lambda: sim.peek(64, -1),
        lambda: sim.set_profile("a2\0x"),
        lambda: sim.call_count("aclInit\0x"),
        lambda: sim.fail_call("aclInit\0x", 1),
        lambda: sim.findings("leak\0"),
        lambda: sim.add_fault("copy\0 garbage"),
        lambda: sim.add_fault(sim.Fault(action="call", name="aclInit code=5")),
        lambda: sim.write_report("report\0.json"),
    ],
)
def test_values_that_would_be_taken_for_others(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"device|stream|seed|nbytes|NUL|blank"):
        call()
    assert sim.clear_faults() == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: sim.fail_copy((1 << 32) + 507001),
        lambda: sim.fail_call("aclInit", 1, nth=(1 << 64) + 1),
        lambda: sim.call_count("aclInit", -1),
        lambda: sim.hold_stream(1 << 64),
    ],
)
def test_numbers_are_not_cut_to_fit(call: Callable[[], Any]) -> None:
    with pytest.raises(OverflowError, match="is not from"):
        call()
    assert sim.clear_faults() == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: sim.hold_stream(None),  # type: ignore[arg-type]  # that is the test
        lambda: sim.set_mode("threads", seed=None),  # type: ignore[arg-type]  # the same
        lambda: sim.set_profile(5),  # type: ignore[arg-type]  # the same
        lambda: sim.poke(64, 64),  # type: ignore[arg-type]  # of an int, bytes() would make 64 zeros
        lambda: sim.poke(64, "abc"),  # type: ignore[arg-type]  # the same
    ],
)
def test_other_types_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_any_truth_switches_guards(block: int) -> None:
    """A 2 would be refused by the library, and nobody would know."""
    sim.set_guards(2)  # type: ignore[arg-type]  # that is the test
    try:
        stream, pinned = acl.rt.create_stream()[0], acl.rt.malloc_host(64)[0]
        with sim.hold_stream(stream):
            assert acl.rt.memcpy_async(block, 64, pinned, 64, 1, stream) == 0
            assert acl.rt.free_host(pinned) == 0
        acl.rt.synchronize_stream(stream)
        assert [found.kind for found in sim.findings()] == ["freed"]
        acl.rt.destroy_stream(stream)
    finally:
        sim.set_guards(None)
        sim.clear_findings()


def test_poke_takes_the_bytes_of_any_buffer(block: int) -> None:
    numbers = np.arange(8, dtype="<u4")
    sim.poke(block, numbers.data)
    assert sim.peek(block, 32) == numbers.tobytes()


def test_a_report_path_with_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "r\udce9port.json"
    sim.write_report(path)
    assert path.read_text().startswith("{")


@pytest.fixture
def block() -> Iterator[int]:
    acl.init()
    assert acl.rt.set_device(0) == 0
    address, code = acl.rt.malloc(64, 0)
    assert code == 0
    yield address
    acl.rt.free(address)
    acl.rt.reset_device(0)
