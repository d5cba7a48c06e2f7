"""The shards this node holds: opened, ticked together, restarted when they halt, closed.

A shard halts when its disk breaks a promise or a file proves damaged. It is then opened again,
which verifies what the disk really holds: damage puts it into quarantine and the leader repairs it.
A cluster of one has no leader to repair it, so opening raises and the node ends with the reason. If
opening keeps failing elsewhere, it is tried again, at growing intervals: the other replicas serve
meanwhile.
"""

import asyncio
import os
from collections.abc import Callable, Iterator

import msgspec

from penstock.core.clock import Clock
from penstock.core.entries import Membership
from penstock.core.errors import PenstockError
from penstock.core.limits import DELIVERY_HISTORY_BYTES_MAX, SHARD_STATE_BYTES_MAX
from penstock.core.retries import REPAIR, Retrier
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.engine.replica.network import Network, PeerMessage
from penstock.engine.replica.shard import Shard, ShardSettings
from penstock.machines.machine import Effect
from penstock.raft import RaftNode
from penstock.storage import Disk, Identity, LogSettings

PREFIX = "shard-"


class ShardHooks(msgspec.Struct, frozen=True, kw_only=True):
    """The callbacks for events in a shard."""

    on_opened: Callable[[ShardId, Shard], None]
    on_effect: Callable[[ShardId, Effect], None]
    on_leadership: Callable[[ShardId, bool], None]
    on_failed: Callable[[PenstockError], None]
    announce: Callable[[str], None]


class LocalShards:
    """All shards of this node."""

    def __init__(
        self,
        directory: str,
        *,
        cluster_id: str,
        node: NodeId,
        network: Callable[[ShardId], Network],
        clock: Clock,
        retrier: Retrier,
        disk: Disk,
        log: LogSettings,
        hooks: ShardHooks,
        history_bytes: int = DELIVERY_HISTORY_BYTES_MAX,
        state_bytes_max: int = SHARD_STATE_BYTES_MAX,
    ) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._node = node
        self._network = network
        self._clock = clock
        self._retrier = retrier
        self._disk = disk
        self._log = log
        self._hooks = hooks
        self._history_bytes = history_bytes
        self._state_bytes_max = state_bytes_max
        self._shards: dict[ShardId, Shard] = {}
        self._supervisors: dict[ShardId, asyncio.Task[None]] = {}
        self._leaderless: dict[ShardId, int] = {}

    def __iter__(self) -> Iterator[ShardId]:
        return iter(sorted(self._supervisors))

    def get(self, shard: ShardId) -> Shard | None:
        """The running shard; None if it is not here, or is just being opened again."""
        return self._shards.get(shard)

    def holds(self, shard: ShardId) -> bool:
        """This node has the shard, running or not."""
        return shard in self._supervisors

    def on_disk(self) -> list[ShardId]:
        """The shards whose directories are there, open or not."""
        if not self._disk.exists(self._directory):
            return []
        names = [name.removeprefix(PREFIX) for name in self._disk.list(self._directory)]
        found = sorted(ShardId(int(name)) for name in names if name.isdecimal())
        # A shard that has moved away leaves an empty directory behind.
        return [shard for shard in found if self._disk.list(self._path(shard))]

    def raft(self, shard: ShardId) -> RaftNode | None:
        """What this node knows of who takes part in a shard and who leads it."""
        running = self._shards.get(shard)
        return running.replica.raft if running is not None else None

    def leads(self, shard: ShardId) -> bool:
        """This node leads it, and has applied everything that was committed before its term."""
        running = self._shards.get(shard)
        return running is not None and running.replica.leads

    def leaderless_ticks(self, shard: ShardId) -> int:
        """For how many ticks it has had no known leader."""
        return self._leaderless.get(shard, 0)

    async def open(self, shard: ShardId, members: Membership) -> None:
        """Open a shard and keep it open; `members` are its founders, none for one that joins."""
        assert shard not in self._supervisors, f"shard {shard} is open"
        self._shards[shard] = await self._start(shard, members)
        self._supervisors[shard] = asyncio.create_task(self._supervise(shard, members))

    async def drop(self, shard: ShardId) -> None:
        """Close a shard that lives elsewhere now, and remove its files."""
        await self._close(shard)
        await asyncio.to_thread(_remove_files, self._disk, self._path(shard))

    def receive(self, shard: ShardId, message: PeerMessage) -> None:
        """A peer's message for one of our shards; for others it is dropped, as by a network."""
        running = self._shards.get(shard)
        if running is not None:
            running.replica.receive(message)

    def tick(self) -> None:
        """Time passes for all of them at once, so that their heartbeats leave together."""
        for shard, running in list(self._shards.items()):
            running.tick()
            lost = running.replica.raft.leader == NO_NODE
            self._leaderless[shard] = self._leaderless.get(shard, 0) + 1 if lost else 0

    async def close(self) -> None:
        """Stop all in good order."""
        await asyncio.gather(*(self._close(shard) for shard in list(self._supervisors)))

    def abandon(self) -> None:
        """Stop all as a crash would; the loop may have ended."""
        for running in self._shards.values():
            running.abandon()
            running.replica.log.close()
        self._shards.clear()

    async def _close(self, shard: ShardId) -> None:
        supervisor = self._supervisors.pop(shard)
        supervisor.cancel()
        await asyncio.wait([supervisor])
        # It still hears its peers while it closes: what is under way may need their answers.
        running = self._shards.get(shard)
        if running is not None:
            await running.close()
            del self._shards[shard]

    def _path(self, shard: ShardId) -> str:
        return os.path.join(self._directory, f"{PREFIX}{shard}")

    async def _start(self, shard: ShardId, members: Membership) -> Shard:
        hooks = self._hooks
        running = await Shard.open(
            ShardSettings(
                directory=self._path(shard),
                identity=Identity(self._cluster_id, shard, self._node),
                members=members,
                log=self._log,
                tick_ms=None,
                history_bytes=self._history_bytes,
                state_bytes_max=self._state_bytes_max,
            ),
            self._network(shard),
            clock=self._clock,
            disk=self._disk,
            on_effect=lambda effect: hooks.on_effect(shard, effect),
            on_leadership=lambda leads: hooks.on_leadership(shard, leads),
            announce=lambda line: hooks.announce(f"shard {shard} {line}"),
        )
        hooks.on_opened(shard, running)
        return running

    async def _supervise(self, shard: ShardId, members: Membership) -> None:
        retries = self._retrier.endless(REPAIR)
        while True:
            began = self._retrier.now()
            await asyncio.shield(self._shards[shard].halted)
            halted = self._shards.pop(shard)
            halted.abandon()
            halted.replica.log.close()
            # What halts again at once, as on a disk that stays full, is opened less and less often.
            if self._retrier.now() - began > REPAIR.longest:
                retries.reset()
            while shard not in self._shards:
                await retries.pause()
                try:
                    self._shards[shard] = await self._start(shard, members)
                except PenstockError as error:
                    self._hooks.announce(f"shard {shard} cannot be opened: {error}")
                    if members.voters == (self._node,):
                        self._hooks.on_failed(error)
                        return


def _remove_files(disk: Disk, directory: str) -> None:
    """Remove what is in a shard's directory; nothing that storage makes is a directory."""
    for name in disk.list(directory):
        disk.remove(os.path.join(directory, name))
    disk.sync_directory(directory)
