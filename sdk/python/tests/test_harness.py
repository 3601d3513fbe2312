"""The testkit, and the example as its users test it."""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ankka_flow import Batch, Context, Emit, JsonInlet, JsonOutlet, Record, Streamlet
from ankka_flow.testkit import Harness, hash_partitioner

pytestmark = pytest.mark.usefixtures("codec")

EXAMPLES = Path(__file__).parents[3] / "examples"


class Router(Streamlet):
    name = "router"
    inlet = JsonInlet("in", schema_name="s")
    out = JsonOutlet("out", schema_name="s")

    def process(self, batch: Batch) -> Iterator[Emit]:
        for record in batch:
            if record.value == b"skip":
                continue
            if record.value == b"bad":
                raise ValueError("bad")
            if record.value == b"exit":
                raise SystemExit
            yield Emit("nowhere", record) if record.value == b"lost" else self.out.emit(record)


def test_emits_skips_failures() -> None:
    h = Harness(Router())
    for value in (b"a", b"skip", b"b"):
        h.inlet("in").put(value=value, key=b"k", headers=[("h", b"1")])
    h.run()
    assert [(r.value, r.key, r.headers, r.offset) for r in h.outlet("out").records] == [
        (b"a", b"k", [("h", b"1")], 0),
        (b"b", b"k", [("h", b"1")], 2),
    ]
    assert [r.value for r in h.skipped] == [b"skip"] and h.failures == []
    for value in (b"a", b"bad", b"c", b"exit", b"lost"):
        h.inlet("in").put(value=value)
    h.run(max_records=2)
    assert [[r.offset for r in batch] for batch in h.batches] == [[0, 1, 2], [3, 4], [5, 6], [7]]
    assert [type(f.error).__name__ for f in h.failures] == ["ValueError", "SystemExit", "UndeclaredOutletError"]
    assert len(h.outlet("out").records) == 2


def test_partitions_keep_order() -> None:
    h = Harness(Router())
    for i in range(60):
        h.inlet("in").put(value=b"%d" % i, key=b"k%d" % (i % 10))
    h.inlet("in").put(value=b"60")
    h.run(partitions=hash_partitioner(3), max_records=7)
    assert {batch.partition for batch in h.batches} == {0, 1, 2} and max(map(len, h.batches)) == 7
    records = h.outlet("out").records
    assert len(records) == 61
    for i in range(10):
        values = [int(r.value or b"") for r in records if r.key == b"k%d" % i]
        assert values == sorted(values) and len(values) == 6


def test_undeclared_names() -> None:
    h = Harness(Router())
    for call in (lambda: h.inlet("x"), lambda: h.outlet("x"), lambda: Harness(Router(), {"x": 1})):
        with pytest.raises(KeyError, match="declared"):
            call()


def test_async_and_record_handlers() -> None:
    class Async(Router):
        async def process(self, batch: Batch) -> AsyncIterator[Emit]:  # type: ignore[override]
            for record in batch:
                yield self.out.emit(record)

    class AsyncRecord(Router):
        async def process_record(self, record: Record, ctx: Context) -> Any:
            assert (ctx.inlet, ctx.partition, ctx.attempt, ctx.delivery, ctx.stopping) == ("in", 0, 1, 1, False)
            return None if record.value is None else [self.out.emit(record), self.out.tombstone(record.key)]

    for streamlet in (Async(), AsyncRecord()):
        h = Harness(streamlet)
        h.inlet("in").put(value=b"v", key=b"k")
        h.inlet("in").put(value=None, key=b"k")
        h.run()
        assert h.failures == [] and [r.value for r in h.outlet("out").records] == [b"v", None]


def test_an_emit_that_is_not_returned_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    class Forgets(Router):
        def process_record(self, record: Record, ctx: Context) -> Any:
            self.out.emit(record)

    h = Harness(Forgets())
    for _ in range(2):
        h.inlet("in").put(value=b"v")
        h.run()
    assert h.failures == [] and len(h.skipped) == 2
    told = capfd.readouterr().err
    assert told.count("Forgets.process_record: an emit of outlet 'out' was made and not returned") == 1


def test_the_example() -> None:
    cart_router = runpy.run_path(str(EXAMPLES / "cart_router.py"))["CartRouter"]
    h = Harness(cart_router())
    lines = (EXAMPLES / "carts.jsonl").read_text().splitlines()
    assert len(lines) == 50
    for line in lines:
        cart = json.loads(line)
        h.inlet("in").put(key=cart["key"].encode(), value=json.dumps(cart["value"]).encode())
    h.run(partitions=hash_partitioner(3))
    assert h.failures == [] and h.skipped == []
    review, valid = h.outlet("review").records, h.outlet("valid").records
    assert len(review) + len(valid) == 50 and review and valid
    assert b'{"total":180}' in [r.value for r in review if r.key == b"cart-4"]
    assert all(json.loads(r.value or b"")["total"] <= 100 for r in valid)
