"""What a process says and when (protocol 1.0): frames in, actions out. No IO, no thread, no clock.

The caller serialises all calls with a lock and performs the actions in the order given; ``Send`` only queues, so
nothing here waits for a pipe.

States::

    NEW       nothing came yet               discover -> READY
    READY     the spec was sent              start -> RUNNING
    RUNNING   a conversation                 stop -> FINISHING, or STOPPED
    FINISHING stop(finish) came              the last answer, or stop(abandon) -> STOPPED
    STOPPED   stopped was sent               discover -> READY

Batches outlive conversations: a void one still owes its one answer, whatever was discovered and started since.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _frames
from .errors import ProtocolError


class State(enum.Enum):
    """Where the process stands; the module's docstring has the transitions."""

    NEW = "before discovery"
    READY = "before start"
    RUNNING = "in a conversation"
    FINISHING = "finishing a conversation"
    STOPPED = "after stopped"


class Run:
    """A batch that the process owes an answer. ``void`` is read by its handler's thread: a plain flag, set once."""

    __slots__ = ("attempt", "id", "inlet", "partition", "rows", "topic", "void")

    def __init__(self, batch_id: int, inlet: str, topic: str, partition: int, rows: Any, attempt: int) -> None:
        self.id = batch_id
        self.inlet = inlet
        self.topic = topic
        self.partition = partition
        self.rows = rows
        self.attempt = attempt
        self.void = False


@dataclass(frozen=True)
class Send:
    """Queue these frames as one piece. ``urgent`` ones overtake what is queued, between frames."""

    frames: list[bytes]
    urgent: bool = False


@dataclass(frozen=True)
class Start:
    """What ``start`` says beside the parameters."""

    errors: dict[str, str]
    pipeline: str
    streamlet: str
    instance: int


@dataclass(frozen=True)
class Configure:
    """Resolve the parameters and the error settings, then call ``configured``: no batch begins before."""

    values: dict[str, Any]
    start: Start


@dataclass(frozen=True)
class Begin:
    """Run the handler, then call ``answer``."""

    run: Run


@dataclass(frozen=True)
class Refused:
    """Print every problem and exit with 1."""

    problems: list[str]


Action = Send | Configure | Begin | Refused


class Session:
    """The conversation of one process with its supervisor. Not safe for concurrent use.

    ``descriptor`` is what ``discover`` is answered with, ``max_in_flight`` how many batches may be unanswered.
    """

    def __init__(self, descriptor: Mapping[str, Any], max_in_flight: int) -> None:
        self._descriptor = descriptor
        self._max_in_flight = max_in_flight
        self._runs: dict[int, Run] = {}
        self._held: list[Run] = []  # waiting for configured()
        self._configuring = False
        self._config: Configure | None = None  # came while another one was being resolved
        self._topics: Mapping[str, str] = {}
        self._last_id = -1
        self.state = State.NEW
        self.stop: str | None = None
        """The mode of the last stop, until the next discover: why the input may end while batches run."""

    @property
    def running(self) -> int:
        """How many batches are unanswered, void ones included."""
        return len(self._runs)

    @property
    def live(self) -> int:
        """How many unanswered batches are not void."""
        return sum(not run.void for run in self._runs.values())

    @property
    def finishing(self) -> bool:
        """Whether a stop waits for the answers of the batches that are not void."""
        return self.state is State.FINISHING

    def receive(self, body: bytes) -> list[Action]:
        """A frame's body from the supervisor. Raises ProtocolError, after which the process must exit."""
        message = _frames.decode(body)
        kind = message[0]
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise ProtocolError(f"a message of unknown kind {kind!r}")
        arguments = [*message[1:], None, None, None, None, None]  # missing trailing elements are nil
        actions: list[Action] = handler(self, arguments)
        return actions

    def configured(self) -> list[Action]:
        """The parameters of the last ``Configure`` are in force."""
        if self._config is not None:
            configure, self._config = self._config, None
            return [configure]
        self._configuring = False
        held, self._held = self._held, []
        return [Begin(run) for run in held]

    def answer(self, run: Run, frames: list[bytes], failure: Mapping[str, Any] | None = None) -> list[Action]:
        """The handler is done: an ack behind ``frames``, or a fail, in one piece; ``stopped`` if it was the last."""
        del self._runs[run.id]
        if failure is not None:
            piece = [_frames.fail(run.id, failure)]
        elif run.void:
            piece = [_frames.ack(run.id)]  # its emits would be dropped
        else:
            piece = [*frames, _frames.ack(run.id)]
        return [Send(piece), *self._maybe_stopped()]

    def _maybe_stopped(self) -> list[Action]:
        if self.state is not State.FINISHING or any(not run.void for run in self._runs.values()):
            return []
        self.state = State.STOPPED
        return [Send([_frames.stopped()])]

    def _discover(self, _arguments: list[Any]) -> list[Action]:
        self._require("discover", State.NEW, State.STOPPED)
        self.stop = None
        self.state = State.READY
        return [Send([_frames.spec(self._descriptor, self._max_in_flight)])]

    def _refuse(self, arguments: list[Any]) -> list[Action]:
        problems = _typed("refuse", "problems", arguments[0], tuple)
        return [Refused([_frames.text(problem) for problem in problems])]

    def _start(self, arguments: list[Any]) -> list[Action]:
        self._require("start", State.READY)
        start = _typed("start", "its map", arguments[0], dict)
        config = _typed("start", "config", _or_empty(start.get("config")), dict)
        self._topics = _typed("start", "inlets", _or_empty(start.get("inlets")), dict)
        self.state = State.RUNNING
        configure = Configure(
            config,
            Start(
                _typed("start", "errors", _or_empty(start.get("errors")), dict),
                str(start.get("pipeline") or ""),
                str(start.get("streamlet") or ""),
                _integer("start", "instance", start.get("instance") or 0),
            ),
        )
        if self._configuring:
            self._config = configure
            return []
        self._configuring = True
        return [configure]

    def _batch(self, arguments: list[Any]) -> list[Action]:
        self._require("batch", State.RUNNING)
        batch_id = _integer("batch", "id", arguments[0])
        if batch_id <= self._last_id:
            raise ProtocolError(f"batch {batch_id} after batch {self._last_id}: ids rise")
        self._last_id = batch_id
        inlet = _typed("batch", "inlet", arguments[1], str)
        partition = _integer("batch", "partition", arguments[2])
        rows = _typed("batch", "records", arguments[3], tuple)
        info = _typed("batch", "info", _or_empty(arguments[4]), dict)
        if not rows:
            raise ProtocolError(f"batch {batch_id} is empty")
        attempt = _integer("batch", "attempt", info.get("attempt", 1))
        run = Run(batch_id, inlet, str(self._topics.get(inlet, "")), partition, rows, attempt)
        self._runs[batch_id] = run
        if self._configuring:
            self._held.append(run)
            return []
        return [Begin(run)]

    def _revoke(self, arguments: list[Any]) -> list[Action]:
        if self.state is State.NEW:
            raise ProtocolError("revoke before discover")
        # Between conversations too: it may have crossed our stopped.
        run = self._runs.get(_integer("revoke", "id", arguments[0]))
        return [] if run is None else self._make_void([run])

    def _make_void(self, runs: list[Run]) -> list[Action]:
        """Their answers no longer count; those that never began are answered here."""
        actions: list[Action] = []
        for run in runs:
            run.void = True
            if run in self._held:
                self._held.remove(run)
                actions += self.answer(run, [], {"message": "revoked before it began"})
        return actions + self._maybe_stopped()

    def _ping(self, arguments: list[Any]) -> list[Action]:
        if self.state is State.NEW:
            raise ProtocolError("ping before discover")
        return [Send([_frames.pong(_integer("ping", "n", arguments[0]))], urgent=True)]

    def _stop(self, arguments: list[Any]) -> list[Action]:
        stop = _typed("stop", "its map", arguments[0], dict)
        mode = stop.get("mode")
        if mode not in ("finish", "abandon"):
            raise ProtocolError(f"stop with mode {mode!r}")
        if self.state is State.STOPPED:
            return []  # an abandon that crossed our stopped
        self._require("stop", State.RUNNING, State.FINISHING)
        self.stop = mode
        if mode == "finish":
            self.state = State.FINISHING
            return self._maybe_stopped()
        self.state = State.STOPPED  # before the answers below, which must not send it again
        return [Send([_frames.stopped()]), *self._make_void(list(self._runs.values()))]

    def _require(self, kind: str, *states: State) -> None:
        if self.state not in states:
            raise ProtocolError(f"{kind} {self.state.value}")


_HANDLERS: dict[str, Any] = {
    "discover": Session._discover,
    "refuse": Session._refuse,
    "start": Session._start,
    "batch": Session._batch,
    "revoke": Session._revoke,
    "ping": Session._ping,
    "stop": Session._stop,
}


def _or_empty(value: Any) -> Any:
    return {} if value is None else value


def _typed(kind: str, what: str, value: Any, due: type) -> Any:
    if not isinstance(value, due):
        raise ProtocolError(f"{kind}: {what} is {type(value).__name__}, not {due.__name__}")
    return value


def _integer(kind: str, what: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ProtocolError(f"{kind}: {what} is {value!r}, not an integer from 0 to 2^53 - 1")
    return value
