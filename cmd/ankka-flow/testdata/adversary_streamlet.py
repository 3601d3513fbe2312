"""The streamlet of the adversary's tests. ADVERSARY is a JSON object that says how it behaves.

fan: emit to both outlets. asynchronous: an async handler. sleep: at most so many seconds a batch. fail and crash: the
first tries of every n-th record raise, or kill the process; ``tries`` says how many, counted in the folder ``state``.
"""

import asyncio
import json
import os
import random
import signal
import time
from pathlib import Path

from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

OPTIONS = json.loads(os.environ["ADVERSARY"])
SLEEP = OPTIONS.get("sleep", 0)
STATE = Path(OPTIONS.get("state", "."))


def again(kind, number):
    """Whether this record is one that fails, and has not failed often enough."""
    every = OPTIONS.get(kind, 0)
    if not every or number % every != every - 1:
        return False
    path = STATE / f"{kind}-{number}"
    tries = len(path.read_bytes()) if path.exists() else 0
    if tries >= OPTIONS.get("tries", 1):
        return False
    with path.open("ab") as file:
        file.write(b".")
    return True


class Adversary(Streamlet):
    name = "adversary"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")
    other = JsonOutlet("other", schema_name="any")

    def handle(self, record):
        number = int(record.headers[0][1])
        if again("crash", number):
            os.kill(os.getpid(), signal.SIGKILL)
        yield self.out.emit(record)
        if again("fail", number):
            raise ValueError(f"record {number}")
        if OPTIONS.get("fan"):
            yield self.other.emit(
                key=record.key,
                value=(record.value or b"") + b"|copy",
                headers=record.headers,
            )


class Plain(Adversary):
    def process(self, batch):
        if SLEEP:
            time.sleep(random.uniform(0, SLEEP))
        for record in batch.records:
            yield from self.handle(record)


class Asynchronous(Adversary):
    async def process(self, batch):
        for record in batch.records:
            if SLEEP:
                await asyncio.sleep(random.uniform(0, SLEEP) / len(batch.records))
            for emit in self.handle(record):
                yield emit


if __name__ == "__main__":
    serve(Asynchronous() if OPTIONS.get("asynchronous") else Plain())
