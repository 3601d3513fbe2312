"""Where handlers run: a thread per batch in flight, or a task per batch in one event loop.

Threads: up to ``limit`` workers, started on demand, and for ``async`` handlers one more with the event loop. All
are daemons: at the end of input the process exits whatever they do, and nobody awaits them.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any


class Workers:
    """Runs calls in threads that are kept. ``submit`` never blocks; a call must not raise."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0  # calls that are queued or run

    def submit(self, call: Callable[[], None]) -> None:
        """Run ``call`` in a thread, at once where fewer than ``limit`` run."""
        with self._lock:
            self._open += 1
            number = self._threads + 1
            start = self._open > self._threads and self._threads < self._limit
            self._threads += start
        self._calls.put(call)
        if start:
            threading.Thread(target=self._work, name=f"ankka-flow worker {number}", daemon=True).start()

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                call()
            finally:
                del call  # it holds the batch
                with self._lock:
                    self._open -= 1


class EventLoop:
    """One event loop in a thread, for ``async`` handlers."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._run, name="ankka-flow event loop", daemon=True).start()

    def submit(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine that ``make`` gives as a task; it must not raise. Never blocks."""
        self._loop.call_soon_threadsafe(self._start, make)

    def _start(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(make())
        self._tasks.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._tasks.discard)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                pass  # a task that a handler made itself raised it; the loop serves other batches
