"""The reference streamlet in plain Python with msgpack, without an SDK: what wire/PROTOCOL.md asks of a process.

Read it beside section 14 of that page. One thread reads, one writes, and one for each batch handles it. What a record's
key asks for is in `do`, and is nobody's concern but the conformance suite's.
"""

import base64, collections, hashlib, os, subprocess, sys, threading, time
import msgpack

if os.environ.pop("ANKKA_FLOW_PROTOCOL", None) is None:  # programs that we start shall not see it
    sys.exit("this is a streamlet; run it so: ankka-flow run -- python3 plain.py")

# Before anything can print: descriptors 0 and 1 are the protocol's.
wire_in, wire_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
sys.stdout = sys.stderr

MAX_RECORD, MAX_TEXT, OUTLETS = 4_128_768, 65_536, ["out", "other"]
FINGERPRINT = base64.b64encode(hashlib.sha256(b"conformance.v1").digest()).decode()
CONTRACT = {"format": "json", "schema_name": "conformance.v1", "fingerprint": FINGERPRINT}
DESCRIPTOR = {
    "protocol_version": "1.0",
    "streamlet": {
        "name": "conformance",
        "inlets": [{"name": name, "contract": CONTRACT} for name in ["in", "side"]],
        "outlets": [{"name": name, "contract": CONTRACT} for name in OUTLETS],
        "config_parameters": [
            {"key": "mode", "type": "STRING", "default_value": "key"},
            {"key": "factor", "type": "INTEGER", "default_value": "2"},
        ],
    },
}

lock = threading.RLock()  # of the three below
owed = {}  # the batches that are not answered: id -> whether it still counts (it is not void)
running = finishing = False  # from start to stopped; from stop to the last answer that counts
outbox, filled = collections.deque(), threading.Semaphore(0)


def send(*message):
    """Only queues: whoever reads must never wait for the pipe that we write. No frame of ours is near 4 MiB."""
    body = msgpack.packb(message)
    put = outbox.appendleft if message[0] == "pong" else outbox.append
    put(len(body).to_bytes(4, "big") + body)
    filled.release()


def write_all():
    while filled.acquire() and wire_out.write(outbox.popleft()):
        wire_out.flush()


def answer(kind, batch, *more):
    """The one answer of a batch, void or not."""
    with lock:
        send(kind, batch, *more)
        del owed[batch]
        end_if_finished()


def end_if_finished():
    global running, finishing
    if finishing and not any(owed.values()):
        running = finishing = False
        send("stopped")


def handle(batch, records, config):
    """A thread's work. Whatever ends it, it answers, SystemExit too."""
    try:
        for index, (_offset, _timestamp, key, value, longer, *_) in enumerate(records):
            headers = [header[:2] for header in longer]  # a later minor may have more in each
            word = config["mode"] if config["mode"] != "key" else (key or b"").split(b":")[0].decode(errors="replace")
            for outlet, emitted in do(word, key, value, headers, config):
                if outlet not in OUTLETS:
                    raise ValueError(f"no outlet {outlet} is declared")
                if emitted is None:  # unchanged: its bytes need not go back through the pipe
                    send("forward", batch, outlet, [index])
                elif (size := len(msgpack.packb(emitted))) > MAX_RECORD:
                    raise ValueError(f"a record of {size} bytes for {outlet}, the limit is {MAX_RECORD}")
                else:
                    send("emit", batch, outlet, [emitted])
    except BaseException as error:
        text = str(error).encode()[:MAX_TEXT].decode(errors="ignore")
        answer("fail", batch, {"message": text, "offset": records[index][0], "kind": type(error).__name__})
    else:
        answer("ack", batch)


def do(word, key, value, headers, config):
    """What REFERENCE.md says of a word: the emits, each an outlet and a record, or None for the record as it is."""
    text = (value or b"").decode(errors="replace")
    table = {
        "skip": list,
        "fan": lambda: [("out", None), ("other", None), ("out", None)],
        "multiply": lambda: [("out", [key, b"%d" % (int(text) * config["factor"]), headers])],
        "unkeyed": lambda: [("out", [None, value, headers])],
        "header-echo": lambda: [("out", [key, value, [*headers, [b"echo", b"1"]]])],
        "make": lambda: [("out", [key, b"x" * int(text), []])],
        "rogue-outlet": lambda: [("nowhere", None)],
        "read": lambda: [("out", [key, sys.stdin.buffer.read(), headers])],
        "exit": lambda: sys.exit(3),
        "print": lambda: print(text),
        "print-fd": lambda: os.write(1, value + b"\n"),
        "print-err": lambda: print(text, file=sys.stderr, flush=True),
        "run": lambda: subprocess.call(["sh", "-c", text]),
    }
    if word == "fail":
        raise RuntimeError(text)
    while word in ("late", "busy") and not os.path.exists(text):
        time.sleep(0.01) if word == "late" else None
    emits = table.get(word, bool)()
    return emits if isinstance(emits, list) else [("out", None)]


threading.Thread(target=write_all, daemon=True).start()
while length := wire_in.read(4):
    message = msgpack.unpackb(wire_in.read(int.from_bytes(length, "big")), unicode_errors="replace")
    kind, argument = message[:2]
    if kind == "discover":
        if os.environ.get("CONFORMANCE_DISCOVERY") == "error":
            sys.exit("no descriptor today")
        send("spec", DESCRIPTOR, {"ping": True})
    elif kind == "refuse":
        sys.exit("refused:\n" + "\n".join(argument))
    elif kind == "start":
        if argument["config"]["mode"] == "broken":
            sys.exit("mode is broken")
        configuration, running = argument["config"], True
    elif kind == "batch":
        with lock:
            owed[argument] = True
        threading.Thread(target=handle, args=(argument, message[4], configuration), daemon=True).start()
    elif kind == "ping":
        send("pong", argument)
    elif kind == "revoke":
        with lock:
            if argument in owed:
                owed[argument] = False
            end_if_finished()
    elif kind == "stop":
        with lock:
            finishing = running  # otherwise it crossed with stopped
            if argument["mode"] == "abandon":
                owed = dict.fromkeys(owed, False)
            end_if_finished()

os._exit(1 if owed else 0)  # not sys.exit: a handler that still runs cannot keep us
