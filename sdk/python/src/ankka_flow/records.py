"""Records, batches and emits, exactly as Kafka holds them: nothing is decoded but the names of headers.

Records of a batch are made in bulk, and all but key and value only when somebody looks: a record costs about a third
of a microsecond (``bench/overhead.py``); a frozen dataclass made by its constructor costs three times that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

from .errors import ProtocolError

Headers = list[tuple[str, bytes | None]]
"""Name and value of each header, in order, duplicates included. A name that is not UTF-8 keeps its bytes by
``surrogateescape``."""

RawHeaders = tuple[tuple[bytes, bytes | None], ...]
"""Headers as they stand in a frame."""


class _Seen(tuple):  # type: ignore[type-arg]
    """The row of a record whose ``headers`` were made: that list may have been changed in place since."""

    __slots__ = ()


class _InAFrame:
    """Where a record keeps the row that it came in; no field, so that ``dataclasses.asdict`` shows a record's five."""

    __slots__ = ("_raw",)


@dataclass(frozen=True, slots=True)
class Record(_InAFrame):
    """One record. ``value`` None is a tombstone; null and empty are different for key, value and header values.

    ``offset`` is its place in the inlet's partition (-1 for one that was made here), ``timestamp_ms`` milliseconds
    since 1970 (-1: it has none).
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    offset: int = -1
    timestamp_ms: int = 0

    if TYPE_CHECKING:
        # The row that it came in, ``(offset, timestamp_ms, key, value, headers)``; None for one that was made here.
        @property
        def _raw(self) -> tuple[Any, ...] | None: ...

    else:

        def __getattr__(self, name: str) -> Any:
            if name == "_raw":
                return None
            # A slot that is not set yet: of a record that came in a frame, made when it is looked at.
            made = _LAZY.get(name, _no_attribute)(self._raw, name)
            _SETTERS[name](self, made)
            if name == "headers":
                _SETTERS["_raw"](self, _Seen(self._raw))
            return made

    def _unchanged(self) -> bool:
        """Whether this record came in a frame and its headers still are what came."""
        raw = self._raw
        return raw.__class__ is tuple or (raw is not None and encode_headers(self.headers) == raw[4])

    def _wire_headers(self) -> RawHeaders:
        raw = self._raw
        if raw is not None and raw.__class__ is tuple:
            untouched: RawHeaders = raw[4]
            return untouched
        return encode_headers(self.headers)


def _no_attribute(_row: object, name: str) -> Any:
    raise AttributeError(f"'Record' object has no attribute {name!r}")


_LAZY: dict[str, Any] = {
    "offset": lambda row, _: row[0],
    "timestamp_ms": lambda row, _: row[1],
    "headers": lambda row, _: decode_headers(row[4]),
}
_SETTERS: dict[str, Any] = {
    slot: getattr(Record, slot).__set__ for slot in ("value", "key", "headers", "offset", "timestamp_ms", "_raw")
}
_BYTES_OR_NULL = ({bytes}, {bytes, type(None)}, {type(None)})
_new = object.__new__


def records_of(rows: Sequence[Sequence[Any]]) -> list[Record]:
    """The records of a batch's rows ``(offset, timestamp_ms, key, value, headers)``; more elements are ignored.

    Raises ProtocolError for rows that are too short or hold a wrong type. Headers are checked when looked at.
    """
    try:
        columns = list(zip(*rows, strict=False))
    except TypeError as error:
        raise ProtocolError("a batch with a record that is no array") from error
    if len(columns) < 5:
        raise ProtocolError("a batch with a record of fewer than five elements")
    offsets, stamps, keys, values, headers = columns[:5]
    if not (
        set(map(type, keys)) in _BYTES_OR_NULL
        and set(map(type, values)) in _BYTES_OR_NULL
        and set(map(type, offsets)) == set(map(type, stamps)) == {int}
        and set(map(type, headers)) == {tuple}
    ):
        raise ProtocolError("a batch with a record of the wrong types")
    made = list(map(_new, repeat(Record, len(rows))))
    for slot, column in (("key", keys), ("value", values), ("_raw", rows)):
        deque(map(_SETTERS[slot], made, column), maxlen=0)
    return made


def decode_headers(raw: RawHeaders | None) -> Headers:
    """Raises ProtocolError for what is no header."""
    try:
        return [(header[0].decode("utf-8", "surrogateescape"), header[1]) for header in raw or ()]
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ProtocolError("a record with a header that is no [name, value]") from error


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> RawHeaders:
    """Headers as they stand in a frame. Raises TypeError for a name that is no text or a value that is no bytes."""
    return tuple([(_name(name), null_or_bytes(value, "a header's value")) for name, value in headers])


def _name(name: str | bytes) -> bytes:
    if isinstance(name, str):
        return name.encode("utf-8", "surrogateescape")
    if isinstance(name, bytes):
        return name
    raise TypeError(f"a header's name must be str, not {type(name).__name__}")


def null_or_bytes(value: Any, what: str) -> bytes | None:
    """``value`` as bytes or None. Raises TypeError that names ``what``: a str in a frame would be a violation."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes or None, not {type(value).__name__}")


@dataclass(frozen=True)
class Batch:
    """Records of one partition of one inlet, in offset order. Iterable; ``len`` is their count."""

    inlet: str
    partition: int
    records: list[Record]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


Row = tuple[Any, ...]
"""An emitted record as it stands in a frame: ``(key, value[, headers[, timestamp_ms]])``."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Emit:
    """A record for an outlet, as ``JsonOutlet.emit`` makes it. Immutable.

    It is stamped with the time of writing unless ``emit`` was told a ``timestamp_ms``.
    """

    __match_args__ = ("outlet", "record")
    __slots__ = ("_source", "_what", "outlet", "record")

    outlet: str
    record: Record

    if TYPE_CHECKING:
        # The record itself where it goes out as it is, else the row; then the record that the row was derived from.
        @property
        def _what(self) -> Record | Row: ...
        @property
        def _source(self) -> Record | None: ...

    def __init__(self, outlet: str, record: Record) -> None:
        _set_outlet(self, outlet)
        _set_what(self, record)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # A slot that is not set yet.
            if name != "record":
                raise AttributeError(f"'Emit' object has no attribute {name!r}")
            what = self._what
            made = what if isinstance(what, Record) else _record_of(what, self._source)
            _set_emitted(self, made)
            return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Emit):
            return NotImplemented
        return self.outlet == other.outlet and self.record == other.record

    __hash__ = None  # type: ignore[assignment]  # a record's headers are a list

    def __repr__(self) -> str:
        return f"Emit(outlet={self.outlet!r}, record={self.record!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        what = self._what
        return (
            (Emit, (self.outlet, what)) if isinstance(what, Record) else (emit_row, (self.outlet, what, self._source))
        )


_set_outlet, _set_emitted, _set_source, _set_what = (
    Emit.__dict__[slot].__set__ for slot in ("outlet", "record", "_source", "_what")
)


def emit_row(outlet: str, row: Row, source: Record | None) -> Emit:
    """An emit of other bytes; ``source`` is the record that it was derived from. Its ``record`` is made on demand."""
    made = _new(Emit)
    _set_outlet(made, outlet)
    _set_what(made, row)
    _set_source(made, source)
    return made


def _record_of(row: Row, source: Record | None) -> Record:
    stamp = row[3] if len(row) > 3 else None
    if stamp is None:
        stamp = source.timestamp_ms if source is not None else 0
    return Record(
        value=row[1],
        key=row[0],
        headers=decode_headers(row[2] if len(row) > 2 else ()),
        offset=source.offset if source is not None else -1,
        timestamp_ms=stamp,
    )
