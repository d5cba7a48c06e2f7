"""The bounds and sizes of topics, and the consumer groups that read them, for requests on any node.

The leaders of the partitions have their bounds (`partition_places`), and the coordinator of a group
has its offsets. Nodes that do not reply are left out.
"""

from collections.abc import Iterable

import msgspec

from penstock.core.errors import UnknownPartition
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.engine.inspection.partition_places import (
    NO_TIME,
    PlacesRequest,
    find_places,
    first_from,
)
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics

READERS_MAX = 1_000
"""Of one node; a topic with more readers shows as many."""


class LogPlace(msgspec.Struct, frozen=True, array_like=True):
    """The bounds of one partition's log."""

    log_start: Offset
    end: Offset
    """The offset after the last message."""
    size_bytes: int
    """The size on its leader's disk."""
    at_time: Offset
    """The first message that is as late as was asked; the end if there is none."""


class TopicReader(msgspec.Struct, frozen=True, array_like=True):
    """A consumer group that has read a topic."""

    group: str
    state: str
    members: int
    committed: dict[int, Offset]
    """The committed offsets, by index of the partition."""


TOPIC_PLACES = RemoteCall("topic_places", PlacesRequest, dict[PartitionId, LogPlace])
TOPIC_READERS = RemoteCall("topic_readers", bytes, list[TopicReader])
"""The request is the topic's id."""


class TopicSurvey:
    """The partitions and groups of this node, and those of all others by asking."""

    def __init__(self, topics: Topics, shards: LocalShards, calls: RemoteCalls) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls

    # Asked of any node.

    async def places(
        self, partitions: Iterable[PartitionId], *, time_ms: int = NO_TIME
    ) -> dict[PartitionId, LogPlace]:
        """Return the bounds of partitions, as their leaders know them."""
        return await find_places(self._topics, self._calls, TOPIC_PLACES, partitions, time_ms)

    async def readers(self, topic: Topic) -> list[TopicReader]:
        """The consumer groups that have committed something of a topic, by name."""
        answers = await self._calls.ask_all(TOPIC_READERS, topic.topic_id)
        readers = (one for reply in answers.replies.values() for one in reply)
        return sorted(readers, key=lambda one: one.group)

    # On this node.

    async def places_here(self, asked: PlacesRequest) -> dict[PartitionId, LogPlace]:
        """Partitions that this node serves to readers; no others."""
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
            at_time = first_from(running, partition, asked.time_ms)
            size = running.replica.log.partition_bytes(partition, log_start) if end else 0
            found[partition] = LogPlace(log_start, end, size, at_time)
        return found

    async def readers_here(self, topic_id: bytes) -> list[TopicReader]:
        """The groups that this node coordinates."""
        readers: list[TopicReader] = []
        for shard in list(self._shards):
            running = self._shards.get(shard)
            if running is None or not running.replica.leads:
                continue
            for name, group in running.machine.groups.groups.items():
                committed = group.offsets.get(TopicId(topic_id))
                if committed and len(readers) < READERS_MAX:
                    offsets = {index: one.offset for index, one in sorted(committed.items())}
                    state = group.state.value
                    readers.append(TopicReader(name, state, len(group.members), offsets))
        return readers
