"""The requests of front-ends to a group's coordinator, and its answers.

The words are those of Kafka's classic group protocol, with two changes: an id that is not there is
`None` where it is optional (`instance`) and empty where it is always sent (`member`), and whatever
goes wrong is an error of `core.errors` and no field.

Times are in milliseconds, metadata and assignments are bytes that only clients understand.
"""

import msgspec

from penstock.core.errors import PenstockError
from penstock.core.limits import (
    GROUP_INITIAL_DELAY_MS,
    GROUP_MEMBERS_MAX,
    GROUP_SESSION_MAX_MS,
    GROUP_SESSION_MIN_MS,
    OFFSET_METADATA_BYTES_MAX,
    OFFSET_RETENTION_MS,
    OFFSET_SWEEP_INTERVAL_MS,
)
from penstock.core.types import Offset, TopicId

OffsetKey = tuple[TopicId, int]
"""A partition as groups know it: its topic, and its index in there."""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of consumer groups."""

    session_min_ms: int = GROUP_SESSION_MIN_MS
    session_max_ms: int = GROUP_SESSION_MAX_MS
    initial_delay_ms: int = GROUP_INITIAL_DELAY_MS
    """The time that an empty group waits for more members before its first generation."""
    members_max: int = GROUP_MEMBERS_MAX
    offset_metadata_bytes_max: int = OFFSET_METADATA_BYTES_MAX
    offset_retention_ms: int = OFFSET_RETENTION_MS
    """The time for which offsets are kept after their group became empty."""
    offset_sweep_interval_ms: int = OFFSET_SWEEP_INTERVAL_MS


class JoinGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A member wants to take part in the next generation."""

    group: str
    member: str = ""
    """Empty for one that has no id yet."""
    instance: str | None = None
    """KIP-345: the name of a static member, which stays the same when its process restarts."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), the one it likes best first."""
    require_known_member: bool = False
    """KIP-394: a member without an id shall get one and come back with it."""
    skips_assignment: bool = False
    """KIP-814: the client understands `Joined.skip_assignment`."""


class JoinedMember(msgspec.Struct, frozen=True):
    """A member, as the leader of a generation sees it."""

    member: str
    instance: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The member belongs to this generation."""

    member: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """The members; for the leader only."""


class SyncGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader brings those of all members."""

    group: str
    member: str
    generation: int
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """The member's part of the work."""

    protocol_type: str
    protocol: str
    assignment: bytes


class LeavingMember(msgspec.Struct, frozen=True):
    """A member that leaves. An operator removes a static member with its instance and no member
    id."""

    member: str
    instance: str | None = None


class MemberLeft(msgspec.Struct, frozen=True):
    """The outcome of removing one member."""

    member: str
    instance: str | None
    error: PenstockError | None


class OffsetToCommit(msgspec.Struct, frozen=True):
    """The committed offset of a group in one partition."""

    topic_id: TopicId
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""


class CommitOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Remember offsets. Who uses no group management has no member id and generation -1."""

    group: str
    member: str = ""
    generation: int = -1
    instance: str | None = None
    offsets: tuple[OffsetToCommit, ...]


class GroupOverview(msgspec.Struct, frozen=True):
    """A row of the list of groups."""

    group: str
    protocol_type: str
    state: str


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A member for people to look at."""

    member: str
    instance: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """For the protocol in use; empty while none is."""
    assignment: bytes


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A group for people to look at. One that does not exist is described as `Dead`."""

    group: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    generation: int = 0
    leader: str = ""
    members: tuple[MemberDescription, ...] = ()
