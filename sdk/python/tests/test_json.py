"""ankka_flow.json gives what the json module gives, errors included."""

from __future__ import annotations

import json as plain
import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any

import pytest

from ankka_flow import NullValueError, json


class Colour(IntEnum):
    RED = 1


VALUES: list[Any] = [
    None, True, 0, -1, 10**30, 1.5, 1e300, float("inf"), "", "ä\u2028\U0001f600", "\x00\x1f\"\\/", [], {}, [[]],
    {"a": [1, {"b": None}]}, {1: 2, None: 3, False: 4, 1.5: 5},
    (1, 2), OrderedDict(b=1, a=2), Colour.RED, "x" * 100_000,
]  # fmt: skip
TEXTS: list[bytes | str] = [
    b'{"a": 1}', b" [1] ", b"\n1\n", b"null", b"-0.0", b"1E5", b"NaN", b"Infinity", b'"\\ud83d\\ude00"', b'"\\ud800"',
    '{"ä": "ö"}'.encode(), '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32-le"), '{"a":1}'.encode("utf-8-sig"),
    b'{"a":1,"a":2}', "[1]", bytearray(b"[2]"),  # type: ignore[list-item]
]  # fmt: skip
BAD: list[Any] = [
    b"", b" ", b"{", b"[1,]", b"1 2", b'{"a"}', b"nul", b'"\x01"', b"\xff", b'{"a":1}x', "\ufeff{}", b"\x00", 5, [b"1"],
]  # fmt: skip


def test_the_fast_parts_are_in_use() -> None:
    assert json._scan is not None and json._encode is not None


@pytest.fixture(params=["fast", "fallback"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "fallback" and request.function is not test_the_fast_parts_are_in_use:
        monkeypatch.setattr(json, "_scan", None)
        monkeypatch.setattr(json, "_encode", None)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:20])
def test_dumps(value: Any) -> None:
    assert json.dumps(value) == plain.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: repr(t)[:20])
def test_loads(text: bytes | str) -> None:
    ours, theirs = json.loads(text), plain.loads(text)
    assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    assert type(ours) is type(theirs)


@pytest.mark.parametrize("text", BAD, ids=lambda t: repr(t)[:20])
def test_loads_raises_the_same(text: Any) -> None:
    with pytest.raises(Exception) as theirs:
        plain.loads(text)
    with pytest.raises(type(theirs.value)) as ours:
        json.loads(text)
    assert str(ours.value) == str(theirs.value)


def test_dumps_raises_the_same() -> None:
    circle: dict[str, Any] = {}
    circle["me"] = circle
    for value in (object(), {(1, 2): 3}, circle, {"a": {1}}, "\ud800"):
        with pytest.raises(Exception) as theirs:
            plain.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        with pytest.raises(type(theirs.value)):
            json.dumps(value)


def test_a_tombstone_is_not_json() -> None:
    for caught in (TypeError, ValueError, NullValueError):  # ValueError: what Ankka's empty value gives
        with pytest.raises(caught, match="tombstone"):
            json.loads(None)
