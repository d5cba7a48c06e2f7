"""The work groups of partitions and their progress, for requests on any node.

The leader of a partition has the state of its work groups. A list of all groups asks every node for
what it leads; a look at one topic asks the leaders of its partitions (`partition_places`). Nodes
that do not reply are left out.
"""

from collections.abc import Iterable
from types import NoneType

from penstock.core.errors import UnknownPartition, UnknownWork
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import PartitionId
from penstock.engine.delivery.requests import QueuePlace
from penstock.engine.inspection.partition_places import (
    NO_TIME,
    PlacesRequest,
    find_places,
    first_from,
)
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.replica.time_slices import TimeSlices
from penstock.engine.topics.topics import Topics

WORK_GROUPS = RemoteCall("work_groups", NoneType, dict[PartitionId, list[str]])
QUEUE_PLACES = RemoteCall("queue_places", PlacesRequest, dict[PartitionId, QueuePlace])


class QueueSurvey:
    """The work groups of the shards that this node leads, and of all others by asking."""

    def __init__(self, topics: Topics, shards: LocalShards, calls: RemoteCalls) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls

    # Asked of any node.

    async def groups(self) -> dict[PartitionId, list[str]]:
        """The work groups of every partition that has any."""
        answers = await self._calls.ask_all(WORK_GROUPS, None)
        return {number: names for one in answers.replies.values() for number, names in one.items()}

    async def places(
        self, partitions: Iterable[PartitionId], *, time_ms: int = NO_TIME
    ) -> dict[PartitionId, QueuePlace]:
        """Return the bounds of partitions and the positions of their work groups."""
        return await find_places(self._topics, self._calls, QUEUE_PLACES, partitions, time_ms)

    async def require(self, topic: Topic, group: str) -> None:
        """Refuse a work group that is nowhere open. The default one is open wherever it is used."""
        if group == DEFAULT_WORK_GROUP:
            return
        places = await self.places(topic.partitions)
        if not any(group in place.starts for place in places.values()):
            raise UnknownWork(f"queue {topic.name} has no work group {group}")

    # On this node.

    async def groups_here(self, _asked: None) -> dict[PartitionId, list[str]]:
        """The work groups of the shards that this node leads."""
        slices = TimeSlices()
        slices.begin()
        found: dict[PartitionId, list[str]] = {}
        for shard in list(self._shards):
            running = self._shards.get(shard)
            if running is None or not running.replica.leads:
                continue
            for partition, queue in list(running.machine.queues.partitions.items()):
                if slices.is_used_up:
                    await slices.let_others()
                if queue.groups:
                    found[partition] = sorted(queue.groups)
        return found

    async def places_here(self, asked: PlacesRequest) -> dict[PartitionId, QueuePlace]:
        """Partitions of shards that this node leads; no others."""
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
    return QueuePlace(
        log_start=bounds.log_start,
        end=bounds.high_watermark,
        starts={name: work.start for name, work in groups.items()},
        at_time=first_from(running, partition, time_ms),
    )
