"""Kafka's clients at the head of a topic: send for a while, then read just that.

These functions run in a client process. What was there before is not read: where each partition
ends is asked beforehand, for all of them in one request, and the reader begins there.
"""

import os
import time
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from benchmarks.broker.clients import (
    ANSWER_WITHIN_SECONDS,
    CLIENT,
    ClientFailed,
    connected_producer,
    flush,
)
from benchmarks.broker.orders import Moved, Production, Target

KEYS = 16_384
"""Different keys of a load with keys: more than there are partitions."""
_LOOK_AT_CLOCK_EVERY = 100
_ROOM_SECONDS = 0.01
_CHUNK_MESSAGES = 1_000
_CHUNK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Read so many messages, beginning where each partition ended."""

    target: Target
    begin: tuple[int, ...]
    messages: int
    seconds: float


def ends(target: Target) -> tuple[int, ...]:
    """Where each partition ends."""
    admin = AdminClient({**CLIENT, "bootstrap.servers": target.bootstrap})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(target.topic, part): latest for part in range(target.partitions)}
    answers = admin.list_offsets(wanted, request_timeout=ANSWER_WITHIN_SECONDS)
    found = {place.partition: answer.result().offset for place, answer in answers.items()}
    return tuple(found[part] for part in range(target.partitions))


def produce(order: Production, *, keys: bool = False) -> Moved:
    """Send as a program does that names no partition: the client stays with one for some
    milliseconds, then takes another; or, with keys, each message goes where its key says."""
    # One message connects it and tells it all partitions; the others' leader is the same node.
    producer, failures = connected_producer(replace(order.target, partitions=1), order.settings)
    topic, value = order.target.topic, os.urandom(order.value_bytes)
    names = [b"%d" % one if keys else None for one in range(KEYS)]
    send, poll, sent = producer.produce, producer.poll, 0
    began_cpu, began = time.process_time(), time.perf_counter()
    deadline = began + order.seconds
    while sent < order.messages_max and time.perf_counter() < deadline:
        for _ in range(_LOOK_AT_CLOCK_EVERY):
            try:
                send(topic, value, names[sent % KEYS])
            except BufferError:
                poll(_ROOM_SECONDS)
                continue
            sent += 1
        poll(0)
    flush(producer, failures)
    took = time.perf_counter() - began
    return Moved(sent, took, time.process_time() - began_cpu)


def read(order: Reading) -> Moved:
    """The clock starts with the first messages, which do not count: connecting is not measured."""
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": order.target.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # Else it stops fetching for a whole second whenever 100,000 messages lie unread.
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        consumer.assign(
            [
                TopicPartition(order.target.topic, part, offset)
                for part, offset in enumerate(order.begin)
            ]
        )
        return _count(consumer, order)
    finally:
        consumer.close()


def _count(consumer: Consumer, order: Reading) -> Moved:
    got = first = 0
    began = began_cpu = 0.0
    deadline = time.perf_counter() + order.seconds
    while got < order.messages:
        chunk = consumer.consume(min(_CHUNK_MESSAGES, order.messages - got), _CHUNK_SECONDS)
        now = time.perf_counter()
        if now >= deadline:
            raise ClientFailed(f"{got} of {order.messages} read within {order.seconds:.0f} s")
        if not chunk:
            continue
        if (error := chunk[-1].error()) is not None:
            raise ClientFailed(f"{order.target.topic}: {error}")
        got += len(chunk)
        if not first:
            first, began, began_cpu = got, now, time.process_time()
    return Moved(got - first, time.perf_counter() - began, time.process_time() - began_cpu)
