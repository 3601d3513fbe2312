"""The streamlets of the throughput benchmark: forward, or decode and encode JSON."""

import sys

from ankka_flow import JsonInlet, JsonOutlet, Streamlet, json, serve

MODE = sys.argv[1]


class Bench(Streamlet):
    name = "bench"
    inlet = JsonInlet("in", schema_name="bench.v1")
    out = JsonOutlet("out", schema_name="bench.v1")

    def process(self, batch):
        if MODE == "forward":
            return [self.out.emit(record) for record in batch.records]
        return [self.route(record) for record in batch.records]

    def route(self, record):
        cart = json.loads(record.value)
        cart["review"] = cart["total"] > 100
        return self.out.emit(record, value=json.dumps(cart))


if __name__ == "__main__":
    serve(Bench())
