"""Operations on the cluster as a whole, from any node: status, adding and removing nodes,
leadership transfer.

Asking changes what should be, in the catalog; the stewards of the shards then bring it about. A
node that is to go is first marked as leaving: it is placed nowhere any more, its shards move, and
when none of them counts it as a member the catalog's leader strikes it off. A node that is dead
goes the same way. Asked twice, nothing happens twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import NoneType

import msgspec

from penstock.core.errors import (
    InvalidRequest,
    MembershipRefused,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    UnknownNode,
)
from penstock.core.limits import CALL_SECONDS, TICK_MS
from penstock.core.retries import LEADER, POLL
from penstock.core.types import CATALOG_SHARD, NO_NODE, NodeId, ShardId
from penstock.engine.cluster.placement import led_by
from penstock.engine.cluster.status import (
    ClusterStatus,
    FollowerStatus,
    NodeHealth,
    NodeStatus,
    ShardStatus,
)
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog_commands import AddNode, DrainNode, PlaceShard
from penstock.machines.queues import NEWEST_QUEUES_VERSION
from penstock.machines.secrets import RECEIPTS

REMOVAL_SECONDS = 20.0
LAG_ENTRIES_MAX = 10_000
SILENCE_TICKS_MAX = 20


class TransferShard(msgspec.Struct, frozen=True, array_like=True):
    """Hand the leadership of a shard over to a node."""

    shard: ShardId
    target: NodeId


class DescribeShard(msgspec.Struct, frozen=True, array_like=True):
    """Asks the leader of a shard how the shard stands."""

    shard: ShardId


SHARD = RemoteCall("shard", DescribeShard, ShardStatus)
TRANSFER = RemoteCall("transfer", TransferShard, NoneType)


class Cluster:
    """The cluster as an operator sees it."""

    def __init__(
        self,
        topics: Topics,
        shards: LocalShards,
        calls: RemoteCalls,
        listen: Callable[[], Awaitable[None]],
    ) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls
        self._listen = listen

    # Change.

    async def add_node(self, node: NodeId, peer: str) -> None:
        """Let a node join; it comes in when it is started with an empty directory. A node that was
        alone opens its peer port for it."""
        if node < 1:
            raise InvalidRequest(f"node ids start at 1; {node} is not one")
        await self._listen()
        await self._topics.change_catalog(AddNode(node=node, peer=peer))

    async def remove_node(self, node: NodeId) -> bool:
        """Let a node go; True if it is gone already, False if its shards are still moving."""
        catalog = self._topics.catalog
        if node in catalog.retired:
            return True
        if node not in catalog.nodes:
            raise UnknownNode(f"there is no node {node}")
        staying = [one for one, record in catalog.nodes.items() if not record.leaving]
        if staying == [node]:
            raise MembershipRefused(f"node {node} is the last one; stop it instead")
        await self._change(DrainNode(node=node))
        retries = self._topics.retrier.within(REMOVAL_SECONDS, LEADER)
        while node not in self._topics.catalog.retired:
            if not await retries.pause():
                return False
        return True

    async def transfer(
        self, shard: ShardId, target: NodeId, *, seconds: float = CALL_SECONDS
    ) -> None:
        """Make a node lead a shard, now and whenever it can.

        The node believed to be the leader may lead no more, or not yet: it is asked again, or
        the leader by then, for this many seconds."""
        topics = self._topics
        if shard not in topics.shards():
            raise InvalidRequest(f"there are shards 0 to {len(topics.shards()) - 1}, not {shard}")
        holders = topics.replicas(shard)
        if target not in holders:
            places = " ".join(map(str, holders))
            raise InvalidRequest(f"node {target} does not hold shard {shard}; nodes {places} do")
        if shard != CATALOG_SHARD:
            await self._change(PlaceShard(shard=shard, nodes=led_by(target, holders)))
        retries = topics.retrier.within(seconds, LEADER)
        while True:
            try:
                await self._ask_to_hand_over(shard, target)
            except Unavailable as error:
                if not await retries.pause(error):
                    raise
            else:
                return

    async def _change(self, command: DrainNode | PlaceShard) -> None:
        """Make a change that may be made twice: if the leader goes meanwhile, and the
        outcome is unknown, the next one is asked."""
        retries = self._topics.retrier.within(REMOVAL_SECONDS, LEADER)
        while True:
            try:
                await self._topics.change_catalog(command)
            except OutcomeUnknown as error:
                if not await retries.pause(error):
                    raise
            else:
                return

    async def _ask_to_hand_over(self, shard: ShardId, target: NodeId) -> None:
        if self._topics.leader(shard).node != target:
            await self._calls.ask_leader(shard, TRANSFER, TransferShard(shard, target))

    async def transfer_here(self, asked: TransferShard) -> None:
        """Hand over a shard that this node leads."""
        running = self._shards.get(asked.shard)
        if running is None or not running.replica.leads:
            raise Unavailable(f"node {self._topics.node_id} does not lead shard {asked.shard} now")
        running.replica.transfer(asked.target)

    async def hand_over_everything(self, seconds: float) -> None:
        """Before a stop: transfer what this node leads, as far as another member can lead it."""
        heirs: dict[ShardId, NodeId] = {}
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is None or not running.replica.leads:
                continue
            fit = fit_to_lead(running) & self._topics.alive()
            if fit:
                preferred = [node for node in self._topics.replicas(shard) if node in fit]
                heirs[shard] = preferred[0] if preferred else min(fit)
                try:
                    running.replica.transfer(heirs[shard])
                except PenstockError:
                    del heirs[shard]  # It has become unfit this moment; the others will elect.
        retries = self._topics.retrier.within(seconds, POLL)
        while any(map(self._leads, heirs)) and await retries.pause():
            pass

    def _leads(self, shard: ShardId) -> bool:
        running = self._shards.get(shard)
        return running is not None and running.replica.leads

    # Look.

    async def status(self) -> ClusterStatus:
        """Everything worth a look; shards are asked of their leaders."""
        topics = self._topics
        shards = await asyncio.gather(*(self.shard(ShardId(one)) for one in topics.shards()))
        catalog, alive = topics.catalog, topics.alive()
        nodes = tuple(
            NodeStatus(
                node=node,
                alive=node in alive,
                leaving=record.leaving,
                peer=record.peer,
                kafka=record.kafka,
                http=record.http,
                leads=sum(shard.leader == node and not shard.read_only for shard in shards),
                holds=sum(node in shard.voters + shard.learners for shard in shards),
            )
            for node, record in sorted(catalog.nodes.items())
        )
        return ClusterStatus(
            cluster_id=topics.cluster_id,
            node=topics.node_id,
            controller=topics.controller(),
            read_only=any(shard.read_only for shard in shards),
            health=_sentence(nodes, shards),
            nodes=nodes,
            shards=tuple(shards),
            topics=len(catalog.topics),
            partitions=sum(len(topic.partitions) for topic in catalog.topics.values()),
        )

    async def shard(self, shard: ShardId) -> ShardStatus:
        """A shard as its leader sees it; as this node does if the leader cannot be asked."""
        try:
            return await self._calls.ask_leader(shard, SHARD, DescribeShard(shard))
        except PenstockError:  # What is known here is better than nothing.
            return self.local_shard(shard)

    async def shard_here(self, asked: DescribeShard) -> ShardStatus:
        """A shard as this node sees it, for other nodes."""
        return self.local_shard(asked.shard)

    def local_shard(self, shard: ShardId) -> ShardStatus:
        """A shard as this node sees it."""
        topics = self._topics
        leader = topics.leader(shard)
        running = self._shards.get(shard)
        if running is None:
            return ShardStatus(
                shard=shard, leader=leader.node, term=leader.term, placed=topics.replicas(shard)
            )
        replica = running.replica
        raft, log = replica.raft, replica.log.statistics()
        followers = raft.progress() if replica.leads else ()
        return ShardStatus(
            shard=shard,
            leader=leader.node,
            term=raft.term,
            placed=topics.replicas(shard),
            voters=raft.membership.voters,
            learners=raft.membership.learners,
            commit=raft.commit,
            partitions=len(running.machine.log_starts()),
            size_bytes=log.size_bytes,
            full=log.full,
            read_only=topics.is_read_only(shard),
            leads_here=replica.leads,
            followers=tuple(
                FollowerStatus(
                    node=view.node,
                    state=view.state.value,
                    lag_entries=max(0, raft.last_index - view.match),
                    silent_ms=view.silence * TICK_MS,
                    damaged=view.damaged,
                )
                for view in followers
            ),
            state_bytes=sum(used for used, _ in running.state_use().values()),
            state_share=running.state_share(),
            snapshot_failure=replica.snapshot_failure,
        )

    def health(self) -> NodeHealth:
        """The health of this node."""
        problems: list[str] = []
        warnings: list[str] = []
        read_only = False
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is None:
                problems.append(f"shard {shard} is being opened again")
                continue
            status = self.local_shard(shard)
            read_only = read_only or status.read_only
            if status.read_only:
                problems.append(f"shard {shard} has lost its majority: reads only")
            elif status.leader == NO_NODE:
                problems.append(f"shard {shard} has no leader")
            elif status.leader == self._topics.node_id and not status.leads_here:
                problems.append(f"shard {shard} is led here and catches up with what came before")
            if status.full:
                # Readers are served, and queues worked off: that is how there is room again.
                warnings.append(f"shard {shard}: the disk is full, appends are refused")
            if running.replica.log.quarantine is not None:
                problems.append(f"shard {shard} is damaged and being repaired")
        problems += [
            f"the queues of shard {shard} change to the rules of this version"
            for shard in self.queues_behind()
        ]
        if not self._topics.catalog.shards:
            problems.append("the catalog is not there yet")
        elif RECEIPTS not in self._topics.catalog.secrets:
            problems.append("the cluster has no key for receipts yet")
        return NodeHealth(
            ready=not problems,
            problems=tuple(problems),
            warnings=tuple(warnings),
            read_only=read_only,
        )

    def queues_behind(self) -> list[ShardId]:
        """The shards of a cluster of one whose queues follow the rules of an older version for a
        few more milliseconds. Clients should not see the change. In a cluster of several nodes it
        waits for the last node to be upgraded, and on a full disk for space."""
        if self._topics.catalog.nodes.keys() != {self._topics.node_id}:
            return []
        return [
            shard
            for shard in self._shards
            if shard != CATALOG_SHARD
            and (running := self._shards.get(shard)) is not None
            and running.machine.queues.version < NEWEST_QUEUES_VERSION
            and not self.local_shard(shard).full
        ]


def fit_to_lead(running: Shard) -> set[NodeId]:
    """The followers that could take over at once."""
    raft = running.replica.raft
    return {
        view.node
        for view in raft.progress()
        if view.node in raft.membership.voters
        and view.silence < SILENCE_TICKS_MAX
        and not view.damaged
        and raft.last_index - view.match <= LAG_ENTRIES_MAX
    }


def _sentence(nodes: Iterable[NodeStatus], shards: Iterable[ShardStatus]) -> str:
    everyone = list(nodes)
    alive = {node.node for node in everyone if node.alive}
    text = f"{len(alive)} of {len(everyone)} nodes"
    stuck = [str(shard.shard) for shard in shards if shard.read_only]
    lost = [str(shard.shard) for shard in shards if shard.leader not in alive]
    if stuck:
        return f"{text}, shards {' '.join(stuck)} are read-only: no majority"
    if lost:
        return f"{text}, shards {' '.join(lost)} have no leader"
    return f"{text}, all leaders settled"
