"""The streamlet of the proof: forwards, fans out or drops, by its argument."""

import sys

from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

MODE = sys.argv[1]


class Proof(Streamlet):
    name = f"proof-{MODE}"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")
    other = JsonOutlet("other", schema_name="any")

    def process(self, batch):
        for record in batch.records:
            number = int(record.headers[0][1])
            if MODE == "drop" and number % 3 != 0:
                continue
            yield self.out.emit(record)
            if MODE == "fan":
                yield self.other.emit(
                    key=record.key,
                    value=(record.value or b"") + b"|copy",
                    headers=record.headers,
                )


if __name__ == "__main__":
    serve(Proof())
