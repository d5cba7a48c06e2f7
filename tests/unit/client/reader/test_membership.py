"""What a member does and tells its owner, in front of a coordinator that is played by the test."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import TypeVar, cast

import pytest

from penstock.client.connection.group_link import GroupLink
from penstock.client.connection.request_router import RequestRouter
from penstock.client.reader.assignors import (
    COOPERATIVE,
    RANGE,
    STICKY,
    Wish,
    decode_assignment,
    decode_wish,
    encode_assignment,
    encode_wish,
)
from penstock.client.reader.membership import NO_GENERATION, Membership, MembershipSettings
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import (
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    NotCoordinator,
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
    JoinedMember,
    JoinGroup,
    LeaveGroup,
    MemberNamed,
    SyncGroup,
)
from penstock.wire.requests import Answer, Done, Request
from tests.unit.engine.nodes import until

A = TypeVar("A", bound=Answer)
PATIENCE_SECONDS = 60.0
FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


class PlayedLink(GroupLink):
    """A coordinator with one member beside ours at most. What is in `troubles` is raised first."""

    def __init__(self) -> None:
        super().__init__(cast(RequestRouter, None), "g")
        self.generation = 0
        self.protocol = STICKY
        self.leader = "me"
        self.given: tuple[TopicPartition, ...] = (FIRST, SECOND)
        """What our member gets if another one leads."""
        self.troubles: dict[type[Request], list[PenstockError]] = {}
        self.requests: list[Request] = []
        self.is_away = False
        self.rebalances = False
        self.slow: asyncio.Event | None = None
        """A join is answered when it is set."""

    async def ask(self, request: Request, kind: type[A], *, seconds: float = 1.0) -> A:
        await asyncio.sleep(0)
        self.requests.append(request)
        if self.is_away:
            raise Unavailable("nobody is there", retry_after_ms=1)
        if troubles := self.troubles.get(type(request)):
            raise troubles.pop(0)
        if self.slow is not None and isinstance(request, JoinGroup):
            await self.slow.wait()
        answer = self._answer(request)
        assert isinstance(answer, kind)
        return answer

    def _answer(self, request: Request) -> Answer:
        if isinstance(request, JoinGroup):
            if not request.member:
                return MemberNamed("me")
            self.generation += 1
            self.rebalances = False
            metadata = dict(request.protocols)[self.protocol]
            other = encode_wish(self.protocol, Wish(frozenset({"orders"})))
            members = (JoinedMember("me", None, metadata), JoinedMember("you", None, other))
            leads = members if self.leader == "me" else ()
            return GroupJoined("me", self.generation, self.protocol, self.leader, leads)
        if isinstance(request, SyncGroup):
            shares = dict(request.assignments)
            return GroupSynced(shares.get("me", encode_assignment(self.given)))
        if isinstance(request, BeatGroup) and self.rebalances:
            raise RebalanceInProgress("anew")
        return Done()

    def of(self, kind: type[A] | type[Request]) -> list[Request]:
        return [one for one in self.requests if isinstance(one, kind)]


class NotingOwner:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.parts: tuple[TopicPartition, ...] = ()
        self.reads = frozenset({"orders"})
        self.has: Mapping[str, int] = {"orders": 3}
        self.in_hand: asyncio.Event | None = None
        self.failure: PenstockError | None = None

    async def topics(self) -> frozenset[str]:
        return self.reads

    async def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        return {name: self.has[name] for name in topics if name in self.has}

    async def revoke(self, parts: tuple[TopicPartition, ...] | None) -> None:
        if parts is None:
            self.told.append("revoke")
        else:
            self.told.append(f"revoke {' '.join(str(part.partition) for part in parts)}")
        if self.in_hand is not None:
            await self.in_hand.wait()
            self.told.append("put down")

    def assigned(
        self,
        parts: tuple[TopicPartition, ...],
        *,
        leaving: tuple[TopicPartition, ...],
        continues: bool,
    ) -> None:
        assert not set(leaving) & set(parts)
        self.parts = parts
        self.told.append("goes on" if continues else "begins")

    def suspend(self) -> None:
        self.told.append("suspend")

    def resume(self) -> None:
        self.told.append("resume")

    def failed(self, error: PenstockError) -> None:
        self.failure = error
        self.told.append("failed")


Story = Callable[[PlayedLink, NotingOwner, Membership], Awaitable[None]]


def play(
    story: Story,
    *,
    session: float = 30.0,
    instance: str | None = None,
    troubles: dict[type[Request], list[PenstockError]] | None = None,
) -> PlayedLink:
    async def whole() -> PlayedLink:
        link, owner = PlayedLink(), NotingOwner()
        link.troubles = troubles or {}
        settings = MembershipSettings(
            heartbeat_interval=0.001, session_timeout=session, instance_id=instance
        )
        now = asyncio.get_running_loop().time
        retrier = Retrier(now=now, random=Random(1), sleep=asyncio.sleep)
        membership = Membership(link, owner, settings, retrier)
        async with asyncio.timeout(PATIENCE_SECONDS):
            membership.start()
            await until(lambda: bool(owner.told))
            await story(link, owner, membership)
            await membership.close()
        return link

    return asyncio.run(whole())


def test_a_member_joins_leads_shares_out_and_leaves() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        assert owner.told == ["begins"]
        assert owner.parts == (FIRST, TopicPartition("orders", 2))
        (sync,) = link.of(SyncGroup)
        assert isinstance(sync, SyncGroup)
        assert {name: decode_assignment(data) for name, data in sync.assignments} == {
            "me": owner.parts,
            "you": (SECOND,),
        }
        assert membership.group_counts == {"orders": 3}
        await until(lambda: len(link.of(BeatGroup)) > 3)
        assert owner.told == ["begins"]

    link = play(story)
    assert link.requests[-1] == LeaveGroup("g", "me")


def test_a_member_that_does_not_lead_takes_what_it_is_given() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        link.leader, link.protocol = "you", RANGE
        membership.rejoin()
        await until(lambda: owner.told == ["begins", "revoke", "goes on"])
        assert owner.parts == (FIRST, SECOND)
        assert membership.group_counts is None

    play(story)


def test_it_puts_its_work_down_before_it_joins_again_and_says_what_it_had() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        owner.in_hand = asyncio.Event()
        link.rebalances = True
        await until(lambda: owner.told == ["begins", "revoke"])
        beats = len(link.of(BeatGroup))
        await until(lambda: len(link.of(BeatGroup)) > beats + 3)  # It stays alive meanwhile.
        assert len(link.of(JoinGroup)) == 2
        assert membership.generation == 1
        owner.in_hand.set()
        await until(lambda: owner.told == ["begins", "revoke", "put down", "goes on"])
        join = link.of(JoinGroup)[-1]
        assert isinstance(join, JoinGroup)
        wish = decode_wish(dict(join.protocols)[STICKY])
        assert wish == Wish(frozenset({"orders"}), owner.parts, generation=1)
        assert membership.generation == 2

    play(story)


def test_whoever_missed_a_generation_begins_anew() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, _membership: Membership) -> None:
        link.generation += 1  # The others have had one without us.
        link.rebalances = True
        await until(lambda: owner.told == ["begins", "revoke", "begins"])

    play(story)


@pytest.mark.parametrize("error", [UnknownMember("?"), IllegalGeneration("late")])
def test_a_member_without_which_the_group_went_on_hands_nothing_out(error: PenstockError) -> None:
    async def story(link: PlayedLink, owner: NotingOwner, _membership: Membership) -> None:
        link.troubles[BeatGroup] = [error]
        await until(lambda: owner.told == ["begins", "suspend", "revoke", "begins"])
        named = [one for one in link.of(JoinGroup) if isinstance(one, JoinGroup) and not one.member]
        assert len(named) == (2 if isinstance(error, UnknownMember) else 1)

    play(story)


def test_a_member_thrown_out_while_it_puts_its_work_down_does_not_wait_for_it() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, _membership: Membership) -> None:
        owner.in_hand = asyncio.Event()  # Never.
        link.rebalances = True
        await until(lambda: owner.told == ["begins", "revoke"])
        link.troubles[BeatGroup] = [UnknownMember("?")]
        await until(lambda: owner.told == ["begins", "revoke", "suspend", "begins"])

    play(story)


def test_whoever_is_not_heard_for_a_session_hands_nothing_out_until_he_is() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, _membership: Membership) -> None:
        link.is_away = True
        await until(lambda: owner.told == ["begins", "suspend"])
        link.is_away = False
        await until(lambda: owner.told == ["begins", "suspend", "resume"])
        assert len(link.of(JoinGroup)) == 2

    play(story, session=0.05)


def test_what_passes_by_itself_is_waited_out() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, _membership: Membership) -> None:
        assert owner.told == ["begins"]
        await until(lambda: not any(link.troubles.values()))
        assert owner.told == ["begins"]

    soon = Unavailable("not now", retry_after_ms=1)
    play(
        story,
        troubles={
            JoinGroup: [soon, OutcomeUnknown("?"), NotCoordinator("else"), RebalanceInProgress("")],
            SyncGroup: [soon, OutcomeUnknown("?")],
            BeatGroup: [soon, OutcomeUnknown("?"), NotCoordinator("elsewhere")],
        },
    )


def test_a_round_that_was_overtaken_is_joined_again() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        assert owner.told == ["begins"]
        assert membership.generation == 2

    play(story, troubles={SyncGroup: [RebalanceInProgress("the next one has begun")]})


@pytest.mark.parametrize("error", [GroupFull("too many"), FencedInstance("taken")])
def test_what_trying_again_does_not_change_ends_it(error: PenstockError) -> None:
    async def story(_link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        assert owner.told == ["failed"]
        assert owner.failure is error
        assert membership.generation == NO_GENERATION
        loop = asyncio.get_running_loop()
        assert await membership.wait_next(1, loop.time() + PATIENCE_SECONDS) is False

    play(story, troubles={JoinGroup: [error]})


def test_a_static_member_leaves_without_a_word() -> None:
    async def story(_link: PlayedLink, owner: NotingOwner, _membership: Membership) -> None:
        assert owner.told == ["begins"]

    link = play(story, instance="host-1")
    assert link.of(LeaveGroup) == []
    assert {one.instance for one in link.of(BeatGroup) if isinstance(one, BeatGroup)} <= {"host-1"}


def test_nobody_is_held_up_by_a_member_whose_goodbye_is_not_heard() -> None:
    async def story(link: PlayedLink, _owner: NotingOwner, _membership: Membership) -> None:
        link.troubles[LeaveGroup] = [OutcomeUnknown("?")]

    assert isinstance(play(story).requests[-1], LeaveGroup)


def test_a_fault_of_our_own_is_told() -> None:
    async def story(_link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        owner.has = cast(Mapping[str, int], None)
        membership.rejoin()
        await until(lambda: owner.failure is not None)
        assert "internal error of the client" in str(owner.failure)

    play(story)


# Cooperative rebalancing.


def test_a_cooperating_member_joins_without_putting_anything_down() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        link.protocol = COOPERATIVE
        membership.rejoin()
        await until(lambda: owner.told == ["begins", "revoke", "goes on"])
        link.rebalances = True
        await until(lambda: owner.told == ["begins", "revoke", "goes on", "goes on"])
        assert membership.generation == 3
        assert owner.parts == (FIRST, TopicPartition("orders", 2))

    play(story)


def test_what_leaves_a_cooperating_member_is_put_down_and_it_joins_again() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        link.protocol, link.leader, link.given = COOPERATIVE, "you", (FIRST, SECOND)
        membership.rejoin()
        await until(lambda: membership.generation == 2)
        await until(lambda: membership.assignment == (FIRST, SECOND))
        await until(lambda: membership.generation > 2)  # Partition 2 has left it, from the first.
        told = len(owner.told)
        owner.in_hand = asyncio.Event()
        link.given = (FIRST,)
        generation = membership.generation
        membership.rejoin()
        await until(lambda: owner.told[told:] == ["goes on", "revoke 1"])
        beats = len(link.of(BeatGroup))
        await until(lambda: len(link.of(BeatGroup)) > beats + 3)  # It stays alive meanwhile.
        assert membership.generation == generation + 1  # It may commit.
        owner.in_hand.set()
        await until(lambda: owner.told[told:] == ["goes on", "revoke 1", "put down", "goes on"])
        join = link.of(JoinGroup)[-1]
        assert isinstance(join, JoinGroup)
        wish = decode_wish(dict(join.protocols)[COOPERATIVE])
        assert wish == Wish(frozenset({"orders"}), (FIRST,), generation + 1)
        assert decode_wish(dict(join.protocols)[STICKY]).holds

    play(story)


def test_a_round_that_was_overtaken_interrupts_no_cooperating_member() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        link.protocol = COOPERATIVE
        membership.rejoin()
        await until(lambda: membership.generation == 2)
        link.troubles[SyncGroup] = [RebalanceInProgress("the next one has begun")]
        membership.rejoin()
        await until(lambda: membership.generation == 4)
        assert owner.told == ["begins", "revoke", "goes on", "goes on"]

    play(story)


def test_an_eager_generation_that_gives_nothing_waits_until_all_is_put_down() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        link.protocol = COOPERATIVE
        membership.rejoin()
        await until(lambda: membership.generation == 2)
        link.protocol = STICKY
        membership.rejoin()
        await until(lambda: membership.generation == 4)
        sync = link.of(SyncGroup)[2]
        assert isinstance(sync, SyncGroup)
        assert {decode_assignment(data) for _, data in sync.assignments} == {()}
        assert owner.told[3:] == ["goes on", "revoke 0 2", "revoke", "goes on"]
        assert owner.parts == (FIRST, TopicPartition("orders", 2))

    play(story)


def test_a_cooperating_member_that_joins_for_longer_than_a_session_hands_nothing_out() -> None:
    async def story(link: PlayedLink, owner: NotingOwner, membership: Membership) -> None:
        link.protocol = COOPERATIVE
        membership.rejoin()
        await until(lambda: membership.generation == 2)
        link.slow = asyncio.Event()
        membership.rejoin()
        await until(lambda: owner.told[-1] == "suspend")
        link.slow.set()
        await until(lambda: owner.told[-2:] == ["resume", "goes on"])

    play(story, session=0.05)
