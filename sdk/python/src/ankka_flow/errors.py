"""The exceptions of this package.

::

    ValueError
     ├── UndeclaredOutletError   an emit for an outlet that the streamlet does not declare; fails the batch
     └── RecordTooLargeError     a record that fits into no frame; raised by ``emit``, or fails the batch
    Exception
     └── ProtocolError           the supervisor's bytes make no sense; ends the process
"""

from __future__ import annotations


class UndeclaredOutletError(ValueError):
    """An emit names an outlet that the streamlet does not declare. The batch fails; declare the port."""


class RecordTooLargeError(ValueError):
    """A record, as encoded in a frame, is over 4,128,768 bytes. Names outlet and size; make the record smaller."""


class ProtocolError(Exception):
    """The supervisor broke the protocol. No handler sees it: it is printed and the process exits with 1."""
