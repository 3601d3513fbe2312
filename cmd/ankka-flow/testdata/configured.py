"""A streamlet that writes what it was given, its environment and parameters, to the file that it is given, and forwards."""

import os
import sys

from ankka_flow import (
    IntegerParameter,
    JsonInlet,
    JsonOutlet,
    Streamlet,
    StringParameter,
    json,
    serve,
)


class Configured(Streamlet):
    name = "configured"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")
    threshold = IntegerParameter("threshold", default=1)
    token = StringParameter("api-token", default="none")

    def process(self, batch):
        seen = {
            "environment": dict(os.environ),
            "threshold": self.config[self.threshold],
            "token": self.config[self.token],
        }
        with open(sys.argv[1], "wb") as f:
            f.write(json.dumps(seen))
        for record in batch.records:
            yield self.out.emit(record)


if __name__ == "__main__":
    serve(Configured())
