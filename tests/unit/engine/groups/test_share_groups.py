"""`engine.groups.share`: joining, staying, leaving, and who reads what."""

import pytest

from penstock.core.errors import (
    FencedMember,
    GroupFull,
    InvalidGroup,
    InvalidRequest,
    NotCoordinator,
    Overloaded,
    UnknownMember,
)
from penstock.core.group_configs import DEFAULT_GROUP_SETTINGS
from penstock.core.limits import (
    SHARE_GROUP_MEMBERS_MAX,
    SHARE_GROUP_SUBSCRIPTIONS_MAX,
    SHARE_GROUPS_MAX,
)
from penstock.core.types import Term
from penstock.engine.groups import share_groups
from penstock.engine.groups.share_groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Assignment,
    ShareAssigned,
    ShareGroups,
    ShareHeartbeat,
    ShareMember,
    share_out,
)
from penstock.machines import AddPartitions, ConfigureGroup, DeleteTopic
from penstock.testing.clock import ManualClock
from tests.unit.machines.cluster import Cluster, topic_id

ORDERS, BILLS = topic_id("orders"), topic_id("bills")
SESSION_MS = DEFAULT_GROUP_SETTINGS.session_ms


class Coordinator:
    """Share groups over a real catalog, on a node that leads in term 1 until told otherwise."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.found(1)
        self.cluster.create("orders", 4)
        self.clock = ManualClock()
        self.term: Term | None = Term(1)
        self.gone: list[tuple[str, str]] = []
        self.groups = ShareGroups(self.clock, lambda: self.cluster.catalog, self._lead)
        self.groups.on_gone(lambda group, member: self.gone.append((group, member)))

    def _lead(self, group: str) -> Term:
        if self.term is None:
            raise NotCoordinator(f"not of {group}")
        return self.term

    def beat(self, member: str, epoch: int, *topics: str, group: str = "workers") -> ShareAssigned:
        beat = ShareHeartbeat(group=group, member=member, epoch=epoch, topics=topics or None)
        return self.groups.heartbeat(beat)

    def join(self, member: str, *topics: str) -> ShareAssigned:
        return self.beat(member, JOIN_EPOCH, *(topics or ("orders",)))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_the_first_member_reads_everything(coordinator: Coordinator) -> None:
    told = coordinator.join("a")
    assert told == ShareAssigned(epoch=1, heartbeat_ms=5_000, assignment={ORDERS: (0, 1, 2, 3)})
    assert coordinator.beat("a", 1) == ShareAssigned(epoch=1, heartbeat_ms=5_000)
    assert coordinator.groups.names() == ["workers"]


def test_a_second_member_takes_half(coordinator: Coordinator) -> None:
    coordinator.join("a")
    assert coordinator.join("b").assignment == {ORDERS: (1, 3)}
    told = coordinator.beat("a", 1)
    assert (told.epoch, told.assignment) == (2, {ORDERS: (0, 2)})
    assert coordinator.beat("a", 2).assignment is None


def test_more_members_than_partitions_share_them(coordinator: Coordinator) -> None:
    for name in "abcdef":
        coordinator.join(name)
    told = [coordinator.beat(name, 0, "orders").assignment for name in "abcdef"]
    assert told == [{ORDERS: (index,)} for index in (0, 1, 2, 3, 0, 1)]


def test_small_topics_do_not_all_go_to_one_member() -> None:
    members = {
        name: ShareMember(
            member=name, client_id="", client_host="", rack=None, topics=("x", "y", "z")
        )
        for name in "ab"
    }
    shape = {name: (topic_id(name), 1) for name in "xyz"}
    found = share_out(members, shape)
    assert found == {
        "a": {topic_id(name): (0,) for name in "xyz"},
        "b": {topic_id(name): (0,) for name in "xyz"},
    }, "two members share one partition"
    shape = {name: (topic_id(name), 3) for name in "xy"}
    loads = [sum(map(len, one.values())) for one in share_out(members, shape).values()]
    assert loads == [3, 3]


def test_members_read_what_they_subscribe_to(coordinator: Coordinator) -> None:
    coordinator.cluster.create("bills", 2)
    assert coordinator.join("a", "orders").assignment == {ORDERS: (0, 1, 2, 3)}
    assert coordinator.join("b", "bills", "missing").assignment == {BILLS: (0, 1)}
    assert coordinator.beat("a", 1).assignment is None, "its part is the same"
    told = coordinator.beat("b", 2, "orders", "bills")
    assert told.epoch == 3
    assert told.assignment == {BILLS: (0, 1), ORDERS: (1, 3)}
    nothing = coordinator.groups.heartbeat(
        ShareHeartbeat(group="workers", member="b", epoch=3, topics=())
    )
    assert nothing.assignment == {}


def test_a_new_topic_is_found_and_a_deleted_one_forgotten(coordinator: Coordinator) -> None:
    assert coordinator.join("a", "later").assignment == {}
    assert coordinator.beat("a", 1).assignment is None
    coordinator.cluster.create("later", 1)
    told = coordinator.beat("a", 1)
    assert (told.epoch, told.assignment) == (2, {topic_id("later"): (0,)})
    coordinator.cluster.topic(AddPartitions(name="later", total=2))
    assert coordinator.beat("a", 2).assignment == {topic_id("later"): (0, 1)}
    coordinator.cluster.topic(DeleteTopic(name="later", topic_id=topic_id("later")))
    assert coordinator.beat("a", 3).assignment == {}


def test_what_happens_to_others_topics_is_no_new_epoch(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.cluster.create("unrelated", 1)
    assert coordinator.beat("a", 1) == ShareAssigned(epoch=1, heartbeat_ms=5_000)


def test_a_lost_answer_is_given_again(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    first = coordinator.beat("a", 1)
    assert coordinator.beat("a", 1) == first
    assert coordinator.beat("a", 2).assignment is None


def test_an_epoch_that_was_never_given_is_fenced(coordinator: Coordinator) -> None:
    epoch = coordinator.join("a").epoch
    for name in "bcd":
        coordinator.join(name)
        epoch = coordinator.beat("a", epoch).epoch
    for epoch in (2, 5):
        with pytest.raises(FencedMember, match="is in epoch 4"):
            coordinator.beat("a", epoch)
    assert coordinator.beat("a", 0, "orders").assignment == {ORDERS: (0,)}


def test_who_leaves_makes_room(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.beat("a", 1)
    assert coordinator.beat("b", LEAVE_EPOCH) == ShareAssigned(epoch=-1, heartbeat_ms=0)
    assert coordinator.gone == [("workers", "b")]
    assert coordinator.beat("a", 2).assignment == {ORDERS: (0, 1, 2, 3)}
    with pytest.raises(UnknownMember):
        coordinator.beat("b", LEAVE_EPOCH)
    coordinator.beat("a", LEAVE_EPOCH)
    assert coordinator.groups.names() == []
    assert coordinator.groups.get("workers") is None
    with pytest.raises(UnknownMember):
        coordinator.beat("a", LEAVE_EPOCH)


def test_who_is_silent_is_out(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.clock.advance(SESSION_MS - 1)
    coordinator.beat("a", 1)
    coordinator.groups.tick()
    assert coordinator.gone == []
    coordinator.clock.advance(1)
    coordinator.groups.tick()
    assert coordinator.gone == [("workers", "b")]
    with pytest.raises(UnknownMember, match="join it again"):
        coordinator.beat("b", 2)


def test_the_groups_own_times_count(coordinator: Coordinator) -> None:
    changes = {"share.session.timeout.ms": "2000", "share.heartbeat.interval.ms": "500"}
    coordinator.cluster.do(ConfigureGroup(group="workers", changes={**changes}))
    assert coordinator.join("a").heartbeat_ms == 500
    coordinator.clock.advance(2_000)
    coordinator.groups.tick()
    assert coordinator.gone == [("workers", "a")]


def test_a_new_coordinator_knows_nobody(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.term = None
    with pytest.raises(NotCoordinator):
        coordinator.beat("a", 1)
    assert coordinator.groups.names() == []
    coordinator.term = Term(3)
    with pytest.raises(UnknownMember):
        coordinator.beat("a", 1)
    assert coordinator.join("a").epoch == 1
    coordinator.term = Term(5)
    assert coordinator.groups.get("workers") is None, "it led, and lost it, and leads again"
    coordinator.clock.advance(10 * SESSION_MS)
    coordinator.groups.tick()
    assert coordinator.gone == [], "whoever coordinates now knows whether they are there"


def test_sessions_of_a_lost_group_end_without_a_word(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.term = None
    coordinator.clock.advance(SESSION_MS)
    coordinator.groups.tick()
    coordinator.term = Term(1)
    assert coordinator.groups.get("workers") is None
    assert coordinator.gone == []


def test_what_makes_no_sense_is_refused(coordinator: Coordinator) -> None:
    with pytest.raises(InvalidRequest, match="name its topics"):
        coordinator.beat("a", JOIN_EPOCH)
    with pytest.raises(InvalidRequest, match="choose its own id"):
        coordinator.join("")
    with pytest.raises(InvalidRequest, match="not an epoch"):
        coordinator.beat("a", -2)
    with pytest.raises(InvalidGroup):
        coordinator.beat("a", JOIN_EPOCH, "orders", group="")
    many = [f"t{number}" for number in range(SHARE_GROUP_SUBSCRIPTIONS_MAX + 1)]
    with pytest.raises(InvalidRequest, match="at most"):
        coordinator.join("a", *many)
    with pytest.raises(InvalidRequest, match="a name of"):
        coordinator.join("a", "x" * 5_000)
    assert coordinator.groups.names() == [], "who is refused is no member"


def test_there_are_only_so_many(coordinator: Coordinator) -> None:
    for number in range(SHARE_GROUP_MEMBERS_MAX):
        coordinator.join(f"m{number}")
    with pytest.raises(GroupFull):
        coordinator.join("one more")
    coordinator.join("m7")
    for number in range(1, SHARE_GROUPS_MAX):
        coordinator.beat("m", JOIN_EPOCH, "orders", group=f"g{number}")
    with pytest.raises(Overloaded):
        coordinator.beat("m", JOIN_EPOCH, "orders", group="one more")


def test_members_together_have_a_bound_in_bytes(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = coordinator.groups
    names = [f"{number:03d}" + "x" * 246 for number in range(100)]
    coordinator.join("a", "orders")
    alone = groups.bytes
    coordinator.join("a", "orders", *names)
    whole = groups.bytes
    assert whole - alone > 100 * 249
    monkeypatch.setattr(share_groups, "SHARE_GROUPS_BYTES_MAX", whole + 5_000)
    with pytest.raises(GroupFull, match="subscribe to fewer topics"):
        coordinator.beat("b", JOIN_EPOCH, "orders", *names, group="others")
    assert groups.names() == ["workers"], "nothing is left of a join that was refused"
    assert groups.bytes == whole
    small = coordinator.beat("b", JOIN_EPOCH, "orders", group="others")
    with pytest.raises(GroupFull):
        coordinator.beat("b", small.epoch, "orders", *names, group="others")
    coordinator.beat("b", small.epoch, "orders", group="others")
    coordinator.beat("a", 2, "orders")
    coordinator.beat("b", small.epoch, "orders", *names, group="others")
    coordinator.beat("b", LEAVE_EPOCH, group="others")
    assert groups.bytes == alone
    coordinator.term = None
    assert groups.names() == []
    assert groups.bytes == 0


def test_every_partition_has_a_reader_and_every_reader_a_partition() -> None:
    for readers in range(1, 9):
        for partitions in range(1, 9):
            members = {
                f"m{number}": ShareMember(
                    member="", client_id="", client_host="", rack=None, topics=("orders",)
                )
                for number in range(readers)
            }
            found = share_out(members, {"orders": (ORDERS, partitions)})
            loads = [len(_indexes(one)) for one in found.values()]
            assert min(loads) >= 1
            assert max(loads) - min(loads) <= 1
            assert {index for one in found.values() for index in _indexes(one)} == set(
                range(partitions)
            )


def _indexes(assignment: Assignment) -> tuple[int, ...]:
    return assignment[ORDERS]
