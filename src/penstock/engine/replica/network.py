"""The seam between a replica and the network, and the messages that are not Raft's.

A replica hands over whole messages and never waits; the network may delay, lose, repeat or reorder
them, and need not say so. Everything above is built to bear that.

Besides Raft's messages, two carry a snapshot to a follower that has fallen behind the log. The
follower pulls: it asks for one part at a time and says where it stands, so the leader keeps no
state for it, a lost message is simply asked for again, and a slow disk slows the transfer by
itself.
"""

from typing import Protocol

import msgspec

from penstock.core.entries import Entry, SnapshotMark
from penstock.core.types import NO_INDEX, Index, NodeId
from penstock.raft.messages import AnyMessage


class SnapshotRequest(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True):
    """Send me the part of your snapshot that follows what I have."""

    source: NodeId
    target: NodeId
    mark: SnapshotMark
    records_after: Index
    """Records up to here have arrived; the records come first, then the state."""
    state_position: int
    erased_through: Index = NO_INDEX
    """The follower began with nothing when this was the leader's `erased_through`."""
    any_size: bool = False
    """The follower writes what it gets to disk. One of release 0.1.0 does not, and stops if the
    state is larger than `SNAPSHOT_BYTES_OLD_MAX`."""

    def describe(self) -> str:
        where = f"records>{self.records_after}" if self.records_after < self.mark.index else "state"
        return f"snapshot? {self.mark.index}/{self.mark.term} {where} at {self.state_position}"


class SnapshotPart(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True):
    """One part, in answer to one request; `gone` when the leader has another snapshot by now, or
    has dropped tombstones that the follower would have to see."""

    source: NodeId
    target: NodeId
    mark: SnapshotMark
    gone: bool = False
    records_after: Index
    """Echo of the request: an answer to an older request is dropped."""
    state_position: int
    entries: tuple[Entry, ...] = ()
    records_through: Index
    """The follower's next `records_after`."""
    state: bytes = b""
    complete: bool = False
    erased_through: Index = NO_INDEX
    """Tombstones up to here may be missing: see `storage.compaction`."""

    def describe(self) -> str:
        if self.gone:
            return f"snapshot! {self.mark.index}/{self.mark.term} gone"
        end = " complete" if self.complete else ""
        return (
            f"snapshot! {self.mark.index}/{self.mark.term} {len(self.entries)} records"
            f" through {self.records_through}, {len(self.state)} B of state{end}"
        )


PeerMessage = AnyMessage | SnapshotRequest | SnapshotPart


class Network(Protocol):
    """How messages leave a replica."""

    def send(self, message: PeerMessage) -> None:
        """Take the message and return at once; it may never arrive."""
        ...
