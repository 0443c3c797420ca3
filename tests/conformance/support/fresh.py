"""Runs a function of a test file in a fresh process, where no ACL function was called before.

The processes come from a fork server that never loads the library, because a process forked from one that
uses ACL may not use it, and because a new interpreter for each case would take too long.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection


DEADLINE_S = 30.0
TESTS = Path(__file__).resolve().parents[2]


def _child(pipe: Connection, file: str, name: str, environ: dict[str, str], args: tuple[Any, ...]) -> None:
    os.environ.update(environ)
    try:
        spec = importlib.util.spec_from_file_location("_fresh", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        from conformance.support.face import open_acl

        pipe.send(("value", getattr(module, name)(open_acl(), *args)))
    except pytest.skip.Exception as skipped:
        pipe.send(("skip", str(skipped)))
    except BaseException:  # also pytest's own failures
        pipe.send(("error", traceback.format_exc()))
    pipe.close()
    os._exit(0)  # the result is what counts; how a runtime ends its process is not tested here


@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """The fork server starts with the first process, and finds what it preloads through PYTHONPATH only."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def fresh(function: Callable[..., Any], *args: Any, environ: dict[str, str] | None = None) -> Any:
    """What `function(acl, *args)` returns in a fresh process. It must be a plain function of a test file."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["conformance.support.face", "conformance.support.kit"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_child,
        args=(theirs, function.__code__.co_filename, function.__name__, environ or {}, args),
        daemon=True,
    )
    with _importable():
        process.start()
    theirs.close()
    try:
        if not ours.poll(DEADLINE_S):
            pytest.fail(f"{function.__name__} did not end within {DEADLINE_S} s")
        kind, value = ours.recv()
    except EOFError:
        process.join(DEADLINE_S)
        pytest.fail(f"{function.__name__} ended its process with status {process.exitcode}")
    finally:
        process.kill()
        process.join(DEADLINE_S)
        ours.close()
    if kind == "skip":
        pytest.skip(value)
    if kind == "error":
        pytest.fail(value)
    return value
