"""How a command ends: with which status, and with which words on standard error."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NoReturn

import typer

from npu_xfer.cli._common import write_json
from npu_xfer.errors import XferError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_xfer.cli._common import Screen

__all__ = ["fail", "outcomes", "save"]


def fail(screen: Screen, text: object, status: int) -> NoReturn:
    """Complains and ends the command."""
    screen.complain(str(text))
    raise typer.Exit(status)


@contextlib.contextmanager
def outcomes(screen: Screen) -> Iterator[None]:
    """What the device says ends in status 1, what the user said wrong in status 2."""
    try:
        yield
    except XferError as error:
        fail(screen, error, 1)
    except ValueError as error:
        fail(screen, error, 2)


def save(screen: Screen, target: str | None, data: object) -> None:
    """Writes JSON where the user wants it: a file, "-" for standard output, or None for nowhere."""
    if target is None:
        return
    try:
        write_json(target, data)
    except OSError as error:
        fail(screen, f"{target} cannot be written: {error.strerror or error}", 1)
