"""The SDK in a real process, spoken to by hand over pipes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from process import Process, Spawn, frame, row

HEAD = """
import os, sys, threading, time, subprocess, asyncio
from ankka_flow import *

class Base(Streamlet):
    name = "s"
    inlet = JsonInlet("in", schema_name="a")
    out = JsonOutlet("out", schema_name="a")
    other = JsonOutlet("other", schema_name="a")

def wait_for(name):
    while not os.path.exists(name):
        threading.Event().wait(0.005)

"""
IDENTITY = """
class S(Base):
    def process(self, batch):
        return map(self.out.emit, batch)
serve(S())
"""


HALF = frame("discover", {})[:-1]


def answered(message: list[Any]) -> bool:
    return message[0] in ("ack", "fail")


def one_batch(process: Process, rows: list[Any] | None = None, batch_id: int = 1) -> list[list[Any]]:
    process.batch(batch_id, rows or [row(7, b"v", b"k")])
    return process.until(answered)


def test_a_conversation(spawn: Spawn) -> None:
    process = spawn(HEAD + IDENTITY)
    spec = process.start()
    assert spec[0] == "spec" and spec[2] == {"ping": True, "max_in_flight": 32, "errors": True}
    assert spec[1]["protocol_version"] == "1.0" and spec[1]["streamlet"]["name"] == "s"
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]
    process.send(["stop", {"mode": "finish", "reason": ""}])
    assert process.next() == ["stopped"]
    process.start(conversation=2)
    assert one_batch(process, batch_id=2) == [["forward", 2, "out", None], ["ack", 2]]
    process.send(["stop", {"mode": "finish", "reason": ""}])
    assert process.next() == ["stopped"]
    process.end_input()
    assert process.wait() == 0
    assert process.stderr() == ""


def test_configuration_arrives_typed(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    d = DurationParameter("d"); m = MemorySizeParameter("m", default="1 MiB"); f = DoubleParameter("f")
    b = BooleanParameter("b"); t = StringParameter("t"); i = IntegerParameter("i", default=3)
    def process(self, batch):
        c = self.config
        yield self.out.emit(value=repr([c[self.d], c[self.m], c[self.f], c[self.b], c[self.t], c[self.i]]).encode())
serve(S())
"""
    )
    process.start(config={"d": 1500, "m": 10, "f": 2, "b": True, "t": "x"})
    emit, _ = one_batch(process)
    assert emit[3][0][1] == b"[datetime.timedelta(seconds=1, microseconds=500000), 10, 2.0, True, 'x', 3]"


def test_process_record_knows_where_its_record_comes_from(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process_record(self, r, ctx):
        v = f"{ctx.inlet} {ctx.topic} {ctx.partition} {ctx.attempt} {ctx.delivery} {ctx.stopping} {r.offset}".encode()
        if r.value == b"none": return None
        if r.value == b"two": return [self.out.emit(value=v), self.other.emit(r)]
        return self.out.emit(value=v)
serve(S())
"""
    )
    process.start()
    process.batch(1, [row(1, b"one"), row(2, b"none"), row(3, b"two")], partition=4, attempt=5)
    assert process.until(answered) == [
        ["emit", 1, "out", [[None, b"in topic-in 4 1 5 False 1"], [None, b"in topic-in 4 1 5 False 3"]]],
        ["forward", 1, "other", [2]],
        ["ack", 1],
    ]


def test_case1_printing_is_harmless(spawn: Spawn) -> None:
    process = spawn(
        "print('before the import')\n"
        + HEAD
        + """
print("at import")
import atexit
atexit.register(print, "at exit")
class S(Base):
    def process(self, batch):
        print("in the handler")
        return map(self.out.emit, batch)
serve(S())
print("after serve")
"""
    )
    process.start()
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]
    assert "in the handler\n" in process.stderr()  # by line, not at the end
    process.end_input()
    assert process.wait() == 0
    assert process.stderr().split("\n")[:5] == [
        "before the import", "at import", "in the handler", "after serve", "at exit",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "loses", "gives"),
    [
        ("def process_record(self, r, ctx)", "self.other.emit(r)", "return self.out.emit(r)"),
        ("def process_record(self, r, ctx)", "self.other.emit(value=b'x')", "yield self.out.emit(r)"),
        ("async def process_record(self, r, ctx)", "self.other.tombstone(b'x')", "return self.out.emit(r)"),
        ("def process(self, b)", "self.other.emit(b.records[0])", "return map(self.out.emit, b)"),
        ("async def process(self, b)", "self.other.emit(b.records[0])", "yield self.out.emit(b.records[0])"),
    ],
)
def test_an_emit_that_is_not_returned_is_told_once(spawn: Spawn, head: str, loses: str, gives: str) -> None:
    process = spawn(HEAD + f"class S(Base):\n    {head}:\n        {loses}\n        {gives}\nserve(S())\n")
    process.start()
    for batch_id in (1, 2):
        process.batch(batch_id, [row(batch_id, b"v")])
        assert [m[0] for m in process.until(answered)] == ["forward", "ack"]  # a warning, not a failure
    process.end_input()
    assert process.wait() == 0
    name = head.partition("(")[0].split()[-1]
    assert process.stderr() == (
        f"ankka-flow: S.{name}: an emit of outlet 'other' was made and not returned: return it or yield it; "
        "emit() only makes it. Without that nothing is written; this is said only once.\n"
    )


def test_an_emit_that_is_not_returned_is_not_told_of_other_batches(spawn: Spawn) -> None:
    # Each of two tasks in one thread makes its emit before the other one gives its own.
    process = spawn(
        HEAD
        + """
waiting = []
class S(Base):
    async def process_record(self, r, ctx):
        made = self.out.emit(r)
        waiting.append(r)
        while len(waiting) < 2:
            await asyncio.sleep(0)
        return made
serve(S())
"""
    )
    process.start()
    process.batch(1, [row(1, b"v")], partition=0)
    process.batch(2, [row(1, b"v")], partition=1)
    assert len(process.until(answered) + process.until(answered)) == 4
    process.end_input()
    assert process.wait() == 0
    assert process.stderr() == ""


def test_case4_c_libraries_and_grandchildren_write_to_the_log(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        os.system("echo from the shell; env | grep -c ANKKA_FLOW_PROTOCOL")
        os.write(1, b"from os.write\\n")
        return map(self.out.emit, batch)
serve(S())
"""
    )
    process.start()
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]
    assert process.stderr() == "from the shell\n0\nfrom os.write\n"


def test_case20_nobody_else_reads_the_protocol(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        read = subprocess.run(["cat"], capture_output=True, check=True).stdout
        try:
            input()
        except EOFError:
            read += b"EOF"
        yield self.out.emit(value=read)
serve(S())
"""
    )
    process.start()
    assert one_batch(process) == [["emit", 1, "out", [[None, b"EOF"]]], ["ack", 1]]


def test_a_forked_child_has_no_wire(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        pid = os.fork()
        if pid == 0:
            return []
        os.waitpid(pid, 0)
        return map(self.out.emit, batch)
import warnings; warnings.simplefilter("ignore")
serve(S())
"""
    )
    process.start()
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]


@pytest.mark.parametrize("raised", ["SystemExit(0)", "KeyboardInterrupt()", "GeneratorExit()", "MemoryError()"])
@pytest.mark.parametrize(
    "handler",
    [
        "def process(self, batch): raise {}",
        "def process(self, batch):\n        yield from map(self.out.emit, batch)\n        raise {}",
        "def process_record(self, record, ctx): raise {}",
        "async def process(self, batch):\n        await asyncio.sleep(0)\n        raise {}",
        "async def process(self, batch):\n        yield self.out.emit(value=b'')\n        raise {}",
        "async def process_record(self, record, ctx):\n        raise {}",
        "async def process(self, batch):\n        async def deeper(): raise {}\n        await asyncio.gather(deeper())",
    ],
)
def test_case41_nothing_that_is_raised_becomes_an_ack(spawn: Spawn, codec: str, handler: str, raised: str) -> None:
    if codec == "own" and "GeneratorExit" not in raised:
        return  # once is enough for each: no frame differs
    process = spawn(HEAD + f"class S(Base):\n    {handler.format(raised)}\nserve(S())\n")
    process.start()
    for batch_id in (1, 2):  # the process goes on serving
        messages = one_batch(process, batch_id=batch_id)
        assert [message[0] for message in messages] == ["fail"]
        assert messages[0][1] == batch_id and messages[0][2]["kind"] == raised.partition("(")[0]
    process.send(["ping", 3])
    assert process.next() == ["pong", 3]


def test_a_failure_names_everything_that_is_known(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class Odd(Exception):
    def __str__(self): return "odd \\udcff text"
class S(Base):
    def process_record(self, record, ctx):
        if record.value == b"bad":
            raise Odd
        return self.out.emit(record)
serve(S())
"""
    )
    process.start()
    (fail,) = one_batch(process, [row(5, b"good"), row(6, b"bad"), row(7, b"good")])
    assert fail[2]["offset"] == 6 and fail[2]["kind"] == "__main__.Odd" and fail[2]["message"] == "odd ? text"
    assert "raise Odd" in fail[2]["detail"] and "_handler.py" not in fail[2]["detail"]


def test_a_batch_handler_s_failure_names_no_record_unless_there_is_only_one(spawn: Spawn) -> None:
    process = spawn(HEAD + "class S(Base):\n    def process(self, batch): raise ValueError('no')\nserve(S())\n")
    process.start()
    (fail,) = one_batch(process, [row(5, b""), row(6, b"")], 1)
    assert "offset" not in fail[2] and fail[2]["message"] == "no"
    (fail,) = one_batch(process, [row(5, b"")], 2)
    assert fail[2]["offset"] == 5


def test_case67_case70_a_batch_is_all_or_nothing(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        for record in batch:
            if record.value == b"bad":
                raise ValueError("bad")
            yield self.out.emit(record)
serve(S())
"""
    )
    process.start()
    messages = one_batch(process, [row(i, b"bad" if i == 1 else b"ok") for i in range(5)])
    assert [message[0] for message in messages] == ["fail"]


def test_an_undeclared_outlet_and_a_wrong_emit_fail_the_batch(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process_record(self, r, ctx):
        return {b"1": [Emit("nowhere", r)], b"2": [r], b"3": 5, b"4": self.big, b"5": coroutine()}[r.value]
    @property
    def big(self):
        yield self.out.emit(value=bytes(4200000))
async def coroutine(): pass
import warnings; warnings.simplefilter("ignore")
serve(S())
"""
    )
    process.start()
    kinds = []
    for i in range(1, 6):
        (fail,) = one_batch(process, [row(i, b"%d" % i)], i)
        kinds.append(fail[2]["kind"].rpartition(".")[2])
    assert kinds == ["UndeclaredOutletError", "TypeError", "TypeError", "RecordTooLargeError", "TypeError"]


def test_case49_bytes_cross_unchanged(spawn: Spawn) -> None:
    odd = [
        row(0, None, b"k"),
        row(1, b"", b"k"),
        row(2, b"v", None),
        row(3, b"v", b""),
        row(4, b"v", b"k", [[b"h", b"1"], [b"h", b""], [b"h", None], [b"", b"x"], [b"\xff\xfe", b"\xff"]]),
        row(5, None, None),
    ]
    for handler, kind in (
        ("map(self.out.emit, batch)", "forward"),
        ("[self.out.emit(r, timestamp_ms=5) for r in batch]", "emit"),
        ("[self.out.emit(r, key=r.key, headers=list(r.headers)) for r in batch]", "emit"),
        ("[Emit('out', Record(r.value, r.key, r.headers)) for r in batch]", "emit"),
    ):
        process = spawn(HEAD + f"class S(Base):\n    def process(self, batch): return {handler}\nserve(S())\n")
        process.start()
        messages = one_batch(process, odd)
        assert messages[0][0] == kind
        if kind == "emit":
            padded = [(*emitted, [])[:3] for emitted in messages[0][3]]
            assert [[key, value, list(headers)] for key, value, headers in padded] == [
                [key, value, list(headers)] for _, _, key, value, headers in odd
            ]


def test_case18_pings_and_revokes_pass_a_busy_handler(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process_record(self, record, ctx):
        open("busy", "w").close()
        while not ctx.stopping:
            pass
        open("saw", "w").close()
serve(S(), workers=1)
"""
    )
    spec = process.start()
    assert spec[2]["max_in_flight"] == 1
    process.batch(1, [row(0, b"a"), row(1, b"b")])
    process.wait_for_file("busy")
    process.send(*(["ping", n] for n in range(100)))
    assert sorted(process.next()[1] for _ in range(100)) == list(range(100))
    process.send(["revoke", 1])
    process.wait_for_file("saw")
    answer = process.next()
    assert answer[:2] == ["fail", 1] and answer[2]["kind"].endswith("Revoked")


def test_case18_a_pong_overtakes_the_frames_of_a_large_batch(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        for i in range(20):
            open("emitting", "w").close()
            yield self.out.emit(value=bytes(3_000_000))
serve(S())
"""
    )
    process.start()
    process.reading.clear()
    process.send(["ping", 0])  # releases the reading thread into its wait
    process.batch(1, [row(0, b"")])
    process.wait_for_file("emitting")
    process.send(["ping", 1])
    process.reading.set()
    messages = process.until(lambda message: message[0] == "ack")
    assert [m[0] for m in messages].index("pong") == 0
    assert messages[1:].index(["pong", 1]) <= 2


def test_case15_stdin_is_read_while_stdout_is_full(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        return [self.out.emit(value=bytes(1_000_000)) for _ in range(10)]
serve(S())
"""
    )
    process.start()
    process.reading.clear()
    process.send(["ping", 0])
    # 32 MB in batches, far beyond any pipe: these writes end only because the process goes on reading
    for batch_id in range(1, 17):
        process.batch(batch_id, [row(0, bytes(2_000_000))], partition=batch_id)
        process.send(["ping", batch_id])
    process.reading.set()
    messages: list[list[Any]] = []
    while sum(message[0] == "ack" for message in messages) < 16:
        messages.append(process.next())
    for batch_id in range(1, 17):
        own = [message[0] for message in messages if message[1] == batch_id and message[0] != "pong"]
        assert own == ["emit"] * (len(own) - 1) + ["ack"]
        emitted = sum(len(m[3]) for m in messages if m[0] == "emit" and m[1] == batch_id)
        assert emitted == 10


def test_case15_pings_alone_fill_the_pipe(spawn: Spawn) -> None:
    process = spawn(HEAD + IDENTITY)
    process.start()
    process.reading.clear()
    process.send(*(["ping", n] for n in range(40_000)))  # 400 KB each way: this write ends only as it is read
    process.reading.set()
    assert sorted(process.next()[1] for _ in range(40_000)) == list(range(40_000))


def test_case47_finish_answers_everything_then_stopped(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        open(f"at{batch.partition}", "w").close()
        wait_for("go")
        return map(self.out.emit, batch)
serve(S())
"""
    )
    process.start()
    for batch_id in range(1, 4):
        process.batch(batch_id, [row(0, b"")], partition=batch_id)
        process.wait_for_file(f"at{batch_id}")
    process.send(["stop", {"mode": "finish", "reason": "test"}])
    process.make_file("go")
    messages = process.until(lambda message: message == ["stopped"])
    assert sorted(message[1] for message in messages if message[0] == "ack") == [1, 2, 3]
    process.end_input()
    assert process.wait() == 0


def test_abandon_and_a_late_answer_into_the_next_conversation(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        if batch.partition == 1:
            open("busy", "w").close()
            wait_for("go")
        return map(self.out.emit, batch)
serve(S())
"""
    )
    process.start()
    process.batch(1, [row(0, b"")], partition=1)
    process.wait_for_file("busy")
    process.send(["stop", {"mode": "abandon", "reason": "test"}])
    assert process.next() == ["stopped"]
    process.start(conversation=2)
    assert one_batch(process, batch_id=2) == [["forward", 2, "out", None], ["ack", 2]]
    process.make_file("go")
    assert process.next() == ["ack", 1]  # and none of its emits
    process.send(["stop", {"mode": "finish", "reason": ""}])
    assert process.next() == ["stopped"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_batches_run_side_by_side(spawn: Spawn, asynchronous: bool) -> None:
    handler = (
        """
    async def process(self, batch):
        self.met = getattr(self, "met", None) or asyncio.Event()
        self.n = getattr(self, "n", 0) + 1
        if self.n == 8: self.met.set()
        await self.met.wait()
        return [self.out.emit(record) for record in batch]
"""
        if asynchronous
        else """
    met = threading.Barrier(8)
    def process(self, batch):
        self.met.wait(15)
        return map(self.out.emit, batch)
"""
    )
    process = spawn(HEAD + f"class S(Base):{handler}\nserve(S(), workers=8)\n")
    process.start()
    for batch_id in range(1, 9):
        process.batch(batch_id, [row(0, b"")], partition=batch_id)
    acks = 0
    while acks < 8:
        message = process.next()
        assert message[0] in ("forward", "ack")
        acks += message[0] == "ack"


def test_async_generators_and_large_batches(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    async def process(self, batch):
        for i in range(8):
            await asyncio.sleep(0)
            yield self.out.emit(value=bytes([i]) * 700_000)
serve(S())
"""
    )
    process.start()
    messages = one_batch(process)
    assert [value[1][0] for message in messages[:-1] for value in message[3]] == list(range(8))
    assert messages[-1] == ["ack", 1] and len(messages) > 3


def test_a_slow_configure_holds_batches_and_not_pings(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def configure(self, values):
        open("configuring", "w").close()
        wait_for("go")
        super().configure(values)
    def process(self, batch):
        return map(self.out.emit, batch)
serve(S())
"""
    )
    process.start()
    process.wait_for_file("configuring")
    process.batch(1, [row(0, b"")])
    process.send(["ping", 1])
    assert process.next() == ["pong", 1]
    process.make_file("go")
    assert process.until(answered) == [["forward", 1, "out", None], ["ack", 1]]


def test_a_void_batch_that_emits_for_ever_ends(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        while True:
            yield self.out.emit(value=bytes(600_000))
serve(S())
"""
    )
    process.start()
    process.batch(1, [row(0, b"")])
    assert process.next()[0] == "emit"
    process.send(["revoke", 1])
    answer = process.until(answered)[-1]
    assert answer[:2] == ["fail", 1] and answer[2]["kind"].endswith("Revoked")


def test_refused(spawn: Spawn) -> None:
    process = spawn(HEAD + IDENTITY)
    process.discover()
    process.send(["refuse", ["the first problem", "the second problem"]])
    assert process.wait() == 1
    assert process.stderr() == (
        "ankka-flow refuses this process: the first problem\nankka-flow refuses this process: the second problem\n"
    )


BATCH_RUNS = "while 1 batch is running"


@pytest.mark.parametrize(
    ("stop", "says"),
    [
        (None, f"the supervisor is gone {BATCH_RUNS}"),
        ("finish", f"the time for the stop is over {BATCH_RUNS}; what was not answered comes again"),
        ("abandon", f"the supervisor ends this process {BATCH_RUNS} whose answer no longer counts"),
    ],
)
def test_the_end_of_input_while_a_batch_runs(spawn: Spawn, stop: str | None, says: str) -> None:
    process = spawn(
        HEAD + "class S(Base):\n    def process(self, b):\n        open('busy', 'w').close()\n"
        "        threading.Event().wait()\nserve(S())\n"
    )
    process.start()
    process.batch(1, [row(0, b"")])
    process.wait_for_file("busy")
    if stop is not None:
        process.send(["stop", {"mode": stop, "reason": ""}])
    process.end_input()
    assert process.wait() == 1
    assert process.stderr() == f"ankka-flow: {says}\n"


def body(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


RUNNING = frame("discover", {}) + frame("start", {})


@pytest.mark.parametrize(
    "data",
    [
        frame("ping", 1),
        frame("nonsense"),
        b"\0\0\0\0",
        b"\x7fELF",
        HALF,
        body(b"\xc1"),
        body(b"\x91" * 1_000_000 + b"\xc0"),
        body(b"\x81\xa1k" * 1_000_000 + b"\xc0"),
        body(b"\x92\xa8discover\xdd\xff\xff\xff\xff"),
        body(b"\x92\xa8discover\xc6\xff\xff\xff\xff"),
        body(b"\x92\xa8discover\x81\x01\x01"),
        body(b"\x92\xa8discover\xd4\x05x"),
        RUNNING + frame("ping", 1 << 60),
        RUNNING + frame("batch", (1 << 64) - 1, "in", 0, [row(1, b"v")], {}),
        RUNNING + frame("batch", 1, "in", 0, [row(1, b"v")], {"attempt": 1 << 53}),
        RUNNING + frame("batch", 1, "in", 0, [[1, 2, None]], {}),
        RUNNING + frame("batch", 1, "in", 0, [[1, 2, None, "text", []]], {}),
    ],
    ids=lambda data: repr(data[-20:]),
)
def test_a_supervisor_that_breaks_the_protocol_ends_the_process(spawn: Spawn, data: bytes) -> None:
    process = spawn(HEAD + IDENTITY)
    process.write(data)
    if data == HALF:
        process.end_input()
    assert process.wait() == 1
    [line] = process.stderr().splitlines()
    assert line.startswith("ankka-flow: the supervisor broke the protocol: ") and len(line) < 300


def test_a_supervisor_that_breaks_the_protocol_while_a_handler_never_ends(spawn: Spawn) -> None:
    process = spawn(
        HEAD + "class S(Base):\n    def process(self, b):\n        open('busy', 'w').close()\n"
        "        while True: pass\nserve(S())\n"
    )
    process.start()
    process.batch(1, [row(0, b"")])
    process.wait_for_file("busy")
    process.write(b"\0\0\0\0")
    assert process.wait() == 1
    assert process.stderr() == "ankka-flow: the supervisor broke the protocol: an empty frame\n"


def test_a_header_that_is_none_ends_the_process_when_it_is_looked_at(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + "class S(Base):\n    def process_record(self, r, ctx):\n        return self.out.emit(value=repr(r.headers))\n"
        "serve(S())\n"
    )
    process.start()
    process.batch(1, [row(0, b"", headers=[["text", b""]])])
    assert process.wait() == 1
    assert process.stderr().startswith("ankka-flow: the supervisor broke the protocol: a record with a header")


def test_what_is_unknown_is_ignored(spawn: Spawn) -> None:
    process = spawn(HEAD + IDENTITY)
    process.send(["discover", {"protocol": "1.9", "later": [{"deep": [[]]}, 1 << 60]}, "more"])
    assert process.next()[0] == "spec"
    process.send(["start", {"inlets": {"in": "t"}, "later": None}, "more", 5], ["revoke", 77, "more"])
    process.send(["batch", 1, "in", 0, [[*row(0, b"v"), "more", 5]], {"attempt": 1, "later": True}, "more"])
    assert process.until(answered) == [["forward", 1, "out", None], ["ack", 1]]
    process.end_input()
    assert process.wait() == 0


def test_a_streamlet_that_does_not_accept_its_configuration(spawn: Spawn) -> None:
    process = spawn(HEAD + IDENTITY)
    process.start(config={"unknown": 1})
    assert process.wait() == 1
    assert "no parameter unknown" in process.stderr()


def test_case14_much_on_stderr(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        print("x" * 1_000_000)
        sys.stderr.write("y" * 1_000_000)
        return map(self.out.emit, batch)
serve(S())
"""
    )
    process.start()
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]


def test_breakpoint_prints_a_hint_and_goes_on(spawn: Spawn) -> None:
    process = spawn(
        HEAD + "class S(Base):\n    def process(self, b):\n        breakpoint()\n        return map(self.out.emit, b)\n"
        "serve(S())\n"
    )
    process.start()
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]
    assert "breakpoint()" in process.stderr() and "streamlet.py" in process.stderr()


def test_run_by_hand(spawn: Spawn) -> None:
    process = spawn(HEAD + IDENTITY, launched=False)
    assert process.wait() == 2
    assert process.stderr().startswith("s is a streamlet; nothing sends it records.\n")
    # The interpreter that runs it: there may be no other.
    assert f"ankka-flow run -- {Path(sys.executable).name} {process.script}" in process.stderr()


def test_server_without_blocking(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + """
class S(Base):
    def process(self, batch):
        return map(self.out.emit, batch)
server = serve(S(), port=9010, block=False)
print("port", server.port)
wait_for("go")
server.stop()
server.wait()
print("done")
"""
    )
    process.start()
    assert one_batch(process) == [["forward", 1, "out", None], ["ack", 1]]
    process.make_file("go")
    assert process.wait() == 0
    assert process.stderr() == "port 9010\ndone\n"


def test_the_supervisor_is_gone_while_a_thread_of_the_user_s_runs_on(spawn: Spawn) -> None:
    process = spawn(
        HEAD
        + "threading.Thread(target=threading.Event().wait).start()\nimport ankka_flow.server\n"
        + "ankka_flow.server._LINGER = 0.1\n"
        + IDENTITY
    )
    process.start()
    process.end_input()
    assert process.wait() == 0
