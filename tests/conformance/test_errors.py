"""aclGetRecentErrMsg and the last error: layout, scope, when they go away."""

from __future__ import annotations

import ctypes
import os
import re
from typing import TYPE_CHECKING

import pytest

from conformance.support.cites import OBSERVED, cites, forms, since
from conformance.support.codes import ACL_PARAM, NO_CONTEXT, OK, PARAM, STREAM_TIMEOUT, UNSUPPORTED
from conformance.support.kit import H2D, H2H, Kit

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.support.threads import Side

FIRST_LINE = re.compile(
    r"\[PID: (\d+)\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} [\w ]+\((E[A-Z0-9]\d{4})\): .+"
)


def bad_param(kit: Kit) -> int:
    """A failure of the runtime layer, 107000."""
    block, target = kit.pinned(64), kit.device(64)
    code: int = kit.acl.aclrtMemcpyAsync(target.address, 4, block.address, 8, H2D, None)
    return code


@cites("The first line is [PID: n] time Title(id): text", OBSERVED)
def test_layout(kit: Kit) -> None:
    assert bad_param(kit) == PARAM
    text = kit.acl.message()
    assert text is not None
    match = FIRST_LINE.fullmatch(text.splitlines()[0])
    assert match is not None, text
    assert int(match[1]) == os.getpid()
    rest = text.splitlines()[1:]
    assert all(line.startswith(("\t", " ", "TraceBack", "[PID", "E")) or not line for line in rest)


def null_dst(kit: Kit) -> int:
    source = kit.pinned(64)
    code: int = kit.acl.aclrtMemcpyAsync(None, 64, source.address, 64, H2D, None)
    return code


def kind_99(kit: Kit) -> int:
    source, target = kit.pinned(64), kit.device(64)
    return kit.copy(target, source, 99, None)


def zero_timeout(kit: Kit) -> int:
    code: int = kit.acl.aclrtSynchronizeStreamWithTimeout(kit.stream(), 0)
    return code


IDS: dict[str, tuple[Callable[[Kit], int], int, str]] = {
    "null dst": (null_dst, ACL_PARAM, "EH0008"),
    "unknown kind": (kind_99, ACL_PARAM, "EH0007"),
    "count over destMax": (bad_param, PARAM, "EE1003"),
    "timeout 0": (zero_timeout, PARAM, "EE1003"),
}


@cites("Each error has its id: EH0008, EH0007, EE1003", OBSERVED)
@since("9.1")
@pytest.mark.parametrize("name", IDS)
def test_ids(kit: Kit, name: str) -> None:
    call, code, number = IDS[name]
    assert call(kit) == code
    text = kit.acl.message()
    assert text is not None
    assert number in text.splitlines()[0]


@cites("Without context the id is EE1018", OBSERVED)
@since("9.1")
def test_id_without_context(kit: Kit, side: Side) -> None:
    def there() -> tuple[int, str | None]:
        code = kit.acl.aclrtCreateStream(ctypes.byref(ctypes.c_void_p()))
        return code, kit.acl.message()

    code, text = side.run(there)
    assert code == NO_CONTEXT
    assert text is not None
    assert "EE1018" in text.splitlines()[0]


@cites("Reading a text consumes it; without one the pointer is null", OBSERVED)
def test_reading_consumes(kit: Kit) -> None:
    assert kit.acl.message() is None
    assert bad_param(kit) == PARAM
    assert kit.acl.message() is not None
    assert kit.acl.message() is None


@cites("A successful call does not remove a text", OBSERVED)
def test_success_keeps_the_text(kit: Kit) -> None:
    assert bad_param(kit) == PARAM
    assert kit.sync(None) == OK
    assert kit.acl.message() is not None


@cites("Texts belong to the thread whose call failed", OBSERVED)
def test_texts_are_per_thread(kit: Kit, side: Side) -> None:
    assert bad_param(kit) == PARAM

    def there() -> str | None:
        assert kit.acl.aclrtSetDevice(0) == OK
        text = kit.acl.message()
        assert kit.acl.aclrtResetDevice(0) == OK
        return text

    assert side.run(there) is None
    assert kit.acl.message() is not None


@cites("On a thread without context the text is not cleared by reading, it grows", OBSERVED)
def test_texts_accumulate_without_context(kit: Kit, side: Side) -> None:
    def there() -> list[str | None]:
        kit.acl.aclrtCreateStream(ctypes.byref(ctypes.c_void_p()))
        return [kit.acl.message(), kit.acl.message()]

    first, second = side.run(there)
    assert first is not None
    assert second is not None
    assert len(second) > len(first)


@cites("An asynchronous host-to-host copy is refused without a text", OBSERVED)
@forms("ep")
def test_a_quiet_refusal(kit: Kit) -> None:
    assert kit.copy(kit.pinned(64), kit.pinned(64), H2H, kit.stream()) == UNSUPPORTED
    assert kit.acl.message() is None


@cites(
    "The last error is the newest runtime code of the thread; peeking keeps it, getting resets it", OBSERVED
)
def test_last_error(kit: Kit) -> None:
    acl = kit.acl
    assert acl.aclrtPeekAtLastError(0) == OK
    assert bad_param(kit) == PARAM
    assert [acl.aclrtPeekAtLastError(0), acl.aclrtPeekAtLastError(0)] == [PARAM, PARAM]
    assert acl.aclrtGetLastError(0) == PARAM
    assert [acl.aclrtGetLastError(0), acl.aclrtPeekAtLastError(0)] == [OK, OK]


@cites("A later success leaves the last error", OBSERVED)
def test_last_error_survives_success(kit: Kit) -> None:
    assert bad_param(kit) == PARAM
    assert kit.sync(None) == OK
    assert kit.acl.aclrtPeekAtLastError(0) == PARAM


@cites("A failure of the ACL layer alone, 100000, does not become the last error", OBSERVED)
def test_last_error_ignores_the_acl_layer(kit: Kit) -> None:
    kit.acl.aclrtGetLastError(0)
    assert null_dst(kit) == ACL_PARAM
    assert kit.acl.aclrtPeekAtLastError(0) == OK


@cites("The last error is per thread", OBSERVED)
def test_last_error_is_per_thread(kit: Kit, side: Side) -> None:
    kit.acl.aclrtGetLastError(0)
    assert bad_param(kit) == PARAM
    assert side.run(lambda: kit.acl.aclrtPeekAtLastError(0)) == OK


@cites("A stream wait that runs out names itself, EE1002", OBSERVED)
@since("9.1")
@pytest.mark.needs_control
def test_the_text_of_a_timeout(kit: Kit) -> None:
    stream = kit.stream()
    kit.hold("h2d")
    assert kit.copy(kit.device(64), kit.pinned(64), H2D, stream) == OK
    assert kit.sync(stream, 1) == STREAM_TIMEOUT
    text = kit.acl.message()
    assert text is not None
    assert "EE1002" in text.splitlines()[0]
    kit.holds.pop().release()
    assert kit.sync(stream) == OK
