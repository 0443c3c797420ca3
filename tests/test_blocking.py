"""The blocking face, from one thread and from many."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support import held, pattern, until_blocking

import npu_xfer
from npu_xfer import sim


def test_round_trips() -> None:
    with npu_xfer.BlockingScheduler() as xfer:
        for nbytes in (0, 1, 4096, 100_000, 9 << 20):
            device = xfer.to_device(pattern(nbytes))
            assert isinstance(device, npu_xfer.BlockingDeviceArray)
            assert np.array_equal(device.to_host(), pattern(nbytes))
        assert xfer.stats().pending == 0
    assert xfer.closed


def test_two_phases() -> None:
    source = pattern(100_000)
    with npu_xfer.BlockingScheduler() as xfer:
        with held("h2d"):
            transfer = xfer.submit_to_device(source)
            source[:] = 0
            with pytest.raises(TimeoutError):
                transfer.result(timeout_s=0.02)
        device = transfer.result(timeout_s=30)
        assert np.array_equal(xfer.submit_to_host(device).result(), pattern(100_000))


def test_many() -> None:
    with npu_xfer.BlockingScheduler() as xfer:
        back = xfer.to_host_many(xfer.to_device_many([pattern(9), {"k": pattern(70_000)}, pattern(0)]))
        assert np.array_equal(back[0], pattern(9))
        assert np.array_equal(back[1]["k"], pattern(70_000))
        assert back[2].shape == (0,)


def test_eight_threads_share_one_scheduler() -> None:
    failures: list[Any] = []

    def work(seed: int, xfer: npu_xfer.BlockingScheduler) -> None:
        try:
            for i in range(40):
                source = pattern(1 + (i * 7919) % 300_000, seed)
                if not np.array_equal(xfer.to_host(xfer.to_device(source)), source):
                    failures.append((seed, i))
        except Exception as error:
            failures.append(error)

    with npu_xfer.BlockingScheduler() as xfer:
        threads = [threading.Thread(target=work, args=(seed, xfer)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert xfer.stats().h2d.transfers == 320


def test_callers_device_and_context_stay_as_they_were() -> None:
    from npu_xfer._library import open_runtime

    runtime = open_runtime()
    with npu_xfer.BlockingScheduler() as xfer:
        assert runtime.get_device() is None
        xfer.to_host(xfer.to_device(pattern(5000)))
        xfer.empty_pinned(1000)
        assert runtime.get_device() is None
    assert runtime.get_device() is None


def test_close_while_other_threads_submit() -> None:
    xfer = npu_xfer.BlockingScheduler()
    xfer.open()
    ends: list[str] = []

    def work() -> None:
        try:
            while True:
                xfer.to_device(pattern(1000))
        except npu_xfer.ClosedError:
            ends.append("closed")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    until_blocking(lambda: xfer.stats().h2d.transfers > 100)
    xfer.close()
    for thread in threads:
        thread.join()
    assert ends == ["closed"] * 4


def test_streams_are_made_once() -> None:
    with npu_xfer.BlockingScheduler(n_lanes=2) as xfer:
        made = sim.call_count("aclrtCreateStreamWithConfig")
        for _ in range(50):
            xfer.to_device(pattern(100))
        assert sim.call_count("aclrtCreateStreamWithConfig") == made
        assert sim.counters().live_streams == 4
