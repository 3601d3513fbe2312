"""A small MessagePack codec for where the ``msgpack`` package is not installed.

It writes and reads just what protocol 1.0 uses (nil, bool, int, float, str, bin, array, map; no extension types)
and writes the same bytes as ``msgpack.packb``; arrays are read as tuples. Tests compare both directions at every
size boundary.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_MAX_DEPTH = 64

_f64 = struct.Struct(">Bd").pack
_u8, _u16, _u32, _u64 = (struct.Struct(f).pack for f in (">BB", ">BH", ">BI", ">BQ"))
_i8, _i16, _i32, _i64 = (struct.Struct(f).pack for f in (">Bb", ">Bh", ">Bi", ">Bq"))


def packb(value: object) -> bytes:
    """Encode ``value``. Raises TypeError for a type that the protocol does not know, OverflowError beyond 64 bits."""
    out: list[bytes] = []
    _pack(value, out.append, 0)
    return b"".join(out)


def _pack(value: Any, add: Callable[[bytes], None], depth: int) -> None:
    if value is None:
        add(b"\xc0")
    elif value is True:
        add(b"\xc3")
    elif value is False:
        add(b"\xc2")
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        add(_head(len(raw), None, (0xC4, 0xC5, 0xC6)))
        add(raw)
    elif isinstance(value, str):
        raw = value.encode()
        add(_head(len(raw), (0xA0, 31), (0xD9, 0xDA, 0xDB)))
        add(raw)
    elif isinstance(value, int):
        add(_int(value))
    elif isinstance(value, float):
        add(_f64(0xCB, value))
    elif depth >= _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH}")
    elif isinstance(value, (list, tuple)):
        add(_head(len(value), (0x90, 15), (None, 0xDC, 0xDD)))
        for element in value:
            _pack(element, add, depth + 1)
    elif isinstance(value, dict):
        add(_head(len(value), (0x80, 15), (None, 0xDE, 0xDF)))
        for name, element in value.items():
            _pack(name, add, depth + 1)
            _pack(element, add, depth + 1)
    else:
        raise TypeError(f"cannot encode {type(value).__name__}")


def _head(n: int, fix: tuple[int, int] | None, codes: tuple[int | None, int, int]) -> bytes:
    if fix is not None and n <= fix[1]:
        return bytes((fix[0] | n,))
    if codes[0] is not None and n < 1 << 8:
        return _u8(codes[0], n)
    if n < 1 << 16:
        return _u16(codes[1], n)
    if n < 1 << 32:
        return _u32(codes[2], n)
    raise ValueError(f"length {n} is beyond 32 bits")


def _int(n: int) -> bytes:
    if n >= 0:
        if n < 1 << 7:
            return bytes((n,))
        for bits, code, pack in ((8, 0xCC, _u8), (16, 0xCD, _u16), (32, 0xCE, _u32), (64, 0xCF, _u64)):
            if n < 1 << bits:
                return pack(code, n)
    else:
        if n >= -32:
            return bytes((n & 0xFF,))
        for bits, code, pack in ((8, 0xD0, _i8), (16, 0xD1, _i16), (32, 0xD2, _i32), (64, 0xD3, _i64)):
            if n >= -(1 << (bits - 1)):
                return pack(code, n)
    raise OverflowError(f"integer {n} is beyond 64 bits")


_NUMBERS = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
# code -> (what, width of its length)
_SIZED = {
    0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4),
    0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xDC: ("array", 2), 0xDD: ("array", 4),
    0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


class _Reader:
    """A position in the bytes of one value. Lengths are checked against what is left before anything is built."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        end = self.at + n
        if end > len(self.data):
            raise ValueError(f"the value ends early: {n} bytes due at {self.at}, {len(self.data) - self.at} left")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def count(self, n: int) -> int:
        if n > len(self.data) - self.at:
            raise ValueError(f"{n} elements announced, {len(self.data) - self.at} bytes left")
        return n

    def value(self, depth: int) -> Any:
        code = self.take(1)[0]
        if code <= 0x7F:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code >= 0xC0:
            return self.long(code, depth)
        if code >= 0xA0:
            return self.take(code & 0x1F).decode("utf-8", "replace")
        if code >= 0x90:
            return self.array(code & 0x0F, depth)
        return self.map(code & 0x0F, depth)

    def long(self, code: int, depth: int) -> Any:
        if code == 0xC0:
            return None
        if code in (0xC2, 0xC3):
            return code == 0xC3
        number = _NUMBERS.get(code)
        if number is not None:
            return number.unpack(self.take(number.size))[0]
        if code not in _SIZED:
            raise ValueError(f"byte 0x{code:02x}: no value of this protocol (extension types are not used)")
        what, width = _SIZED[code]
        n = int.from_bytes(self.take(width), "big")
        if what == "bin":
            return self.take(n)
        if what == "str":
            return self.take(n).decode("utf-8", "replace")
        return self.array(n, depth) if what == "array" else self.map(n, depth)

    def array(self, n: int, depth: int) -> tuple[Any, ...]:
        self._deeper(depth)
        return tuple([self.value(depth + 1) for _ in range(self.count(n))])

    def map(self, n: int, depth: int) -> dict[Any, Any]:
        self._deeper(depth)
        made: dict[Any, Any] = {}
        for _ in range(self.count(n)):
            name = self.value(depth + 1)
            if not isinstance(name, (str, bytes)):
                raise ValueError(f"a map's key is {type(name).__name__}, not text")
            made[name] = self.value(depth + 1)
        return made

    def _deeper(self, depth: int) -> None:
        if depth >= _MAX_DEPTH:
            raise ValueError(f"nested deeper than {_MAX_DEPTH}")


def unpackb(data: bytes) -> Any:
    """Decode exactly one value; arrays come as tuples. Raises ValueError for anything else, trailing bytes included."""
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes after the value")
    return value
