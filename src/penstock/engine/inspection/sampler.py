"""Counts what this node leads, for the watch of the cluster, and asks the other nodes.

Counting takes a few microseconds for each work group; with a thousand queues that is too long for
a loop that has messages to serve. So it is done in slices, and one sample serves all requests
for a while: for a second, and for longer if it took long.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from types import NoneType

from penstock.core.errors import UnknownPartition
from penstock.core.limits import SAMPLE_CALL_SECONDS, TICK_MS
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import NO_NODE, NodeId, Offset, PartitionId, ShardId, TopicId
from penstock.core.version import __version__
from penstock.engine.delivery.oldest_message import OldestMessages
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.groups.groups import Groups
from penstock.engine.groups.lag import GroupOffsets, Lag
from penstock.engine.inspection.host import disk_bytes, memory_bytes, memory_bytes_max
from penstock.engine.inspection.samples import (
    FollowerSample,
    GroupSample,
    MachineSample,
    NodeSample,
    QueueSample,
    ShardSample,
    TopicSample,
    WorkCounts,
)
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.replica.time_slices import TimeSlices
from penstock.engine.topics.topics import Topics
from penstock.machines.work import WorkGroup

SAMPLE = RemoteCall("sample", NoneType, NodeSample, SAMPLE_CALL_SECONDS, is_reply_kept=True)
FRESH_MS = 1_000
SHARE_MAX = 0.01
"""Of the time that making samples may take."""

_QueueKey = tuple[TopicId, str]


class Sampler:
    """Samples of this node, and of all others by asking."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        shards: LocalShards,
        calls: RemoteCalls,
        delivery: DeliveryService,
        lag: Lag,
    ) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls
        self._coordination = groups
        self._delivery = delivery
        self._lag = lag
        self._oldest = OldestMessages()
        self._life = os.urandom(8).hex()
        self._began_ms = topics.clock.monotonic_ms()
        self._sample: NodeSample | None = None
        self._made_ms = 0
        self._fresh_ms = FRESH_MS
        self._making = asyncio.Lock()
        self._slices = TimeSlices()
        self._letters_known: tuple[int, frozenset[str]] = (-1, frozenset())

    @property
    def spent_seconds(self) -> float:
        """The time this node has spent on samples."""
        return self._slices.spent_seconds

    # Asked of any node.

    async def everywhere(self) -> tuple[list[NodeSample], list[NodeId]]:
        """Return the samples of all nodes, and the nodes that did not answer."""
        nodes = sorted(node for node in self._topics.catalog.nodes if node != self._topics.node_id)
        mine, answers = await asyncio.gather(
            self.here(fresh=True), self._calls.ask_each(SAMPLE, dict.fromkeys(nodes))
        )
        return [mine, *answers.replies.values()], sorted(answers.failures)

    async def sample_here(self, _asked: None) -> NodeSample:
        """A sample of this node for another one."""
        return await self.here()

    async def here(self, *, fresh: bool = False) -> NodeSample:
        """Return the sample of this node; it may be a little old unless `fresh` is set."""
        async with self._making:
            now_ms = self._topics.clock.monotonic_ms()
            if self._sample is None or fresh or now_ms - self._made_ms >= self._fresh_ms:
                before = self.spent_seconds
                self._sample = await self._make()
                self._made_ms = self._topics.clock.monotonic_ms()
                cost_ms = 1_000 * (self.spent_seconds - before)
                self._fresh_ms = max(FRESH_MS, int(cost_ms / SHARE_MAX))
            return self._sample

    # Counting.

    async def _make(self) -> NodeSample:
        self._slices.begin()
        self._oldest.begin()
        began_ms = self._topics.clock.monotonic_ms()
        letters = self._letters()
        queues: dict[_QueueKey, _Sum] = {}
        topics: dict[TopicId, TopicSample] = {}
        shards: list[ShardSample] = []
        for shard, running in self._led():
            shards.append(_shard_sample(shard, running))
            async for partition, topic in self._partitions(running):
                try:
                    self._count(running, partition, topic, queues, topics, letters)
                except UnknownPartition:
                    continue  # Deleted since.
        self._oldest.end()
        self._delivery.receivers.forget_others(set(queues), before_ms=began_ms)
        groups = await self._groups()
        sample = NodeSample(
            self._topics.node_id,
            self._life,
            self._machine(),
            [self._queue_sample(key, total) for key, total in queues.items()],
            groups,
            list(topics.values()),
            shards,
        )
        self._slices.end()
        return sample

    def _letters(self) -> frozenset[str]:
        """The names of all dead-letter queues."""
        catalog = self._topics.catalog
        if self._letters_known[0] != catalog.revision:
            names = {one.settings.queue.dead_letter_topic for one in catalog.topics.values()}
            self._letters_known = (catalog.revision, frozenset(names))
        return self._letters_known[1]

    async def _partitions(self, running: Shard) -> AsyncIterator[tuple[PartitionId, Topic]]:
        """The partitions of a shard, and time for others now and then."""
        owner = self._topics.catalog.owner
        for number, partition in enumerate(list(running.machine.log_starts())):
            found = owner(partition)
            if found is not None:
                yield partition, found[0]
            if number % 16 == 15:
                await self._slices.let_others()

    def _count(
        self,
        running: Shard,
        partition: PartitionId,
        topic: Topic,
        queues: dict[_QueueKey, "_Sum"],
        topics: dict[TopicId, TopicSample],
        letters: frozenset[str],
    ) -> None:
        start, end = running.machine.bounds(partition)
        key = topic.topic_id
        before = topics.get(key)
        topics[key] = (
            TopicSample(key, 1, start, end)
            if before is None
            else TopicSample(key, before.partitions + 1, before.starts + start, before.ends + end)
        )
        groups = running.machine.queues.groups(partition)
        if not groups and (topic.settings.queue.is_queue or topic.name in letters):
            queues.setdefault((key, DEFAULT_WORK_GROUP), _Sum()).add_unopened(
                partition, end - start
            )
        now_ms = self._topics.clock.wall_ms()
        for name, work in groups.items():
            total = queues.get((key, name))
            if total is None:
                total = queues[key, name] = _Sum()
            if total.add(partition, work, end):
                sent_ms = self._oldest.time_ms(running, partition, name, work)
                if sent_ms >= 0:
                    total.oldest_age_ms = max(total.oldest_age_ms, now_ms - sent_ms, 0)

    def _queue_sample(self, key: _QueueKey, total: "_Sum") -> QueueSample:
        receivers = self._delivery.receivers
        return QueueSample(
            key[0],
            key[1],
            tuple(total.partitions),
            WorkCounts(*total.counts),
            total.oldest_age_ms,
            receivers.silent_ms(key),
            receivers.present(key),
        )

    async def _groups(self) -> list[GroupSample]:
        """The samples of consumer groups. The end offsets that only other nodes know are awaited,
        which costs no processor time."""
        groups: list[GroupOffsets] = []
        for coordinator in self._coordination.led_coordinators():
            groups += self._lag.offsets_of(coordinator)
            await self._slices.let_others()
        wanted = {topic.partitions[index] for group in groups for topic, index, _ in group.offsets}
        self._slices.end()
        ends = await self._lag.ends(list(wanted)) if wanted else {}
        self._slices.begin()
        found = []
        for group in groups:
            found.append(_group_sample(group, ends))
            await self._slices.let_others()
        return found

    def _machine(self) -> MachineSample:
        total, free = disk_bytes(self._topics.directory)
        held = [running for shard in self._shards if (running := self._shards.get(shard))]
        return MachineSample(
            __version__,
            self._topics.clock.monotonic_ms() - self._began_ms,
            total,
            free,
            sum(running.replica.log.statistics().size_bytes for running in held),
            memory_bytes(),
            memory_bytes_max(),
            len(held),
            max((running.state_share() for running in held), default=0.0),
        )

    def _led(self) -> Iterator[tuple[ShardId, Shard]]:
        for shard in list(self._shards):
            running = self._shards.get(shard)
            if running is not None and running.replica.leads:
                yield shard, running


class _Sum:
    """A work group, partition by partition."""

    __slots__ = ("counts", "oldest_age_ms", "partitions")

    def __init__(self) -> None:
        self.partitions: list[PartitionId] = []
        self.counts = [0] * _COUNTS
        self.oldest_age_ms = -1

    def add(self, partition: PartitionId, work: WorkGroup, end: Offset) -> bool:
        """Add a partition; return True if it has remaining work."""
        self.partitions.append(partition)
        tally, activity = work.tally, work.activity
        ready, leased, delayed = work.ready, work.leased, work.delayed
        numbers = [
            ready, leased, delayed, work.dead, end - work.opened,
            activity.acked, activity.moved, activity.expired,
            activity.delivered, activity.redelivered, activity.failed,
            activity.discarded + sum(activity.dead.values()), tally.moved,
        ]  # fmt: skip
        if len(self.partitions) == 1:
            self.counts = numbers
        else:
            self.counts = [one + more for one, more in zip(self.counts, numbers, strict=True)]
        return bool(ready or leased or delayed)

    def add_unopened(self, partition: PartitionId, messages: int) -> None:
        """No receiver has asked yet: everything in the log is there to be delivered."""
        self.partitions.append(partition)
        self.counts[0] += messages
        self.counts[4] += messages


_COUNTS = len(WorkCounts.__struct_fields__)


def _group_sample(group: GroupOffsets, ends: Mapping[PartitionId, Offset]) -> GroupSample:
    sums: dict[TopicId, list[int]] = {}
    for topic, index, committed in group.offsets:
        known = sums.setdefault(topic.topic_id, [0, 0, 0, 0])
        end = ends.get(topic.partitions[index])
        known[0] += 0 if end is None else max(0, end - committed)
        known[1] += committed
        known[2] += 1
        known[3] += end is None
    return GroupSample(
        group.group,
        group.state,
        group.members,
        tuple(
            (topic_id, lag, committed, partitions, not missing)
            for topic_id, (lag, committed, partitions, missing) in sums.items()
        ),
    )


def _shard_sample(shard: ShardId, running: Shard) -> ShardSample:
    raft, log = running.replica.raft, running.replica.log.statistics()
    return ShardSample(
        shard,
        raft.term,
        raft.commit,
        raft.membership.voters,
        log.full,
        log.size_bytes,
        tuple(
            FollowerSample(
                view.node,
                max(0, raft.last_index - view.match),
                view.silence * TICK_MS,
                view.state.value,
            )
            for view in raft.progress()
            if view.node != NO_NODE
        ),
    )
