"""Memberships along a log, and which changes are let through."""

import pytest

from penstock.core.entries import Membership
from penstock.core.errors import MembershipRefused
from penstock.core.types import Index, NodeId
from penstock.raft.membership import MembershipHistory, check_change


def members(*voters: int, learners: tuple[int, ...] = ()) -> Membership:
    return Membership(tuple(map(NodeId, voters)), tuple(map(NodeId, learners)))


THREE = members(1, 2, 3)


def test_the_newest_is_in_force_and_truncation_brings_back_the_one_before() -> None:
    history = MembershipHistory(Index(5), THREE)
    history.append(Index(8), members(1, 2, 3, learners=(4,)))
    history.append(Index(11), members(1, 2, 3, 4))
    assert history.current == members(1, 2, 3, 4)
    assert history.previous == members(1, 2, 3, learners=(4,))
    history.truncate(Index(12))
    assert history.changed_index == 11
    history.truncate(Index(9))
    assert history.current == members(1, 2, 3, learners=(4,))
    history.truncate(Index(8))
    assert (history.changed_index, history.current) == (5, THREE)


def test_each_index_has_its_membership() -> None:
    history = MembershipHistory(Index(5), THREE, [(Index(8), members(1, 2))])
    assert history.at(Index(7)) == THREE
    assert history.at(Index(8)) == members(1, 2)
    history.forget(Index(8))
    with pytest.raises(AssertionError, match="has been forgotten"):
        history.at(Index(7))
    assert history.current == members(1, 2)


def test_a_founder_is_told_the_first_membership() -> None:
    history = MembershipHistory(Index(0), Membership(), [(Index(0), THREE)])
    assert history.current == THREE


def test_changes_before_the_snapshot_are_part_of_it() -> None:
    history = MembershipHistory(Index(9), members(1, 2), [(Index(3), THREE)])
    assert history.current == members(1, 2)


@pytest.mark.parametrize(
    "proposed",
    [
        members(1, 2),
        members(1, 2, learners=(3, 4, 5)),
        members(1, 2, 3, 4),
        members(1, 2, 3),
        members(1, 2, 3, learners=(4, 7, 8)),
    ],
)
def test_one_voter_at_a_time_and_learners_freely(proposed: Membership) -> None:
    check_change(members(1, 2, 3, learners=(4, 5)), proposed)


@pytest.mark.parametrize(
    ("proposed", "reason"),
    [
        (members(), "without voters"),
        (members(1), "one voter at a time"),
        (members(1, 2, 4, learners=(5,)), "one voter at a time"),
        (members(1, 2, 3, 4, 5), "one voter at a time"),
        (members(1, 2, 3, 6, learners=(4, 5)), "must be a learner"),
        (members(1, 2, 3, learners=(3,)), "each node once"),
        (members(0, 1, 2, 3), "ids from 1"),
        (members(2, 1, 3), "sorted"),
        (members(1, 2, 3, learners=(5, 4)), "already so|sorted"),
        (members(1, 2, 3, learners=(4, 5)), "already so"),
    ],
)
def test_anything_else_is_refused(proposed: Membership, reason: str) -> None:
    with pytest.raises(MembershipRefused, match=reason):
        check_change(members(1, 2, 3, learners=(4, 5)), proposed)
