"""Taking part in a group: joining, sharing out, staying alive, leaving.

    joining ──▶ sharing out ──▶ working ──▶ joining …
                                   │  heartbeats, until the group changes
                                   ▼
                                suspended   no heartbeat was answered for a session timeout

One task does all of it, from `start` to `close`. Before it joins again it asks its owner to put
down everything (`revoke`): to finish what is in hand and commit it. All members do so, so that
the next owner of a partition begins where the last one had got to. A member that keeps a
partition over two generations in a row goes on as if nothing had been.

A member that cannot reach the coordinator for as long as its session lasts must expect that others
have its partitions by now: it is suspended until it hears that it is still a member, or joins anew.

Nothing that passes by itself ends a membership: a coordinator that dies, moves or is cut off is
looked for again and again. What ends it is what trying again does not change, such as another
process that has taken a static member's place; the owner is notified (`failed`).
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.client.connection.group_link import ASK_SECONDS, GroupLink
from penstock.client.reader.assignors import (
    ASSIGNORS,
    Wish,
    assign,
    decode_assignment,
    decode_wish,
    encode_assignment,
    encode_wish,
)
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import (
    IllegalGeneration,
    InvalidFrame,
    OutcomeUnknown,
    PenstockError,
    RebalanceInProgress,
    Unavailable,
    UnknownMember,
)
from penstock.core.retries import Retrier
from penstock.wire.group_requests import (
    BeatGroup,
    GroupJoined,
    GroupSynced,
    JoinGroup,
    LeaveGroup,
    MemberNamed,
    SyncGroup,
)
from penstock.wire.requests import Answer, Done

log = logging.getLogger("penstock.client")

LEAVE_SECONDS: Final = 3.0
NO_GENERATION: Final = -1
_TRY_AGAIN: Final = (Unavailable, OutcomeUnknown, InvalidFrame)


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """The settings of a member; times are in seconds."""

    instance_id: str | None = None
    """The name of a static member: if it is back within a session, nothing is shared out anew."""
    client_id: str = "penstock"
    session_timeout: float = 30.0
    """A member that sends nothing for this long is removed."""
    rebalance_timeout: float = 60.0
    """The time that the other members wait for this one to release its partitions."""
    heartbeat_interval: float = 1.0
    """A member learns of changes by its heartbeats."""
    assignors: tuple[str, ...] = ASSIGNORS


class Owner(Protocol):
    """The reader of the assigned partitions."""

    async def topics(self) -> frozenset[str]:
        """Return the topics to read now."""
        ...

    async def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic; a topic that does not exist is left
        out."""
        ...

    async def revoke(self) -> None:
        """Hand out no more records; finish and commit those in hand."""
        ...

    def assigned(self, parts: tuple[TopicPartition, ...], *, continues: bool) -> None:
        """Read these from now on. `continues`: those it had before, and that no other member had
        meanwhile."""
        ...

    def suspend(self) -> None:
        """Others may have the partitions by now: hand nothing out."""
        ...

    def resume(self) -> None:
        """Continue after `suspend`: the member still has its partitions."""
        ...

    def failed(self, error: PenstockError) -> None:
        """End with an error: the member cannot stay in the group."""
        ...


def unforeseen(error: BaseException) -> PenstockError:
    """The error that a program gets when a part of its client has failed."""
    return PenstockError(f"internal error of the client: {error!r}")


class Membership:
    """Keeps one member in its group: joins, sends heartbeats and rejoins."""

    def __init__(
        self, link: GroupLink, owner: Owner, settings: MembershipSettings, retrier: Retrier
    ) -> None:
        self.settings = settings
        self.member = ""
        self.generation = NO_GENERATION
        """The one it works in; -1 while it does not."""
        self.assignment: tuple[TopicPartition, ...] = ()
        self.topics: frozenset[str] = frozenset()
        """The topics that it announced when it joined."""
        self.group_counts: dict[str, int] | None = None
        """The number of partitions at the last assignment; None for members that do not lead."""
        self.group_topics: frozenset[str] = frozenset()
        """The topics of all members together; known to the leader."""
        self.rebalances = 0
        self._link = link
        self._owner = owner
        self._retrier = retrier
        self._had_generation = NO_GENERATION
        """The generation in which its partitions were assigned, or the last ones were."""
        self._rejoin = asyncio.Event()
        self._turned = asyncio.Event()
        """Set when a generation begins, and at the end."""
        self._heard_at = 0.0
        self._suspended = False
        self._task: asyncio.Task[None] | None = None

    # For the owner.

    def start(self) -> None:
        """Start the task that joins the group."""
        assert self._task is None, "a member begins once"
        self._task = asyncio.create_task(self._run(), name=f"group {self._link.group}")
        self._task.add_done_callback(lambda _: self._turned.set())

    def rejoin(self) -> None:
        """Something has changed that the group should know: share out anew."""
        self._rejoin.set()

    async def wait_next(self, generation: int, deadline: float) -> bool:
        """Return when we work in another generation than this one; False if we do not in time, or
        never will."""
        try:
            async with asyncio.timeout_at(deadline):
                while self.generation in (NO_GENERATION, generation):
                    if self._task is None or self._task.done():
                        return False
                    self._turned.clear()
                    await self._turned.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Take part no more. A static member does not say so: it may be back in a moment."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.generation = NO_GENERATION
        if self.member and self.settings.instance_id is None:
            request = LeaveGroup(self._link.group, self.member)
            try:
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._link.ask(request, Done, seconds=LEAVE_SECONDS)
            except (PenstockError, TimeoutError) as error:
                log.info("group %s was left without a word: %s", self._link.group, error)

    # Taking part.

    async def _run(self) -> None:
        try:
            while True:
                parts = await self._join()
                self._work(parts)
                await self._stay()
                await self._put_down()
        except PenstockError as error:
            self.generation = NO_GENERATION
            self._owner.failed(error)
        except Exception as error:
            self.generation = NO_GENERATION
            log.exception("the membership in group %s ended unforeseen", self._link.group)
            self._owner.failed(unforeseen(error))

    def _work(self, parts: tuple[TopicPartition, ...]) -> None:
        before = self._had_generation
        continues = before != NO_GENERATION and self.generation in (before, before + 1)
        self.assignment = parts
        self._had_generation = self.generation
        self._heard()
        self.rebalances += 1
        log.info(
            "group %s generation %d: %s reads %d partitions",
            self._link.group, self.generation, self.member, len(parts),
        )  # fmt: skip
        self._owner.assigned(parts, continues=continues)
        self._turned.set()

    async def _stay(self) -> None:
        """Send heartbeats until there is a reason to join again."""
        while not self._rejoin.is_set():
            try:
                async with asyncio.timeout(self.settings.heartbeat_interval):
                    await self._rejoin.wait()
            except TimeoutError:
                if not await self._beat():
                    return

    async def _put_down(self) -> None:
        """Have the owner put down its work; heartbeats go on meanwhile."""
        work: Coroutine[object, object, None] = self._owner.revoke()
        revoking = asyncio.create_task(work)
        try:
            while not revoking.done():
                await asyncio.wait([revoking], timeout=self.settings.heartbeat_interval)
                if not revoking.done():
                    await self._beat()
                    if self.generation == NO_GENERATION:
                        break  # The others have not waited.
        finally:
            revoking.cancel()
            await asyncio.wait([revoking])
        if not revoking.cancelled():
            revoking.result()
        self.generation = NO_GENERATION

    async def _beat(self) -> bool:
        """Send a heartbeat. Return False if the group has changed, or has removed this member."""
        request = BeatGroup(
            self._link.group, self.member, self.settings.instance_id, self.generation
        )
        retries = self._retrier.endless()
        while True:
            try:
                await self._link.ask(request, Done, seconds=self._beat_seconds())
            except RebalanceInProgress:
                self._heard()
                return False
            except (UnknownMember, IllegalGeneration) as error:
                self._lose(error)
                return False
            except _TRY_AGAIN as error:
                if self._session_left() <= 0 and not self._suspended:
                    log.warning("group %s cannot be reached: %s", self._link.group, error)
                    self._suspended = True
                    self._owner.suspend()
                await retries.pause(error)
            else:
                self._heard()
                return True

    # Joining.

    async def _join(self) -> tuple[TopicPartition, ...]:
        """Take part in the next generation; returns our share of it."""
        retries = self._retrier.endless()
        while True:
            self._rejoin.clear()
            try:
                joined = await self._ask_to_join()
                synced = await self._sync(joined)
            except RebalanceInProgress:
                continue  # The next round has begun already.
            except (UnknownMember, IllegalGeneration) as error:
                self._lose(error)
            except _TRY_AGAIN as error:
                log.debug("group %s: joining again: %s", self._link.group, error)
                await retries.pause(error)
            else:
                self.member, self.generation = joined.member, joined.generation
                return decode_assignment(synced.assignment)

    async def _ask_to_join(self) -> GroupJoined:
        settings = self.settings
        self.topics = await self._owner.topics()
        has_kept = self._had_generation != NO_GENERATION
        wish = Wish(self.topics, self.assignment if has_kept else (), self._had_generation)
        protocols = tuple((name, encode_wish(name, wish)) for name in settings.assignors)
        retries = self._retrier.endless()
        while True:
            request = JoinGroup(
                self._link.group,
                self.member,
                settings.instance_id,
                settings.client_id,
                int(settings.session_timeout * 1_000),
                int(settings.rebalance_timeout * 1_000),
                protocols,
            )
            # A member that has no id yet is answered at once, unless it is a static one.
            patience = settings.rebalance_timeout + ASK_SECONDS
            try:
                answer = await self._link.ask(request, Answer, seconds=patience)
            except RebalanceInProgress:
                continue
            except _TRY_AGAIN as error:
                # Asked again in the same words, the same round or generation is found.
                await retries.pause(error)
                continue
            if isinstance(answer, GroupJoined):
                self.member = answer.member
                self._heard()
                return answer
            if not isinstance(answer, MemberNamed):
                raise InvalidFrame(f"a join was answered with {answer}")
            self.member = answer.member

    async def _sync(self, joined: GroupJoined) -> GroupSynced:
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.leader != joined.member:
            self.group_counts = None
        elif not joined.skip_assignment:
            assignments = await self._share_out(joined)
        request = SyncGroup(
            self._link.group,
            joined.member,
            self.settings.instance_id,
            joined.generation,
            assignments,
        )
        retries = self._retrier.endless()
        patience = self.settings.rebalance_timeout + ASK_SECONDS
        while True:
            try:
                return await self._link.ask(request, GroupSynced, seconds=patience)
            except RebalanceInProgress:
                raise
            except _TRY_AGAIN as error:
                await retries.pause(error)

    async def _share_out(self, joined: GroupJoined) -> tuple[tuple[str, bytes], ...]:
        """Decide for all who gets what."""
        wishes: dict[str, Wish] = {}
        for one in joined.members:
            try:
                wishes[one.member] = decode_wish(one.metadata, one.instance)
            except InvalidFrame as error:
                log.warning("group %s: %s gets nothing: %s", self._link.group, one.member, error)
                wishes[one.member] = Wish(frozenset())
        topics: frozenset[str] = frozenset()
        topics = topics.union(*(wish.topics for wish in wishes.values()))
        counts = dict(await self._owner.counts(topics))
        self.group_topics = topics
        self.group_counts = counts
        shared = assign(joined.protocol, wishes, counts)
        return tuple((member, encode_assignment(parts)) for member, parts in shared.items())

    # What the coordinator thinks of us.

    def _session_left(self) -> float:
        passed = asyncio.get_running_loop().time() - self._heard_at
        return self.settings.session_timeout - passed

    def _beat_seconds(self) -> float:
        """The timeout of a heartbeat, so short that there is time for another one."""
        return max(0.5, min(ASK_SECONDS, self._session_left() / 3))

    def _heard(self) -> None:
        """The coordinator counts us among the members."""
        self._heard_at = asyncio.get_running_loop().time()
        if self._suspended:
            self._suspended = False
            self._owner.resume()

    def _lose(self, error: PenstockError) -> None:
        """We were a member and are none any more, or of a generation that is over: what we had may
        belong to another member, and what we finished cannot be committed."""
        log.info("group %s goes on without this member: %s", self._link.group, error)
        if isinstance(error, UnknownMember):
            self.member = ""
        self.generation = NO_GENERATION
        self._had_generation = NO_GENERATION
        self.assignment = ()
        self._owner.suspend()
        self._suspended = False
