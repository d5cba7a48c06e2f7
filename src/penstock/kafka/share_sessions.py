"""Share sessions (KIP-932): what this node knows of each member of a share group that reads here.

A session belongs to a member and a connection. It remembers which partitions the member reads, so
that a request need only tell what changes, and what the member has leased. Its requests are
numbered: a member that sends a number out of turn has missed an answer, and begins a new session.

    epoch of a request   means
    0                    a new session; one that was there gives it what it has leased
    -1                   the last request: what the member still has is released before the answer
    any other            the number that is next

What a member has is released, for others to get, when its session ends: by its last request, with
its connection, or because the group's coordinator, if that is this node, saw it leave or fall
silent. Clients that close say goodbye to the group and to their sessions at the same time, over
different connections, so a member that leaves has some seconds to acknowledge. When another node
comes to lead a partition, clients do not acknowledge there what they have got here, so it is
released, too. Otherwise leases just end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from penstock.core.clock import Clock
from penstock.core.limits import SHARE_SESSION_PARTITIONS_MAX, SHARE_SESSIONS_MAX
from penstock.core.types import TopicId
from penstock.core.verdicts import Verdict
from penstock.engine.delivery.requests import LeasedRange
from penstock.kafka.error_codes import INVALID_REQUEST
from penstock.kafka.share_leases import Lease, Leases

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.kafka.connection import Connection
    from penstock.kafka.context import Context

SHARE_SESSION_NOT_FOUND: Final = 122
INVALID_SHARE_SESSION_EPOCH: Final = 123
SHARE_SESSION_LIMIT_REACHED: Final = 133

LEAVE_MS: Final = 3_000
"""How long the session of a member lasts that has left its group."""
NEW_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1
_MEMBER_CHARACTERS_MAX: Final = 255

PartitionKey = tuple[TopicId, int]


class SessionRefused(Exception):
    """A request that does not fit its session; `code` is Kafka's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ShareSession:
    """One member, reading from this node over one connection."""

    def __init__(self, group: str, member: str, connection: "Connection") -> None:
        self.group = group
        self.member = member
        self.connection = connection
        self.epoch = 1
        """Of the request that is next."""
        self.partitions: dict[PartitionKey, None] = {}
        """What it reads, in the order in which it is looked at."""
        self.leases: dict[PartitionKey, Leases] = {}
        self.told: dict[PartitionKey, int] = {}
        """The error that the last answer had for a partition."""
        self._turn = asyncio.Lock()
        self._requests = 0
        self.end_wait: Callable[[], None] | None = None
        """Ends the wait of the fetch under way: another request has come."""
        self.left_ms: int | None = None
        """When the member was seen to leave its group."""
        self.is_closed = False

    @property
    def is_pressed(self) -> bool:
        """A fetch should not wait: another request has come, or the session is over."""
        return self.is_closed or self._requests > 1

    @asynccontextmanager
    async def taking_turns(self) -> AsyncIterator[None]:
        """Requests are carried out one after the other."""
        self._requests += 1
        try:
            async with self._turn:
                yield
        finally:
            self._requests -= 1
            self.end_wait = None

    def read(self, keys: Iterable[PartitionKey]) -> None:
        """Read these partitions, too. A request for too many changes nothing."""
        partitions = self.partitions | dict.fromkeys(keys)
        if len(partitions) > SHARE_SESSION_PARTITIONS_MAX:
            raise SessionRefused(
                INVALID_REQUEST,
                f"a share session reads {SHARE_SESSION_PARTITIONS_MAX} partitions at most",
            )
        self.partitions = partitions

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """Read these partitions no more; what is leased from them stays so."""
        for key in keys:
            self.partitions.pop(key, None)
            self.told.pop(key, None)

    def rotate(self, first: PartitionKey) -> None:
        """Begin with the one behind this partition next time."""
        if first in self.partitions:
            keys = list(self.partitions)
            place = keys.index(first) + 1
            self.partitions = dict.fromkeys(keys[place:] + keys[:place])

    def has(self, key: PartitionKey, lease: Lease, now_ms: int) -> None:
        """The member has got messages."""
        self.leases.setdefault(key, Leases()).add(lease, now_ms)


class ShareSessions:
    """The sessions of one Kafka port."""

    def __init__(self, engine: "Engine", clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[Connection, set[ShareSession]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hears = False

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, group: str | None, member: str | None, epoch: int, connection: "Connection"
    ) -> ShareSession:
        """The session of a request that has just come; raises `SessionRefused`."""
        if not group or not member or len(member) > _MEMBER_CHARACTERS_MAX:
            raise SessionRefused(INVALID_REQUEST, "a share session needs a group and a member")
        session = self._sessions.get((group, member))
        if epoch == NEW_EPOCH:
            return self._open(group, member, connection, session)
        if session is None:
            text = f"member {member} of group {group} has no share session here; begin one"
            raise SessionRefused(SHARE_SESSION_NOT_FOUND, text)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                text = f"the share session is at epoch {session.epoch}, not {epoch}; begin anew"
                raise SessionRefused(INVALID_SHARE_SESSION_EPOCH, text)
            session.epoch = session.epoch % _EPOCH_MAX + 1
        if session.end_wait is not None:
            session.end_wait()
        return session

    def _open(
        self, group: str, member: str, connection: "Connection", former: ShareSession | None
    ) -> ShareSession:
        if former is None and len(self._sessions) >= SHARE_SESSIONS_MAX:
            text = f"there are {SHARE_SESSIONS_MAX} share sessions on this node, as many as may be"
            raise SessionRefused(SHARE_SESSION_LIMIT_REACHED, text)
        if not self._hears:
            self._hears = True
            self._engine.groups.share.on_gone(self.member_gone)
        session = ShareSession(group, member, connection)
        if former is not None:
            session.leases, former.leases = former.leases, session.leases
            self._drop(former)
        self._sessions[group, member] = session
        self._by_connection.setdefault(connection, set()).add(session)
        return session

    def _drop(self, session: ShareSession) -> None:
        session.is_closed = True
        del self._sessions[session.group, session.member]
        others = self._by_connection[session.connection]
        others.discard(session)
        if not others:
            del self._by_connection[session.connection]
        if session.end_wait is not None:
            session.end_wait()

    # Ending.

    async def close(self, session: ShareSession) -> None:
        """The session ends; returns when what the member has is released."""
        if not session.is_closed:
            self._drop(session)
        await self._release(session)

    def close_soon(self, session: ShareSession) -> None:
        """The session ends; what the member has is released meanwhile."""
        if not session.is_closed:
            self._drop(session)
        if session.leases:
            self._spawn(self._release_in_turn(session))

    def connection_lost(self, connection: "Connection") -> None:
        """The sessions of a connection end with it."""
        for session in list(self._by_connection.get(connection, ())):
            self.close_soon(session)

    def member_gone(self, group: str, member: str) -> None:
        """The group's coordinator has seen a member go."""
        session = self._sessions.get((group, member))
        if session is not None:
            session.left_ms = self._clock.monotonic_ms()

    def sweep(self, now_ms: int) -> None:
        """Called now and then: ends the sessions of members that left some seconds ago."""
        for session in list(self._sessions.values()):
            if session.left_ms is not None and now_ms - session.left_ms >= LEAVE_MS:
                self.close_soon(session)

    def carry_out(self, work: Coroutine[None, None, None], context: "Context") -> None:
        """Serve a request that may take a while; what goes wrong ends its connection."""

        async def carry() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001
                context.fail(error)

        self._spawn(carry())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, seconds: float) -> None:
        """The port is closed: wait for what is under way, though not for long."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _release_in_turn(self, session: ShareSession) -> None:
        """What a request under way settles is not to be released as well."""
        async with session.taking_turns():
            await self._release(session)

    async def _release(self, session: ShareSession) -> None:
        leases, session.leases = session.leases, {}
        leased = [one for key, held in leases.items() for one in self._leased(session, key, held)]
        if leased:
            await self._engine.delivery.give_back(leased, Verdict.RELEASE)

    def _leased(
        self, session: ShareSession, key: PartitionKey, leases: Leases
    ) -> list[LeasedRange]:
        topic = self._engine.topics.catalog.topic_by_id(key[0])
        if topic is None:
            return []
        partition, group = topic.partitions[key[1]], session.group
        return [
            LeasedRange(partition, group, one.epoch, one.first, one.end) for one in leases.all()
        ]

    def lead_lost(self, session: ShareSession, key: PartitionKey) -> None:
        """Another node leads the partition: the member cannot acknowledge there what it has."""
        leases = session.leases.pop(key, None)
        if leases is not None and len(leases):
            leased = self._leased(session, key, leases)
            self._engine.delivery.give_back(leased, Verdict.RELEASE)
