"""Error policies as users test them: in the test kit, without a broker and without waiting."""

from __future__ import annotations

import json as std
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from ankka_flow import (
    Batch,
    BatchError,
    Context,
    DeadLetter,
    DeadLetterOutlet,
    DecodeError,
    ErrorPolicy,
    Fatal,
    JsonInlet,
    JsonOutlet,
    Limit,
    Record,
    Retriable,
    Skip,
    Streamlet,
    json,
)
from ankka_flow.testkit import FakeClock, Harness, StillHeld

pytestmark = pytest.mark.usefixtures("codec")

TEN = ["topic", "partition", "offset", "connector.name", "task.id", "stage", "class.name"] + [
    f"exception.{part}" for part in ("class.name", "message", "stacktrace")
]


class Base(Streamlet):
    name = "s"
    inlet = JsonInlet("in", schema_name="a")
    out = JsonOutlet("out", schema_name="a")
    letters = DeadLetterOutlet()
    errors: ClassVar[ErrorPolicy | None] = ErrorPolicy(tolerance="all", dead_letter=letters, context_headers=True)


class Failing(Base):
    """Does what a record says, so many times as it says."""

    def __init__(self) -> None:
        self.tries: dict[int, int] = {}
        self.attempts: list[int] = []

    def process_record(self, record: Record, ctx: Context) -> Any:
        self.attempts.append(ctx.attempt)
        tries = self.tries[record.offset] = self.tries.get(record.offset, 0) + 1
        what, _, times = (record.value or b"").decode().partition(" ")
        if what != "good" and tries <= int(times or 1_000_000):
            raise {
                "retry": Retriable("again"),
                "bad": ValueError("bad"),
                "skip": Skip("not ours"),
                "letter": DeadLetter("said so", headers=[("why", b"x")]),
                "fatal": Fatal("down"),
                "exit": SystemExit(3),
                "memory": MemoryError(),
            }[what]
        return self.out.emit(record)


def run(streamlet: Streamlet, *values: bytes | None, errors: dict[str, str] | None = None, **more: Any) -> Harness:
    harness = Harness(streamlet, errors=errors, **more)
    for value in values:
        harness.inlet("in").put(value=value, key=b"k")
    harness.run()
    return harness


def headers(record: Record, prefix: str) -> dict[str, bytes | None]:
    return {name.removeprefix(prefix): value for name, value in record.headers if name.startswith(prefix)}


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


# Configuration rows.


def test_row_retry_timeout() -> None:
    h = run(Failing(), b"retry 2", errors={"retry.timeout": "1000"})
    assert [r.wait_ms for r in h.retries] == [300, 600] and values(h.outlet("out").records) == [b"retry 2"]
    h = run(streamlet := Failing(), b"retry", errors={"retry.timeout": "1000"})
    assert [r.wait_ms for r in h.retries] == [300, 600, 100] and values(h.dead_letters) == [b"retry"]
    assert streamlet.attempts == [1, 2, 3, 4]
    assert run(Failing(), b"retry").retries == []  # the default, 0
    h = run(Failing(), b"retry 8", errors={"errors.retry.timeout": "-1"})
    assert [r.wait_ms for r in h.retries] == [300 << n for n in range(8)] and h.dead_letters == []


def test_row_retry_timeout_counts_the_time_in_attempts() -> None:
    clock = FakeClock()

    class Slow(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            clock.advance(900)
            raise Retriable

    h = run(Slow(), b"v", b"w", errors={"retry.timeout": "1000"}, clock=clock)
    assert [r.wait_ms for r in h.retries] == [100, 100]


def test_row_retry_delay_max() -> None:
    h = run(Failing(), b"retry 6", errors={"retry.timeout": "-1", "retry.delay.max.ms": "1000"})
    assert [r.wait_ms for r in h.retries] == [300, 600, 750, 750, 750, 750]


def test_case67_row_tolerance_none() -> None:
    h = run(Failing(), b"good", b"bad", b"good", errors={"tolerance": "none"})
    assert len(h.failures) == 1 and isinstance(h.failures[0].error, ValueError)
    assert h.outlet("out").records == [] and h.dead_letters == []  # nothing of a batch that failed
    h = run(Failing(), b"retry", errors={"tolerance": "none", "retry.timeout": "300"})
    assert len(h.retries) == 1 and isinstance(h.failures[0].error, Retriable)


def test_row_tolerance_all() -> None:
    h = run(Failing(), b"good", b"bad", b"good", errors={"deadletterqueue.topic.name": ""})
    assert h.failures == [] and values(h.outlet("out").records) == [b"good", b"good"]
    assert h.dead_letters == [] and values(h.skipped) == [b"bad"]


def test_case79_rows_log_enable_and_include_messages() -> None:
    assert run(Failing(), b"bad").logged == []
    (message, fields), *more = run(Failing(), b"bad", errors={"log.enable": "true"}).logged
    assert not more
    assert message.startswith(
        "Error encountered in task test.s-0. Executing stage 'TRANSFORMATION' with class 'test_errors.Failing', "
        "where consumed record is {topic='test.in', partition=0, offset=0, timestamp=0}: ValueError: bad"
    )
    assert (fields["topic"], fields["partition"], fields["offset"]) == ("test.in", 0, 0)
    assert "value" not in fields and "key" not in fields and "headers" not in fields
    (_, fields), *_ = run(Failing(), b"bad", errors={"log.enable": "true", "log.include.messages": "true"}).logged
    assert (fields["key"], fields["value"], fields["headers"]) == ("k", "bad", "")


def test_row_topic_name() -> None:
    class Configured(Failing):
        errors = None

    h = run(Configured(), b"bad", errors={"tolerance": "all", "deadletterqueue.topic.name": "dlq"})
    assert values(h.dead_letters) == [b"bad"]
    h = run(Configured(), b"bad", errors={"tolerance": "all"})
    assert h.dead_letters == [] and values(h.skipped) == [b"bad"]

    class Without(Streamlet):
        name = "s"
        inlet = JsonInlet("in", schema_name="a")

        def process_record(self, record: Record, ctx: Context) -> None: ...

    with pytest.raises(ValueError, match="declares no DeadLetterOutlet"):
        Harness(Without(), errors={"deadletterqueue.topic.name": "dlq"})


def test_row_context_headers() -> None:
    h = run(Failing(), b"bad", errors={"deadletterqueue.context.headers.enable": "false"})
    assert h.dead_letters[0].headers == []
    assert headers(run(Failing(), b"bad").dead_letters[0], "__connect.errors.").keys() == set(TEN)


def test_without_a_policy_an_exception_fails_the_batch() -> None:
    class Plain(Failing):
        errors = None

    h = run(Plain(), b"good", b"retry")
    assert len(h.failures) == 1 and h.outlet("out").records == []


# Header rows.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", b"test.in"),
        ("partition", b"0"),
        ("offset", b"1"),
        ("connector.name", b"test.s"),
        ("task.id", b"0"),
        ("stage", b"TRANSFORMATION"),
        ("class.name", b"test_errors.Failing"),
        ("exception.class.name", b"ValueError"),
        ("exception.message", b"bad"),
        ("exception.stacktrace", b"ValueError: bad"),
    ],
)
def test_header(name: str, value: bytes) -> None:
    h = run(Failing(), b"good", b"bad")
    got = headers(h.dead_letters[0], "__connect.errors.")[name]
    assert got is not None and (got == value or (name == "exception.stacktrace" and value in got))


def test_case76_key_value_and_headers_come_first_and_unchanged() -> None:
    class Mutating(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            raise ValueError("x")

    given = [("h", b"1"), ("h", b"1"), ("h", None), ("", b""), ("\udcff", b"\xff")]
    h = Harness(Mutating())
    h.inlet("in").put(value=b"\xff\x00", key=None, headers=given)
    h.inlet("in").put(value=None, key=b"", headers=given)
    h.run()
    assert [(r.key, r.value, r.headers[:5]) for r in h.dead_letters] == [
        (None, b"\xff\x00", given),
        (b"", None, given),
    ]


def test_connect_headers_only_where_absent_and_ours_replaced() -> None:
    h = Harness(Failing())
    older = [
        ("__connect.errors.topic", b"older"),
        ("a", b"b"),
        ("__flow.errors.topic", b"older"),
        ("__flow.errors.origin.topic", b"first"),
        ("__flow.errors.redrives", b"2"),
    ]
    h.inlet("in").put(value=b"bad", headers=older)
    h.run()
    (record,) = h.dead_letters
    names = [name for name, _ in record.headers]
    assert len(names) == len(set(names))
    assert record.headers[:4] == [older[0], older[1], older[3], older[4]]
    assert headers(record, "__connect.errors.")["topic"] == b"older"
    ours = headers(record, "__flow.errors.")
    assert (ours["topic"], ours["origin.topic"], ours["redrives"]) == (b"test.in", b"first", b"2")
    assert ours["reason"] == b"poison" and ours["attempts"] == b"1"


def test_case77_an_exception_without_a_message() -> None:
    class Silent(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            raise ValueError

    assert headers(run(Silent(), b"v").dead_letters[0], "__connect.errors.")["exception.message"] == b""


def test_headers_are_bounded() -> None:
    class Verbose(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            raise ValueError("ä" * 1_000_000)

    (record,) = run(Verbose(), b"v").dead_letters
    assert sum(len(name) + len(value or b"") for name, value in record.headers) < 24 * 1024
    message = headers(record, "__connect.errors.")["exception.message"]
    assert message is not None and len(message) <= 1024 and "[2000000 bytes]" in message.decode()


def test_a_record_at_the_limit_still_fits() -> None:
    value = b"bad" + b" " + bytes(4_128_768 - 100)

    class Bad(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            raise ValueError("x" * 5000)

    (record,) = run(Bad(), value).dead_letters
    assert record.value == value and record.headers == []  # the context does not fit beside it
    (record,) = run(Bad(), value[: -4 * 1024]).dead_letters
    names = headers(record, "__connect.errors.")
    assert names.keys() == set(TEN) and names["exception.stacktrace"] == b""  # nor does a stack trace


@pytest.mark.parametrize(
    ("handler", "stage"),
    [
        (lambda record: json.loads(record.value), b"VALUE_CONVERTER"),
        (lambda record: std.loads(record.value), b"VALUE_CONVERTER"),
        (lambda record: json.loads(record.key), b"KEY_CONVERTER"),
        (lambda record: json.loads(record.headers[0][1]), b"HEADER_CONVERTER"),
        (lambda record: json.loads(b"{"), b"TRANSFORMATION"),
        (lambda record: 1 / 0, b"TRANSFORMATION"),
        (lambda record: raising(DecodeError("no", part="key")), b"KEY_CONVERTER"),
        (lambda record: Base.out.emit(value=bytes(5_000_000)), b"KAFKA_PRODUCE"),
    ],
)
def test_stage(handler: Callable[[Record], Any], stage: bytes) -> None:
    class Decoding(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            return handler(record)

    h = Harness(Decoding())
    h.inlet("in").put(value=b"{not json", key=b"[not", headers=[("h", b"nul")])
    h.run()
    assert headers(h.dead_letters[0], "__connect.errors.")["stage"] == stage


def raising(error: Exception) -> None:
    raise error


def test_stage_of_a_sink() -> None:
    class Sink(Streamlet):
        name = "sink"
        inlet = JsonInlet("in", schema_name="a")
        letters = DeadLetterOutlet()
        errors = ErrorPolicy(tolerance="all", dead_letter=letters, context_headers=True)

        def process_record(self, record: Record, ctx: Context) -> None:
            raise ValueError

    assert headers(run(Sink(), b"v").dead_letters[0], "__connect.errors.")["stage"] == b"TASK_PUT"


# Verdicts and operations.


def test_verdicts() -> None:
    for tolerance in ("none", "all"):
        h = run(Failing(), b"skip", b"letter", b"good", errors={"tolerance": tolerance})
        assert h.failures == [] and h.retries == [] and values(h.outlet("out").records) == [b"good"]
        (record,) = h.dead_letters
        assert record.value == b"letter" and record.headers[-1] == ("why", b"x")
        assert headers(record, "__flow.errors.")["reason"] == b"user"


@pytest.mark.parametrize("value", [b"fatal", b"exit", b"memory"])
def test_operations_never_tolerated(value: bytes) -> None:
    h = run(Failing(), b"good", value, errors={"retry.timeout": "-1"})
    assert len(h.failures) == 1 and h.retries == [] and h.dead_letters == []


def test_emits_of_a_failed_attempt_are_dropped() -> None:
    class Half(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            yield self.out.emit(record, value=b"%d" % ctx.attempt)
            if ctx.attempt < 3:
                raise Retriable
            yield self.out.emit(record, value=b"last")

    h = run(Half(), b"v", errors={"retry.timeout": "-1"})
    assert values(h.outlet("out").records) == [b"3", b"last"] and h.dead_letters == []


def test_an_emit_that_cannot_be_sent_is_that_records_error() -> None:
    class Wrong(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            yield self.out.emit(record)
            if record.value == b"wrong":
                yield self.out.emit(value=b"v", headers=[("h", bytes(5_000_000))])

    h = run(Wrong(), b"a", b"wrong", b"b")
    assert values(h.outlet("out").records) == [b"a", b"b"] and values(h.dead_letters) == [b"wrong"]


def test_retriable_after() -> None:
    class After(Base):
        def process_record(self, record: Record, ctx: Context) -> Any:
            if ctx.attempt == 1:
                raise Retriable(after=5)
            return self.out.emit(record)

    assert [r.wait_ms for r in run(After(), b"v", errors={"retry.timeout": "-1"}).retries] == [5000]


def test_hold_is_for_ever_and_the_record_is_handled_in_the_end() -> None:
    h = run(Failing(), b"bad 5", b"good", errors={"exhausted": "hold", "tolerance": "none"})
    assert h.failures == [] and values(h.outlet("out").records) == [b"bad 5", b"good"]
    assert [r.wait_ms for r in h.retries] == [45_000] * 5
    h = run(Failing(), b"bad", errors={"exhausted": "hold", "tolerance": "none"})
    assert isinstance(h.failures[0].error, StillHeld) and h.dead_letters == []


def test_case75_an_outage_trips_the_limit() -> None:
    class Down(Base):
        errors = ErrorPolicy(tolerance=Limit(errors=10, per="1m"), dead_letter=Base.letters)

        def process_record(self, record: Record, ctx: Context) -> Any:
            raise OSError("the sink is down")

    h = Harness(Down())
    for _ in range(10_000):
        h.inlet("in").put(value=b"good")
    h.run(max_records=1)
    assert len(h.dead_letters) == 10 and len(h.failures) == 9990


# Handlers of whole batches.


class Whole(Base):
    """Says which records of its batch are bad."""

    calls: list[int]

    def __init__(self) -> None:
        self.calls = []

    def process(self, batch: Batch) -> Any:
        self.calls.append(len(batch))
        bad: dict[int, BaseException] = {}
        for index, record in enumerate(batch):
            if record.value == b"bad":
                bad[index] = ValueError("bad")
            elif record.value == b"retry" and len(batch) > 1:
                bad[index] = Retriable("again")
            else:
                yield self.out.emit(record)
        if bad:
            raise BatchError(bad)


def test_batch_error_names_the_records() -> None:
    h = run(streamlet := Whole(), b"a", b"bad", b"retry", b"b", errors={"retry.timeout": "-1"})
    assert h.failures == [] and streamlet.calls == [4, 1]
    assert values(h.outlet("out").records) == [b"a", b"b", b"retry"] and values(h.dead_letters) == [b"bad"]
    assert headers(h.dead_letters[0], "__connect.errors.")["offset"] == b"1"


def test_batch_error_outside_the_batch_fails() -> None:
    class Outside(Base):
        def process(self, batch: Batch) -> Any:
            raise BatchError({7: ValueError()})

    h = run(Outside(), b"a")
    assert "names record 7 of a batch of 1" in str(h.failures[0].error)


def test_isolation_one_by_one() -> None:
    class Plain(Base):
        def __init__(self) -> None:
            self.calls: list[int] = []

        def process(self, batch: Batch) -> Any:
            self.calls.append(len(batch))
            for record in batch:
                yield self.out.emit(record)
                if record.value == b"bad":
                    raise ValueError("bad")

    h = run(streamlet := Plain(), b"a", b"bad", b"b")
    assert h.failures == [] and streamlet.calls == [3, 1, 1, 1]
    assert values(h.outlet("out").records) == [b"a", b"b"] and values(h.dead_letters) == [b"bad"]
    h = run(streamlet := Plain(), b"bad")
    assert streamlet.calls == [1] and values(h.dead_letters) == [b"bad"]


def test_async_handlers_have_the_same_policy() -> None:
    class Async(Failing):
        async def process_record(self, record: Record, ctx: Context) -> Any:
            return Failing.process_record(self, record, ctx)

    class AsyncWhole(Whole):
        async def process(self, batch: Batch) -> Any:
            for emit in list(Whole.process(self, Batch(batch.inlet, batch.partition, [batch.records[0]]))):
                yield emit
            if len(batch) > 1:
                raise BatchError({1: ValueError("bad")})

    h = run(Async(), b"good", b"retry 2", b"bad", b"good", errors={"retry.timeout": "-1"})
    assert h.failures == [] and values(h.outlet("out").records) == [b"good", b"retry 2", b"good"]
    assert values(h.dead_letters) == [b"bad"] and [r.wait_ms for r in h.retries] == [300, 600]
    h = run(AsyncWhole(), b"a", b"x")
    assert values(h.outlet("out").records) == [b"a"] and values(h.dead_letters) == [b"x"]


def test_case69_the_dead_letters_are_exactly_the_poisons() -> None:
    h = Harness(Failing())
    poisons = []
    for i in range(300):
        poison = i % 7 == 3
        h.inlet("in").put(value=b"bad" if poison else b"good", key=b"%d" % (i % 3), headers=[("n", b"%d" % i)])
        if poison:
            poisons.append(b"%d" % i)
    h.run(partitions=lambda key: int(key or b"0"), max_records=13)
    letters = sorted(record.headers[0][1] or b"" for record in h.dead_letters)
    assert letters == sorted(poisons) and len(h.outlet("out").records) == 300 - len(poisons)


def test_settings_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"errors\.retry\.timeout"):
        Harness(Failing(), errors={"retry.timeout": "soon"})
