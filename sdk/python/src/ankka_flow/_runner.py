"""Drives a batch through a streamlet's error policy, in threads, in an event loop or in a test.

Threads: none of its own. A limit and the counts of deaths are shared by all batches and have a lock.
"""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from . import _policy, _tally
from ._attempts import Attempts, Deaths, Handle, Means, Outcome, Wait
from ._collector import Collector
from ._context import Where
from ._handler import At, Revoked, async_iterable, handler_of, iterable
from ._policy import Limiter, Settings
from .errors import BatchError
from .policy import ErrorPolicy
from .ports import DEAD_LETTER
from .records import Batch, Emit, Record
from .streamlet import Context, Streamlet, handler_name


class Stopped(Exception):
    """Ends a wait at a stop: the batch fails, nothing is lost, and the next owner of the partition tries again."""


@dataclass(frozen=True)
class Clocks:
    """Where time and chance come from; both clocks in milliseconds."""

    monotonic: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    wall: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    random: Callable[[], float] = random.random


class Memory:
    """What outlives a conversation: the limit's counts and those of deaths."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.deaths = Deaths()
        self._limiter: Limiter | None = None

    def limiter(self, settings: Settings) -> Limiter:
        """The limit's counts, begun anew where the settings are others."""
        if self._limiter is None or self._limiter.settings != settings:
            self._limiter = Limiter(settings)
        return self._limiter


class InForce:
    """The policy of a conversation: that of the code with what is configured in its place."""

    def __init__(
        self, streamlet: Streamlet, texts: Mapping[str, str], where: Where, memory: Memory, clocks: Clocks
    ) -> None:
        policy = streamlet.errors or ErrorPolicy()
        self.settings = _policy.configured(policy._settings, texts)
        names = [outlet.name for outlet in streamlet.outlets()]
        if self.settings.topic and DEAD_LETTER not in names:
            raise ValueError(
                "errors.deadletterqueue.topic.name is set, but the streamlet declares no DeadLetterOutlet; "
                f"declared: {', '.join(sorted(names)) or 'none'}"
            )
        on = policy._dead_letter is not None if self.settings.topic is None else bool(self.settings.topic)
        self.dead_letters = on
        kind = type(streamlet)
        self._where = replace(
            where,
            handler=f"{kind.__module__}:{handler_of(streamlet)}",
            class_name=f"{kind.__module__}.{kind.__qualname__}",
            sink=not [name for name in names if name != DEAD_LETTER],
        )
        self._policy, self._memory, self._clocks = policy, memory, clocks
        self._limiter = memory.limiter(self.settings)
        self.limited = (self.settings.limit_errors, self.settings.limit_run, self.settings.limit_ratio) != (-1, -1, 1)

    def warning(self) -> str | None:
        """What to say at the start of a policy that drops records without a word."""
        if self.settings.tolerance == "none" or self.dead_letters or self.settings.log:
            return None
        return (
            "errors.tolerance tolerates errors, with neither a dead-letter topic nor a log of them: records with "
            "errors vanish without a word; set errors.log.enable or errors.deadletterqueue.topic.name"
        )

    def attempts(self, records: list[Record], whole: bool, where: Where, delivery: int) -> Attempts:
        """The way of a batch."""
        base = self._where
        where = replace(base, inlet=where.inlet, topic=where.topic, partition=where.partition)
        with self._memory.lock:
            deaths = self._memory.deaths.before(where.inlet, where.partition, records[0].offset, delivery)
        clocks = self._clocks
        means = Means(
            self._policy,
            self.settings,
            self.dead_letters,
            partial(self._within, (where.inlet, where.partition)),
            self._handled if self.limited else _nothing,
            clocks.monotonic,
            clocks.wall,
            clocks.random,
        )
        return Attempts(means, where, records, whole, delivery, deaths)

    def _within(self, partition: tuple[str, int], offset: int) -> bool:
        with self._memory.lock:
            return self._limiter.error(partition, offset, self._clocks.monotonic())

    def _handled(self, count: int) -> None:
        with self._memory.lock:
            self._limiter.handled(count, self._clocks.monotonic())

    @property
    def clock(self) -> Callable[[], int]:
        return self._clocks.monotonic


def _nothing(_count: int) -> None:
    pass


class Runner:
    """One batch under a policy. ``advance`` until it gives no more Wait; what it raises is the batch's failure."""

    def __init__(
        self,
        streamlet: Streamlet,
        force: InForce,
        collector: Collector,
        batch: Batch,
        ctx: Context,
        flush: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._flush = flush  # awaited where an async handler has filled the collector
        self._streamlet = streamlet
        self._collector = collector
        self._batch = batch
        self._ctx = ctx
        self._run = ctx._run
        self._whole = handler_name(type(streamlet)) == "process"
        self._timed = force.settings.retry_timeout > 0
        self._clock = force.clock
        where = Where(inlet=batch.inlet, topic=ctx.topic, partition=batch.partition)
        self.attempts = force.attempts(list(batch.records), self._whole, where, ctx.delivery)
        self._steps = self.attempts.steps()
        self._started = False
        self.records = list(batch.records)
        self.names = _tally.of_this_batch.get()
        self.troubled = False
        """Whether an attempt failed, so that more emits were made than taken."""
        self.at = At()
        self.ended: BaseException | None = None
        """Set while it waits, to end it there."""

    def advance(self) -> Wait | None:
        """Go on to the next wait, or to the end of the batch."""
        _tally.of_this_batch.set(self.names)  # a wait may end in another thread
        outcome = None
        while isinstance(step := self._next(outcome), Handle):
            self._ctx.attempt = step.attempt
            outcome = self._handle_batch(step) if self._whole else self._handle_records(step)
        return step

    async def advance_async(self) -> Wait | None:
        """The same for ``async`` handlers."""
        outcome = None
        while isinstance(step := self._next(outcome), Handle):
            self._ctx.attempt = step.attempt
            outcome = await self._handle_async(step)
        return step

    def _next(self, outcome: Outcome | None) -> Handle | Wait | None:
        if self.ended is not None:
            raise self.ended
        if outcome is not None and outcome.error is not None:
            self.troubled = True
        try:
            step: Handle | Wait | None = self._steps.send(outcome) if self._started else next(self._steps)
        except StopIteration:
            step = None
        except BaseException:
            self.at.record = self.attempts.at
            raise
        self._started = True
        self.at.record = self.attempts.at
        letters, self.attempts.letters = self.attempts.letters, []
        for row in letters:
            self._collector.row(DEAD_LETTER, row)
        return step

    def _handle_records(self, step: Handle) -> Outcome:
        handler, ctx, run, take = self._streamlet.process_record, self._ctx, self._run, self._collector.take
        timed, clock, began, done = self._timed, self._clock, 0, 0
        for record in self.records[step.start : step.stop]:
            if run.void:
                raise Revoked
            if timed:
                began = clock()
            try:
                made = handler(record, ctx)
                if made is None:
                    pass
                elif made.__class__ is Emit:
                    take(made)
                else:
                    take(iterable(made))
            except Revoked:
                raise
            except BaseException as error:
                return Outcome(done, error, began)
            done += 1
        return Outcome(done, None, began)

    def _handle_batch(self, step: Handle) -> Outcome:
        if self._run.void:
            raise Revoked
        began, collector, ready = self._clock(), self._collector, []
        error: BaseException | None = None
        try:
            made = self._streamlet.process(self._part(step))
            try:
                for emit in iterable(made):
                    ready.append(collector.ready(emit))
            except BatchError as named:
                error = named
        except BatchError as named:
            error = named
        except BaseException as failed:
            return Outcome(0, failed, began)
        return self._named(error, ready, step, began)

    def _named(self, error: Any, ready: list[Any], step: Handle, began: int) -> Outcome:
        """Keep what a batch's handler emitted, which holds for all but the records that it named."""
        try:
            if error is not None:
                ready += [self._collector.ready(emit) for emit in error.emits]
        except Exception as failed:
            return Outcome(0, failed, began)
        self._collector.keep(ready)
        return Outcome(0 if error is not None else step.stop - step.start, error, began)

    def _part(self, step: Handle) -> Batch:
        return Batch(self._batch.inlet, self._batch.partition, self.records[step.start : step.stop])

    async def _handle_async(self, step: Handle) -> Outcome:
        if self._whole:
            return await self._handle_batch_async(step)
        began, done = 0, 0
        for record in self.records[step.start : step.stop]:
            if self._run.void:
                raise Revoked
            if self._timed:
                began = self._clock()
            try:
                made: Any = self._streamlet.process_record(record, self._ctx)
                if inspect.isawaitable(made):
                    made = await made
                if made is not None:
                    emits = made if isinstance(made, Emit) else [emit async for emit in async_iterable(made)]
                    self._collector.take(emits)
            except BaseException as error:
                return Outcome(done, error, began)
            done += 1
            if self._collector.full() and self._flush is not None:
                await self._flush()
        return Outcome(done, None, began)

    async def _handle_batch_async(self, step: Handle) -> Outcome:
        if self._run.void:
            raise Revoked
        began, ready = self._clock(), []
        error: BaseException | None = None
        try:
            made: Any = self._streamlet.process(self._part(step))
            if inspect.isawaitable(made):
                made = await made
            async for emit in made if isinstance(made, AsyncIterable) else async_iterable(made):
                ready.append(self._collector.ready(emit))
        except BatchError as named:
            error = named
        except BaseException as failed:
            return Outcome(0, failed, began)
        return self._named(error, ready, step, began)


def series(counts: Counter[tuple[str, str, str]], inlet: str) -> list[list[Any]]:
    """Counters as a report has them; empties ``counts``."""
    made: list[list[Any]] = []
    for (name, stage, reason), number in sorted(counts.items()):
        labels = {"inlet": inlet, "stage": stage}
        made.append([name, "counter", {**labels, "reason": reason} if reason else labels, number])
    counts.clear()
    return made
