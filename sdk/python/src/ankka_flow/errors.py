"""The exceptions of this package.

::

    ValueError
     ├── UndeclaredOutletError   an emit for an outlet that the streamlet does not declare; fails the batch
     ├── RecordTooLargeError     a record that fits into no frame; raised by ``emit``, or fails the batch
     ├── NullValueError          ``json.loads`` of a tombstone's value; a TypeError as well
     └── DecodeError             raise it where key, value or headers cannot be decoded
    Exception
     ├── ProtocolError           the supervisor's bytes make no sense; ends the process
     ├── KilledTheProcess        what is told of a record that ended the process as often as the policy allows
     ├── BatchError              raise it in ``process``: these records failed, the others were handled
     └── verdicts, which a handler raises to say itself what becomes of its record
          ├── Retriable          try again, as the policy has it
          ├── Fatal              fail the batch, whatever the policy tolerates
          ├── Skip               go on without it
          └── DeadLetter         write it to the dead-letter outlet and go on
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal


class UndeclaredOutletError(ValueError):
    """An emit names an outlet that the streamlet does not declare. The batch fails; declare the port."""


class RecordTooLargeError(ValueError):
    """A record, as encoded in a frame, is over 4,128,768 bytes. Names outlet and size; make the record smaller."""


class NullValueError(TypeError, ValueError):
    """``json.loads`` was given None, the value of a tombstone: look at ``record.value`` first, or skip such records.

    A ValueError as well, as for the empty value that Ankka gives instead: what skips records that are no JSON skips
    tombstones too.
    """


class ProtocolError(Exception):
    """The supervisor broke the protocol. No handler sees it: it is printed and the process exits with 1."""


class DecodeError(ValueError):
    """Part of the record cannot be decoded: ``part`` is ``key``, ``value`` or ``headers``. Treated as any error.

    Its stage is Connect's KEY_CONVERTER, VALUE_CONVERTER or HEADER_CONVERTER. What ``ankka_flow.json.loads`` raises for
    a record's own key, value or header has that stage without it.
    """

    def __init__(self, message: str = "", *, part: Literal["key", "value", "headers"] = "value") -> None:
        super().__init__(message)
        self.part = part


class KilledTheProcess(Exception):
    """Names a record that was delivered ``deliveries.max`` times, after each of which the process was gone."""


class Retriable(Exception):
    """Try this record again, for as long as the policy's retry timeout says.

    ``after`` is the wait until then, in seconds or as a timedelta; None: the policy's. It never passes the timeout.
    Without a policy, or where the timeout is 0, there is no retry, and this is an error as any other.
    """

    def __init__(self, message: object = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message)
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        if seconds is not None and not 0 <= seconds < 1e12:
            raise ValueError(f"after must be 0 or more seconds, not {after!r}")
        self.after_ms: int | None = None if seconds is None else round(seconds * 1000)


class Fatal(Exception):
    """Fail the batch. No policy retries or tolerates this: for what is no fault of the record."""


class Skip(Exception):
    """Go on without this record, also where the policy tolerates nothing. It counts as skipped."""


class DeadLetter(Exception):
    """Write this record to the dead-letter outlet and go on, also where the policy tolerates nothing.

    ``headers`` are added behind those of the context. Without a dead-letter outlet the batch fails.
    """

    def __init__(self, message: object = "", *, headers: Iterable[tuple[str, bytes | None]] = ()) -> None:
        super().__init__(message)
        self.headers = list(headers)


class BatchError(Exception):
    """Says which records of a batch failed: ``errors`` maps a record's place in it to its exception.

    The others count as handled, and what ``process`` yielded before it raised this is kept; a handler that returns its
    emits gives them as ``emits``. Retried records come alone in a batch later, so their emits follow those of records
    behind them. Without a policy the batch fails.
    """

    def __init__(self, errors: Mapping[int, BaseException], emits: Sequence[Any] = ()) -> None:
        named = ", ".join(f"{index}: {type(error).__name__}" for index, error in sorted(errors.items())[:5])
        super().__init__(f"{len(errors)} records of the batch failed ({named}{', ...' if len(errors) > 5 else ''})")
        if not errors:
            raise ValueError("a BatchError that names no record; return instead")
        self.errors = dict(errors)
        self.emits = list(emits)
