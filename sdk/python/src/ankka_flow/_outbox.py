"""Writes frames to the supervisor without ever making the reader wait.

Whoever queues a piece tries to become the writer; if another thread already writes, that thread writes this piece
as well. So a worker's answer goes out by its own hand, without waking anybody, and the reader never waits: it only
writes what a pipe takes at once, and otherwise leaves the piece to the flusher thread.

Threads: one daemon thread, the flusher, started at the first piece that the reader could not write; it ends with
the process and nobody awaits it.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

_ONE_WRITE = 256 * 1024  # a piece below this goes out whole; a larger one frame by frame, so that pongs pass it
_AT_ONCE = 512  # bytes that a pipe which polls as writable takes without blocking (POSIX's least PIPE_BUF)


class _Piece(NamedTuple):
    data: bytes
    written: Callable[[], None] | None


class Outbox:
    """A queue of frames and its writer. ``broken`` is called once when nobody reads any more; it may not return."""

    def __init__(self, descriptor: int, broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._broken = broken
        self._failed = False
        self._urgent: deque[_Piece] = deque()
        self._queue: deque[_Piece] = deque()
        self._writing = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._flusher: threading.Thread | None = None
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def put(self, frames: list[bytes], *, urgent: bool = False, written: Callable[[], None] | None = None) -> None:
        """Queue whole frames in order; never blocks. Follow it by a pump. ``written`` is called when they are out."""
        whole = b"".join(frames) if len(frames) > 1 else frames[0]
        if urgent:
            self._urgent.append(_Piece(whole, written))
        elif len(whole) <= _ONE_WRITE or len(frames) == 1:
            self._queue.append(_Piece(whole, written))
        else:
            # In one step: another thread's pieces may stand between ours, but ours never change order, and each
            # is a whole frame.
            self._queue.extend([*(_Piece(frame, None) for frame in frames[:-1]), _Piece(frames[-1], written)])

    def pump(self) -> None:
        """Write until the queue is empty, or leave it to the thread that is writing. Blocks while the pipe is full."""
        while self._urgent or self._queue:
            if not self._writing.acquire(blocking=False):
                return  # its holder looks again after it let go
            try:
                while piece := self._next():
                    self._write(piece)
            finally:
                self._writing.release()

    def pump_without_waiting(self) -> None:
        """Write what the pipe takes at once; the rest is written by whoever is writing, or by the flusher."""
        while self._urgent or self._queue:
            if not self._writing.acquire(blocking=False):
                return
            stuck = False
            try:
                while piece := self._next():
                    stuck = len(piece.data) > _AT_ONCE or not self._poll.poll(0)
                    if stuck:
                        self._urgent.appendleft(piece)  # it was the next one; it still is
                        break
                    self._write(piece)
            finally:
                self._writing.release()
            if stuck:
                self._leave_to_flusher()
                return

    def _next(self) -> _Piece | None:
        for queue in (self._urgent, self._queue):
            if queue:
                return queue.popleft()
        return None

    def _write(self, piece: _Piece) -> None:
        if not self._failed:
            try:
                rest = memoryview(piece.data)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                self._failed = True
                self._broken()
        if piece.written is not None:
            piece.written()

    def _leave_to_flusher(self) -> None:
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._flush, name="ankka-flow writer", daemon=True)
            self._flusher.start()
        self._wake.release()

    def _flush(self) -> None:
        while True:
            self._wake.acquire()
            self.pump()
