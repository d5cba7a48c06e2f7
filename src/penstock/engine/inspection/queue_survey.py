"""Which work groups there are and where they stand, asked of any node.

What a work group knows is with the leader of each partition. A list of all groups asks every node
for what it leads; a look at one topic asks the leaders of its partitions. What cannot be reached is
left out, and who needs all of it can see that something is missing.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from penstock.core.errors import InvalidBatch, PenstockError, UnknownPartition, UnknownWork
from penstock.core.message_batches import read_messages
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.types import NodeId, Offset, PartitionId
from penstock.engine.delivery.requests import QueuePlace
from penstock.engine.peers.forwarding import decode_body
from penstock.engine.peers.links import Links
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import Topic

WORK_GROUPS_METHOD = "work_groups"
QUEUE_PLACES_METHOD = "queue_places"
ASK_SECONDS = 3.0
NO_TIME = -1


class _Asked(msgspec.Struct, array_like=True):
    partitions: list[PartitionId]
    time_ms: int


class QueueSurvey:
    """Answers for this node, and asks the others."""

    def __init__(self, topics: Topics, shards: LocalShards, links: Links) -> None:
        self._topics = topics
        self._shards = shards
        self._links = links

    # Asked of any node.

    async def groups(self) -> dict[PartitionId, list[str]]:
        """The work groups of every partition that has any."""
        nodes = sorted(self._links.connected())
        answers = await asyncio.gather(
            *(
                self._links.ask(node, WORK_GROUPS_METHOD, b"", timeout=ASK_SECONDS)
                for node in nodes
            ),
            return_exceptions=True,
        )
        found = self._local_groups()
        for answer in answers:
            if isinstance(answer, bytes):
                found |= decode_body(answer, dict[PartitionId, list[str]])
        return found

    async def places(
        self, partitions: Iterable[PartitionId], *, time_ms: int = NO_TIME
    ) -> dict[PartitionId, QueuePlace]:
        """Where partitions begin and end, and where their work groups are."""
        by_leader: dict[NodeId, list[PartitionId]] = {}
        for partition in partitions:
            leader = self._topics.leader(self._topics.shard_of(partition)).node
            by_leader.setdefault(leader, []).append(partition)
        answers = await asyncio.gather(
            *(self._places_at(leader, some, time_ms) for leader, some in by_leader.items())
        )
        return {number: place for answer in answers for number, place in answer.items()}

    async def require(self, topic: Topic, group: str) -> None:
        """Refuse a work group that is nowhere open. The default one is open wherever it is used."""
        if group == DEFAULT_WORK_GROUP:
            return
        places = await self.places(topic.partitions)
        if not any(group in place.starts for place in places.values()):
            raise UnknownWork(f"queue {topic.name} has no work group {group}")

    async def _places_at(
        self, node: NodeId, partitions: list[PartitionId], time_ms: int
    ) -> dict[PartitionId, QueuePlace]:
        if node == self._topics.node_id:
            return self._local_places(_Asked(partitions, time_ms))
        if node not in self._links.connected():
            return {}
        body = msgspec.msgpack.encode(_Asked(partitions, time_ms))
        try:
            answer = await self._links.ask(node, QUEUE_PLACES_METHOD, body, timeout=ASK_SECONDS)
        except PenstockError:
            return {}
        return decode_body(answer, dict[PartitionId, QueuePlace])

    # Answers to other nodes.

    async def answer_groups(self, _body: bytes) -> bytes:
        """The work groups of the shards this node leads."""
        return msgspec.msgpack.encode(self._local_groups())

    async def answer_places(self, body: bytes) -> bytes:
        """Partitions of shards this node leads; no others."""
        return msgspec.msgpack.encode(self._local_places(decode_body(body, _Asked)))

    # Here.

    def _local_groups(self) -> dict[PartitionId, list[str]]:
        return {
            partition: sorted(queue.groups)
            for shard in list(self._shards)
            if (running := self._shards.get(shard)) is not None and running.replica.leads
            for partition, queue in running.machine.queues.partitions.items()
            if queue.groups
        }

    def _local_places(self, asked: _Asked) -> dict[PartitionId, QueuePlace]:
        found: dict[PartitionId, QueuePlace] = {}
        for partition in asked.partitions:
            running = self._shards.get(self._topics.shard_of(partition))
            if running is None or not running.replica.leads:
                continue
            try:
                found[partition] = _place(running, partition, asked.time_ms)
            except UnknownPartition:
                continue  # Deleted, or not made yet.
        return found


def _place(running: Shard, partition: PartitionId, time_ms: int) -> QueuePlace:
    bounds = running.machine.bounds(partition)
    groups = running.machine.queues.groups(partition)
    at_time = bounds.high_watermark
    if time_ms >= 0:
        at_time = first_from(running, partition, time_ms)
    return QueuePlace(
        log_start=bounds.log_start,
        end=bounds.high_watermark,
        starts={name: work.start for name, work in groups.items()},
        at_time=at_time,
    )


def first_from(running: Shard, partition: PartitionId, time_ms: int) -> Offset:
    """The log knows the highest time of a batch; which message has it, the batch does. One that
    cannot be opened is taken from its beginning: early, never late."""
    bounds = running.machine.bounds(partition)
    found = running.replica.log.offset_for_time(partition, time_ms)
    if found is None or found[0] >= bounds.high_watermark:
        return bounds.high_watermark
    first = max(found[0], bounds.log_start)
    try:
        messages = read_messages(running.fetch(partition, first, 1))
    except InvalidBatch:
        return first
    late = (one.offset for one in messages if one.timestamp_ms >= time_ms)
    return max(bounds.log_start, next(late, first))
