"""The way of a batch through a policy, as a generator: it yields what to do next and is sent what came of it.

So the same code serves threads, an event loop and the test kit's clock. No IO, no thread; the clocks and the
randomness are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _policy
from ._context import Failed, Where, dead_letter, killed, line, stage_of
from ._frames import text
from ._handler import class_name
from ._policy import Limiter, Settings
from .errors import BatchError, DeadLetter, KilledTheProcess, Retriable
from .policy import ErrorPolicy
from .records import Record, Row


class Handle(NamedTuple):
    """Give the records from ``start`` to before ``stop`` to the handler; answered by an Outcome."""

    start: int
    stop: int
    attempt: int


class Wait(NamedTuple):
    """Wait, then go on; answered by None."""

    ms: int
    record: Record
    attempt: int
    error: str


class Outcome(NamedTuple):
    """How many records were handled, and what the one behind them raised, whose attempt began at ``began``."""

    done: int
    error: BaseException | None
    began: int


Step = Handle | Wait
Steps = Generator[Step, Any, None]


@dataclass(frozen=True)
class Means:
    """What a batch's way depends on beside its records. ``within`` asks the limit, ``clock`` is monotonic, ``wall``
    the time since 1970, both in milliseconds; ``random`` gives numbers in [0, 1)."""

    policy: ErrorPolicy
    settings: Settings
    dead_letters: bool
    within: Callable[[int], bool]  # for an error at this offset
    handled: Callable[[int], None]  # so many records were
    clock: Callable[[], int]
    wall: Callable[[], int]
    random: Callable[[], float]


class Attempts:
    """One batch. What it finds is taken from its lists by who drives ``steps``.

    ``letters`` are rows for the dead-letter outlet, ``lines`` of the log, ``now`` and ``later`` counters: those count
    at once, and when the batch commits. Where a record fails the batch, ``steps`` raises its error.
    """

    def __init__(
        self, means: Means, where: Where, records: list[Record], whole: bool, delivery: int, deaths: int
    ) -> None:
        self._means = means
        self._where = where
        self._records = records
        self._whole = whole
        self._delivery = delivery
        self._deaths = deaths
        self.at: Record | None = None
        """The record whose failure is at hand."""
        self.letters: list[Row] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.now: Counter[tuple[str, str, str]] = Counter()  # name, stage, reason
        self.later: Counter[tuple[str, str, str]] = Counter()
        self.skipped: list[Record] = []
        self.last_error = 0  # milliseconds since 1970

    def steps(self) -> Steps:
        """The way of the batch. Raises the error of the record that fails it."""
        start, stop = 0, len(self._records)
        most = self._means.settings.deliveries_max
        # Alone, for of several records nobody knows which one it was.
        if 0 < most <= self._deaths and stop == 1:
            self.at, start = self._records[0], 1
            error = killed(self.at.offset, self._deaths)
            self._count(self.now, "record_failures_total", self._stage(error, self.at))
            verdict = self._verdict("permanent", self.at)
            if verdict in ("skip", "dead-letter"):
                self._settle(verdict, self.at, error, 0, "killed")
            else:
                start = 0  # there is nothing else to do with it than to try
        if start == stop:
            return
        if self._whole:
            yield from self._batch(stop)
        else:
            yield from self._each(stop)

    def _each(self, stop: int) -> Steps:
        at = 0
        while at < stop:
            outcome = yield Handle(at, stop, 1)
            self._means.handled(outcome.done)
            at += outcome.done
            if outcome.error is not None:
                yield from self._failed(at, outcome.error, outcome.began)
                at += 1

    def _batch(self, stop: int) -> Steps:
        """A handler of whole batches: the records that it names, or one by one where it names none."""
        outcome = yield Handle(0, stop, 1)
        error = outcome.error
        if error is None:
            self._means.handled(stop)
        elif isinstance(error, BatchError):
            outside = [index for index in error.errors if not 0 <= index < stop]
            if outside:
                raise ValueError(f"a BatchError that names record {outside[0]} of a batch of {stop}") from error
            self._means.handled(stop - len(error.errors))
            for at in sorted(error.errors):
                yield from self._failed(at, error.errors[at], outcome.began)
        elif self._means.policy.classify(error) == "fatal":
            raise error
        elif stop == 1:
            yield from self._failed(0, error, outcome.began)
        else:
            for at in range(stop):
                outcome = yield Handle(at, at + 1, 1)
                if outcome.error is None:
                    self._means.handled(1)
                else:
                    yield from self._failed(at, _single(outcome.error), outcome.began)

    def _failed(self, at: int, error: BaseException, began: int) -> Steps:
        """The record failed for the first time: on until it is handled or there is a verdict."""
        means, record, attempt, held = self._means, self._records[at], 1, False
        while True:
            self.at = record
            kind = means.policy.classify(error)
            self._count(self.now, "record_failures_total", self._stage(error, record))
            wait = None
            if kind == "retriable":
                after = error.after_ms if isinstance(error, Retriable) else None
                wait = _policy.retry_wait(means.settings, attempt, means.clock() - began, means.random, after)
            if wait is None:
                verdict = self._verdict(kind, record)
                reason = _reason(kind, attempt, self._stage(error, record))
                if verdict != "hold":
                    self._settle(verdict, record, error, attempt, reason)
                    return
                if not held:
                    held = True
                    self._log(self._describe(record, error, attempt, reason), verdict)
                wait = _policy.delay(means.settings, 64, means.random)
            self._count(self.now, "retries_total", self._stage(error, record))
            yield Wait(wait, record, attempt, f"{class_name(type(error))}: {text(error, 1024)}")
            attempt += 1
            outcome = yield Handle(at, at + 1, attempt)
            if outcome.error is None:
                means.handled(1)
                self.at = None
                return
            error = _single(outcome.error)

    def _verdict(self, kind: _policy.Class, record: Record) -> _policy.Verdict:
        means = self._means
        judged = means.settings.tolerance != "none" and kind in ("retriable", "permanent")
        within = means.within(record.offset) if judged else True
        return _policy.decide(means.settings, kind, means.dead_letters, within)

    def _settle(
        self, verdict: _policy.Verdict, record: Record, error: BaseException, attempts: int, reason: str
    ) -> None:
        """Carry a verdict out. Raises the error where it is to fail."""
        failed = self._describe(record, error, attempts, reason)
        self.last_error = failed.at
        logged = self._log(failed, verdict)
        if verdict == "fail":
            self._count(self.now, "record_errors_total", failed.stage)
            if logged:
                self._count(self.now, "errors_logged_total", failed.stage)
            raise error
        self._count(self.later, "record_errors_total", failed.stage)
        if verdict == "dead-letter":
            added = error.headers if isinstance(error, DeadLetter) else []
            self.letters.append(dead_letter(failed, self._means.settings.context_headers, added))
            self._count(self.later, "dead_letters_total", failed.stage)
        if logged or verdict == "dead-letter":
            self._count(self.later, "errors_logged_total", failed.stage)
        self._count(self.later, "records_skipped_total", failed.stage, verdict.replace("skip", "tolerated"))
        self.skipped.append(record)
        self.at = None

    def _describe(self, record: Record, error: BaseException, attempts: int, reason: str) -> Failed:
        return Failed(record, error, self._where, attempts, self._delivery, reason, self._means.wall())

    def _log(self, failed: Failed, verdict: str) -> bool:
        settings = self._means.settings
        if settings.log:
            self.lines.append(line(failed, verdict, settings.log_messages))
        return settings.log

    def _stage(self, error: BaseException, record: Record) -> str:
        return stage_of(error, record, self._where.sink)

    @staticmethod
    def _count(counts: Counter[tuple[str, str, str]], name: str, stage: str, reason: str = "") -> None:
        counts[name, stage, reason] += 1


def _single(error: BaseException) -> BaseException:
    """The error of the one record that a handler of whole batches had alone."""
    if isinstance(error, BatchError) and set(error.errors) == {0}:
        return error.errors[0]
    return error


def _reason(kind: _policy.Class, attempts: int, stage: str) -> str:
    if kind in ("skip", "dead-letter"):
        return "user"
    if stage.endswith("_CONVERTER"):
        return "decode"
    return "exhausted" if kind == "retriable" or attempts > 1 else "poison"


class Deaths:
    """How often the process was gone after it had got a record: deliveries that no process of ours answered for.

    The supervisor counts deliveries; those of this process's life, which failed, were revoked or waited, are known and
    taken off. Not safe for concurrent use.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}  # to the first offset, and deliveries since

    def before(self, inlet: str, partition: int, offset: int, delivery: int) -> int:
        """Deliveries before this one after which the process was gone; counts this one as known."""
        known, seen = self._seen.get((inlet, partition), (-1, 0))
        if known != offset:
            seen = 0
        self._seen[inlet, partition] = (offset, seen + 1)
        return max(0, delivery - 1 - seen)


__all__ = ["Attempts", "Deaths", "Handle", "KilledTheProcess", "Limiter", "Means", "Outcome", "Step", "Steps", "Wait"]
