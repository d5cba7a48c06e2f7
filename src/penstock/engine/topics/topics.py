"""Topics and their logs: create, configure, produce, read, and find out where each shard lives.

A call about one partition runs on the node that leads its shard; elsewhere it raises `NotLeader`,
which names the node to ask. A call about the cluster as a whole (topics, configurations, members)
can be made on any node: see `peers.forwarder`.

Reading is synchronous and touches only what is committed. Writing returns a future; the order of
calls is the order of offsets.

Read-only mode. When a shard has no leader for some seconds, its replicas cannot find a majority.
What is committed can still be read: the lowest of the replicas that are left serves as if it led,
and every write is refused with `NotEnoughReplicas` until there is a leader again.

Long because front-ends use topics through this one class.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.clock import Clock, MovableClock
from penstock.core.errors import (
    InvalidTopicName,
    NotEnoughReplicas,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    TopicExists,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)
from penstock.core.internal_topics import PROTECTED_TOPICS, check_unprotected
from penstock.core.limits import PARTITIONS_ALLOWED, TOPIC_PARTITIONS_ALLOWED
from penstock.core.partition_bounds import check_all_partitions, check_topic_partitions
from penstock.core.records import stamp_append_time
from penstock.core.retries import POLL, Retrier
from penstock.core.topic import Topic
from penstock.core.topic_configs import Durability, catalog_version_of
from penstock.core.types import (
    CATALOG_SHARD,
    NO_NODE,
    NO_TOPIC_ID,
    NodeId,
    Offset,
    PartitionId,
    ProducerId,
    ShardId,
    Term,
    TopicId,
)
from penstock.engine.peers.calls import RemoteCalls
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.peers.leaders import NOBODY, Leader, Leaders
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.admission import Admission, check_header
from penstock.engine.topics.catalog_versions import CatalogVersions
from penstock.engine.topics.long_polls import LongPolls, Watch
from penstock.engine.topics.queue_bounds import QueueBounds
from penstock.engine.topics.queue_upkeep import write_rules, write_work_rules
from penstock.engine.topics.slow_requests import SlowRequests
from penstock.engine.topics.traffic import INTERNAL, Flow, Traffic
from penstock.machines.catalog import Catalog, NodeRecord, ProducerIds, TopicReply
from penstock.machines.catalog_commands import (
    AddPartitions,
    CatalogCommand,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    TakeProducerIds,
)
from penstock.machines.commands import TrimPartition
from penstock.machines.machine import Appended, Reply
from penstock.machines.partitions import AppendBatch, Bounds, PartitionTrimmed
from penstock.machines.secrets import RECEIPTS
from penstock.storage import ShardLog

PRODUCER_IDS_TAKEN = 1_000
"""How many producer ids a node takes from the catalog at once."""
CUT_OFF_TICKS = 5
"""A shard without a leader for this long should have elected one: half a second."""
READ_ONLY_TICKS = 30
"""A shard without a leader for this long is served read-only: three seconds."""
CATALOG_WAIT_SECONDS = 5.0


class Acks(IntEnum):
    """Kafka's `acks`: how much must have happened before a produce is answered."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Produced(NamedTuple):
    """Where a batch went."""

    base_offset: Offset
    log_append_ms: int
    """The time that was put into the batch; -1 if the producer's own counts."""
    log_start: Offset


_Counted = tuple[Flow, str, int]
"""As what a batch is counted: the traffic of which front-end, to which topic, how many bytes."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may change about topics and readers."""

    default_partitions: int = 4
    topic_partitions_max: int = TOPIC_PARTITIONS_ALLOWED
    partitions_max: int = PARTITIONS_ALLOWED
    """Of all topics together."""
    auto_create_topics: bool = True


_PROMISES = {
    (Acks.ALL, Durability.REPLICATED): Promise.COMMITTED,
    (Acks.LEADER, Durability.REPLICATED): Promise.DURABLE,
    (Acks.ALL, Durability.DISK): Promise.WRITTEN,
    (Acks.LEADER, Durability.DISK): Promise.WRITTEN,
}


class Topics:
    """The topics of the cluster, as one node serves them."""

    def __init__(
        self,
        node_id: NodeId,
        cluster_id: str,
        data_shards: int,
        *,
        shards: LocalShards,
        leaders: Leaders,
        forwarder: Forwarder,
        calls: RemoteCalls,
        alive: Callable[[], frozenset[NodeId]],
        clock: Clock,
        retrier: Retrier,
        settings: EngineSettings,
        directory: str,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.clock = clock
        self.retrier = retrier
        self.settings = settings
        self.directory = directory
        self.alive = alive
        self.waiting = LongPolls()
        self.traffic = Traffic()
        self._own_flow = self.traffic.of(INTERNAL)
        self._clock_is_moved = isinstance(clock, MovableClock)
        self.slow_requests = SlowRequests(shards, clock)
        self.admission = Admission()
        self.catalog_versions = CatalogVersions(
            node_id,
            calls,
            catalog=lambda: self.catalog,
            change=self.change_catalog,
            wait_seen=self.wait_seen,
        )
        self._data_shards = data_shards
        self._shards = shards
        self._leaders = leaders
        self._forwarder = forwarder
        self._queue_bounds = QueueBounds()
        self._producer_ids: tuple[int, int] = (0, 0)
        self._producer_ids_lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    # What is where.

    @property
    def catalog(self) -> Catalog:
        """This node's copy, perhaps a moment behind the leader's."""
        running = self._shards.get(CATALOG_SHARD)
        if running is None:
            raise NotLeader("the catalog of this node is not open: the node starts or stops")
        return running.machine.catalog

    def shard_of(self, partition: PartitionId) -> ShardId:
        """Where a partition lives."""
        return ShardId(1 + partition % self._data_shards)

    def group_shard(self, group: str) -> ShardId:
        """Where a consumer group lives."""
        return ShardId(1 + crc32c(group.encode()) % self._data_shards)

    def shards(self) -> range:
        """All shards of the cluster, the catalog's included."""
        return range(self._data_shards + 1)

    def leader(self, shard: ShardId) -> Leader:
        """The leader, as far as it is known; in read-only mode the replica that serves readers."""
        running = self._shards.get(shard)
        if running is None:
            heard = self._leaders.get(shard)
            return heard if heard.node in self.alive() else NOBODY
        raft = running.replica.raft
        if raft.leader != NO_NODE:
            return Leader(raft.leader, raft.term)
        if self.is_read_only(shard):
            stand_ins = sorted(self.alive() & set(self.replicas(shard)))
            return Leader(stand_ins[0] if stand_ins else self.node_id, raft.term)
        return NOBODY

    def is_cut_off(self) -> bool:
        """A shard of this node has had no leader for longer than an election takes. Perhaps there
        is none; perhaps it is only this node that does not hear it."""
        return any(self._shards.leaderless_ticks(shard) >= CUT_OFF_TICKS for shard in self._shards)

    def is_read_only(self, shard: ShardId) -> bool:
        """The shard has a replica here and has been without a leader for long."""
        return self._shards.leaderless_ticks(shard) >= READ_ONLY_TICKS

    def replicas(self, shard: ShardId) -> tuple[NodeId, ...]:
        """The nodes that should hold a shard, the one that should lead first."""
        if shard == CATALOG_SHARD:
            return tuple(sorted(self.catalog.nodes))
        return self.catalog.placement.get(shard, ())

    def node(self, node: NodeId) -> NodeRecord | None:
        """A member of the cluster."""
        return self.catalog.nodes.get(node)

    def controller(self) -> NodeId:
        """The node that leads the catalog; this one while none is known."""
        return self.leader(CATALOG_SHARD).node or self.node_id

    # Topics.

    async def create_topic(
        self,
        name: str,
        partitions: int | None,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
        internal: bool = False,
    ) -> Topic:
        """Make a topic; returns when its partitions can be written and this node knows it. Topics
        that the cluster keeps for itself are `internal`: clients cannot make or change them."""
        command = CreateTopic(
            name=name,
            topic_id=TopicId(secrets.token_bytes(16)),
            partitions=self.settings.default_partitions if partitions is None else partitions,
            configs=dict(configs),
        )
        if not internal and name in PROTECTED_TOPICS:
            raise InvalidTopicName(f"{name} is the name of a topic that the cluster makes itself")
        self.catalog.check(command)
        if not internal:
            self._check_allowed(name, command.partitions, command.partitions)
        version = catalog_version_of(command.configs)
        await self.catalog_versions.require(version, dry_run=validate_only)
        if validate_only:
            numbers = range(command.partitions)
            return Topic(
                name=name,
                topic_id=command.topic_id,
                partitions=tuple(map(PartitionId, numbers)),
                configs=dict(configs),
                created_ms=self.clock.wall_ms(),
            )
        try:
            topic = await self._change_topic(command)
        except OutcomeUnknown:
            topic = await self._create_again(command)
        await self._ensure_partitions(topic)
        if topic.settings.queue.is_queue:
            await self._write_rules(topic, topic.partitions)
        return topic

    def _check_allowed(self, name: str, total: int, new: int) -> None:
        check_topic_partitions(name, total, self.settings.topic_partitions_max)
        check_all_partitions(self.catalog.partition_count, new, self.settings.partitions_max)

    async def _create_again(self, command: CreateTopic) -> Topic:
        """The id is ours alone: asked again, the topic is either made or found to be there."""
        try:
            return await self._change_topic(command)
        except TopicExists:
            found = self.catalog.topic_by_id(command.topic_id)
            if found is None:
                raise
            return found

    async def delete_topic(self, name: str, topic_id: TopicId = NO_TOPIC_ID) -> Topic:
        """Remove a topic with everything in it; with an id, only if it is still that topic."""
        check_unprotected(name)
        return await self._change_topic(DeleteTopic(name=name, topic_id=topic_id))

    async def add_partitions(
        self, name: str, total: int, *, validate_only: bool = False, internal: bool = False
    ) -> Topic:
        """Give a topic more partitions, `total` in all."""
        command = AddPartitions(name=name, total=total)
        if not internal:
            check_unprotected(name)
        self.catalog.check(command)
        if not internal:
            self._check_allowed(name, total, total - len(self.topic(name).partitions))
        if validate_only:
            return self.topic(name)
        before = len(self.topic(name).partitions)
        topic = await self._change_topic(command)
        await self._ensure_partitions(topic)
        if topic.settings.queue.is_queue:
            await self._write_rules(topic, topic.partitions[before:])
        return topic

    async def configure_topic(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Topic:
        """Change configurations; None takes one back to its default."""
        check_unprotected(name)
        command = ConfigureTopic(name=name, changes=dict(changes))
        self.catalog.check(command)
        before = self.topic(name)
        await self.catalog_versions.require(catalog_version_of(changes), dry_run=validate_only)
        if validate_only:
            return before
        topic = await self._change_topic(command)
        if topic.settings.queue != before.settings.queue:
            await self._write_rules(topic, topic.partitions)
        return topic

    def topic(self, name: str) -> Topic:
        """A topic by name, or `UnknownTopic`."""
        found = self.catalog.topic(name)
        if found is None:
            raise UnknownTopic(f"there is no topic {name}")
        return found

    async def change_catalog(self, command: CatalogCommand) -> Reply:
        """Change the catalog, wherever it is led."""
        return await self._forwarder.change(CATALOG_SHARD, command)

    async def _change_topic(self, command: CatalogCommand) -> Topic:
        """Change a topic, and wait until this node's copy shows it, so that the caller's next
        question finds it."""
        reply = await self.change_catalog(command)
        assert isinstance(reply, TopicReply), f"{command} was answered with {reply}"
        topic = reply.topic
        wanted = None if isinstance(command, DeleteTopic) else topic
        await self.wait_seen(lambda: self.catalog.topic_by_id(topic.topic_id) == wanted)
        return topic

    async def wait_seen(self, is_there: Callable[[], bool]) -> None:
        """Wait, though not for ever, until this node's copy of the catalog shows a change."""
        retries = self.retrier.within(CATALOG_WAIT_SECONDS, POLL)
        while not is_there():
            if not await retries.pause():
                return

    async def _ensure_partitions(self, topic: Topic) -> None:
        """Make the partitions in their shards now; their leaders would do it a moment later."""
        by_shard: dict[ShardId, list[PartitionId]] = {}
        for partition in topic.partitions:
            by_shard.setdefault(self.shard_of(partition), []).append(partition)
        await self._forwarder.make_all_partitions(by_shard, seconds=CATALOG_WAIT_SECONDS)

    async def _write_rules(self, topic: Topic, partitions: Iterable[PartitionId]) -> None:
        """Let a queue's rules be in force now; its shards' leaders would see to it later."""
        change = partial(self._forwarder.change, seconds=CATALOG_WAIT_SECONDS)
        await write_rules(topic, partitions, change, self.shard_of)
        await self.write_work_rules([topic])

    async def write_work_rules(self, topics: Iterable[Topic]) -> None:
        """Let the settings of work groups be in force now on partitions that are led here; the
        leaders of the others see to it within a tick."""
        for topic in topics:
            for partition in topic.partitions:
                running = self._shards.get(self.shard_of(partition))
                if running is not None and running.replica.leads:
                    await write_work_rules(running, self.catalog, topic, partition)

    # Messages.

    def produce(
        self,
        topic: Topic,
        index: int,
        batch: bytearray | memoryview,
        acks: Acks,
        flow: Flow | None = None,
        *,
        is_sound: bool = False,
    ) -> "asyncio.Future[Produced]":
        """Append a record batch, which is stamped in place: the caller gives the buffer away. It is
        counted as the traffic of the given front-end, or as our own. The records of a batch that
        was built here are known to be sound, and are not checked again."""
        future: asyncio.Future[Produced] = self._loop.create_future()
        try:
            if topic.name in PROTECTED_TOPICS and flow not in (None, self._own_flow):
                check_unprotected(topic.name)
            partition = partition_of(topic, index)
            shard = self._led(self.shard_of(partition))
            check_header(topic, batch, None if self._clock_is_moved else self.clock.wall_ms())
            counted = flow or self._own_flow, topic.name, len(batch)
            if self.admission.check_now(partition, topic.settings, batch, is_sound=is_sound):
                self._append(topic, partition, shard, batch, acks, counted, future)
            else:
                append = partial(self._append, topic, partition, shard, batch, acks, counted)
                admitted = partial(_append_admitted, append, future)
                self.admission.check_later(partition, topic.settings, batch, admitted)
        except PenstockError as error:
            future.set_exception(error)
        return future

    def producers_ms(self) -> int | None:
        """The time that those of messages are compared with; None for a clock that is moved by
        hand, which is not the clock of producers."""
        return None if self._clock_is_moved else self.clock.wall_ms()

    def _append(
        self,
        topic: Topic,
        partition: PartitionId,
        shard: Shard,
        batch: bytearray | memoryview,
        acks: Acks,
        counted: _Counted,
        future: "asyncio.Future[Produced]",
    ) -> None:
        """Append a batch whose records were checked."""
        settings = topic.settings
        log_append_ms = -1
        if settings.log_append_time:
            log_append_ms = self.clock.wall_ms()
            stamp_append_time(batch, log_append_ms)
        self._check_insync(shard, settings.insync_min, acks)
        if settings.queue.refuses_when_full:
            self._queue_bounds.check(shard, partition, settings.queue, batch)
            self._queue_bounds.watch(partition, len(batch), future)
        promise = _PROMISES.get((acks, settings.durability), Promise.PLANNED)
        answer = partial(_settle_produce, future, shard, log_append_ms, counted)
        if shard.submit(AppendBatch(partition, batch), answer, promise):
            self.waiting.pre_acquire(partition, batch)

    def read(self, topic: Topic, index: int, offset: Offset, bytes_max: int) -> bytes:
        """Committed batches from the one that holds `offset` on."""
        return self.read_stretch(topic, index, offset, bytes_max)[0]

    def read_stretch(
        self, topic: Topic, index: int, offset: Offset, bytes_max: int
    ) -> tuple[bytes, Offset]:
        """The same, and the offset behind the last message of it."""
        partition = partition_of(topic, index)
        running = self._readable(self.shard_of(partition))
        if not running.replica.leads and offset > running.machine.bounds(partition).high_watermark:
            return b"", offset  # A stand-in may be behind: what it misses is not out of range.
        return running.replica.fetch_stretch(partition, offset, bytes_max)

    def bounds(self, topic: Topic, index: int) -> Bounds:
        """Log start and high watermark."""
        partition = partition_of(topic, index)
        return self._readable(self.shard_of(partition)).machine.bounds(partition)

    async def confirm(self, topic: Topic, index: int) -> None:
        """Return when this node is sure to lead the partition and to be up to date."""
        shard = self.shard_of(partition_of(topic, index))
        running = self._readable(shard)
        if running.replica.leads:
            await running.wait_current()

    def offset_for_time(
        self, topic: Topic, index: int, timestamp_ms: int
    ) -> tuple[Offset, int] | None:
        """The first batch with this time or a later one: its base offset and highest time."""
        partition = partition_of(topic, index)
        found = self._log_with(partition).offset_for_time(partition, timestamp_ms)
        bounds = self.bounds(topic, index)
        if found is None or found[0] >= bounds.high_watermark:
            return None
        return max(found[0], bounds.log_start), found[1]

    def epoch_of(self, topic: Topic, index: int, offset: Offset) -> Term | None:
        """The term in which a message was written; None if it is not there."""
        partition = partition_of(topic, index)
        found = self._log_with(partition).entry_of(partition, offset)
        return None if found is None else found[1]

    def _log_with(self, partition: PartitionId) -> ShardLog:
        return self._readable(self.shard_of(partition)).replica.log

    def partition_bytes(self, topic: Topic, index: int) -> int:
        """What a partition takes on this node's disk; 0 if it is not here."""
        partition = partition_of(topic, index)
        running = self._shards.get(self.shard_of(partition))
        if running is None:
            return 0
        bounds = running.machine.bounds(partition)
        return running.replica.log.partition_bytes(partition, bounds.log_start)

    def watch(self, partitions: Iterable[PartitionId], wake: Callable[[], None]) -> Watch:
        """Call back when one of these partitions may have more to read."""
        return self.waiting.watch(partitions, wake)

    async def trim(self, topic: Topic, index: int, before: Offset) -> Offset:
        """Delete what is before an offset (-1: everything); returns the log start."""
        partition = partition_of(topic, index)
        running = self._led(self.shard_of(partition))
        if before == -1:
            before = running.machine.bounds(partition).high_watermark
        reply = await running.change(TrimPartition(partition=partition, before=before))
        assert isinstance(reply, PartitionTrimmed), f"a trim was answered with {reply}"
        return reply.log_start

    def close(self) -> None:
        """Batches that are still being checked are refused."""
        self.admission.close()

    async def new_producer_id(self) -> ProducerId:
        """An id no producer ever had."""
        async with self._producer_ids_lock:
            first, end = self._producer_ids
            if first == end:
                reply = await self.change_catalog(TakeProducerIds(count=PRODUCER_IDS_TAKEN))
                assert isinstance(reply, ProducerIds), f"producer ids were answered with {reply}"
                first, end = reply.first, reply.first + reply.count
            self._producer_ids = (first + 1, end)
            return ProducerId(first)

    def receipt_key(self) -> bytes:
        """What receipts are signed with, the same on every node."""
        key = self.catalog.secrets.get(RECEIPTS)
        if key is None:
            raise Unavailable("this cluster has no key for receipts yet; try again in a second")
        return key

    # Who may.

    def led_shard(self, partition: PartitionId) -> Shard:
        """The shard of a partition, if this node leads it; `NotLeader` otherwise."""
        return self._led(self.shard_of(partition))

    def _led(self, shard: ShardId) -> Shard:
        running = self._shards.get(shard)
        if running is not None and running.replica.leads:
            return running
        if self.is_read_only(shard):
            raise NotEnoughReplicas(
                f"shard {shard} has lost its majority: it can be read and not written until more of"
                f" nodes {' '.join(map(str, self.replicas(shard)))} are back"
            )
        leader = self.leader(shard).node
        raise NotLeader(f"this node does not lead shard {shard}", leader=leader)

    def _readable(self, shard: ShardId) -> Shard:
        running = self._shards.get(shard)
        if running is not None:
            if running.replica.leads:
                return running
            if self.is_read_only(shard) and self.leader(shard).node == self.node_id:
                return running
        leader = self.leader(shard).node
        raise NotLeader(f"this node does not lead shard {shard}", leader=leader)

    def _check_insync(self, shard: Shard, wanted: int, acks: Acks) -> None:
        """`min.insync.replicas` above what a commit needs anyway is looked for before writing."""
        if wanted <= 1 or acks is not Acks.ALL:
            return
        raft = shard.replica.raft
        if wanted <= len(raft.membership.voters) // 2 + 1:
            return
        heard = sum(view.silence < READ_ONLY_TICKS for view in raft.progress())
        if heard + 1 < wanted:
            raise NotEnoughReplicas(
                f"{heard + 1} replicas are in touch, min.insync.replicas asks for {wanted}"
            )


def partition_of(topic: Topic, index: int) -> PartitionId:
    """A partition of a topic by its index, or `UnknownPartition`."""
    if not 0 <= index < len(topic.partitions):
        raise UnknownPartition(
            f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {index}"
        )
    return topic.partitions[index]


def _append_admitted(
    append: "Callable[[asyncio.Future[Produced]], None]",
    future: "asyncio.Future[Produced]",
    problem: PenstockError | None,
) -> None:
    """Append a batch whose check took longer, unless it is refused."""
    try:
        if problem is not None:
            raise problem
        append(future)
    except PenstockError as error:
        if not future.done():  # Otherwise the caller has gone away.
            future.set_exception(error)


def _settle_produce(
    future: "asyncio.Future[Produced]",
    shard: Shard,
    log_append_ms: int,
    counted: _Counted,
    reply: Reply | PenstockError,
) -> None:
    if isinstance(reply, Appended):
        flow, name, size = counted
        flow.produced(name, reply.end_offset - reply.base_offset, size)
        if future.done():  # The caller has gone away.
            return
        try:
            start = shard.machine.bounds(reply.partition).log_start
        except UnknownPartition:  # Deleted since.
            start = reply.base_offset
        future.set_result(Produced(reply.base_offset, log_append_ms, start))
    elif future.done():
        return
    elif isinstance(reply, PenstockError):
        future.set_exception(reply)
    else:
        raise AssertionError(f"a produce was answered with {reply}")
