"""The lag of consumer groups, for requests on any node.

A group's committed offsets are with its coordinator, the ends of the partitions with their leaders.
A node that holds a replica of a partition knows its end well enough, a heartbeat late at most;
others ask the leader. A partition whose end cannot be learnt now is left without a lag rather than
given a wrong one.
"""

from types import NoneType

import msgspec

from penstock.core.errors import UnknownPartition
from penstock.core.topic import Topic
from penstock.core.types import NodeId, Offset, PartitionId, ShardId
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.groups import Groups
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics
from penstock.machines.subscription import CONSUMER_PROTOCOL_TYPE, read_assignment

_MEMBERLESS = ("Empty", "Dead")


class GroupLine(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list of groups."""

    group: str
    state: str
    coordinator: NodeId


class MemberLine(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group."""

    member: str
    instance: str | None
    client_id: str
    client_host: str
    assigned: tuple[tuple[str, int], ...] = ()
    """(topic, partition); empty if that cannot be read, and from a node of 0.1."""


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a group reads."""

    topic: str
    partition: int
    committed: Offset
    end: Offset | None
    """The high watermark; None if unknown."""
    lag: int | None


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """A group, its members, and how far behind it is."""

    group: str
    state: str
    protocol: str
    coordinator: NodeId
    members: tuple[MemberLine, ...]
    partitions: tuple[PartitionLag, ...]
    lag: int
    """The lag over all partitions whose end is known."""


class GroupOffsets(msgspec.Struct):
    """A group this node looks after, and how far it has got."""

    group: str
    state: str
    members: int
    offsets: list[tuple[Topic, int, Offset]]
    """Topic, index of the partition, committed offset."""


GROUP = RemoteCall("group", str, GroupLag)
GROUPS = RemoteCall("groups", NoneType, list[GroupLine])
ENDS = RemoteCall("ends", list[PartitionId], list[Offset | None])


class Lag:
    """The lag of groups that this node coordinates, and of all others by asking their nodes."""

    def __init__(
        self, topics: Topics, groups: Groups, shards: LocalShards, calls: RemoteCalls
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._shards = shards
        self._calls = calls

    # Asked of any node.

    async def groups(self) -> list[GroupLine]:
        """Return all groups of the cluster whose coordinators can be reached."""
        answers = await self._calls.ask_all(GROUPS, None)
        lines = (line for reply in answers.replies.values() for line in reply)
        return sorted(lines, key=lambda line: line.group)

    async def group(self, group: str) -> GroupLag:
        """Return the lag of one group, from its coordinator."""
        return await self._calls.ask_leader(self._topics.group_shard(group), GROUP, group)

    # On this node.

    async def ends_here(self, partitions: list[PartitionId]) -> list[Offset | None]:
        """High watermarks of partitions that this node holds; None for others."""
        return [self._end(number) for number in partitions]

    async def groups_here(self, _asked: None) -> list[GroupLine]:
        """The groups that this node coordinates."""
        return [
            GroupLine(group=one.group, state=one.state, coordinator=self._topics.node_id)
            for coordinator in self._groups.led_coordinators()
            for one in coordinator.groups()
        ]

    def offsets_of(self, coordinator: Coordinator) -> list[GroupOffsets]:
        """All groups of one coordinator of this node."""
        found: dict[str, GroupOffsets] = {}
        for one in coordinator.groups():
            members = 0
            if one.state not in _MEMBERLESS:
                members = len(coordinator.describe(one.group).members)
            found[one.group] = GroupOffsets(one.group, one.state, members, [])
        for group, topic_id, index, offset in coordinator.committed():
            topic = self._topics.catalog.topic_by_id(topic_id)
            if group in found and topic is not None and index < len(topic.partitions):
                found[group].offsets.append((topic, index, offset))
        return list(found.values())

    async def group_here(self, group: str) -> GroupLag:
        """A group that this node coordinates."""
        coordinator = self._groups.coordinator(group)
        described = coordinator.describe(group)
        read: list[tuple[Topic, int, Offset]] = []
        for (topic_id, index), committed in sorted(coordinator.offsets(group).items()):
            topic = self._topics.catalog.topic_by_id(topic_id)
            if topic is not None and index < len(topic.partitions):
                read.append((topic, index, committed.offset))
        ends = await self.ends([topic.partitions[index] for topic, index, _ in read])
        rows = [
            _row(topic, index, committed, ends.get(topic.partitions[index]))
            for topic, index, committed in read
        ]
        return GroupLag(
            group=group,
            state=described.state,
            protocol=described.protocol,
            coordinator=self._topics.node_id,
            members=tuple(
                MemberLine(
                    member=one.member,
                    instance=one.instance,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    assigned=(
                        read_assignment(one.assignment)
                        if described.protocol_type == CONSUMER_PROTOCOL_TYPE
                        else ()
                    ),
                )
                for one in described.members
            ),
            partitions=tuple(sorted(rows, key=lambda row: (row.topic, row.partition))),
            lag=sum(row.lag or 0 for row in rows),
        )

    async def ends(self, partitions: list[PartitionId]) -> dict[PartitionId, Offset]:
        """The high watermarks of partitions, as far as they can be learnt."""
        found: dict[PartitionId, Offset] = {}
        elsewhere: dict[NodeId, list[PartitionId]] = {}
        for number in partitions:
            end = self._end(number)
            if end is not None:
                found[number] = end
            else:
                leader = self._topics.leader(self._topics.shard_of(number)).node
                elsewhere.setdefault(leader, []).append(number)
        answers = await self._calls.ask_each(ENDS, elsewhere)
        for node, ends in answers.replies.items():
            both = zip(elsewhere[node], ends, strict=False)
            found |= {number: end for number, end in both if end is not None}
        return found

    def _end(self, partition: PartitionId) -> Offset | None:
        shard: ShardId = self._topics.shard_of(partition)
        running = self._shards.get(shard)
        if running is None:
            return None
        try:
            return running.machine.bounds(partition).high_watermark
        except UnknownPartition:
            return None


def _row(topic: Topic, index: int, committed: Offset, end: Offset | None) -> PartitionLag:
    return PartitionLag(
        topic=topic.name,
        partition=index,
        committed=committed,
        end=end,
        lag=None if end is None else max(0, end - committed),
    )
