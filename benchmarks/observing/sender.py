"""One who sends all the time, in a process of its own, and notes how many were acknowledged when.

Every message is a request, and a hundred are on their way: the load under which the broker's loop
is the limit by far, so that whatever else it does is missing from what is sent. With large batches
the client or the disk is the limit, and an onlooker would be paid for out of idle time.
"""

import os
import time
from collections.abc import Mapping

from benchmarks.broker.clients import connected_producer, flush
from benchmarks.broker.orders import Setting, Target
from benchmarks.observing.stretches import Mark

VALUE_BYTES = 100
IN_FLIGHT = 100
SETTINGS: Mapping[str, Setting] = {
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight.requests.per.connection": IN_FLIGHT,
    "queue.buffering.max.messages": 2 * IN_FLIGHT,
}
MARK_SECONDS = 0.01
_ROOM_WITHIN_SECONDS = 0.002
_AT_ONCE = 20


def send_until(target: Target, end: float) -> list[Mark]:
    """Send until a time of the monotonic clock."""
    producer, failures = connected_producer(target, SETTINGS)
    send, poll = producer.produce, producer.poll
    value = os.urandom(VALUE_BYTES)
    marks: list[Mark] = []
    sent, due, now = 0, 0.0, time.monotonic()
    while now < end:
        if now >= due:
            marks.append(Mark(now, sent - len(producer)))
            due = now + MARK_SECONDS
        for _ in range(_AT_ONCE):
            try:
                send(target.topic, value, partition=sent % target.partitions)
            except BufferError:
                poll(_ROOM_WITHIN_SECONDS)
                break
            sent += 1
        poll(0)
        now = time.monotonic()
    flush(producer, failures)
    marks.append(Mark(time.monotonic(), sent))
    return marks
