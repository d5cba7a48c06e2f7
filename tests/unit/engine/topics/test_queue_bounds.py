"""`engine.queue_bounds`: a full queue refuses, exactly where it should, and says so truthfully."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import InvalidBatch, QueueFull
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import PartitionId, ProducerId
from penstock.engine.engine import Engine
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Acks, Produced
from penstock.machines.queue_commands import CloseWork, Purge
from tests.batches import build_batch
from tests.unit.engine.nodes import Nodes

pytestmark = pytest.mark.slow


async def outcomes(engine: Engine, topic: Topic, sizes: list[int]) -> list[bool]:
    """Send batches of so many messages at once; which of them were taken."""
    sent = [engine.topics.produce(topic, 0, build_batch(size), Acks.ALL) for size in sizes]
    found = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(one, Produced | QueueFull) for one in found), found
    return [isinstance(one, Produced) for one in found]


def test_a_queue_has_as_many_messages_as_it_may(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, {"queue.length.max": "10"})
        assert await outcomes(engine, topic, [4, 4, 4, 2, 1]) == [True, True, False, True, False]
        assert engine.topics.bounds(topic, 0) == (0, 10)
        with pytest.raises(QueueFull, match="has 10 messages and may have 10: no room for 1 more"):
            await engine.topics.produce(topic, 0, build_batch(1), Acks.ALL)
        with pytest.raises(InvalidBatch):
            await engine.topics.produce(topic, 0, bytearray(5), Acks.ALL)
        await purge(nodes, topic.partitions[0])
        assert await outcomes(engine, topic, [11, 10]) == [False, True]
        topic = await engine.topics.configure_topic("orders", {"queue.overflow": "drop-oldest"})
        assert await outcomes(engine, topic, [4]) == [True]
        topic = await engine.topics.configure_topic(
            "orders", {"queue.overflow": None, "queue.length.max": "12"}
        )
        assert await outcomes(engine, topic, [3, 2]) == [False, True], "4 were dropped of 14"
        await nodes.stop()

    asyncio.run(story())


def test_without_a_work_group_everything_that_is_stored_counts(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, {"queue.length.max": "10"})
        partition = topic.partitions[0]
        await running(nodes, partition).change(CloseWork(partition=partition))
        assert await outcomes(engine, topic, [10, 1]) == [True, False]
        await nodes.stop()

    asyncio.run(story())


def test_a_queue_has_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        size = len(build_batch(1))
        configs = {"queue.bytes.max": str(3 * size)}
        topic = await engine.topics.create_topic("orders", 1, configs)
        assert await outcomes(engine, topic, [1, 1, 1, 1]) == [True, True, True, False]
        with pytest.raises(QueueFull, match=f"has {3 * size} bytes and may have {3 * size}"):
            await engine.topics.produce(topic, 0, build_batch(1), Acks.ALL)
        await purge(nodes, topic.partitions[0])
        assert await outcomes(engine, topic, [1]) == [True]
        await nodes.stop()

    asyncio.run(story())


def test_a_batch_that_is_sent_again_is_not_called_refused(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, {"queue.length.max": "5"})

        def send(sequence: int) -> "asyncio.Future[Produced]":
            batch = build_batch(5, producer_id=ProducerId(1), epoch=0, sequence=sequence)
            return engine.topics.produce(topic, 0, batch, Acks.ALL)

        first, again = await asyncio.gather(send(0), send(0))
        assert (first.base_offset, again.base_offset) == (0, 0)
        assert (await send(0)).base_offset == 0
        with pytest.raises(QueueFull):
            await send(5)
        await purge(nodes, topic.partitions[0])
        assert (await send(5)).base_offset == 5
        await nodes.stop()

    asyncio.run(story())


def running(nodes: Nodes, partition: PartitionId) -> Shard:
    found = nodes[1]._shards.get(nodes[1].engine.topics.shard_of(partition))
    assert found is not None
    return found


async def purge(nodes: Nodes, partition: PartitionId) -> None:
    await running(nodes, partition).change(Purge(partition=partition, group=DEFAULT_WORK_GROUP))
