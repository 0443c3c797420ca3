"""Small programs, each with one failure on purpose: `python tests/fault_programs.py FOLDER` runs them all.

Each runs in a process of its own and logs below FOLDER/NAME, so that its log holds nothing else. The
processes are forked before any of them has loaded the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_xfer import _library, sim
from npu_xfer._cann.abi import HostRegFlag, MemcpyKind
from npu_xfer._cann.enums import FailureMode
from npu_xfer.errors import AclError

if TYPE_CHECKING:
    from collections.abc import Callable

    from npu_xfer._cann.runtime import Runtime

__all__ = ["PROGRAMS", "Program"]

NBYTES = 4096


@dataclass(frozen=True)
class Program:
    """What fails, and the class that its log must be explained as: None where the runtime logs nothing."""

    what: str
    run: Callable[[Runtime], None]
    cls: str | None
    rule: str = ""
    profile: str = ""


def upload(rt: Runtime) -> None:
    stream, device, host = rt.create_stream(), rt.malloc(NBYTES), rt.malloc_host(NBYTES)
    ctypes.memset(host, 7, NBYTES)
    rt.memcpy_async(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    rt.synchronize_stream(stream)


def record(rt: Runtime) -> None:
    stream, event = rt.create_stream(), rt.create_event()
    rt.record_event(event, stream)
    rt.synchronize_stream(stream)


def allocate(rt: Runtime) -> None:
    rt.malloc(NBYTES)


def pin(rt: Runtime) -> None:
    rt.malloc_host(NBYTES)


def streams(rt: Runtime) -> None:
    for _ in range(4):
        rt.create_stream()


def events(rt: Runtime) -> None:
    for _ in range(4):
        rt.create_event()


def wait_too_short(rt: Runtime) -> None:
    stream, device, host = rt.create_stream(), rt.malloc(NBYTES), rt.malloc_host(NBYTES)
    rt.memcpy_async(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    rt.synchronize_stream(stream, timeout_s=0.01)


def wrong_kind(rt: Runtime) -> None:
    stream, device, host = rt.create_stream(), rt.malloc(NBYTES), ctypes.create_string_buffer(NBYTES)
    rt.memcpy_async(device, NBYTES, ctypes.addressof(host), NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)


def too_long(rt: Runtime) -> None:
    stream, device, host = rt.create_stream(), rt.malloc(NBYTES), rt.malloc_host(NBYTES)
    rt.memcpy_async(device, NBYTES - 1, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)


def no_device_on_thread(rt: Runtime) -> None:
    def allocates() -> None:
        with contextlib.suppress(AclError):
            rt.malloc(NBYTES)

    thread = threading.Thread(target=allocates)
    thread.start()
    thread.join()


def other_context(rt: Runtime) -> None:
    first = rt.create_stream()
    rt.create_context(0)
    device, host = rt.malloc(NBYTES), rt.malloc_host(NBYTES)
    rt.memcpy_async(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, first)


def destroyed(rt: Runtime) -> None:
    stream = rt.create_stream()
    rt.destroy_stream(stream)
    rt.synchronize_stream(stream)


def register_twice(rt: Runtime) -> None:
    host = ctypes.create_string_buffer(3 * NBYTES)
    start = -(-ctypes.addressof(host) // NBYTES) * NBYTES
    rt.register_host(start, NBYTES, HostRegFlag.PINNED)
    rt.register_host(start, NBYTES, HostRegFlag.PINNED)


def no_such_device(rt: Runtime) -> None:
    rt.set_device(63)


def reset_twice(rt: Runtime) -> None:
    rt.reset_device(0)
    rt.reset_device(0)


def host_to_host(rt: Runtime) -> None:
    stream, a, b = rt.create_stream(), rt.malloc_host(NBYTES), rt.malloc_host(NBYTES)
    rt.memcpy_async(a, NBYTES, b, NBYTES, MemcpyKind.HOST_TO_HOST, stream)


def failure_mode_back(rt: Runtime) -> None:
    stream = rt.create_stream()
    rt.set_stream_failure_mode(stream, FailureMode.STOP_ON_FAILURE)
    rt.set_stream_failure_mode(stream, FailureMode.CONTINUE_ON_FAILURE)


def subscribe_twice(rt: Runtime) -> None:
    stream = rt.create_stream()
    rt.subscribe_report(threading.get_ident(), stream)
    rt.subscribe_report(threading.get_ident(), stream)


PROGRAMS = {
    "copy": Program("a queued copy ends with 507001", upload, "task-scheduler-error", "copy"),
    "copy-sdma": Program(
        "a queued copy ends with 507013",
        upload,
        "sdma-execution-error",
        "copy code=507013",
    ),
    "copy-timeout": Program(
        "a queued copy ends with 107020", upload, "device-task-timeout", "copy code=107020"
    ),
    "event": Program("a record ends with 507001", record, "task-scheduler-error", "event"),
    "alloc-device": Program(
        "device memory over its limit", allocate, "device-memory-exhausted", "alloc kind=device"
    ),
    "alloc-pinned": Program(
        "page-locked memory over its limit", pin, "device-memory-exhausted", "alloc kind=pinned"
    ),
    "streams": Program("no stream is left", streams, "stream-resources-exhausted", "streams limit=2"),
    "events": Program("no event is left", events, "stream-resources-exhausted", "events limit=2"),
    "stall": Program(
        "a copy that does not end, waited for with a time limit",
        wait_too_short,
        "stream-sync-timeout",
        "stall",
    ),
    "lose": Program("the device is lost", upload, "device-lost", "lose nth=1"),
    "sick": Program("uncorrectable bit error", upload, "device-memory-fault", "sick"),
    "sick-link": Program("a link of the device fails", upload, "device-memory-fault", "sick code=507056"),
    "slow": Program("a copy that takes longer", upload, None, "slow factor=2"),
    "call": Program(
        "a call that returns 207001, without any message",
        upload,
        None,
        "call name=aclrtMemcpyAsync code=207001",
    ),
    "free": Program(
        "a free that returns 207002, without any message",
        lambda rt: rt.free(rt.malloc(NBYTES)),
        None,
        "free",
    ),
    "kind-8.3": Program(
        "kind and locations differ, CANN 8.3", wrong_kind, "kind-location-mismatch", profile="a2-ep-8.3"
    ),
    "kind-8.5": Program(
        "kind and locations differ, CANN 8.5", wrong_kind, "kind-location-mismatch", profile="a2-ep-8.5"
    ),
    "kind-9.1": Program(
        "kind and locations differ, CANN 9.1", wrong_kind, "kind-location-mismatch", profile="a2-ep-9.1"
    ),
    "too-long": Program("a copy larger than its destination", too_long, "invalid-argument"),
    "no-context": Program("no device set on the thread", no_device_on_thread, "no-context-on-thread"),
    "other-context": Program("a stream of another context", other_context, "wrong-context"),
    "destroyed": Program("a stream used after its end", destroyed, "invalid-handle"),
    "register": Program("a host range registered twice", register_twice, "host-registration"),
    "device": Program("a device that does not exist", no_such_device, "invalid-device"),
    "reset": Program("a device reset twice", reset_twice, "context-release"),
    "host-to-host": Program(
        "an asynchronous copy inside the host, for which CANN logs only a warning", host_to_host, None
    ),
    "unsupported": Program(
        "a stream's failure mode set back",
        failure_mode_back,
        "feature-not-supported-on-chip",
    ),
    "callback": Program("a stream subscribed twice", subscribe_twice, "callback-subscription"),
}


def run(name: str, folder: str) -> None:
    """Runs one program in this process; its failure is expected."""
    program = PROGRAMS[name]
    os.environ["ASCEND_PROCESS_LOG_PATH"] = f"{folder}/{name}"
    if program.profile:
        os.environ["ACLSIM_PROFILE"] = program.profile
    runtime = _library.open_runtime()
    runtime.init()
    runtime.set_device(0)
    if program.rule:
        sim.add_fault(program.rule)
    with contextlib.suppress(AclError):
        program.run(runtime)


def main(folder: str) -> None:
    """Runs all, one after the other; ends with the number of those that broke off."""
    broken = 0
    for name in PROGRAMS:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run(name, folder)
                status = 0
            finally:
                os._exit(status)  # a stalled copy would keep an ordinary end waiting
        broken += os.waitpid(child, 0)[1] != 0
    sys.exit(broken)


if __name__ == "__main__":
    main(sys.argv[1])
