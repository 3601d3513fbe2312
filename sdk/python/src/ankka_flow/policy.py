"""``ErrorPolicy``: how a streamlet treats the errors of single records. The settings are those of KIP-298."""

from __future__ import annotations

import asyncio
import bdb
import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from . import _policy
from .errors import DeadLetter, Fatal, Retriable, Skip, UndeclaredOutletError
from .parameters import parse_duration
from .ports import DeadLetterOutlet

__all__ = ["RETRY_ON", "ErrorPolicy", "Limit"]

RETRY_ON: tuple[type[Exception], ...] = (ConnectionError, TimeoutError, asyncio.TimeoutError, socket.timeout)
"""What is retried beside ``Retriable``, and beside an OSError that says that a host or a network is away."""

_AWAY = {errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT, errno.EAGAIN}
_NEVER_TOLERATED = (Fatal, UndeclaredOutletError, MemoryError, bdb.BdbQuit)

Duration = int | str | timedelta


@dataclass(frozen=True)
class Limit:
    """How many errors are tolerated before they look like an outage. Over any part of it, the batch fails (or holds).

    ``errors`` in the last ``per`` (a duration as of ``parse_duration``, milliseconds, or a timedelta), ``consecutive``
    without a record handled between them, or more than ``ratio`` of the records of the last ``per``, judged from 20
    records on. It counts for the whole process, in memory: a restart begins anew.
    """

    errors: int | None = None
    per: Duration = "1m"
    ratio: float | None = None
    consecutive: int | None = None


class ErrorPolicy:
    """Set as ``errors`` of a streamlet. What the configuration has under ``errors:`` takes the place of what is here.

    ``retry_timeout``: how long a retriable error is retried, from the first attempt on; 0: not, -1 or None: for ever.
    ``retry_delay_max``: the longest wait between attempts; the first is 300 ms and each is twice the one before it.
    ``max_attempts``: attempts at most, the first counted; None: as many as the time allows.
    ``retry_on``: exceptions retried beside ``Retriable``; ``never_retry`` wins over all of them.
    ``tolerance``: ``"none"``: an error that is left fails the batch; ``"all"``: its record is skipped; a ``Limit``.
    ``on_exhausted``: ``"fail"``, or ``"hold"``: try the record for ever at the longest wait where it would fail.
    ``dead_letter``: the streamlet's ``DeadLetterOutlet``, which gets each record that is skipped for its error.
    ``context_headers``: whether dead letters say by headers where they come from and why.
    ``log``, ``log_messages``: whether each error is logged, and with the record's key, value and headers.
    ``max_deliveries``: a record after whose delivery the process was gone this often (2 or more) is such an error too.

    Durations are milliseconds, text as ``"1m"``, or a timedelta. Raises ValueError that names every problem.
    """

    def __init__(
        self,
        *,
        retry_timeout: Duration | None = 0,
        retry_delay_max: Duration = 60_000,
        max_attempts: int | None = None,
        retry_on: Iterable[type[Exception]] = RETRY_ON,
        never_retry: Iterable[type[Exception]] = (),
        tolerance: str | Limit = "none",
        on_exhausted: str = "fail",
        dead_letter: DeadLetterOutlet | None = None,
        context_headers: bool = False,
        log: bool = False,
        log_messages: bool = False,
        max_deliveries: int | None = None,
    ) -> None:
        problems: list[str] = []
        limit = tolerance if isinstance(tolerance, Limit) else Limit()
        texts = {
            "retry.timeout": _milliseconds(retry_timeout),
            "retry.delay.max.ms": _milliseconds(retry_delay_max),
            "retry.max.attempts": _count(max_attempts, 0),
            "tolerance": "all" if isinstance(tolerance, Limit) else tolerance,
            "tolerance.limit.errors": _count(limit.errors, -1),
            "tolerance.limit.window.ms": _milliseconds(limit.per),
            "tolerance.limit.run": _count(limit.consecutive, -1),
            "tolerance.limit.ratio": "1" if limit.ratio is None else _plain(limit.ratio),
            "exhausted": on_exhausted,
            "deliveries.max": _count(max_deliveries, 0),
            "log.enable": str(log),
            "log.include.messages": str(log_messages),
            "deadletterqueue.context.headers.enable": str(context_headers),
        }
        self._settings = _policy.Settings()
        try:
            self._settings = _policy.configured(self._settings, {name: str(text) for name, text in texts.items()})
        except ValueError as error:
            problems += [_in_code(line) for line in str(error).split("\n")]
        self._retry_on = _classes("retry_on", retry_on, problems)
        self._never_retry = _classes("never_retry", never_retry, problems)
        if dead_letter is not None and not isinstance(dead_letter, DeadLetterOutlet):
            problems.append(f"dead_letter must be a DeadLetterOutlet, not {dead_letter!r}")
        if problems:
            raise ValueError("\n".join(problems))
        self._dead_letter = dead_letter

    def classify(self, error: BaseException) -> _policy.Class:
        """What kind of error this is: what is said of it in ``decide`` (``_policy``) holds."""
        if not isinstance(error, Exception) or isinstance(error, _NEVER_TOLERATED):
            return "fatal"
        if isinstance(error, Skip):
            return "skip"
        if isinstance(error, DeadLetter):
            return "dead-letter"
        if isinstance(error, self._never_retry):
            return "permanent"
        if isinstance(error, (Retriable, *self._retry_on)):
            return "retriable"
        away = self._retry_on == RETRY_ON and isinstance(error, OSError) and _is_away(error)
        return "retriable" if away else "permanent"


def _is_away(error: OSError) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return error.errno in _AWAY


def _classes(name: str, given: Any, problems: list[str]) -> tuple[type[Exception], ...]:
    try:
        classes = (given,) if isinstance(given, type) else tuple(given)
    except TypeError:
        classes = (given,)
    if not all(isinstance(one, type) and issubclass(one, Exception) for one in classes):
        problems.append(f"{name} must be classes of Exception, not {given!r}")
        return ()
    return classes


def _milliseconds(given: Duration | None) -> object:
    """A duration as the text of a setting; what is none is left for it to refuse."""
    if given is None:
        return "-1"
    try:
        span = parse_duration(given) if isinstance(given, str) else given
    except ValueError:
        return given
    return -(-span // timedelta(milliseconds=1)) if isinstance(span, timedelta) else span


def _count(given: int | None, none: int) -> object:
    return none if given is None else given


def _plain(given: float) -> str:
    try:
        return format(given, ".12f") if 0 <= given <= 1 else str(given)
    except (TypeError, ValueError):
        return str(given)


_PARAMETERS = {
    "retry.timeout": "retry_timeout",
    "retry.delay.max.ms": "retry_delay_max",
    "retry.max.attempts": "max_attempts",
    "tolerance": "tolerance",
    "tolerance.limit.errors": "Limit.errors",
    "tolerance.limit.window.ms": "Limit.per",
    "tolerance.limit.run": "Limit.consecutive",
    "tolerance.limit.ratio": "Limit.ratio",
    "exhausted": "on_exhausted",
    "deliveries.max": "max_deliveries",
    "log.enable": "log",
    "log.include.messages": "log_messages",
    "deadletterqueue.context.headers.enable": "context_headers",
}


def _in_code(problem: str) -> str:
    """A problem of a setting, by the name of its parameter."""
    name, colon, rest = problem.partition(": ")
    return _PARAMETERS.get(name.removeprefix("errors."), name) + colon + rest
