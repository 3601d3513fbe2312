"""The golden frames that the Go side reads too (wire/testdata/golden): the same bytes, not a round trip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ankka_flow import _codec
from ankka_flow._collector import Collector
from ankka_flow._frames import FrameReader, ack, decode, encode, fail, pong, stopped
from ankka_flow._session import Begin, Send, Session
from ankka_flow.errors import ProtocolError
from ankka_flow.ports import JsonOutlet
from ankka_flow.records import Emit, Record, decode_headers, records_of

pytestmark = pytest.mark.usefixtures("codec")

FOLDER = Path(__file__).parents[3] / "wire" / "testdata" / "golden"


def value_of(made: Any) -> Any:
    """The value that a golden file's JSON stands for, arrays as tuples."""
    if isinstance(made, list):
        return tuple(map(value_of, made))
    if isinstance(made, dict):
        if set(made) == {"hex"}:
            return bytes.fromhex(made["hex"])
        return {name: value_of(element) for name, element in made.items()}
    return made


def load() -> list[dict[str, Any]]:
    files = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    return [{**file, "value": value_of(file["value"]), "frame": bytes.fromhex(file["hex"])} for file in files]


GOLDEN = load()
FROM_SUPERVISOR = [file for file in GOLDEN if file["from"] == "supervisor"]
BATCHES = [file for file in FROM_SUPERVISOR if file["value"][0] == "batch"]
BY_NAME = {file["name"]: file for file in GOLDEN}


def names(file: dict[str, Any]) -> str:
    return str(file["name"])


def test_the_folder_is_there() -> None:
    assert len(FROM_SUPERVISOR) >= 10 and len(BATCHES) >= 3 and len(GOLDEN) > len(FROM_SUPERVISOR)


@pytest.mark.parametrize("file", GOLDEN, ids=names)
def test_decodes_to_its_value(file: dict[str, Any]) -> None:
    (body,) = FrameReader().feed(file["frame"])
    assert decode(body) == file["value"]


@pytest.mark.parametrize("file", [file for file in GOLDEN if file["exact"]], ids=names)
def test_encodes_to_its_bytes(file: dict[str, Any]) -> None:
    assert encode(file["value"]) == file["frame"]


@pytest.mark.parametrize("file", FROM_SUPERVISOR, ids=names)
def test_the_session_takes_it(file: dict[str, Any]) -> None:
    """Every message of a supervisor is taken in the state in which it may come."""
    session = Session({}, 8)
    kind = file["value"][0]
    if kind != "discover":
        session.receive(_codec.packb(["discover", {}]))
    if kind not in ("discover", "refuse", "start"):
        session.receive(_codec.packb(["start", {}]))
        session.configured()
    actions = session.receive(file["frame"][4:])
    assert all(isinstance(action, Begin) for action in actions) == (kind in ("batch", "revoke"))


@pytest.mark.parametrize("file", BATCHES, ids=names)
def test_records_of_a_batch(file: dict[str, Any]) -> None:
    rows = file["value"][4]
    made = [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records_of(rows)]
    assert made == [(*row[:4], decode_headers(row[4])) for row in rows]


@pytest.mark.parametrize("file", BATCHES, ids=names)
def test_what_comes_back_of_a_batch_is_what_came(file: dict[str, Any]) -> None:
    """Header names that are no text included."""
    records = records_of(file["value"][4])
    collector = Collector(1, ["out"], records)
    collector.consume(Emit("out", Record(r.value, r.key, list(r.headers))) for r in records)
    (frame,) = collector.frames()
    sent = [(*row, ())[:3] for row in decode(frame[4:])[3]]
    assert sent == [(row[2], row[3], tuple(header[:2] for header in row[4])) for row in file["value"][4]]


def test_what_a_process_sends() -> None:
    assert ack(BY_NAME["ack"]["value"][1]) == BY_NAME["ack"]["frame"]
    assert stopped() == BY_NAME["stopped"]["frame"]
    assert pong(BY_NAME["pong"]["value"][1]) == BY_NAME["pong"]["frame"]
    failed = BY_NAME["fail"]["value"]
    assert fail(failed[1], failed[2]) == BY_NAME["fail"]["frame"]


def test_emits_and_forwards() -> None:
    outlet = JsonOutlet("valid", schema_name="s")
    emitted = BY_NAME["emit"]["value"]
    collector = Collector(emitted[1], ["valid"], [])
    collector.consume(outlet.emit(value=value, key=key) for key, value, _, _ in emitted[3])
    (frame,) = collector.frames()
    # trailing nils are left out, which the golden file emit_short_records allows
    assert decode(frame[4:]) == (*emitted[:3], tuple(row[:2] for row in emitted[3]))
    assert any(len(row) < 4 for row in BY_NAME["emit_short_records"]["value"][3])
    forward = BY_NAME["forward_some"]["value"]
    records = records_of([(i, 0, None, b"", ()) for i in range(5)])
    collector = Collector(forward[1], [forward[2]], records)
    collector.consume(Emit(forward[2], records[index]) for index in forward[3])
    assert collector.frames() == [BY_NAME["forward_some"]["frame"]]


def test_a_spec_says_what_this_sdk_can_do() -> None:
    session = Session(BY_NAME["spec"]["value"][1], 8)
    (send,) = session.receive(BY_NAME["discover"]["frame"][4:])
    assert isinstance(send, Send)
    said = decode(send.frames[0][4:])
    assert said[:2] == BY_NAME["spec"]["value"][:2]
    assert said[2] == {"ping": True, "max_in_flight": 8, "errors": True}


def test_a_golden_frame_cut_short_is_refused() -> None:
    for file in GOLDEN:
        with pytest.raises(ProtocolError):
            decode(file["frame"][4:-1])
