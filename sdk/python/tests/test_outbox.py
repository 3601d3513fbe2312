"""The writer: order, control frames first, and a reader that never waits for a full pipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from ankka_flow._outbox import Outbox
from process import frame, frames

LARGE = [frame("emit", i, bytes(200_000)) for i in range(5)]  # far more than a pipe holds


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass


def read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, size - len(data))
    return data


def broken() -> None:
    raise AssertionError("nobody closed the pipe")


def test_control_frames_overtake_data_between_frames(pipe: tuple[int, int]) -> None:
    outbox = Outbox(pipe[1], broken)
    outbox.put(LARGE)
    writer = threading.Thread(target=outbox.pump)
    writer.start()
    head = os.read(pipe[0], 1)  # now the first frame has begun
    outbox.put([frame("pong", 1)], urgent=True)
    outbox.pump_without_waiting()
    data = head + read(pipe[0], sum(map(len, LARGE)) + len(frame("pong", 1)) - 1)
    writer.join()
    assert [message[0] for message in frames(data)] == ["emit", "pong", "emit", "emit", "emit", "emit"]
    assert [message[1] for message in frames(data) if message[0] == "emit"] == list(range(5))


def test_the_reader_does_not_wait_for_a_full_pipe(pipe: tuple[int, int]) -> None:
    outbox = Outbox(pipe[1], broken)
    pongs = [frame("pong", n) for n in range(20_000)]
    for pong in pongs:  # would never end if it wrote them itself: nobody reads
        outbox.put([pong])
        outbox.pump_without_waiting()
    assert read(pipe[0], sum(map(len, pongs))) == b"".join(pongs)


def test_who_waits_for_its_frames_is_told(pipe: tuple[int, int]) -> None:
    outbox = Outbox(pipe[1], broken)
    out = threading.Event()
    outbox.put(LARGE, written=out.set)
    writer = threading.Thread(target=outbox.pump)
    writer.start()
    first = read(pipe[0], len(LARGE[0]))
    assert not out.is_set()
    assert first + read(pipe[0], sum(map(len, LARGE[1:]))) == b"".join(LARGE)
    assert out.wait(20)
    writer.join()


def test_a_closed_pipe_is_told_once(pipe: tuple[int, int]) -> None:
    told: list[int] = []
    outbox = Outbox(pipe[1], lambda: told.append(1))
    os.close(pipe[0])
    for _ in range(3):
        outbox.put([frame("stopped")])
        outbox.pump()
    assert told == [1]


def test_many_threads_write_whole_frames(pipe: tuple[int, int]) -> None:
    outbox = Outbox(pipe[1], broken)

    def work(number: int) -> None:
        for n in range(500):
            outbox.put([frame("emit", number, n), frame("ack", number, n)])
            outbox.pump()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    size = sum(len(frame(kind, t, n)) for kind in ("emit", "ack") for t in range(8) for n in range(500))
    messages = frames(read(pipe[0], size))
    for thread in threads:
        thread.join()
    for number in range(8):
        own = [(message[0], message[2]) for message in messages if message[1] == number]
        assert own == [(kind, n) for n in range(500) for kind in ("emit", "ack")]
