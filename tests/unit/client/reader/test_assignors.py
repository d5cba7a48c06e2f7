"""How members share out partitions: evenly, completely, and with as little change as can be."""

import contextlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.reader.assignors import (
    COOPERATIVE,
    RANGE,
    STICKY,
    Assignment,
    Wish,
    assign,
    decode_assignment,
    decode_wish,
    encode_assignment,
    encode_wish,
)
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import InvalidFrame
from penstock.machines.subscription import read_topics

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=300, database=None)
TOPICS = ("audit", "orders", "payments", "shipping")

COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), min_size=1)
MEMBERS = st.sets(st.integers(0, 40).map("m{}".format), min_size=1, max_size=9)


def everybody(members: set[str], counts: dict[str, int]) -> dict[str, Wish]:
    return {member: Wish(frozenset(counts)) for member in members}


def again(wishes: dict[str, Wish], had: Assignment, generation: int = 1) -> dict[str, Wish]:
    """The same members join once more and say what they have."""
    return {
        member: Wish(wish.topics, had.get(member, ()), generation)
        for member, wish in wishes.items()
    }


def all_parts(counts: dict[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic in counts for index in range(counts[topic])]


def check_total(shared: Assignment, wishes: dict[str, Wish], counts: dict[str, int]) -> None:
    """Everything somebody reads has exactly one reader, who asked for it."""
    given = Counter(part for parts in shared.values() for part in parts)
    assert set(given.values()) <= {1}
    read = {topic for wish in wishes.values() for topic in wish.topics}
    assert set(given) == {part for part in all_parts(counts) if part.topic in read}
    for member, parts in shared.items():
        assert {part.topic for part in parts} <= wishes[member].topics


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions that somebody had are now somebody else's."""
    owner = {part: member for member, parts in before.items() for part in parts}
    now = {part: member for member, parts in after.items() for part in parts}
    return sum(owner[part] != now.get(part) for part in owner)


def sizes(shared: Assignment) -> list[int]:
    return sorted(map(len, shared.values()))


@REPEATABLE
@given(members=MEMBERS, counts=COUNTS)
def test_equal_members_get_equal_shares(members: set[str], counts: dict[str, int]) -> None:
    wishes = everybody(members, counts)
    shared = assign(STICKY, wishes, counts)
    check_total(shared, wishes, counts)
    assert max(sizes(shared)) - min(sizes(shared)) <= 1


@REPEATABLE
@given(members=MEMBERS, counts=COUNTS)
def test_nothing_moves_when_nothing_changes(members: set[str], counts: dict[str, int]) -> None:
    wishes = everybody(members, counts)
    shared = assign(STICKY, wishes, counts)
    assert assign(STICKY, again(wishes, shared), counts) == shared


@REPEATABLE
@given(members=MEMBERS, counts=COUNTS, joining=st.integers(1, 4))
def test_who_joins_gets_a_share_and_nothing_else_moves(
    members: set[str], counts: dict[str, int], joining: int
) -> None:
    wishes = everybody(members, counts)
    before = assign(STICKY, wishes, counts)
    more = everybody(members | {f"new{number}" for number in range(joining)}, counts)
    after = assign(STICKY, again(more, before), counts)
    check_total(after, more, counts)
    assert max(sizes(after)) - min(sizes(after)) <= 1
    # The new ones had nothing, so what they have has moved; it is the least that evenness allows.
    assert moved(before, after) == sum(
        len(parts) for member, parts in after.items() if member.startswith("new")
    )
    share, rest = divmod(len(all_parts(counts)), len(more))
    old_ones_may_keep = sum(
        min(had, share + 1 if number < rest else share)
        for number, had in enumerate(sorted(map(len, before.values()), reverse=True))
    )
    assert moved(before, after) == len(all_parts(counts)) - old_ones_may_keep


@REPEATABLE
@given(members=MEMBERS, counts=COUNTS, data=st.data())
def test_who_leaves_is_replaced_and_nothing_else_moves(
    members: set[str], counts: dict[str, int], data: st.DataObject
) -> None:
    wishes = everybody(members | {"stays"}, counts)
    before = assign(STICKY, wishes, counts)
    gone = data.draw(st.sampled_from(sorted(set(wishes) - {"stays"}))) if members else "stays"
    left = {member: wish for member, wish in wishes.items() if member != gone}
    after = assign(STICKY, again(left, before), counts)
    check_total(after, left, counts)
    assert max(sizes(after)) - min(sizes(after)) <= 1
    assert moved(before, after) == len(before[gone])


@REPEATABLE
@given(
    topics=st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6),
    counts=COUNTS,
)
def test_members_that_read_different_topics_are_as_even_as_can_be(
    topics: list[frozenset[str]], counts: dict[str, int]
) -> None:
    wishes = {f"m{number}": Wish(one) for number, one in enumerate(topics)}
    shared = assign(STICKY, wishes, counts)
    check_total(shared, wishes, counts)
    assert sum(size * size for size in sizes(shared)) == least_squares(wishes, counts)
    assert assign(STICKY, again(wishes, shared), counts) == shared


def least_squares(wishes: dict[str, Wish], counts: dict[str, int]) -> int:
    """The most even loads there are, found by putting partitions in one after the other, each by
    the cheapest augmenting path (which is optimal, and has nothing in common with the code)."""
    owner: dict[TopicPartition, str] = {}
    load = dict.fromkeys(wishes, 0)
    for part in all_parts(counts):
        reached: dict[str, list[tuple[TopicPartition, str]]] = {}
        turn: list[tuple[TopicPartition, list[tuple[TopicPartition, str]]]] = [(part, [])]
        while turn:
            wanted, path = turn.pop(0)
            for member in sorted(wishes):
                if wanted.topic in wishes[member].topics and member not in reached:
                    reached[member] = [*path, (wanted, member)]
                    turn += [
                        (other, reached[member])
                        for other, holder in owner.items()
                        if holder == member
                    ]
        if reached:
            best = min(reached, key=lambda member: load[member])
            load[best] += 1
            owner.update(dict(reached[best]))
    return sum(size * size for size in load.values())


@REPEATABLE
@given(members=MEMBERS, counts=COUNTS)
def test_range_gives_each_member_a_piece_of_every_topic(
    members: set[str], counts: dict[str, int]
) -> None:
    wishes = everybody(members, counts)
    shared = assign(RANGE, wishes, counts)
    check_total(shared, wishes, counts)
    for topic, count in counts.items():
        pieces = [
            [part.partition for part in shared[member] if part.topic == topic]
            for member in sorted(members)
        ]
        assert [index for piece in pieces for index in piece] == list(range(count))
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


@pytest.mark.parametrize("protocol", [STICKY, RANGE])
@pytest.mark.parametrize(
    ("members", "expected"), [(5, [2] * 5), (6, [1, 1, 2, 2, 2, 2]), (11, [0] + [1] * 10)]
)
def test_ten_partitions(protocol: str, members: int, expected: list[int]) -> None:
    counts = {"orders": 10}
    wishes = everybody({f"m{number:02}" for number in range(members)}, counts)
    assert sizes(assign(protocol, wishes, counts)) == expected


def test_of_two_who_claim_a_partition_the_later_one_keeps_it() -> None:
    claimed = tuple(all_parts({"orders": 2}))
    wishes = {
        "zombie": Wish(frozenset({"orders"}), claimed, generation=3),
        "owner": Wish(frozenset({"orders"}), claimed[:1], generation=4),
    }
    assert assign(STICKY, wishes, {"orders": 2}) == {
        "owner": claimed[:1],
        "zombie": claimed[1:],
    }


@REPEATABLE
@given(members=MEMBERS, counts=COUNTS, joining=st.integers(1, 4))
def test_cooperating_members_get_in_two_rounds_what_others_get_in_one(
    members: set[str], counts: dict[str, int], joining: int
) -> None:
    before = assign(STICKY, everybody(members, counts), counts)
    more = everybody(members | {f"new{number}" for number in range(joining)}, counts)
    first = assign(COOPERATIVE, again(more, before), counts)
    for member, parts in first.items():
        assert set(parts) <= set(before.get(member, ()))
    second = assign(COOPERATIVE, again(more, first, 2), counts)
    check_total(second, more, counts)
    assert max(sizes(second)) - min(sizes(second)) <= 1
    assert all(set(parts) <= set(second[member]) for member, parts in first.items())


@pytest.mark.parametrize("protocol", [STICKY, RANGE])
def test_an_eager_generation_takes_nothing_from_a_member_that_reads(protocol: str) -> None:
    topics = frozenset({"orders"})
    reader = Wish(topics, tuple(all_parts({"orders": 2})), 3, holds=True)
    wishes = {
        "reader": decode_wish(encode_wish(protocol, reader)),
        "old": decode_wish(encode_wish(protocol, Wish(topics))),
    }
    assert assign(protocol, wishes, {"orders": 2}) == {"reader": (), "old": ()}


def test_what_is_gone_cannot_be_kept() -> None:
    owned = (TopicPartition("orders", 7), TopicPartition("gone", 0), TopicPartition("audit", 0))
    wishes = {"m": Wish(frozenset({"orders", "gone"}), owned, 1)}
    assert assign(STICKY, wishes, {"orders": 1, "audit": 1}) == {"m": (("orders", 0),)}


def test_static_members_come_first_in_a_range() -> None:
    topics = frozenset({"orders"})
    wishes = {"a": Wish(topics), "z": Wish(topics, instance="first")}
    assert assign(RANGE, wishes, {"orders": 3}) == {
        "z": (("orders", 0), ("orders", 1)),
        "a": (("orders", 2),),
    }


# As bytes.

PARTS = st.lists(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 2**31 - 1)), unique=True
).map(lambda parts: tuple(sorted(parts)))


@REPEATABLE
@given(topics=st.frozensets(st.text(max_size=20)), owned=PARTS, generation=st.integers(-1, 9))
def test_a_wish_survives_the_way(
    topics: frozenset[str], owned: tuple[TopicPartition, ...], generation: int
) -> None:
    wish = Wish(topics, owned, generation)
    assert decode_wish(encode_wish(STICKY, wish)) == wish
    assert decode_wish(encode_wish(COOPERATIVE, wish)) == wish
    assert decode_wish(encode_wish(RANGE, wish), "i") == Wish(topics, instance="i")
    assert read_topics(encode_wish(STICKY, wish)) == topics


@REPEATABLE
@given(parts=PARTS)
def test_an_assignment_survives_the_way(parts: tuple[TopicPartition, ...]) -> None:
    assert decode_assignment(encode_assignment(parts)) == parts


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == ()


@REPEATABLE
@given(data=st.binary(max_size=60))
def test_bytes_that_mean_nothing_are_refused_and_no_worse(data: bytes) -> None:
    for decode in (decode_wish, decode_assignment):
        with contextlib.suppress(InvalidFrame):
            decode(data)


def test_kafkas_own_clients_read_what_we_write() -> None:
    from aiokafka.coordinator.protocol import (
        ConsumerProtocolMemberAssignment,
        ConsumerProtocolMemberMetadata,
    )

    wish = Wish(frozenset({"orders", "audit"}), tuple(all_parts({"orders": 2})), 4)
    for protocol in (STICKY, RANGE):
        read = ConsumerProtocolMemberMetadata.decode(encode_wish(protocol, wish))
        assert read.subscription == ["audit", "orders"]
    assignment = ConsumerProtocolMemberAssignment.decode(encode_assignment(wish.owned))
    assert assignment.assignment == [("orders", [0, 1])]
