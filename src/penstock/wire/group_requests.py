"""The requests of native clients about consumer groups, and their answers.

The steps are those of Kafka's classic group protocol, and metadata and assignments are written as
Kafka's consumers write them, so that both kinds of members can share a group.

    AskCoordinator   who looks after a group             → CoordinatorInfo   asked of any node
    JoinGroup        take part in the next generation    → GroupJoined or MemberNamed
    SyncGroup        one's share of the work             → GroupSynced
    BeatGroup        still there                         → Done
    LeaveGroup       going                               → Done
    CommitOffsets    how far one has got                 → OffsetsCommitted
    AskCommitted     how far the group has got           → Committed
    AskGroups        all groups of the cluster           → GroupRows         asked of any node
    AskGroup         one group with its lag              → GroupInfo         asked of any node
    DeleteGroup      forget an empty group               → Done

What concerns one group goes to its coordinator; other nodes answer `NotCoordinator` and name it.
"""

import msgspec

from penstock.wire.failures import Described
from penstock.wire.requests import Answer, Request


class AskCoordinator(Request, frozen=True, tag="coordinator"):
    """Ask which node coordinates a group."""

    group: str


class CoordinatorInfo(Answer, frozen=True, tag="coordinator"):
    """The node; 0 while there is none."""

    node: int


# Members.


class JoinGroup(Request, frozen=True, tag="join_group"):
    """Take part in the next generation; answered when it has begun. A member without an id is given
    one and comes back with it, so that a lost answer leaves no ghost member that all wait for."""

    group: str
    member: str
    instance: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), the one the member likes best first."""


class MemberNamed(Answer, frozen=True, tag="member_named"):
    """Asks the client to join again, with this id."""

    member: str


class JoinedMember(msgspec.Struct, frozen=True, array_like=True):
    """A member, as the leader of a generation sees it."""

    member: str
    instance: str | None
    metadata: bytes


class GroupJoined(Answer, frozen=True, tag="join_group"):
    """The member belongs to this generation. Only its leader gets the others."""

    member: str
    generation: int
    protocol: str
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False
    """The leader has come back to a group that is stable, and shall leave it as it is."""


class SyncGroup(Request, frozen=True, tag="sync_group"):
    """The assignment of a member; the leader brings those of all."""

    group: str
    member: str
    instance: str | None
    generation: int
    assignments: tuple[tuple[str, bytes], ...] = ()


class GroupSynced(Answer, frozen=True, tag="sync_group"):
    """The assignment of the member."""

    assignment: bytes


class BeatGroup(Request, frozen=True, tag="beat_group"):
    """The member is alive; refused with `RebalanceInProgress` when it must join again."""

    group: str
    member: str
    instance: str | None
    generation: int


class LeaveGroup(Request, frozen=True, tag="leave_group"):
    """The member goes; an operator removes a static one by its instance alone."""

    group: str
    member: str
    instance: str | None = None


# Offsets.


class OffsetToCommit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The offset of the next message to read."""

    topic_id: bytes
    index: int
    offset: int


class CommitOffsets(Request, frozen=True, tag="commit_offsets"):
    """Remember how far a member has got. Without a member, the group must be empty."""

    group: str
    offsets: tuple[OffsetToCommit, ...]
    member: str = ""
    instance: str | None = None
    generation: int = -1


class OffsetsCommitted(Answer, frozen=True, tag="commit_offsets"):
    """For each offset, in order: None, or why it was not taken."""

    failures: tuple[Described | None, ...]


class AskCommitted(Request, frozen=True, tag="committed"):
    """Requests a group's committed offsets in these partitions; in all if none is given."""

    group: str
    parts: tuple[tuple[bytes, int], ...] = ()


class CommittedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The committed offset of one partition."""

    topic_id: bytes
    index: int
    offset: int
    commit_ms: int


class Committed(Answer, frozen=True, tag="committed"):
    """Partitions without an offset are left out."""

    rows: tuple[CommittedRow, ...]


# For people.


class AskGroups(Request, frozen=True, tag="groups"):
    """Requests all groups of the cluster."""


class GroupRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of the list of groups."""

    group: str
    state: str
    coordinator: int


class GroupRows(Answer, frozen=True, tag="groups"):
    """A row for each group of the cluster."""

    rows: tuple[GroupRow, ...]


class AskGroup(Request, frozen=True, tag="group"):
    """Requests the members and the lag of a group."""

    group: str


class GroupMember(msgspec.Struct, frozen=True, array_like=True):
    member: str
    instance: str | None
    client_id: str
    client_host: str
    assigned: tuple[tuple[str, int], ...] = ()
    """(topic, partition): what it reads in this generation; empty from a node of 0.1."""


class GroupPartition(msgspec.Struct, frozen=True, array_like=True):
    """A partition the group has an offset in; `end` is None if unknown."""

    topic: str
    index: int
    committed: int
    end: int | None


class GroupInfo(Answer, frozen=True, tag="group"):
    """A group. One that does not exist is described as `Dead`."""

    group: str
    state: str
    protocol: str
    coordinator: int
    members: tuple[GroupMember, ...]
    partitions: tuple[GroupPartition, ...]


class DeleteGroup(Request, frozen=True, tag="delete_group"):
    """Forget a group that has no members, with its offsets."""

    group: str
