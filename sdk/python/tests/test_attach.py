"""A program that was started by hand, attached to a supervisor played over a Unix socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from process import SRC, TIMEOUT, frame, row

PROGRAM = """
import os, sys
from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve
class S(Streamlet):
    name = "s"
    inlet = JsonInlet("in", schema_name="t")
    out = JsonOutlet("out", schema_name="t")
    def process(self, batch):
        print("read", sys.stdin.readline().strip())
        return map(self.out.emit, batch)
serve(S())
print("served")
"""


class Supervisor:
    """Listens at a socket of the test's folder, and talks to the program that comes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(os.path.relpath(path))
        self.listener.listen()
        self.listener.settimeout(TIMEOUT)

    def accept(self) -> None:
        self.link, _ = self.listener.accept()
        self.link.settimeout(TIMEOUT)
        self.file = self.link.makefile("rb")

    def send(self, *message: Any) -> None:
        self.link.sendall(frame(*message))

    def receive(self) -> Any:
        size = int.from_bytes(self.file.read(4), "big")
        return msgpack.unpackb(self.file.read(size))

    def hang_up(self) -> None:
        self.file.close()
        self.link.close()
        self.listener.close()


def start(folder: Path, **variables: str) -> subprocess.Popen[str]:
    script = folder / "s.py"
    script.write_text(PROGRAM)
    env = {k: v for k, v in os.environ.items() if k not in ("ANKKA_FLOW_PROTOCOL", "FLOW_ATTACH")}
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env={**env, "PYTHONPATH": str(SRC), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_attached_stdin_and_stdout_stay_the_programs_own(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / ".ankka-flow" / "attach.sock")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    program = start(below)
    supervisor.accept()
    supervisor.send("discover", {"protocol": "1.0"})
    assert supervisor.receive()[0] == "spec"
    supervisor.send("start", {"conversation": 1, "inlets": {"in": "t"}, "outlets": {"out": "t"}})
    supervisor.send("batch", 1, "in", 0, [row(0, b"x")], {})
    assert program.stdin is not None
    program.stdin.write("hello\n")
    program.stdin.flush()
    assert [supervisor.receive() for _ in range(2)] == [["forward", 1, "out", None], ["ack", 1]]
    supervisor.hang_up()
    out, err = program.communicate(timeout=TIMEOUT)
    assert program.returncode == 0
    assert out == "read hello\nserved\n"
    assert err == "ankka-flow: s is attached; stdin and stdout are its own\n"


def test_refused_prints_the_problems(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / "other.sock")
    program = start(tmp_path, FLOW_ATTACH=str(tmp_path / "other.sock"))
    supervisor.accept()
    supervisor.send("refuse", ["another program is attached"])
    supervisor.hang_up()
    _, err = program.communicate(timeout=TIMEOUT)
    assert program.returncode == 1
    assert "ankka-flow refuses this process: another program is attached\n" in err


@pytest.mark.parametrize("named", [True, False])
def test_nobody_listens_there(tmp_path: Path, named: bool) -> None:
    path = tmp_path / ".ankka-flow" / "attach.sock"
    Supervisor(path).listener.close()  # what a supervisor that died leaves behind
    program = start(tmp_path, **({"FLOW_ATTACH": str(path)} if named else {}))
    out, err = program.communicate(timeout=TIMEOUT)
    assert program.returncode == 2
    assert out == ""
    assert ("does `ankka-flow run --attach` run there?" in err) is named
    assert ("s is a streamlet; nothing sends it records." in err) is not named
