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
knows who is alive, and asks for `ExpireMembers` when somebody is not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.errors import (
    FencedInstance,
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    Overloaded,
    UnknownGroup,
    UnknownMember,
)
from penstock.core.limits import GROUPS_PER_SHARD_MAX, OFFSETS_PER_GROUP_MAX
from penstock.core.types import Offset, TopicId
from penstock.machines.command_machine import CommandMachine, SnapshotLayout
from penstock.machines.group import CommittedOffset, Group, GroupRecord, GroupState, Member
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
from penstock.machines.machine import (
    Applied,
    Effect,
    Refused,
    Reply,
    refusal,
)
from penstock.machines.subscription import CONSUMER_PROTOCOL_TYPE

NEWEST_VERSION = 1
"""The newest behaviour this build knows. It knows all before it, too."""


class GroupChanged(Effect, frozen=True, gc=False):
    """Whoever waits for something of this group should look again."""

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
    newest_version: int = NEWEST_VERSION
    """What this build knows; another value lets a test play an older or a newer build."""


DEFAULT_SETTINGS = GroupsSettings()


class _Snapshot(SnapshotLayout):
    groups: dict[str, GroupRecord]


class Groups(CommandMachine[GroupCommand, _Snapshot]):
    """The machine of one shard's groups."""

    __slots__ = ("_groups", "_settings")

    name = "groups"
    codec = GROUP_CODEC
    layout = _Snapshot

    def __init__(self, settings: GroupsSettings = DEFAULT_SETTINGS) -> None:
        super().__init__(settings.newest_version)
        self._settings = settings
        self._groups: dict[str, Group] = {}

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

    def describe(self) -> str:
        """`version 1 time 1700 groups 2`."""
        return f"version {self._version} time {self._time_ms} groups {len(self._groups)}"

    # Planning: on the leader.

    def _admit(self, command: GroupCommand) -> GroupCommand:
        if isinstance(command, JoinMember | StoreOffsets):
            self._check_room(command)
        return command

    def _check_room(self, request: JoinMember | StoreOffsets) -> None:
        """What is under way is not counted: a bound may be exceeded by that much, not more."""
        group = self._groups.get(request.group)
        if group is None:
            if len(self._groups) >= self._settings.groups_max:
                raise Overloaded(
                    f"the shard has {len(self._groups)} groups, the bound is"
                    f" {self._settings.groups_max}; delete some",
                    retry_after_ms=1_000,
                )
            known: dict[TopicId, dict[int, CommittedOffset]] = {}
        else:
            known = group.offsets
        if isinstance(request, StoreOffsets):
            more = sum(one[1] not in known.get(one[0], ()) for one in request.offsets)
            if more and more + sum(map(len, known.values())) > self._settings.offsets_per_group_max:
                raise Overloaded(
                    f"group {request.group} has offsets in too many partitions, the bound is"
                    f" {self._settings.offsets_per_group_max}; delete some",
                    retry_after_ms=1_000,
                )

    # Applying: on every replica; the only code that changes state.

    def _carry_out(self, command: GroupCommand) -> Applied:
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
                        group.offsets.pop(topic, None)
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
            Member(
                instance=command.instance,
                client_id=command.client_id,
                client_host=command.client_host,
                session_timeout_ms=command.session_timeout_ms,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                protocols=command.protocols,
            ),
            protocol_type=command.protocol_type,
            new=command.new,
            members_max=command.members_max,
            now_ms=self._time_ms,
        )
        self._groups[name] = group
        # A static member that takes over leaves somebody behind who may be waiting.
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
            group.offsets.setdefault(topic, {})[partition] = CommittedOffset(
                Offset(offset), leader_epoch, metadata, self._time_ms
            )
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
                _forget(group, topic, partition)
                refusals.append(None)
        return Applied((OffsetsDropped(tuple(refusals)),))

    def _sweep(self, names: tuple[str, ...], before_ms: int) -> OffsetsExpired:
        """Only groups without members forget: as long as somebody reads, silence is no sign."""
        offsets = groups = 0
        for name in names:
            group = self._groups.get(name)
            if group is None or group.state is not GroupState.EMPTY:
                continue
            for topic, partition in _expired(group, before_ms):
                _forget(group, topic, partition)
                offsets += 1
            if not group.offsets:
                group.mark_dead(now_ms=self._time_ms)
                del self._groups[name]
                groups += 1
        return OffsetsExpired(offsets, groups)

    # Snapshots.

    def _record(self) -> _Snapshot:
        records = {name: self._groups[name].record() for name in sorted(self._groups)}
        return _Snapshot(self._version, self._time_ms, records)

    def _load(self, state: _Snapshot) -> None:
        self._groups = {
            name: Group.from_record(name, record) for name, record in state.groups.items()
        }


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


def _forget(group: Group, topic: TopicId, partition: int) -> None:
    partitions = group.offsets.get(topic)
    if partitions is not None:
        partitions.pop(partition, None)
        if not partitions:
            del group.offsets[topic]
