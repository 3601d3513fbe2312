"""The session without IO: frames in, actions out."""

from __future__ import annotations

from typing import Any

import pytest

from ankka_flow._frames import FrameReader
from ankka_flow._session import Action, Begin, Configure, Refused, Run, Send, Session, Start
from ankka_flow.errors import ProtocolError
from process import frame, frames, row

pytestmark = pytest.mark.usefixtures("codec")

DISCOVER = ["discover", {"protocol": "1.0", "supervisor": "test"}]
START = ["start", {"conversation": 1, "config": {"limit": 5}, "inlets": {"in": "topic-in"}, "outlets": {}}]
FINISH = ["stop", {"mode": "finish", "reason": "test"}]
ABANDON = ["stop", {"mode": "abandon", "reason": "test"}]


def batch(batch_id: int, **info: Any) -> list[Any]:
    return ["batch", batch_id, "in", 3, [row(7, b"v")], info]


class Driver:
    """Feeds a session and keeps what it says, decoded, and what it began."""

    def __init__(self, max_in_flight: int = 4) -> None:
        self.session = Session({"streamlet": {"name": "s"}}, max_in_flight)
        self.begun: list[Run] = []

    def do(self, actions: list[Action]) -> list[Any]:
        said: list[Any] = []
        for action in actions:
            if isinstance(action, Send):
                said += frames(b"".join(action.frames))
            elif isinstance(action, Begin):
                self.begun.append(action.run)
            else:
                said.append(action)
        return said

    def send(self, *messages: list[Any]) -> list[Any]:
        said: list[Any] = []
        for message in messages:
            said += self.do(self.session.receive(frame(*message)[4:]))
        return said

    def running(self, *batches: list[Any]) -> Driver:
        self.send(DISCOVER, START)
        self.do(self.session.configured())
        assert self.send(*batches) == []
        return self

    def ack(self, index: int) -> list[Any]:
        return self.do(self.session.answer(self.begun[index], []))


def test_a_conversation_from_discover_to_stopped() -> None:
    driver = Driver()
    assert driver.send(DISCOVER) == [
        ["spec", {"streamlet": {"name": "s"}}, {"ping": True, "max_in_flight": 4, "errors": True}]
    ]
    assert driver.send(START) == [Configure({"limit": 5}, Start({}, "", "", 0))]
    assert driver.do(driver.session.configured()) == []
    assert driver.send(batch(1, attempt=2)) == []
    run = driver.begun[0]
    assert (run.id, run.inlet, run.topic, run.partition, run.attempt, run.void) == (1, "in", "topic-in", 3, 2, False)
    assert driver.ack(0) == [["ack", 1]]
    assert driver.send(FINISH) == [["stopped"]]
    assert driver.session.running == 0


def test_finish_answers_everything_first() -> None:
    driver = Driver().running(batch(1), batch(2))
    assert driver.send(FINISH) == []
    assert driver.ack(1) == [["ack", 2]]
    assert driver.ack(0) == [["ack", 1], ["stopped"]]


def test_finish_does_not_wait_for_void_batches() -> None:
    driver = Driver().running(batch(1), batch(2))
    driver.send(["revoke", 1])
    assert driver.send(FINISH) == []
    assert driver.ack(1) == [["ack", 2], ["stopped"]]
    assert driver.ack(0) == [["ack", 1]]


def test_a_revoke_while_finishing_may_be_the_last_answer_due() -> None:
    driver = Driver().running(batch(1))
    assert driver.send(FINISH) == []
    assert driver.send(["revoke", 1]) == [["stopped"]]


def test_abandon_is_stopped_at_once_and_late_answers_come_once() -> None:
    driver = Driver().running(batch(1), batch(2))
    assert driver.send(ABANDON) == [["stopped"]]
    assert [run.void for run in driver.begun] == [True, True]
    assert driver.send(DISCOVER)[0][0] == "spec"
    assert driver.ack(0) == [["ack", 1]]
    driver.send(START)
    driver.do(driver.session.configured())
    driver.send(batch(3))
    assert driver.do(driver.session.answer(driver.begun[1], [], {"message": "late"})) == [
        ["fail", 2, {"message": "late"}]
    ]
    assert driver.send(FINISH) == []
    assert driver.ack(2) == [["ack", 3], ["stopped"]]


def test_abandon_may_follow_finish_and_cross_stopped() -> None:
    driver = Driver().running(batch(1))
    assert driver.send(FINISH) == []
    assert driver.send(ABANDON) == [["stopped"]]
    assert driver.send(ABANDON) == []


def test_revoke_voids_and_the_answer_is_still_due() -> None:
    driver = Driver().running(batch(1))
    assert driver.send(["revoke", 1]) == []
    assert driver.begun[0].void
    # its emits are dropped by the supervisor, so they are not sent
    assert driver.do(driver.session.answer(driver.begun[0], [frame("emit", 1, "out", [])])) == [["ack", 1]]
    assert driver.send(["revoke", 1], ["revoke", 99]) == []


def test_batches_wait_until_the_parameters_are_in_force() -> None:
    driver = Driver()
    driver.send(DISCOVER, START, batch(1), batch(2))
    assert driver.begun == []
    assert driver.send(["revoke", 2])[0][:2] == ["fail", 2]
    driver.do(driver.session.configured())
    assert [run.id for run in driver.begun] == [1]


def test_a_new_conversation_while_the_parameters_of_the_old_are_resolved() -> None:
    driver = Driver()
    driver.send(DISCOVER, START, batch(1))
    said = driver.send(ABANDON)
    assert said[0] == ["stopped"] and said[1][:2] == ["fail", 1] and len(said) == 2
    assert driver.send(DISCOVER, ["start", {"conversation": 2, "config": {"limit": 6}}], batch(2))[0][0] == "spec"
    assert driver.do(driver.session.configured()) == [Configure({"limit": 6}, Start({}, "", "", 0))]
    assert driver.begun == []
    assert driver.do(driver.session.configured()) == []
    assert [run.id for run in driver.begun] == [2]


def test_ping_is_answered_in_every_state_from_spec_on_and_overtakes() -> None:
    driver = Driver()
    ping = frame("ping", 7)[4:]
    for message in (DISCOVER, START, batch(1), ABANDON):
        driver.send(message)
        (pong,) = driver.session.receive(ping)
        assert isinstance(pong, Send) and pong.urgent and frames(b"".join(pong.frames)) == [["pong", 7]]


def test_refuse_gives_every_problem() -> None:
    driver = Driver()
    driver.send(DISCOVER)
    assert driver.send(["refuse", ["one", "two"]]) == [Refused(["one", "two"])]


def test_later_minor_versions_add_elements_and_keys() -> None:
    driver = Driver()
    driver.send([*DISCOVER, "more"], ["start", {"conversation": 1, "news": {"a": 1}}, 5])
    driver.do(driver.session.configured())
    driver.send([*batch(1, attempt=1, news=True), "more"], ["stop", {"mode": "finish", "news": 1}])
    assert len(driver.begun) == 1


@pytest.mark.parametrize(
    "messages",
    [
        [START],
        [batch(1)],
        [["ping", 1]],
        [["revoke", 1]],
        [FINISH],
        [DISCOVER, DISCOVER],
        [DISCOVER, batch(1)],
        [DISCOVER, FINISH],
        [DISCOVER, START, START],
        [DISCOVER, START, DISCOVER],
        [DISCOVER, START, FINISH, batch(1)],
        [DISCOVER, START, batch(2), batch(2)],
        [DISCOVER, START, batch(2), batch(1)],
        [DISCOVER, START, ["batch", 1, "in", 0, [], {}]],
        [DISCOVER, START, ["batch", "1", "in", 0, [row(1, b"")], {}]],
        [DISCOVER, START, ["batch", True, "in", 0, [row(1, b"")], {}]],
        [DISCOVER, START, ["batch", 1, b"in", 0, [row(1, b"")], {}]],
        [DISCOVER, START, ["batch", 1, "in", -1, [row(1, b"")], {}]],
        [DISCOVER, START, ["stop", {"mode": "later"}]],
        [DISCOVER, START, ["stop"]],
        [DISCOVER, START, ["ping", 1 << 53]],
        [["unknown"]],
        [[]],
        [[1, 2]],
    ],
    ids=str,
)
def test_what_the_supervisor_may_not_say(messages: list[list[Any]]) -> None:
    driver = Driver()
    driver.send(*messages[:-1])
    with pytest.raises(ProtocolError):
        driver.send(messages[-1])


def test_a_body_that_is_no_array() -> None:
    for body in (b"\x01", b"hello", b"\xc1", b"\x81\xa1a\x01"):
        with pytest.raises(ProtocolError):
            Session({}, 1).receive(body)


def test_frames_are_the_same_for_every_split() -> None:
    stream = frame("ping", 1) + frame("x", "y" * 300) + frame("ping", 2)
    whole = FrameReader().feed(stream)
    assert len(whole) == 3
    for size in (1, 2, 3, 5, 7, 100, 303, 304):
        reader, bodies = FrameReader(), []
        for at in range(0, len(stream), size):
            bodies += reader.feed(stream[at : at + size])
        assert bodies == whole and reader.partial() == 0


def test_the_reader_wants_what_completes_the_frame() -> None:
    reader, data = FrameReader(), frame("ping", 1)
    bodies = []
    for _ in range(2):
        piece, data = data[: reader.wanted], data[reader.wanted :]
        bodies += reader.feed(piece)
    assert bodies == [frame("ping", 1)[4:]] and not data
    reader.feed(b"\0\0")
    assert reader.wanted == 2 and reader.partial() == 2
    reader.feed(b"\0\x05ab")
    assert reader.wanted == 3 and reader.partial() == 6


def test_case2_a_length_is_checked_before_anything_is_kept() -> None:
    assert FrameReader().feed((4 * 1024 * 1024).to_bytes(4, "big")) == []
    for head in (b"\0\0\0\0", (4 * 1024 * 1024 + 1).to_bytes(4, "big"), b"/hom"):
        with pytest.raises(ProtocolError):
            FrameReader().feed(head)
