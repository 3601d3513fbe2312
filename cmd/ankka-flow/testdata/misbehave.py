"""A raw process that breaks the protocol in one way, chosen by --mode; otherwise it forwards and acks every batch.

It uses no SDK but its codec, so that what stands on the pipe is what is written here. Every mode is a function
below; its docstring says what it does. With --once FILE it misbehaves only where FILE does not exist, and makes it:
the process launched after it is a good one.
"""

import argparse
import base64
import hashlib
import importlib.util
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

_source = Path(__file__).parents[3] / "sdk/python/src/ankka_flow/_msgpack.py"
_spec = importlib.util.spec_from_file_location("msgpack_of_the_sdk", _source)
_codec = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_codec)

CONTRACT = {
    "format": "json",
    "schema_name": "any",
    "fingerprint": base64.b64encode(hashlib.sha256(b"any").digest()).decode(),
}


def frame(message):
    body = _codec.packb(message)
    return len(body).to_bytes(4, "big") + body


def write(data):
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def read(n):
    data = b""
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece:
            return b""
        data += piece
    return data


class Process:
    """A good process. A mode replaces what it does wrong."""

    protocol = "1.0"
    sdk = "0"

    def __init__(self, options):
        self.options = options
        self.batches = 0
        self.open = set()  # the batches that are not answered

    def send(self, *message):
        if message[0] in ("ack", "fail"):
            self.open.discard(message[1])
        write(frame(list(message)))

    def before(self):
        """Before the first frame is read."""

    def spec(self):
        ports = {"contract": CONTRACT}
        streamlet = {
            "name": "case",
            "inlets": [{"name": "in", **ports}],
            "outlets": [{"name": "out", **ports}],
        }
        descriptor = {
            "protocol_version": self.protocol,
            "sdk": {"name": "raw", "version": self.sdk},
            "streamlet": streamlet,
        }
        self.send("spec", descriptor, {"ping": True})

    def batch(self, batch_id, records):
        self.send("forward", batch_id, "out", None)
        self.send("ack", batch_id)

    def end(self):
        """At the end of the input."""

    def begun(self, size):
        """When the length of a frame was read, and nothing else of it."""

    def run(self):
        self.before()
        while head := read(4):
            self.begun(size := int.from_bytes(head, "big"))
            message = _codec.unpackb(read(size))
            kind = message[0]
            if kind == "discover":
                self.spec()
            elif kind == "refuse":
                print("refused:", *message[1], file=sys.stderr)
                sys.exit(1)
            elif kind == "batch":
                self.batches += 1
                self.open.add(message[1])
                self.batch(message[1], message[4])
            elif kind == "revoke" and message[1] in self.open:
                self.send("ack", message[1])
            elif kind == "stop":
                self.send("stopped")
            elif kind == "ping":
                self.send("pong", message[1])
        self.end()


MODES = {}


def mode(cls):
    MODES[cls.__name__.replace("_", "-")] = cls
    return cls


MODES["good"] = Process


@mode
class print_before(Process):
    """Prints before it speaks."""

    def before(self):
        write(b"hello from before\n")


@mode
class print_in_batch(Process):
    """Prints while it has a batch, and goes on."""

    def batch(self, batch_id, records):
        write(b"hello from the handler\n")
        super().batch(batch_id, records)


@mode
class print_at_end(Process):
    """Prints when its input ended."""

    def end(self):
        write(b"hello from the end\n")


@mode
class path(Process):
    """Writes a path, which read as a length would be 795 MB, then valid frames."""

    def batch(self, batch_id, records):
        write(b"/home/x")
        super().batch(batch_id, records)


@mode
class text_in_frame(Process):
    """A right length, and text as the body: every ASCII byte is a valid msgpack integer."""

    def batch(self, batch_id, records):
        text = b"hello from a frame"
        write(len(text).to_bytes(4, "big") + text)


@mode
class json(Process):
    """Answers discovery in JSON."""

    def spec(self):
        write(b'{"spec": {"name": "case"}}\n')


@mode
class trickle(Process):
    """One byte a write."""

    def send(self, *message):
        for byte in frame(list(message)):
            os.write(1, bytes([byte]))


@mode
class bulk(Process):
    """A thousand frames and the answer in one write."""

    def batch(self, batch_id, records):
        logs = [frame(["log", "debug", f"line {n}", {}]) for n in range(1000)]
        write(
            b"".join(logs)
            + frame(["forward", batch_id, "out", None])
            + frame(["ack", batch_id])
        )


@mode
class half_frame(Process):
    """Half of an ack, then exit 0."""

    def batch(self, batch_id, records):
        self.send("forward", batch_id, "out", None)
        write(frame(["ack", batch_id])[:6])
        os._exit(0)


@mode
class truncated_map(Process):
    """A fail whose map says that it has more entries than there are."""

    def batch(self, batch_id, records):
        body = _codec.packb(["fail", batch_id, {"message": "x"}]).replace(
            b"\x81", b"\x8f", 1
        )
        write(len(body).to_bytes(4, "big") + body)


@mode
class echo(Process):
    """Emits every record's own bytes again, one frame each."""

    def batch(self, batch_id, records):
        for _offset, timestamp, key, value, headers in records:
            self.send("emit", batch_id, "out", [[key, value, headers, timestamp]])
        self.send("ack", batch_id)


@mode
class emit_size(Process):
    """Emits one record of --size bytes, as encoded in the frame."""

    def batch(self, batch_id, records):
        size = self.options.size
        row = [None, b"", [], None]
        while (over := len(_codec.packb(row)) - size) != 0:
            row[1] = bytes(len(row[1]) - over)
        self.send("emit", batch_id, "out", [row])
        self.send("ack", batch_id)


@mode
class emit_values(Process):
    """For every record emits --count records of --size bytes of value."""

    def batch(self, batch_id, records):
        for _ in range(len(records) * self.options.count):
            self.send(
                "emit", batch_id, "out", [[None, bytes(self.options.size), [], None]]
            )
        self.send("ack", batch_id)


@mode
class grow(Process):
    """Prints every record and emits it with its value repeated to --size bytes."""

    def batch(self, batch_id, records):
        for _offset, timestamp, key, value, headers in records:
            print(key, value, headers, file=sys.stderr, flush=True)
            value = (value * (self.options.size // len(value) + 1))[: self.options.size]
            self.send("emit", batch_id, "out", [[key, value, headers, timestamp]])
        self.send("ack", batch_id)


@mode
class fail_and_talk(Process):
    """Fails every batch, and in the same write acks it --count times."""

    def batch(self, batch_id, records):
        acks = frame(["ack", batch_id]) * self.options.count
        write(frame(["fail", batch_id, {"message": "no"}]) + acks)


@mode
class two_threads(Process):
    """Two threads write frames in two writes each, without a lock."""

    def batch(self, batch_id, records):
        sys.setswitchinterval(1e-6)

        def chatter(text):
            data = frame(["log", "debug", text, {}])
            for _ in range(100_000):
                os.write(1, data[:4])
                os.write(1, data[4:])

        threads = [threading.Thread(target=chatter, args=("x" * n,)) for n in (7, 150)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        super().batch(batch_id, records)


@mode
class ack_twice(Process):
    """Acks every batch twice."""

    def batch(self, batch_id, records):
        super().batch(batch_id, records)
        self.send("ack", batch_id)


@mode
class emit_after_ack(Process):
    """Emits for a batch that it has acked."""

    def batch(self, batch_id, records):
        super().batch(batch_id, records)
        self.send("forward", batch_id, "out", None)


@mode
class ack_unknown(Process):
    """Acks a batch that it never got."""

    def batch(self, batch_id, records):
        self.send("ack", batch_id + 1_000_000)


@mode
class emit_nowhere(Process):
    """Emits to an outlet that it does not declare."""

    def batch(self, batch_id, records):
        self.send("forward", batch_id, "nowhere", None)
        self.send("ack", batch_id)


@mode
class skip_tenth(Process):
    """Never answers its tenth batch."""

    def batch(self, batch_id, records):
        if self.batches != 10:
            super().batch(batch_id, records)


@mode
class exit_in_batch(Process):
    """Exits with --code while it has a batch."""

    def batch(self, batch_id, records):
        print("going away", end="", file=sys.stderr, flush=True)
        os._exit(self.options.code)


@mode
class segfault(Process):
    """Dies of SIGSEGV while it has a batch."""

    def batch(self, batch_id, records):
        os.kill(os.getpid(), signal.SIGSEGV)


@mode
class fail_first(Process):
    """Fails its first batch."""

    def batch(self, batch_id, records):
        if self.batches > 1:
            super().batch(batch_id, records)
            return
        self.send(
            "fail",
            batch_id,
            {"message": "no such cart", "kind": "KeyError", "offset": records[0][0]},
        )


@mode
class silent(Process):
    """Reads, and never answers."""

    def send(self, *message):
        pass


@mode
class slow(Process):
    """Takes --seconds for a batch."""

    def batch(self, batch_id, records):
        threading.Event().wait(self.options.seconds)
        super().batch(batch_id, records)


@mode
class silent_batches(Process):
    """Answers everything but batches, and those when they are taken away or at a stop."""

    def batch(self, batch_id, records):
        pass


@mode
class hold(Process):
    """Answers a batch once the file --until exists."""

    def batch(self, batch_id, records):
        print(f"holding batch {batch_id}", file=sys.stderr, flush=True)
        with open(self.options.until):  # a named pipe: opens once somebody writes
            pass
        super().batch(batch_id, records)


@mode
class late_reader(hold):
    """Says what it reads, and holds every batch until --until."""

    def batch(self, batch_id, records):
        print("read batch", file=sys.stderr, flush=True)
        super().batch(batch_id, records)

    def send(self, *message):
        if message[0] == "stopped":
            print("read stop", file=sys.stderr, flush=True)
        super().send(*message)


def say(text):
    os.write(2, text.encode() + b"\n")


def for_ever():
    while True:
        signal.pause()


def grandchild(*command, **options):
    """A child of this process; its pid is the last word of a line on stderr."""
    child = subprocess.Popen(command, **options)
    say(f"grandchild {child.pid}")


@mode
class loud(Process):
    """For every batch a MiB to stderr in one write, then --size bytes without a newline."""

    def batch(self, batch_id, records):
        os.write(2, (b"x" * 1023 + b"\n") * 1024)
        os.write(2, b"y" * self.options.size)
        os.write(2, b"\nall of it\n")
        super().batch(batch_id, records)

    def end(self):
        os.write(2, b"the end")


@mode
class emit_first(Process):
    """Before it reads what a frame of more than a MiB holds, it sends 10 MiB."""

    def begun(self, size):
        if size > 1 << 20:
            say("sends before it reads")
            data = frame(["log", "debug", "z" * 65_000, {}])
            for _ in range(160):
                write(data)


@mode
class stops_reading(Process):
    """Stops itself (SIGSTOP) when a frame of more than a MiB has begun to come."""

    def begun(self, size):
        if size > 1 << 20:
            say("hangs")
            os.kill(os.getpid(), signal.SIGSTOP)


@mode
class held_by_grandchild(Process):
    """Leaves a sleeper with every pipe, and exits with --code while it has a batch."""

    def batch(self, batch_id, records):
        grandchild("sleep", "600")
        os._exit(self.options.code)


@mode
class kept_by_grandchild(Process):
    """Leaves a sleeper with every pipe at its start, and is good otherwise."""

    def before(self):
        grandchild("sleep", "600")


@mode
class dies_by(Process):
    """Ends by the signal --code while it has a batch."""

    def batch(self, batch_id, records):
        os.kill(os.getpid(), self.options.code)
        for_ever()


@mode
class eats_memory(Process):
    """Takes memory without end while it has a batch."""

    def batch(self, batch_id, records):
        eaten = []
        while True:
            eaten.append(b"x" * (1 << 20))


@mode
class killed_for_memory(Process):
    """Raises the count of kills for memory in the file --until, and ends as by one."""

    def batch(self, batch_id, records):
        Path(self.options.until).write_text("oom_kill 4\n")
        os.kill(os.getpid(), signal.SIGKILL)
        for_ever()


@mode
class slow_start(Process):
    """Computes for --count ms before it looks at anything, then is good."""

    def before(self):
        say("loading")
        end = time.monotonic() + self.options.count / 1000
        while time.monotonic() < end:
            pass


@mode
class spins(Process):
    """Computes for ever while it has a batch; nobody answers a ping."""

    def batch(self, batch_id, records):
        say("hangs")
        while True:
            pass


@mode
class freezes(Process):
    """Stops itself (SIGSTOP) while it has a batch."""

    def batch(self, batch_id, records):
        say("hangs")
        os.kill(os.getpid(), signal.SIGSTOP)


@mode
class blocks(Process):
    """Waits in a read of a socket that nobody writes to while it has a batch."""

    def batch(self, batch_id, records):
        say("hangs")
        ours, theirs = socket.socketpair()
        with theirs:
            ours.recv(1)


@mode
class threaded(Process):
    """A thread reads and answers everything; what a batch does is the main thread's."""

    def work(self, batch_id, records):
        """What the main thread does with a batch before it answers."""

    def batch(self, batch_id, records):
        self.queue.put((batch_id, records))

    def run(self):
        self.queue, self.lock = queue.SimpleQueue(), threading.Lock()
        threading.Thread(target=self.read_all, daemon=True).start()
        while work := self.queue.get():
            self.work(*work)
            Process.batch(self, *work)

    def read_all(self):
        Process.run(self)
        self.queue.put(None)

    def send(self, *message):
        with self.lock:
            super().send(*message)


@mode
class busy(threaded):
    """Computes for --count ms with every batch, under the interpreter's lock; a thread pongs."""

    def work(self, batch_id, records):
        say("busy")
        end = time.monotonic() + self.options.count / 1000
        while time.monotonic() < end:
            sum(range(1000))


@mode
class dead_handler(threaded):
    """Its handler never returns, and a thread pongs."""

    def work(self, batch_id, records):
        say("hangs")
        for_ever()


@mode
class ignores(Process):
    """Ignores SIGTERM, answers no stop, and outlives the end of its input, which a sleeper holds its stderr for."""

    def before(self):
        signal.signal(signal.SIGTERM, lambda *_: say("ignores SIGTERM"))
        grandchild("sleep", "600", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def batch(self, batch_id, records):
        say("hangs")
        for_ever()


@mode
class signals(hold):
    """Says the name of every signal that it gets; with --until it holds its batches."""

    def before(self):
        for number in (
            signal.SIGHUP,
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGUSR1,
            signal.SIGUSR2,
            signal.SIGWINCH,
        ):
            signal.signal(number, lambda n, _: say(f"got {signal.Signals(n).name}"))

    def batch(self, batch_id, records):
        if self.options.until:
            super().batch(batch_id, records)
        else:
            Process.batch(self, batch_id, records)


@mode
class worker(Process):
    """Says its pid, and that it drained when its input ends or SIGTERM comes."""

    def before(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        say(f"worker {os.getpid()}")

    def batch(self, batch_id, records):
        say(f"working on {batch_id}")
        super().batch(batch_id, records)

    def end(self):
        say("drained")


@mode
class floods(Process):
    """Writes for ever while it has a batch."""

    def batch(self, batch_id, records):
        say("floods")
        data = frame(["log", "debug", "z" * 1000, {}])
        while True:
            write(data)


@mode
class orphans(Process):
    """Makes --count orphans that end soon, and exits with --code while they do."""

    def batch(self, batch_id, records):
        for _ in range(self.options.count):
            if os.fork() == 0:
                if os.fork() == 0:
                    os.close(0), os.close(1), os.close(2)
                os._exit(0)
        os._exit(self.options.code)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="good", choices=sorted(MODES))
    parser.add_argument("--once")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--code", type=int, default=0)
    parser.add_argument("--until")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--protocol", default="1.0")
    parser.add_argument("--sdk", default="0")
    options = parser.parse_args()
    chosen = MODES[options.mode]
    if options.once:
        try:
            os.close(os.open(options.once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            chosen = Process
    process = chosen(options)
    process.protocol, process.sdk = options.protocol, options.sdk
    process.run()


if __name__ == "__main__":
    main()
