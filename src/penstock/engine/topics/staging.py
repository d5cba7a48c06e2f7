"""Staged messages: appended to partitions that are not read, until they are published or expire.

One internal topic has a partition in every data shard. What is meant for a partition is staged in
the shard of that partition: to publish it is then the business of one leader, which reads its own
log and writes its own log.

Staged messages take room, so they go as soon as they can. Nothing else trims a staging partition
(stewardship leaves it alone): the leader does, by what it remembers of its own term.

    what was staged with it           stays until it is released, that is published; everything
                                      before the first range that is left goes
    what was there before             stays until its time is over, whatever became of it
    what a publication has checked    stays for a day more, or until it is published: a decided
                                      batch must find what it consists of

The time that messages may wait is the internal topic's retention.ms, counted from when they were
staged, or from when this node began to lead: longer, then, and never shorter. Their own times do
not count, for these may be years old.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from sortedcontainers import SortedDict, SortedList

from penstock.core.errors import PenstockError, TopicExists, Unavailable
from penstock.core.internal_topics import STAGING_TOPIC, check_unprotected
from penstock.core.limits import (
    BATCH_BYTES_MAX,
    STAGED_CHECKED_MS,
    STAGED_MS,
    STAGED_RANGES_MAX,
)
from penstock.core.records import stamp_append_time
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, ShardId
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.admission import check_header
from penstock.engine.topics.part_copy import Range, expired, foreign, mark_staged, not_whole
from penstock.engine.topics.topics import Topics, partition_of
from penstock.machines.commands import TrimPartition
from penstock.machines.machine import Reply
from penstock.machines.publication_commands import PublishedPart

TRIM_TICKS = 10
MARKS = 60
"""The number of steps into which the waiting time is divided; messages expire step by step."""

PublicationKey = tuple[str, int]
"""An application and the number of its batch."""


class StagedBatch(NamedTuple):
    """The place of a staged batch: its target partition, its staging partition, and its offsets
    there."""

    partition: PartitionId
    staging: PartitionId
    first: Offset
    end: Offset


class Staging:
    """For one node: the staging partitions of the shards that it leads."""

    def __init__(self, topics: Topics, shards: LocalShards) -> None:
        self._topics = topics
        self._shards = shards
        self._open: dict[ShardId, StagingIndex] = {}
        self._ticks = 0

    async def stage(self, topic: Topic, index: int, batch: memoryview) -> StagedBatch:
        """Append a batch for a partition that this node leads, to be published later. It is
        stamped in place: the caller gives the buffer away."""
        topics = self._topics
        check_unprotected(topic.name)
        partition = partition_of(topic, index)
        running = topics.led_shard(partition)
        check_header(topic, batch, topics.producers_ms())
        await topics.admission.check(topic.settings, batch)
        if topic.settings.log_append_time:
            stamp_append_time(batch, topics.clock.wall_ms())
        mark_staged(batch, partition)
        shard = topics.shard_of(partition)
        staging = await self._partition(shard)
        staged = self._staged(shard, running, staging)
        floor = staged.begin()
        try:
            appended = await running.append(staging, batch)
            staged.add(appended.base_offset, appended.end_offset, partition)
        finally:
            staged.end(floor)
        return StagedBatch(partition, staging, appended.base_offset, appended.end_offset)

    def staged(self, part: PublishedPart) -> "StagingIndex":
        """Return the leader's index of the staging partition of a part."""
        topics = self._topics
        shard = topics.shard_of(part.partition)
        staging = self._find(shard)
        if staging != part.staging:
            if part.staging >= topics.catalog.next_partition:
                raise Unavailable("this node does not know the staging topic yet")
            raise expired(part)
        return self._staged(shard, topics.led_shard(part.partition), staging)

    def release(self, part: PublishedPart, publication: PublicationKey) -> None:
        """The part was published and is not needed again."""
        staged = self._open.get(self._topics.shard_of(part.partition))
        if staged is not None and staged.staging == part.staging:
            staged.release(part.ranges, publication)

    def tick(self) -> None:
        """A tick of the node's clock has passed: let go of what was published, or expired."""
        self._ticks += 1
        if self._ticks % TRIM_TICKS:
            return
        topic = self._topics.catalog.topic(STAGING_TOPIC)
        for shard in () if topic is None else self._topics.shards()[1:]:
            running = self._shards.get(ShardId(shard))
            staging = self._find(ShardId(shard))
            if running is None or not running.replica.leads or staging is None:
                self._open.pop(ShardId(shard), None)
            elif running.machine.partitions.holds(staging):
                assert topic is not None
                staged = self._staged(ShardId(shard), running, staging)
                staged.trim(self._topics.clock.monotonic_ms(), topic.settings.retention_ms)

    def _staged(self, shard: ShardId, running: Shard, staging: PartitionId) -> "StagingIndex":
        staged = self._open.get(shard)
        if staged is None or not staged.is_of(running, staging):
            now_ms = self._topics.clock.monotonic_ms()
            staged = self._open[shard] = StagingIndex(running, staging, now_ms)
        return staged

    def _find(self, shard: ShardId) -> PartitionId | None:
        """The staging partition of a shard, if there is one."""
        topic = self._topics.catalog.topic(STAGING_TOPIC)
        for partition in () if topic is None else topic.partitions:
            if self._topics.shard_of(partition) == shard:
                return partition
        return None

    async def _partition(self, shard: ShardId) -> PartitionId:
        """The staging partition of a shard; it is made when it is first needed."""
        if (found := self._find(shard)) is None:
            await self._make_topic()
            found = self._find(shard)
        if found is None:
            raise Unavailable(f"topic {STAGING_TOPIC} is being made")
        return found

    async def _make_topic(self) -> None:
        """Partitions are numbered one after the other, and go round the shards by their numbers:
        as many as there are shards are one in each."""
        topics = self._topics
        shards = len(topics.shards()) - 1
        there = topics.catalog.topic(STAGING_TOPIC)
        if there is not None:  # Another request has created it.
            total = len(there.partitions) + shards
            await topics.add_partitions(STAGING_TOPIC, total, internal=True)
            return
        configs = {"retention.ms": str(STAGED_MS), "max.message.bytes": str(BATCH_BYTES_MAX)}
        try:
            await topics.create_topic(STAGING_TOPIC, shards, configs, internal=True)
        except TopicExists:
            return


class StagingIndex:
    """The staged messages in one staging partition, as far as its leader knows them, in one
    term."""

    def __init__(self, running: Shard, staging: PartitionId, now_ms: int) -> None:
        self.staging = staging
        self._running = running
        self._term = running.replica.raft.term
        end = running.machine.partitions.planned_end(staging)
        self._known_from = end
        """Messages before this offset were staged under another leader, or forgotten: they
        expire."""
        self._ranges: SortedDict[Offset, tuple[Offset, PartitionId]] = SortedDict()
        """The ranges of staged messages, by start: the end and the target partition."""
        self._floors: SortedList[Offset] = SortedList()
        """Of the batches being appended: none of them will be below its floor."""
        self._checked: dict[PublicationKey, tuple[Offset, int]] = {}
        """From where on publications need what is here, and when they said so."""
        self._trimmed_to = Offset(0)
        self._marks: deque[tuple[int, Offset]] = deque([(now_ms, end)])
        """The end of the partition at different times."""

    def is_of(self, running: Shard, staging: PartitionId) -> bool:
        """Leadership may have moved to another node and back, between two looks: what was
        staged there in the meantime is not known here."""
        return (self._running, self.staging) == (running, staging) and (
            running.replica.raft.term == self._term
        )

    def begin(self) -> Offset:
        """A batch is about to be appended; its floor."""
        floor = self._running.machine.partitions.planned_end(self.staging)
        self._floors.add(floor)
        return floor

    def end(self, floor: Offset) -> None:
        """A batch was appended, or not."""
        self._floors.remove(floor)

    def add(self, first: Offset, end: Offset, partition: PartitionId) -> None:
        """A batch is staged for a partition."""
        self._ranges[first] = end, partition
        if len(self._ranges) > STAGED_RANGES_MAX:
            _, (self._known_from, _) = self._ranges.popitem(0)

    def verify(self, part: PublishedPart) -> tuple[Range, ...]:
        """Raise what is wrong with the ranges of a part, so far as that is known here; what must be
        looked up in the log."""
        start, end = self._running.machine.partitions.bounds(self.staging)
        unknown = []
        for first, last in part.ranges:
            if first < max(start, self._trimmed_to) or last > end:
                raise expired(part)
            if first < self._known_from:
                unknown.append((first, min(last, self._known_from)))
            if last > self._known_from:
                self._verify_known(part, max(first, self._known_from), last)
        return tuple(unknown)

    def _verify_known(self, part: PublishedPart, position: Offset, end: Offset) -> None:
        while position < end:
            found = self._ranges.get(position)
            if found is None:
                before = self._ranges.bisect_left(position) - 1
                if before >= 0 and self._ranges.peekitem(before)[1][0] > position:
                    raise not_whole(part)
                raise expired(part)
            position, partition = found
            if partition != part.partition:
                raise foreign(part)
        if position > end:
            raise not_whole(part)

    def keep(self, part: PublishedPart, publication: PublicationKey, now_ms: int) -> None:
        """A publication may be decided from now on: keep what it needs."""
        first = min(first for first, _ in part.ranges)
        if first < self._trimmed_to:
            raise expired(part)
        kept = self._checked.get(publication, (first, now_ms))[0]
        self._checked[publication] = min(first, kept), now_ms

    def release(self, ranges: Iterable[Range], publication: PublicationKey) -> None:
        """Remove ranges that have been published."""
        self._checked.pop(publication, None)
        for first, end in ranges:
            for one in list(self._ranges.irange(first, end, (True, False))):
                del self._ranges[one]

    def trim(self, now_ms: int, keep_ms: int | None) -> None:
        """Let go of everything before the first range that is still needed."""
        start, end = self._running.machine.partitions.bounds(self.staging)
        if self._trimmed_to > start:
            return  # The last one is under way.
        while self._ranges and self._ranges.peekitem(0)[0] < start:
            self._ranges.popitem(0)  # It has expired.
        self._checked = {
            publication: (first, since_ms)
            for publication, (first, since_ms) in self._checked.items()
            if first >= start and now_ms - since_ms < STAGED_CHECKED_MS
        }
        before = Offset(0)
        if start >= self._known_from:
            before = self._ranges.peekitem(0)[0] if self._ranges else end
        before = max(before, self._expired_to(now_ms, keep_ms))
        needed = [first for first, _ in self._checked.values()] + list(self._floors[:1])
        before = min([before, end, *needed])
        if before > start:
            self._trimmed_to = before
            command = TrimPartition(partition=self.staging, before=before)
            self._running.submit(command, self._trimmed, Promise.COMMITTED)

    def _expired_to(self, now_ms: int, keep_ms: int | None) -> Offset:
        if keep_ms is None:
            return Offset(0)
        marks = self._marks
        if now_ms - marks[-1][0] >= keep_ms // MARKS:
            marks.append((now_ms, self._running.machine.partitions.planned_end(self.staging)))
        while len(marks) > 1 and now_ms - marks[1][0] >= keep_ms:
            marks.popleft()
        return marks[0][1] if now_ms - marks[0][0] >= keep_ms else Offset(0)

    def _trimmed(self, reply: Reply | PenstockError) -> None:
        if isinstance(reply, PenstockError):  # Refused or lost: it is tried with the next look.
            self._trimmed_to = Offset(0)
