"""Fills a queue through the Kafka protocol, which is the fastest way in. Runs in a client process.

plain      messages like all others: what SQS sends without any parameter
delayed    each waits for a time of its own, minutes away; every tenth, in the middle of the
           others, is due at one and the same moment
fifo       in thousands of groups, each message with an id that is remembered
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.broker.clients import connected_producer, flush
from benchmarks.broker.orders import Moved, Target
from penstock.core import delivery_headers

GROUPS = 10_000
DUE_TOGETHER_OF = 20
DELAY_MS = (600_000, 3_600_000)
_ROOM_SECONDS = 0.01
_POLL_EVERY = 1_000

Headers = list[tuple[str, str | bytes | None]]
Composed = tuple[bytes | None, Headers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How many messages of which kind go where."""

    target: Target
    kind: str
    messages: int
    value_bytes: int
    due_ms: int = 0
    """When every twentieth delayed message is due, by the wall clock."""
    seed: int = 1


def fill(order: Filling) -> Moved:
    """Send all; it is over when the last message was acknowledged."""
    producer, failures = connected_producer(order.target, {})
    compose = _COMPOSERS[order.kind]
    random = Random(order.seed)
    topic = order.target.topic
    value = b"x" * order.value_bytes
    began, began_cpu = time.perf_counter(), time.process_time()
    for number in range(order.messages):
        key, headers = compose(order, number, random)
        while True:
            try:
                producer.produce(topic, value, key, 0, headers=headers)
                break
            except BufferError:
                producer.poll(_ROOM_SECONDS)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    flush(producer, failures)
    took = time.perf_counter() - began
    return Moved(order.messages, took, time.process_time() - began_cpu)


def _plain(_order: Filling, _number: int, _random: Random) -> Composed:
    return None, []


def _delayed(order: Filling, number: int, random: Random) -> Composed:
    if number % DUE_TOGETHER_OF == 0:
        return None, [(delivery_headers.DELIVER_AT, b"%d" % order.due_ms)]
    return None, [(delivery_headers.DELAY, b"%d" % random.randrange(*DELAY_MS))]


def _fifo(order: Filling, number: int, random: Random) -> Composed:
    group = b"group-%d" % random.randrange(GROUPS)
    return group, [(delivery_headers.DEDUP_ID, b"%d-%d" % (order.seed, number))]


_COMPOSERS: dict[str, Callable[[Filling, int, Random], Composed]] = {
    "plain": _plain,
    "delayed": _delayed,
    "fifo": _fifo,
}
