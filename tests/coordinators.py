"""Coordinators over a log that needs no Raft: entries commit when somebody says so.

`GroupCluster` is a shard with some nodes, each with its groups and its coordinator, of which one
leads. What is proposed waits in a queue; `commit` applies it, in order, on all nodes. When the
leader changes, the first so many of the queue are committed and the rest is lost, and whoever
waited for either is told that the outcome is unknown, as the engine does.

`Consumer` is a client as clients are: it joins, shares out if it leads, sends heartbeats, and takes
every error as the protocol says.
"""

import asyncio
from collections import deque

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import (
    FencedInstance,
    IllegalGeneration,
    MemberIdRequired,
    NotCoordinator,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    RebalanceInProgress,
    UnknownMember,
)
from penstock.core.types import Index, Term
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.requests import (
    GroupSettings,
    Joined,
    JoinGroup,
    LeavingMember,
    Synced,
    SyncGroup,
)
from penstock.machines.group_commands import GroupCommand
from penstock.machines.groups import Groups
from penstock.machines.machine import Propose, Reply, Request
from penstock.testing.clock import ManualClock
from tests.groups import RANGE

TICK_MS = 100


class GroupCluster:
    """The nodes of one shard, as far as groups go."""

    def __init__(self, nodes: int = 1, settings: GroupSettings | None = None) -> None:
        self.clock = ManualClock()
        self.machines = [Groups() for _ in range(nodes)]
        self.coordinators = [
            Coordinator(
                machine,
                lambda request, node=node: self._change(node, request),  # type: ignore[misc]
                self.clock,
                settings,
                draw=self._draw,
            )
            for node, machine in enumerate(self.machines)
        ]
        self.leader = 0
        self.term = 1
        self.index = 0
        self.drawn = 0
        self.at_once = True
        """Commit what is proposed without being told to."""
        self.deaf = False
        """Effects get lost."""
        self.written: list[GroupCommand] = []
        self._queue: deque[tuple[Entry, asyncio.Future[Reply]]] = deque()
        self.coordinators[0].leadership(True)

    @property
    def coordinator(self) -> Coordinator:
        return self.coordinators[self.leader]

    @property
    def groups(self) -> Groups:
        return self.machines[self.leader]

    @property
    def proposed(self) -> int:
        return len(self._queue)

    def commit(self, count: int = 1) -> None:
        """The oldest so many entries of the queue are applied everywhere."""
        for _ in range(min(count, len(self._queue))):
            entry, answer = self._queue.popleft()
            self._apply(entry, answer)

    def change_leader(self, node: int, committed: int = 0) -> None:
        """Another node leads; of what was under way, so much got through."""
        queue, self._queue = self._queue, deque()
        self.coordinator.leadership(False)
        for number, (entry, answer) in enumerate(queue):
            if number < committed:
                self._apply(entry, None)
            else:
                self.index -= 1
            if not answer.done():
                answer.set_exception(OutcomeUnknown("leadership was lost"))
        for machine in self.machines:
            machine.forget_plans()
        self.leader = node
        self.term += 1
        self.coordinator.leadership(True)

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass in ticks, as the engine does; nothing else happens meanwhile."""
        for _ in range(0, duration_ms, TICK_MS):
            self.clock.advance(TICK_MS)
            self.coordinator.tick()

    async def run(self, duration_ms: int) -> None:
        """Let everybody do what there is to do, and time pass."""
        await spin()
        for _ in range(0, duration_ms, TICK_MS):
            self.pass_time(TICK_MS)
            await spin()

    async def close(self) -> None:
        for coordinator in self.coordinators:
            await coordinator.close()

    async def _change(self, node: int, request: Request) -> Reply:
        if node != self.leader:
            raise NotLeader("another node leads")
        plan = self.machines[node].plan(request, now_ms=self.clock.wall_ms(), term=Term(self.term))
        assert isinstance(plan, Propose)
        self.written.append(request)  # type: ignore[arg-type]
        self.index += 1
        entry = Entry(Index(self.index), Term(self.term), EntryKind.COMMAND, plan.payload)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._queue.append((entry, answer))
        if self.at_once:
            asyncio.get_running_loop().call_soon(self.commit)
        return await answer

    def _apply(self, entry: Entry, answer: asyncio.Future[Reply] | None) -> None:
        outcomes = [machine.apply(entry) for machine in self.machines]
        assert all(one == outcomes[0] for one in outcomes)
        for effect in () if self.deaf else outcomes[0].effects:
            self.coordinator.on_effect(effect)
        if answer is not None and not answer.done():
            answer.set_result(outcomes[0].replies[0])

    def _draw(self) -> str:
        self.drawn += 1
        return str(self.drawn)


class Consumer:
    """One client of the group `g`; `start` it, and give it its `beat` now and then."""

    def __init__(
        self,
        cluster: GroupCluster,
        name: str,
        *,
        instance: str | None = None,
        knows_pending: bool = True,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.instance = instance
        self.protocols = protocols
        self.knows_pending = knows_pending
        self.member = ""
        self.generation = -1
        self.assignment: bytes | None = None
        """None while it has no part in a generation."""
        self.sent_away = 0
        """How often it was told that it is no member."""
        self.fenced = False
        self._beat = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._live())

    def beat(self) -> None:
        """It is time for a heartbeat."""
        self._beat.set()

    async def stop(self) -> None:
        """The process is killed: whatever it had under way is dropped, nobody is told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def restart_request(self) -> None:
        """Its connection breaks: whatever waits is dropped, and it asks again."""
        await self.stop()
        self.start()

    async def leave(self) -> None:
        """Say good-bye, and stop."""
        await self.stop()
        if self.member:
            try:
                await self.cluster.coordinator.leave("g", [LeavingMember(self.member)])
            except PenstockError:
                return  # Nobody is there to say it to.

    async def join(self) -> Joined:
        """One join, as this client would send it now."""
        request = JoinGroup(
            group="g",
            member=self.member,
            instance=self.instance,
            client_id=self.name,
            client_host="/host",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=self.protocols,
            require_known_member=self.knows_pending,
        )
        return await self.cluster.coordinator.join(request)

    async def sync(self, joined: Joined) -> Synced:
        """One sync; a leader gives everybody its own name and the generation's number."""
        parts = tuple(
            (one.member, f"{joined.generation}/{one.member}".encode()) for one in joined.members
        )
        request = SyncGroup(
            group="g",
            member=joined.member,
            instance=self.instance,
            generation=joined.generation,
            protocol_type=joined.protocol_type,
            protocol=joined.protocol,
            assignments=parts if joined.leader == joined.member else (),
        )
        return await self.cluster.coordinator.sync(request)

    async def _live(self) -> None:
        while True:
            try:
                await self._take_part()
            except MemberIdRequired as error:
                self.member = error.member_id
            except UnknownMember:
                self.sent_away += 1
                self.member, self.generation = "", -1
            except FencedInstance:
                self.fenced = True
                return
            except (RebalanceInProgress, IllegalGeneration):
                pass
            except NotCoordinator:
                await asyncio.sleep(0)  # It looks for the new one.
            finally:
                self.assignment = None

    async def _take_part(self) -> None:
        joined = await self.join()
        self.member = joined.member
        assert joined.generation >= self.generation, "a generation never comes back"
        synced = await self.sync(joined)
        self.generation = joined.generation
        self.assignment = synced.assignment
        while True:
            await self._beat.wait()
            self._beat.clear()
            self.cluster.coordinator.heartbeat(
                "g", member=self.member, generation=self.generation, instance=self.instance
            )


async def spin(turns: int = 30) -> None:
    """Let everybody do what there is to do now."""
    for _ in range(turns):
        await asyncio.sleep(0)
