"""The arithmetic of majorities, against counting by hand."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.types import NodeId
from penstock.raft.quorum import Outcome, draw, majority, reached, tally

NODES = st.lists(st.integers(1, 9).map(NodeId), unique=True, max_size=7)


def test_majority_is_more_than_half() -> None:
    assert [majority(count) for count in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]


@given(st.lists(st.integers(0, 20), max_size=7))
def test_reached_is_the_best_that_some_majority_shares(values: list[int]) -> None:
    shared = [min(group) for group in combinations(values, majority(len(values))) if len(group) > 0]
    assert reached(values) == max(shared, default=0)


@given(NODES, st.dictionaries(st.integers(1, 9).map(NodeId), st.booleans()))
def test_tally_agrees_with_every_way_the_rest_may_vote(
    voters: list[NodeId], votes: dict[NodeId, bool]
) -> None:
    silent = sum(voter not in votes for voter in voters)
    granted = sum(votes.get(voter, False) for voter in voters)
    needed = majority(len(voters))
    possible = {granted + more >= needed for more in range(silent + 1)}
    expected = {
        frozenset({True}): Outcome.WON,
        frozenset({False}): Outcome.LOST,
        frozenset({True, False}): Outcome.OPEN,
    }[frozenset(possible)]
    assert tally(voters, votes) is expected


def test_nobody_agrees_on_anything() -> None:
    assert reached([]) == 0
    assert tally([], {}) is Outcome.LOST


def test_draw_is_a_chart() -> None:
    chart = draw({NodeId(1): 12, NodeId(2): 20, NodeId(3): 30})
    assert chart.splitlines() == [
        "x>       12  node 1",
        "xx>      20  node 2  ◀ agreed",
        "xxx>     30  node 3",
    ]
