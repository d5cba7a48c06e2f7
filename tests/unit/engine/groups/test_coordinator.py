"""The coordinator, told as stories: members that wait, that fall silent, that come back.

Long because there is a story for each way in which a member, a client or a leader may be lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps

import pytest

from penstock.core.errors import (
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    InvalidGroup,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    OffsetMetadataTooLarge,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    RebalanceInProgress,
    Unavailable,
    UnknownGroup,
    UnknownMember,
)
from penstock.core.limits import GROUP_PENDING_MEMBERS_MAX
from penstock.core.types import Offset
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.requests import (
    CommitOffsets,
    GroupOverview,
    GroupSettings,
    Joined,
    JoinedMember,
    JoinGroup,
    LeavingMember,
    OffsetToCommit,
    Synced,
    SyncGroup,
)
from penstock.engine.groups.timers import GroupTimers
from penstock.machines.group import GroupState
from penstock.machines.group_commands import CompleteJoin, ExpireMembers, JoinMember
from penstock.machines.groups import Groups
from penstock.machines.machine import Reply, Request
from penstock.testing.clock import ManualClock
from tests.coordinators import Consumer, GroupCluster, spin
from tests.groups import BILLS, ORDERS, RANGE, subscription


def story(tell: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """A test that is a coroutine."""

    @wraps(tell)
    def run() -> None:
        asyncio.run(tell())

    return run


def request(member: str = "", **changes: object) -> JoinGroup:
    words: dict[str, object] = {
        "group": "g",
        "member": member,
        "client_id": "client",
        "client_host": "/host",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return JoinGroup(**{**words, **changes})  # type: ignore[arg-type]


def sync(
    member: str, generation: int, *parts: tuple[str, bytes], instance: str | None = None
) -> SyncGroup:
    return SyncGroup(
        group="g", member=member, generation=generation, instance=instance, assignments=parts
    )


def commit(offset: int, *, member: str = "", generation: int = -1, note: str = "") -> CommitOffsets:
    one = OffsetToCommit(ORDERS, 0, Offset(offset), 3, note)
    return CommitOffsets(group="g", member=member, generation=generation, offsets=(one,))


async def settled(count: int, cluster: GroupCluster, *, static: bool = False) -> list[Consumer]:
    """So many consumers in a stable group."""
    consumers = [
        Consumer(cluster, f"c{number}", instance=f"i{number}" if static else None)
        for number in range(count)
    ]
    for consumer in consumers:
        consumer.start()
        await spin()
    await cluster.run(600)
    check_settled(cluster, consumers)
    return consumers


def check_settled(cluster: GroupCluster, consumers: list[Consumer]) -> None:
    """They are the members of a stable group, and each has its own part."""
    group = cluster.groups.get("g")
    assert group is not None
    assert group.state is GroupState.STABLE, group.describe()
    assert sorted(group.members) == sorted(consumer.member for consumer in consumers)
    for consumer in consumers:
        assert consumer.generation == group.generation
        assert consumer.assignment == f"{group.generation}/{consumer.member}".encode()


async def finish(cluster: GroupCluster, *consumers: Consumer) -> None:
    for consumer in consumers:
        await consumer.stop()
    await cluster.close()


async def refused(awaitable: Awaitable[object], error: type[PenstockError]) -> PenstockError:
    with pytest.raises(error) as caught:
        await awaitable
    return caught.value


@story
async def test_a_first_member_waits_a_moment_for_others() -> None:
    cluster = GroupCluster()
    first = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    second = asyncio.create_task(cluster.coordinator.join(request()))
    await cluster.run(200)
    assert not first.done()
    await cluster.run(400)  # Somebody came during the first delay, so there is another.
    assert await first == Joined(
        member="client-1",
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader="client-1",
        members=tuple(JoinedMember(name, None, RANGE[0][1]) for name in ("client-1", "client-2")),
    )
    joined = await second
    assert (joined.member, joined.leader, joined.members) == ("client-2", "client-1", ())

    follower = asyncio.create_task(cluster.coordinator.sync(sync("client-2", 1)))
    await spin()
    assert not follower.done()
    leader = await cluster.coordinator.sync(sync("client-1", 1, ("client-2", b"work")))
    assert leader.assignment == b""
    assert await follower == Synced(protocol_type="consumer", protocol="range", assignment=b"work")
    again = await cluster.coordinator.sync(sync("client-2", 1))
    assert again.assignment == b"work", "a sync may be repeated"
    await cluster.close()


@story
async def test_the_initial_delay_ends_though_members_keep_coming() -> None:
    cluster = GroupCluster()
    joins = []
    for _ in range(20):
        joins.append(
            asyncio.create_task(cluster.coordinator.join(request(rebalance_timeout_ms=1_000)))
        )
        await cluster.run(100)
    assert joins[0].done()
    assert cluster.clock.monotonic_ms() <= 2_000
    for join in joins:
        join.cancel()
    await asyncio.gather(*joins, return_exceptions=True)
    await cluster.close()


@story
async def test_a_new_member_is_given_an_id_first() -> None:
    cluster = GroupCluster()
    wish = request(require_known_member=True)
    error = await refused(cluster.coordinator.join(wish), MemberIdRequired)
    assert isinstance(error, MemberIdRequired)
    assert error.member_id == "client-1"
    assert cluster.written == [], "an id that may never be used costs nothing"
    await refused(cluster.coordinator.join(request("client-7")), UnknownMember)
    join = asyncio.create_task(cluster.coordinator.join(request(error.member_id)))
    await cluster.run(300)
    assert (await join).member == "client-1"
    await refused(cluster.coordinator.join(request("client-7")), UnknownMember)
    await cluster.close()


@story
async def test_an_id_that_is_not_used_is_forgotten() -> None:
    cluster = GroupCluster()
    wish = request(require_known_member=True)
    for after in ("time", "leave"):
        error = await refused(cluster.coordinator.join(wish), MemberIdRequired)
        assert isinstance(error, MemberIdRequired)
        if after == "time":
            cluster.pass_time(10_000)
        else:
            (left,) = await cluster.coordinator.leave("g", [LeavingMember(error.member_id)])
            assert left.error is None
        await refused(cluster.coordinator.join(request(error.member_id)), UnknownMember)
    await cluster.close()


@pytest.mark.slow
@story
async def test_ids_that_are_not_used_are_bounded() -> None:
    cluster = GroupCluster()
    wish = request(require_known_member=True)
    timers = GroupTimers(cluster.groups, cluster.clock, GroupSettings())
    for number in range(GROUP_PENDING_MEMBERS_MAX):
        timers.hand_out(("g", str(number)), 10_000)
    with pytest.raises(Unavailable, match="too many new members"):
        timers.hand_out(("g", "one more"), 10_000)
    await refused(cluster.coordinator.join(wish), MemberIdRequired)
    await cluster.close()


@story
async def test_one_more_consumer_shares_the_work() -> None:
    cluster = GroupCluster()
    consumers = await settled(3, cluster)
    one_more = Consumer(cluster, "more", knows_pending=False)
    one_more.start()
    await spin()
    assert one_more.assignment is None, "the others do not know yet"
    for consumer in consumers:
        consumer.beat()
    await spin()
    check_settled(cluster, [*consumers, one_more])
    assert sum(consumer.sent_away for consumer in consumers) == 0
    await finish(cluster, *consumers, one_more)


@story
async def test_a_silent_member_is_put_out() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster)
    await consumers[1].stop()
    for _ in range(11):
        consumers[0].beat()
        await cluster.run(1_000)
    consumers[0].beat()
    await spin()
    check_settled(cluster, consumers[:1])
    await finish(cluster, *consumers)


@story
async def test_heartbeats_and_commits_keep_a_member_alive() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster)
    first, second = consumers
    for _ in range(30):
        await cluster.run(1_000)
        first.beat()
        wish = commit(1, member=second.member, generation=second.generation)
        await cluster.coordinator.commit_offsets(wish)
    check_settled(cluster, consumers)
    assert not any(isinstance(one, ExpireMembers) for one in cluster.written)
    await finish(cluster, *consumers)


@story
async def test_a_member_is_alive_while_it_waits() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster)
    first, second = consumers
    joins = asyncio.create_task(cluster.coordinator.join(request(first.member)))
    await spin()
    for _ in range(59):
        await cluster.run(1_000)
        with pytest.raises(RebalanceInProgress):
            cluster.coordinator.heartbeat("g", member=second.member, generation=1)
    assert not joins.done()
    await cluster.run(1_200)
    joined = await joins
    assert [one.member for one in joined.members] == [first.member]
    assert cluster.written[-1] == CompleteJoin(group="g", rebalance=2)
    await finish(cluster, *consumers)


@story
async def test_who_takes_no_assignment_is_put_out() -> None:
    cluster = GroupCluster()
    consumers = await settled(1, cluster)
    idle = asyncio.create_task(cluster.coordinator.join(request(rebalance_timeout_ms=5_000)))
    await spin()
    consumers[0].beat()
    await spin()
    joined = await idle
    for _ in range(59):
        consumers[0].beat()
        cluster.coordinator.heartbeat("g", member=joined.member, generation=2)
        await cluster.run(1_000)
    assert len(cluster.coordinator.describe("g").members) == 2
    for _ in range(2):
        consumers[0].beat()
        await cluster.run(1_000)
    check_settled(cluster, consumers)
    await finish(cluster, *consumers)


@story
async def test_a_request_that_is_sent_again_waits_along() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster)
    first, second = consumers
    await first.stop()
    await second.stop()
    joins = [asyncio.create_task(cluster.coordinator.join(request(first.member))) for _ in range(3)]
    await spin()
    joins[1].cancel()
    await spin()
    assert (await cluster.coordinator.join(request(second.member))).generation == 2
    assert await joins[0] == await joins[2]
    syncs = [
        asyncio.create_task(cluster.coordinator.sync(sync(second.member, 2))) for _ in range(3)
    ]
    await spin()
    syncs[0].cancel()
    await cluster.coordinator.sync(sync(first.member, 2, (second.member, b"work")))
    assert (await syncs[1]).assignment == (await syncs[2]).assignment == b"work"
    await finish(cluster)


@story
async def test_a_member_whose_client_went_away_has_its_session_to_come_back() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster)
    first, second = consumers
    await first.stop()
    join = asyncio.create_task(cluster.coordinator.join(request(first.member)))
    await spin()
    await cluster.run(5_000)
    join.cancel()
    for _ in range(9):
        with pytest.raises(RebalanceInProgress):
            cluster.coordinator.heartbeat("g", member=second.member, generation=1)
        await cluster.run(1_000)
    assert first.member in cluster.groups.groups["g"].members
    await cluster.run(1_200)
    assert first.member not in cluster.groups.groups["g"].members
    await second.stop()
    await finish(cluster)


@story
async def test_a_member_that_never_learnt_its_id_is_dropped_at_once() -> None:
    cluster = GroupCluster()
    join = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    join.cancel()
    await spin()
    assert cluster.groups.groups["g"].state is GroupState.EMPTY
    cluster.at_once = False
    join = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    join.cancel()
    await spin()
    cluster.commit(2)
    assert cluster.groups.groups["g"].state is GroupState.EMPTY, "though it came to be later"
    await finish(cluster)


@story
async def test_a_round_that_closed_unnoticed_is_still_answered() -> None:
    """Two rounds pass before the member's call gets its turn: it must not wait for the second."""
    cluster = GroupCluster()
    cluster.at_once = False
    first = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    cluster.commit()
    await spin()
    cluster.pass_time(300)
    late = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    cluster.commit(2)  # The first round closes; before anybody runs, the next one opens.
    joined = await first
    assert joined.generation == 1
    await refused(cluster.coordinator.sync(sync(joined.member, 1)), RebalanceInProgress)
    again = asyncio.create_task(cluster.coordinator.join(request(joined.member)))
    await spin()
    cluster.commit()
    assert (await again).generation == (await late).generation == 2
    await finish(cluster)


@story
async def test_a_join_that_closed_its_round_does_not_wait_for_the_next() -> None:
    """The next round opens before the call that closed this one gets its turn."""
    cluster = GroupCluster()
    consumers = await settled(1, cluster)
    await consumers[0].stop()
    member = consumers[0].member
    newcomer = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    cluster.at_once = False
    closing = asyncio.create_task(cluster.coordinator.join(request(member)))
    another = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    cluster.commit(2)
    assert (await closing).generation == (await newcomer).generation == 2
    assert not another.done()
    await refused(cluster.coordinator.sync(sync(member, 2)), RebalanceInProgress)
    another.cancel()
    await finish(cluster)


@story
async def test_a_new_member_may_send_its_join_twice() -> None:
    cluster = GroupCluster()
    error = await refused(
        cluster.coordinator.join(request(require_known_member=True)), MemberIdRequired
    )
    assert isinstance(error, MemberIdRequired)
    twice = request(error.member_id)
    joins = [asyncio.create_task(cluster.coordinator.join(twice)) for _ in range(2)]
    await cluster.run(300)
    assert await joins[0] == await joins[1]
    await finish(cluster)


@story
async def test_a_lost_effect_costs_a_tick() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster)
    for consumer in consumers:
        await consumer.stop()
    first, second = (consumer.member for consumer in consumers)
    cluster.deaf = True
    waiting = asyncio.create_task(cluster.coordinator.join(request(first)))
    await spin()
    closing = asyncio.create_task(cluster.coordinator.join(request(second)))
    await spin(1)
    cluster.at_once = False
    closing.cancel()
    await spin()
    assert not waiting.done()
    cluster.pass_time(100)
    assert (await waiting).generation == 2
    await finish(cluster)


@story
async def test_a_rebalance_sends_waiting_syncs_back_to_join() -> None:
    cluster = GroupCluster()
    joins = [asyncio.create_task(cluster.coordinator.join(request())) for _ in range(2)]
    await cluster.run(600)
    first, second = [await join for join in joins]
    waiting = asyncio.create_task(cluster.coordinator.sync(sync(second.member, 1)))
    await spin()
    newcomer = asyncio.create_task(cluster.coordinator.join(request()))
    await refused(waiting, RebalanceInProgress)
    await refused(
        cluster.coordinator.sync(sync(first.member, 1, (second.member, b"late"))),
        RebalanceInProgress,
    )
    members = [first.member, second.member]
    await asyncio.gather(*(cluster.coordinator.join(request(one)) for one in members), newcomer)
    await finish(cluster)


@story
async def test_leaving_hands_the_work_on() -> None:
    cluster = GroupCluster()
    consumers = await settled(3, cluster)
    await consumers[0].leave()
    for consumer in consumers[1:]:
        consumer.beat()
    await spin()
    check_settled(cluster, consumers[1:])
    results = await cluster.coordinator.leave(
        "g", [LeavingMember("who"), LeavingMember(consumers[1].member)]
    )
    assert [type(one.error) for one in results] == [UnknownMember, type(None)]
    (result,) = await cluster.coordinator.leave("nobody", [LeavingMember("who")])
    assert isinstance(result.error, UnknownMember)
    await finish(cluster, *consumers)


@story
async def test_who_is_removed_while_it_waits_is_told() -> None:
    cluster = GroupCluster()
    join = asyncio.create_task(cluster.coordinator.join(request(instance="one")))
    await spin()
    (result,) = await cluster.coordinator.leave("g", [LeavingMember("", "one")])
    assert result.error is None
    await refused(join, UnknownMember)
    await finish(cluster)


# Static members.


@story
async def test_a_static_member_restarts_without_a_rebalance() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster, static=True)
    _, second = consumers
    former = second.member
    await second.stop()
    answer = await cluster.coordinator.join(request(instance="i1", skips_assignment=True))
    assert (answer.generation, answer.skip_assignment, answer.members) == (1, False, ())
    assert answer.member != former
    synced = await cluster.coordinator.sync(sync(answer.member, 1, instance="i1"))
    assert synced.assignment == f"1/{former}".encode()
    with pytest.raises(FencedInstance):
        cluster.coordinator.heartbeat("g", member=former, generation=1, instance="i1")
    await finish(cluster, *consumers)


@story
async def test_a_static_leader_restarts_and_does_not_share_out_anew() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster, static=True)
    former = consumers[0].member
    await consumers[0].stop()
    old_client = await cluster.coordinator.join(request(instance="i0"))
    assert old_client.leader == former != old_client.member
    assert old_client.members == ()
    new_client = await cluster.coordinator.join(request(instance="i0", skips_assignment=True))
    assert new_client.skip_assignment
    assert new_client.leader == new_client.member
    assert len(new_client.members) == 2
    assert cluster.groups.groups["g"].state is GroupState.STABLE
    await finish(cluster, *consumers)


@story
async def test_a_second_process_of_a_static_member_fences_the_first() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster, static=True)
    leader = consumers[0]
    await consumers[1].stop()
    await leader.stop()
    waiting = asyncio.create_task(cluster.coordinator.join(request(leader.member, instance="i0")))
    await spin()
    twin = asyncio.create_task(cluster.coordinator.join(request(instance="i0")))
    await refused(waiting, FencedInstance)
    await cluster.coordinator.join(request(consumers[1].member, instance="i1"))
    assert (await twin).generation == 2
    await finish(cluster)


@story
async def test_a_static_member_that_is_away_for_long_is_put_out() -> None:
    cluster = GroupCluster()
    consumers = await settled(2, cluster, static=True)
    await consumers[1].stop()
    for _ in range(12):
        consumers[0].beat()
        await cluster.run(1_000)
    check_settled(cluster, consumers[:1])
    await finish(cluster, *consumers)


# Leaders come and go.


@story
async def test_what_waits_ends_with_the_leadership() -> None:
    cluster = GroupCluster(2)
    join = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    old = cluster.coordinator
    cluster.change_leader(1)
    await refused(join, NotCoordinator)
    for ask in (
        lambda: old.heartbeat("g", member="client-1", generation=0),
        lambda: old.offsets("g"),
        old.groups,
        lambda: old.describe("g"),
        old.committed,
    ):
        with pytest.raises(NotCoordinator):
            ask()
    for call in (
        old.join(request()),
        old.sync(sync("client-1", 0)),
        old.leave("g", []),
        old.commit_offsets(commit(1)),
        old.delete_group("g"),
        old.delete_offsets("g", {}),
        old.forget_topics([ORDERS]),
    ):
        await refused(call, NotCoordinator)
    old.tick()
    await finish(cluster)


@story
async def test_what_is_under_way_ends_with_the_leadership() -> None:
    cluster = GroupCluster(2)
    cluster.at_once = False
    join = asyncio.create_task(cluster.coordinator.join(request()))
    store = asyncio.create_task(cluster.coordinator.commit_offsets(commit(7)))
    await spin()
    cluster.change_leader(1, committed=1)
    await refused(join, NotCoordinator)
    error = await refused(store, OutcomeUnknown)
    assert not isinstance(error, Unavailable), "it may have happened"
    await finish(cluster)


@story
async def test_a_stable_group_does_not_notice_a_new_leader() -> None:
    cluster = GroupCluster(2)
    consumers = await settled(3, cluster)
    await cluster.run(9_000)
    cluster.change_leader(1)
    await cluster.run(9_000)
    for consumer in consumers:
        consumer.beat()
    await cluster.run(9_000)
    check_settled(cluster, consumers)
    assert cluster.groups.groups["g"].generation == 1
    await cluster.run(70_000)
    assert cluster.groups.groups["g"].state is GroupState.EMPTY, "but silence is noticed"
    await finish(cluster, *consumers)


@story
async def test_members_that_waited_at_the_old_leader_find_their_round_at_the_new_one() -> None:
    cluster = GroupCluster(2)
    consumers = [Consumer(cluster, f"c{number}") for number in range(3)]
    for consumer in consumers:
        consumer.start()
    await spin()
    cluster.change_leader(1)
    await cluster.run(1_000)
    check_settled(cluster, consumers)
    assert [consumer.sent_away for consumer in consumers] == [0, 0, 0]
    await finish(cluster, *consumers)


@story
async def test_the_answer_that_got_lost_is_given_by_the_new_leader() -> None:
    cluster = GroupCluster(2)
    joins = [asyncio.create_task(cluster.coordinator.join(request())) for _ in range(2)]
    await cluster.run(600)
    first, second = [await join for join in joins]
    cluster.change_leader(1)
    coordinator = cluster.coordinator
    assert await coordinator.join(request(first.member)) == first
    assert await coordinator.join(request(second.member)) == second
    await coordinator.sync(sync(first.member, 1, (second.member, b"work")))
    cluster.change_leader(0)
    assert (await cluster.coordinator.sync(sync(second.member, 1))).assignment == b"work"
    await finish(cluster)


@story
async def test_timers_that_fail_try_again() -> None:
    cluster = GroupCluster(2)
    join = asyncio.create_task(cluster.coordinator.join(request()))
    await spin()
    cluster.at_once = False
    cluster.pass_time(300)
    await spin()
    assert cluster.proposed == 1
    cluster.pass_time(3_000)
    await spin()
    assert cluster.proposed == 1, "the same is not asked for twice at a time"
    cluster._queue.popleft()[1].set_exception(Overloaded("not now"))
    cluster.at_once = True
    await cluster.run(1_200)
    assert (await join).generation == 1
    await finish(cluster)


# Offsets.


@story
async def test_offsets_are_committed_and_read() -> None:
    cluster = GroupCluster()
    coordinator = cluster.coordinator
    assert await coordinator.commit_offsets(commit(7, note="so far")) == {(ORDERS, 0): None}
    stored = coordinator.offsets("g")[ORDERS, 0]
    assert (stored.offset, stored.leader_epoch, stored.metadata) == (7, 3, "so far")
    assert coordinator.offsets("g", [(BILLS, 0)]) == {}
    assert [one.offset for one in coordinator.committed()] == [7]
    await refused(coordinator.commit_offsets(commit(8, member="a", generation=1)), UnknownMember)
    consumers = await settled(1, cluster)
    await refused(coordinator.commit_offsets(commit(8)), UnknownMember)
    member = consumers[0].member
    await refused(coordinator.commit_offsets(commit(8, member=member)), IllegalGeneration)
    await coordinator.commit_offsets(commit(9, member=member, generation=1))
    assert coordinator.offsets("g")[ORDERS, 0].offset == 9
    unborn = CommitOffsets(group="unborn", member="a", generation=1, offsets=())
    await refused(coordinator.commit_offsets(unborn), IllegalGeneration)
    await finish(cluster, *consumers)


@story
async def test_too_much_metadata_is_refused_by_itself() -> None:
    cluster = GroupCluster()
    offsets = (
        OffsetToCommit(ORDERS, 0, Offset(1), metadata="x" * 4_096),
        OffsetToCommit(ORDERS, 1, Offset(1), metadata="ü" * 2_049),
    )
    outcome = await cluster.coordinator.commit_offsets(CommitOffsets(group="g", offsets=offsets))
    assert outcome[ORDERS, 0] is None
    assert isinstance(outcome[ORDERS, 1], OffsetMetadataTooLarge)
    assert list(cluster.coordinator.offsets("g")) == [(ORDERS, 0)]
    only_large = CommitOffsets(group="h", offsets=offsets[1:])
    await cluster.coordinator.commit_offsets(only_large)
    assert cluster.groups.get("h") is None
    await finish(cluster)


@story
async def test_offsets_and_groups_are_deleted() -> None:
    cluster = GroupCluster()
    coordinator = cluster.coordinator
    await refused(coordinator.delete_group("g"), UnknownGroup)
    await refused(coordinator.delete_offsets("g", {(ORDERS, 0): "orders"}), UnknownGroup)
    await coordinator.commit_offsets(commit(7))
    consumers = await settled(1, cluster)
    await refused(coordinator.delete_group("g"), GroupNotEmpty)
    outcome = await coordinator.delete_offsets("g", {(ORDERS, 0): "orders", (BILLS, 0): "bills"})
    assert isinstance(outcome[ORDERS, 0], GroupSubscribed)
    assert outcome[BILLS, 0] is None
    await consumers[0].leave()
    assert await coordinator.delete_offsets("g", {(ORDERS, 0): "orders"}) == {(ORDERS, 0): None}
    await coordinator.commit_offsets(commit(7))
    await coordinator.forget_topics([ORDERS])
    await coordinator.forget_topics([])
    assert coordinator.offsets("g") == {}
    await coordinator.delete_group("g")
    assert coordinator.groups() == []
    await finish(cluster)


@story
async def test_old_offsets_are_swept_away() -> None:
    hour_ms = 60 * 60 * 1_000
    settings = GroupSettings(offset_retention_ms=24 * hour_ms, offset_sweep_interval_ms=hour_ms)
    cluster = GroupCluster(settings=settings)
    await cluster.coordinator.commit_offsets(commit(7))
    for _ in range(23):
        cluster.clock.advance(hour_ms)
        await cluster.run(100)
    assert len(cluster.coordinator.offsets("g")) == 1
    cluster.clock.advance(hour_ms)
    await cluster.run(100)
    assert cluster.groups.get("g") is None
    await finish(cluster)


# What people see, and what is refused.


@story
async def test_groups_are_listed_and_described() -> None:
    cluster = GroupCluster()
    coordinator = cluster.coordinator
    assert coordinator.describe("g").state == "Dead"
    consumers = await settled(1, cluster)
    simple = CommitOffsets(group="a", offsets=commit(1).offsets)
    await coordinator.commit_offsets(simple)
    assert coordinator.groups() == [
        GroupOverview("a", "", "Empty"),
        GroupOverview("g", "consumer", "Stable"),
    ]
    found = coordinator.describe("g")
    assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
    (member,) = found.members
    assert member.member == found.leader == consumers[0].member
    assert (member.client_id, member.client_host) == ("c0", "/host")
    assert (member.metadata, member.assignment) == (
        subscription("orders"),
        consumers[0].assignment,
    )
    join = asyncio.create_task(coordinator.join(request()))
    await spin()
    found = coordinator.describe("g")
    assert (found.state, found.protocol, len(found.members)) == ("PreparingRebalance", "", 2)
    assert {one.assignment for one in found.members} == {b""}
    join.cancel()
    await finish(cluster, *consumers)


@story
async def test_senseless_requests_are_refused() -> None:
    cluster = GroupCluster(settings=GroupSettings(members_max=1))
    coordinator = cluster.coordinator
    long = "x" * 4_097
    for wish, error in (
        (request(group=""), InvalidGroup),
        (request(group=long), InvalidGroup),
        (request(client_id=long), InvalidRequest),
        (request(protocols=((long, b""),)), InvalidRequest),
        (request(protocols=tuple((str(one), b"") for one in range(65))), InvalidRequest),
        (request(protocols=(("range", bytes(1 << 20) + b"x"),)), InvalidRequest),
        (request(session_timeout_ms=5_999), InvalidSessionTimeout),
        (request(session_timeout_ms=1_800_001), InvalidSessionTimeout),
    ):
        await refused(coordinator.join(wish), error)
    for ask in (
        coordinator.sync(sync("a", 1, ("a", bytes(1 << 24)))),
        coordinator.leave("g", [LeavingMember("a")] * 10_001),
        coordinator.commit_offsets(CommitOffsets(group="g", offsets=commit(1).offsets * 100_001)),
    ):
        await refused(ask, InvalidRequest)
    await refused(coordinator.sync(sync("a", 1)), UnknownMember)
    with pytest.raises(UnknownMember):
        coordinator.heartbeat("g", member="a", generation=1)
    assert cluster.written == []
    consumers = await settled(1, cluster)
    await refused(coordinator.join(request()), GroupFull)
    await finish(cluster, *consumers)


@story
async def test_a_negative_or_endless_patience_is_bounded() -> None:
    cluster = GroupCluster()
    join = asyncio.create_task(cluster.coordinator.join(request(rebalance_timeout_ms=-1)))
    await cluster.run(300)
    assert (await join).generation == 1
    asked = [one.rebalance_timeout_ms for one in cluster.written if isinstance(one, JoinMember)]
    assert asked == [0]
    await finish(cluster)


@story
async def test_a_busy_shard_is_not_the_end_of_a_client() -> None:
    """Clients give up for good on errors they do not expect from a group."""

    async def busy(_request: Request) -> Reply:
        raise Overloaded("too much to do", retry_after_ms=70)

    coordinator = Coordinator(Groups(), busy, ManualClock())
    coordinator.leadership(True)
    error = await refused(coordinator.join(request()), Unavailable)
    assert type(error) is Unavailable
    assert error.retry_after_ms == 70
    await coordinator.close()
