"""A streamlet whose records say what goes wrong with them. Its error policy is what the configuration says.

``bad``: an error; ``retry``: one that may pass, which it does once there is a file ``mended``; ``kill``: the process
ends by a signal.
"""

import os
import signal

from ankka_flow import (
    DeadLetterOutlet,
    JsonInlet,
    JsonOutlet,
    Retriable,
    Streamlet,
    serve,
)


class Case(Streamlet):
    name = "case"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")
    letters = DeadLetterOutlet()

    def process_record(self, record, ctx):
        kind = (record.value or b"").partition(b" ")[0]
        if kind == b"bad":
            raise ValueError("it is bad")
        if kind == b"retry" and not os.path.exists("mended"):
            raise Retriable("not yet")
        if kind == b"kill":
            signal.raise_signal(signal.SIGSEGV)
        return self.out.emit(record)


if __name__ == "__main__":
    serve(Case())
