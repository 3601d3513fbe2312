"""The reference streamlet that ``ankka-flow conformance`` asks, and the console script ``conformance`` that runs that.

``python -m ankka_flow._conformance`` is the process to be asked; ``conformance/REFERENCE.md`` describes it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from . import IntegerParameter, JsonInlet, JsonOutlet, Streamlet, StringParameter, serve
from .records import Emit, Record
from .streamlet import Context

ONLY = "ANKKA_FLOW_CONFORMANCE_ONLY"


class Conformance(Streamlet):
    """Does with a record what the word in its key says."""

    name = "conformance"
    inlet = JsonInlet("in", schema_name="conformance.v1")
    side = JsonInlet("side", schema_name="conformance.v1")
    out = JsonOutlet("out", schema_name="conformance.v1")
    other = JsonOutlet("other", schema_name="conformance.v1")
    mode = StringParameter("mode", default="key")
    factor = IntegerParameter("factor", default=2)

    def configure(self, values: Mapping[str, object]) -> None:
        super().configure(values)
        if self.config[self.mode] == "broken":
            raise ValueError("mode is broken")

    def process_record(self, record: Record, ctx: Context) -> Emit | Iterable[Emit] | None:
        word = self.config[self.mode]
        if word == "key":
            word = (record.key or b"").partition(b":")[0].decode(errors="replace")
        return _WORDS.get(word, _echo)(self, record)


_Word = Callable[[Conformance, Record], Emit | Iterable[Emit] | None]


def _echo(streamlet: Conformance, record: Record) -> Emit:
    return streamlet.out.emit(record)


def _fan(streamlet: Conformance, record: Record) -> Iterable[Emit]:
    return [streamlet.out.emit(record), streamlet.other.emit(record), streamlet.out.emit(record)]


def _skip(streamlet: Conformance, record: Record) -> None:
    return None


def _fail(streamlet: Conformance, record: Record) -> Emit:
    raise RuntimeError(_text(record))


def _exit(streamlet: Conformance, record: Record) -> Emit:
    sys.exit(3)


def _multiply(streamlet: Conformance, record: Record) -> Emit:
    product = int(_text(record)) * streamlet.config[streamlet.factor]
    return streamlet.out.emit(record, value=str(product).encode())


def _unkeyed(streamlet: Conformance, record: Record) -> Emit:
    return streamlet.out.emit(record, key=None)


def _header_echo(streamlet: Conformance, record: Record) -> Emit:
    return streamlet.out.emit(record, headers=[*record.headers, ("echo", b"1")])


def _make(streamlet: Conformance, record: Record) -> Emit:
    return streamlet.out.emit(key=record.key, value=b"x" * int(_text(record)))


def _rogue_outlet(streamlet: Conformance, record: Record) -> Emit:
    return Emit("nowhere", record)


def _late(streamlet: Conformance, record: Record) -> Emit:
    path = Path(_text(record))
    while not path.exists():
        time.sleep(0.01)
    return _echo(streamlet, record)


def _busy(streamlet: Conformance, record: Record) -> Emit:
    path = _text(record)
    while not os.path.exists(path):
        pass
    return _echo(streamlet, record)


def _print(streamlet: Conformance, record: Record) -> Emit:
    print(_text(record))
    return _echo(streamlet, record)


def _print_fd(streamlet: Conformance, record: Record) -> Emit:
    os.write(1, (record.value or b"") + b"\n")
    return _echo(streamlet, record)


def _print_err(streamlet: Conformance, record: Record) -> Emit:
    print(_text(record), file=sys.stderr)
    return _echo(streamlet, record)


def _run(streamlet: Conformance, record: Record) -> Emit:
    subprocess.run(["sh", "-c", _text(record)], check=False)
    return _echo(streamlet, record)


def _read(streamlet: Conformance, record: Record) -> Emit:
    return streamlet.out.emit(record, value=b"".join(iter(lambda: os.read(0, 65536), b"")))


def _text(record: Record) -> str:
    return (record.value or b"").decode()


_WORDS: dict[str, _Word] = {
    "echo": _echo,
    "fan": _fan,
    "skip": _skip,
    "fail": _fail,
    "exit": _exit,
    "multiply": _multiply,
    "unkeyed": _unkeyed,
    "header-echo": _header_echo,
    "make": _make,
    "rogue-outlet": _rogue_outlet,
    "late": _late,
    "busy": _busy,
    "print": _print,
    "print-fd": _print_fd,
    "print-err": _print_err,
    "run": _run,
    "read": _read,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite on this SDK; gives its exit code. Arguments (``--list``, ``--json``) are ankka-flow's."""
    program = shutil.which("ankka-flow") or shutil.which("./ankka-flow")
    if program is None:
        print("conformance: ankka-flow is neither on the PATH nor here; make build makes it", file=sys.stderr)
        return 127
    arguments = list(sys.argv[1:] if argv is None else argv)
    if only := os.environ.get(ONLY):
        arguments += ["--run", "^" + re.escape(only)]
    return subprocess.call([program, "conformance", *arguments, "--", sys.executable, "-m", __name__])


if __name__ == "__main__":
    if os.environ.get("CONFORMANCE_DISCOVERY") == "error":
        raise RuntimeError("no descriptor today")
    serve(Conformance())
