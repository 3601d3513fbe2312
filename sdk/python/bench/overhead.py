"""What the SDK costs per record beside the user's own code: frames in, records, emits, frames out, without pipes.

Prints the median of several rounds in microseconds of CPU time per record. The clock of a shared machine drifts:
compare figures of one run only.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from ankka_flow import Batch, Context, Emit, JsonInlet, JsonOutlet, Record, Streamlet, _codec, _msgpack, json
from ankka_flow._collector import Collector
from ankka_flow._frames import ack, decode
from ankka_flow._handler import At, emits
from ankka_flow._tally import Tally
from ankka_flow.records import records_of

RECORDS = 1000
ROUNDS = 60
TALLY = Tally("bench")


class Base(Streamlet):
    name = "bench"
    inlet = JsonInlet("in", schema_name="s")
    valid = JsonOutlet("valid", schema_name="s")
    review = JsonOutlet("review", schema_name="s")


class Nothing(Base):
    def process(self, batch: Batch) -> None:
        return None


class ForwardBatch(Base):
    def process(self, batch: Batch) -> Any:
        return map(self.valid.emit, batch.records)


class ForwardRecord(Base):
    def process_record(self, record: Record, ctx: Context) -> Emit:
        return self.valid.emit(record)


class Replace(Base):
    def process_record(self, record: Record, ctx: Context) -> Emit:
        return self.valid.emit(record, value=b"other bytes")


class Json(Base):
    def process_record(self, record: Record, ctx: Context) -> Emit:
        cart = json.loads(record.value)
        outlet = self.review if cart["total"] > 100 else self.valid
        return outlet.emit(record, value=json.dumps(cart))


class Counts:
    void = False


def body(headers: list[Any]) -> bytes:
    value = json.dumps({"id": "cart-17", "total": 80, "items": ["a" * 20, "b" * 20], "note": "x" * 20})
    rows = [[i, 1_700_000_000_000 + i, b"cart-%d" % (i % 50), value, headers] for i in range(RECORDS)]
    return _codec.packb(["batch", 1, "in", 0, rows, {"attempt": 1}])


def one(streamlet: Streamlet, frame: bytes) -> bytes:
    records = records_of(decode(frame)[4])
    collector = Collector(1, ["valid", "review"], records)
    ctx = Context("in", "topic", 0, 1, Counts())
    made = TALLY.begin()
    collector.consume(emits(streamlet, Batch("in", 0, records), ctx, At()))
    frames = collector.frames()
    TALLY.end(made, collector.taken)
    return b"".join([*frames, ack(1)])


def microseconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return statistics.median(times) * 1e6 / RECORDS


def own_code() -> float:
    """The user's part of ``Json``: decode and encode alone."""
    value = json.dumps({"id": "cart-17", "total": 80, "items": ["a" * 20, "b" * 20], "note": "x" * 20})
    return microseconds(lambda: [json.dumps(json.loads(value)) for _ in range(RECORDS)])


def main() -> None:
    gc.freeze()
    plain, headed = body([]), body([[b"trace", b"0123456789"]])
    print(f"us per record, batches of {RECORDS}, {_codec.packb.__module__}")
    for title, streamlet, frame in (
        ("records made, nothing emitted", Nothing(), plain),
        ("forward, process", ForwardBatch(), plain),
        ("forward, process_record", ForwardRecord(), plain),
        ("forward, a header each", ForwardRecord(), headed),
        ("new value", Replace(), plain),
        ("new value, a header each", Replace(), headed),
        ("JSON in and out", Json(), plain),
    ):
        print(f"{microseconds(lambda s=streamlet, f=frame: one(s, f)):6.2f}  {title}")  # type: ignore[misc]
    print(f"{own_code():6.2f}  of which the JSON itself")
    _codec.packb, _codec.unpackb = _msgpack.packb, _msgpack.unpackb
    print(f"{microseconds(lambda: one(ForwardRecord(), plain)):6.2f}  forward, process_record, without msgpack")


if __name__ == "__main__":
    main()
