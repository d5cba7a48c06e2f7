"""Where topics begin and end, how large they are, and who reads them, asked of any node.

Places are with the leaders of the partitions, and how far a group has got is with its coordinator.
What cannot be reached is left out, and who needs all of it can see that something is missing.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from penstock.core.errors import PenstockError, UnknownPartition
from penstock.core.types import NodeId, Offset, PartitionId, TopicId
from penstock.engine.inspection.queue_survey import first_from
from penstock.engine.peers.forwarding import decode_body
from penstock.engine.peers.links import Links
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import Topic

TOPIC_PLACES_METHOD = "topic_places"
TOPIC_READERS_METHOD = "topic_readers"
ASK_SECONDS = 3.0
NO_TIME = -1
READERS_MAX = 1_000
"""Of one node; a topic with more readers shows as many."""


class LogPlace(msgspec.Struct, frozen=True, array_like=True):
    """One partition as a log."""

    log_start: Offset
    end: Offset
    """One past the last message."""
    size_bytes: int
    """On its leader's disk."""
    at_time: Offset
    """The first message that is as late as was asked; the end if there is none."""


class TopicReader(msgspec.Struct, frozen=True, array_like=True):
    """A consumer group that has read a topic."""

    group: str
    state: str
    members: int
    committed: dict[int, Offset]
    """By index of the partition."""


class _Asked(msgspec.Struct, array_like=True):
    partitions: list[PartitionId]
    time_ms: int


class TopicSurvey:
    """Answers for this node, and asks the others."""

    def __init__(self, topics: Topics, shards: LocalShards, links: Links) -> None:
        self._topics = topics
        self._shards = shards
        self._links = links

    # Asked of any node.

    async def places(
        self, partitions: Iterable[PartitionId], *, time_ms: int = NO_TIME
    ) -> dict[PartitionId, LogPlace]:
        """Where partitions begin and end, as their leaders have it."""
        by_leader: dict[NodeId, list[PartitionId]] = {}
        for partition in partitions:
            leader = self._topics.leader(self._topics.shard_of(partition)).node
            by_leader.setdefault(leader, []).append(partition)
        answers = await asyncio.gather(
            *(self._places_at(node, _Asked(some, time_ms)) for node, some in by_leader.items())
        )
        return {number: place for answer in answers for number, place in answer.items()}

    async def readers(self, topic: Topic) -> list[TopicReader]:
        """The consumer groups that have committed something of a topic, by name."""
        nodes = sorted(self._links.connected())
        answers = await asyncio.gather(
            *(
                self._links.ask(node, TOPIC_READERS_METHOD, topic.topic_id, timeout=ASK_SECONDS)
                for node in nodes
            ),
            return_exceptions=True,
        )
        readers = self._local_readers(topic.topic_id)
        for answer in answers:
            if isinstance(answer, bytes):
                readers += decode_body(answer, list[TopicReader])
        return sorted(readers, key=lambda one: one.group)

    async def _places_at(self, node: NodeId, asked: _Asked) -> dict[PartitionId, LogPlace]:
        if node == self._topics.node_id:
            return self._local_places(asked)
        if node not in self._links.connected():
            return {}
        body = msgspec.msgpack.encode(asked)
        try:
            answer = await self._links.ask(node, TOPIC_PLACES_METHOD, body, timeout=ASK_SECONDS)
        except PenstockError:
            return {}
        return decode_body(answer, dict[PartitionId, LogPlace])

    # Answers to other nodes.

    async def answer_places(self, body: bytes) -> bytes:
        """Partitions that this node serves to readers; no others."""
        return msgspec.msgpack.encode(self._local_places(decode_body(body, _Asked)))

    async def answer_readers(self, body: bytes) -> bytes:
        """The groups that this node looks after."""
        return msgspec.msgpack.encode(self._local_readers(TopicId(body)))

    # Here.

    def _local_places(self, asked: _Asked) -> dict[PartitionId, LogPlace]:
        found: dict[PartitionId, LogPlace] = {}
        topics = self._topics
        for partition in asked.partitions:
            shard = topics.shard_of(partition)
            running = self._shards.get(shard)
            if running is None or topics.leader(shard).node != topics.node_id:
                continue
            try:
                log_start, end = running.machine.bounds(partition)
            except UnknownPartition:
                continue  # Deleted, or not made yet.
            at_time = end if asked.time_ms < 0 else first_from(running, partition, asked.time_ms)
            size = running.replica.log.partition_bytes(partition, log_start) if end else 0
            found[partition] = LogPlace(log_start, end, size, at_time)
        return found

    def _local_readers(self, topic_id: TopicId) -> list[TopicReader]:
        readers: list[TopicReader] = []
        for shard in list(self._shards):
            running = self._shards.get(shard)
            if running is None or not running.replica.leads:
                continue
            for name, group in running.machine.groups.groups.items():
                committed = group.offsets.get(topic_id)
                if committed and len(readers) < READERS_MAX:
                    offsets = {index: one.offset for index, one in sorted(committed.items())}
                    state = group.state.value
                    readers.append(TopicReader(name, state, len(group.members), offsets))
        return readers
