"""Where shards go, and the way there: no step is unsafe, every way ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.entries import Membership
from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.placement import (
    REPLICAS,
    Placement,
    balance,
    catalog_members,
    found,
    founding_members,
    next_step,
)
from penstock.raft.membership import check_change


def _nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def test_shards_and_leaders_go_round_the_nodes() -> None:
    assert found(4, _nodes(1, 2, 3)) == {
        1: (1, 2, 3),
        2: (2, 3, 1),
        3: (3, 1, 2),
        4: (1, 2, 3),
    }
    assert found(2, _nodes(7)) == {1: (7,), 2: (7,)}


def test_founders_of_the_catalog_are_all_but_only_five_vote() -> None:
    members = founding_members(ShardId(0), 4, _nodes(1, 2, 3, 4, 5, 6, 7))
    assert members == Membership(_nodes(1, 2, 3, 4, 5), _nodes(6, 7))


def test_who_votes_on_the_catalog_keeps_the_vote() -> None:
    members = catalog_members(_nodes(1, 2, 3, 4, 5, 6), voters=_nodes(2, 3, 4, 5, 6))
    assert members == Membership(_nodes(2, 3, 4, 5, 6), _nodes(1))


def test_a_cluster_of_one_grows_to_three_replicas() -> None:
    placement: dict[ShardId, Placement] = dict(found(2, _nodes(1)))
    assert _settle(placement, _nodes(1, 2, 3)) > 0
    assert all(sorted(holders) == [1, 2, 3] for holders in placement.values())


def test_a_node_that_is_gone_is_replaced() -> None:
    placement: dict[ShardId, Placement] = dict(found(3, _nodes(1, 2, 3)))
    _settle(placement, _nodes(1, 2, 4))
    assert all(set(holders) == {1, 2, 4} for holders in placement.values())


def _settle(placement: dict[ShardId, Placement], nodes: tuple[NodeId, ...]) -> int:
    steps = 0
    while (change := balance(placement, nodes)) is not None:
        shard, holders = change
        assert holders, "a shard without a place"
        assert len(set(holders)) == len(holders), f"{holders} has a node twice"
        placement[shard] = holders
        steps += 1
        assert steps < 1_000, "balancing does not end"
    return steps


@given(
    shards=st.integers(1, 12),
    before=st.sets(st.integers(1, 9), min_size=1, max_size=6),
    after=st.sets(st.integers(1, 9), min_size=1, max_size=6),
)
def test_balancing_ends_even(shards: int, before: set[int], after: set[int]) -> None:
    nodes = _nodes(*sorted(after))
    placement: dict[ShardId, Placement] = dict(found(shards, _nodes(*before)))
    _settle(placement, nodes)
    load = {node: sum(node in holders for holders in placement.values()) for node in nodes}
    assert all(set(holders) <= set(nodes) for holders in placement.values())
    assert all(len(holders) == min(REPLICAS, len(nodes)) for holders in placement.values())
    assert max(load.values()) - min(load.values()) <= 1


@given(
    voters=st.sets(st.integers(1, 7), min_size=1, max_size=5),
    learners=st.sets(st.integers(1, 7), max_size=3),
    target=st.sets(st.integers(1, 7), min_size=1, max_size=5),
    listeners=st.sets(st.integers(1, 7), max_size=3),
)
def test_every_step_is_allowed_and_the_way_ends(
    voters: set[int], learners: set[int], target: set[int], listeners: set[int]
) -> None:
    current = Membership(_nodes(*sorted(voters)), _nodes(*sorted(learners - voters)))
    goal = Membership(_nodes(*sorted(target)), _nodes(*sorted(listeners - target)))
    leader = current.voters[0]
    for _ in range(40):
        step = next_step(current, goal, me=leader, caught_up=current.everyone())
        if step is None:
            break
        if isinstance(step, Membership):
            check_change(current, step)
            assert leader in step.voters, "a leader removes itself"
            current = step
        else:
            assert step in current.voters, "a node that cannot lead was chosen"
            leader = step
    assert current == goal


def test_nobody_leaves_before_the_new_one_has_caught_up() -> None:
    current = Membership(_nodes(1, 2, 3), _nodes(4))
    goal = Membership(_nodes(1, 2, 4))
    assert next_step(current, goal, me=NodeId(1), caught_up=_nodes(2, 3)) is None


@pytest.mark.parametrize("caught_up", [(), (2,)])
def test_a_leader_that_must_go_hands_over_first(caught_up: tuple[int, ...]) -> None:
    current = Membership(_nodes(1, 2, 3))
    goal = Membership(_nodes(2, 3))
    step = next_step(current, goal, me=NodeId(1), caught_up=_nodes(*caught_up))
    assert step == (2 if caught_up else None)
