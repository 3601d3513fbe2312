"""Our own codec against the msgpack package, both directions, at every size boundary."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from ankka_flow import _codec, _msgpack

BOUNDARIES = sorted({abs(n + d) for n in (0, 15, 16, 31, 32, 127, 128, 255, 256, 65535, 65536) for d in (-1, 0, 1)})
INTEGERS = sorted(
    {sign * (1 << bits) + d for bits in (0, 5, 7, 8, 15, 16, 31, 32, 53, 63) for sign in (1, -1) for d in (-1, 0, 1)}
    - {(1 << 63) * -1 - 1}
    | {(1 << 64) - 1}
)
VALUES: list[Any] = [
    *INTEGERS,
    *(b"x" * n for n in BOUNDARIES),
    *("x" * n for n in BOUNDARIES),
    *("ä" * (n // 2) for n in BOUNDARIES),
    *((None,) * n for n in BOUNDARIES),
    *({str(i): i for i in range(n)} for n in BOUNDARIES),
    None,
    True,
    False,
    0.0,
    -1.5,
    float("inf"),
    ["emit", 1, "out", [(b"k", None, [(b"n", b"")], None)], {"a": {"b": ()}}],
]


def tuples(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(tuples, value))
    return {k: tuples(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}-{str(v)[:12]}")
def test_writes_the_same_bytes_and_reads_them(value: Any) -> None:
    packed = _msgpack.packb(value)
    # compared as bytes objects of equal length first: pytest's diff of long ones takes minutes
    assert len(packed) == len(msgpack.packb(value)) and packed == msgpack.packb(value)
    read = _msgpack.unpackb(packed)
    assert read == tuples(value) and type(read) is type(tuples(value))


def test_reads_wide_forms_of_small_numbers() -> None:
    for data in (
        b"\xcc\x01",
        b"\xcd\x00\x01",
        b"\xce\x00\x00\x00\x01",
        b"\xd2\x00\x00\x00\x01",
        b"\xdb\x00\x00\x00\x01a",
    ):
        assert _msgpack.unpackb(data) == msgpack.unpackb(data)
    assert _msgpack.unpackb(b"\xca\x3f\x80\x00\x00") == 1.0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\x01",  # bytes after the value
        b"\xc1",  # never used
        b"\xc7\x01\x05x",  # extension types
        b"\xd4\x01x",
        b"\xd6\xff\x00\x00\x00\x00",
        b"\xa2x",  # ends early
        b"\xc6\xff\xff\xff\xffx",
        b"\xdd\xff\xff\xff\xff",  # announces four billion elements
        b"\xdf\xff\xff\xff\xff",
        b"\x81\x01\x01",  # a key that is no text
        b"\x91" * 65 + b"\xc0",  # nested too deep
        b"\x81\x90\x01",
    ],
)
def test_refuses(data: bytes) -> None:
    with pytest.raises(ValueError):
        _msgpack.unpackb(data)


def test_text_that_is_no_utf_8_is_read_with_replacements() -> None:
    read = ("a\ufffdb", "\ufffd\ufffd", {"\ufffd": 1})
    data = b"\x93\xa3a\xffb\xd9\x02\xff\xfe\x81\xa1\xff\x01"
    _, package = _codec._package()
    assert _msgpack.unpackb(data) == package(data) == read


def test_every_truncation_of_a_value_is_refused() -> None:
    packed = _msgpack.packb(["batch", 7, "in", 0, [[1, -1, None, b"v" * 40, [[b"h", None]]]], {"attempt": 70000}])
    for end in range(len(packed)):
        with pytest.raises(ValueError):
            _msgpack.unpackb(packed[:end])


def test_refuses_to_write_what_the_protocol_does_not_know() -> None:
    for value in (object(), {1, 2}, 1j):
        with pytest.raises(TypeError):
            _msgpack.packb(value)
    for number in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError):
            _msgpack.packb(number)
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError):
        _msgpack.packb(circle)
