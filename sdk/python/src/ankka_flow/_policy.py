"""What becomes of a failed attempt: retry, skip, dead letter, fail or hold. Pure: no clock, IO, thread or randomness.

The arithmetic and the domains are those of KIP-298, without its overflows; ``sdk/testdata/errors`` has them as
vectors, which the SDKs of other languages are tested with as well.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal, NamedTuple

INITIAL_DELAY = 300
"""Milliseconds of the first wait, which every further one doubles."""

LONG_MAX = 2**63 - 1
"""The end of the KIP's domains: Java's ``Long.MAX_VALUE``."""

RATIO_FROM = 20
"""Records in the window from which on a ratio is judged: a single early error says nothing."""

MOST_ERRORS = 1_000_000
"""The largest count of errors that a limit may allow: its window remembers each."""

Class = Literal["retriable", "permanent", "skip", "dead-letter", "fatal"]
Verdict = Literal["fail", "hold", "skip", "dead-letter"]


@dataclass(frozen=True)
class Settings:
    """A policy's numbers. Times are milliseconds.

    ``retry_timeout`` -1: without end. ``max_attempts`` 0: not limited. ``limit_errors`` and ``limit_run`` -1: no such
    limit; ``limit_ratio`` 1: none. ``deliveries_max`` 0: never. ``topic`` None: the code decides whether there are
    dead letters; empty: there are none; a name: there are.
    """

    retry_timeout: int = 0
    retry_delay_max: int = 60_000
    max_attempts: int = 0
    tolerance: str = "none"
    limit_errors: int = -1
    limit_window: int = 60_000
    limit_run: int = -1
    limit_ratio: float = 1.0
    exhausted: str = "fail"
    deliveries_max: int = 0
    log: bool = False
    log_messages: bool = False
    topic: str | None = None
    replication_factor: int = 3
    context_headers: bool = False


def retry_wait(
    settings: Settings, attempt: int, elapsed: int, random: Callable[[], float], after: int | None = None
) -> int | None:
    """Milliseconds to wait after failed attempt number ``attempt`` (from 1) of a retriable error; None: no more.

    ``elapsed`` is the time since the first attempt began, ``after`` the wait that the exception asks for, ``random``
    gives numbers in [0, 1). A wait that would pass the deadline ends at it, and one last attempt is made there.
    """
    timeout = settings.retry_timeout
    if 0 <= timeout <= elapsed or 0 < settings.max_attempts <= attempt:
        return None
    wait = delay(settings, attempt, random) if after is None else after
    return wait if timeout < 0 else min(wait, timeout - elapsed)


def delay(settings: Settings, attempt: int, random: Callable[[], float]) -> int:
    """The wait number ``attempt`` without regard to a deadline: no jitter below the cap, at it half to the whole."""
    cap = settings.retry_delay_max
    doublings = min(attempt - 1, 64)  # 300 << 64 is above every cap; more would only make large numbers
    wait = INITIAL_DELAY << doublings
    return wait if wait <= cap else max(1, cap - int(cap / 2 * (1 - random())))


def decide(settings: Settings, error: Class, dead_letter: bool, within: bool) -> Verdict:
    """The verdict for an error whose retries are exhausted or that has none.

    ``dead_letter``: whether there is an outlet for them. ``within``: whether the limit has room for one more error.
    """
    refused: Verdict = "hold" if settings.exhausted == "hold" else "fail"
    if error == "fatal":
        return "fail"
    if error == "skip":
        return "skip"
    if error == "dead-letter":
        return "dead-letter" if dead_letter else refused
    if settings.tolerance == "none" or not within:
        return refused
    return "dead-letter" if dead_letter else "skip"


class _Moment(NamedTuple):
    at: int
    records: int
    errors: int


@dataclass
class Limiter:
    """Counts tolerated errors and says when there is no room for one more. Not safe for concurrent use.

    Over the limit it stays so until a record is handled: an outage that lasts for hours must not let as many errors
    pass with every new window. A record that comes again, for its batch failed, counts once.
    """

    settings: Settings
    _run: int = 0
    _tripped: bool = False
    _errors: deque[int] = field(default_factory=deque)
    _moments: deque[_Moment] = field(default_factory=deque)  # at most _MOST_MOMENTS, each a part of the window
    _tolerated: dict[Hashable, int] = field(default_factory=dict)  # partition to the last tolerated offset

    def handled(self, count: int, now: int) -> None:
        """``count`` records were handled without an error."""
        if count > 0:
            self._run, self._tripped = 0, False
            self._note(now, count, 0)

    def error(self, partition: Hashable, offset: int, now: int) -> bool:
        """Whether the error of this record is within the limit; it then counts as tolerated."""
        s = self.settings
        if offset <= self._tolerated.get(partition, -1):
            return True
        while self._errors and now - self._errors[0] >= s.limit_window:
            self._errors.popleft()
        over = self._tripped or self._over(now)
        self._tripped = over
        if over:
            return False
        self._tolerated[partition] = offset
        self._run += 1
        if s.limit_errors >= 0:
            self._errors.append(now)
        self._note(now, 1, 1)
        return True

    def _over(self, now: int) -> bool:
        s = self.settings
        if 0 <= s.limit_errors <= len(self._errors) or 0 <= s.limit_run <= self._run:
            return True
        if s.limit_ratio >= 1:
            return False
        self._forget(now)
        records = 1 + sum(moment.records for moment in self._moments)
        errors = 1 + sum(moment.errors for moment in self._moments)
        return records >= RATIO_FROM and errors > s.limit_ratio * records

    def _note(self, now: int, records: int, errors: int) -> None:
        if self.settings.limit_ratio >= 1:
            return
        self._forget(now)
        step = self.settings.limit_window // _MOST_MOMENTS
        if self._moments and now - self._moments[-1].at <= step:
            last = self._moments.pop()
            self._moments.append(_Moment(last.at, last.records + records, last.errors + errors))
        else:
            self._moments.append(_Moment(now, records, errors))

    def _forget(self, now: int) -> None:
        while self._moments and now - self._moments[0].at >= self.settings.limit_window:
            self._moments.popleft()


_MOST_MOMENTS = 120


class Row(NamedTuple):
    """A setting as configured: its name, its field of ``Settings``, its domain for people, and its reader."""

    name: str
    field: str
    domain: str
    read: Callable[[str], Any]  # raises ValueError


def _whole(least: int, most: int, *besides: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII):
            raise ValueError
        number = int(text)
        if not least <= number <= most and number not in besides:
            raise ValueError
        return number

    return read


def _choice(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return read


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _ratio(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII) or Fraction(text) > 1:
        raise ValueError
    return float(text)


def _topic(text: str) -> str:
    if text and (not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) or text in (".", "..")):
        raise ValueError
    return text


ROWS = [
    Row("retry.timeout", "retry_timeout", "-1 ... 9223372036854775807", _whole(-1, LONG_MAX)),
    Row("retry.delay.max.ms", "retry_delay_max", "1 ... 9223372036854775807", _whole(1, LONG_MAX)),
    Row("retry.max.attempts", "max_attempts", "0 ... 9223372036854775807", _whole(0, LONG_MAX)),
    Row("tolerance", "tolerance", "none, all", _choice("none", "all")),
    Row("tolerance.limit.errors", "limit_errors", "-1 ... 1000000", _whole(-1, MOST_ERRORS)),
    Row("tolerance.limit.window.ms", "limit_window", "1 ... 9223372036854775807", _whole(1, LONG_MAX)),
    Row("tolerance.limit.run", "limit_run", "-1 ... 1000000", _whole(-1, MOST_ERRORS)),
    Row("tolerance.limit.ratio", "limit_ratio", "0 ... 1", _ratio),
    Row("exhausted", "exhausted", "fail, hold", _choice("fail", "hold")),
    Row("deliveries.max", "deliveries_max", "0, 2 ... 1000000", _whole(2, MOST_ERRORS, 0)),
    Row("log.enable", "log", "true, false", _boolean),
    Row("log.include.messages", "log_messages", "true, false", _boolean),
    Row("deadletterqueue.topic.name", "topic", "a topic's name, or empty", _topic),
    Row("deadletterqueue.topic.replication.factor", "replication_factor", "1 ... 32767", _whole(1, 32767)),
    Row("deadletterqueue.context.headers.enable", "context_headers", "true, false", _boolean),
]
"""Every setting, by the KIP's names where it has one."""

_BY_NAME = {row.name: row for row in ROWS}
_PREFIX = "errors."


def configured(settings: Settings, texts: Mapping[str, str]) -> Settings:
    """``settings`` with what is configured in its place. Names may begin with ``errors.``.

    Raises ValueError that names every problem, a line each.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for given, text in texts.items():
        name = given.removeprefix(_PREFIX)
        row = _BY_NAME.get(name)
        if row is None:
            near = get_close_matches(name, _BY_NAME, 1)
            hint = f"; did you mean errors.{near[0]}?" if near else ""
            problems.append(f"errors.{name}: there is no such setting{hint}")
            continue
        if name in seen:
            problems.append(f"errors.{name} is set twice, with and without errors. in front")
        seen.add(name)
        try:
            values[row.field] = row.read(text)
        except (ValueError, KeyError):
            problems.append(f"errors.{name}: {text!r} is not in its domain: {row.domain}")
    if problems:
        raise ValueError("\n".join(problems))
    return replace(settings, **values)
