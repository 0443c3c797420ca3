"""Conformance tests: what ACL's documents and the open runtime do, on whatever library is in use.

    NPU_XFER_LIBRARY=/path/to/libascendcl.so python -m pytest tests/conformance

runs them on a machine with CANN; without it they run on the simulator, in the profile of ACLSIM_PROFILE.
Each test cites where its expectation comes from.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.support.face import Acl, open_acl
from conformance.support.kit import Kit
from conformance.support.profiles import GENERATIONS
from conformance.support.threads import Side
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent


def _uncited(items: list[pytest.Item]) -> list[str]:
    return [
        item.nodeid
        for item in items
        if not any(
            len(mark.args) == 2 and all(isinstance(arg, str) and len(arg) > 5 for arg in mark.args)
            for mark in item.iter_markers("cites")
        )
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    uncited = _uncited([item for item in items if HERE in item.path.parents])
    if uncited:
        raise pytest.UsageError(f"these conformance tests cite nothing: {', '.join(uncited)}")


def _unfit(item: pytest.Item, acl: Acl) -> str | None:
    profile = acl.profile
    order = GENERATIONS.index
    for mark in item.iter_markers():
        if mark.name == "needs_control" and not acl.simulated:
            return "only the simulator can hold engines and make copies fail"
        if mark.name == "since" and order(profile.gen) < order(mark.args[0]):
            return f"holds since {mark.args[0]}, this is {profile.name}"
        if mark.name == "until" and order(profile.gen) > order(mark.args[0]):
            return f"holds until {mark.args[0]}, this is {profile.name}"
        if mark.name == "chips" and profile.chip not in mark.args:
            return f"holds on {', '.join(mark.args)}, this is {profile.name}"
        if mark.name == "forms" and profile.form not in mark.args:
            return f"holds in form {', '.join(mark.args)}, this is {profile.name}"
    return None


@pytest.fixture(autouse=True)
def fits(request: pytest.FixtureRequest) -> None:
    """Skips what the profile in use does not have."""
    reason = _unfit(request.node, open_acl())
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def nothing_left_over() -> Iterator[None]:
    """As for all tests, without the collections that take most of a short test's time: nothing here waits
    for the garbage collector."""
    if not sim.is_active():
        yield
        return
    before = sim.counters()
    yield
    sim.clear_faults()
    after = sim.counters()
    for kind in ("streams", "events", "device_blocks", "pinned_blocks"):
        assert getattr(after, f"live_{kind}") == getattr(before, f"live_{kind}"), f"leaked {kind}"


@pytest.fixture
def acl() -> Acl:
    """The library's functions, with no device set."""
    return open_acl()


@pytest.fixture(scope="module")
def runtime() -> Iterator[Acl]:
    """Device 0 set on the main thread for the tests of one file, and reset after them."""
    library = open_acl()
    assert library.aclInit(None) in (0, 100002)
    assert library.aclrtSetDevice(0) == 0
    yield library
    assert library.aclrtResetDevice(0) == 0
    if library.has("aclFinalizeReference"):
        library.aclFinalizeReference(None)


@pytest.fixture
def kit(runtime: Acl, fits: None) -> Iterator[Kit]:
    """A clean start on device 0, and an end with everything released: the same context as before, no error
    text left, no last error."""
    before = runtime.out(ctypes.c_void_p, "aclrtGetCurrentContext")
    _forget_errors(runtime)
    made = Kit(runtime)
    yield made
    assert runtime.aclrtSetCurrentContext(before) == 0
    made.close()
    _forget_errors(runtime)


def _forget_errors(acl: Acl) -> None:
    acl.message()
    if acl.has("aclrtGetLastError"):
        acl.aclrtGetLastError(0)


@pytest.fixture
def side() -> Iterator[Side]:
    """A second thread, without a device."""
    thread = Side()
    yield thread
    thread.close()
