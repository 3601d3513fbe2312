"""Inlets and outlets: what a streamlet declares, and how an outlet makes emits."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from . import _codec, _tally
from ._frames import MAX_RECORD
from .errors import RecordTooLargeError
from .records import Emit, RawHeaders, Record, Row, emit_row, encode_headers, null_or_bytes

_new = object.__new__
_names = _tally.of_this_batch.get
_set_outlet, _set_what = (Emit.__dict__[slot].__set__ for slot in ("outlet", "_what"))
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
# A record whose value is below this is not measured when it is emitted, but only should its frame get too long.
WORTH_MEASURING = MAX_RECORD // 4


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


DEAD_LETTER = "dead-letter"
"""The name of the port for dead letters."""

UNSET: Final = _Unset()
"""Stands for "keep the record's key", since None removes it."""


def fingerprint(schema_name: str) -> str:
    """A contract's fingerprint: Base64 of the SHA-256 of the schema's name."""
    return base64.b64encode(hashlib.sha256(schema_name.encode()).digest()).decode()


class Port:
    """A named inlet or outlet with its contract. Two ports connect when their format and fingerprint are equal."""

    format = "json"

    def __init__(self, name: str, *, schema_name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"port name {name!r} must match [a-z][a-z0-9-]{{0,62}}")
        if not schema_name:
            raise ValueError(f"port {name!r} needs a schema_name")
        self.name = name
        self.schema_name = schema_name
        self.fingerprint = fingerprint(schema_name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, schema_name={self.schema_name!r})"


class JsonInlet(Port):
    """A port that records come from."""


class JsonOutlet(Port):
    """A port that records go to."""

    def emit(
        self,
        record: Record | None = None,
        *,
        value: bytes | None = None,
        key: bytes | _Unset | None = UNSET,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        timestamp_ms: int | None = None,
    ) -> Emit:
        """A record for this outlet.

        With ``record``, its key, value and headers, each replaced where given; ``key=None`` removes the key. Without
        it ``value`` is required, and there are no key and no headers unless given. ``timestamp_ms`` is milliseconds
        since 1970; None: the time of writing.

        Raises ValueError for neither record nor value, TypeError for what is no bytes, RecordTooLargeError over
        4,128,768 bytes as encoded.
        """
        if record is not None:
            if value is None and key is UNSET and headers is None and timestamp_ms is None:
                made = _new(Emit)  # as Emit(self.name, record) does, without the call of its __init__
                _set_outlet(made, self.name)
                _set_what(made, record)
                _names().append(self.name)
                return made
            if value is None:
                value = record.value
            if key is UNSET:
                key = record.key
        elif value is None:
            raise ValueError(f"outlet {self.name!r}: emit needs a record or a value; a null value is tombstone(key)")
        elif key is UNSET:
            key = None
        return self._row(record, key, value, headers, timestamp_ms)

    def tombstone(
        self,
        key: bytes | None,
        *,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        timestamp_ms: int | None = None,
    ) -> Emit:
        """A record without a value, which deletes ``key`` from a compacted topic. Raises as ``emit``."""
        return self._row(None, key, None, headers, timestamp_ms)

    def _row(
        self,
        source: Record | None,
        key: Any,
        value: Any,
        headers: Sequence[tuple[str, bytes | None]] | None,
        timestamp_ms: int | None,
    ) -> Emit:
        if value.__class__ is not bytes:
            value = null_or_bytes(value, "value")
        if key.__class__ is not bytes:
            key = null_or_bytes(key, "key")
        raw: RawHeaders = ()
        if headers is not None:
            raw = encode_headers(headers)
        elif source is not None:
            raw = source._wire_headers()
        row = make_row(key, value, raw, timestamp_ms)
        if value is not None and len(value) > WORTH_MEASURING:
            check_size(self.name, row)
        _names().append(self.name)
        return emit_row(self.name, row, source)


def make_row(key: bytes | None, value: bytes | None, headers: Any, timestamp_ms: int | None) -> Row:
    """A record as it stands in an emit: trailing nils are left out, as the protocol allows."""
    if timestamp_ms is None:
        return (key, value, headers) if headers else (key, value)
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms < 1 << 53:
        raise ValueError(f"timestamp_ms must be milliseconds since 1970, not {timestamp_ms!r}")
    return (key, value, headers, timestamp_ms)


def row_of(outlet: str, record: Record) -> Row:
    """The row of a record that goes to ``outlet`` as it is. Raises TypeError, RecordTooLargeError."""
    value = null_or_bytes(record.value, f"outlet {outlet!r}: value")
    row = make_row(null_or_bytes(record.key, f"outlet {outlet!r}: key"), value, record._wire_headers(), None)
    if value is not None and len(value) > WORTH_MEASURING:
        check_size(outlet, row)
    return row


def check_size(outlet: str, row: Row) -> None:
    """Raise RecordTooLargeError where the row, as encoded, is over the limit."""
    size = len(_codec.packb(row))
    if size > MAX_RECORD:
        raise RecordTooLargeError(
            f"a record of {size} bytes for outlet {outlet!r}; the limit is {MAX_RECORD} bytes as encoded in a frame"
        )


class DeadLetterOutlet(JsonOutlet):
    """The port that gets the records that an ``ErrorPolicy`` gives up.

    Named ``dead-letter``: ``errors.deadletterqueue.topic.name`` is its topic. What goes there is the record as it came,
    bytes of any kind.
    """

    def __init__(self, *, schema_name: str = "dead-letter") -> None:
        super().__init__(DEAD_LETTER, schema_name=schema_name)
