"""One consumer group, told as stories: who joins, who waits for whom, who gets what."""

import pytest

from penstock.core.errors import (
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentGroupProtocol,
    PenstockError,
    RebalanceInProgress,
    UnknownMember,
)
from penstock.machines.group import NEXT_STATES, Group, GroupState, JoinOutcome
from tests.groups import RANGE, member, subscription

STICKY = (("sticky", subscription("orders")), *RANGE)


class Story:
    """A group in which things happen; time passes with every step."""

    def __init__(self) -> None:
        self.group = Group("g")
        self.now_ms = 0

    def join(
        self,
        name: str,
        *,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        new: bool = False,
        protocol_type: str = "consumer",
        members_max: int = 10,
    ) -> JoinOutcome:
        self.now_ms += 1
        return self.group.join(
            name,
            member(instance=instance, protocols=protocols),
            protocol_type=protocol_type,
            new=new,
            members_max=members_max,
            now_ms=self.now_ms,
        )

    def complete(self) -> bool:
        self.now_ms += 1
        return self.group.complete(self.group.rebalance, now_ms=self.now_ms)

    def share_out(self, **parts: bytes) -> None:
        assert self.group.assign(self.group.leader, parts, now_ms=self.now_ms)

    def settle(self, *names: str, instances: dict[str, str] | None = None) -> None:
        """These members form a stable group."""
        for name in names:
            self.join(name, new=True, instance=(instances or {}).get(name))
        self.complete()
        self.share_out(**{name: name.encode() for name in names})

    def state(self) -> str:
        return self.group.describe()


@pytest.fixture
def story() -> Story:
    return Story()


def test_the_first_members_wait_for_each_other(story: Story) -> None:
    assert story.state() == "Empty generation 0 round 0 leader - members 0 protocol -"
    story.join("a", new=True)
    story.join("b", new=True)
    assert story.state() == (
        "PreparingRebalance generation 0 round 1 leader a members 2 protocol -"
    )
    assert story.complete()
    assert story.state() == (
        "CompletingRebalance generation 1 round 1 leader a members 2 protocol range"
    )
    story.share_out(a=b"first", b=b"second", stranger=b"nothing")
    assert story.state() == "Stable generation 1 round 1 leader a members 2 protocol range"
    assert [one.assignment for one in story.group.members.values()] == [b"first", b"second"]


def test_whom_the_leader_forgets_gets_nothing(story: Story) -> None:
    story.join("a", new=True)
    story.join("b", new=True)
    story.complete()
    story.share_out(a=b"all")
    assert story.group.members["b"].assignment == b""


def test_only_the_leader_shares_out_and_only_once(story: Story) -> None:
    story.join("a", new=True)
    story.join("b", new=True)
    story.complete()
    assert not story.group.assign("b", {"b": b"mine"}, now_ms=9)
    story.share_out(a=b"1", b=b"2")
    assert not story.group.assign("a", {"a": b"again"}, now_ms=9)
    assert story.group.members["a"].assignment == b"1"


def test_a_newcomer_makes_everybody_join_again(story: Story) -> None:
    story.settle("a", "b")
    assert story.join("c", new=True) == JoinOutcome(2)
    assert story.group.round_open(2)
    assert story.join("a") == JoinOutcome(2)
    assert story.group.round_open(2), "b is awaited"
    story.join("b")
    assert story.state() == (
        "CompletingRebalance generation 2 round 2 leader a members 3 protocol range"
    )


def test_joining_twice_in_a_round_counts_once(story: Story) -> None:
    story.settle("a", "b")
    story.join("c", new=True)
    assert story.join("a") == story.join("a") == JoinOutcome(2)
    assert story.join("c", new=True) == JoinOutcome(2), "its first join may be sent again as well"
    assert story.group.round_open(2)


def test_who_does_not_come_in_time_is_out(story: Story) -> None:
    story.settle("a", "b")
    story.join("c", new=True)
    assert story.complete()
    assert list(story.group.members) == ["c"]
    assert story.group.leader == "c"
    with pytest.raises(UnknownMember):
        story.join("a")


def test_a_late_end_of_a_round_does_nothing(story: Story) -> None:
    story.settle("a")
    story.join("b", new=True)
    story.join("a")
    before = story.state()
    assert not story.group.complete(1, now_ms=9)
    assert not story.group.complete(2, now_ms=9)
    assert story.state() == before


def test_a_follower_with_nothing_new_gets_the_generation_there_is(story: Story) -> None:
    story.settle("a", "b")
    assert story.join("b") == JoinOutcome(1)
    assert story.group.state is GroupState.STABLE


def test_a_leader_that_joins_again_wants_a_rebalance(story: Story) -> None:
    story.settle("a", "b")
    assert story.join("a") == JoinOutcome(2)
    assert story.group.round_open(2)


def test_new_metadata_is_a_rebalance(story: Story) -> None:
    story.settle("a", "b")
    story.join("b", protocols=(("range", subscription("orders", "bills")),))
    assert story.group.round_open(2)


def test_whoever_missed_the_answer_to_its_join_gets_it_again(story: Story) -> None:
    story.join("a", new=True)
    story.join("b", new=True)
    story.complete()
    assert story.join("a") == story.join("b") == JoinOutcome(1)
    assert story.group.state is GroupState.COMPLETING
    story.join("b", protocols=STICKY)
    assert story.group.round_open(2), "but not if it has something new to say"


def test_leaving_in_any_state(story: Story) -> None:
    story.settle("a", "b", "c")
    story.group.remove(["c"], now_ms=1)
    assert story.group.round_open(2)
    story.join("b")
    story.group.remove(["a"], now_ms=1)
    assert story.state() == (
        "CompletingRebalance generation 2 round 2 leader b members 1 protocol range"
    ), "a was the last one to wait for, and the leader"
    story.group.remove(["b"], now_ms=7)
    assert story.state() == "Empty generation 3 round 3 leader - members 0 protocol -"
    assert story.group.since_ms == 7


def test_all_leave_before_the_first_generation(story: Story) -> None:
    story.join("a", new=True)
    story.group.remove(["a"], now_ms=1)
    assert story.state() == "Empty generation 1 round 1 leader - members 0 protocol -"
    story.join("b", new=True)
    assert story.group.initial


def test_expiry_is_fenced_by_the_generation(story: Story) -> None:
    story.settle("a", "b")
    assert story.group.expire(("b",), 0, now_ms=1) == []
    assert story.group.expire(("b", "who"), 1, now_ms=1) == ["b"]
    assert story.group.round_open(2)
    assert story.group.expire(("b",), 1, now_ms=1) == []


def test_the_protocol_most_members_like_wins(story: Story) -> None:
    both = dict(STICKY)
    story.join("a", new=True, protocols=(("range", both["range"]), ("sticky", both["sticky"])))
    story.join("b", new=True, protocols=STICKY)
    story.join("c", new=True, protocols=STICKY)
    story.complete()
    assert story.group.protocol == "sticky"


def test_of_equally_liked_protocols_the_eldest_member_decides(story: Story) -> None:
    both = dict(STICKY)
    story.join("a", new=True, protocols=(("range", both["range"]), ("sticky", both["sticky"])))
    story.join("b", new=True, protocols=STICKY)
    story.complete()
    assert story.group.protocol == "range"


def test_a_protocol_that_not_all_know_is_no_candidate(story: Story) -> None:
    story.join("a", new=True, protocols=STICKY)
    story.join("b", new=True, protocols=STICKY)
    story.join("c", new=True)
    story.complete()
    assert story.group.protocol == "range"


def test_a_member_that_shares_no_protocol_is_refused(story: Story) -> None:
    other = (("other", b""),)
    with pytest.raises(InconsistentGroupProtocol):
        story.join("a", new=True, protocols=())
    with pytest.raises(InconsistentGroupProtocol):
        story.join("a", new=True, protocol_type="")
    assert story.group.state is GroupState.EMPTY
    story.settle("a", "b")
    for attempt in ("c", "a"):
        with pytest.raises(InconsistentGroupProtocol):
            story.join(attempt, new=attempt == "c", protocols=other)
    with pytest.raises(InconsistentGroupProtocol):
        story.join("c", new=True, protocol_type="connect")
    assert story.state() == "Stable generation 1 round 1 leader a members 2 protocol range"


def test_a_member_alone_may_change_its_mind(story: Story) -> None:
    story.settle("a")
    story.join("a", protocols=(("other", b""),), protocol_type="connect")
    assert story.group.protocol_type == "connect"
    assert story.group.protocol == "other"


def test_a_full_group_takes_nobody(story: Story) -> None:
    story.join("a", new=True, members_max=2)
    story.join("b", new=True, members_max=2)
    with pytest.raises(GroupFull):
        story.join("c", new=True, members_max=2)
    story.complete()
    assert story.join("a", members_max=2) == JoinOutcome(1), "members may come back"


# Static members.


def test_a_static_member_comes_back_to_its_place(story: Story) -> None:
    story.settle("a", "b", instances={"b": "two"})
    assert story.join("b2", instance="two", new=True) == JoinOutcome(1, former="b")
    assert story.state() == "Stable generation 1 round 1 leader a members 2 protocol range"
    assert story.group.members["b2"].assignment == b"b"
    with pytest.raises(FencedInstance):
        story.group.check_heartbeat("b", "two", 1)
    with pytest.raises(UnknownMember):
        story.group.check_heartbeat("b", None, 1)
    with pytest.raises(FencedInstance):
        story.join("b", instance="two")


def test_a_static_leader_stays_the_leader_under_its_new_id(story: Story) -> None:
    story.settle("a", "b", instances={"a": "one"})
    assert story.join("a2", instance="one", new=True) == JoinOutcome(1, former="a")
    assert story.group.leader == "a2"


def test_partitions_owned_before_the_restart_are_no_reason_for_a_rebalance(story: Story) -> None:
    story.settle("a", "b", instances={"b": "two"})
    other = (("range", subscription("orders", rest=b"owned")),)
    assert story.join("b2", instance="two", new=True, protocols=other).former == "b"
    assert story.group.members["b2"].protocols == other


def test_other_topics_are_a_reason(story: Story) -> None:
    story.settle("a", "b", instances={"b": "two"})
    other = (("range", subscription("bills")),)
    assert story.join("b2", instance="two", new=True, protocols=other) == JoinOutcome(2)
    assert story.group.round_open(2)


def test_another_protocol_for_all_is_a_reason(story: Story) -> None:
    story.join("a", new=True, protocols=STICKY, instance="one")
    story.complete()
    story.share_out(a=b"")
    story.join("a2", new=True, instance="one")
    assert story.group.protocol == "range"
    assert story.group.generation == 2


def test_another_preference_may_be_a_reason(story: Story) -> None:
    story.join("a", new=True, protocols=STICKY, instance="one")
    story.complete()
    story.share_out(a=b"")
    story.join("a2", new=True, protocols=STICKY[::-1], instance="one")
    assert (story.group.protocol, story.group.generation) == ("range", 2)


def test_a_static_member_comes_back_while_work_is_shared_out(story: Story) -> None:
    story.join("a", new=True)
    story.join("b", new=True, instance="two")
    story.complete()
    story.join("b2", new=True, instance="two")
    assert story.group.round_open(2), "the leader may be giving work to the old id already"
    story.join("a")
    assert sorted(story.group.members) == ["a", "b2"]


def test_a_static_member_comes_back_in_a_round(story: Story) -> None:
    story.settle("a", "b", instances={"b": "two"})
    story.join("c", new=True)
    story.join("b", instance="two")
    assert story.join("b2", instance="two", new=True) == JoinOutcome(2)
    assert story.group.round_open(2)
    story.join("a")
    assert story.group.state is GroupState.COMPLETING


def test_a_static_member_is_kept_though_it_does_not_join(story: Story) -> None:
    story.settle("a", "b", instances={"a": "one"})
    story.join("b", protocols=STICKY)
    assert story.complete()
    assert sorted(story.group.members) == ["a", "b"]
    assert story.group.leader == "b", "a leader must be one that is there"


def test_a_generation_needs_somebody_who_joined(story: Story) -> None:
    story.settle("a", "b", "c", instances={"a": "one", "b": "two"})
    story.group.remove(["c"], now_ms=1)
    assert not story.complete()
    assert story.group.round_open(2)
    story.join("b", instance="two")
    assert story.complete()
    assert sorted(story.group.members) == ["a", "b"]


def test_an_instance_that_nobody_has_is_unknown(story: Story) -> None:
    story.settle("a")
    for check in (
        lambda: story.group.check_heartbeat("a", "one", 1),
        lambda: story.join("a", instance="one"),
    ):
        with pytest.raises(UnknownMember):
            check()


# Questions.


def test_heartbeats(story: Story) -> None:
    story.join("a", new=True)
    with pytest.raises(RebalanceInProgress):
        story.group.check_heartbeat("a", None, 0)
    story.complete()
    story.group.check_heartbeat("a", None, 1)
    story.share_out(a=b"")
    story.group.check_heartbeat("a", None, 1)
    with pytest.raises(IllegalGeneration):
        story.group.check_heartbeat("a", None, 2)
    with pytest.raises(UnknownMember):
        story.group.check_heartbeat("b", None, 1)


def test_syncs(story: Story) -> None:
    story.settle("a")
    story.group.check_sync("a", None, 1, "consumer", "range")
    wrong: list[tuple[type[PenstockError], tuple[str, int, str | None, str | None]]] = [
        (UnknownMember, ("b", 1, None, None)),
        (IllegalGeneration, ("a", 0, None, None)),
        (InconsistentGroupProtocol, ("a", 1, "connect", None)),
        (InconsistentGroupProtocol, ("a", 1, None, "sticky")),
    ]
    for error, (name, generation, protocol_type, protocol) in wrong:
        with pytest.raises(error):
            story.group.check_sync(name, None, generation, protocol_type, protocol)
    story.join("b", new=True)
    with pytest.raises(RebalanceInProgress):
        story.group.check_sync("a", None, 1, None, None)


def test_commits(story: Story) -> None:
    group = story.group
    group.check_commit("", None, -1)
    story.join("a", new=True, instance="one")
    with pytest.raises(UnknownMember):
        group.check_commit("", None, -1)
    group.check_commit("a", "one", 0)
    story.complete()
    with pytest.raises(RebalanceInProgress):
        group.check_commit("a", "one", 1)
    story.share_out(a=b"")
    group.check_commit("a", "one", 1)
    with pytest.raises(IllegalGeneration):
        group.check_commit("a", "one", 0)
    with pytest.raises(IllegalGeneration):
        group.check_commit("a", None, -1)
    with pytest.raises(FencedInstance):
        group.check_commit("b", "one", 1)
    with pytest.raises(UnknownMember):
        group.check_commit("", None, 1)
    story.join("b", new=True)
    group.check_commit("a", "one", 1)
    group.remove(["a", "b"], now_ms=1)
    group.check_commit("", None, -1)
    with pytest.raises(UnknownMember):
        group.check_commit("a", None, 1)


def test_what_a_group_reads(story: Story) -> None:
    assert not story.group.subscribes("orders")
    story.settle("a")
    assert story.group.subscribes("orders")
    assert not story.group.subscribes("bills")
    story.join("b", new=True, protocols=(("range", b"?"),))
    assert story.group.subscribes("bills"), "who cannot be understood may read anything"


def test_only_an_empty_group_is_buried(story: Story) -> None:
    story.settle("a")
    with pytest.raises(GroupNotEmpty):
        story.group.mark_dead(now_ms=1)
    story.group.remove(["a"], now_ms=1)
    story.group.mark_dead(now_ms=1)
    assert story.group.state is GroupState.DEAD
    assert NEXT_STATES[GroupState.DEAD] == ()


def test_a_round_is_as_patient_as_its_most_patient_member(story: Story) -> None:
    assert story.group.rebalance_timeout_ms == 0
    for name, timeout_ms in (("a", 5), ("b", 70), ("c", 6)):
        story.group.join(
            name,
            member(rebalance_timeout_ms=timeout_ms),
            protocol_type="consumer",
            new=True,
            members_max=9,
            now_ms=0,
        )
    assert story.group.rebalance_timeout_ms == 70


def test_a_group_comes_back_from_its_record(story: Story) -> None:
    story.settle("b", "a", "c", instances={"a": "one"})
    story.join("d", new=True)
    story.join("a", instance="one")
    copy = Group.from_record("g", story.group.record())
    assert copy == story.group
    assert list(copy.members) == ["b", "a", "c", "d"], "the order of members is state"
