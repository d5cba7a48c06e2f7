"""The types that the replicas of a shard agree on: entries, and the facts that a node must never
forget.

`raft` decides these, `storage` keeps them, `machines` give them meaning, and none of the three
knows the others. Hence they live here.

An entry is immutable and is identified by (index, term): two nodes that hold the same index and
term hold the same payload, and the same entries before it (Raft §5.3, Log Matching).

The structs are `msgspec` ones: they are created on the hot path (a tenth of a frozen dataclass's
cost), and the same definitions are the wire and snapshot encoding, so there is one list of fields.
"""

from enum import IntEnum

import msgspec

from penstock.core.decoders import decode_msgpack
from penstock.core.types import NO_INDEX, NO_NODE, NO_TERM, Index, NodeId, Term


class EntryKind(IntEnum):
    """The kind of an entry's payload. The number is on disk and on the wire: never renumber."""

    NOOP = 1
    """Empty: a leader's first entry in its term (Raft §8)."""
    MEMBERSHIP = 2
    """An encoded `Membership`, in force from the moment it is appended."""
    COMMAND = 3
    """An encoded machine command."""
    APPEND = 4
    """Record batches for one or many partitions: see `core.append_payload`."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One slot of a shard's replicated log."""

    index: Index
    term: Term
    kind: EntryKind
    payload: bytes

    def describe(self) -> str:
        """`7/3 APPEND 120 B`: index, term, kind, size."""
        return f"{self.index}/{self.term} {self.kind.name} {len(self.payload)} B"


class HardState(msgspec.Struct, frozen=True, array_like=True):
    """The term that a node has reached and its vote in it, which it promises to remember before it
    answers."""

    term: Term = NO_TERM
    vote: NodeId = NO_NODE


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """The members of a shard: voters count for majorities, learners only receive. Both sorted."""

    voters: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()

    def everyone(self) -> tuple[NodeId, ...]:
        """Return the voters, then the learners."""
        return self.voters + self.learners

    def describe(self) -> str:
        """`voters 1 2 3 learners 4`."""
        text = "voters " + (" ".join(map(str, self.voters)) or "none")
        return text + (" learners " + " ".join(map(str, self.learners)) if self.learners else "")


class SnapshotMark(msgspec.Struct, frozen=True, array_like=True):
    """The position of a snapshot in the log: the last index it includes, and the membership at that
    point."""

    index: Index = NO_INDEX
    term: Term = NO_TERM
    membership: Membership = Membership()


def encode_membership(membership: Membership) -> bytes:
    """The payload of a MEMBERSHIP entry."""
    return msgspec.msgpack.encode(membership)


def decode_membership(payload: bytes) -> Membership:
    """The membership a MEMBERSHIP entry carries."""
    return decode_msgpack(payload, Membership)
