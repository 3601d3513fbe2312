"""A batch's emits on their way into frames. No IO here.

Emits are grouped by outlet: one frame for each, and all of them in one piece with the answer. Order is kept within
each outlet, which is all that Kafka can show (an outlet is a topic); between outlets it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from . import _codec, _frames
from .errors import UndeclaredOutletError
from .ports import WORTH_MEASURING, check_size, row_of
from .records import Emit, Record

FLUSH_AT = 1024 * 1024
"""Bytes of values after which frames go out before the batch is done, so that a long batch is not held twice."""

_WORTH_FORWARDING = 16  # a shorter run of unchanged records between changed ones goes out as bytes: fewer frames
_MOST_INDEXES = 400_000  # in one frame: at most 5 bytes each


class Collector:
    """Takes the emits of one batch and gives frames. ``flush`` gets the frames that cannot wait; may block."""

    def __init__(
        self,
        batch_id: int,
        outlets: Iterable[str],
        records: Sequence[Record],
        flush: Callable[[list[bytes]], None] | None = None,
    ) -> None:
        self._id = batch_id
        # Per outlet, in order: an index of an unchanged record, or the row of another one.
        self._items: dict[str, list[Any]] = {name: [] for name in outlets}
        self._records = tuple(records)  # the handler may change its list
        self._places: dict[int, int] | None = None
        self._size = 0
        self._next = 0  # where an unchanged record is looked for first: a handler goes through its records in order
        self._flush = flush
        self.taken: dict[str, int] = {}
        """How many emits of each outlet are in frames."""

    def consume(self, emits: Iterable[Emit]) -> None:
        """Take every emit. Raises what the iterable raises, and for an emit that cannot be sent."""
        items_of, records, n = self._items, self._records, len(self._records)
        at = -1  # where the last unchanged record stood: a handler goes through its records in order, as a rule
        for emit in emits:
            if emit.__class__ is not Emit:
                raise _not_an_emit(emit)
            items = items_of.get(emit.outlet)
            if items is None:
                raise self._undeclared(emit.outlet)
            what: Any = emit._what
            if what.__class__ is Record:
                at += 1
                if not (at < n and records[at] is what):
                    at = self._place(what)
                if at >= 0 and (what._raw.__class__ is tuple or what._unchanged()):
                    items.append(at)
                    continue
                what = row_of(emit.outlet, what)
            items.append(what)
            value = what[1]
            if value is not None:
                self._size += len(value)
                if self._size >= FLUSH_AT and self._flush is not None:
                    self._flush(self.frames())

    def take(self, emits: Emit | Iterable[Emit]) -> None:
        """Take one emit, or every one of several, or none where one cannot be sent or the iterable raises."""
        if emits.__class__ is Emit:
            self.keep([self.ready(emits)])
        else:
            self.keep([self.ready(emit) for emit in emits])  # type: ignore[union-attr]

    def ready(self, emit: Emit) -> tuple[list[Any], Any]:
        """An emit as it will be kept. Raises for one that cannot be sent, and then nothing has changed."""
        if emit.__class__ is not Emit:
            raise _not_an_emit(emit)
        items = self._items.get(emit.outlet)
        if items is None:
            raise self._undeclared(emit.outlet)
        what: Any = emit._what
        if what.__class__ is Record:
            place = self._next
            if not (place < len(self._records) and self._records[place] is what):
                place = self._place(what)
            if place >= 0 and (what._raw.__class__ is tuple or what._unchanged()):
                self._next = place + 1
                return items, place
            what = row_of(emit.outlet, what)
        if len(what) > 2 or (what[0] is not None and len(what[0]) > WORTH_MEASURING):
            check_size(emit.outlet, what)
        return items, what

    def keep(self, ready: Iterable[tuple[list[Any], Any]]) -> None:
        """Take what ``ready`` gave; flushes as ``consume`` does."""
        for items, what in ready:
            items.append(what)
            if what.__class__ is not int and what[1] is not None:
                self._size += len(what[1])
        if self._size >= FLUSH_AT and self._flush is not None:
            self._flush(self.frames())

    def row(self, outlet: str, row: Any) -> None:
        """Take a row as it is."""
        self._items[outlet].append(row)
        self._size += len(row[1] or b"")

    def full(self) -> bool:
        """Whether frames should go out now, for who consumes without a ``flush``."""
        return self._size >= FLUSH_AT

    def frames(self) -> list[bytes]:
        """The frames of what was taken since the last call. Raises RecordTooLargeError."""
        frames: list[bytes] = []
        for outlet, items in self._items.items():
            if not items:
                continue
            kinds = set(map(type, items))
            if kinds == {int}:
                self._forward(outlet, items, frames)
            elif int in kinds:
                self._mixed(outlet, items, frames)
            else:
                self._emit(outlet, items, frames)
            self._items[outlet] = []
            self.taken[outlet] = self.taken.get(outlet, 0) + len(items)
        self._size = 0
        return frames

    def _place(self, record: Record) -> int:
        """The place of the batch's own record, or -1 for another one, equal or not."""
        if self._places is None:
            self._places = {id(known): place for place, known in enumerate(self._records)}
        return self._places.get(id(record), -1)

    def _forward(self, outlet: str, indexes: list[int], frames: list[bytes]) -> None:
        n = len(self._records)
        if len(indexes) == n and indexes == list(range(n)):
            frames.append(_frames.encode(("forward", self._id, outlet, None)))
            return
        for at in range(0, len(indexes), _MOST_INDEXES):
            frames.append(_frames.encode(("forward", self._id, outlet, indexes[at : at + _MOST_INDEXES])))

    def _mixed(self, outlet: str, items: list[Any], frames: list[bytes]) -> None:
        rows: list[Any] = []
        for kind, group in groupby(items, type):
            run = list(group)
            if kind is int and len(run) >= _WORTH_FORWARDING:
                if rows:
                    self._emit(outlet, rows, frames)
                    rows = []
                self._forward(outlet, run, frames)
            elif kind is int:
                rows += [row_of(outlet, self._records[index]) for index in run]
            else:
                rows += run
        if rows:
            self._emit(outlet, rows, frames)

    def _emit(self, outlet: str, rows: list[Any], frames: list[bytes]) -> None:
        body = _codec.packb(("emit", self._id, outlet, rows))
        if len(body) > _frames.MAX_RECORD:  # any frame with a record over the limit is longer than that
            for row in rows:
                check_size(outlet, row)
        if len(body) <= _frames.MAX_FRAME:
            frames.append(len(body).to_bytes(4, "big") + body)
            return
        half = len(rows) // 2  # not 0: a single record within its limit fits into a frame
        self._emit(outlet, rows[:half], frames)
        self._emit(outlet, rows[half:], frames)

    def _undeclared(self, outlet: str) -> Exception:
        declared = ", ".join(sorted(self._items)) or "none"
        return UndeclaredOutletError(f"an emit for outlet {outlet!r}, which is not declared; declared: {declared}")


def _not_an_emit(thing: object) -> Exception:
    return TypeError(f"the handler gave a {type(thing).__name__} where an Emit is due; outlet.emit(...) makes one")
