"""Calls later, in one thread for all of them.

Threads: one daemon, started at the first call that is put off; it ends with the process and nobody awaits it.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count


class Timer:
    """``call`` may come from any thread. What is called runs in the timer's thread and must not block or raise."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def call(self, after_ms: int, what: Callable[[], None]) -> None:
        """Call ``what`` once, ``after_ms`` milliseconds from now or a little later."""
        with self._news:
            heapq.heappush(self._heap, (time.monotonic() + after_ms / 1000, next(self._order), what))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ankka-flow timer", daemon=True)
                self._thread.start()
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._heap or (left := self._heap[0][0] - time.monotonic()) > 0:
                    self._news.wait(min(left, _LONGEST) if self._heap else None)
                what = heapq.heappop(self._heap)[2]
            what()
            del what


_LONGEST = 3600.0  # seconds of one wait: a condition does not take every number
