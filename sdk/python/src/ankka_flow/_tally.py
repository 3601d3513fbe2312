"""Notices emits that a handler made and did not give back: ``self.out.emit(record)`` without its ``return``.

Such a batch is acknowledged without them, so its records would vanish without a word. It is told and not failed: a
streamlet may make an emit and decide against it, and those that were written for Ankka must run unchanged.

Every emit leaves its outlet's name in the queue of the batch that it is made for. A context variable finds that
queue, for a handler may be one thread or one of many tasks in a thread; what a handler makes in threads of its own
is not counted. This costs an emit 30 ns or so (``bench/overhead.py``).
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Mapping
from contextvars import ContextVar
from threading import Lock

_MOST = 1 << 16  # names kept of one batch; nothing is said about a batch with more

_nobody: deque[str] = deque(maxlen=0)

# Where an emit that is made leaves its outlet's name; outside of a batch, a queue that keeps nothing.
of_this_batch: ContextVar[deque[str]] = ContextVar("ankka_flow emits", default=_nobody)


class Tally:
    """Counts for one handler, which it names as people know it, and warns once."""

    def __init__(self, handler: str) -> None:
        self._handler = handler
        self._silent = Lock()

    def begin(self) -> deque[str]:
        """Count what is made from now on in this thread or task, which begins a batch."""
        names: deque[str] = deque(maxlen=_MOST)
        of_this_batch.set(names)
        return names

    def end(self, names: deque[str], taken: Mapping[str, int]) -> None:
        """Warn where more emits were made (``names``, from ``begin``) than ``taken``, by outlet."""
        if len(names) <= sum(taken.values()) or len(names) == _MOST:
            return
        made = Counter(names)
        outlets = sorted(name for name, count in made.items() if count > taken.get(name, 0))
        if not outlets or not self._silent.acquire(blocking=False):  # never released
            return
        for name in outlets:
            print(
                f"ankka-flow: {self._handler}: an emit of outlet {name!r} was made and not returned: return it or "
                "yield it; emit() only makes it. Without that nothing is written; this is said only once.",
                file=sys.stderr,
                flush=True,
            )
