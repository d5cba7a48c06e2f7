"""A reconciler: the leader of a shard brings it to the state that the catalog wants.

    the catalog's leader     founds the catalog; draws its secrets; takes every node in; places
                             shards anew when nodes have come or gone
    a data shard's leader    makes and removes partitions as the catalog says; brings the shard's
                             members to where it is placed; hands over to the preferred leader;
                             forgets producers and offsets that have no more use; keeps the queues
                             going (`queue_upkeep`)
    every replica            follows the topics' configurations: retention, compaction

The catalog says what should be, the shards are what is. A steward looks at both now and then and
takes one step from the second to the first. Steps are commands like any other, refused or lost
without harm: it looks again. So no step needs to be remembered, and a new leader goes on where the
old one stopped.

A partition that is in a shard and not in the catalog was deleted, but only if its number was given
out as far as this node's copy of the catalog knows: otherwise the copy is behind.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Set

from penstock.core.entries import Membership
from penstock.core.errors import PenstockError
from penstock.core.internal_topics import STAGING_TOPIC
from penstock.core.limits import PRODUCER_EXPIRY_MS
from penstock.core.topic import Topic
from penstock.core.types import CATALOG_SHARD, NodeId, PartitionId, ShardId, TopicId
from penstock.engine.cluster.administration import Cluster
from penstock.engine.cluster.placement import balance, catalog_members, found, next_step
from penstock.engine.groups.groups import Groups
from penstock.engine.peers.forwarder import make_partitions
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.retention import RetentionPolicy
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.queue_upkeep import QueueUpkeep
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import Catalog, NodeRecord
from penstock.machines.catalog_commands import (
    FoundCluster,
    KeepSecret,
    PlaceShard,
    RemoveNode,
)
from penstock.machines.commands import DeletePartition, ExpireProducers
from penstock.machines.secrets import RECEIPTS
from penstock.raft.progress import ProgressState
from penstock.storage import CompactionPolicy

LOOK_TICKS = 10
HAND_OVER_TICKS = 100
"""The time after which a leader hands over to the preferred one: ten seconds."""
EXPIRY_TICKS = 6_000
CAUGHT_UP_ENTRIES = 1_000
SILENCE_TICKS_MAX = 10
SECRET_BYTES = 32
_ENDLESS_MS = (1 << 63) - 1


class Stewardship:
    """The steward of all shards of one node; `tick` it with them."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        cluster: Cluster,
        shards: LocalShards,
        founders: dict[NodeId, NodeRecord],
        announce: Callable[[str], None],
        knows_queues: Callable[[], Set[NodeId]],
    ) -> None:
        """`founders` as they are known when a cluster is made; none for a node that joined.
        `knows_queues`: the other nodes that know the newest version of queues."""
        self._topics = topics
        self._groups = groups
        self._cluster = cluster
        self._shards = shards
        self._founders = founders
        self._announce = announce
        self._ticks = 0
        self._led_ticks: dict[ShardId, int] = {}
        self._tended: dict[ShardId, tuple[int, Shard]] = {}
        self._followed: dict[ShardId, tuple[int, Shard]] = {}
        self._policies: dict[ShardId, dict[str, Topic]] = {}
        self._gone_topics: dict[ShardId, set[TopicId]] = {}
        self._tasks: dict[ShardId, asyncio.Task[None]] = {}
        self._queue_upkeep = QueueUpkeep(
            lambda: topics.catalog,
            topics.shard_of,
            topics.clock,
            self._all_know_queues,
        )
        self._knows_queues = knows_queues
        self._closed = False

    def _all_know_queues(self) -> bool:
        """Whether every node of the cluster knows the newest version of queues."""
        nodes = self._topics.catalog.nodes.keys()
        me = self._topics.node_id
        return me in nodes and nodes - {me} <= self._knows_queues()

    def tick(self) -> None:
        """A tick of the node's clock has passed."""
        if self._closed:
            return
        self._ticks += 1
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is None:
                continue
            self._follow_configurations(shard, running)
            if not running.replica.leads:
                self._led_ticks.pop(shard, None)
                continue
            self._led_ticks[shard] = self._led_ticks.get(shard, 0) + 1
            if shard != CATALOG_SHARD:
                self._queue_upkeep.tick(shard, running)
            if self._is_due(shard, running):
                self._begin(shard, running)

    def lead_catalog(self) -> None:
        """Begin at once when this node becomes the leader of the catalog, so that a new cluster
        need not wait for a tick."""
        running = self._shards.get(CATALOG_SHARD)
        if running is not None and not self._closed:
            self._begin(CATALOG_SHARD, running)

    def _begin(self, shard: ShardId, running: Shard) -> None:
        if shard not in self._tasks:
            self._tasks[shard] = asyncio.create_task(self._tend(shard, running))

    async def close(self) -> None:
        """Stop all tasks."""
        self._closed = True
        for task in list(self._tasks.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def _is_due(self, shard: ShardId, running: Shard) -> bool:
        led = self._led_ticks[shard]
        new = self._tended.get(shard) != (self._topics.catalog.revision, running)
        return led == 1 or new or (self._ticks + shard) % LOOK_TICKS == 0

    async def _tend(self, shard: ShardId, running: Shard) -> None:
        try:
            if shard == CATALOG_SHARD:
                await self._tend_catalog(running)
            else:
                await self._tend_data(shard, running)
        except PenstockError as error:
            # Refused or lost: it is looked at again. Worth a line only if it keeps happening.
            if self._led_ticks.get(shard, 0) > HAND_OVER_TICKS:
                self._announce(f"shard {shard} could not be tended: {error}")
        finally:
            del self._tasks[shard]

    # The catalog.

    async def _tend_catalog(self, running: Shard) -> None:
        catalog = running.machine.catalog
        if catalog.shards == 0:
            if not self._founders:
                return
            await running.change(self._foundation())
            catalog = running.machine.catalog
        if RECEIPTS not in catalog.secrets:
            drawn = secrets.token_bytes(SECRET_BYTES)
            await running.change(KeepSecret(name=RECEIPTS, secret=drawn))
        voters = running.replica.raft.membership.voters
        staying = {node: one for node, one in catalog.nodes.items() if not one.leaving}
        # A node votes when it has shown its disk: before, it could be swapped unnoticed.
        unseen = {node for node, one in staying.items() if not one.incarnation}
        target = catalog_members(staying, voters, unseen)
        await self._step_towards(running, target)
        placed = {node for holders in catalog.placement.values() for node in holders}
        # Founders that have not come up yet keep their places; the others must show up first.
        usable = {
            node
            for node, record in catalog.nodes.items()
            if not record.leaving and (record.incarnation or node in placed)
        }
        change = balance(catalog.placement, usable)
        if change is not None:
            shard, nodes = change
            await running.change(PlaceShard(shard=shard, nodes=nodes))
            self._announce(f"shard {shard} is placed on nodes {' '.join(map(str, nodes))}")
        for node, record in catalog.nodes.items():
            if record.leaving and node not in placed:
                await self._strike_off(running, node)
                return

    async def _strike_off(self, running: Shard, node: NodeId) -> None:
        """Remove a node that is leaving, once no data shard counts it as a member."""
        for number in self._topics.shards()[1:]:
            status = await self._cluster.shard(ShardId(number))
            if not status.leads_here or node in status.voters + status.learners:
                return  # Not heard from its leader, or not gone yet.
        await running.change(RemoveNode(node=node))
        self._announce(f"node {node} has left the cluster")

    def _foundation(self) -> FoundCluster:
        shards = len(self._topics.shards()) - 1
        placement = found(shards, self._founders)
        return FoundCluster(
            shards=shards,
            nodes=tuple((node, one.peer) for node, one in sorted(self._founders.items())),
            incarnations=tuple(
                (node, one.incarnation) for node, one in sorted(self._founders.items())
            ),
            placement=tuple(sorted(placement.items())),
        )

    # Data.

    async def _tend_data(self, shard: ShardId, running: Shard) -> None:
        catalog = self._topics.catalog
        revision = catalog.revision
        if self._tended.get(shard) != (revision, running) or self._led_ticks.get(shard, 0) <= 1:
            await self._tend_partitions(shard, running, catalog)
            await self._forget_topics(shard, running)
            self._tended[shard] = (revision, running)
        await self._queue_upkeep.tend(shard, running)
        if self._led_ticks.get(shard, 0) % EXPIRY_TICKS == EXPIRY_TICKS - 1:
            before_ms = self._topics.clock.wall_ms() - PRODUCER_EXPIRY_MS
            await running.change(ExpireProducers(before_ms=max(0, before_ms)))
        placed = catalog.placement.get(shard)
        if placed:
            if not await self._step_towards(running, Membership(tuple(sorted(placed)))):
                self._hand_over(shard, running, placed[0])

    async def _tend_partitions(self, shard: ShardId, running: Shard, catalog: Catalog) -> None:
        there = running.machine.log_starts().keys()
        wanted = set(self._partitions_of(shard, catalog.topics.values()))
        await make_partitions(running, sorted(wanted - there))
        gone = [number for number in sorted(there - wanted) if number < catalog.next_partition]
        await asyncio.gather(
            *(running.change(DeletePartition(partition=number)) for number in gone),
            return_exceptions=True,
        )

    def _partitions_of(self, shard: ShardId, topics: Iterable[Topic]) -> Iterable[PartitionId]:
        shard_of = self._topics.shard_of
        for topic in topics:
            for partition in topic.partitions:
                if shard_of(partition) == shard:
                    yield partition

    async def _forget_topics(self, shard: ShardId, running: Shard) -> None:
        coordinator = self._groups.coordinators.get(shard)
        if coordinator is None or not running.replica.leads:
            return
        # Only topics that were seen here and are gone: a copy that is behind misses others.
        gone = self._gone_topics.pop(shard, set())
        if gone:
            await coordinator.forget_topics(sorted(gone))

    # Members.

    async def _step_towards(self, running: Shard, target: Membership) -> bool:
        """Take one step; True if one was taken or is still needed."""
        raft = running.replica.raft
        current = raft.membership
        if (current.voters, current.learners) == (target.voters, target.learners):
            return False
        step = next_step(
            current, target, me=self._topics.node_id, caught_up=self._caught_up(running)
        )
        if isinstance(step, Membership):
            await running.change_members(step)
            self._announce(f"shard {running.shard} has {step.describe()}")
        elif step is not None:
            running.replica.transfer(step)
        return True

    def _caught_up(self, running: Shard) -> set[NodeId]:
        raft = running.replica.raft
        return {
            view.node
            for view in raft.progress()
            if view.state is ProgressState.REPLICATE
            and view.silence < SILENCE_TICKS_MAX
            and not view.damaged
            and raft.last_index - view.match <= CAUGHT_UP_ENTRIES
        }

    def _hand_over(self, shard: ShardId, running: Shard, preferred: NodeId) -> None:
        if preferred == self._topics.node_id or preferred not in self._topics.alive():
            return
        if self._led_ticks.get(shard, 0) < HAND_OVER_TICKS:
            return
        if preferred in self._caught_up(running):
            self._announce(f"shard {shard} is handed over to node {preferred}, which should lead")
            self._led_ticks[shard] = 0
            running.replica.transfer(preferred)

    # Configurations.

    def _follow_configurations(self, shard: ShardId, running: Shard) -> None:
        """Give every partition of a shard the policies its topic asks for."""
        catalog = self._topics.catalog
        if self._followed.get(shard) == (catalog.revision, running):
            return
        if self._followed.get(shard, (0, None))[1] is not running:
            self._policies[shard] = {}
        self._followed[shard] = (catalog.revision, running)
        if shard == CATALOG_SHARD:
            return
        known = self._policies[shard]
        for name, topic in catalog.topics.items():
            before = known.get(name)
            if before is not topic:
                known[name] = topic
                self._set_policies(shard, running, topic)
                if before is not None and before.topic_id != topic.topic_id:
                    self._forget_topic(shard, running, before)
        for name in known.keys() - catalog.topics.keys():
            self._forget_topic(shard, running, known.pop(name))

    def _forget_topic(self, shard: ShardId, running: Shard, topic: Topic) -> None:
        self._gone_topics.setdefault(shard, set()).add(topic.topic_id)
        for partition in self._partitions_of(shard, [topic]):
            running.replica.retention.set_policy(partition, None)
            running.replica.compaction.set_policy(partition, None)

    def _set_policies(self, shard: ShardId, running: Shard, topic: Topic) -> None:
        settings = topic.settings
        retention = compaction = None
        if settings.deletes and topic.name != STAGING_TOPIC:  # See `staging`.
            retention = RetentionPolicy(
                age_ms=settings.retention_ms, size_bytes=settings.retention_bytes
            )
        if settings.compacts:
            compaction = CompactionPolicy(
                min_lag_ms=settings.min_compaction_lag_ms,
                max_lag_ms=_unless_endless(settings.max_compaction_lag_ms),
                delete_retention_ms=settings.delete_retention_ms,
                dirty_ratio=settings.min_cleanable_dirty_ratio,
            )
        for partition in self._partitions_of(shard, [topic]):
            running.replica.retention.set_policy(partition, retention)
            running.replica.compaction.set_policy(partition, compaction)


def _unless_endless(duration_ms: int) -> int | None:
    """Kafka writes "never" as the largest number there is."""
    return duration_ms if duration_ms < _ENDLESS_MS else None
