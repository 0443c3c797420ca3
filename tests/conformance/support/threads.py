"""A second thread that runs what it is given, and never keeps the interpreter from ending."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
DEADLINE_S = 20.0


class Side:
    """One thread. `run` waits for the result, `start` does not; a call that blocks for ever fails the test
    instead of hanging it."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, daemon=True, name="side")
        self._thread.start()

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def start(self, function: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # a skip is one
                future.set_exception(error)

        self._work.put(work)
        return future

    def run(self, function: Callable[[], T]) -> T:
        return self.start(function).result(DEADLINE_S)

    def close(self) -> None:
        self._work.put(None)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a call in the second thread never returned"
