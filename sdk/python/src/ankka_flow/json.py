"""JSON for records: ``loads(bytes)`` and ``dumps(obj) -> bytes``, with the results of the ``json`` module.

The scanner and the encoder are built once: ``json.loads`` and ``json.dumps`` spend more than half of their time
around them. The fast ones are internals of CPython; where they are missing, or for anything unusual (white space
around, another encoding, an error), the ``json`` module itself answers.
"""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Iterable
from typing import Any

from .errors import NullValueError

__all__ = ["dumps", "loads"]

_SEPARATORS = (",", ":")


def _make_scanner() -> Callable[[str, int], tuple[Any, int]] | None:
    try:
        from json.scanner import c_make_scanner  # type: ignore[attr-defined]

        scan: Callable[[str, int], tuple[Any, int]] = c_make_scanner(_json.JSONDecoder())
        return scan if scan('{"a":[1,null]}', 0) == ({"a": [1, None]}, 14) else None
    except Exception:
        return None


def _make_encoder() -> Callable[[Any, int], Iterable[str]] | None:
    try:
        from json import encoder as parts

        # Without markers a circular object ends in RecursionError instead of ValueError, and the slow path then
        # says so properly. Shared markers would let two threads mistake each other's objects for a circle.
        encode: Callable[[Any, int], Iterable[str]] = parts.c_make_encoder(  # type: ignore[attr-defined]
            None,
            _json.JSONEncoder().default,
            parts.encode_basestring,
            None,
            ":",
            ",",
            False,
            False,
            True,
        )
        return encode if "".join(encode({"a": [1, "ä", None]}, 0)) == '{"a":[1,"ä",null]}' else None
    except Exception:
        return None


_scan = _make_scanner()
_encode = _make_encoder()


def loads(data: bytes | bytearray | str | None) -> Any:
    """The value that JSON text stands for, as ``json.loads`` reads it.

    Raises ``json.JSONDecodeError`` for text that is no JSON and NullValueError, a TypeError and a ValueError, for
    None, which is the value of a tombstone: look at ``record.value`` first where the topic may have some.
    """
    if data is None:
        raise NullValueError("the value is null (a tombstone), not JSON")
    if _scan is not None:
        try:
            text = data if isinstance(data, str) else str(data, "utf-8")
            value, end = _scan(text, 0)
            if end == len(text):
                return value
        except (StopIteration, ValueError, TypeError):
            pass  # the json module finds the same error and describes it, or knows the encoding
    return _json.loads(data)


def dumps(obj: Any) -> bytes:
    """Compact JSON in UTF-8, as ``json.dumps(obj, separators=(",", ":"), ensure_ascii=False)`` writes it.

    Raises TypeError for an object that JSON does not know, ValueError for a circular one.
    """
    if _encode is not None:
        try:
            return "".join(_encode(obj, 0)).encode()
        except Exception:  # RecursionError included: the json module says what is wrong
            pass
    return _json.dumps(obj, separators=_SEPARATORS, ensure_ascii=False).encode()
