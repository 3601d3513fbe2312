"""The supervisor's side, spoken by hand: a program behind three pipes, and frames in both directions.

Uses the ``msgpack`` package itself, never the SDK's code, so that a mistake of the SDK is not shared by its tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgpack

SRC = Path(__file__).parent.parent / "src"
TIMEOUT = 20.0  # seconds after which a test's process counts as hung


class Spawn(Protocol):
    def __call__(self, program: str, *, launched: bool = True) -> Process: ...


def frame(*message: Any) -> bytes:
    body: bytes = msgpack.packb(message)
    return len(body).to_bytes(4, "big") + body


def frames(data: bytes) -> list[list[Any]]:
    """Every message in ``data``, which must be whole frames."""
    messages = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert 0 < size <= 4 * 1024 * 1024 and len(data) >= 4 + size
        messages.append(msgpack.unpackb(data[4 : 4 + size]))
        data = data[4 + size :]
    return messages


def row(offset: int, value: bytes | None, key: bytes | None = None, headers: Any = ()) -> list[Any]:
    return [offset, 1000 + offset, key, value, headers]


class Process:
    """A program under test. Its frames are read by a thread all the time, its stderr goes to a file."""

    def __init__(self, program: str, *, own_codec: bool, launched: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.script = folder / "streamlet.py"
        self.script.write_text(program)
        path = [str(SRC)]
        if own_codec:
            (folder / "blocked").mkdir()
            (folder / "blocked" / "msgpack.py").write_text("raise ImportError('blocked by the test')\n")
            path.insert(0, str(folder / "blocked"))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        for variable in ("ANKKA_FLOW_PROTOCOL", "PYTHONUNBUFFERED"):
            environment.pop(variable, None)
        if launched:
            environment["ANKKA_FLOW_PROTOCOL"] = "1.0"
        self._stderr = (folder / "stderr").open("w+b")
        self.popen = subprocess.Popen(
            [sys.executable, str(self.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        self._messages: list[list[Any]] = []
        self._taken = 0
        self._news = threading.Condition()
        self._ended = False
        self.reading = threading.Event()  # cleared: the supervisor reads nothing
        self.reading.set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        while True:
            self.reading.wait()
            head = self.popen.stdout.read(4)
            body = self.popen.stdout.read(int.from_bytes(head, "big")) if len(head) == 4 else b""
            with self._news:
                if body:
                    self._messages.append(msgpack.unpackb(body))
                self._ended = not body
                self._news.notify_all()
                if self._ended:
                    return

    def send(self, *messages: Any) -> None:
        """Write the messages, each a list, in one write."""
        self.write(b"".join(frame(*message) for message in messages))

    def write(self, data: bytes) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(data)
        self.popen.stdin.flush()

    def next(self) -> list[Any]:
        """The next message of the process."""
        with self._news:
            got = self._news.wait_for(lambda: self._taken < len(self._messages) or self._ended, TIMEOUT)
            if not got or self._taken == len(self._messages):
                raise AssertionError(f"no further message; stderr: {self.stderr()}")
            self._taken += 1
            return self._messages[self._taken - 1]

    def until(self, wanted: Callable[[list[Any]], bool]) -> list[list[Any]]:
        """The next messages up to and with the first ``wanted`` one."""
        taken = [self.next()]
        while not wanted(taken[-1]):
            taken.append(self.next())
        return taken

    def discover(self) -> list[Any]:
        self.send(["discover", {"protocol": "1.0", "supervisor": "test"}])
        return self.next()

    def start(self, *, config: dict[str, Any] | None = None, conversation: int = 1) -> list[Any]:
        """Discover and start a conversation; gives the spec."""
        spec = self.discover()
        self.send(["start", {"conversation": conversation, "config": config or {}, "inlets": {"in": "topic-in"}}])
        return spec

    def batch(self, batch_id: int, rows: list[Any], *, partition: int = 0, attempt: int = 1) -> None:
        self.send(["batch", batch_id, "in", partition, rows, {"attempt": attempt}])

    def end_input(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()

    def wait(self) -> int:
        """The exit code, once it has one."""
        return self.popen.wait(TIMEOUT)

    def stderr(self) -> str:
        """What it wrote to stderr so far."""
        return (Path(self._folder.name) / "stderr").read_text(errors="replace")

    def wait_for_file(self, name: str) -> None:
        """Wait until the program made this file in its folder: how a handler says that it is at some point."""
        path, pause = Path(self._folder.name) / name, threading.Event()
        for _ in range(int(TIMEOUT / 0.01)):
            if path.exists():
                return
            pause.wait(0.01)
        raise AssertionError(f"no file {name}; stderr: {self.stderr()}")

    def make_file(self, name: str) -> None:
        """Tell a handler that waits for this file to go on."""
        (Path(self._folder.name) / name).touch()

    def close(self) -> None:
        self.reading.set()
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()
        self._thread.join(TIMEOUT)
        for pipe in (self.popen.stdin, self.popen.stdout, self._stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        self._folder.cleanup()
