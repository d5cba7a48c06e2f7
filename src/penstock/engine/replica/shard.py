"""One shard of this node, alive: a replica on an asyncio loop with real threads and a disk.

`Replica` decides and never waits; this module gives it a heartbeat (a timer), hands (two worker
threads) and a voice (futures). There is nothing here to prove, so keep it thin.

Several shards of one node are ticked together by the node, so that their heartbeats to a peer leave
in one frame; a shard that is alone ticks itself.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from functools import partial

import msgspec

from penstock.core.clock import Clock, SystemClock, precise_seconds
from penstock.core.entries import Membership
from penstock.core.errors import PenstockError
from penstock.core.limits import DELIVERY_HISTORY_BYTES_MAX, SHARD_STATE_BYTES_MAX, TICK_MS
from penstock.core.types import CATALOG_SHARD, Offset, PartitionId
from penstock.engine.replica.batcher import Answer, Promise
from penstock.engine.replica.delivery_history import DeliveryHistory
from penstock.engine.replica.environment import Environment, ReplicaSettings
from penstock.engine.replica.network import Network
from penstock.engine.replica.replica import Replica
from penstock.engine.replica.worker import ThreadWorker
from penstock.machines.machine import Appended, Effect, Reply, Request
from penstock.machines.partitions import AppendBatch
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.state_bytes import StateBudget, StateKind
from penstock.raft import RaftSettings
from penstock.storage import Disk, Identity, LogSettings, RealDisk, ShardLog

RETIRE_SECONDS_MAX = 10


class ShardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a shard lives and who shares it."""

    directory: str
    identity: Identity
    members: Membership
    """The founding members; once the log or a snapshot knows better, that counts."""
    log: LogSettings = LogSettings()
    snapshot_log_bytes: int | None = None
    tick_ms: int | None = TICK_MS
    """None: the owner calls `tick`."""
    history_bytes: int = DELIVERY_HISTORY_BYTES_MAX
    state_bytes_max: int = SHARD_STATE_BYTES_MAX

    @property
    def solo(self) -> bool:
        """A cluster of one has no other replica to repair it from."""
        return self.members.voters == (self.identity.node,)


class Shard:
    """A running replica; make one with `await Shard.open(...)`, end it with `await close()`."""

    def __init__(
        self,
        settings: ShardSettings,
        log: ShardLog,
        network: Network,
        *,
        clock: Clock,
        on_effect: Callable[[Effect], None],
        on_leadership: Callable[[bool], None],
        announce: Callable[[str], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self.shard = settings.identity.shard
        self.halted: asyncio.Future[BaseException] = self._loop.create_future()
        """Done when the replica has stopped for good, with the reason."""
        node = settings.identity.node
        name = f"penstock-{node}-{settings.identity.shard}"
        self._writer = ThreadWorker(f"{name}-writer", self._loop.call_soon_threadsafe)
        self._background = ThreadWorker(f"{name}-background", self._loop.call_soon_threadsafe)
        # Each node reads its own copy of the catalog: acknowledged changes must show soon.
        raft = RaftSettings(node=node, prompt_commits=settings.identity.shard == CATALOG_SHARD)
        replica_settings = (
            ReplicaSettings(raft=raft)
            if settings.snapshot_log_bytes is None
            else ReplicaSettings(raft=raft, snapshot_log_bytes=settings.snapshot_log_bytes)
        )
        self.machine = ShardMachine(StateBudget(settings.state_bytes_max))
        self.history = DeliveryHistory(settings.history_bytes)
        log.measure_with(precise_seconds)
        self.replica = Replica(
            node,
            log=log,
            machine=self.machine,
            settings=replica_settings,
            world=Environment(
                clock=clock,
                random=random.SystemRandom(),
                network=network,
                writer=self._writer,
                background=self._background,
                soon=self._loop.call_soon,
                from_worker=self._loop.call_soon_threadsafe,
                on_effect=on_effect,
                on_applied=self.history.note,
                on_halt=self._note_halt,
                on_leadership=on_leadership,
                seconds=precise_seconds,
                announce=announce,
            ),
            bootstrap=settings.members,
        )
        if settings.solo:
            self.replica.campaign()
        self._timer: asyncio.TimerHandle | None = None
        if settings.tick_ms is not None:
            self._timer = self._loop.call_later(settings.tick_ms / 1_000, self._tick)

    @classmethod
    async def open(
        cls,
        settings: ShardSettings,
        network: Network,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        on_effect: Callable[[Effect], None] = lambda _effect: None,
        on_leadership: Callable[[bool], None] = lambda _leads: None,
        announce: Callable[[str], None] = lambda _line: None,
    ) -> "Shard":
        """Recover the directory and start; raises what `ShardLog.open` raises."""
        log = await asyncio.to_thread(
            ShardLog.open,
            disk or RealDisk(),
            settings.directory,
            identity=settings.identity,
            settings=settings.log,
            solo=settings.solo,
        )
        return cls(
            settings,
            log,
            network,
            clock=clock or SystemClock(),
            on_effect=on_effect,
            on_leadership=on_leadership,
            announce=announce,
        )

    def state_use(self) -> dict[StateKind, tuple[int, int]]:
        """How many bytes the state takes by kind, and how many it may take."""
        budget = self.machine.budget
        return {
            kind: (size, budget.limit(kind)) for kind, size in self.machine.state_bytes().items()
        }

    def state_share(self) -> float:
        """How much of what it may take is taken by the fullest kind of state."""
        return max(used / limit for used, limit in self.state_use().values())

    def submit(self, request: Request, answer: Answer, promise: Promise) -> bool:
        """Carry out a request and call back; the order of calls is the order of the log. True: it
        is going to be written."""
        return self.replica.submit(request, answer, promise)

    def tick(self) -> None:
        """Time passes; only for a shard that does not tick itself."""
        self.replica.tick()

    def begin_append(
        self, partition: PartitionId, batch: bytearray | memoryview
    ) -> "asyncio.Future[Reply]":
        """Append a record batch, now; done when it is durable on a majority."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        self.replica.submit(AppendBatch(partition, batch), partial(_settle, future))
        return future

    async def append(self, partition: PartitionId, batch: bytearray | memoryview) -> Appended:
        """Append a record batch; returns when it is durable on a majority."""
        reply = await self.begin_append(partition, batch)
        assert isinstance(reply, Appended), f"an append was answered with {reply}"
        return reply

    async def change(self, request: Request) -> Reply:
        """Carry out a request; returns when its outcome is durable on a majority."""
        return await self._answer(lambda answer: self.replica.submit(request, answer))

    async def change_members(self, membership: Membership) -> None:
        """Make this the membership; returns when it is committed."""
        await self._answer(lambda answer: self.replica.change_membership(membership, answer))

    async def wait_current(self) -> None:
        """Return once this node is sure to lead and to see everything acknowledged before."""
        await self._answer(self.replica.read_barrier)

    def fetch(self, partition: PartitionId, offset: Offset, bytes_max: int) -> bytes:
        """Committed batches from the one that holds `offset` on."""
        return self.replica.fetch(partition, offset, bytes_max)

    async def close(self) -> None:
        """Stop in good order: finish what is being written, snapshot, release the directory."""
        self._stop_ticking()
        if self.replica.halted is None:
            with contextlib.suppress(TimeoutError, PenstockError):
                # Without a majority there may be no end to wait for; nothing is lost by leaving.
                async with asyncio.timeout(RETIRE_SECONDS_MAX):
                    await self._answer(self.replica.retire)
        self.abandon()
        self.replica.log.close()

    def abandon(self) -> None:
        """Stop without any of that, as a crash would; the directory stays as it is."""
        self._stop_ticking()
        self.replica.stop()
        self._writer.close()
        self._background.close()

    async def _answer(self, ask: Callable[[Answer], object]) -> Reply:
        future: asyncio.Future[Reply] = self._loop.create_future()
        ask(partial(_settle, future))
        return await future

    def _stop_ticking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        assert self._settings.tick_ms is not None, "the owner ticks this shard"
        self._timer = self._loop.call_later(self._settings.tick_ms / 1_000, self._tick)
        self.replica.tick()

    def _note_halt(self, error: BaseException) -> None:
        if not self.halted.done():
            self.halted.set_result(error)


def _settle(future: asyncio.Future[Reply], reply: Reply | PenstockError) -> None:
    """Give the answer to its waiter."""
    if future.done():  # The caller has gone away.
        return
    if isinstance(reply, PenstockError):
        future.set_exception(reply)
    else:
        future.set_result(reply)
