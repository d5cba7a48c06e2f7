"""The newest term is believed, whoever tells of it."""

import pytest
from msgspec import DecodeError

from penstock.core.types import NodeId, ShardId, Term
from penstock.engine.peers.leaders import NOBODY, Leader, Leaders, encode_notice


def test_the_higher_term_is_the_newer_truth() -> None:
    changed: list[ShardId] = []
    leaders = Leaders(changed.append)
    assert leaders.get(ShardId(1)) == NOBODY
    leaders.heard(ShardId(1), NodeId(2), Term(5))
    leaders.heard(ShardId(1), NodeId(3), Term(4))
    assert leaders.get(ShardId(1)) == Leader(NodeId(2), Term(5))
    leaders.heard(ShardId(1), NodeId(2), Term(6))
    leaders.heard(ShardId(1), NodeId(3), Term(7))
    assert leaders.get(ShardId(1)) == Leader(NodeId(3), Term(7))
    assert changed == [1, 1]


def test_notices() -> None:
    leaders = Leaders()
    leaders.take_notice(NodeId(2), encode_notice([(ShardId(1), Term(3)), (ShardId(4), Term(1))]))
    assert leaders.get(ShardId(4)) == Leader(NodeId(2), Term(1))
    with pytest.raises(DecodeError):
        leaders.take_notice(NodeId(2), b"\xff")
