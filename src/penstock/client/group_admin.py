"""Looking after consumer groups: who is in them, how far they are, and where they go on."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.client.connection.group_link import GroupLink
from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.client.group_descriptions import (
    GroupDescription,
    GroupMember,
    GroupPartition,
    GroupSummary,
    OffsetChange,
)
from penstock.client.reader.offsets import ends_of, find_offsets, starts_of
from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.start_position import Start, StartRule
from penstock.core.errors import (
    GroupNotEmpty,
    InvalidRequest,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from penstock.wire.failures import remake_error
from penstock.wire.group_requests import (
    AskGroup,
    AskGroups,
    CommitOffsets,
    DeleteGroup,
    GroupInfo,
    GroupRows,
    OffsetsCommitted,
    OffsetToCommit,
)
from penstock.wire.requests import Done

if TYPE_CHECKING:
    from penstock.client.connection.core import ClientCore

_DEAD = "Dead"


class GroupAdmin(ABC):
    """The part of a client that looks after groups."""

    @property
    @abstractmethod
    def _core(self) -> "ClientCore":
        """The state that the parts of a client share."""

    async def groups(self) -> list[GroupSummary]:
        """All consumer groups, by name."""
        return await list_groups(self._core.router)

    async def describe_group(self, name: str) -> GroupDescription:
        """Describe a group: its members and its lag."""
        return await describe_group(self._core.router, name)

    async def delete_group(self, name: str) -> None:
        """Forget a group that has no members, with how far it had got."""
        await delete_group(self._core.router, name)

    async def reset_group(
        self,
        name: str,
        to: Start = "earliest",
        *,
        topics: str | Iterable[str] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Reset the offsets of a group without members: "earliest", "latest", a datetime, or
        offsets by partition. Without topics, in all it has read. A dry run changes nothing."""
        return await reset_group(self._core.router, name, to, topics=topics, dry_run=dry_run)


async def list_groups(router: RequestRouter) -> list[GroupSummary]:
    """All groups of the cluster, by name."""
    answer = await router.ask(AskGroups(), GroupRows)
    return [
        GroupSummary(name=row.group, state=row.state, coordinator=row.coordinator)
        for row in answer.rows
    ]


async def describe_group(router: RequestRouter, name: str) -> GroupDescription:
    """A group with its lag, or `UnknownGroup`."""
    info = await router.ask(AskGroup(name), GroupInfo)
    if info.state == _DEAD:
        raise UnknownGroup(f"there is no group {name}")
    return GroupDescription(
        name=info.group,
        state=info.state,
        assignor=info.protocol,
        coordinator=info.coordinator,
        members=tuple(
            GroupMember(
                id=one.member,
                instance_id=one.instance,
                client_id=one.client_id,
                host=one.client_host,
                assigned=tuple(TopicPartition(topic, index) for topic, index in one.assigned),
            )
            for one in info.members
        ),
        partitions=tuple(
            GroupPartition(
                topic=one.topic, partition=one.index, committed=one.committed, end=one.end
            )
            for one in info.partitions
        ),
    )


async def delete_group(router: RequestRouter, name: str) -> None:
    """Delete a group and its offsets."""
    link = GroupLink(router, name)
    await link.ask_until(DeleteGroup(name), Done, deadline=router.deadline(None))


async def reset_group(
    router: RequestRouter,
    name: str,
    to: Start,
    *,
    topics: str | Iterable[str] | None = None,
    dry_run: bool = False,
) -> list[OffsetChange]:
    """Reset the offsets of a group; returns what changes, partition by partition."""
    rule = StartRule(to)
    group = await router.ask(AskGroup(name), GroupInfo)
    if group.members:
        raise GroupNotEmpty(f"group {name} has members: stop them before its offsets are reset")
    before = {TopicPartition(one.topic, one.index): one.committed for one in group.partitions}
    names = {part.topic for part in before} if topics is None else set(_several(topics))
    if not names:
        raise InvalidRequest(f"group {name} has read nothing yet: name the topics")
    after = await new_offsets(router, names, rule)
    changes = [
        OffsetChange(
            topic=part.topic, partition=part.partition, before=before.get(part), after=offset
        )
        for part, offset in sorted(after.items())
    ]
    if not dry_run:
        await _write(router, name, changes)
    return changes


async def new_offsets(
    router: RequestRouter, names: Iterable[str], rule: StartRule
) -> dict[TopicPartition, int]:
    """Return the new offsets of a group; with a rule of given offsets, only for those
    partitions."""
    deadline = router.deadline(None)
    parts: list[TopicPartition] = []
    for name in sorted(names):
        info = await router.find(name, NOTHING, deadline)
        parts += [TopicPartition(name, index) for index in range(len(info.leaders))]
    if rule.offsets is None:
        return await find_offsets(router, dict.fromkeys(parts, rule.time_ms), deadline=deadline)
    given = {part: offset for part in parts if (offset := rule.offset_of(part)) is not None}
    starts = await starts_of(router, given, deadline=deadline)
    ends = await ends_of(router, given, deadline=deadline)
    return {part: min(max(offset, starts[part]), ends[part]) for part, offset in given.items()}


async def _write(router: RequestRouter, name: str, changes: Iterable[OffsetChange]) -> None:
    deadline = router.deadline(None)
    offsets: list[OffsetToCommit] = []
    for change in changes:
        info = await router.find(change.topic, NOTHING, deadline)
        offsets.append(OffsetToCommit(info.topic_id, change.partition, change.after))
    link = GroupLink(router, name)
    request = CommitOffsets(name, tuple(offsets))
    try:
        answer = await link.ask_until(request, OffsetsCommitted, deadline=deadline)
    except (UnknownMember, RebalanceInProgress) as error:
        raise GroupNotEmpty(f"a member has joined group {name} meanwhile: stop it first") from error
    for failure in answer.failures:
        if failure is not None:
            raise remake_error(failure)


def _several(topics: str | Iterable[str]) -> Iterable[str]:
    return [topics] if isinstance(topics, str) else topics
