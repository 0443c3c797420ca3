"""The control plane reaches every function of the table, with arguments that its prototype takes."""

from __future__ import annotations

import collections.abc
import ctypes
import enum
import inspect
import typing
from typing import TYPE_CHECKING, Any

import pytest
from fake_library import MEMORY, FakeLibrary

from npu_xfer._cann import runtime as runtime_module
from npu_xfer._cann.abi import PROTOTYPES, ErrorInfo, MallocAttrType
from npu_xfer._cann.calls import callbacks
from npu_xfer._cann.runtime import BadRange, BatchCopy, Pitched, Runtime
from npu_xfer.errors import AclError, LibraryError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Functions that no method calls, each with the reason.
NOT_REACHED: dict[str, str] = {}


def _public_methods() -> list[str]:
    return [
        name
        for name, value in inspect.getmembers(Runtime)
        if not name.startswith("_") and inspect.isfunction(value)
    ]


def _samples(annotation: Any, name: str) -> list[Any]:
    """Values for a parameter, by its type."""
    if isinstance(annotation, enum.EnumMeta):
        return [next(iter(typing.cast("Any", annotation)))]
    by_type: dict[Any, list[Any]] = {
        int: [ctypes.addressof(MEMORY)],
        bool: [False, True],
        str: ["runtime"],
        bytes: [bytes(64)],
        Pitched: [Pitched(64, 128)],
        ErrorInfo: [ErrorInfo()],
    }
    if annotation in by_type:
        return by_type[annotation]
    text = str(annotation)
    if text == "float | None":
        return [None, 0.5]
    if text == "str | None":
        return [None, "acl.json"]
    if "BatchCopy" in text:
        return [[BatchCopy(64, 128, 3, True), BatchCopy(64, 128, 3, True), BatchCopy(128, 64, 5, False)]]
    if "BadRange" in text:
        return [[BadRange(64, 32)]]
    if "Mapping" in text:
        return [{}, {MallocAttrType.MODULE_ID: 7, MallocAttrType.VA_FLAG: 1}]
    if "Callable" in text:
        return [print, None] if "None" in text.rsplit("]", 1)[-1] else [print]
    raise AssertionError(f"no sample for {name}: {annotation}")


def _call_with_samples(runtime: Runtime, name: str) -> None:
    """Calls a method once for each sample of each parameter."""
    method = getattr(runtime, name)
    names = {**vars(callbacks), **vars(runtime_module), **vars(typing)}
    names |= {name: getattr(collections.abc, name) for name in ("Callable", "Mapping", "Sequence")}
    hints = typing.get_type_hints(getattr(Runtime, name), {**names, **method.__func__.__globals__})
    parameters = list(inspect.signature(method).parameters.values())
    choices = {one.name: _samples(hints[one.name], f"{name}({one.name})") for one in parameters}
    for turn in range(max((len(values) for values in choices.values()), default=1)):
        picked = {key: values[min(turn, len(values) - 1)] for key, values in choices.items()}
        positional = [picked[one.name] for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        keyword = {one.name: picked[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY}
        method(*positional, **keyword)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """What the fake never runs does not stay behind."""
    yield
    for table in (callbacks._waiting, callbacks._named, callbacks._exception_callbacks):
        table.clear()


def test_every_function_of_the_table_is_called_by_some_method() -> None:
    called: set[str] = set()
    preferred = frozenset({"aclrtMemcpyBatch", "aclrtMemcpyBatchAsync", "aclrtCreateEventExWithFlag"})
    for lacks in (frozenset(), preferred):
        library = FakeLibrary(lacks=lacks)
        runtime = Runtime(library)  # type: ignore[arg-type]  # quacks like one
        names = _public_methods()
        assert len(names) > 120
        for name in names:
            if name == "remove_exception_callback":
                runtime.add_exception_callback(print)
            _call_with_samples(runtime, name)
        called |= set(library.called)
    assert set(PROTOTYPES) - called == set(NOT_REACHED)
    assert called <= set(PROTOTYPES)


def test_every_method_says_what_it_does() -> None:
    assert [name for name in _public_methods() if not inspect.getdoc(getattr(Runtime, name))] == []


def test_a_wrong_argument_is_found() -> None:
    runtime = Runtime(FakeLibrary())  # type: ignore[arg-type]  # the same
    with pytest.raises(ctypes.ArgumentError):
        runtime._call("aclrtSetDevice", "zero")
    with pytest.raises(TypeError):
        runtime._call("aclrtMemcpy", 1, 2, 3)


def test_a_function_that_the_library_lacks() -> None:
    runtime = Runtime(FakeLibrary(lacks=frozenset({"aclrtStreamAbort", "aclrtLaunchHostFunc"})))  # type: ignore[arg-type]  # the same
    with pytest.raises(LibraryError, match="aclrtStreamAbort"):
        runtime.abort_stream(1)
    with pytest.raises(LibraryError, match="aclrtLaunchHostFunc"):
        runtime.launch_host_func(1, print)
    assert callbacks._waiting == {}


# ---- functions that are kept ----


def test_a_launched_function_is_kept_until_it_ran_once() -> None:
    runtime = Runtime(FakeLibrary())  # type: ignore[arg-type]  # the same
    ran: list[int] = []
    runtime.launch_callback(lambda: ran.append(1), 64)
    (token,) = callbacks._waiting
    callbacks.CALL_ONCE(token)
    callbacks.CALL_ONCE(token)
    assert ran == [1]
    assert callbacks._waiting == {}


def test_a_refused_function_is_not_kept() -> None:
    library = FakeLibrary()
    library.codes["aclrtLaunchCallback"] = 107015
    with pytest.raises(AclError) as caught:
        Runtime(library).launch_callback(print, 64)  # type: ignore[arg-type]  # the same
    assert caught.value.code == 107015
    assert callbacks._waiting == {}


def test_a_named_function_is_kept_until_it_is_replaced_or_taken_back() -> None:
    runtime = Runtime(FakeLibrary())  # type: ignore[arg-type]  # the same
    seen: list[tuple[int, int]] = []
    runtime.on_stream_state("mine", lambda stream, state: seen.append((stream, state)))
    (first,) = callbacks._named.values()
    first(64, 1, None)
    runtime.on_stream_state("mine", lambda stream, state: None)
    (second,) = callbacks._named.values()
    assert second is not first
    runtime.on_stream_state("mine", None)
    assert callbacks._named == {}
    assert seen == [(64, 1)]


def test_an_exception_in_a_callback_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda info: seen.append(info.exc_value))

    def fails() -> None:
        raise ValueError("told")

    callbacks.CALL_ONCE(callbacks.keep_once(fails))
    assert [str(error) for error in seen] == ["told"]


@pytest.mark.parametrize(
    ("timeout_s", "ms", "s"),
    [(None, -1, 0), (0, 1, 1), (0.0015, 2, 1), (1.5, 1500, 2), (1e12, 2**31 - 1, 2**31 - 1)],
)
def test_time_limits_round_up_and_are_never_zero(timeout_s: float | None, ms: int, s: int) -> None:
    from npu_xfer._cann.calls.base import ms_of, s_of

    assert ms_of(timeout_s) == ms
    assert s_of(timeout_s) == s


@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_a_negative_time_limit_is_refused(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        Runtime(FakeLibrary()).synchronize_stream(64, timeout_s=timeout_s)  # type: ignore[arg-type]  # the same
