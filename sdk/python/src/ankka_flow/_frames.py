"""Frames and the messages a process sends (protocol, section "Frame"). No IO here.

A frame is four bytes, unsigned big-endian length N, then N bytes of one msgpack array ``[kind, ...]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _codec
from .errors import ProtocolError

MAX_FRAME = 4 * 1024 * 1024
"""Bytes of a frame's body at most: 4,194,304."""

MAX_RECORD = MAX_FRAME - 64 * 1024
"""Bytes of a record as encoded in a frame at most: 4,128,768."""

_MAX_TEXT = 64 * 1024  # the supervisor cuts texts of a fail there; no use in sending more


class FrameReader:
    """Cuts frames out of a stream of bytes: feed it what was read, take the bodies that are complete.

    A length is checked before anything is kept for it. ``wanted`` is how many bytes complete what has begun: who
    reads exactly so many spares the copy, since a body that arrives in one piece is handed on as it is.
    """

    def __init__(self) -> None:
        self.wanted = 4
        self._in_body = False
        self._size = 0
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies completed by ``data``, in order. Raises ProtocolError for a length that cannot be."""
        bodies: list[bytes] = []
        while data:
            if len(data) < self.wanted:
                self._pieces.append(data)
                self.wanted -= len(data)
                break
            piece, data = (data, b"") if len(data) == self.wanted else (data[: self.wanted], data[self.wanted :])
            whole = piece
            if self._pieces:
                self._pieces.append(piece)
                whole = b"".join(self._pieces)
                self._pieces.clear()
            if self._in_body:
                bodies.append(whole)
                self._in_body, self.wanted = False, 4
            else:
                self._in_body, self.wanted = True, _length(whole)
        return bodies

    def partial(self) -> int:
        """How many bytes of an unfinished frame were fed: not 0 at the end of input means that it broke off."""
        return sum(map(len, self._pieces)) + (4 if self._in_body else 0)


def _length(head: bytes) -> int:
    n = int.from_bytes(head, "big")
    if n == 0:
        raise ProtocolError("an empty frame")
    if n > MAX_FRAME:
        raise ProtocolError(f"a frame of {n} bytes; the limit is {MAX_FRAME}")
    return n


def decode(body: bytes) -> tuple[Any, ...]:
    """The array in a frame's body, not empty and with its kind as text first. Raises ProtocolError."""
    try:
        message = _codec.unpackb(body)
    except Exception as error:
        raise ProtocolError(f"a frame that is no msgpack: {error}") from error
    if not isinstance(message, tuple) or not message or not isinstance(message[0], str):
        raise ProtocolError(f"expected an array that begins with its kind, got {type(message).__name__}")
    return message


def encode(message: object) -> bytes:
    """One whole frame, length included. Raises ValueError over the limit of a frame."""
    body = _codec.packb(message)
    if len(body) > MAX_FRAME:
        raise ValueError(f"a frame of {len(body)} bytes; the limit is {MAX_FRAME}")
    return len(body).to_bytes(4, "big") + body


def text(value: object, limit: int = _MAX_TEXT) -> str:
    """Any object as text that can be sent: lone surrogates replaced, the middle cut out beyond ``limit`` characters.

    Never raises, for it describes failures: an exception's ``__str__`` may be broken itself.
    """
    try:
        made = value if isinstance(value, str) else str(value)
    except Exception as error:
        made = f"<{type(value).__name__}: its text raised {type(error).__name__}>"
    made = made.encode("utf-8", "replace").decode()
    if len(made) > limit:
        half = limit // 2 - 8
        made = f"{made[:half]}\n[...]\n{made[-half:]}"
    return made


def spec(descriptor: Mapping[str, Any], max_in_flight: int) -> bytes:
    return encode(["spec", descriptor, {"ping": True, "max_in_flight": max_in_flight, "errors": True}])


def ack(batch_id: int) -> bytes:
    return encode(["ack", batch_id])


def fail(batch_id: int, failure: Mapping[str, Any]) -> bytes:
    return encode(["fail", batch_id, failure])


def status(batch_id: int, info: Mapping[str, Any]) -> bytes:
    return encode(["status", batch_id, info])


def report(batch_id: int | None, series: list[Any]) -> bytes:
    """``series``: ``[name, kind, labels, number]`` each; with an id they count when that batch commits."""
    return encode(["report", batch_id, series])


def log(level: str, message: str, fields: Mapping[str, Any]) -> bytes:
    return encode(["log", level, message, fields])


def pong(n: int) -> bytes:
    return encode(["pong", n])


def stopped() -> bytes:
    return encode(["stopped"])
