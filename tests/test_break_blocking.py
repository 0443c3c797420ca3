"""Attempts to break promises of the blocking face: ended threads, polling, interrupts, forks, odd arrays."""

from __future__ import annotations

import contextlib
import gc
import math
import mmap
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import held, pattern, run_python, until_blocking

import npu_xfer
from npu_xfer import sim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from npu_xfer import BlockingScheduler


@pytest.fixture
def blocking() -> Iterator[BlockingScheduler]:
    with npu_xfer.BlockingScheduler() as scheduler:
        yield scheduler


def _n_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_threads_that_end_with_a_dropped_transfer_leak_nothing(blocking: BlockingScheduler) -> None:
    before = _n_files()
    for _ in range(40):
        thread = threading.Thread(target=blocking.submit_to_device, args=(pattern(1000),))
        thread.start()
        thread.join()
    until_blocking(lambda: blocking.stats().pending == 0)
    blocking.to_device(pattern(5))  # whoever reaps next lets go of what the others left
    gc.collect()
    blocking.to_device(pattern(5))
    gc.collect()
    assert _n_files() <= before + 2
    assert blocking.stats().device_used_nbytes < 2000


def test_transfer_outlives_the_thread_that_submitted_it(blocking: BlockingScheduler) -> None:
    transfers: list[Any] = []
    with held("h2d"):
        thread = threading.Thread(target=lambda: transfers.append(blocking.submit_to_device(pattern(1000))))
        thread.start()
        thread.join()
    assert np.array_equal(blocking.to_host(transfers[0].result(timeout_s=8)), pattern(1000))


def test_polling_sees_the_end(blocking: BlockingScheduler) -> None:
    transfer = blocking.submit_to_device(pattern(100))
    until_blocking(lambda: blocking.stats().pending == 0)
    deadline = time.monotonic() + 5
    while not transfer.done and time.monotonic() < deadline:
        time.sleep(0.001)
    assert transfer.done
    transfer = blocking.submit_to_device(pattern(100))
    assert transfer._port.wait(5)  # the doorbell has rung; nothing is taken
    assert transfer.result(timeout_s=0).nbytes == 100


def test_failed_transfer_lets_go_of_the_target(blocking: BlockingScheduler) -> None:
    """Without the cyclic collector: an error must not keep arrays through its own traceback."""
    device = blocking.to_device(pattern(1 << 20))
    gc.collect()
    gc.disable()
    try:
        target = np.empty(1 << 20, np.uint8)
        gone = weakref.ref(target)
        sim.fail_copy(507011, direction="d2h")
        with pytest.raises(npu_xfer.TransferError):
            blocking.to_host(device, out=target)
        del target
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("timeout_s", [math.inf, 1e300])
def test_close_without_a_limit_waits(timeout_s: float) -> None:
    scheduler = npu_xfer.BlockingScheduler()
    scheduler.open()
    sim.hold_engine(0, "h2d")
    release = threading.Timer(0.2, sim.release_engine, (0, "h2d"))
    transfer = scheduler.submit_to_device(pattern(100))
    release.start()
    assert scheduler.close(timeout_s=timeout_s) == 0
    release.join()
    assert transfer.result(timeout_s=5).nbytes == 100


def test_an_error_that_cannot_be_made_takes_no_other_note_along(blocking: BlockingScheduler) -> None:
    from npu_xfer import _engine, _native

    def broken(*args: object) -> Exception:
        raise MemoryError("no room for the error")

    with held("h2d"):
        good = blocking.submit_to_device(pattern(100))
        sim.fail_copy(507011, direction="h2d", nth=2)
        bad = blocking.submit_to_device(pattern(101))
    until_blocking(lambda: blocking.stats().pending == 0)
    assert bad._port.wait(5)
    _native.set_error_factory(broken)
    try:
        n_landed = 0
        for transfer in (good, bad):
            with contextlib.suppress(MemoryError):  # and no TimeoutError: nobody waits for ever
                n_landed += transfer.result(timeout_s=3).nbytes > 0
    finally:
        _native.set_error_factory(_engine._make_error)
    assert n_landed == 1


def test_interrupt_between_two_notes_loses_none(
    blocking: BlockingScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = npu_xfer.BlockingTransfer._settle
    interrupts = iter([KeyboardInterrupt()])

    def interrupted(self: Any, *news: Any) -> None:
        settle(self, *news)
        for interrupt in interrupts:
            raise interrupt

    with held("h2d"):
        transfers = [blocking.submit_to_device(pattern(100 + i)) for i in range(3)]
    until_blocking(lambda: blocking.stats().pending == 0)
    assert transfers[0]._port.wait(5)
    monkeypatch.setattr(npu_xfer.BlockingTransfer, "_settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        transfers[0].result(timeout_s=3)
    assert [t.result(timeout_s=3).nbytes for t in transfers] == [100, 101, 102]


FORK = (
    "import os, signal, warnings, numpy as np, npu_xfer\n"
    "from npu_xfer import sim\n"
    "warnings.simplefilter('ignore', DeprecationWarning)\n"
    "with npu_xfer.BlockingScheduler() as xfer:\n"
    "    device = xfer.to_device(np.arange(100))\n"
    "    sim.hold_engine(0, 'h2d')\n"
    "    transfer = xfer.submit_to_device(np.arange(10))\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n"
    "        signal.alarm(5)\n"
    "        try:\n"
    "            {act}\n"
    "        except npu_xfer.ForkedProcessError as error:\n"
    "            os._exit(0 if 'spawn' in str(error) else 2)\n"
    "        os._exit(3)\n"
    "    _, status = os.waitpid(pid, 0)\n"
    "    sim.release_engine(0, 'h2d')\n"
    "    assert transfer.result().size == 10\n"
    "print(os.waitstatus_to_exitcode(status))"
)


@pytest.mark.parametrize(
    "act", ["transfer.result()", "npu_xfer.BlockingScheduler().open()", "xfer.to_device(np.ones(3))"]
)
def test_forked_child_is_refused_and_never_hangs(act: str) -> None:
    done = run_python(FORK.format(act=act))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n"


def test_fork_before_the_first_scheduler_is_fine() -> None:
    done = run_python(
        "import os, warnings, numpy as np, npu_xfer\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "pid = os.fork()\n"
        "with npu_xfer.BlockingScheduler() as xfer:\n"
        "    assert xfer.to_host(xfer.to_device(np.arange(5))).sum() == 10\n"
        "if pid:\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n"


def test_exit_with_warnings_as_errors_and_blocked_daemon_threads() -> None:
    done = run_python(
        "import threading, warnings, numpy as np, npu_xfer\n"
        "warnings.simplefilter('error')\n"
        "xfers = [npu_xfer.BlockingScheduler() for _ in range(2)]\n"
        "for xfer in xfers: xfer.open()\n"
        "def work():\n"
        "    while True: xfers[0].to_host(xfers[0].to_device(np.arange(50000)))\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "print('end')\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "end\n"


ODD: dict[str, Any] = {
    "no bytes": np.zeros(3, np.dtype([])),
    "V0": np.zeros(3, "V0"),
    "dates inside": np.zeros(9, [("a", "M8[s]"), ("b", "f4", (2,))])[::-2],
    "not a time": np.array(["NaT", "2020"], "M8[ns]"),
    "half": np.arange(5, dtype="f2"),
    "long double": np.arange(5, dtype="g")[::-1],
    "text": np.array(["ab", "c"]),
    "bool": np.array([True, False]),
    "metadata": np.zeros(3, np.dtype("f4", metadata={"a": 1})),
    "record": np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "aligned": np.ones(5, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "one field": np.ones(8, [("a", "i1"), ("b", "f8")])["b"],
    "some fields": np.ones(8, [("a", "i1"), ("b", "f8"), ("c", "i2")])[["a", "c"]],
    "32 dimensions": np.arange(1 << 16, dtype="u1").reshape((2,) * 16 + (1,) * 16).transpose(),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arrays(blocking: BlockingScheduler, name: str) -> None:
    source = ODD[name]
    back = blocking.to_host(blocking.to_device(source))
    assert (back.dtype, back.shape) == (source.dtype, source.shape)
    assert back.tobytes() == source.tobytes()


@pytest.mark.parametrize("dtype", [[("a", ">i4", (2,))], [("s", [("a", ">i4")], (2,))], [("a", ">i4")]])
def test_big_endian_is_refused_however_deep(blocking: BlockingScheduler, dtype: Any) -> None:
    with pytest.raises(npu_xfer.UnsupportedDType, match="byte order"):
        blocking.to_device(np.zeros(3, np.dtype(dtype)))


def test_masked_target_is_refused(blocking: BlockingScheduler) -> None:
    device = blocking.to_device(np.arange(3))
    with pytest.raises(npu_xfer.InvalidTransfer, match="mask"):
        blocking.to_host(device, out=np.ma.masked_array(np.zeros(3, int), np.array([False, True, False])))


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        (-1, ValueError),
        ((2**40, 2**40), ValueError),
        (2**62, ValueError),
        ((1.5, 2), TypeError),
        ("12", TypeError),
        (1.5, TypeError),
        ((1,) * 65, ValueError),
    ],
)
def test_impossible_pinned_shapes(blocking: BlockingScheduler, shape: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        blocking.empty_pinned(shape)
    whole: Any = np.int64(3)
    assert blocking.empty_pinned(whole).shape == (3,)
    assert blocking.empty_pinned((whole, 2)).shape == (3, 2)


def test_exports_are_held_until_the_end(blocking: BlockingScheduler, tmp_path: Path) -> None:
    device = blocking.to_device(np.zeros(1000, np.uint8))
    buffer, mapping = bytearray(1000), mmap.mmap(-1, 4096)
    with held("d2h"):
        first = blocking.submit_to_host(device, out=np.frombuffer(buffer, np.uint8))
        second = blocking.submit_to_host(device, out=np.frombuffer(mapping, np.uint8, 1000))
        with pytest.raises(BufferError):
            buffer.append(1)
        with pytest.raises(BufferError):
            mapping.close()
    first.result()
    second.result()
    del first, second
    buffer.append(1)
    mapping.close()
    (tmp_path / "file").write_bytes(bytes(range(200)))
    read_only = np.memmap(tmp_path / "file", np.uint8, "r")
    assert blocking.to_host(blocking.to_device(read_only)).tolist() == list(range(200))


def test_native_layer_raises_and_never_crashes(blocking: BlockingScheduler) -> None:
    from npu_xfer import _native

    native: Any = blocking._core.native  # type: ignore[union-attr]  # it is open
    port, block = _native.Port(), blocking.to_device(pattern(10))._block
    wrong: list[tuple[Any, ...]] = [
        (None, 1, 0, pattern(3), None, 0),
        (port,),
        (port, 1, "a", pattern(3), None, 0),
        (port, 1, 1, pattern(3), None, 0),
        (port, 1, 0, 3, None, 0),
        (port, 1, 0, pattern(3), native, 0),
        (port, 1, 0, pattern(3), native.pinned(100), 0),
        (port, 1, 0, pattern(3), block, -1),
        (port, 1, 0, pattern(3), block, 2**63 - 1),
        (port, 1, 0, pattern(3), block, 2**70),
    ]
    for arguments in wrong:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            native.submit(*arguments, *((1, False) if len(arguments) == 6 else ()))
    for items in ((), [None], [(1, 2)], [(pattern(3), None, 0), (3, None, 0)]):
        with pytest.raises(TypeError):
            native.submit_many(port, 1, 0, items, 1)
    for nbytes in (None, "x", 0, -5, 2**70):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            native.pinned(nbytes)
    assert blocking.stats().pending == 0
