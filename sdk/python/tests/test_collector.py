"""Emits on their way into frames: grouping, forward, order, limits."""

from __future__ import annotations

from typing import Any

import pytest

from ankka_flow import Emit, JsonOutlet, Record, RecordTooLargeError, UndeclaredOutletError
from ankka_flow._collector import Collector
from ankka_flow._frames import MAX_FRAME, MAX_RECORD
from ankka_flow.records import records_of
from process import frames, row

pytestmark = pytest.mark.usefixtures("codec")

out = JsonOutlet("out", schema_name="s")
other = JsonOutlet("other", schema_name="s")


def arrived(n: int, headers: Any = ()) -> list[Record]:
    return records_of([tuple(row(i, b"v%d" % i, b"k", headers)) for i in range(n)])


def sent(records: list[Record], *emits: Emit) -> list[Any]:
    collector = Collector(9, ["out", "other"], records)
    collector.consume(emits)
    return frames(b"".join(collector.frames()))


def test_unchanged_records_go_out_as_forward() -> None:
    records = arrived(3)
    assert sent(records, *map(out.emit, records)) == [["forward", 9, "out", None]]
    assert sent(records, out.emit(records[2]), out.emit(records[0]), out.emit(records[0])) == [
        ["forward", 9, "out", [2, 0, 0]]
    ]
    assert sent(records, Emit("out", records[1])) == [["forward", 9, "out", [1]]]


def test_anything_changed_goes_out_as_bytes() -> None:
    r = arrived(1, ((b"h", b"1"),))[0]
    h = [[b"h", b"1"]]
    assert sent([r], out.emit(r, value=b"x")) == [["emit", 9, "out", [[b"k", b"x", h]]]]
    assert sent([r], out.emit(r, key=None)) == [["emit", 9, "out", [[None, b"v0", h]]]]
    assert sent([r], out.emit(r, key=b"")) == [["emit", 9, "out", [[b"", b"v0", h]]]]
    assert sent([r], out.emit(r, headers=[])) == [["emit", 9, "out", [[b"k", b"v0"]]]]
    assert sent([r], out.emit(r, timestamp_ms=5)) == [["emit", 9, "out", [[b"k", b"v0", h, 5]]]]
    assert sent([r], out.emit(value=b"")) == [["emit", 9, "out", [[None, b""]]]]
    assert sent([r], out.tombstone(b"k", headers=[("h", None)])) == [["emit", 9, "out", [[b"k", None, [[b"h", None]]]]]]
    assert sent([r], Emit("out", Record(b"n", b"k2", [("a", b"b")], 3, 4))) == [
        ["emit", 9, "out", [[b"k2", b"n", [[b"a", b"b"]]]]]
    ]


def test_a_record_that_is_equal_but_not_the_batch_s_own_is_no_forward() -> None:
    records, same = arrived(1), arrived(1)
    assert sent(records, out.emit(same[0])) == [["emit", 9, "out", [[b"k", b"v0"]]]]


def test_headers_changed_in_place_are_seen() -> None:
    records = arrived(2, ((b"h", b"1"),))
    assert records[0].headers == [("h", b"1")]  # looked at, not changed
    records[1].headers.append(("new", b"2"))
    assert sent(records, *map(out.emit, records)) == [
        ["emit", 9, "out", [[b"k", b"v0", [[b"h", b"1"]]], [b"k", b"v1", [[b"h", b"1"], [b"new", b"2"]]]]]
    ]
    assert sent(records, out.emit(records[0])) == [["forward", 9, "out", [0]]]
    plain = arrived(1)
    plain[0].headers.append(("new", b"2"))
    assert sent(plain, out.emit(plain[0])) == [["emit", 9, "out", [[b"k", b"v0", [[b"new", b"2"]]]]]]


def test_a_frame_for_each_outlet_and_order_within_each() -> None:
    records = arrived(40)
    few = [out.emit(value=b"a"), other.emit(records[0]), out.emit(records[1]), out.emit(value=b"b")]
    assert sent(records, *few) == [
        ["emit", 9, "out", [[None, b"a"], [b"k", b"v1"], [None, b"b"]]],
        ["forward", 9, "other", [0]],
    ]
    many = [out.emit(value=b"a"), *map(out.emit, records), out.emit(value=b"b")]
    assert sent(records, *many) == [
        ["emit", 9, "out", [[None, b"a"]]],
        ["forward", 9, "out", None],
        ["emit", 9, "out", [[None, b"b"]]],
    ]


def test_emits_are_split_over_frames_within_the_limit() -> None:
    rows = [bytes([i]) * 1_000_000 for i in range(10)]
    collector = Collector(9, ["out"], [])
    collector.consume(out.emit(value=value) for value in rows)
    made = collector.frames()
    assert all(len(frame) - 4 <= MAX_FRAME for frame in made)
    messages = frames(b"".join(made))
    assert 3 <= len(messages) <= 8
    assert [row[1] for message in messages for row in message[3]] == rows


def test_many_small_emits_are_split_too() -> None:
    collector = Collector(9, ["out"], [])
    emit = out.emit(value=b"0123456789" * 4)
    collector.consume(emit for _ in range(100_000))
    made = collector.frames()
    assert len(made) > 1 and all(len(frame) - 4 <= MAX_FRAME for frame in made)
    assert sum(len(message[3]) for message in frames(b"".join(made))) == 100_000


def test_long_batches_are_flushed_before_their_end() -> None:
    flushed: list[list[bytes]] = []
    collector = Collector(9, ["out"], [], flushed.append)
    collector.consume(out.emit(value=bytes(300_000)) for _ in range(10))
    assert [len(frames(b"".join(piece))[0][3]) for piece in flushed] == [4, 4]
    assert len(frames(b"".join(collector.frames()))[0][3]) == 2


@pytest.mark.parametrize("over", [0, 1])
def test_case7_case8_the_limit_of_a_record(over: int) -> None:
    # [nil, value]: an array's head, nil, and five bytes before the value
    value = bytes(MAX_RECORD - 7 + over)
    if over:
        with pytest.raises(RecordTooLargeError, match=f"{MAX_RECORD + 1} bytes for outlet 'out'"):
            out.emit(value=value)
        with pytest.raises(RecordTooLargeError):
            sent([], Emit("out", Record(value)))
    else:
        assert len(sent([], out.emit(value=value))[0][3][0][1]) == len(value)


def test_a_record_that_is_too_large_by_its_headers_is_found() -> None:
    headers = [("h", bytes(900_000))] * 5
    with pytest.raises(RecordTooLargeError, match="outlet 'out'"):
        sent([], out.emit(value=b"", headers=headers))


def test_what_cannot_be_sent() -> None:
    with pytest.raises(UndeclaredOutletError, match=r"'nowhere'.*other, out"):
        sent([], Emit("nowhere", Record(b"")))
    with pytest.raises(TypeError, match="gave a Record"):
        Collector(1, ["out"], []).consume([Record(b"")])  # type: ignore[list-item]
    for record in (Record("text"), Record(b"", "key")):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be bytes or None, not str"):
            sent([], Emit("out", record))
