"""A raw process that reports numbers: with every batch how many records it has, and beside it how many batches came.

A batch that holds the value "fail" is failed, once: the next process or conversation is good to it.
"""

import argparse

from misbehave import Process


class Reports(Process):
    failed = False

    def batch(self, batch_id, records):
        self.send(
            "report",
            batch_id,
            [["records_total", "counter", {"kind": "seen"}, len(records)]],
        )
        self.send("report", None, [["batches", "gauge", None, self.batches]])
        if not self.failed and any(record[3] == b"fail" for record in records):
            self.failed = True
            self.send("fail", batch_id, {"message": "it says so"})
            return
        super().batch(batch_id, records)


if __name__ == "__main__":
    Reports(argparse.Namespace()).run()
