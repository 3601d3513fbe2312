"""The streamlets of the soak: SOAK_MODE says which.

forward passes every record on. fan also emits two copies under another key. trouble drops every third record, and fails:
some records raise on their first two tries or kill the process on their first, counted in the folder SOAK_STATE, and any
record may raise by chance.
"""

import asyncio
import os
import random
import signal
import time
from pathlib import Path

from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

MODE = os.environ["SOAK_MODE"]
STATE = Path(os.environ["SOAK_STATE"])


def again(kind, number, tries):
    """Whether this record, which is bad, has not failed so often yet."""
    path = STATE / f"{kind}-{number}"
    done = len(path.read_bytes()) if path.exists() else 0
    if done >= tries:
        return False
    with path.open("ab") as file:
        file.write(b".")
    return True


def work(batch):
    """How long a batch takes, in seconds: so long that a fault finds one at work."""
    return random.uniform(0, min(0.2, 0.01 * len(batch.records)))


class Soak(Streamlet):
    name = MODE
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")
    other = JsonOutlet("other", schema_name="any")


class Forward(Soak):
    def process(self, batch):
        for record in batch.records:
            yield self.out.emit(record)
        time.sleep(work(batch))


class Fan(Soak):
    async def process(self, batch):
        for record in batch.records:
            yield self.out.emit(record)
            for part in (b"0", b"1"):
                yield self.other.emit(
                    key=b"copy-" + record.key,
                    value=(record.value or b"") + b"|" + part,
                    headers=[*record.headers, ("part", part)],
                )
        await asyncio.sleep(work(batch))


class Trouble(Soak):
    def process(self, batch):
        for record in batch.records:
            number = int(record.headers[0][1])
            if number % 3 == 1:
                continue
            if number % 5003 == 5000 and again("kill", number, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            yield self.out.emit(record)
            if number % 1501 == 500 and again("raise", number, 2):
                raise ValueError(f"record {number} fails")
            if random.random() < 1 / 5000:
                raise RuntimeError(f"record {number} fails by chance")
        time.sleep(work(batch))


if __name__ == "__main__":
    serve({"forward": Forward, "fan": Fan, "trouble": Trouble}[MODE]())
