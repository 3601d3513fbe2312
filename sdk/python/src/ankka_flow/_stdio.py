"""Takes stdin and stdout away for the protocol before user code runs (protocol, "stdout belongs to the protocol").

A process launched by ankka-flow finds ``ANKKA_FLOW_PROTOCOL`` in its environment. Then, when this module is
imported, the real descriptors are duplicated away, fd 1 becomes stderr and fd 0 becomes ``/dev/null``: neither
``print`` nor a C library nor a grandchild can touch the wire. The variable is removed, so that a grandchild does
not take itself for a launched process. Run by hand, nothing is touched.
"""

from __future__ import annotations

import io
import os
import sys
from typing import NamedTuple

VARIABLE = "ANKKA_FLOW_PROTOCOL"


class Wire(NamedTuple):
    """The descriptors that carry the protocol: ``read`` from the supervisor, ``write`` to it."""

    read: int
    write: int


_wire: Wire | None = None


def wire() -> Wire | None:
    """The protocol's descriptors, or None in a program that ankka-flow did not launch."""
    return _wire


def take_over() -> None:
    """Take the descriptors if this process was launched; a second call finds the variable gone and does nothing."""
    global _wire
    if os.environ.pop(VARIABLE, None) is None:
        return
    _wire = Wire(os.dup(0), os.dup(1))  # os.dup makes them non-inheritable: no exec'ed grandchild has them
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    # What was printed before this import still sits in the buffer of sys.stdout; it is not flushed before the
    # dup2, so it goes to the log as well.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    os.register_at_fork(after_in_child=_forget)
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _breakpoint


def _forget() -> None:
    """In a forked child: it must neither write to the wire nor keep its reading end open."""
    global _wire
    if _wire is not None:
        for descriptor in _wire:
            os.close(descriptor)
        _wire = None


def _breakpoint(*_args: object, **_kwargs: object) -> None:
    caller = sys._getframe(1)
    print(
        f"breakpoint() at {caller.f_code.co_filename}:{caller.f_lineno} passed over: stdin and stdout carry the "
        "protocol here, so a debugger has no terminal.\n"
        "  debug: ankka-flow run --attach, then start this program by hand: there breakpoint() stops",
        file=sys.stderr,
        flush=True,
    )
