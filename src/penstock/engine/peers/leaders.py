"""Who leads which shard, as far as this node knows.

A node hears of leaders in two ways: as a member of a shard, from Raft; and of all other shards from
notices in which every node tells the others what it leads, on every change and every second. The
higher term is the newer truth. What is known may be out of date by the time it is used; a node that
is asked in vain answers with what it knows, and the caller looks again.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from penstock.core.decoders import msgpack_decoder
from penstock.core.types import NO_NODE, NO_TERM, NodeId, ShardId, Term


class Leader(NamedTuple):
    """A leader and its term; `NO_NODE` if there is none that is known."""

    node: NodeId
    term: Term


NOBODY = Leader(NO_NODE, NO_TERM)

_Notice = list[tuple[ShardId, Term]]
_DECODER: msgspec.msgpack.Decoder[_Notice] = msgpack_decoder(_Notice)


class Leaders:
    """The table of leaders. `on_change` is called with a shard whose leader is another now."""

    def __init__(self, on_change: Callable[[ShardId], None] = lambda _shard: None) -> None:
        self._leaders: dict[ShardId, Leader] = {}
        self._on_change = on_change

    def get(self, shard: ShardId) -> Leader:
        """The newest leader heard of."""
        return self._leaders.get(shard, NOBODY)

    def heard(self, shard: ShardId, leader: NodeId, term: Term) -> None:
        """Take in what Raft or a notice says. A term has one leader, so a tie changes nothing."""
        known = self._leaders.get(shard, NOBODY)
        if term > known.term or (term == known.term and known.node == NO_NODE):
            self._leaders[shard] = Leader(leader, term)
            if known.node != leader:
                self._on_change(shard)

    def take_notice(self, source: NodeId, body: bytes) -> None:
        """A peer says what it leads; raises msgspec's DecodeError if it says it badly."""
        for shard, term in _DECODER.decode(body):
            self.heard(shard, source, term)


def encode_notice(led: list[tuple[ShardId, Term]]) -> bytes:
    """What this node leads, for its peers."""
    return msgspec.msgpack.encode(led)
