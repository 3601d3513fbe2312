"""Error policies in a real process, spoken to by hand over pipes."""

from __future__ import annotations

from typing import Any

import pytest

from process import Process, Spawn, row

HEAD = """
import os, sys, threading
from ankka_flow import *

class Base(Streamlet):
    name = "s"
    inlet = JsonInlet("in", schema_name="a")
    out = JsonOutlet("out", schema_name="a")
    letters = DeadLetterOutlet()
    errors = ErrorPolicy(tolerance="all", dead_letter=letters)
"""
SYNC = """
class S(Base):
    def process_record(self, record, ctx):
        if record.value.startswith(b"retry") and not os.path.exists("mended"):
            raise Retriable("not yet")
        if record.value == b"bad":
            raise ValueError("bad")
        if record.value == b"slow":
            while not os.path.exists("go"): threading.Event().wait(0.005)
        return self.out.emit(record)
serve(S(), workers=2)
"""
ASYNC = SYNC.replace("    def process_record", "    async def process_record")
HANDLERS = pytest.mark.parametrize("program", [HEAD + SYNC, HEAD + ASYNC], ids=["threads", "async"])
FOREVER = {"retry.timeout": "-1", "retry.delay.max.ms": "3600000"}


def begin(process: Process, errors: dict[str, str], **more: Any) -> None:
    process.discover()
    start = {"conversation": 1, "config": {}, "errors": errors, "inlets": {"in": "topic-in"}, "instance": 2}
    process.send(["start", {**start, "pipeline": "p", "streamlet": "q", **more}])


def answered(message: list[Any]) -> bool:
    return message[0] in ("ack", "fail")


def waiting(message: list[Any]) -> bool:
    return message[0] == "status" and message[2]["waiting"] is True


def series(messages: list[list[Any]]) -> dict[str, tuple[Any, float]]:
    """Every number that was reported: the batch's id or None, and its sum."""
    made: dict[str, tuple[Any, float]] = {}
    for message in messages:
        if message[0] == "report":
            for name, _, labels, number in message[2]:
                assert labels["inlet"] == "in"
                made[name] = (message[1], made.get(name, (None, 0))[1] + number)
    return made


@HANDLERS
def test_metrics_each_row_and_when_it_counts(spawn: Spawn, program: str) -> None:
    process = spawn(program)
    begin(process, {"retry.timeout": "300", "log.enable": "true", "deadletterqueue.context.headers.enable": "true"})
    process.batch(1, [row(5, b"good"), row(6, b"bad"), row(7, b"retry"), row(8, b"good")])
    messages = process.until(answered)
    assert messages[-1] == ["ack", 1]
    numbers = series(messages)
    assert numbers.pop("last_error_timestamp_seconds")[1] > 1_600_000_000
    assert numbers == {
        "record_failures_total": (None, 3),  # one of bad, two of retry
        "retries_total": (None, 1),
        "record_errors_total": (1, 2),
        "records_skipped_total": (1, 2),
        "dead_letters_total": (1, 2),
        "errors_logged_total": (1, 2),
    }
    kinds = [message[0] for message in messages]
    assert kinds.index("ack") == len(kinds) - 1
    letters = [r for m in messages if m[0] == "emit" and m[2] == "dead-letter" for r in m[3]]
    assert [letter[1] for letter in letters] == [b"bad", b"retry"]
    context = dict(map(tuple, letters[1][2]))
    assert context[b"__connect.errors.connector.name"] == b"p.q" and context[b"__connect.errors.task.id"] == b"2"
    assert context[b"__flow.errors.attempts"] == b"2" and context[b"__flow.errors.reason"] == b"exhausted"
    lines = [m for m in messages if m[0] == "log"]
    assert [m[1] for m in lines] == ["error", "error"] and lines[0][3]["offset"] == 6


@HANDLERS
def test_a_wait_says_so_and_ends(spawn: Spawn, program: str) -> None:
    process = spawn(program)
    begin(process, {"retry.timeout": "-1"})
    process.batch(1, [row(7, b"retry")])
    status = process.until(waiting)[-1]
    error = status[2].pop("error")
    assert status == ["status", 1, {"offset": 7, "attempt": 1, "waiting": True, "next_attempt_ms": 300}]
    assert error == "ankka_flow.errors.Retriable: not yet"
    process.make_file("mended")
    messages = process.until(answered)
    assert ["status", 1, {"offset": 7, "attempt": 2, "waiting": False}] in messages
    assert messages[-1] == ["ack", 1] and ["forward", 1, "out", None] in messages


@HANDLERS
def test_100_waiting_partitions_do_not_hold_the_101st(spawn: Spawn, program: str) -> None:
    process = spawn(program)
    begin(process, FOREVER)
    for n in range(1, 101):
        process.batch(n, [row(7, b"retry")], partition=n)
    for _ in range(100):
        process.until(waiting)
    process.batch(101, [row(7, b"good")], partition=101)
    messages = process.until(answered)
    assert messages[-1] == ["ack", 101]
    process.send(["stop", {"mode": "finish", "reason": ""}])
    ends = process.until(lambda message: message == ["stopped"])
    answers = [message for message in ends if answered(message)]
    assert len(answers) == 100 and {message[0] for message in answers} == {"fail"}


@HANDLERS
def test_revoke_in_a_wait_ends_it_without_a_verdict(spawn: Spawn, program: str) -> None:
    process = spawn(program)
    begin(process, FOREVER)
    process.batch(1, [row(6, b"bad"), row(7, b"retry")])
    process.until(waiting)
    process.send(["revoke", 1])
    messages = process.until(answered)
    assert messages[-1][:2] == ["fail", 1] and not any(m[0] == "emit" for m in messages)
    process.batch(2, [row(7, b"good")])
    assert process.until(answered)[-1] == ["ack", 2]


@HANDLERS
def test_stop_in_a_wait_fails_the_batch_after_the_others_are_done(spawn: Spawn, program: str) -> None:
    if "async" in program:
        program = program.replace("threading.Event().wait(0.005)", "await __import__('asyncio').sleep(0.005)")
    process = spawn(program)
    begin(process, FOREVER)
    process.batch(1, [row(6, b"bad"), row(7, b"retry")], partition=1)
    process.until(waiting)
    process.batch(2, [row(7, b"slow")], partition=2)
    process.send(["stop", {"mode": "finish", "reason": ""}])
    process.make_file("go")
    messages = process.until(lambda message: message == ["stopped"])
    answers = [message for message in messages if answered(message)]
    assert [message[:2] for message in answers] == [["ack", 2], ["fail", 1]]
    assert answers[1][2]["offset"] == 7 and "stopped while the record at offset 7" in answers[1][2]["message"]
    assert not any(m[0] == "emit" for m in messages)


@HANDLERS
def test_abandon_in_a_wait(spawn: Spawn, program: str) -> None:
    process = spawn(program)
    begin(process, FOREVER)
    process.batch(1, [row(6, b"bad"), row(7, b"retry")])
    process.until(waiting)
    process.send(["stop", {"mode": "abandon", "reason": ""}])
    messages = process.until(answered)
    assert messages[-2] == ["stopped"] and messages[-1][:2] == ["fail", 1]


@HANDLERS
def test_the_end_of_the_input_in_a_wait(spawn: Spawn, program: str) -> None:
    process = spawn(program)
    begin(process, FOREVER)
    process.batch(1, [row(6, b"bad"), row(7, b"retry")])
    process.until(waiting)
    process.end_input()
    assert process.wait() == 1


def test_a_batch_that_fails_reports_nothing_that_a_commit_would(spawn: Spawn) -> None:
    process = spawn(HEAD + SYNC)
    begin(process, {"tolerance.limit.run": "1", "log.enable": "true"})
    process.batch(1, [row(6, b"bad"), row(7, b"bad")])
    messages = process.until(answered)
    assert messages[-1][:2] == ["fail", 1] and messages[-1][2]["offset"] == 7
    assert messages[-1][2]["kind"] == "ValueError"
    numbers = series(messages)
    assert numbers["record_errors_total"] == (None, 1) and numbers["record_failures_total"] == (None, 2)
    assert "dead_letters_total" not in numbers and "records_skipped_total" not in numbers


def test_a_record_that_ends_the_process_is_given_up_after_n_deliveries(spawn: Spawn) -> None:
    program = HEAD + SYNC
    for attempt, batch, answer in ((3, [row(7, b"good")], "forward"), (4, [row(7, b"good")], "emit")):
        process = spawn(program)
        begin(process, {"deliveries.max": "3", "deadletterqueue.context.headers.enable": "true"})
        process.batch(1, batch, attempt=attempt)
        messages = process.until(answered)
        assert messages[-1] == ["ack", 1] and answer in [message[0] for message in messages]
    (letter,) = next(message for message in messages if message[0] == "emit")[3]
    context = dict(map(tuple, letter[2]))
    assert context[b"__flow.errors.reason"] == b"killed" and letter[1] == b"good"
    assert b"KilledTheProcess" in context[b"__connect.errors.exception.class.name"]


def test_an_innocent_neighbour_and_known_failures_are_no_deaths(spawn: Spawn) -> None:
    process = spawn(HEAD + SYNC)
    begin(process, {"deliveries.max": "2"})
    process.batch(1, [row(7, b"good"), row(8, b"good")], attempt=9)  # not alone: nobody knows which
    assert process.until(answered) == [["forward", 1, "out", None], ["ack", 1]]
    process = spawn(HEAD + SYNC)
    begin(process, {"deliveries.max": "2", "tolerance.limit.errors": "0"})
    for n in range(2, 8):
        process.batch(n, [row(9, b"bad")], attempt=n - 1)  # failed by itself, not by dying
        assert process.until(answered)[-1][:2] == ["fail", n]


def test_settings_that_are_refused_end_the_process_and_say_all(spawn: Spawn) -> None:
    process = spawn(HEAD + SYNC)
    begin(process, {"retry.timeout": "-7", "tolerence": "all"})
    assert process.wait() == 1
    for text in ("errors.retry.timeout: '-7'", "did you mean errors.tolerance?", "were not accepted"):
        assert text in process.stderr()


def test_a_policy_that_drops_without_a_word_warns(spawn: Spawn) -> None:
    process = spawn(HEAD + SYNC)
    begin(process, {"deadletterqueue.topic.name": ""})
    message = process.next()
    assert message[:2] == ["log", "warn"] and "vanish without a word" in message[2]


def test_emits_of_a_failed_attempt_are_not_called_forgotten(spawn: Spawn) -> None:
    process = spawn(HEAD + "class S(Base):\n  def process_record(self, r, c):\n"
                    "    yield self.out.emit(r)\n    raise ValueError\nserve(S())\n")  # fmt: skip
    begin(process, {})
    process.batch(1, [row(7, b"v")])
    assert process.until(answered)[-1] == ["ack", 1]
    assert process.stderr() == ""
