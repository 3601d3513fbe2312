"""Whatever comes from the pipe is a message or a ProtocolError, and nothing else is raised.

Mutants of the golden frames, by seeds that are named here: a failure is found again. FUZZ_SEEDS=1000 tries more.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from ankka_flow import _codec, _msgpack
from ankka_flow._frames import MAX_FRAME, FrameReader, decode, encode
from ankka_flow._session import Begin, Session
from ankka_flow.errors import ProtocolError
from ankka_flow.records import decode_headers, records_of
from test_golden import FROM_SUPERVISOR, GOLDEN

SEEDS = range(int(os.environ.get("FUZZ_SEEDS", "4")))
HEADS = bytes([0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, *range(0xC0, 0xE1), 0xFF])


def mutant(chance: random.Random, body: bytes) -> bytes:
    """A body with bytes changed, left out, put in or cut off; often by what begins a msgpack value."""
    made = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made)) if made else 0
        what = chance.randrange(5)
        if what == 0 and made:
            made[at] = chance.randrange(256)
        elif what == 1 and made:
            made[at] = chance.choice(HEADS)
        elif what == 2:
            made[at:at] = bytes(chance.choices(HEADS, k=chance.randint(1, 9)))
        elif what == 3:
            del made[at : at + chance.randint(1, 9)]
        else:
            del made[chance.randint(0, len(made)) :]
    return bytes(made)


def mutants(seed: int, files: list[dict[str, Any]]) -> list[bytes]:
    chance = random.Random(seed)
    return [mutant(chance, file["frame"][4:]) for file in files for _ in range(60)]


def decoded(unpackb: Any, body: bytes) -> Any:
    """What a codec makes of a body; None where it refuses it."""
    try:
        return unpackb(body)
    except Exception:  # the package raises many kinds; decode makes one of them
        return None


@pytest.mark.usefixtures("codec")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_body_is_a_message_or_a_protocol_error(seed: int) -> None:
    for body in mutants(seed, GOLDEN):
        try:
            message = decode(body)
        except ProtocolError:
            continue
        assert isinstance(message, tuple) and isinstance(message[0], str)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_codecs_read_the_same(seed: int) -> None:
    """What both of them take, for the package refuses some that ours does not, and says the same to a NaN."""
    _packb, unpackb = _codec._package()
    both = 0
    for body in mutants(seed, GOLDEN):
        theirs, ours = decoded(unpackb, body), decoded(_msgpack.unpackb, body)
        if theirs is None or ours is None:
            continue
        both += 1
        assert repr(ours) == repr(theirs), body
    assert both > 100


@pytest.mark.usefixtures("codec")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_takes_it_or_raises_a_protocol_error(seed: int) -> None:
    """In every state: new, running with a batch, and after a stop."""
    chance = random.Random(seed)
    for body in mutants(seed, FROM_SUPERVISOR):
        session = Session({}, 8)
        before = [
            ["discover", {}],
            ["start", {}],
            ["batch", 1, "in", 0, [[0, 0, None, b"v", []]], {}],
            ["stop", {"mode": "finish"}],
        ]
        for message in before[: chance.randint(0, len(before))]:
            session.receive(_codec.packb(message))
            session.configured()
        try:
            actions = session.receive(body)
            actions += session.configured()
            for action in actions:
                if isinstance(action, Begin):
                    for record in records_of(action.run.rows):
                        raw = record._raw
                        assert raw is not None
                        decode_headers(raw[4])
        except ProtocolError:
            continue


@pytest.mark.parametrize("seed", SEEDS)
def test_any_split_of_a_stream_cuts_the_same_bodies(seed: int) -> None:
    chance = random.Random(seed)
    frames = [len(body).to_bytes(4, "big") + body for body in mutants(seed, GOLDEN[:10]) if body]
    stream, reader, bodies = b"".join(frames), FrameReader(), []
    at = 0
    while at < len(stream):
        size = chance.choice([1, 2, 3, 4, 5, 50, 5000])
        bodies += reader.feed(stream[at : at + size])
        at += size
    assert bodies == [frame[4:] for frame in frames] and reader.partial() == 0


@pytest.mark.usefixtures("codec")
def test_the_limit_of_a_frame_at_its_value_and_one_over() -> None:
    around = len(encode(["log", "info", "x" * (1 << 20)])) - 4 - (1 << 20)
    whole = encode(["log", "info", "x" * (MAX_FRAME - around)])
    assert len(whole) == 4 + MAX_FRAME and FrameReader().feed(whole) == [whole[4:]]
    with pytest.raises(ValueError, match="4194305 bytes"):
        encode(["log", "info", "x" * (MAX_FRAME - around + 1)])
    with pytest.raises(ProtocolError, match="4194305 bytes"):
        FrameReader().feed((MAX_FRAME + 1).to_bytes(4, "big"))
