"""The codec in use: the ``msgpack`` package where it is installed, else our own.

Callers write ``_codec.packb``: tests replace both functions here to run everything with either codec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _msgpack

packb: Callable[[object], bytes]
unpackb: Callable[[bytes], Any]


def _no_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code}: the protocol uses none")


def _package() -> tuple[Callable[[object], bytes], Callable[[bytes], Any]]:
    """The two functions made of the ``msgpack`` package. Raises ImportError where it is missing."""
    import msgpack

    def unpack(data: bytes) -> Any:
        return msgpack.unpackb(data, use_list=False, unicode_errors="replace", ext_hook=_no_extension)

    return msgpack.packb, unpack


try:
    packb, unpackb = _package()
except ImportError:
    packb, unpackb = _msgpack.packb, _msgpack.unpackb
