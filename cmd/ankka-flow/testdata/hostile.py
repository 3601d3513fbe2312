"""A process that is as nasty as the protocol allows, at full speed, and then breaks it.

A life holds batches and answers them in any order, emits megabytes, floods the log, the reports and stderr, leaves
revokes unanswered and speaks of batches that are long gone; after --frames frames or so it ends by a violation, or by
an exit, at random. Once the file --until exists the next life is a good one.

What it does is written to --journal before the frame is: a line "acked LIFE-ID PARTITION FIRST LAST TOKENS" for every
ack, where a token is what an emitted value begins with, and "wild LIFE-ID ..." for a batch that was owed when bytes were
sent that might mean anything. "life SEED" begins each life, "sent N" says how many frames it had sent at its end.
"""

import argparse
import base64
import hashlib
import importlib.util
import json
import os
import queue
import random
import threading
from pathlib import Path

ROOT = Path(__file__).parents[3]
_spec = importlib.util.spec_from_file_location(
    "msgpack_of_the_sdk", ROOT / "sdk/python/src/ankka_flow/_msgpack.py"
)
codec = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(codec)

parser = argparse.ArgumentParser()
parser.add_argument("--until", required=True)
parser.add_argument("--journal", required=True)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--frames", type=int, default=30_000)
options = parser.parse_args()

journal = os.open(options.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
good = Path(options.until).exists()
SEED = options.seed or int.from_bytes(os.urandom(4), "big")
chance = random.Random(SEED)
os.write(journal, f"life {SEED}\n".encode())

CONTRACT = {
    "format": "json",
    "schema_name": "any",
    "fingerprint": base64.b64encode(hashlib.sha256(b"any").digest()).decode(),
}
SPEC = {
    "protocol_version": "1.0",
    "streamlet": {
        "name": "case",
        "inlets": [{"name": "in", "contract": CONTRACT}],
        "outlets": [{"name": "out", "contract": CONTRACT}],
    },
}
GOLDEN = []
if not good:
    for path in sorted((ROOT / "wire/testdata/golden").glob("*.json")):
        golden = json.loads(path.read_text())
        GOLDEN.append(bytes.fromhex(golden["hex"]))

incoming = queue.Queue()
state = {"sent": 0, "described": False}
owed = {}  # id: [partition, first, last, tokens, void]


def read(n):
    data = bytearray()
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return bytes(data)


def reader():
    """Never stops reading, whatever is being written."""
    while True:
        incoming.put(codec.unpackb(read(int.from_bytes(read(4), "big"))))


def write(data):
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def frame(*message):
    body = codec.packb(list(message))
    return len(body).to_bytes(4, "big") + body


def send(*message):
    write(frame(*message))
    state["sent"] += 1


def send_many(frames):
    """Made before, so that the pipe is what bounds it."""
    write(b"".join(frames))
    state["sent"] += len(frames)


def noted(word, batch):
    partition, first, last, tokens, _void = owed[batch]
    line = f"{word} {SEED}-{batch} {partition} {first} {last} {','.join(tokens)}\n"
    os.write(journal, line.encode())


def emit(batch):
    """A few records, or megabytes of them, each with a token of its own."""
    size = chance.choice([0, 10, 10, 100, 10_000, 2_000_000])
    rows = []
    for _ in range(1 if size > 10_000 else chance.randint(0, 5)):
        token = f"{SEED}-{batch}-{len(owed[batch][3])}"
        owed[batch][3].append(token)
        headers = [[b"\xff", None], [b"", b""]] * chance.randint(0, 2)
        rows.append([None, f"{token}|".encode() + bytes(size), headers, None])
    send("emit", batch, "out", rows, "a later minor", {"x": [None]})


def answer(batch):
    word = "fail" if owed[batch][4] or chance.random() < 0.02 else "ack"
    if word == "ack":
        noted("acked", batch)
        send("ack", batch)
    else:
        send("fail", batch, {"message": "m" * chance.choice([1, 70_000])})
    del owed[batch]


def handle(message):
    kind, *rest = message
    if kind == "discover":
        send(
            "spec",
            SPEC,
            {"ping": True, "max_in_flight": 8 if good else chance.randint(1, 40)},
        )
        state["described"] = True
    elif kind == "batch":
        records = rest[3]
        owed[rest[0]] = [rest[2], records[0][0], records[-1][0], [], False]
        if good:
            noted("acked", rest[0])
            send("ack", rest[0])
            del owed[rest[0]]
    elif kind == "revoke" and rest[0] in owed:
        owed[rest[0]][4] = True
    elif kind == "ping":
        send("pong", rest[0])
    elif kind == "stop":
        for batch in list(owed):
            if rest[0]["mode"] == "abandon":
                owed[batch][4] = True
            elif not owed[batch][4]:
                answer(batch)
        send("stopped")
    elif kind == "refuse":
        os._exit(1)


SERIES = [[f"s{n % 50}", "counter", {"l": str(n % 7)}, n] for n in range(1000)]
WAITS = {"waiting": True, "error": "e" * 70_000, "next_attempt_ms": 2**53 - 1}
FLOODS = [
    [frame("log", ["debug", "?"][n % 2], f"flood {n}", {"n": n}) for n in range(1000)],
    [frame("report", at, SERIES) for at in (None, 0, 1, 2**53 - 1)],
    [frame("status", 2**53 - 1 - n, WAITS) for n in range(20)],
]


def flood():
    """What is allowed in this state, and much of it."""
    what = chance.randrange(7)
    if what < 3:
        send_many(FLOODS[what] * chance.choice([1, 1, 4]))
    elif what == 3:
        os.write(2, b"e" * chance.choice([10, 100_000]) + b"\n")
        os.write(2, b"\xff\x1b[31m\r\0 not a line")
    elif what == 4:
        send("pong", chance.randint(0, 2**53 - 1))
    elif what == 5 and owed:
        send("status", chance.choice(list(owed)), {"waiting": chance.random() < 0.5})
    else:
        send("log", "info", "x" * 100_000, None)


def work():
    """Something with a batch that is owed."""
    batch = chance.choice(list(owed))
    if owed[batch][4]:
        if chance.random() < 0.2:  # most revokes are never answered
            answer(batch)
        return
    if chance.random() < 0.7:
        emit(batch)
    else:
        answer(batch)


def end():
    """The last thing of a life: whatever is owed may be answered by it."""
    os.write(journal, f"sent {state['sent']}\n".encode())
    for batch in owed:
        noted("wild", batch)
    some = max(owed, default=7)
    what = chance.randrange(10)
    if what == 0:
        write(os.urandom(chance.randint(1, 100_000)))
    elif what == 1:
        write(b"\0" + os.urandom(chance.randint(1, 100_000)))
    elif what == 2:
        write((4 << 20).to_bytes(4, "big") + b"\x91")
        os._exit(0)
    elif what == 3:
        send("ack", 2**53 - 1)
    elif what == 4:
        send("ack", 1)
        send("ack", 1)
    elif what == 5:
        send("emit", some, "nowhere", [])
    elif what == 6:
        send("forward", some, "out", [2**53 - 1])
    elif what == 7:
        os._exit(chance.randint(0, 3))
    elif what == 8:
        write(b"print!\n")
    for _ in range(300):  # mutants, until one is the last
        mutant = bytearray(chance.choice(GOLDEN))
        for _ in range(chance.randint(1, 4)):
            mutant[chance.randrange(4, len(mutant))] = chance.randrange(256)
        write(mutant)
    os._exit(1)


threading.Thread(target=reader, daemon=True).start()
while True:
    try:
        # The good one waits; the other looks now and then, and goes on.
        handle(incoming.get(timeout=None if good or not state["described"] else 0.001))
        continue
    except queue.Empty:
        pass
    for _ in range(chance.randint(1, 20)):
        if owed and chance.random() < 0.7:
            work()
        else:
            flood()
    if state["sent"] > options.frames * chance.uniform(0.2, 2):
        end()
