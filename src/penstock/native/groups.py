"""Consumer groups, for native clients.

What concerns one group is answered by its coordinator; elsewhere the engine raises
`NotCoordinator`, which names the node to ask. Lists and lags are answered by any node.
"""

from penstock.core.errors import InconsistentGroupProtocol, MemberIdRequired
from penstock.core.types import Offset, TopicId
from penstock.engine.groups.requests import (
    CommitOffsets as OffsetsOfMember,
)
from penstock.engine.groups.requests import JoinGroup as MemberJoins
from penstock.engine.groups.requests import LeavingMember, OffsetKey
from penstock.engine.groups.requests import OffsetToCommit as OffsetOfMember
from penstock.engine.groups.requests import SyncGroup as MemberSyncs
from penstock.native.context import Context, Handlers, Reply
from penstock.wire.failures import Described, describe_error
from penstock.wire.group_requests import (
    AskCommitted,
    AskCoordinator,
    AskGroup,
    AskGroups,
    BeatGroup,
    CommitOffsets,
    Committed,
    CommittedRow,
    CoordinatorInfo,
    DeleteGroup,
    GroupInfo,
    GroupJoined,
    GroupMember,
    GroupPartition,
    GroupRow,
    GroupRows,
    GroupSynced,
    JoinedMember,
    JoinGroup,
    LeaveGroup,
    MemberNamed,
    OffsetsCommitted,
    SyncGroup,
)
from penstock.wire.requests import Done

PROTOCOL_TYPE = "consumer"
"""The one Kafka's consumers have: tools then know what the members read, and both kinds mix."""


async def answer_coordinator(
    context: Context, request: AskCoordinator, _payload: memoryview
) -> Reply:
    """The coordinator of a group, as far as this node knows."""
    engine = context.engine
    return CoordinatorInfo(engine.topics.leader(engine.topics.group_shard(request.group)).node), b""


# Members.


async def answer_join(context: Context, request: JoinGroup, _payload: memoryview) -> Reply:
    """Answered when the generation has begun, which may take minutes."""
    engine = context.engine
    coordinator = engine.groups.coordinator(request.group)
    if engine.groups.share.get(request.group) is not None:
        raise InconsistentGroupProtocol(f"{request.group} is a share group")
    try:
        joined = await coordinator.join(
            MemberJoins(
                group=request.group,
                member=request.member,
                instance=request.instance,
                client_id=request.client_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocol_type=PROTOCOL_TYPE,
                protocols=request.protocols,
                require_known_member=request.instance is None,
                skips_assignment=True,
            )
        )
    except MemberIdRequired as named:
        return MemberNamed(named.member_id), b""
    members = (JoinedMember(one.member, one.instance, one.metadata) for one in joined.members)
    answer = GroupJoined(
        member=joined.member,
        generation=joined.generation,
        protocol=joined.protocol,
        leader=joined.leader,
        members=tuple(members),
        skip_assignment=joined.skip_assignment,
    )
    return answer, b""


async def answer_sync(context: Context, request: SyncGroup, _payload: memoryview) -> Reply:
    """Answered when the leader of the generation has shared out the work."""
    synced = await context.engine.groups.coordinator(request.group).sync(
        MemberSyncs(
            group=request.group,
            member=request.member,
            generation=request.generation,
            instance=request.instance,
            assignments=request.assignments,
        )
    )
    return GroupSynced(synced.assignment), b""


async def answer_beat(context: Context, request: BeatGroup, _payload: memoryview) -> Reply:
    """The member is alive."""
    context.engine.groups.coordinator(request.group).heartbeat(
        request.group,
        member=request.member,
        generation=request.generation,
        instance=request.instance,
    )
    return Done(), b""


async def answer_leave(context: Context, request: LeaveGroup, _payload: memoryview) -> Reply:
    """The member leaves; one that has left already gets an error."""
    coordinator = context.engine.groups.coordinator(request.group)
    leaving = [LeavingMember(request.member, request.instance)]
    (outcome,) = await coordinator.leave(request.group, leaving)
    if outcome.error is not None:
        raise outcome.error
    return Done(1), b""


# Offsets.


async def answer_commit(context: Context, request: CommitOffsets, _payload: memoryview) -> Reply:
    """Remember offsets; those of deleted partitions are reported separately."""
    catalog = context.engine.topics.catalog
    failures: dict[OffsetKey, Described] = {}
    offsets: list[OffsetOfMember] = []
    keys: list[OffsetKey] = []
    coordinator = context.engine.groups.coordinator(request.group)
    for one in request.offsets:
        topic_id = TopicId(one.topic_id)
        keys.append((topic_id, one.index))
        topic = catalog.topic_by_id(topic_id)
        if topic is None or not 0 <= one.index < len(topic.partitions):
            failures[topic_id, one.index] = Described(
                ("UnknownPartition",), "there is no such partition (any more)"
            )
        else:
            offsets.append(OffsetOfMember(topic_id, one.index, Offset(one.offset)))
    outcome = await coordinator.commit_offsets(
        OffsetsOfMember(
            group=request.group,
            member=request.member,
            generation=request.generation,
            instance=request.instance,
            offsets=tuple(offsets),
        )
    )
    for key, error in outcome.items():
        if error is not None:
            failures[key] = describe_error(error)
    return OffsetsCommitted(tuple(failures.get(key) for key in keys)), b""


async def answer_committed(context: Context, request: AskCommitted, _payload: memoryview) -> Reply:
    """How far the group has got, after a majority has confirmed that this node knows."""
    engine = context.engine
    coordinator = engine.groups.coordinator(request.group)
    await engine.groups.confirm_group(request.group)
    keys = [(TopicId(topic_id), index) for topic_id, index in request.parts] or None
    rows = (
        CommittedRow(topic_id, index, one.offset, one.commit_ms)
        for (topic_id, index), one in sorted(coordinator.offsets(request.group, keys).items())
    )
    return Committed(tuple(rows)), b""


# For people.


async def answer_groups(context: Context, _request: AskGroups, _payload: memoryview) -> Reply:
    """All groups whose coordinators can be reached."""
    rows = (
        GroupRow(line.group, line.state, line.coordinator)
        for line in await context.node.lag.groups()
    )
    return GroupRows(tuple(rows)), b""


async def answer_group(context: Context, request: AskGroup, _payload: memoryview) -> Reply:
    """One group with its lag, wherever its coordinator is."""
    found = await context.node.lag.group(request.group)
    answer = GroupInfo(
        group=found.group,
        state=found.state,
        protocol=found.protocol,
        coordinator=found.coordinator,
        members=tuple(
            GroupMember(one.member, one.instance, one.client_id, one.client_host, one.assigned)
            for one in found.members
        ),
        partitions=tuple(
            GroupPartition(one.topic, one.partition, one.committed, one.end)
            for one in found.partitions
        ),
    )
    return answer, b""


async def answer_delete(context: Context, request: DeleteGroup, _payload: memoryview) -> Reply:
    """Forget an empty group."""
    await context.engine.groups.coordinator(request.group).delete_group(request.group)
    return Done(1), b""


GROUP_HANDLERS: Handlers = {
    AskCommitted: answer_committed,
    AskCoordinator: answer_coordinator,
    AskGroup: answer_group,
    AskGroups: answer_groups,
    BeatGroup: answer_beat,
    CommitOffsets: answer_commit,
    DeleteGroup: answer_delete,
    JoinGroup: answer_join,
    LeaveGroup: answer_leave,
    SyncGroup: answer_sync,
}
