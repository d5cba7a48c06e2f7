"""Opens a work group at its first use.

A work group needs no declaration: it begins with the first request for its messages. All partitions
of the queue are opened at once, so that nothing is missed in those that were not asked for yet:
with `queue.delete.acked`, a message is kept only for groups that are open.

    Start.EARLIEST     at the start of the log: SQS, HTTP and native receivers
    Start.CONFIGURED   where the group's share.auto.offset.reset says: Kafka's share consumers. The
                       start, the end, or messages of a certain age. A partition that was added to a
                       topic the group knows is read from its start: what was written there before
                       the first fetch must not get lost. The default work group, which SQS and
                       others share, begins at the start.

Requests that find a group unopened at the same time share one attempt. A partition that cannot be
opened now does not stop the others; it is opened when it is asked for.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from enum import Enum
from typing import Protocol

from penstock.core.errors import PenstockError, Unavailable
from penstock.core.internal_topics import check_unprotected
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, WorkRules
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId, TopicId
from penstock.engine.delivery.requests import QueuePlace
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.topics.queue_upkeep import opening, work_rules
from penstock.engine.topics.topics import Topics

OPEN_SECONDS = 5.0
"""How long one partition may delay the others."""
NO_TIME = -1


class Start(Enum):
    """Where a work group begins that has never read a queue."""

    EARLIEST = "earliest"
    CONFIGURED = "configured"


class FindPlaces(Protocol):
    """Finds out where partitions begin and end, on any node."""

    def __call__(
        self, partitions: tuple[PartitionId, ...], *, time_ms: int = NO_TIME
    ) -> Awaitable[dict[PartitionId, QueuePlace]]: ...


class FirstUse:
    """Opens work groups when they are first used; one per node."""

    def __init__(self, topics: Topics, forwarder: Forwarder, places: FindPlaces) -> None:
        self._topics = topics
        self._forwarder = forwarder
        self._places = places
        self._under_way: dict[
            tuple[TopicId, str], asyncio.Task[Mapping[PartitionId, PenstockError]]
        ] = {}

    async def open(
        self, topic: Topic, index: int, group: str, start: Start = Start.EARLIEST
    ) -> None:
        """Open a work group; raises if it cannot be opened on this partition."""
        check_unprotected(topic.name)
        key = (topic.topic_id, group)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._open(topic, group, start))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        problems = await asyncio.shield(task)
        problem = problems.get(topic.partitions[index])
        if problem is not None:
            raise problem

    async def _open(
        self, topic: Topic, group: str, start: Start
    ) -> Mapping[PartitionId, PenstockError]:
        """Returns the partitions that could not be opened."""
        try:
            starts = await self._starts(topic, group, start)
        except PenstockError as error:
            return dict.fromkeys(topic.partitions, error)
        rules = work_rules(self._topics.catalog, topic, group)
        outcomes = await asyncio.gather(
            *(self._open_one(partition, group, at, rules) for partition, at in starts.items())
        )
        pairs = zip(starts, outcomes, strict=True)
        return {partition: problem for partition, problem in pairs if problem is not None}

    async def _starts(self, topic: Topic, group: str, start: Start) -> Mapping[PartitionId, Offset]:
        settings = self._topics.catalog.group_settings(group)
        partitions = topic.partitions
        if start is Start.EARLIEST or group == DEFAULT_WORK_GROUP or settings.reset == "earliest":
            return dict.fromkeys(partitions, EARLIEST)
        if settings.reset == "latest":
            places = await self._places(partitions)
            is_known = any(group in place.starts for place in places.values())
            return dict.fromkeys(partitions, EARLIEST if is_known else LATEST)
        since_ms = self._topics.clock.wall_ms() - settings.reset_ms
        places = await self._places(partitions, time_ms=since_ms)
        return {partition: place.at_time for partition, place in places.items()}

    async def _open_one(
        self, partition: PartitionId, group: str, start: Offset, rules: WorkRules
    ) -> PenstockError | None:
        command = opening(partition, group, rules, start)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._forwarder.change(self._topics.shard_of(partition), command)
        except TimeoutError:
            return Unavailable(f"work group {group} could not be opened in time; try again")
        except PenstockError as error:
            return error
        return None

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
