"""``serve``: the loop around the session.

Threads: the reader, a daemon that reads stdin until its end and never waits for anything else; the workers and the
event loop (``_workers``); the flusher (``_outbox``). The main thread waits in ``serve`` or ``Server.wait``. At the
end of input the process ends: by ``serve`` returning when nothing was running, at once otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from . import _attach, _frames, _stdio, descriptor
from ._attempts import Wait
from ._collector import Collector
from ._context import Where
from ._frames import FrameReader
from ._handler import At, Revoked, async_emits, emits, failure, handler_of, is_async, known_offset
from ._outbox import Outbox
from ._runner import Clocks, InForce, Memory, Runner, Stopped, series
from ._session import Action, Begin, Configure, Refused, Run, Send, Session
from ._tally import Tally
from ._timer import Timer
from ._workers import EventLoop, Workers
from .errors import ProtocolError
from .records import Batch, records_of
from .streamlet import Context, Streamlet

_READ_AT_MOST = 1024 * 1024  # what a pipe holds
_FAR = 1 << 52  # milliseconds: what a frame can say of a wait of 292 million years
_LINGER = 10.0  # seconds for the program's own end when the supervisor is gone
_LINGER_REFUSED = 2.0  # seconds when it was refused; it is killed after 5


class Server:
    """A streamlet being served. ``port`` is what ``serve`` was given (0 for None): the link is stdin and stdout."""

    def __init__(self, streamlet: Streamlet, wire: _stdio.Wire, workers: int, port: int) -> None:
        self.port = port
        self._streamlet = streamlet
        self._wire = wire
        self._tally = Tally(handler_of(streamlet))
        self._outlets = [outlet.name for outlet in streamlet.outlets()]
        self._lock = threading.Lock()  # around every call of the session and the queueing of what it says
        self._idle = threading.Condition(self._lock)
        self._session = Session(descriptor.spec_for(streamlet), workers)
        self._outbox = Outbox(wire.write, self._gone)
        self._workers = Workers(workers + 1)  # one more: configure may run while as many batches are void
        self._loop = EventLoop() if is_async(streamlet) else None
        self._timer = Timer()
        self._force: InForce | None = None  # the conversation's error policy, where there is one
        self._memory = Memory()
        self._waiting: dict[int, _Waiting] = {}  # by the batch's id; the lock guards it
        self._pid = os.getpid()
        self._closing = False
        self._ended = threading.Event()
        self._code = 0

    def wait(self) -> None:
        """Wait until the supervisor is gone or ``stop`` was called. Raises SystemExit where the process failed."""
        self._ended.wait()
        if self._code:
            raise SystemExit(self._code)

    def stop(self, grace: float = 2.0) -> None:
        """Take no more batches, give those that run ``grace`` seconds, and let ``wait`` return.

        The supervisor takes the exit that follows for a failure unless it asked for the stop itself.
        """
        with self._idle:
            self._closing = True
            self._idle.wait_for(lambda: self._session.running == 0, grace)
        self._outbox.pump()
        self._ended.set()

    def _start(self) -> None:
        threading.Thread(target=self._read, name="ankka-flow reader", daemon=True).start()

    # The reader's side.

    def _read(self) -> None:
        frames = FrameReader()
        with self._guard():
            while data := self._receive(min(frames.wanted, _READ_AT_MOST)):
                for body in frames.feed(data):
                    with self._lock:
                        if not self._closing:
                            self._perform(self._session.receive(body))
                            self._end_waits()
                    self._outbox.pump_without_waiting()
            if frames.partial():
                raise ProtocolError(f"the input ended {frames.partial()} bytes into a frame")
            self._gone()

    def _receive(self, n: int) -> bytes:
        try:
            return os.read(self._wire.read, n)
        except ConnectionResetError:  # a socket's way to say that the supervisor is gone
            return b""

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Around everything that a thread of ours does: a mistake must end the process, not leave it mute."""
        try:
            yield
        except ProtocolError as error:
            self._die(f"the supervisor broke the protocol: {error}")
        except BaseException:
            traceback.print_exc()
            self._die("a mistake in the SDK, or no memory")

    def _perform(self, actions: list[Action]) -> None:
        """Start what the session calls for; the caller holds the lock. Nothing here blocks."""
        for action in actions:
            if isinstance(action, Send):
                self._outbox.put(action.frames, urgent=action.urgent)
            elif isinstance(action, Begin):
                self._begin(action.run)
            elif isinstance(action, Configure):
                self._workers.submit(lambda action=action: self._configure(action))  # type: ignore[misc]
            elif isinstance(action, Refused):
                self._refused(action.problems)

    def _begin(self, run: Run) -> None:
        force = self._force
        if self._loop is not None:
            self._loop.submit(lambda: self._run_async(run) if force is None else self._run_policy_async(run, force))
        elif force is None:
            self._workers.submit(lambda: self._run(run))
        else:
            self._workers.submit(lambda: self._run_policy(run, force))

    def _refused(self, problems: list[str]) -> None:
        # Each of them, though ankka-flow names them too: a process's own log may be all that its author sees.
        for problem in problems:
            print(f"ankka-flow refuses this process: {problem}", file=sys.stderr)
        self._end(1, _LINGER_REFUSED)

    # The workers' side.

    def _configure(self, configure: Configure) -> None:
        try:
            self._streamlet.configure(configure.values)
        except BaseException:
            traceback.print_exc()
            self._die("the configuration was not accepted")
        start = configure.start
        if self._streamlet.errors is not None or start.errors:
            where = Where(start.pipeline, start.streamlet or self._streamlet.name, start.instance)
            try:
                self._force = InForce(self._streamlet, start.errors, where, self._memory, Clocks())
            except ValueError as error:
                for problem in str(error).split("\n"):
                    print(f"ankka-flow: {problem}", file=sys.stderr)
                self._die("the settings of error handling were not accepted")
            if warning := self._force.warning():
                self._outbox.put([_frames.log("warn", warning, {})])
        with self._lock:
            self._perform(self._session.configured())
        self._outbox.pump()

    def _run(self, run: Run) -> None:
        with self._guard():
            records, ctx, at, made = records_of(run.rows), _context(run), At(), self._tally.begin()
            frames: list[bytes] = []
            failed = None
            try:
                collector = Collector(run.id, self._outlets, records, lambda early: self._flush(run, early))
                collector.consume(emits(self._streamlet, Batch(run.inlet, run.partition, records), ctx, at))
                frames = collector.frames()
                self._tally.end(made, collector.taken)
            except ProtocolError:  # a header that is none, found when the handler looked at it
                raise
            except BaseException as error:  # SystemExit and KeyboardInterrupt too: never an ack
                failed = failure(error, known_offset(records, at))
            self._answer(run, frames, failed)
            self._outbox.pump()

    async def _run_async(self, run: Run) -> None:
        # One coroutine, the task's outermost: a GeneratorExit from a future that the handler awaits is not thrown
        # into the coroutines below but closes them, and is raised here alone.
        with self._guard():
            records, ctx, at, made = records_of(run.rows), _context(run), At(), self._tally.begin()
            frames: list[bytes] = []
            failed = None
            try:
                collector = Collector(run.id, self._outlets, records)
                async for emit in async_emits(self._streamlet, Batch(run.inlet, run.partition, records), ctx, at):
                    collector.consume((emit,))
                    if collector.full():
                        await self._flush_async(run, collector.frames())
                frames = collector.frames()
                self._tally.end(made, collector.taken)
            except ProtocolError:  # a header that is none, found when the handler looked at it
                raise
            except BaseException as error:  # asyncio would end the loop for SystemExit and KeyboardInterrupt
                failed = failure(error, known_offset(records, at))
            self._answer(run, frames, failed)
            self._outbox.pump_without_waiting()

    # The workers' side, with an error policy.

    def _run_policy(self, run: Run, force: InForce) -> None:
        with self._guard():
            self._tally.begin()
            batch, ctx = Batch(run.inlet, run.partition, records_of(run.rows)), _context(run)
            collector = Collector(run.id, self._outlets, batch.records, lambda early: self._flush(run, early))
            self._go_on(run, Runner(self._streamlet, force, collector, batch, ctx), collector)

    def _go_on(self, run: Run, runner: Runner, collector: Collector) -> None:
        """Run a batch to its answer, or to its next wait, which holds no thread."""
        frames: list[bytes] = []
        failed = None
        try:
            wait = runner.advance()
            if wait is not None:
                self._workers_wait(run, runner, collector, wait)
                return
            frames = collector.frames()
            if not runner.troubled:
                self._tally.end(runner.names, collector.taken)
        except BaseException as error:
            failed = failure(error, known_offset(runner.records, runner.at))
        self._answer(run, [*frames, *self._told(run, runner)], failed)
        self._outbox.pump()

    def _workers_wait(self, run: Run, runner: Runner, collector: Collector, wait: Wait) -> None:
        def resume() -> None:
            with self._guard():
                self._went_on(run, wait)
                self._go_on(run, runner, collector)

        self._wait(run, runner, wait, lambda: self._workers.submit(resume))
        self._outbox.pump()

    async def _run_policy_async(self, run: Run, force: InForce) -> None:
        with self._guard():
            self._tally.begin()
            batch, ctx = Batch(run.inlet, run.partition, records_of(run.rows)), _context(run)
            collector = Collector(run.id, self._outlets, batch.records)
            runner = Runner(
                self._streamlet,
                force,
                collector,
                batch,
                ctx,
                lambda: self._flush_async(run, collector.frames()),
            )
            frames: list[bytes] = []
            failed = None
            try:
                while (wait := await runner.advance_async()) is not None:
                    await self._sleep(run, runner, wait)
                    self._went_on(run, wait)
                frames = collector.frames()
                if not runner.troubled:
                    self._tally.end(runner.names, collector.taken)
            except ProtocolError:  # a header that is none, found when the handler looked at it
                raise
            except BaseException as error:
                failed = failure(error, known_offset(runner.records, runner.at))
            self._answer(run, [*frames, *self._told(run, runner)], failed)
            self._outbox.pump_without_waiting()

    async def _sleep(self, run: Run, runner: Runner, wait: Wait) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._wait(run, runner, wait, lambda: loop.call_soon_threadsafe(over.set))
        self._outbox.pump_without_waiting()
        await over.wait()

    def _wait(self, run: Run, runner: Runner, wait: Wait, wake: Callable[[], object]) -> None:
        """Say that the batch waits, and have ``wake`` called once: when the wait is over or has to end."""
        status = {"offset": wait.record.offset, "attempt": wait.attempt, "waiting": True, "error": wait.error}
        frames = [_frames.status(run.id, {**status, "next_attempt_ms": min(wait.ms, _FAR)}), *self._told(run, runner)]
        with self._lock:
            if not run.void:
                self._outbox.put(frames)
            self._waiting[run.id] = _Waiting(run, runner, wait, wake)
            self._end_waits()
        self._timer.call(wait.ms, lambda: self._due(run, wait))

    def _due(self, run: Run, wait: Wait) -> None:
        with self._lock:
            waiting = self._waiting.get(run.id)
            if waiting is None or waiting.wait is not wait:
                return  # it was ended before
            del self._waiting[run.id]
        waiting.wake()

    def _end_waits(self) -> None:
        """End the waits of void batches, and at a stop all once nothing else runs; the caller holds the lock."""
        if not self._waiting:
            return
        stop = self._session.finishing and sum(not w.run.void for w in self._waiting.values()) == self._session.live
        for waiting in [w for w in self._waiting.values() if w.run.void or stop]:
            del self._waiting[waiting.run.id]
            offset, error = waiting.wait.record.offset, waiting.wait.error
            waiting.runner.ended = (
                Revoked()
                if waiting.run.void
                else Stopped(f"stopped while the record at offset {offset} waited for another attempt ({error})")
            )
            waiting.wake()

    def _went_on(self, run: Run, wait: Wait) -> None:
        with self._lock:
            if not run.void:
                now = {"offset": wait.record.offset, "attempt": wait.attempt + 1, "waiting": False}
                self._outbox.put([_frames.status(run.id, now)])

    def _told(self, run: Run, runner: Runner) -> list[bytes]:
        """What a batch under a policy says beside its emits: lines at once, numbers at once or with its commit.

        Those of a void batch are dropped: its records are somebody else's by now.
        """
        attempts = runner.attempts
        lines, attempts.lines = attempts.lines, []
        now = series(attempts.now, run.inlet)
        if attempts.last_error:
            now.append(["last_error_timestamp_seconds", "gauge", {"inlet": run.inlet}, attempts.last_error / 1000])
            attempts.last_error = 0
        frames = [_frames.log("error", said, fields) for said, fields in lines]
        if now:
            frames.append(_frames.report(None, now))
        if run.void:
            return []
        if frames:
            self._outbox.put(frames)
        later = series(attempts.later, run.inlet)
        return [_frames.report(run.id, later)] if later else []

    def _flush(self, run: Run, frames: list[bytes]) -> None:
        """Send frames of a batch that still runs, and wait until they are out: its handler makes no more meanwhile."""
        if run.void:
            raise Revoked
        out = threading.Event()
        self._outbox.put(frames, written=out.set)
        self._outbox.pump()
        out.wait()

    async def _flush_async(self, run: Run, frames: list[bytes]) -> None:
        if run.void:
            raise Revoked
        loop = asyncio.get_running_loop()
        out = asyncio.Event()
        self._outbox.put(frames, written=lambda: loop.call_soon_threadsafe(out.set))  # type: ignore[arg-type]
        self._outbox.pump_without_waiting()
        await out.wait()

    def _answer(self, run: Run, frames: list[bytes], failed: dict[str, Any] | None) -> None:
        if os.getpid() != self._pid:  # and the lock may be held by a thread that was not forked
            self._die("a forked child came back from the handler; it has no wire: end it with os._exit")
        with self._idle:
            self._perform(self._session.answer(run, frames, failed))
            self._end_waits()
            self._idle.notify_all()

    # The end.

    def _gone(self) -> None:
        """The supervisor is gone: its end of a pipe is closed."""
        if self._ended.is_set():
            return
        with self._lock:
            running = self._session.running
            stop = self._session.stop
        if running:
            batches = "1 batch is" if running == 1 else f"{running} batches are"
            if stop == "finish":
                self._die(f"the time for the stop is over while {batches} running; what was not answered comes again")
            if stop == "abandon":
                self._die(f"the supervisor ends this process while {batches} running whose answer no longer counts")
            self._die(f"the supervisor is gone while {batches} running")
        self._end(0, _LINGER)

    def _end(self, code: int, linger: float) -> None:
        """Let the main thread end the program, and end it from here where it does not within ``linger`` seconds.

        The interpreter waits for threads of the user's own at its end; without a supervisor they serve nobody.
        """
        self._code = code
        self._ended.set()

        def insist() -> None:
            time.sleep(linger)
            _exit(code)

        threading.Thread(target=insist, name="ankka-flow end", daemon=True).start()

    def _die(self, why: str) -> NoReturn:
        print(f"ankka-flow: {why}", file=sys.stderr)
        _exit(1)


class _Waiting(NamedTuple):
    run: Run
    runner: Runner
    wait: Wait
    wake: Callable[[], object]


def _context(run: Run) -> Context:
    return Context(run.inlet, run.topic, run.partition, run.attempt, run)


def _exit(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed or gone; there is nobody left to tell
    os._exit(code)


def serve(streamlet: Streamlet, port: int | None = None, block: bool = True, workers: int = 32) -> Server:
    """Serve a streamlet to the ankka-flow that launched this program.

    ``workers`` is how many batches run at once, and how many the supervisor may have unanswered here. ``port`` is
    ignored. With ``block`` it returns when the supervisor is gone and nothing was running, and raises SystemExit
    where the process was refused; without, it returns at once.

    A program run by hand attaches to the ``ankka-flow run --attach`` that waits in its folder or above; where none
    does, it prints how to run it and raises SystemExit(2). Raises ValueError for a declaration
    with problems, naming all of them, and RuntimeError when called twice.
    """
    global _serving
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    problems = descriptor.validate(descriptor.spec_for(streamlet))
    if problems:
        raise ValueError(f"{type(streamlet).__name__} is not a valid streamlet: {'; '.join(problems)}")
    wire = _stdio.wire()
    if wire is None:
        wire = _attached(streamlet.name)
    if _serving:
        raise RuntimeError("serve was called twice; a process serves one streamlet")
    _serving = True
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    server = Server(streamlet, wire, workers, port or 0)
    server._start()
    if block:
        server.wait()
    return server


_serving = False


def _attached(name: str) -> _stdio.Wire:
    """The link of a program that was started by hand; without one it ends."""
    try:
        wire = _attach.connect()
    except _attach.AttachError as error:
        print(f"ankka-flow: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if wire is None:
        print(_by_hand(name), file=sys.stderr)
        raise SystemExit(2)
    print(f"ankka-flow: {name} is attached; stdin and stdout are its own", file=sys.stderr)
    return wire


def _by_hand(name: str) -> str:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    program = f"-m {main.name.removesuffix('.__main__')}" if main is not None else sys.argv[0] or "streamlet.py"
    return (
        f"{name} is a streamlet; nothing sends it records.\n"
        f"  run:   ankka-flow run -- {os.path.basename(sys.executable) or 'python3'} {program}\n"
        "  debug: ankka-flow run --attach, then start this program again\n"
        "  test:  ankka_flow.testkit.Harness runs it in a test, without a broker"
    )
