"""Taking part in a group: joining, sharing out, staying alive, leaving.

    joining ──▶ sharing out ──▶ working ──▶ joining …
                                   │  heartbeats, until the group changes
                                   ▼
                                suspended   no heartbeat was answered for a session timeout

One task does all of it, from `start` to `close`. A partition that changes its owner is put down
first (`revoke`): what is in hand is finished and committed, so that the next owner begins where the
last one had got to. When depends on how the group shares out (see `assignors`):

    eager         a member puts down everything before it joins again
    cooperative   a member joins while it reads. It learns what is to leave it, which no other
                  member has yet, puts down that, and joins once more, so that it is given away

A generation tells how the next one is joined: after a cooperative one a member goes on reading. If
a member has joined that cannot do so, the generation comes out as an eager one. Then its leader
gives nobody anything (`Wish.holds`); all put down what they have and join again. A leader of
release 0.1 does not know that: what it gives away may be read twice, from the last commit on. It
leads such a group only if the former leader left at the very moment at which it joined.

A member that keeps a partition over two generations in a row goes on as if nothing had been.

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
from typing import Final, Protocol, TypeVar

from penstock.client.connection.group_link import ASK_SECONDS, GroupLink
from penstock.client.reader.assignors import (
    ASSIGNORS,
    COOPERATIVE_ASSIGNORS,
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
from penstock.wire.requests import Answer, Done, Request

log = logging.getLogger("penstock.client")

A = TypeVar("A", bound=Answer)

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

    async def revoke(self, parts: tuple[TopicPartition, ...] | None) -> None:
        """Hand nothing out any more of these, or of all if it is None; finish and commit what is in
        hand."""
        ...

    def assigned(
        self,
        parts: tuple[TopicPartition, ...],
        *,
        leaving: tuple[TopicPartition, ...],
        continues: bool,
    ) -> None:
        """Read these from now on, and hand nothing out of those that are leaving: `revoke` follows
        for them. `continues`: those it had before, and that no other member had meanwhile."""
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
        """The last generation in which no other member can have had its partitions."""
        self._cooperates = False
        """It joins without having put down what it reads."""
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
                parts, protocol = await self._join()
                leaving = self._work(parts, protocol)
                if leaving:
                    await self._put_down(leaving)
                    self._rejoin.set()
                await self._stay()
                if not self._cooperates:
                    await self._put_down(None)
        except PenstockError as error:
            self.generation = NO_GENERATION
            self._owner.failed(error)
        except Exception as error:
            self.generation = NO_GENERATION
            log.exception("the membership in group %s ended unforeseen", self._link.group)
            self._owner.failed(unforeseen(error))

    def _work(self, parts: tuple[TopicPartition, ...], protocol: str) -> tuple[TopicPartition, ...]:
        """A generation has begun; returns what has to be put down in it."""
        before = self._had_generation
        continues = before != NO_GENERATION and self.generation in (before, before + 1)
        is_cooperative = protocol in COOPERATIVE_ASSIGNORS
        leaving: tuple[TopicPartition, ...] = ()
        # An eager generation that comes after a cooperative one and gives nothing waits for this.
        if is_cooperative or (self._cooperates and not parts):
            leaving = tuple(sorted(set(self.assignment) - set(parts)))
        self._cooperates = is_cooperative
        self.assignment = parts
        self._had_generation = self.generation
        self._heard()
        self.rebalances += 1
        log.info(
            "group %s generation %d: %s reads %d partitions",
            self._link.group, self.generation, self.member, len(parts),
        )  # fmt: skip
        self._owner.assigned(parts, leaving=leaving, continues=continues)
        self._turned.set()
        return leaving

    async def _stay(self) -> None:
        """Send heartbeats until there is a reason to join again."""
        while not self._rejoin.is_set():
            try:
                async with asyncio.timeout(self.settings.heartbeat_interval):
                    await self._rejoin.wait()
            except TimeoutError:
                if not await self._beat():
                    return

    async def _put_down(self, parts: tuple[TopicPartition, ...] | None) -> None:
        """Have the owner put down these, or all its work; heartbeats go on meanwhile."""
        work: Coroutine[object, object, None] = self._owner.revoke(parts)
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
        if parts is None:
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
                if self._session_left() <= 0:
                    self._suspend()
                await retries.pause(error)
            else:
                self._heard()
                return True

    # Joining.

    async def _join(self) -> tuple[tuple[TopicPartition, ...], str]:
        """Take part in the next generation; returns our share of it, and how it was shared out."""
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
                return decode_assignment(synced.assignment), joined.protocol

    async def _ask_to_join(self) -> GroupJoined:
        settings = self.settings
        self.topics = await self._owner.topics()
        has_kept = self._had_generation != NO_GENERATION
        owned = self.assignment if has_kept else ()
        holds = self._cooperates and bool(owned)
        wish = Wish(self.topics, owned, self._had_generation, holds=holds)
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
                answer = await self._ask(request, Answer, patience)
            except RebalanceInProgress:
                continue
            except _TRY_AGAIN as error:
                # Asked again in the same words, the same round or generation is found.
                await retries.pause(error)
                continue
            if isinstance(answer, GroupJoined):
                self.member = answer.member
                self._heard()
                if has_kept and answer.protocol in COOPERATIVE_ASSIGNORS:
                    # It was among the members whose claims counted, even if it misses the rest.
                    if answer.generation == self._had_generation + 1:
                        self._had_generation = answer.generation
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
                return await self._ask(request, GroupSynced, patience)
            except RebalanceInProgress:
                raise
            except _TRY_AGAIN as error:
                await retries.pause(error)

    async def _ask(self, request: Request, kind: type[A], seconds: float) -> A:
        """Ask the coordinator for what takes as long as the slowest member. A member that reads
        meanwhile hands nothing out once its session may be over."""
        if not self._cooperates:
            return await self._link.ask(request, kind, seconds=seconds)
        left = max(0.0, self._session_left())
        timer = asyncio.get_running_loop().call_later(left, self._suspend)
        try:
            return await self._link.ask(request, kind, seconds=seconds)
        finally:
            timer.cancel()

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

    def _suspend(self) -> None:
        """The coordinator may have given our partitions to others."""
        if not self._suspended:
            log.warning("group %s was not heard of for a session timeout", self._link.group)
            self._suspended = True
            self._owner.suspend()

    def _lose(self, error: PenstockError) -> None:
        """We were a member and are none any more, or of a generation that is over: what we had may
        belong to another member, and what we finished cannot be committed."""
        log.info("group %s goes on without this member: %s", self._link.group, error)
        if isinstance(error, UnknownMember):
            self.member = ""
        self.generation = NO_GENERATION
        self._had_generation = NO_GENERATION
        self._cooperates = False
        self.assignment = ()
        self._owner.suspend()
        self._suspended = False
