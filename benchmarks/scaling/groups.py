"""A Kafka consumer group whose members live in a few processes, and read a topic over and over.

These functions run in a client process, which keeps the members it has made between two calls.
Members join once. Until they are told to read, their partitions are paused, so that all begin at
the same moment, whoever joined last; then each reads its partitions from the beginning to the end
in a thread of its own. They commit as they do by default.
"""

import threading
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.broker.clients import CLIENT, ClientFailed
from benchmarks.broker.orders import Moved, Target

_POLL_SECONDS = 0.002
_CHUNK_MESSAGES = 1_000
_CHUNK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOrder:
    """So many members in this process."""

    target: Target
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """Every partition from its beginning, until each member has read so many messages."""

    topic: str
    messages_each: int
    begin_ns: int
    seconds: float


class _Member:
    """One consumer and what it was assigned."""

    def __init__(self, target: Target) -> None:
        self.parts: list[TopicPartition] = []
        self.consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": target.bootstrap,
                "group.id": f"group of {target.topic}",
                "auto.offset.reset": "earliest",
                "fetch.queue.backoff.ms": 5,
            }
        )
        self.consumer.subscribe([target.topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        consumer.assign(parts)
        consumer.pause(parts)
        self.parts = parts

    def _revoked(self, consumer: Consumer, _parts: list[TopicPartition]) -> None:
        consumer.unassign()
        self.parts = []

    def rewind(self) -> None:
        """Read from the beginning, now."""
        for part in self.parts:
            self.consumer.seek(TopicPartition(part.topic, part.partition, 0))
        self.consumer.resume(self.parts)

    def read(self, messages: int, deadline: float) -> int:
        """Until so many were read."""
        got = 0
        while got < messages and time.perf_counter() < deadline:
            got += len(self.consumer.consume(_CHUNK_MESSAGES, _CHUNK_SECONDS))
        self.consumer.pause(self.parts)
        return got


_members: dict[str, list[_Member]] = {}


def join(order: GroupOrder) -> None:
    """Make members of the topic's group; they get their partitions as they are polled."""
    _members[order.target.topic] = [_Member(order.target) for _ in range(order.members)]


def assignments(topic: str) -> list[int]:
    """How many partitions each member in this process has."""
    for member in _members[topic]:
        message = member.consumer.poll(_POLL_SECONDS)
        if message is not None and message.error() is not None:
            raise KafkaException(message.error())
    return [len(member.parts) for member in _members[topic]]


def read_all(order: GroupReading) -> Moved:
    """Every member in this process reads its part."""
    members = _members[order.topic]
    counts = [0] * len(members)
    # While the threads wait for the moment to begin, the members' own threads may prepare.
    moment = threading.Barrier(len(members) + 1)

    def run(place: int) -> None:
        moment.wait()
        members[place].rewind()
        deadline = time.perf_counter() + order.seconds
        counts[place] = members[place].read(order.messages_each, deadline)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(members))]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, (order.begin_ns - time.monotonic_ns()) / 1e9))
    began, cpu = time.perf_counter(), time.process_time()
    moment.wait()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if min(counts) < order.messages_each:
        raise ClientFailed(f"{order.topic}: members read {counts}, {order.messages_each} were due")
    return Moved(sum(counts), took, time.process_time() - cpu)


def leave() -> None:
    """Close all."""
    for members in _members.values():
        for member in members:
            member.consumer.close()
    _members.clear()
