"""Sending and receiving on a schedule, for latency that hides nothing.

The schedule is fixed before the first message: message i is due at a certain moment, and its
latency counts from that moment, not from when it was really sent. A broker, or a sender, that
stalls is therefore late with every message that fell due meanwhile. Both functions run in client
processes of their own; the monotonic clock is the same for both.
"""

import struct
import time
from array import array
from dataclasses import dataclass
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from benchmarks.broker.clients import CLIENT, ClientFailed, connected_producer, flush
from benchmarks.broker.orders import Schedule, Setting

_NUMBER = struct.Struct("<I")
_SPIN_NS = 200_000
"""The last moment before a message is due is waited for awake: sleeping is that inexact."""
_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sent:
    """By message: how late the sender was itself, and when it was told of the acknowledgement."""

    late_ns: "array[int]"
    acknowledged_ns: "array[int]"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When each message arrived, by its number; 0 if it never did."""

    at_ns: "array[int]"
    duplicates: int


def send_on_schedule(schedule: Schedule) -> Sent:
    """Send each message when it is due, or at once if that has passed."""
    target = schedule.target
    settings: dict[str, Setting] = {"linger.ms": 0, "delivery.report.only.error": False}
    producer, failures = connected_producer(target, settings)
    filling = bytes(schedule.value_bytes - _NUMBER.size)
    sent = Sent(_zeros(schedule.count), _zeros(schedule.count))

    def acknowledged(number: int, error: KafkaError | None, message: Message) -> None:
        sent.acknowledged_ns[number] = time.monotonic_ns()
        if error is not None:
            failures.append(f"{message.topic()}-{message.partition()}: {error}")

    for number in range(schedule.count):
        due = schedule.due_ns(number)
        while (ahead := due - time.monotonic_ns()) > 0:
            # Reports are taken while there is time.
            producer.poll((ahead - _SPIN_NS) / 1e9 if ahead > _SPIN_NS else 0)
        sent.late_ns[number] = -ahead
        producer.produce(
            target.topic,
            _NUMBER.pack(number) + filling,
            partition=number % target.partitions,
            on_delivery=partial(acknowledged, number),
        )
    flush(producer, failures)
    return sent


def _zeros(count: int) -> "array[int]":
    return array("q", bytes(8 * count))


def receive_all(schedule: Schedule) -> Arrivals:
    """Note when each message arrives, until all have or none has for a while."""
    target = schedule.target
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": target.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
        }
    )
    arrivals = _zeros(schedule.count)
    places = [
        TopicPartition(target.topic, part, OFFSET_BEGINNING) for part in range(target.partitions)
    ]
    consumer.assign(places)
    missing, duplicates = schedule.count, 0
    deadline = schedule.due_ns(schedule.count) + int(_PATIENCE_SECONDS * 1e9)
    try:
        while missing and time.monotonic_ns() < deadline:
            message = consumer.poll(_POLL_SECONDS)
            now = time.monotonic_ns()
            if message is None:
                continue
            if message.error() is not None:
                raise ClientFailed(f"{message.error()}")
            value = message.value()
            if value:
                (number,) = _NUMBER.unpack_from(value)
                if arrivals[number]:
                    duplicates += 1
                else:
                    arrivals[number] = now
                    missing -= 1
    finally:
        consumer.close()
    return Arrivals(arrivals, duplicates)
