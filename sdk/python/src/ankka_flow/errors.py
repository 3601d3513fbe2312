"""The exceptions of this package.

::

    ValueError
     ├── UndeclaredOutletError   an emit for an outlet that the streamlet does not declare; fails the batch
     ├── RecordTooLargeError     a record that fits into no frame; raised by ``emit``, or fails the batch
     └── NullValueError          ``json.loads`` of a tombstone's value; a TypeError as well
    Exception
     └── ProtocolError           the supervisor's bytes make no sense; ends the process
"""

from __future__ import annotations


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
