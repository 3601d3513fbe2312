"""Runs a streamlet over inlets and outlets in memory: no broker, no supervisor, the same rules.

Batches are of one partition in offset order. A batch that raises, or emits what cannot be sent, fails and its emits
are dropped. Batches run one after another: concurrency, rebalances and redelivery are not reproduced.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ._collector import Collector
from ._handler import At, async_emits, emits, handler_of, is_async
from ._tally import Tally
from .records import Batch, Emit, Headers, Record
from .streamlet import Context, Streamlet

_P = TypeVar("_P")

__all__ = ["Failure", "Harness", "InletQueue", "OutletRecords", "hash_partitioner"]


@dataclass
class Failure:
    """A batch that failed, and what its handler raised."""

    batch: Batch
    error: BaseException


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
    out takes its default.
    """

    def __init__(self, streamlet: Streamlet, config: Mapping[str, object] | None = None) -> None:
        self.streamlet = streamlet
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
