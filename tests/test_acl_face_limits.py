"""npu_xfer.acl given what does not fit, and programs that end badly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_library import FakeLibrary
from support import run_python

import npu_xfer.acl as acl
from npu_xfer._cann.calls import callbacks
from npu_xfer.acl import _call

if TYPE_CHECKING:
    import subprocess

HUGE_FIRST = 0


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    library = FakeLibrary()
    monkeypatch.setattr(_call, "located_library", lambda: SimpleNamespace(library=library))
    return library


# ---- arguments that would be taken for others ----


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("set_device", (1 << 32,)),  # would be device 0
        ("malloc", (1 << 64, HUGE_FIRST)),
        ("malloc", (64, 1 << 40)),
        ("free", ((1 << 64) + 64,)),
        ("synchronize_stream", (1 << 64,)),
        ("process_report", (-(1 << 31) - 1,)),
        ("subscribe_report", (1 << 64, 0)),
    ],
)
def test_a_number_is_not_cut_to_fit(fake: FakeLibrary, call: str, arguments: tuple[int, ...]) -> None:
    with pytest.raises(OverflowError, match=r"does not fit in the (32|64) bits"):
        getattr(acl.rt, call)(*arguments)
    assert fake.called == []


def test_numbers_that_fit_with_or_without_a_sign_are_passed_on(fake: FakeLibrary) -> None:
    for timeout, bits in ((-1, -1), (0xFFFFFFFF, -1), (np.int64(5), 5), (True, 1)):
        acl.rt.process_report(timeout)
        assert fake.arguments[-1] == (bits,)
    acl.rt.free(-1)
    acl.rt.free((1 << 64) - 1)
    assert fake.called == ["aclrtProcessReport"] * 4 + ["aclrtFree"] * 2


def test_none_is_no_address_in_any_call(fake: FakeLibrary) -> None:
    for call, arguments in (
        (acl.rt.host_register, (None, 64, 0)),
        (acl.rt.pointer_get_attributes, (None,)),
        (acl.rt.get_primary_ctx_state, (None,)),
        (acl.rt.launch_callback, (print, [], 0, None)),
    ):
        with pytest.raises(TypeError, match="needed as int, got None"):
            call(*arguments)
    assert fake.called == []
    assert callbacks._waiting == {}


def test_texts_are_str_without_nul(fake: FakeLibrary) -> None:
    for wrong in (5, b"acl.json", ["x"]):
        with pytest.raises(TypeError, match="a str is needed"):
            acl.init(wrong)  # type: ignore[arg-type]  # that is the test
    for call in (acl.init, acl.get_version_str):
        with pytest.raises(ValueError, match="NUL"):
            call("acl\0.json")
    assert fake.called == []


def test_null_and_negative_sizes_are_no_memory() -> None:
    raw = b"hello"
    address = acl.util.bytes_to_ptr(raw)
    assert acl.util.ptr_to_bytes(address, 4) == b"hell"
    for ptr, size in ((0, 5), (address, -1), (address, -5), (1 << 64, 1)):
        with pytest.raises(ValueError, match=r"address|size"):
            acl.util.ptr_to_bytes(ptr, size)
    with pytest.raises(TypeError, match="got None"):
        acl.util.ptr_to_bytes(None, 5)  # type: ignore[arg-type]  # that is the test
    byte = np.dtype(np.uint8).num
    for ptr, shape, npy_type in (
        (0, (4,), byte),
        (address, (-1,), byte),
        (address, (1,), np.dtype(object).num),  # what would be taken for Python objects
        (address, (1,), np.dtype("S").num),
    ):
        with pytest.raises(ValueError, match=r"address|shape|npy_type"):
            acl.util.ptr_to_numpy(ptr, shape, npy_type)


def test_a_stream_attribute_without_its_key_is_told(fake: FakeLibrary) -> None:
    for attribute, value in ((1, {}), (1, 5), (1, {"reserved": [1]}), (99, {"reserved": [0] * 5})):
        with pytest.raises(ValueError, match=r"failureMode|room for 4"):
            acl.rt.set_stream_attribute(64, attribute, value)  # type: ignore[arg-type]  # that is the test
    assert fake.called == []


# ---- callbacks ----


def run_program(code: str) -> subprocess.CompletedProcess[str]:
    """A program with a stream `s` whose callbacks a thread of start_thread runs until `go` is false."""
    start = (
        "import npu_xfer.acl as acl, sys, threading\n"
        "from npu_xfer import sim\n"
        "rt = acl.rt\n"
        "assert acl.init() == 0 and rt.set_device(0) == 0\n"
        "s, context, go = rt.create_stream()[0], rt.get_context()[0], True\n"
        "def loop(args):\n"
        "    rt.set_context(context)\n"
        "    while go: rt.process_report(100)\n"
        "tid = acl.util.start_thread(loop, [])[0]\n"
        "assert rt.subscribe_report(tid, s) == 0\n"
    )
    return run_python(start + code)


@pytest.mark.parametrize("error", ["ZeroDivisionError", "SystemExit", "KeyboardInterrupt"])
def test_an_error_in_a_callback_is_told_and_the_stream_goes_on(error: str) -> None:
    done = run_program(
        f"def bad(data): raise {error}('planted')\n"
        "seen = []\n"
        "assert rt.launch_callback(bad, [], 1, s) == rt.launch_callback(seen.append, 5, 1, s) == 0\n"
        "print(rt.synchronize_stream(s), seen)\n"
        "go = False\n"
        "print(acl.util.stop_thread(tid))\n"
    )
    assert (done.returncode, done.stdout) == (0, "0 [5]\n0\n"), done.stderr
    assert f"{error}: planted" in done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "sim.hold_stream(s)\nfor i in range(5): rt.launch_callback(str, i, 1, s)\n",
        "e = threading.Event()\n"
        "def f(data): e.set(); threading.Event().wait(30)\n"
        "rt.launch_callback(f, 0, 1, s)\ne.wait()\n",
        "d, h = rt.malloc(64, 0)[0], rt.malloc_host(64)[0]\n"
        "rt.set_exception_info_callback(lambda info: None)\n"
        "for _ in range(50): sim.fail_copy(507001); rt.memcpy_async(d, 64, h, 64, 1, s)\n",
    ],
    ids=["held", "running", "exceptions"],
)
def test_the_interpreter_ends_with_callbacks_on_their_way(code: str) -> None:
    done = run_program(code + "print('leaving')\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


def test_an_exception_callback_may_replace_itself() -> None:
    done = run_program(
        "def first(info): print('first', rt.set_exception_info_callback(second))\n"
        "def second(info): print('second', rt.get_error_code_from_exception_info(info))\n"
        "assert rt.set_exception_info_callback(first) == 0\n"
        "d, h = rt.malloc(64, 0)[0], rt.malloc_host(64)[0]\n"
        "for _ in range(2):\n"
        "    sim.fail_copy(507001)\n"
        "    rt.memcpy_async(d, 64, h, 64, 1, s)\n"
        "    print(rt.synchronize_stream(s))\n"
        "go = False\n"
        "acl.util.stop_thread(tid)\n"
    )
    assert done.stdout.split() == ["first", "0", "507001", "second", "507001", "507001"], done.stderr
    assert done.returncode == 0


def test_many_threads_launch_on_one_stream() -> None:
    done = run_program(
        "n = [0]\n"
        "def f(data): n[0] += 1\n"
        "def launch():\n"
        "    rt.set_context(context)\n"
        "    for i in range(100): assert rt.launch_callback(f, i, i % 2, s) == 0\n"
        "threads = [threading.Thread(target=launch) for _ in range(4)]\n"
        "for one in threads: one.start()\n"
        "for one in threads: one.join()\n"
        "assert rt.synchronize_stream(s) == 0\n"
        "go = False\n"
        "assert acl.util.stop_thread(tid) == 0\n"
        "print(n[0])\n"
    )
    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr
