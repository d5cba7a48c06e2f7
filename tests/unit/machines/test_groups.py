"""The table of groups: commands find their group, refusals change nothing, offsets are kept."""

import pytest

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import LocalError, Overloaded, UnsupportedVersion
from penstock.core.types import NO_TERM, Index, Offset, PartitionId, Term
from penstock.machines.commands import DeletePartition
from penstock.machines.group import CommittedOffset, GroupState
from penstock.machines.group_commands import (
    CompleteJoin,
    DeleteGroup,
    DropOffsets,
    ExpireOffsets,
    ForgetTopics,
    RemoveMembers,
    UseGroupsVersion,
)
from penstock.machines.groups import (
    GroupChanged,
    GroupOffset,
    Groups,
    GroupsSettings,
    GroupUpdated,
    MemberJoined,
    MembersRemoved,
    OffsetsDropped,
    OffsetsExpired,
)
from penstock.machines.machine import Applied, Effect, Propose
from tests.groups import BILLS, ORDERS, GroupsShard, assign, expire, join, remove, store

CHANGED: tuple[Effect, ...] = (GroupChanged("g"),)
UNCHANGED: tuple[Effect, ...] = ()


@pytest.fixture
def shard() -> GroupsShard:
    return GroupsShard()


def settle(shard: GroupsShard, *members: str) -> None:
    """A stable group of these members; one named with a capital is static."""
    for one in members:
        shard.do(join(one, new=True, instance=one if one.isupper() else None))
    shard.do(CompleteJoin(group="g", rebalance=shard.group().rebalance))
    parts = {one: one.encode() for one in members}
    leader = shard.group().leader
    instance = leader if leader.isupper() else None
    shard.do(assign(leader, shard.group().generation, parts, instance=instance))
    assert shard.group().state is GroupState.STABLE


def test_a_group_begins_with_a_member_and_tells_who_waits(shard: GroupsShard) -> None:
    assert shard.do(join("a", new=True)) == MemberJoined("a", 1, None)
    assert shard.effects == CHANGED
    assert shard.do(join("b", new=True)) == MemberJoined("b", 1, None)
    assert shard.effects == UNCHANGED, "nobody's answer is due because another one waits too"
    assert shard.do(CompleteJoin(group="g", rebalance=1)) == GroupUpdated()
    assert shard.effects == CHANGED
    shard.do(assign("a", 1, {"a": b"x"}))
    assert shard.effects == CHANGED


def test_late_timers_come_to_nothing(shard: GroupsShard) -> None:
    settle(shard, "a", "b")
    before = shard.state()
    for late in (
        CompleteJoin(group="g", rebalance=1),
        CompleteJoin(group="nobody", rebalance=1),
        expire("a", generation=0),
        expire("a", generation=1, group="nobody"),
    ):
        assert shard.do(late) == GroupUpdated()
        assert shard.effects == UNCHANGED
    assert shard.state() == before
    shard.do(expire("a", generation=1))
    assert shard.effects == CHANGED


def test_refusals(shard: GroupsShard) -> None:
    assert shard.refuse(join("a")) == "UnknownMember"
    assert shard.refuse(assign("a", 1)) == "UnknownMember"
    assert shard.refuse(join("a", new=True, protocols=())) == "InconsistentGroupProtocol"
    assert shard.refuse(store(5, member="a", generation=1)) == "IllegalGeneration"
    assert shard.refuse(DeleteGroup(group="g")) == "UnknownGroup"
    assert shard.refuse(DropOffsets(group="g", offsets=())) == "UnknownGroup"
    settle(shard, "a", "b", "ONE")
    assert shard.refuse(join("c", new=True, members_max=3)) == "GroupFull"
    assert shard.refuse(join("two", instance="ONE")) == "FencedInstance"
    assert shard.refuse(assign("a", 0)) == "IllegalGeneration"
    assert shard.refuse(DeleteGroup(group="g")) == "GroupNotEmpty"
    shard.do(join("c", new=True))
    assert shard.refuse(assign("a", 1)) == "RebalanceInProgress"


def test_each_leaving_member_gets_its_own_answer(shard: GroupsShard) -> None:
    settle(shard, "a", "b", "ONE", "TWO")
    leaving = (("a", None), ("a", None), ("who", None), ("", "ONE"), ("b", "TWO"), ("", "NONE"))
    reply = shard.do(RemoveMembers(group="g", members=leaving))
    assert isinstance(reply, MembersRemoved)
    codes = [refused.code if refused else "" for refused in reply.refusals]
    assert codes == ["", "UnknownMember", "UnknownMember", "", "FencedInstance", "UnknownMember"]
    assert list(shard.group().members) == ["b", "TWO"]
    assert shard.effects == CHANGED


def test_nobody_leaves_a_group_that_is_not_there(shard: GroupsShard) -> None:
    reply = shard.do(remove("a"))
    assert isinstance(reply, MembersRemoved)
    assert [refused.code for refused in reply.refusals if refused] == ["UnknownMember"]
    assert shard.machine.groups == {}


def test_a_takeover_wakes_the_one_taken_over(shard: GroupsShard) -> None:
    settle(shard, "a", "ONE")
    assert shard.do(join("two", instance="ONE", new=True)) == MemberJoined("two", 1, "ONE")
    assert shard.effects == CHANGED


# Offsets.


def test_offsets_of_a_member(shard: GroupsShard) -> None:
    settle(shard, "a")
    shard.now_ms = 5_000
    shard.do(store(70, member="a", generation=1))
    committed = CommittedOffset(Offset(70), 5, "note", 5_000)
    assert shard.machine.offsets("g") == {(ORDERS, 0): committed}
    assert shard.machine.offsets("g", [(ORDERS, 0), (ORDERS, 1), (BILLS, 0)]) == {
        (ORDERS, 0): committed
    }
    assert shard.machine.offsets("nobody") == shard.machine.offsets("g", []) == {}
    shard.do(store(60, member="a", generation=1))
    assert shard.machine.offsets("g")[ORDERS, 0].offset == 60, "going back is allowed"


def test_a_former_generation_commits_nothing(shard: GroupsShard) -> None:
    settle(shard, "a", "b")
    shard.do(remove("b"))
    shard.do(store(70, member="a", generation=1))  # A round is open; the generation still counts.
    shard.do(join("a"))
    assert shard.refuse(store(80, member="a", generation=1)) == "IllegalGeneration"
    assert shard.refuse(store(80, member="a", generation=2)) == "RebalanceInProgress"
    assert shard.refuse(store(80, member="b", generation=1)) == "UnknownMember"
    assert shard.refuse(store(80)) == "UnknownMember"
    assert shard.machine.offsets("g")[ORDERS, 0].offset == 70


def test_a_group_that_only_keeps_offsets(shard: GroupsShard) -> None:
    shard.do(store(70))
    assert shard.group().state is GroupState.EMPTY
    assert shard.group().protocol_type == ""
    shard.do(store(71, partition=1))
    shard.do(store(5, group="h", topic=BILLS))
    assert sorted(shard.machine.committed()) == [
        GroupOffset("g", ORDERS, 0, Offset(70)),
        GroupOffset("g", ORDERS, 1, Offset(71)),
        GroupOffset("h", BILLS, 0, Offset(5)),
    ]


def test_offsets_are_dropped_by_name(shard: GroupsShard) -> None:
    shard.do(store(1))
    shard.do(store(2, topic=BILLS))
    settle(shard, "a")
    wanted = ((ORDERS, 0, "orders"), (BILLS, 0, "bills"), (BILLS, 9, "bills"))
    reply = shard.do(DropOffsets(group="g", offsets=wanted))
    assert isinstance(reply, OffsetsDropped)
    codes = [refused.code if refused else "" for refused in reply.refusals]
    assert codes == ["GroupSubscribed", "", ""]
    assert list(shard.machine.offsets("g")) == [(ORDERS, 0)]
    shard.do(remove("a"))
    shard.do(DropOffsets(group="g", offsets=wanted))
    assert shard.machine.offsets("g") == {}


def test_whose_subscriptions_are_not_ours_to_read_must_stop_first(shard: GroupsShard) -> None:
    shard.do(join("a", new=True, protocol_type="connect"))
    dropped = DropOffsets(group="g", offsets=((ORDERS, 0, "orders"),))
    assert shard.refuse(dropped) == "GroupNotEmpty"


def test_offsets_of_deleted_topics_are_forgotten_in_all_groups(shard: GroupsShard) -> None:
    for group in ("g", "h"):
        shard.do(store(1, group=group))
        shard.do(store(2, group=group, topic=BILLS))
    shard.do(ForgetTopics(topics=(ORDERS,)))
    assert [one.topic_id for one in shard.machine.committed()] == [BILLS, BILLS]


def test_a_deleted_group_is_gone_with_its_offsets(shard: GroupsShard) -> None:
    shard.do(store(1))
    assert shard.do(DeleteGroup(group="g")) == GroupUpdated()
    assert shard.machine.get("g") is None
    assert shard.effects == CHANGED


def test_offsets_grow_old_only_in_groups_without_members(shard: GroupsShard) -> None:
    settle(shard, "a")
    shard.do(store(1, member="a", generation=1))
    shard.now_ms = 9_000
    sweep = ExpireOffsets(before_ms=9_000, groups=("g", "nobody"))
    assert not shard.machine.expirable("g", 9_000)
    assert shard.do(sweep) == OffsetsExpired(0, 0)
    shard.do(remove("a"))
    assert not shard.machine.expirable("g", 9_000), "it has been empty for no time at all"
    assert shard.do(sweep) == OffsetsExpired(0, 0)
    assert shard.machine.expirable("g", 9_001)
    assert shard.do(ExpireOffsets(before_ms=9_001, groups=("g",))) == OffsetsExpired(1, 1)
    assert shard.machine.get("g") is None
    assert not shard.machine.expirable("g", 9_001)


def test_a_fresh_commit_is_young_however_long_the_group_is_empty(shard: GroupsShard) -> None:
    shard.do(store(1))
    shard.now_ms = 5_000
    shard.do(store(2, partition=1))
    assert shard.do(ExpireOffsets(before_ms=5_000, groups=("g",))) == OffsetsExpired(1, 0)
    assert list(shard.machine.offsets("g")) == [(ORDERS, 1)]


def test_a_group_with_nothing_in_it_is_swept_away(shard: GroupsShard) -> None:
    shard.do(join("a", new=True))
    shard.do(remove("a"))
    assert shard.machine.expirable("g", 0)
    assert shard.do(ExpireOffsets(before_ms=0, groups=("g",))) == OffsetsExpired(0, 1)


# The machine.


def test_replay_and_snapshot_give_the_same_state(shard: GroupsShard) -> None:
    settle(shard, "a", "ONE", "b")
    shard.do(store(1, partition=3, member="a", generation=1))
    shard.do(store(1, partition=2, topic=BILLS, member="a", generation=1))
    shard.do(join("c", new=True))
    shard.do(store(9, group="early"))
    state = shard.machine.snapshot()
    restored = Groups()
    restored.restore(state)
    assert restored.snapshot() == state == shard.follower.snapshot()
    assert restored.describe() == shard.machine.describe() == "version 1 time 1000 groups 2"
    for last in (join("b"), join("a"), join("ONE", instance="ONE")):
        entry = shard.write(last)
        assert shard.apply(entry) == restored.apply(entry)
    assert shard.group().state is GroupState.COMPLETING
    assert restored.snapshot() == shard.machine.snapshot() != state


def test_the_order_of_commits_is_not_state() -> None:
    one, other = GroupsShard(), GroupsShard()
    commands = [store(1), store(2, topic=BILLS), store(3, partition=7), store(4, group="f")]
    for command in commands:
        one.do(command)
    for command in reversed(commands):
        other.do(command)
    assert one.machine.snapshot() == other.machine.snapshot()


def test_time_is_the_logs_and_never_goes_back(shard: GroupsShard) -> None:
    shard.do(store(1))
    shard.now_ms = 10
    shard.do(store(2))
    assert shard.machine.time_ms == 1_000
    assert shard.machine.offsets("g")[ORDERS, 0].commit_ms == 1_000
    shard.now_ms = 2_000
    shard.write(store(3))
    shard.machine.forget_plans()
    shard.now_ms = 1_500
    shard.do(store(4))
    assert shard.machine.time_ms == 1_500


def test_bounds_are_kept_before_a_write() -> None:
    groups = Groups(GroupsSettings(groups_max=1, offsets_per_group_max=2))

    def plan_and_apply(partition: int, group: str = "g") -> None:
        plan = groups.plan(store(1, group=group, partition=partition), now_ms=1, term=Term(1))
        assert isinstance(plan, Propose)
        groups.apply(Entry(Index(1), Term(1), EntryKind.COMMAND, plan.payload))

    plan_and_apply(0)
    plan_and_apply(1)
    plan_and_apply(1)
    with pytest.raises(Overloaded, match="too many partitions"):
        plan_and_apply(2)
    with pytest.raises(Overloaded, match="has 1 groups"):
        plan_and_apply(0, "h")
    with pytest.raises(Overloaded, match="has 1 groups"):
        groups.plan(join("a", group="h", new=True), now_ms=1, term=Term(1))


def test_what_is_not_for_groups_is_left_alone(shard: GroupsShard) -> None:
    noop = Entry(Index(1), NO_TERM, EntryKind.NOOP, b"")
    assert shard.machine.apply(noop) == Applied()
    assert shard.machine.log_starts() == {}
    with pytest.raises(LocalError, match="DeletePartition is not a command"):
        shard.machine.plan(DeletePartition(partition=PartitionId(1)), now_ms=1, term=Term(1))


def test_versions() -> None:
    newer = GroupsSettings(newest_version=2)
    new, old = Groups(newer), Groups()
    with pytest.raises(UnsupportedVersion, match="knows up to 1"):
        old.plan(UseGroupsVersion(version=2), now_ms=1, term=Term(1))
    plan = new.plan(UseGroupsVersion(version=2), now_ms=1, term=Term(1))
    assert isinstance(plan, Propose)
    entry = Entry(Index(1), Term(1), EntryKind.COMMAND, plan.payload)
    assert new.apply(entry) == Applied((GroupUpdated(),))
    assert new.version == 2
    before = old.snapshot()
    with pytest.raises(UnsupportedVersion):
        old.apply(entry)
    with pytest.raises(UnsupportedVersion):
        old.restore(new.snapshot())
    with pytest.raises(UnsupportedVersion, match="no snapshot of groups"):
        old.restore(b"something else")
    assert old.snapshot() == before
