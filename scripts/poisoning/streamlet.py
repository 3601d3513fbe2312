"""The streamlet of scripts/poison: it passes every record on, after a fixed time for each of them or, with POISON_BATCH, for
each batch of the partitions without poison. POISON says what a record does whose value is poison: raises, kills, hangs or freezes, and with mixed each
partition its own; nothing where it is empty, and nothing once it is MENDED."""

import os
import re
import signal
import time

from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

MENDED = False
POISON = os.environ["POISON"]
RECORD = float(os.environ["POISON_RECORD"])
BATCH = float(os.environ["POISON_BATCH"])
MIXED = ["raises", "kills", "hangs"]


def fail(kind, offset):
    if kind == "raises":
        raise ValueError(f"poison at {offset}")
    if kind == "kills":
        signal.raise_signal(signal.SIGSEGV)
    if kind == "freezes":  # the whole of Python: no thread runs while this does
        re.match(r"(a+)+$", "a" * 60 + "b")
    time.sleep(3600)


class Poison(Streamlet):
    name = "poison"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")

    def process(self, batch):
        for record in batch.records:
            if record.value == b"poison" and POISON and not MENDED:
                fail(
                    MIXED[batch.partition // 7 % 3] if POISON == "mixed" else POISON,
                    record.offset,
                )
            yield self.out.emit(record)
        others = batch.partition % 7 != 2
        time.sleep(BATCH if BATCH and others else RECORD * len(batch.records))


time.sleep(float(os.environ["POISON_START"]))
serve(Poison())
