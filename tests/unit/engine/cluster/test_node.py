"""Nodes that found clusters, lead, fail, leave and join: real disks, real sockets."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import (
    BatchTooLarge,
    DirectoryInUse,
    DirectoryRefused,
    ForeignDirectory,
    InvalidBatch,
    InvalidConfig,
    InvalidGroup,
    InvalidRequest,
    MembershipRefused,
    NotEnoughReplicas,
    OffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    TopicExists,
    UnknownNode,
    UnknownPartition,
    UnknownTopic,
    UnsupportedBatch,
)
from penstock.core.records import read_header
from penstock.core.types import CATALOG_SHARD, NodeId, Offset, ShardId
from penstock.engine.topics.topics import Acks
from penstock.machines.catalog_commands import CatalogCommand, PlaceShard
from penstock.machines.machine import Reply
from penstock.native.context import Context
from penstock.native.topics import answer_cluster
from penstock.wire.requests import AskCluster, ClusterInfo
from tests.batches import build_batch
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes, until

pytestmark = pytest.mark.slow

END = Offset(-1)


def test_a_node_alone_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 3, {"retention.ms": "-1"})
        for acks in (Acks.ALL, Acks.LEADER, Acks.NONE):
            await engine.topics.produce(topic, 1, build_batch(5), acks)
        await engine.topics.produce(topic, 1, build_batch(1), Acks.ALL)
        assert engine.topics.bounds(topic, 1) == (0, 16)
        with pytest.raises(DirectoryInUse):
            await nodes.start(1)
        await nodes.stop()
        await nodes.start()
        engine = nodes[1].engine
        assert engine.topics.topic("orders") == topic
        assert engine.topics.bounds(topic, 1) == (0, 16)
        assert read_header(engine.topics.read(topic, 1, Offset(7), 1)).base_offset == 5
        await nodes.stop()

    asyncio.run(story())


def test_a_node_whose_catalog_is_not_open_looks_after_the_rest(tmp_path: Path) -> None:
    """A replica of the catalog that halts is opened again; meanwhile the node's clock goes on."""

    async def story() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: faults.append(context)
        )
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        node = nodes[1]
        await node._shards._close(CATALOG_SHARD)
        before = node._ticks
        await until(lambda: node._ticks >= before + 3)
        assert faults == []
        await nodes.stop()

    asyncio.run(story())


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, {"max.message.bytes": "1000"})
        with pytest.raises(TopicExists):
            await engine.topics.create_topic("orders", 1, {})
        with pytest.raises(InvalidConfig):
            await engine.topics.create_topic("other", 1, {"retention.ms": "soon"})
        with pytest.raises(UnknownTopic):
            engine.topics.topic("other")
        with pytest.raises(UnknownPartition):
            engine.topics.read(topic, 1, Offset(0), 1)
        with pytest.raises(OffsetOutOfRange):
            engine.topics.read(topic, 0, Offset(1), 1)
        with pytest.raises(BatchTooLarge):
            await engine.topics.produce(topic, 0, build_batch(1, value=b"v" * 2000), Acks.ALL)
        with pytest.raises(InvalidBatch):
            await engine.topics.produce(topic, 0, bytearray(100), Acks.ALL)
        with pytest.raises(InvalidGroup):
            engine.groups.coordinator("")
        with pytest.raises(MembershipRefused):
            await nodes[1].cluster.remove_node(NodeId(1))
        with pytest.raises(UnknownNode):
            await nodes[1].cluster.remove_node(NodeId(7))
        with pytest.raises(InvalidRequest):
            await nodes[1].cluster.transfer(ShardId(1), NodeId(7))
        with pytest.raises(InvalidRequest):
            await nodes[1].cluster.transfer(ShardId(9), NodeId(1))
        assert engine.topics.bounds(topic, 0) == (0, 0)
        await nodes.stop()

    asyncio.run(story())


def test_a_topic_of_log_append_time_gets_the_leaders(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        configs = {"message.timestamp.type": "LogAppendTime"}
        topic = await engine.topics.create_topic("orders", 1, configs)
        before = engine.topics.clock.wall_ms()
        produced = await engine.topics.produce(topic, 0, build_batch(2), Acks.ALL)
        assert produced.log_append_ms >= before
        header = read_header(engine.topics.read(topic, 0, Offset(0), 1))
        assert header.max_timestamp == produced.log_append_ms
        assert header.attributes & 8
        assert engine.topics.offset_for_time(topic, 0, before) == (0, produced.log_append_ms)
        await nodes.stop()

    asyncio.run(story())


def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("state", 1, {"cleanup.policy": "compact"})
        with pytest.raises(UnsupportedBatch, match="give it a key"):
            await engine.topics.produce(topic, 0, build_batch(2), Acks.ALL)
        await engine.topics.produce(topic, 0, build_batch(2, key=b"k"), Acks.ALL)
        assert engine.topics.bounds(topic, 0) == (0, 2)
        await nodes.stop()

    asyncio.run(story())


def test_deleting_a_topic_removes_its_partitions(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 4, {})
        await engine.topics.produce(topic, 0, build_batch(2), Acks.ALL)
        assert await engine.topics.trim(topic, 0, END) == 2
        await engine.topics.delete_topic("orders")
        again = await engine.topics.create_topic("orders", 1, {})
        assert set(again.partitions).isdisjoint(topic.partitions)
        await until(lambda: sum(nodes[1].cluster.local_shard(ShardId(n)).partitions
                                for n in (1, 2)) == 1)  # fmt: skip
        with pytest.raises(UnknownPartition):
            engine.topics.read(topic, 0, Offset(0), 1)
        await nodes.stop()

    asyncio.run(story())


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        first = [await nodes[1].engine.topics.new_producer_id() for _ in range(3)]
        await nodes.stop()
        await nodes.start()
        second = [await nodes[1].engine.topics.new_producer_id() for _ in range(3)]
        assert len({*first, *second}) == 6
        await nodes.stop()

    asyncio.run(story())


def test_a_directory_belongs_to_one_node(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        await nodes.stop()
        other = Nodes(tmp_path, [2])
        with pytest.raises(ForeignDirectory, match="belongs to node 1"):
            await other.start(2, directory="node-1")

    asyncio.run(story())


def test_three_nodes_survive_the_loss_of_one(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        # A topic is made on whichever node is asked, and every node knows it then.
        topic = await nodes[2].engine.topics.create_topic("orders", 2, {})
        await until(lambda: all(n.engine.topics.catalog.topic("orders") == topic
                                for n in nodes.running.values()))  # fmt: skip
        for index in (0, 1):
            assert (await nodes.produce(topic, index, b"before")).base_offset == 0
        led = (
            nodes[1].engine.topics.leader(nodes[1].engine.topics.shard_of(topic.partitions[0])).node
        )
        await nodes.stop(led)
        for index in (0, 1):
            assert (await nodes.produce(topic, index, b"after")).base_offset == 1
        # The shards that were written to have leaders again; others of the lost node may take a
        # little longer.
        left = next(iter(nodes.running.values())).cluster
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if (await left.status()).health == "2 of 3 nodes, all leaders settled":
                    break
                await asyncio.sleep(0)
        await nodes.start(led)
        await nodes.stop()

    asyncio.run(story())


def test_without_a_majority_what_is_committed_can_be_read(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 1, {})
        await nodes.produce(topic, 0, b"kept")
        # A follower hears of a commit a heartbeat later.
        shard = nodes[3].engine.topics.shard_of(topic.partitions[0])
        commits = [node.cluster.local_shard(shard).commit for node in nodes.running.values()]
        await until(lambda: nodes[3].cluster.local_shard(shard).commit == max(commits))
        await until(lambda: nodes[3].engine.topics.catalog.topic("orders") == topic)
        await nodes.stop()
        # Alone after a restart, it still knows what was committed.
        await nodes._start(NodeId(3), "")
        lonely = nodes[3]
        await until(lambda: len(lonely.health().problems) == 3 and lonely.health().read_only)
        assert b"kept" in lonely.engine.topics.read(topic, 0, Offset(0), 1_000)
        assert lonely.engine.topics.read(topic, 0, Offset(9), 1_000) == b""
        with pytest.raises(NotEnoughReplicas):
            await lonely.engine.topics.produce(topic, 0, build_batch(1), Acks.ALL)
        told, _ = await answer_cluster(Context(lonely), AskCluster(), memoryview(b""))
        assert isinstance(told, ClusterInfo)
        assert told.read_only_shards == tuple(lonely.engine.topics.shards())
        assert all(one.read_only for one in told.nodes)
        await nodes.start(1, 2)
        assert (await nodes.produce(topic, 0, b"again")).base_offset == 1
        await nodes.stop()

    asyncio.run(story())


def test_a_dead_node_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 2, {})
        for index in (0, 1):
            await nodes.produce(topic, index, b"kept")
        await nodes.stop(3)
        with pytest.raises(DirectoryRefused, match="another disk"):
            await nodes.start(3, directory="empty")
        assert await nodes[1].cluster.remove_node(NodeId(3))
        more = Nodes(tmp_path, [4])
        nodes.addresses = nodes.addresses | more.addresses
        await nodes[2].cluster.add_node(NodeId(4), more.addresses[NodeId(4)])
        await nodes.start(4)

        def moved() -> bool:
            here = [nodes[4].cluster.local_shard(ShardId(shard)) for shard in (0, 1, 2)]
            return all(shard.voters == (1, 2, 4) for shard in here)

        await until(moved)
        await nodes.stop(1)
        for index in (0, 1):
            assert (await nodes.produce(topic, index, b"more")).base_offset == 1
        await nodes.stop()

    asyncio.run(story())


def test_a_node_that_was_removed_while_it_was_away_finds_out(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        await nodes.stop(3)
        assert await nodes[1].cluster.remove_node(NodeId(3))
        await nodes._start(NodeId(3), "")
        failed = await asyncio.wait_for(asyncio.shield(nodes[3].failed), 30)
        assert "was removed from the cluster" in str(failed)
        await nodes.stop()

    asyncio.run(story())


def test_what_an_operator_asks_for_is_asked_again_if_its_outcome_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        change, asked = engine.topics.change_catalog, []

        async def lose_the_first_answer(command: CatalogCommand) -> Reply:
            reply = await change(command)
            asked.append(command)
            if len(asked) == 1:
                raise OutcomeUnknown("the link was lost")
            return reply

        monkeypatch.setattr(engine.topics, "change_catalog", lose_the_first_answer)
        await nodes[1].cluster.transfer(ShardId(1), NodeId(1))
        assert asked == [PlaceShard(shard=ShardId(1), nodes=(NodeId(1),))] * 2
        await nodes.stop()

    asyncio.run(story())


def test_leadership_moves_by_hand_and_before_a_stop(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        for target in (1, 2, 3):
            await _transfer(nodes, target)
            await until(lambda: nodes[1].topics.leader(ShardId(1)).node == target)  # noqa: B023
        await nodes.stop(3, hand_over=True)
        await until(lambda: nodes[1].engine.topics.leader(ShardId(1)).node in (1, 2))
        await nodes.stop()

    asyncio.run(story())


async def _transfer(nodes: Nodes, target: int) -> None:
    """Ask until somebody leads and takes it."""
    while True:
        try:
            await nodes[1].cluster.transfer(ShardId(1), NodeId(target))
        except PenstockError:
            await asyncio.sleep(0)
        else:
            return
