"""A consistent cut of the cluster: an entry in every shard, such that nothing before them depends
on anything after them.

Shards are logs of their own, and time passes between looking at one and at the next. A consumer
writes a result to one shard and then commits its offset in another; a dead letter is appended in
one and then struck off in another. Copies of the two taken at different times could show the second
step and not the first, and a restored cluster would have lost a message that was acknowledged.

So every leader is asked to hold: to propose nothing, while what is under way goes on. When all of
them hold, each names the last entry of its log and confirms that it still leads (Raft §6.4). Then
they are released. It takes some milliseconds, in which requests wait and none is refused.

Why that is enough. Let a be an entry after the cut of its shard, and b one that a client sent
because a was acknowledged. a was proposed after its leader was released, and a leader is released
only when all have named their entry; b came later still, so b is after the cut of its shard, too.
A leader that was replaced meanwhile cannot confirm, and one that was held too long says so: then
there is no cut, and the caller tries again.

A leader lets go by itself after `HOLD_TICKS`, whatever becomes of the node that asked it to hold.
"""

import asyncio
import secrets
from types import NoneType

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.limits import CUT_CALL_SECONDS
from penstock.core.retries import POLL
from penstock.core.types import NO_NODE, Index, NodeId, ShardId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics

HOLD_TICKS = 10
ARRIVE_SECONDS = 4.0
ATTEMPTS_MAX = 7


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of the cluster, as a node that has everything up to it tells it."""

    cluster_id: str
    node: NodeId
    shards: dict[ShardId, Index]
    """The last entry of every shard of the cluster."""
    here: tuple[ShardId, ...]
    """The shards of which this node has everything up to the cut on its disk."""
    held_ms: int
    """The time for which requests had to wait."""


class ShardHold(msgspec.Struct, frozen=True, array_like=True):
    """The shards that one cut holds on one leader."""

    holder: str
    shards: list[ShardId]


HOLD = RemoteCall("hold", ShardHold, NoneType, CUT_CALL_SECONDS)
MARK = RemoteCall("mark", ShardHold, dict[ShardId, Index], CUT_CALL_SECONDS)
RELEASE = RemoteCall("release", ShardHold, NoneType, CUT_CALL_SECONDS)


class Cuts:
    """Makes cuts, for one node, and takes part in those of others."""

    def __init__(
        self, topics: Topics, shards: LocalShards, calls: RemoteCalls, clock: Clock
    ) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls
        self._clock = clock

    async def cut(self) -> Cut:
        """A moment, once everything up to it is on this node's disk as far as it holds the shards.

        Raises `Unavailable` if the cluster does not stand still enough for one."""
        retries = self._topics.retrier.times(ATTEMPTS_MAX)
        while True:
            try:
                return await self._cut()
            except PenstockError as error:
                # A leader is just being elected, or another backup is at it.
                if not await retries.pause(error):
                    raise

    async def _cut(self) -> Cut:
        begun = self._clock.monotonic_ms()
        marks = await self._mark_all()
        held_ms = self._clock.monotonic_ms() - begun
        return Cut(
            cluster_id=self._topics.cluster_id,
            node=self._topics.node_id,
            shards=marks,
            here=await self._wait_here(marks),
            held_ms=held_ms,
        )

    async def _mark_all(self) -> dict[ShardId, Index]:
        leaders: dict[NodeId, list[ShardId]] = {}
        for number in self._topics.shards():
            shard = ShardId(number)
            leader = self._topics.leader(shard).node
            if leader == NO_NODE:
                raise Unavailable(f"shard {shard} has no leader now; try again")
            leaders.setdefault(leader, []).append(shard)
        holder = secrets.token_hex(8)
        holds = [(node, ShardHold(holder, some)) for node, some in leaders.items()]
        ask = self._calls.ask_node
        try:
            await asyncio.gather(*(ask(node, HOLD, hold) for node, hold in holds))
            answers = await asyncio.gather(*(ask(node, MARK, hold) for node, hold in holds))
        finally:
            # A leader that does not hear it lets go by itself.
            await asyncio.gather(
                *(ask(node, RELEASE, hold) for node, hold in holds), return_exceptions=True
            )
        return {shard: index for answer in answers for shard, index in answer.items()}

    async def _wait_here(self, marks: dict[ShardId, Index]) -> tuple[ShardId, ...]:
        """Until this node's disk has it all, committed and durable."""
        retries = self._topics.retrier.within(ARRIVE_SECONDS, POLL)
        here = [shard for shard in marks if self._shards.holds(shard)]
        for shard in here:
            while not self._has(shard, marks[shard]):
                if not await retries.pause():
                    raise Unavailable(
                        f"node {self._topics.node_id} is behind: it does not have entry"
                        f" {marks[shard]} of shard {shard} yet; back up another node, or try again"
                    )
        return tuple(here)

    def _has(self, shard: ShardId, index: Index) -> bool:
        running = self._shards.get(shard)
        if running is None or running.replica.log.quarantine is not None:
            return False
        replica = running.replica
        return min(replica.applied_index, replica.log.durable_index) >= index

    # Leaders.

    async def hold_here(self, asked: ShardHold) -> None:
        """Propose nothing in these shards until they are released."""
        for shard in asked.shards:
            self._led(shard).replica.hold(asked.holder, HOLD_TICKS)

    async def mark_here(self, asked: ShardHold) -> dict[ShardId, Index]:
        """The last entry of each shard, once this node has confirmed that it still leads."""
        marks: dict[ShardId, Index] = {}
        for shard in asked.shards:
            running = self._led(shard)
            marks[shard] = running.replica.raft.last_index
            await running.wait_current()
            if not running.replica.is_held_by(asked.holder):
                raise Unavailable(f"shard {shard} was held for too long; try again")
        return marks

    async def release_here(self, asked: ShardHold) -> None:
        """Release the shards, which continue."""
        for shard in asked.shards:
            running = self._shards.get(shard)
            if running is not None:
                running.replica.release(asked.holder)

    def _led(self, shard: ShardId) -> Shard:
        running = self._shards.get(shard)
        if running is None or not running.replica.leads:
            raise Unavailable(f"node {self._topics.node_id} does not lead shard {shard} now")
        return running
