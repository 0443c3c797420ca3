"""The exception tree: fields, texts, pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

from npu_xfer import errors
from npu_xfer._cann.codes import acl_error, transfer_error
from npu_xfer.errors import (
    AclError,
    BatchError,
    ClosedError,
    EngineDead,
    ForkedProcessError,
    InvalidTransfer,
    LibraryError,
    ResourceError,
    TransferError,
    TransferTimeout,
    TransferWarning,
    TransferWithdrawn,
    UnsupportedDType,
    WouldBlock,
    XferError,
)

TEXT = "[PID: 7] 2026-01-01-00:00:00.000.000 Invalid_Argument(EE1001): wrong kind\n\tSolution: none\n"


def _transfer_error() -> TransferError:
    return transfer_error(
        "aclrtMemcpyAsync", 107000, TEXT, direction="h2d", nbytes=4096, device=0, stream=0xABC0
    )


def _samples() -> list[XferError]:
    return [
        XferError("plain", remedy="look"),
        acl_error("aclrtSetDevice", 107001, TEXT),
        acl_error("aclrtMalloc", 207001),
        _transfer_error(),
        transfer_error("aclrtMalloc", 207001, direction="h2d", nbytes=9, device=1),
        BatchError({1: _transfer_error()}, ["a", None]),
        InvalidTransfer("8 bytes into 4", direction="d2h", nbytes=8, device=0, remedy="pass a larger out="),
        UnsupportedDType("object elements cannot be moved", dtype="object"),
        ClosedError(),
        WouldBlock("the window is full", remedy="wait for a transfer"),
        TransferWithdrawn(direction="h2d", nbytes=9, device=1),
        TransferTimeout(
            direction="d2h", nbytes=9, device=1, age_s=0.25, waited_for="its turn", in_flight=True, stream=3
        ),
        ForkedProcessError("Scheduler", owner_pid=1, pid=2),
        LibraryError("none found", candidates=[("libx.so", "not found")], remedy="install it"),
        EngineDead(acl_error("aclrtSynchronizeStream", 507010), device=3),
        EngineDead("out of slots"),
    ]


def _sample_id(error: XferError) -> str:
    return type(error).__name__


def test_samples_cover_every_class() -> None:
    classes = {getattr(errors, name) for name in errors.__all__}
    assert {type(sample) for sample in _samples()} == classes - {TransferWarning}


@pytest.mark.parametrize("error", _samples(), ids=_sample_id)
def test_pickle_keeps_everything(error: XferError) -> None:
    if hasattr(error, "add_note"):
        error.add_note("a second failure")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert repr(again) == repr(error)
        assert again.args == error.args
        kept, wanted = dict(again.__dict__), dict(error.__dict__)
        for state in (kept, wanted):
            state.pop("results", None)
        assert {k: repr(v) for k, v in kept.items()} == {k: repr(v) for k, v in wanted.items()}


@pytest.mark.parametrize("error", _samples(), ids=_sample_id)
def test_every_error_has_every_common_field(error: XferError) -> None:
    for field in ("code", "name", "call", "direction", "nbytes", "stream", "device", "remedy"):
        assert hasattr(error, field)
    assert repr(error).startswith(type(error).__name__ + "(")


def test_transfer_error_reads_as_one_paragraph() -> None:
    text = str(_transfer_error())
    assert text.startswith(
        "H2D transfer of 4096 bytes to device 0 on stream 0xabc0 failed: "
        "aclrtMemcpyAsync returned 107000 (ACL_ERROR_RT_PARAM_INVALID): "
    )
    assert "Invalid_Argument(EE1001): wrong kind" in text
    assert "Solution" not in text  # the first line only; the rest stays in .message
    assert " Do: " in text
    assert "\n" not in text
    assert _transfer_error().message == TEXT


def test_transfer_error_says_from_for_d2h() -> None:
    error = transfer_error("aclrtSynchronizeStream", 507001, direction="d2h", nbytes=1, device=5)
    assert str(error).startswith("D2H transfer of 1 bytes from device 5 failed: ")
    assert error.stream is None
    assert "The runtime said" not in str(error)


@pytest.mark.parametrize("code", [207001, 207007, 207008])
def test_exhaustion_is_a_resource_error(code: int) -> None:
    error = acl_error("aclrtCreateStream", code)
    assert type(error) is ResourceError
    assert error.code == code


def test_other_codes_are_plain_acl_errors() -> None:
    error = acl_error("aclrtSetDevice", 107001, TEXT)
    assert type(error) is AclError
    assert (error.call, error.code, error.name) == (
        "aclrtSetDevice",
        107001,
        "ACL_ERROR_RT_INVALID_DEVICEID",
    )
    assert error.remedy is not None
    assert error.remedy in str(error)


def test_refusals_are_also_builtin_errors() -> None:
    assert issubclass(InvalidTransfer, ValueError)
    assert issubclass(UnsupportedDType, (ValueError, TypeError))
    assert issubclass(UnsupportedDType, TypeError)
    assert issubclass(TransferWarning, ResourceWarning)


def test_batch_error_shows_places_and_limits_its_length() -> None:
    failed = {place: _transfer_error() for place in (8, 2, 5, 1, 9, 7, 3)}
    error = BatchError(failed, [None if place in failed else place for place in range(10)])
    assert list(error.errors) == [1, 2, 3, 5, 7, 8, 9]
    assert str(error).startswith("7 of 10 transfers failed: [1] H2D transfer")
    assert "2 more in .errors" in str(error)
    assert error.results[0] == 0
    assert error.results[1] is None


def test_batch_error_pickles_results_that_cannot_travel() -> None:
    error = BatchError({0: _transfer_error()}, [None, lambda: None])
    again = pickle.loads(pickle.dumps(error))
    assert again.results == [None, None]
    assert again.n == 2


@pytest.mark.parametrize("places", [[], [2], [-1]])
def test_batch_error_refuses_impossible_places(places: list[int]) -> None:
    with pytest.raises(ValueError, match=r"inside 0\.\.1"):
        BatchError({place: _transfer_error() for place in places}, [None, None])


def test_forked_process_error_names_the_remedy() -> None:
    text = str(ForkedProcessError("Scheduler", owner_pid=10, pid=11))
    assert "fork" in text
    assert "spawn" in text
    assert "10" in text
    assert "11" in text


def test_engine_dead_chains_its_cause_also_after_pickling() -> None:
    cause = acl_error("aclrtSynchronizeStream", 507010)
    error = EngineDead(cause)
    assert error.__cause__ is cause
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again.__cause__, AclError)
    assert again.__cause__.code == 507010
    assert "ACL_ERROR_RT_LOST_HEARTBEAT" in str(again)


def test_library_error_lists_what_was_tried() -> None:
    error = LibraryError("nothing", candidates=[("a.so", "not found"), ("b.so", "too short")])
    assert str(error) == "nothing. Tried: a.so: not found; b.so: too short"
    assert error.candidates == (("a.so", "not found"), ("b.so", "too short"))
