"""Writes 500 records with librdkafka: librdkafka_producer.py BROKERS TOPIC CODEC FIRST."""

import sys

from confluent_kafka import Producer

brokers, topic, codec, first = sys.argv[1:]
producer = Producer(
    {
        "bootstrap.servers": brokers,
        "compression.type": codec,
        "enable.idempotence": True,
        "linger.ms": 50,
    }
)
failed = []
for number in range(int(first), int(first) + 500):
    producer.produce(
        topic,
        key=f"k{number}",
        value=None if number % 7 == 0 else f"v{number} " + "x" * 50,
        headers=[("h", b"\xff"), ("h", None)],
        on_delivery=lambda error, _: error and failed.append(error),
    )
if producer.flush(60) or failed:
    sys.exit(f"not written: {failed[:3]}")
