"""Consumer groups in the native protocol's words, answered by a real node."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.core.errors import (
    GroupNotEmpty,
    IllegalGeneration,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMember,
)
from penstock.core.topic import Topic
from penstock.engine.topics.topics import Acks
from penstock.native.context import Context
from penstock.native.groups import GROUP_HANDLERS
from penstock.wire.group_requests import (
    AskCommitted,
    AskCoordinator,
    AskGroup,
    AskGroups,
    BeatGroup,
    CommitOffsets,
    Committed,
    CoordinatorInfo,
    DeleteGroup,
    GroupInfo,
    GroupJoined,
    GroupPartition,
    GroupRow,
    GroupRows,
    GroupSynced,
    JoinGroup,
    LeaveGroup,
    MemberNamed,
    OffsetsCommitted,
    OffsetToCommit,
    SyncGroup,
)
from penstock.wire.requests import Answer, Done, Request
from tests.batches import build_batch
from tests.unit.engine.nodes import Nodes

A = TypeVar("A", bound=Answer)
Story = Callable[[Context, Topic], Awaitable[None]]
PROTOCOLS = (("penstock-sticky", b"what it wants"),)


def on_one_node(path: Path, story: Story) -> None:
    async def play() -> None:
        nodes = Nodes(path, [1])
        await nodes.start()
        try:
            topic = await nodes[1].engine.topics.create_topic("orders", 2, {})
            await story(Context(nodes[1]), topic)
        finally:
            await nodes.stop()

    asyncio.run(play())


async def ask(context: Context, request: Request, kind: type[A]) -> A:
    answer, payload = await GROUP_HANDLERS[type(request)](context, request, memoryview(b""))
    assert not payload
    assert isinstance(answer, kind)
    return answer


def joining(member: str, group: str = "g", instance: str | None = None) -> JoinGroup:
    return JoinGroup(group, member, instance, "tests", 10_000, 10_000, PROTOCOLS)


async def join(context: Context, group: str = "g") -> GroupJoined:
    named = await ask(context, joining("", group), MemberNamed)
    return await ask(context, joining(named.member, group), GroupJoined)


async def beat_on(context: Context, beat: BeatGroup) -> None:
    while True:
        await ask(context, beat, Done)
        await asyncio.sleep(0)


def test_a_member_joins_works_and_leaves(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        assert await ask(context, AskCoordinator("g"), CoordinatorInfo) == CoordinatorInfo(1)
        joined = await join(context)
        me, generation = joined.member, joined.generation
        assert (joined.leader, joined.protocol) == (me, "penstock-sticky")
        assert [(one.member, one.metadata) for one in joined.members] == [(me, b"what it wants")]
        work = SyncGroup("g", me, None, generation, ((me, b"its share"),))
        assert (await ask(context, work, GroupSynced)).assignment == b"its share"
        await ask(context, BeatGroup("g", me, None, generation), Done)

        offsets = (
            OffsetToCommit(topic.topic_id, 1, 7),
            OffsetToCommit(bytes(16), 0, 7),
            OffsetToCommit(topic.topic_id, 2, 7),
        )
        commit = CommitOffsets("g", offsets, me, None, generation)
        first, *others = (await ask(context, commit, OffsetsCommitted)).failures
        assert first is None
        assert [one.kinds for one in others if one] == [("UnknownPartition",)] * 2
        for parts in ((), ((topic.topic_id, 0), (topic.topic_id, 1))):
            rows = (await ask(context, AskCommitted("g", parts), Committed)).rows
            assert [(one.topic_id, one.index, one.offset) for one in rows] == [
                (topic.topic_id, 1, 7)
            ]

        with pytest.raises(GroupNotEmpty):
            await ask(context, DeleteGroup("g"), Done)
        await ask(context, LeaveGroup("g", me), Done)
        with pytest.raises(UnknownMember):
            await ask(context, LeaveGroup("g", me), Done)
        with pytest.raises(UnknownMember):
            await ask(context, BeatGroup("g", me, None, generation), Done)
        await ask(context, DeleteGroup("g"), Done)

    on_one_node(tmp_path, story)


def test_a_second_member_makes_the_first_join_again(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        first = await join(context)
        me, generation = first.member, first.generation
        await ask(context, SyncGroup("g", me, None, generation, ((me, b""),)), GroupSynced)
        second = asyncio.create_task(join(context))
        beat = BeatGroup("g", me, None, generation)
        with pytest.raises(RebalanceInProgress):
            await beat_on(context, beat)
        # While the others are being waited for, what is finished can still be committed.
        offsets = (OffsetToCommit(topic.topic_id, 0, 3),)
        await ask(context, CommitOffsets("g", offsets, me, None, generation), OffsetsCommitted)
        again = await ask(context, joining(me), GroupJoined)
        assert again.generation == generation + 1
        assert {one.member for one in again.members} == {me, (await second).member}
        with pytest.raises(IllegalGeneration):
            await ask(context, CommitOffsets("g", offsets, me, None, generation), OffsetsCommitted)

    on_one_node(tmp_path, story)


def test_a_static_member_is_let_in_at_once_and_comes_back(tmp_path: Path) -> None:
    async def story(context: Context, _topic: Topic) -> None:
        first = await ask(context, joining("", instance="host-1"), GroupJoined)
        share = ((first.member, b"share"),)
        sync = SyncGroup("g", first.member, "host-1", first.generation, share)
        await ask(context, sync, GroupSynced)
        again = await ask(context, joining("", instance="host-1"), GroupJoined)
        assert again.skip_assignment
        assert again.generation == first.generation
        sync = SyncGroup("g", again.member, "host-1", again.generation)
        assert (await ask(context, sync, GroupSynced)).assignment == b"share"

    on_one_node(tmp_path, story)


def test_groups_are_listed_and_described_with_their_lag(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        await context.engine.topics.produce(topic, 0, build_batch(5), Acks.ALL)
        offsets = (OffsetToCommit(topic.topic_id, 0, 3),)
        await ask(context, CommitOffsets("away", offsets), OffsetsCommitted)
        await join(context)
        assert (await ask(context, AskGroups(), GroupRows)).rows == (
            GroupRow("away", "Empty", 1),
            GroupRow("g", "CompletingRebalance", 1),
        )
        away = await ask(context, AskGroup("away"), GroupInfo)
        assert (away.state, away.members) == ("Empty", ())
        assert away.partitions == (GroupPartition("orders", 0, 3, 5),)
        (member,) = (await ask(context, AskGroup("g"), GroupInfo)).members
        assert member.client_id == "tests"
        assert (await ask(context, AskGroup("nobody"), GroupInfo)).state == "Dead"

    on_one_node(tmp_path, story)


def test_another_node_names_the_coordinator(tmp_path: Path) -> None:
    async def play() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        try:
            found = {
                (await ask(Context(node), AskCoordinator("g"), CoordinatorInfo)).node
                for node in nodes.running.values()
            }
            assert len(found) == 1
            elsewhere = next(
                node for node in nodes.running.values() if node.engine.topics.node_id not in found
            )
            with pytest.raises(NotCoordinator) as caught:
                await ask(Context(elsewhere), joining(""), MemberNamed)
            assert {caught.value.leader} == found
        finally:
            await nodes.stop()

    asyncio.run(play())
