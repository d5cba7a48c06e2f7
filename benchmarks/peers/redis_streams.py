"""Redis Streams by way of redis-py: pipelines of XADD, XREADGROUP with XACK.

The shape people use it in for a queue. An acknowledged message stays in the stream, so Redis is
spared the deleting that the other systems do.
"""

import time
from typing import Any

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder, library, split_place
from benchmarks.peers.pace import ArrivalBook, SentBook

FIELD = b"b"
GROUP = "benchmark"
_BLOCK_MS = 100
_CHUNK = 100


def prepare(place: str, queue: str) -> None:
    """An empty stream with a group."""
    with _client(place) as client:
        client.xgroup_create(queue, GROUP, id="0", mkstream=True)


def send(order: QueueOrder) -> Moved:
    """A pipeline for each batch, each waited for."""
    bodies = order.bodies()
    with _client(order.place) as client:
        client.ping()
        pipeline = client.pipeline(transaction=False)
        sent, began, cpu = 0, time.perf_counter(), time.process_time()
        while sent < order.messages_max and time.perf_counter() - began < order.seconds:
            for body in bodies:
                pipeline.xadd(order.queue, {FIELD: body})
            sent += len(pipeline.execute())
        return Moved(sent, time.perf_counter() - began, time.process_time() - cpu)


def receive(order: QueueOrder) -> Moved:
    """A batch is read and looked at, and acknowledged in one pipeline with reading the next one,
    until there is none."""
    with _client(order.place) as client:
        client.ping()
        done, seen, began, cpu = 0, 0, time.perf_counter(), time.process_time()
        pipeline = client.pipeline(transaction=False)
        pipeline.xreadgroup(GROUP, "one", {order.queue: ">"}, count=order.batch)
        entries = _entries(pipeline.execute()[0])
        while entries:
            seen += sum(len(fields[FIELD]) for _, fields in entries)
            pipeline.xack(order.queue, GROUP, *[number for number, _ in entries])
            if time.perf_counter() - began < order.seconds:
                pipeline.xreadgroup(GROUP, "one", {order.queue: ">"}, count=order.batch)
            count, *found = pipeline.execute()
            done += count
            entries = _entries(found[0]) if found else ()
        took = Moved(done, time.perf_counter() - began, time.process_time() - cpu)
    if seen != done * order.body_bytes:
        raise ClientFailed(f"{seen} bytes came in {done} messages")
    return took


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due."""
    with _client(schedule.target.bootstrap) as client:
        client.ping()
        book = SentBook(schedule)
        for body in book.due():
            client.xadd(schedule.target.topic, {FIELD: body})
            book.acknowledged()
        return book.sent


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives."""
    book = ArrivalBook(schedule)
    queue = schedule.target.topic
    with _client(schedule.target.bootstrap) as client:
        while book.is_open:
            found = client.xreadgroup(GROUP, "one", {queue: ">"}, count=_CHUNK, block=_BLOCK_MS)
            entries = _entries(found)
            for _, fields in entries:
                book.arrived(fields[FIELD])
            if entries:
                client.xack(queue, GROUP, *[number for number, _ in entries])
    return book.arrivals


def answers(place: str) -> bool:
    """Whether a server is there."""
    redis = library("redis")
    try:
        with _client(place) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _entries(found: Any) -> Any:
    """Of the one stream asked for: a mapping or a list of pairs, by version of the protocol."""
    if not found:
        return ()
    ((_, entries),) = found.items() if isinstance(found, dict) else found
    # A mapping has them in pages, one more level of list.
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _client(place: str) -> Any:
    host, port = split_place(place)
    return library("redis").Redis(host=host, port=port)
