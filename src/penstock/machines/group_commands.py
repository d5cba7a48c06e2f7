"""Every command the groups machine writes into a log, and their encoding.

As for partitions (`machines.commands`), a command is a request as it stands in the log, encoded as
a strict array: tag, stamp, then the fields in their order. Tags and the order of fields are on
disk: never rename, reorder or reuse them.

Whatever chance decides (a member's id) and whatever is a setting of a node (how many members a
group may have) is in the command: applying it must come out the same everywhere.
"""

from penstock.core.types import TopicId
from penstock.machines.command_codec import CommandCodec, Stamped, VersionCommand


class JoinMember(Stamped, frozen=True, kw_only=True, tag="join_member"):
    """A member joins a group, for the first time or again."""

    group: str
    member: str
    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    new: bool
    """The coordinator drew the id for this member: it need not be known."""
    members_max: int


class CompleteJoin(Stamped, frozen=True, kw_only=True, tag="complete_join"):
    """Wait no longer in this round of joins; nothing, if it is over."""

    group: str
    rebalance: int


class AssignMembers(Stamped, frozen=True, kw_only=True, tag="assign_members"):
    """The leader of a generation has shared out the work."""

    group: str
    member: str
    instance: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


class RemoveMembers(Stamped, frozen=True, kw_only=True, tag="remove_members"):
    """Members leave: (member id, instance) each; the id is empty when an operator removes one."""

    group: str
    members: tuple[tuple[str, str | None], ...]


class ExpireMembers(Stamped, frozen=True, kw_only=True, tag="expire_members"):
    """Members of this generation were not heard of in time; nothing, if the group has moved on."""

    group: str
    generation: int
    members: tuple[str, ...]


class StoreOffsets(Stamped, frozen=True, kw_only=True, tag="store_offsets"):
    """Commit offsets: (topic, partition, offset, leader epoch, metadata) each."""

    group: str
    member: str
    instance: str | None
    generation: int
    offsets: tuple[tuple[TopicId, int, int, int, str], ...]


class DropOffsets(Stamped, frozen=True, kw_only=True, tag="drop_offsets"):
    """Forget offsets of partitions that the members do not read: (topic, partition, name) each."""

    group: str
    offsets: tuple[tuple[TopicId, int, str], ...]


class ExpireOffsets(Stamped, frozen=True, kw_only=True, tag="expire_offsets"):
    """Forget what was committed before, and left by its members before, `before_ms`."""

    before_ms: int
    groups: tuple[str, ...]


class ForgetTopics(Stamped, frozen=True, kw_only=True, tag="forget_topics"):
    """These topics are deleted: forget all committed offsets in them."""

    topics: tuple[TopicId, ...]


class DeleteGroup(Stamped, frozen=True, kw_only=True, tag="delete_group"):
    """Delete a group that has no members, with its offsets."""

    group: str


class UseGroupsVersion(VersionCommand, frozen=True, kw_only=True, tag="use_groups_version"):
    """Apply every entry after this one as the version does."""


GroupCommand = (
    JoinMember
    | CompleteJoin
    | AssignMembers
    | RemoveMembers
    | ExpireMembers
    | StoreOffsets
    | DropOffsets
    | ExpireOffsets
    | ForgetTopics
    | DeleteGroup
    | UseGroupsVersion
)

GROUP_CODEC: CommandCodec[GroupCommand] = CommandCodec(GroupCommand)
encode_group_command = GROUP_CODEC.encode
decode_group_command = GROUP_CODEC.decode
