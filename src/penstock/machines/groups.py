"""The consumer groups of one shard: the table of groups, their commands and their offsets.

What a group is stands in `machines.group`; here commands find their group, and offsets are kept.

Rules that hold here:

- `apply` decides; `plan` only stamps, encodes and keeps bounds. A refused command changes nothing
  but log time and is answered with `Refused`.
- An offset changes by an accepted commit of the group's present generation, or while the group has
  no members; it goes by a command that names it, its topic or its group, or by age.
- Age is log time: that of the commit, or of the group becoming empty if that was later.
- A group exists from its first member or commit until it is deleted, or has neither members nor
  offsets when old offsets are swept.

What a member says in a heartbeat is not here: it would be a write for each. Only the coordinator
knows who is alive, and proposes `ExpireMembers` when a member is not.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penstock.core.decoders import decode_msgpack
from penstock.core.errors import (
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    Overloaded,
    StateFull,
    UnknownGroup,
    UnknownMember,
)
from penstock.core.limits import (
    GROUP_STATE_BYTES_MAX,
    GROUPS_PER_SHARD_MAX,
    OFFSETS_PER_GROUP_MAX,
)
from penstock.core.types import Offset, TopicId
from penstock.machines.command_machine import CommandMachine, SnapshotLayout
from penstock.machines.group import (
    CommittedOffset,
    Group,
    GroupRecord,
    GroupState,
    Member,
    member_bytes,
    offset_bytes,
)
from penstock.machines.group_commands import (
    GROUP_CODEC,
    AssignMembers,
    CompleteJoin,
    DeleteGroup,
    DropOffsets,
    ExpireMembers,
    ExpireOffsets,
    ForgetTopics,
    GroupCommand,
    JoinMember,
    RemoveMembers,
    StoreOffsets,
    UseGroupsVersion,
)
from penstock.machines.group_copy import GroupCopy
from penstock.machines.machine import (
    Applied,
    Effect,
    Refused,
    Reply,
    refusal,
)
from penstock.machines.state_bytes import DEFAULT_BUDGET, StateBudget, StateKind
from penstock.machines.state_pieces import Restoring, array_header, encoded, map_header
from penstock.machines.subscription import CONSUMER_PROTOCOL_TYPE

NEWEST_VERSION = 1
"""The newest behaviour this build knows. It knows all before it, too."""


class GroupChanged(Effect, frozen=True, gc=False):
    """Wakes all requests that wait for a change of this group."""

    group: str


class MemberJoined(Reply, frozen=True):
    """The join counts for round `rebalance`; see `machines.group.JoinOutcome`."""

    member: str
    rebalance: int
    former: str | None


class GroupUpdated(Reply, frozen=True):
    """It is done, or there was nothing left to do."""


class MembersRemoved(Reply, frozen=True):
    """For each member that was to leave, in order: why it did not, or None."""

    refusals: tuple[Refused | None, ...]


class OffsetsDropped(Reply, frozen=True):
    """For each offset that was to be dropped, in order: why it was not, or None."""

    refusals: tuple[Refused | None, ...]


class OffsetsExpired(Reply, frozen=True):
    """So many offsets were forgotten, and groups that have nothing else."""

    offsets: int
    groups: int


class GroupOffset(NamedTuple):
    """How far one group has got in one partition: what lag is counted from."""

    group: str
    topic_id: TopicId
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSettings:
    """Bounds, checked by `plan` alone, so nodes may differ in them."""

    groups_max: int = GROUPS_PER_SHARD_MAX
    offsets_per_group_max: int = OFFSETS_PER_GROUP_MAX
    group_bytes_max: int = GROUP_STATE_BYTES_MAX
    budget: StateBudget = DEFAULT_BUDGET
    newest_version: int = NEWEST_VERSION
    """What this build knows; another value lets a test play an older or a newer build."""


DEFAULT_SETTINGS = GroupsSettings()


class _Snapshot(SnapshotLayout):
    groups: dict[str, msgspec.Raw]
    """Each a `GroupRecord`, which may be large: decoded by itself."""


class Groups(CommandMachine[GroupCommand, _Snapshot]):
    """The machine of one shard's groups."""

    __slots__ = ("_bytes", "_copies", "_groups", "_settings")

    name = "groups"
    codec = GROUP_CODEC
    layout = _Snapshot

    def __init__(self, settings: GroupsSettings = DEFAULT_SETTINGS) -> None:
        super().__init__(settings.newest_version)
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._bytes = 0
        self._copies: list[dict[str, GroupCopy | None]] = []
        """For each snapshot under way: the groups that it still has to write, and those that have
        changed since its moment as they were."""

    # Reading.

    @property
    def groups(self) -> Mapping[str, Group]:
        """Every group by its name; to be read, never to be changed."""
        return self._groups

    def get(self, group: str) -> Group | None:
        """The group of this name; to be read, never to be changed."""
        return self._groups.get(group)

    def offsets(
        self, group: str, keys: Iterable[tuple[TopicId, int]] | None = None
    ) -> dict[tuple[TopicId, int], CommittedOffset]:
        """What the group has committed, of these partitions or of all."""
        found = self._groups.get(group)
        if found is None:
            return {}
        if keys is None:
            return {
                (topic, partition): offset
                for topic, partitions in found.offsets.items()
                for partition, offset in partitions.items()
            }
        table = found.offsets
        return {
            (topic, partition): table[topic][partition]
            for topic, partition in keys
            if partition in table.get(topic, {})
        }

    def committed(self) -> Iterator[GroupOffset]:
        """Every committed offset of every group."""
        for name, group in self._groups.items():
            for topic, partitions in group.offsets.items():
                for partition, committed in partitions.items():
                    yield GroupOffset(name, topic, partition, committed.offset)

    def expirable(self, group: str, before_ms: int) -> bool:
        """Sweeping this group with this time would find something."""
        found = self._groups.get(group)
        if found is None or found.state is not GroupState.EMPTY:
            return False
        return not found.offsets or bool(_expired(found, before_ms))

    def state_bytes(self) -> dict[StateKind, int]:
        return {StateKind.GROUPS: self._bytes}

    def describe(self) -> str:
        """`version 1 time 1700 groups 2`."""
        return f"version {self._version} time {self._time_ms} groups {len(self._groups)}"

    # Planning: on the leader.

    def _admit(self, command: GroupCommand) -> GroupCommand:
        # What is under way is not counted: a bound may be exceeded by that much, not more.
        match command:
            case JoinMember():
                self._check_room_for_group(command.group)
                self._check_room_for_member(command)
            case StoreOffsets():
                self._check_room_for_group(command.group)
                self._check_room_for_offsets(command)
            case AssignMembers():
                more = sum(len(assignment) for _, assignment in command.assignments)
                if more:
                    self._settings.budget.check(StateKind.GROUPS, self._bytes, more)
        return command

    def _check_room_for_group(self, name: str) -> None:
        if name not in self._groups and len(self._groups) >= self._settings.groups_max:
            raise Overloaded(
                f"the shard has {len(self._groups)} groups, the bound is"
                f" {self._settings.groups_max}; delete some",
                retry_after_ms=1_000,
            )

    def _check_room_for_member(self, command: JoinMember) -> None:
        """A member may always join again: a group must not stop because a shard is full."""
        group = self._groups.get(command.group)
        if group is not None and (
            command.member in group.members or command.instance in group.instances
        ):
            return
        more = member_bytes(command.member, _joining(command))
        try:
            self._check_growth(command.group, group, more)
        except StateFull as error:
            # What Kafka's clients know a group by that takes no more members.
            raise GroupFull(str(error)) from error

    def _check_room_for_offsets(self, command: StoreOffsets) -> None:
        group = self._groups.get(command.group)
        known: dict[TopicId, dict[int, CommittedOffset]] = {} if group is None else group.offsets
        new = more = 0
        for topic, partition, _, _, metadata in command.offsets:
            before = known.get(topic, {}).get(partition)
            new += before is None
            more += offset_bytes(metadata) - (
                0 if before is None else offset_bytes(before.metadata)
            )
        if new and new + sum(map(len, known.values())) > self._settings.offsets_per_group_max:
            raise Overloaded(
                f"group {command.group} has offsets in too many partitions, the bound is"
                f" {self._settings.offsets_per_group_max}; delete some",
                retry_after_ms=1_000,
            )
        if more > 0:
            self._check_growth(command.group, group, more)

    def _check_growth(self, name: str, group: Group | None, more: int) -> None:
        size, bound = 0 if group is None else group.size_bytes, self._settings.group_bytes_max
        if size + more > bound:
            raise StateFull(
                f"group {name} takes {size:,} bytes and would take {more:,} more, {bound:,} at"
                " most: commit less metadata, or use several groups"
            )
        self._settings.budget.check(StateKind.GROUPS, self._bytes, more)

    # Applying: on every replica; the only code that changes state.

    def _carry_out(self, command: GroupCommand) -> Applied:
        names = self._concerned(command)
        if self._copies:
            self._copy_before(names)
        before = self._size_of(names)
        try:
            return self._decide(command)
        finally:
            self._bytes += self._size_of(names) - before

    def _concerned(self, command: GroupCommand) -> Collection[str]:
        """The groups that a command may change."""
        match command:
            case ForgetTopics(topics=topics):
                forgotten = set(topics)
                return [
                    name
                    for name, group in self._groups.items()
                    if not forgotten.isdisjoint(group.offsets)
                ]
            case ExpireOffsets(groups=names):
                return set(names)
            case UseGroupsVersion():
                return ()
            case _:
                return (command.group,)

    def _size_of(self, names: Collection[str]) -> int:
        found = [self._groups.get(name) for name in names]
        return sum(group.size_bytes for group in found if group is not None)

    def _copy_before(self, names: Collection[str]) -> None:
        for copies in self._copies:
            for name in names:
                if name in copies and copies[name] is None:
                    copies[name] = GroupCopy(self._groups[name])

    def _decide(self, command: GroupCommand) -> Applied:
        match command:
            case JoinMember():
                return self._join(command)
            case CompleteJoin(group=name, rebalance=rebalance):
                group = self._groups.get(name)
                if group is None or not group.round_open(rebalance):
                    return Applied((GroupUpdated(),))
                group.complete(rebalance, now_ms=self._time_ms)
                return Applied((GroupUpdated(),), (GroupChanged(name),))
            case AssignMembers():
                return self._assign(command)
            case RemoveMembers():
                return self._remove(command)
            case ExpireMembers(group=name, generation=generation, members=members):
                group = self._groups.get(name)
                gone = group and group.expire(members, generation, now_ms=self._time_ms)
                return Applied((GroupUpdated(),), (GroupChanged(name),) if gone else ())
            case StoreOffsets():
                return self._store(command)
            case DropOffsets():
                return self._drop(command)
            case ExpireOffsets(before_ms=before_ms, groups=names):
                return Applied((self._sweep(names, before_ms),))
            case ForgetTopics(topics=topics):
                for group in self._groups.values():
                    for topic in topics:
                        group.forget_topic(topic)
                return Applied((GroupUpdated(),))
            case DeleteGroup(group=name):
                self._known(name).mark_dead(now_ms=self._time_ms)
                del self._groups[name]
                return Applied((GroupUpdated(),), (GroupChanged(name),))
            case UseGroupsVersion(version=version):
                self._version = max(self._version, version)
                return Applied((GroupUpdated(),))

    def _join(self, command: JoinMember) -> Applied:
        name = command.group
        group = self._groups.get(name)
        if group is None:
            if not command.new:
                raise UnknownMember(f"there is no group {name} yet; join as a new member")
            group = Group(name, since_ms=self._time_ms)
        before = (group.state, group.rebalance)
        outcome = group.join(
            command.member,
            _joining(command),
            protocol_type=command.protocol_type,
            new=command.new,
            members_max=command.members_max,
            now_ms=self._time_ms,
        )
        self._groups[name] = group
        # The instance that a static member replaces may have a request waiting.
        changed = before != (group.state, group.rebalance) or command.instance is not None
        reply = MemberJoined(command.member, outcome.rebalance, outcome.former)
        return Applied((reply,), (GroupChanged(name),) if changed else ())

    def _assign(self, command: AssignMembers) -> Applied:
        group = self._groups.get(command.group)
        if group is None:
            raise UnknownMember(f"there is no group {command.group}; join as a new member")
        group.check_sync(
            command.member,
            command.instance,
            command.generation,
            command.protocol_type,
            command.protocol,
        )
        done = group.assign(command.member, dict(command.assignments), now_ms=self._time_ms)
        return Applied((GroupUpdated(),), (GroupChanged(command.group),) if done else ())

    def _remove(self, command: RemoveMembers) -> Applied:
        group = self._groups.get(command.group)
        refusals: list[Refused | None] = []
        gone: list[str] = []
        for member, instance in command.members:
            try:
                if group is None:
                    raise UnknownMember(f"there is no group {command.group}")
                if not member and instance is not None:
                    member = group.instances.get(instance, "")  # noqa: PLW2901
                if member in gone:
                    raise UnknownMember(f"{member} has left group {command.group} already")
                group.check_member(member, instance)
                gone.append(member)
                refusals.append(None)
            except (UnknownMember, FencedInstance) as error:
                refusals.append(refusal(error))
        if group is not None:
            group.remove(gone, now_ms=self._time_ms)
        reply = MembersRemoved(tuple(refusals))
        return Applied((reply,), (GroupChanged(command.group),) if gone else ())

    def _known(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            raise UnknownGroup(f"there is no group {name}")
        return group

    # Offsets.

    def _store(self, command: StoreOffsets) -> Applied:
        group = self._groups.get(command.group)
        if group is None:
            if command.generation >= 0:
                raise IllegalGeneration(f"there is no group {command.group} yet; join it first")
            group = Group(command.group, since_ms=self._time_ms)
        group.check_commit(command.member, command.instance, command.generation)
        self._groups[command.group] = group
        for topic, partition, offset, leader_epoch, metadata in command.offsets:
            committed = CommittedOffset(Offset(offset), leader_epoch, metadata, self._time_ms)
            group.commit(topic, partition, committed)
        return Applied((GroupUpdated(),))

    def _drop(self, command: DropOffsets) -> Applied:
        group = self._known(command.group)
        if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupNotEmpty(
                f"group {command.group} has {len(group.members)} members; stop them first"
            )
        subscribed: dict[str, bool] = {}
        refusals: list[Refused | None] = []
        for topic, partition, name in command.offsets:
            if name not in subscribed:
                subscribed[name] = group.subscribes(name)
            if subscribed[name]:
                problem = f"members of group {command.group} read topic {name}; stop them first"
                refusals.append(refusal(GroupSubscribed(problem)))
            else:
                group.forget(topic, partition)
                refusals.append(None)
        return Applied((OffsetsDropped(tuple(refusals)),))

    def _sweep(self, names: tuple[str, ...], before_ms: int) -> OffsetsExpired:
        """Only groups without members forget offsets: a group that is read may be silent for
        long."""
        offsets = groups = 0
        for name in names:
            group = self._groups.get(name)
            if group is None or group.state is not GroupState.EMPTY:
                continue
            for topic, partition in _expired(group, before_ms):
                group.forget(topic, partition)
                offsets += 1
            if not group.offsets:
                group.mark_dead(now_ms=self._time_ms)
                del self._groups[name]
                groups += 1
        return OffsetsExpired(offsets, groups)

    # Snapshots.

    def _pieces(self) -> Iterator[bytes]:
        names = sorted(self._groups)
        copies: dict[str, GroupCopy | None] = dict.fromkeys(names)
        self._copies.append(copies)
        try:
            yield array_header(3) + encoded(self._version, self._time_ms) + map_header(len(names))
            for name in names:
                copy = copies.pop(name) or GroupCopy(self._groups[name])
                yield encoded(name)
                yield from copy.pieces()
        finally:
            self._copies = [one for one in self._copies if one is not copies]

    def _load(self, state: _Snapshot) -> Restoring:
        groups: dict[str, Group] = {}
        for name, raw in state.groups.items():
            groups[name] = Group.from_record(name, decode_msgpack(raw, GroupRecord))
            yield

        def adopt() -> None:
            self._groups, self._copies = groups, []
            self._bytes = self._size_of(groups)

        return adopt


def _joining(command: JoinMember) -> Member:
    return Member(
        instance=command.instance,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
    )


def _expired(group: Group, before_ms: int) -> list[tuple[TopicId, int]]:
    """A commit to a group that has long been empty is as young as any."""
    if group.since_ms >= before_ms:
        return []
    return [
        (topic, partition)
        for topic, partitions in group.offsets.items()
        for partition, committed in partitions.items()
        if committed.commit_ms < before_ms
    ]
