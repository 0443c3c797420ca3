"""The process's one choice of ACL library, made at first use and kept.

Threads: any thread; two first calls at once choose twice and agree.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from npu_xfer._cann.locate import Located, find_library
from npu_xfer._cann.runtime import Runtime
from npu_xfer._settings import Settings, settings

if TYPE_CHECKING:
    from npu_xfer._types import LibraryInfo

__all__ = ["choose_library", "forget_library", "located_library", "open_runtime"]


@functools.cache
def _locate(chosen: Settings) -> Located:
    return find_library(chosen)


def located_library(chosen: Settings | None = None) -> Located:
    """The opened library with everything that was looked at. `chosen` None means the environment's settings.

    Raises LibraryError as `find_library` does; a failure is not kept, so that a later call looks again.
    """
    return _locate(settings() if chosen is None else chosen)


def choose_library(chosen: Settings | None = None) -> LibraryInfo:
    """Which ACL library this process uses, and why. Loads it, and calls no ACL function."""
    return located_library(chosen).info


def open_runtime(chosen: Settings | None = None) -> Runtime:
    """The control plane over the chosen library. Initialises nothing."""
    return Runtime(located_library(chosen).library)


def forget_library() -> None:
    """Drops the settings and the choice, for tests that change the environment. Libraries stay loaded."""
    settings.cache_clear()
    _locate.cache_clear()
