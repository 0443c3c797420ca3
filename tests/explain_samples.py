"""What must be read from each log of logs/, and what must not be said about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["LOGS", "SAMPLES", "Sample"]

LOGS = Path(__file__).parent / "logs"


@dataclass(frozen=True)
class Sample:
    """Expectations. `must` and `must_not` are pieces of the command's text, blanks and case aside."""

    name: str
    cls: str
    codes: tuple[str, ...] = ()
    api: str | None = None
    direction: str | None = None
    role: str = "cause"
    count: int = 1
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    class_only: bool = False  # the public diagnosis is inference


SAMPLES = (
    Sample(
        "01", "kind-location-mismatch", ("107000", "EE1001", "EE8888"), "aclrtMemcpyAsync", "h2d",
        must=("invalid parameter", "source should be host memory but is device",
              "size and alignment are not the matter",              "fix the pointer", "fix the kind"),
        must_not=("pageable", "page-locked"),
    ),
    Sample(
        "04", "sync-copy-during-graph-capture", ("107030", "0x703001c"), "aclrtMemcpy", "h2d", count=2,
        must=("synchronous", "nbytes 72", "capture", "may be secondary", "5070xx"),
        must_not=("out of memory", "bad pointer"),
    ),
    Sample(
        "06", "sync-copy-during-graph-capture", ("107030", "0x703001c"), "aclrtMemcpy", "h2d", count=2,
        must=("synchronous", "nbytes 72"),
        must_not=("out of memory",),
    ),
    Sample(
        "08", "sdma-execution-error", ("507001", "EI9999", "EH9999"), "rtStreamSynchronizeWithTimeout",
        must=("accepted when it was submitted and failed later", "nbytes 268435456", "device 0", "stream 2",
              "task 811", "expandable_segments:False", "copy_type is an internal number"),
        must_not=("d2h", "intact"),
    ),
    Sample(
        "09", "sdma-execution-error", ("507013", "EI9999"), "aclrtSynchronizeStreamWithTimeout", "d2d",
        must=("address translation failed", "nbytes 40960", "device 1", "stream 3", "task 64",
              "not where the bad copy was submitted"),
        must_not=("out of memory",),
    ),
    Sample(
        "10", "sdma-execution-error", ("507013", "EH9999"), "rtDeviceSynchronizeWithTimeout",
        must=("stream 1", "slot 15", "0x20b", "direction and size are not in this log", "differ by 8 h"),
        must_not=("h2d", "d2h", "d2d"),
    ),
    Sample("13", "device-task-timeout", class_only=True),
    Sample(
        "14", "device-open-failed", ("507033", "EL0004"), "aclrtSetDevice",
        must=("no device memory for its memory pool", "device 2", "no-usable-device: follows"),
        must_not=("set_device first", "set_device) or"),
    ),
    Sample("15", "device-open-failed", class_only=True),
    Sample(
        "16", "visible-devices-out-of-range", (), "runtime init",
        must=("visible_devices 4", "[0-2)", "numbering of the container"),
        must_not=("[INFO]",),
    ),
    Sample(
        "17", "no-usable-device", ("EE9999",), None, role="messenger",
        must=("earlier in the same log", "the first cause is not among them"),
        must_not=("507033",),
    ),
    Sample(
        "19", "feature-not-supported-on-chip", ("207000", "EL0014"), "aclrtMemcpy2d", "h2d",
        must=("not supported", "contiguous", "row by row", "do not retry"),
        must_not=("fix the kind", "invalid argument"),
    ),
    Sample(
        "21", "stream-resources-exhausted", ("207005", "0x7020023"), "rtStreamWaitEvent",
        must=("117571619 is 0x7020023", "ran out", "stream 905"),
        must_not=("invalid", "event is bad"),
    ),
    Sample(
        "22", "stream-resources-exhausted", ("207008", "EL0009"), None,
        must=("ran out", "each captured graph takes some"),
        must_not=("capture-refused", "forbids"),
    ),
    Sample(
        "24", "sync-during-graph-capture", ("107027", "EE9999"), "aclrtSynchronizeStreamWithTimeout",
        must=("pageable memory", "stream 9", "it is no timeout"),
        must_not=("ran out of time", "time limit"),
    ),
    Sample(
        "25", "device-lost", ("507010", "507899", "EL0001", "0x7020022"), "rtDeviceSynchronizeWithTimeout",
        must=("does not answer", "every pending transfer has failed",
              "507899 (ACL_ERROR_RT_DRV_INTERNAL_ERROR): follows from the cause"),
        must_not=("retry", "try again", "repeat the transfer"),
    ),
    Sample(
        "28", "device-open-failed", ("507033", "507007"), "aclrtSetDevice",
        must=("507007 (ACL_ERROR_RT_CONTEXT_RELEASE_ERROR): follows from the cause", "do not reset"),
        must_not=("devmm", "kworker"),
    ),
    Sample(
        "29", "device-memory-accounting", (),
        must=("not an error", "[EVENT]",
              "device 2: module APP holds 29984933312 bytes (27.9 GiB), at its peak"),
        must_not=("[ERROR]",),
    ),
    Sample(
        "32", "no-context-on-thread", ("107002", "EE8888", "EE1001"), "rtMalloc",
        must=("sizes and memory are not the matter", "set_device", "nbytes 9"),
        must_not=("out of memory", "ran out"),
    ),
)  # fmt: skip
