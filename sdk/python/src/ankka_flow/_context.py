"""What is said about a failed record: its stage, the headers of its dead letter, its line in the log. No IO."""

from __future__ import annotations

import json as _json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from . import _codec
from . import json as _own_json
from ._frames import MAX_RECORD
from ._handler import class_name, user_part
from .errors import DecodeError, KilledTheProcess, RecordTooLargeError
from .records import RawHeaders, Record, Row, encode_headers

CONNECT = b"__connect.errors."
FLOW = b"__flow.errors."
KEPT = (b"__flow.errors.origin.", b"__flow.errors.redrives")
"""Headers of an earlier round that stay: where the record was first, and how often it was redriven."""

_MESSAGE = 1024  # bytes of an exception's message in a header
_STACK = 8 * 1024  # bytes of a stack trace in a header
_NAME = 256  # bytes of a name
_LOGGED = 16 * 1024  # characters of a key, a value or all headers in a line of the log


@dataclass(frozen=True)
class Where:
    """Where records are handled: what is the same for every record of a batch."""

    pipeline: str = ""
    streamlet: str = ""
    instance: int = 0
    inlet: str = ""
    topic: str = ""
    partition: int = 0
    handler: str = ""  # module:Class.method
    class_name: str = ""  # of the streamlet, with its module
    sink: bool = False  # it has no outlet but that for dead letters


@dataclass(frozen=True)
class Failed:
    """A record and the last of its failures. Times are milliseconds since 1970."""

    record: Record
    error: BaseException
    where: Where
    attempts: int
    delivery: int
    reason: str  # poison, exhausted, decode, user or killed
    at: int

    @property
    def stage(self) -> str:
        """The stage in Connect's words."""
        return stage_of(self.error, self.record, self.where.sink)


def stage_of(error: BaseException, record: Record, sink: bool) -> str:
    """Connect's name for what failed: a converter where the record's own bytes could not be decoded."""
    if isinstance(error, RecordTooLargeError):
        return "KAFKA_PRODUCE"
    part = error.part if isinstance(error, DecodeError) else _undecoded(error, record)
    if part is not None:
        return {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER", "headers": "HEADER_CONVERTER"}[part]
    return "TASK_PUT" if sink else "TRANSFORMATION"


def _undecoded(error: BaseException, record: Record) -> str | None:
    """Which part of the record a JSON reader was at when it raised, if any."""
    if not isinstance(error, (ValueError, TypeError, RecursionError)):
        return None
    for frame in _frames_of(error):
        name = {_own_json.loads.__code__: "data", _json.loads.__code__: "s"}.get(frame.f_code)
        if name is None:
            continue
        data = frame.f_locals.get(name)
        if isinstance(data, str):  # the json module's own name for it holds the decoded text
            data = data.encode("utf-8", "surrogatepass")
        if data == record.value:
            return "value"
        if data == record.key:
            return "key"
        if any(data == value for _, value in record.headers):
            return "headers"
    return None


def _frames_of(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def dead_letter(failed: Failed, context: bool, added: list[tuple[str, bytes | None]]) -> Row:
    """The row for the dead-letter outlet: the record's own bytes, its headers first and unchanged, then the context."""
    record = failed.record
    headers: RawHeaders = record._raw[4] if record._raw is not None else encode_headers(record.headers)
    extra = encode_headers(added)
    if not context:
        return (record.key, record.value, (*headers, *extra))
    # Less where the whole would not fit into a frame: the record itself always does, for it came in one.
    for message, stack in ((_MESSAGE, _STACK), (128, 0)):
        row = (record.key, record.value, (*_with_context(failed, headers, message, stack), *extra))
        if len(_codec.packb(row)) <= MAX_RECORD:
            return row
    return (record.key, record.value, headers)


def _with_context(
    failed: Failed, headers: RawHeaders, message: int, stack: int
) -> Iterator[tuple[bytes, bytes | None]]:
    own = [pair for pair in headers if not pair[0].startswith(FLOW) or pair[0].startswith(KEPT)]
    present = {name for name, _ in own}
    yield from own
    for name, value in _connect(failed, message, stack):
        if CONNECT + name not in present:
            yield CONNECT + name, value
    for name, value in _flow(failed, message, stack):
        if FLOW + name not in present:
            yield FLOW + name, value


def _connect(failed: Failed, message: int, stack: int) -> Iterator[tuple[bytes, bytes]]:
    """The ten headers of KIP-298."""
    w, error = failed.where, failed.error
    yield b"topic", cut(w.topic, _NAME)
    yield b"partition", str(w.partition).encode()
    yield b"offset", str(failed.record.offset).encode()
    yield b"connector.name", cut(f"{w.pipeline}.{w.streamlet}", _NAME)
    yield b"task.id", str(w.instance).encode()
    yield b"stage", failed.stage.encode()
    yield b"class.name", cut(w.class_name, _NAME)
    yield b"exception.class.name", cut(class_name(type(error)), _NAME)
    yield b"exception.message", cut(_text(error), message)
    yield b"exception.stacktrace", cut(stack_of(error), stack)


def _flow(failed: Failed, message: int, stack: int) -> Iterator[tuple[bytes, bytes]]:
    w, error, record = failed.where, failed.error, failed.record
    cause = error.__cause__ or error.__context__
    for origin in (b"", b"origin."):
        yield origin + b"topic", cut(w.topic, _NAME)
        yield origin + b"partition", str(w.partition).encode()
        yield origin + b"offset", str(record.offset).encode()
        yield origin + b"timestamp", str(record.timestamp_ms).encode()
    yield b"pipeline", cut(w.pipeline, _NAME)
    yield b"streamlet", cut(w.streamlet, _NAME)
    yield b"inlet", cut(w.inlet, _NAME)
    yield b"instance", str(w.instance).encode()
    yield b"stage", failed.stage.encode()
    yield b"handler", cut(w.handler, _NAME)
    yield b"reason", failed.reason.encode()
    yield b"attempts", str(failed.attempts).encode()
    yield b"delivery", str(failed.delivery).encode()
    yield b"failed.at", str(failed.at).encode()
    yield b"exception.class.name", cut(class_name(type(error)), _NAME)
    yield b"exception.message", cut(_text(error), message)
    yield b"exception.stacktrace", cut(stack_of(error), stack)
    if cause is not None:
        yield b"cause.class.name", cut(class_name(type(cause)), _NAME)


def line(failed: Failed, verdict: str, messages: bool) -> tuple[str, dict[str, Any]]:
    """The log's line for a failure and its fields. Coordinates always, what is in the record only with ``messages``."""
    w, record = failed.where, failed.record
    said = (
        f"Error encountered in task {w.pipeline}.{w.streamlet}-{w.instance}. Executing stage '{failed.stage}' with "
        f"class '{w.class_name}', where consumed record is {{topic='{w.topic}', partition={w.partition}, "
        f"offset={record.offset}, timestamp={record.timestamp_ms}}}: {class_name(type(failed.error))}: "
        f"{_text(failed.error)[:_MESSAGE]}"
    )
    fields: dict[str, Any] = {
        "inlet": w.inlet,
        "topic": w.topic,
        "partition": w.partition,
        "offset": record.offset,
        "stage": failed.stage,
        "attempts": failed.attempts,
        "verdict": verdict,
        "exception": class_name(type(failed.error)),
        "stacktrace": cut(stack_of(failed.error), _STACK).decode(),
    }
    if messages:
        fields["key"] = _shown(record.key)
        fields["value"] = _shown(record.value)
        fields["headers"] = ", ".join(f"{name}={_shown(value)}" for name, value in record.headers)[:_LOGGED]
    return said, fields


def _shown(data: bytes | None) -> str:
    return "null" if data is None else data[:_LOGGED].decode("utf-8", "backslashreplace")


def stack_of(error: BaseException) -> str:
    """The traceback from the handler on; the exception alone where there is none."""
    try:
        return "".join(traceback.format_exception(type(error), error, user_part(error)))
    except Exception as broken:  # an exception whose own text cannot be made
        return f"{class_name(type(error))} (no traceback: {type(broken).__name__} while formatting it)"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"<its text raised {type(broken).__name__}>"


def cut(text: str, limit: int) -> bytes:
    """``text`` as UTF-8 of at most ``limit`` bytes: the middle is left out, with a mark, for both ends say most."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data
    mark = f"[{len(data)} bytes]".encode()
    half = max(0, limit - len(mark)) // 2
    front, back = data[:half], data[len(data) - half :] if half else b""
    whole = front.decode("utf-8", "ignore").encode() + mark + back.decode("utf-8", "ignore").encode()
    return whole[:limit]


def killed(offset: int, deaths: int) -> KilledTheProcess:
    return KilledTheProcess(f"the process was gone {deaths} times after it had got the record at offset {offset} alone")
