"""Finds the ``ankka-flow run --attach`` that waits for a program started by hand (protocol, "Attach").

It listens at a Unix socket, ``.ankka-flow/attach.sock`` in the folder where it runs; programs look for it in their
own working directory and upwards. ``FLOW_ATTACH`` names another path, and then only that one is tried. The frames on
the socket are those of the pipes, so stdin and stdout stay the program's own, and a debugger has its terminal.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ._stdio import Wire

VARIABLE = "FLOW_ATTACH"
SOCKET = Path(".ankka-flow") / "attach.sock"


class AttachError(Exception):
    """``FLOW_ATTACH`` names a socket at which nobody listens."""


_kept: socket.socket | None = None  # its descriptors are closed with it


def connect() -> Wire | None:
    """The connection to a supervisor that waits, or None where none does. Raises AttachError."""
    global _kept
    named = os.environ.get(VARIABLE)
    for path in [Path(named)] if named else _candidates():
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(str(path))
        except OSError as error:  # not there, nobody listens any more, not ours, too long
            link.close()
            if named:
                reason = error.strerror or str(error)
                raise AttachError(f"{VARIABLE}={named}: {reason}; does `ankka-flow run --attach` run there?") from error
            continue
        _kept = link
        os.register_at_fork(after_in_child=link.close)  # the end of this process shall be the end of the link
        return Wire(link.fileno(), link.fileno())
    return None


def _candidates() -> list[Path]:
    """The paths from here upwards, each relative to here: a Unix socket's path may not be long."""
    depth = len(Path.cwd().parents)
    return [Path(*[".."] * up) / SOCKET for up in range(depth + 1)]
