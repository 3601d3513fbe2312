"""Runs a streamlet over inlets and outlets in memory: no broker, no supervisor, the same rules.

Batches are of one partition in offset order. A batch that raises, or emits what cannot be sent, fails and its emits
are dropped. Batches run one after another: concurrency, rebalances and redelivery are not reproduced. The waits of an
error policy take no time: the clock is told to go on.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ._attempts import Wait
from ._collector import Collector
from ._context import Where
from ._handler import At, async_emits, emits, handler_of, is_async
from ._runner import Clocks, InForce, Memory, Runner
from ._tally import Tally
from .ports import DEAD_LETTER
from .records import Batch, Emit, Headers, RawHeaders, Record, decode_headers
from .streamlet import Context, Streamlet

_P = TypeVar("_P")

__all__ = ["Failure", "FakeClock", "Harness", "InletQueue", "OutletRecords", "Retry", "StillHeld", "hash_partitioner"]

_MOST_WAITS = 1000  # of one batch, after which it is taken for one that is tried for ever


@dataclass
class Failure:
    """A batch that failed, and what its handler raised."""

    batch: Batch
    error: BaseException


@dataclass
class Retry:
    """A wait of the error policy: milliseconds, after failed attempt number ``attempt`` at ``record``."""

    record: Record
    attempt: int
    wait_ms: int
    error: str


class StillHeld(Exception):
    """A batch's failure where its policy would try it for ever: 1,000 waits did not end it."""


class FakeClock:
    """A clock that goes on only when told to: by a policy's waits, and by ``advance`` in a handler."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def advance(self, ms: int) -> None:
        """Let ``ms`` milliseconds pass."""
        self.now_ms += ms

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class InletQueue:
    """What was put on an inlet and not run yet."""

    name: str
    pending: list[tuple[bytes | None, bytes | None, Headers]] = field(default_factory=list)

    def put(
        self,
        *,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Queue a record. ``value`` None is a tombstone."""
        self.pending.append((key, value, list(headers or [])))


@dataclass
class OutletRecords:
    """The records emitted to an outlet by batches that succeeded, in order."""

    name: str
    records: list[Record] = field(default_factory=list)


class _Counts:
    void = False


class Harness:
    """A streamlet and its ports in memory.

    ``config`` is applied as the start of a conversation applies it: an undeclared key raises KeyError, what is left
    out takes its default. ``errors`` are the settings of error handling as the configuration has them, texts by the
    names of KIP-298; ValueError for what is refused. The jitter of waits is their middle.
    """

    def __init__(
        self,
        streamlet: Streamlet,
        config: Mapping[str, object] | None = None,
        *,
        errors: Mapping[str, str] | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.streamlet = streamlet
        self.clock = clock or FakeClock()
        self._force: InForce | None = None
        if streamlet.errors is not None or errors:
            clocks = Clocks(self.clock, self.clock, lambda: 0.5)
            self._force = InForce(streamlet, errors or {}, Where("test", streamlet.name), Memory(), clocks)
        self.retries: list[Retry] = []
        """The waits of the error policy, in order."""
        self.logged: list[tuple[str, dict[str, object]]] = []
        """The lines that the error policy logged, with their fields."""
        streamlet.configure(dict(config or {}))
        self._tally = Tally(handler_of(streamlet))
        self._inlets = {port.name: InletQueue(port.name) for port in streamlet.inlets()}
        self._outlets = {port.name: OutletRecords(port.name) for port in streamlet.outlets()}
        self._ends: dict[tuple[str, int], int] = {}
        self.skipped: list[Record] = []
        """Records of successful batches that no emit was derived from."""
        self.failures: list[Failure] = []
        """The batches that failed."""
        self.batches: list[Batch] = []
        """Every batch given to the handler, in order."""

    def inlet(self, name: str) -> InletQueue:
        """The queue of a declared inlet. Raises KeyError."""
        return _declared("inlet", self._inlets, name)

    def outlet(self, name: str) -> OutletRecords:
        """The records of a declared outlet. Raises KeyError."""
        return _declared("outlet", self._outlets, name)

    @property
    def dead_letters(self) -> list[Record]:
        """The records of the dead-letter outlet."""
        return self.outlet(DEAD_LETTER).records

    def run(self, partitions: Callable[[bytes | None], int] | None = None, max_records: int | None = None) -> None:
        """Process everything queued: inlet by inlet, partition by partition, in offset order.

        ``partitions`` gives a key its partition (None: everything on 0), ``max_records`` bounds a batch (None: one
        batch per partition). It can be called again; offsets go on.
        """
        for inlet in self._inlets.values():
            queued: dict[int, list[Record]] = {}
            for key, value, headers in inlet.pending:
                partition = 0 if partitions is None else partitions(key)
                offset = self._ends.get((inlet.name, partition), 0)
                self._ends[inlet.name, partition] = offset + 1
                queued.setdefault(partition, []).append(Record(value, key, headers, offset))
            inlet.pending.clear()
            for partition, records in sorted(queued.items()):
                size = max_records or len(records)
                for at in range(0, len(records), size):
                    self._run(Batch(inlet.name, partition, records[at : at + size]))

    def _run(self, batch: Batch) -> None:
        self.batches.append(batch)
        if self._force is not None:
            self._run_policy(batch, self._force)
            return
        records = list(batch.records)
        ctx = Context(batch.inlet, "", batch.partition, 1, _Counts())
        # The frames are thrown away; making them applies the checks of a real run.
        collector = Collector(0, self._outlets, records, lambda _frames: None)
        emitted: list[Emit] = []
        made = self._tally.begin()

        def noted(source: Iterator[Emit]) -> Iterator[Emit]:
            for emit in source:
                emitted.append(emit)
                yield emit

        try:
            if is_async(self.streamlet):
                asyncio.run(_consume(collector, async_emits(self.streamlet, batch, ctx, At()), emitted))
            else:
                collector.consume(noted(emits(self.streamlet, batch, ctx, At())))
            collector.frames()
            self._tally.end(made, collector.taken)
        except (Exception, SystemExit) as error:  # a KeyboardInterrupt is the tester's
            self.failures.append(Failure(batch, error))
            return
        derived = {emit.record.offset for emit in emitted}
        self.skipped += [record for record in records if record.offset not in derived]
        for emit in emitted:
            self._outlets[emit.outlet].records.append(emit.record)

    def _run_policy(self, batch: Batch, force: InForce) -> None:
        ctx = Context(batch.inlet, f"test.{batch.inlet}", batch.partition, 1, _Counts())
        collector = _Keeping(0, self._outlets, batch.records)
        self._tally.begin()
        runner = Runner(self.streamlet, force, collector, batch, ctx)
        try:
            waits = 0
            while (wait := self._advance(runner)) is not None:
                self.retries.append(Retry(wait.record, wait.attempt, wait.ms, wait.error))
                self.clock.advance(wait.ms)
                waits += 1
                if waits == _MOST_WAITS:
                    raise StillHeld(f"the record at offset {wait.record.offset}: {wait.error}")
            collector.frames()
            if not runner.troubled:
                self._tally.end(runner.names, collector.taken)
        except (Exception, SystemExit) as error:
            self.failures.append(Failure(batch, error))
            return
        finally:
            self.logged += runner.attempts.lines
        derived = {record.offset for outlet, record in collector.kept if outlet != DEAD_LETTER}
        self.skipped += [record for record in batch.records if record.offset not in derived]
        for outlet, record in collector.kept:
            self._outlets[outlet].records.append(record)

    def _advance(self, runner: Runner) -> Wait | None:
        return asyncio.run(runner.advance_async()) if is_async(self.streamlet) else runner.advance()


class _Keeping(Collector):
    """Keeps the records of a batch under a policy, whose emits may be taken back until their record is handled."""

    def __init__(self, batch_id: int, outlets: Mapping[str, object], records: Sequence[Record]) -> None:
        super().__init__(batch_id, outlets, records, lambda _frames: None)
        self.kept: list[tuple[str, Record]] = []

    def ready(self, emit: Emit) -> tuple[list[object], object]:
        items, what = super().ready(emit)
        return items, (what, emit)

    def keep(self, ready: Iterable[tuple[list[object], object]]) -> None:
        for items, both in ready:
            what, emit = cast(tuple[object, Emit], both)
            self.kept.append((emit.outlet, emit.record))
            super().keep([(items, what)])

    def row(self, outlet: str, row: tuple[bytes | None, bytes | None, RawHeaders]) -> None:
        super().row(outlet, row)
        self.kept.append((outlet, Record(row[1], row[0], decode_headers(row[2]))))


async def _consume(collector: Collector, source: AsyncIterator[Emit], emitted: list[Emit]) -> None:
    async for emit in source:
        emitted.append(emit)
        collector.consume((emit,))


def _declared(what: str, ports: dict[str, _P], name: str) -> _P:
    if name not in ports:
        raise KeyError(f"no {what} {name!r}; declared: {', '.join(sorted(ports)) or 'none'}")
    return ports[name]


def hash_partitioner(partitions: int) -> Callable[[bytes | None], int]:
    """Places keys on ``partitions`` partitions by their CRC-32; a record without a key goes to partition 0."""

    def place(key: bytes | None) -> int:
        return 0 if key is None else zlib.crc32(key) % partitions

    return place
