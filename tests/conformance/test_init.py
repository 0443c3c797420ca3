"""aclInit, aclFinalize, their counting, and what works without them. Each case has its own process."""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, cites, since
from conformance.support.codes import ACL_PARAM, BAD_FILE, OK, REPEAT_FINALIZE, REPEAT_INIT
from conformance.support.fresh import fresh

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.support.face import Acl


def calls(acl: Acl, names: list[str]) -> list[int]:
    """Codes of calls that take nothing, or nothing but a file name."""
    codes = []
    for name in names:
        if name.startswith("aclInit"):
            file = name.partition(" ")[2]
            codes.append(acl.aclInit(file.encode() or None))
        elif name == "aclrtSetDevice":
            codes.append(acl.aclrtSetDevice(0))
        else:
            codes.append(getattr(acl, name)())
    return codes


CASES = {
    "once": (["aclInit", "aclFinalize"], [OK, OK]),
    "twice": (["aclInit", "aclInit"], [OK, REPEAT_INIT]),
    "finalize twice": (["aclInit", "aclFinalize", "aclFinalize"], [OK, OK, REPEAT_FINALIZE]),
    "finalize ignores the count": (
        ["aclInit", "aclInit", "aclFinalize", "aclFinalize"],
        [OK, REPEAT_INIT, OK, REPEAT_FINALIZE],
    ),
    "finalize first": (["aclFinalize"], [OK]),
    "again after the end": (["aclInit", "aclFinalize", "aclInit"], [OK, OK, OK]),
    "device first": (["aclrtSetDevice", "aclInit"], [OK, OK]),
    "device only": (["aclrtSetDevice", "aclrtSynchronizeDevice"], [OK, OK]),
    "device outlives the end": (
        ["aclInit", "aclrtSetDevice", "aclFinalize", "aclrtSynchronizeDevice"],
        [OK, OK, OK, OK],
    ),
}


@cites("A second aclInit is 100002 and a second aclFinalize 100037; a device needs no aclInit", OBSERVED)
@pytest.mark.parametrize("case", CASES)
def test_order_of_calls(case: str) -> None:
    names, codes = CASES[case]
    assert fresh(calls, names) == codes


def count_down(acl: Acl, n: int) -> list[tuple[int, int]]:
    for _ in range(n):
        acl.aclInit(None)
    counts = []
    for _ in range(n + 1):
        count = ctypes.c_uint64(77)
        code = acl.aclFinalizeReference(ctypes.byref(count))
        counts.append((code, count.value))
    return counts


@cites("aclFinalizeReference counts down to 0 and ends there; one more is 100037", OBSERVED)
@since("8.5")
@pytest.mark.parametrize("n", [1, 3])
def test_the_reference_count(n: int) -> None:
    counts = fresh(count_down, n)
    assert counts[:n] == [(OK, left) for left in range(n - 1, -1, -1)]
    assert counts[n][0] == REPEAT_FINALIZE


def null_count(acl: Acl) -> list[int]:
    return [acl.aclInit(None), acl.aclFinalizeReference(None), acl.aclFinalizeReference(None)]


@cites("aclFinalizeReference accepts a null pointer for the count", "aclFinalizeReference docs, CANN 9.1")
@since("8.5")
def test_the_count_may_be_ignored() -> None:
    assert fresh(null_count) == [OK, OK, REPEAT_FINALIZE]


@cites("An empty configuration object is accepted", "aclInit docs, CANN 9.1")
def test_an_empty_configuration(tmp_path: Path) -> None:
    file = tmp_path / "acl.json"
    file.write_text("{}")
    assert fresh(calls, [f"aclInit {file}", "aclFinalize"]) == [OK, OK]


@cites("A configuration file that does not exist is 100003", "aclError docs, CANN 9.1")
def test_a_missing_configuration(tmp_path: Path) -> None:
    assert fresh(calls, [f"aclInit {tmp_path / 'none.json'}"]) == [BAD_FILE]


@cites("A configuration that is no JSON is refused, 100003 to 100006", "aclError docs, CANN 9.1")
@pytest.mark.parametrize("text", ["{", "[1,", "not json"])
def test_a_broken_configuration(tmp_path: Path, text: str) -> None:
    file = tmp_path / "acl.json"
    file.write_text(text)
    (code,) = fresh(calls, [f"aclInit {file}"])
    assert code in range(100003, 100007)


@cites("A repeated aclInit counts up before it looks at its file", "aclInit of the open runtime, CANN 9.2")
@since("8.5")
def test_the_second_file_is_not_read(tmp_path: Path) -> None:
    assert fresh(calls, ["aclInit", f"aclInit {tmp_path / 'none.json'}"]) == [OK, REPEAT_INIT]


def shared_text(acl: Acl, file: str) -> list[bool]:
    import threading

    acl.aclInit(file.encode())
    acl.aclrtSetDevice(0)
    assert acl.aclrtSynchronizeStreamWithTimeout(None, 0) != 0
    seen: list[bool] = []
    other = threading.Thread(target=lambda: seen.append(bool(acl.aclrtSetDevice(0) or acl.message())))
    other.start()
    other.join(20)
    return seen


@cites(
    "err_msg_mode 1 shares error texts in the process, 0 keeps them to the thread", "aclInit docs, CANN 9.1"
)
@pytest.mark.parametrize(("mode", "seen"), [("0", False), ("1", True)])
def test_the_scope_of_texts(tmp_path: Path, mode: str, seen: bool) -> None:
    file = tmp_path / "acl.json"
    file.write_text(json.dumps({"err_msg_mode": mode}))
    assert fresh(shared_text, str(file)) == [seen]


@cites("Any other err_msg_mode is a parameter error", "aclInit docs, CANN 9.1")
@pytest.mark.parametrize("mode", ["2", "x"])
def test_an_unknown_scope(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "acl.json"
    file.write_text(json.dumps({"err_msg_mode": mode}))
    assert fresh(calls, [f"aclInit {file}"]) == [ACL_PARAM]
