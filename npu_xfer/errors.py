"""Every exception and warning that npu_xfer raises.

One base, `XferError`, so that a single ``except`` catches everything. Each class carries typed fields and a
message that says what was asked, what was found and what to do next. The classes hold no table of codes:
name, meaning and remedy of an ACL code come from `npu_xfer._cann.codes`, whose `acl_error` and
`transfer_error` are the usual way to build the two classes that report a code.

Every error survives pickling (also between processes), including its notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "AclError",
    "BatchError",
    "ClosedError",
    "EngineDead",
    "ForkedProcessError",
    "InvalidTransfer",
    "LibraryError",
    "ResourceError",
    "TransferError",
    "TransferResourceError",
    "TransferTimeout",
    "TransferWarning",
    "TransferWithdrawn",
    "UnsupportedDType",
    "WouldBlock",
    "XferError",
]

_N_SHOWN = 5  # failures of a batch that its message spells out


def _rebuild(cls: type[XferError], args: tuple[object, ...], state: dict[str, Any]) -> XferError:
    """Recreates a pickled error without running its __init__, whose parameters differ by class."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    if isinstance(error, EngineDead) and isinstance(error.cause, BaseException):
        error.__cause__ = error.cause
    return error


def _first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def _sentence(text: str, stop: str = ".") -> str:
    return text if text.endswith((".", "!", "?", "\u3002")) else text + stop


def _with_remedy(text: str, remedy: str | None) -> str:
    if not remedy:
        return text
    if _is_chinese(remedy):
        stop = "\u3002"  # the ideographic full stop; the words before the remedy are "what to do:"
        return f"{_sentence(text, stop)}\u5904\u7406\uff1a{_sentence(remedy, stop)}"
    return f"{_sentence(text)} Do: {_sentence(remedy)}"


def _failed_call(call: str, code: int, name: str, meaning: str | None) -> str:
    text = f"{call} returned {code} ({name})"
    return f"{text}: {meaning}" if meaning else text


def _runtime_said(message: str | None) -> str:
    said = _first_line(message)
    return f'. The runtime said: "{said}"' if said else ""


class XferError(Exception):
    """Base of all errors of this package.

    The attributes exist on every subclass, so that a handler can read them without asking for the type first;
    they are None where they mean nothing.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    code: int | None = None  # aclError
    name: str | None = None  # the code's constant, for example "ACL_ERROR_RT_PARAM_INVALID"
    call: str | None = None  # the function that reported it
    direction: str | None = None  # "h2d" or "d2h"
    nbytes: int | None = None
    stream: int | None = None  # the stream's handle
    device: int | None = None
    remedy: str | None = None  # what to do about it

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(_with_remedy(message, remedy))
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))

    def __repr__(self) -> str:
        shown = [f"{field}={getattr(self, field)!r}" for field in self._fields]
        if not shown:
            shown = [repr(str(self))]
        return f"{type(self).__name__}({', '.join(shown)})"


class AclError(XferError):
    """A control call (device, memory, stream, event, version) of the ACL library failed.

    Nothing was created by the failing call. `message` is the runtime's own text, or None when it left none.
    """

    _fields: ClassVar[tuple[str, ...]] = ("call", "code", "name", "message")

    code: int
    name: str
    call: str
    message: str | None

    def __init__(
        self,
        call: str,
        code: int,
        name: str,
        *,
        meaning: str | None = None,
        message: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(_failed_call(call, code, name, meaning) + _runtime_said(message), remedy=remedy)
        self.code = code
        self.name = name
        self.call = call
        self.message = message


class ResourceError(AclError):
    """The device or the host ran out of something: memory, streams or events.

    Nothing was allocated. The same call may succeed after something was freed.
    """


class TransferError(XferError):
    """A transfer that was accepted failed later.

    The destination's bytes are undefined, the source is untouched and both may be reused once the error is
    seen. `message` is the runtime's own text, or None.
    """

    _fields: ClassVar[tuple[str, ...]] = (
        "direction",
        "nbytes",
        "device",
        "stream",
        "call",
        "code",
        "name",
        "message",
    )

    code: int
    name: str
    call: str
    direction: str
    nbytes: int
    stream: int | None
    device: int
    message: str | None

    def __init__(
        self,
        call: str,
        code: int,
        name: str,
        *,
        direction: str,
        nbytes: int,
        device: int,
        stream: int | None = None,
        meaning: str | None = None,
        message: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.code = code
        self.name = name
        self.call = call
        self.direction = str(direction)
        self.nbytes = nbytes
        self.stream = stream
        self.device = device
        self.message = message
        XferError.__init__(self, self._compose(meaning), remedy=remedy)  # also below two bases

    def _what(self) -> str:
        side = "from" if self.direction == "d2h" else "to"
        return f"{self.direction.upper()} transfer of {self.nbytes} bytes {side} device {self.device}"

    def _on_stream(self) -> str:
        return "" if self.stream is None else f" on stream {self.stream:#x}"

    def _compose(self, meaning: str | None) -> str:
        failed = _failed_call(self.call, self.code, self.name, meaning)
        return f"{self._what()}{self._on_stream()} failed: {failed}{_runtime_said(self.message)}"


class TransferResourceError(TransferError, ResourceError):
    """A transfer failed because memory, streams or events ran out: a TransferError and a ResourceError."""


class TransferWithdrawn(XferError):
    """A transfer was taken back before all of it was copied: by a cancelled await, or by `withdraw`.

    The destination's bytes are undefined; source and destination may be reused.
    """

    _fields: ClassVar[tuple[str, ...]] = ("direction", "nbytes", "device")

    direction: str
    nbytes: int
    device: int

    def __init__(self, *, direction: str, nbytes: int, device: int) -> None:
        self.direction = direction
        self.nbytes = nbytes
        self.device = device
        super().__init__(
            f"{direction.upper()} transfer of {nbytes} bytes on device {device} was withdrawn "
            "before all of it was copied",
            remedy="submit it again if it is still wanted",
        )


class TransferTimeout(XferError, TimeoutError):
    """A transfer was not over by its deadline.

    What was not on the device's queues was dropped. `in_flight`: the rest still holds the source and the
    destination, which may be read and written until `Transfer.quiesced` returns; else they may be reused. The
    destination's bytes are undefined. `waited_for` says what it was waiting for, `age_s` for how long it had
    been submitted (0: it had no room in the window), `stream` where a part of it is.
    """

    _fields: ClassVar[tuple[str, ...]] = (
        "direction",
        "nbytes",
        "device",
        "stream",
        "age_s",
        "waited_for",
        "in_flight",
    )

    direction: str
    nbytes: int
    device: int
    stream: int | None
    age_s: float
    waited_for: str
    in_flight: bool

    def __init__(
        self,
        *,
        direction: str,
        nbytes: int,
        device: int,
        age_s: float,
        waited_for: str,
        in_flight: bool,
        stream: int | None = None,
    ) -> None:
        self.direction = direction
        self.nbytes = nbytes
        self.device = device
        self.stream = stream
        self.age_s = age_s
        self.waited_for = waited_for
        self.in_flight = in_flight
        where = "" if stream is None else f" (stream {stream})"
        XferError.__init__(
            self,
            f"{direction.upper()} transfer of {nbytes} bytes on device {device} was late: not over "
            f"{age_s:.3g} s after its submit, its deadline; it waited for {waited_for}{where}",
            remedy="its buffers are in use until quiesced() returns"
            if in_flight
            else "nothing of it is in use any more; submit it again with a later deadline",
        )


class BatchError(XferError):
    """Some transfers of a batch failed; the others are complete.

    `errors` maps an item's place to its error; `results` has the finished results in input order with None at
    the failed places; `n` is the number of items. A pickled copy keeps `errors` and `n` but has None for
    every result, because device memory cannot leave its process.
    """

    _fields: ClassVar[tuple[str, ...]] = ("n", "errors")

    errors: dict[int, XferError]
    results: list[object]
    n: int

    def __init__(self, errors: Mapping[int, XferError], results: Sequence[object]) -> None:
        self.errors = dict(sorted(errors.items()))
        self.results = list(results)
        self.n = len(self.results)
        stray = [place for place in self.errors if not 0 <= place < self.n]
        if not self.errors or stray:
            raise ValueError(
                f"a batch error needs failed places inside 0..{self.n - 1}, got {stray or 'none'}"
            )
        shown = [f"[{place}] {error}" for place, error in list(self.errors.items())[:_N_SHOWN]]
        more = len(self.errors) - len(shown)
        if more:
            shown.append(f"and {more} more in .errors")
        super().__init__(f"{len(self.errors)} of {self.n} transfers failed: " + "; ".join(shown))

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        state["results"] = [None] * self.n
        return _rebuild, (type(self), self.args, state)


class InvalidTransfer(XferError, ValueError):
    """A request was refused before the runtime saw it: sizes, sides, layout, ownership.

    Nothing was created and no buffer was touched. Also a `ValueError`.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        message: str,
        *,
        direction: str | None = None,
        nbytes: int | None = None,
        device: int | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.direction = None if direction is None else str(direction)
        self.nbytes = nbytes
        self.device = device


class UnsupportedDType(InvalidTransfer, TypeError):
    """The element type cannot be moved (object dtype, foreign byte order). Also a `TypeError`.

    `dtype` is the text of the type that was refused.
    """

    dtype: str | None

    def __init__(self, message: str, *, dtype: object = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.dtype = None if dtype is None else str(dtype)


class ClosedError(XferError):
    """The scheduler (or another object) was closed, or is closing, and takes no further work."""

    def __init__(
        self,
        message: str = "this scheduler is closed and takes no further work",
        *,
        remedy: str | None = "open a new scheduler",
    ) -> None:
        super().__init__(message, remedy=remedy)


class WouldBlock(XferError):
    """The window of a scheduler is full, or others wait for room in it.

    Raised by the verbs that end in ``_nowait``; the others wait until there is room.
    """

    def __init__(
        self,
        message: str = "the window is full",
        *,
        remedy: str | None = "await the verb without _nowait, or a transfer; or set a larger window",
    ) -> None:
        super().__init__(message, remedy=remedy)


class ForkedProcessError(XferError):
    """An object that belongs to the parent was used in a forked child, where the ACL runtime cannot work.

    CANN's own threads do not exist after a fork, so a synchronisation there never returns.
    """

    _fields: ClassVar[tuple[str, ...]] = ("owner_pid", "pid")

    owner_pid: int | None
    pid: int | None

    def __init__(
        self, what: str = "Scheduler", *, owner_pid: int | None = None, pid: int | None = None
    ) -> None:
        opened = "" if owner_pid is None else f" in process {owner_pid}"
        used = "" if pid is None else f" {pid}"
        super().__init__(
            f"this {what} was opened{opened} and cannot be used in the process{used} made from it by fork",
            remedy='start workers with multiprocessing.get_context("spawn") and open a new one in each',
        )
        self.owner_pid = owner_pid
        self.pid = pid


class LibraryError(XferError):
    """No usable ACL library, or the loaded one lacks a function that was asked for.

    `candidates` holds (path or library name, why it was not used) in the order of the search.
    """

    _fields: ClassVar[tuple[str, ...]] = ("summary", "candidates")

    summary: str
    candidates: tuple[tuple[str, str], ...]

    def __init__(
        self, summary: str, *, candidates: Iterable[tuple[str, str]] = (), remedy: str | None = None
    ) -> None:
        self.summary = summary
        self.candidates = tuple((str(path), str(why)) for path, why in candidates)
        text = summary
        if self.candidates:
            text += ". Tried: " + "; ".join(f"{path}: {why}" for path, why in self.candidates)
        super().__init__(text, remedy=remedy)


class EngineDead(XferError):
    """The native engine stopped for good. Everything pending and everything later fails with this.

    `cause` is the first failure, an exception or a text; as an exception it is also `__cause__`.
    """

    _fields: ClassVar[tuple[str, ...]] = ("cause", "device")

    cause: BaseException | str

    def __init__(self, cause: BaseException | str, *, device: int | None = None) -> None:
        of = "the transfer engine" if device is None else f"the transfer engine of device {device}"
        said = f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else cause
        super().__init__(
            f"{of} stopped after its first failure: {said}",
            remedy="close this scheduler and open a new one; restart the process if the device is lost",
        )
        self.cause = cause
        self.device = device
        if isinstance(cause, BaseException):
            self.__cause__ = cause


class TransferWarning(ResourceWarning):
    """Something went wrong where nothing can be raised: a destructor, process exit, a close that gave up.

    A `ResourceWarning`, because each case is a resource that was not closed or not given back in order.
    """
