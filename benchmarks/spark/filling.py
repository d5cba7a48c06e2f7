"""A topic of messages to be read: keys, bodies of about a size, times spread over the last hour."""

import random
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker.clients import ClientFailed

PARTITIONS = 4
KEYS = 1_000
SPREAD_MS = 3_600_000
_BODIES = 512
_WAIT_SECONDS = 60.0


def fill_topic(bootstrap: str, topic: str, messages: int, size: int) -> None:
    """Send so many; bodies are within a fifth of the size, which is their mean."""
    _make(bootstrap, topic)
    draw = random.Random(size)
    sizes = [draw.randint(size - size // 5, size + size // 5) for _ in range(_BODIES)]
    bodies = [draw.randbytes(one) for one in sizes]
    failures: list[object] = []
    first_ms = int(time.time() * 1_000) - SPREAD_MS
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 1_000_000,
            "on_delivery": lambda error, _: failures.append(error) if error is not None else None,
        }
    )
    for number in range(messages):
        while True:
            try:
                producer.produce(
                    topic,
                    bodies[number % _BODIES],
                    b"%d" % (number % KEYS),
                    timestamp=first_ms + number * SPREAD_MS // messages,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(_WAIT_SECONDS)
    if failures or left:
        raise ClientFailed(f"{topic} could not be filled: {left} left, {failures[:1]}")


def _make(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [topic, f"{topic}-copy"]
    made = admin.create_topics([NewTopic(name, PARTITIONS) for name in names])
    for one in made.values():
        one.result(_WAIT_SECONDS)
