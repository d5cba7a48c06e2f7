"""Staged messages: appended where nobody reads them, until they are published or forgotten.

One internal topic has a partition in every data shard. What is meant for a partition is staged in
the shard of that partition: to publish it is then the business of one leader, which reads its own
log and writes its own log.

Staged messages take room, so they go as soon as they can. The leader remembers what was staged with
it and has not been published; what lies before the first of these is trimmed. It does not know what
was staged with the leader before it, nor that a writer has died: such messages expire with the
internal topic's retention, like those of any topic.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sortedcontainers import SortedDict, SortedList

from penstock.core.errors import PenstockError, TopicExists, Unavailable
from penstock.core.limits import BATCH_BYTES_MAX, STAGED_MS
from penstock.core.records import stamp_append_time
from penstock.core.types import Offset, PartitionId, ShardId
from penstock.engine.admission import check_admissible
from penstock.engine.batcher import Promise
from penstock.engine.engine import Engine, partition_of
from penstock.engine.local_shards import LocalShards
from penstock.engine.shard import Shard
from penstock.machines.catalog import Topic
from penstock.machines.commands import TrimPartition
from penstock.machines.machine import Reply

STAGING_TOPIC = "__staging"
TRIM_TICKS = 10
STAGED_RANGES_MAX = 1_000_000
"""How many ranges a leader remembers; beyond it, the oldest are left to expire."""

Range = tuple[Offset, Offset]


class StagedBatch(NamedTuple):
    """Where a batch waits: a partition of the staging topic, and offsets there."""

    staging: PartitionId
    first: Offset
    end: Offset


class Staging:
    """For one node: the staging partitions of the shards that it leads."""

    def __init__(self, engine: Engine, shards: LocalShards) -> None:
        self._engine = engine
        self._shards = shards
        self._open: dict[ShardId, _Open] = {}
        self._ticks = 0

    async def stage(self, topic: Topic, index: int, batch: memoryview) -> StagedBatch:
        """Append a batch for a partition that this node leads, to be published later. It is
        stamped in place: the caller gives the buffer away."""
        engine = self._engine
        partition = partition_of(topic, index)
        running = engine.led_shard(partition)
        check_admissible(topic, batch)
        if topic.settings.log_append_time:
            stamp_append_time(batch, engine.clock.wall_ms())
        staging = await self._partition(engine.shard_of(partition))
        known = self._known(engine.shard_of(partition), running, staging)
        floor = known.begin()
        try:
            appended = await running.append(staging, batch)
            known.add(appended.base_offset, appended.end_offset)
        finally:
            known.floors.remove(floor)
        return StagedBatch(staging, appended.base_offset, appended.end_offset)

    def release(self, shard: ShardId, ranges: Iterable[Range]) -> None:
        """These ranges have been published: nobody will ask for them again."""
        known = self._open.get(shard)
        if known is not None:
            for first, end in ranges:
                for one in list(known.ranges.irange(first, end, (True, False))):
                    del known.ranges[one]

    def tick(self) -> None:
        """A tick of the node's clock has passed: let go of what was published."""
        self._ticks += 1
        if self._ticks % TRIM_TICKS:
            return
        for shard, known in list(self._open.items()):
            if self._shards.get(shard) is not known.running or not known.running.replica.leads:
                del self._open[shard]
            else:
                known.trim()

    def _known(self, shard: ShardId, running: Shard, staging: PartitionId) -> "_Open":
        known = self._open.get(shard)
        if known is None or known.running is not running or known.staging != staging:
            known = self._open[shard] = _Open(running, staging)
        return known

    async def _partition(self, shard: ShardId) -> PartitionId:
        """The staging partition of a shard; the topic is made when it is first needed."""
        engine = self._engine
        topic = engine.catalog.topic(STAGING_TOPIC)
        if topic is None:
            topic = await self._make_topic()
        for partition in topic.partitions:
            if engine.shard_of(partition) == shard:
                return partition
        raise Unavailable(f"topic {STAGING_TOPIC} has no partition in shard {shard}")

    async def _make_topic(self) -> Topic:
        configs = {"retention.ms": str(STAGED_MS), "max.message.bytes": str(BATCH_BYTES_MAX)}
        shards = len(self._engine.shards()) - 1
        try:
            return await self._engine.create_topic(STAGING_TOPIC, shards, configs)
        except TopicExists:
            found = self._engine.catalog.topic(STAGING_TOPIC)
            if found is None:
                raise Unavailable(f"topic {STAGING_TOPIC} is being made") from None
            return found


class _Open:
    """What waits in the staging partition of one shard, as far as its leader knows."""

    def __init__(self, running: Shard, staging: PartitionId) -> None:
        self.running = running
        self.staging = staging
        self.ranges: SortedDict[Offset, Offset] = SortedDict()
        self.floors: SortedList[Offset] = SortedList()
        """Of the batches being appended: none of them will be below its floor."""
        self.known_from = running.machine.partitions.planned_end(staging)
        """What lies before was staged with somebody else, or forgotten: it expires."""

    def begin(self) -> Offset:
        """A batch is about to be appended; its floor."""
        floor = self.running.machine.partitions.planned_end(self.staging)
        self.floors.add(floor)
        return floor

    def add(self, first: Offset, end: Offset) -> None:
        self.ranges[first] = end
        if len(self.ranges) > STAGED_RANGES_MAX:
            _, self.known_from = self.ranges.popitem(0)

    def trim(self) -> None:
        """Let go of everything before the first range that is still needed."""
        partitions = self.running.machine.partitions
        if not partitions.holds(self.staging):
            return
        start, end = partitions.bounds(self.staging)
        while self.ranges and self.ranges.peekitem(0)[0] < start:
            self.ranges.popitem(0)  # It has expired.
        before = self.ranges.peekitem(0)[0] if self.ranges else end
        if self.floors:
            before = min(before, self.floors[0])
        if start >= self.known_from and before > start:
            command = TrimPartition(partition=self.staging, before=before)
            self.running.submit(command, _ignore, Promise.COMMITTED)


def _ignore(_reply: Reply | PenstockError) -> None:
    """What is refused or lost is tried again with the next look."""
