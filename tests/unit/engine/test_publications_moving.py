"""Publications among several nodes: whoever is asked, whoever leads, and whoever dies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from penstock.core.errors import NotLeader, PenstockError, Unavailable
from penstock.core.topic import Topic
from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.node import Node
from penstock.engine.topics import part_copy
from penstock.engine.topics.part_copy import PartCopy, Promotion
from penstock.engine.topics.promotion import PartPromotion
from penstock.engine.topics.staging import StagedBatch
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes, until
from tests.unit.engine.publishing import (
    led_values,
    part,
    parts,
    publish,
    publish_until,
    stage,
    trimmed,
)

pytestmark = pytest.mark.slow


@asynccontextmanager
async def three(path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(path, [1, 2, 3])
    await nodes.start()
    try:
        yield nodes
    finally:
        await nodes.stop()


def everybody(nodes: Nodes) -> list[Node]:
    return list(nodes.running.values())


async def leader(nodes: Nodes, shard: ShardId) -> Node:
    """The node that leads a shard, when there is one."""
    found: list[Node] = []

    def leads() -> bool:
        for node in nodes.running.values():
            running = node.shards.get(shard)
            if running is not None and running.replica.leads:
                found.append(node)
        return bool(found)

    await until(leads)
    return found[0]


async def stage_anywhere(
    nodes: Nodes, topic: Topic, index: int, value: bytes, count: int = 1
) -> StagedBatch:
    """Stage a batch with whoever leads."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for node in everybody(nodes):
                try:
                    return await stage(node, topic, index, value, count)
                except PenstockError:
                    await asyncio.sleep(0)


async def hand_over(nodes: Nodes, shard: ShardId, heir: Node | None = None) -> Node:
    """Let another node lead a shard."""
    before = await leader(nodes, shard)
    after = heir or next(node for node in everybody(nodes) if node is not before)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (now := await leader(nodes, shard)) is not after:
            running = now.shards.get(shard)
            assert running is not None
            if running.replica.leads:
                running.replica.transfer(after.engine.topics.node_id)
            await asyncio.sleep(0)
    return after


def _alone(node: Node) -> list[Node]:
    return [node]


async def _last(node: Node) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await node.engine.publications.last("app")
            except PenstockError:
                await asyncio.sleep(0)


def test_any_node_can_be_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with three(tmp_path) as nodes:
            topic = await nodes[1].engine.topics.create_topic("orders", 4, {})
            for batch, node in enumerate(everybody(nodes)):
                staged = [
                    await stage_anywhere(nodes, topic, index, b"%d" % batch) for index in range(4)
                ]
                given = parts(topic, staged)
                assert (await publish_until(partial(_alone, node), batch, *given)).is_new
                for other in everybody(nodes):
                    again = await publish_until(partial(_alone, other), batch, *given)
                    assert not again.is_new
                    assert await _last(other) == batch
            for index in range(4):
                assert await led_values(lambda: everybody(nodes), topic, index) == [
                    b"0",
                    b"1",
                    b"2",
                ]

    asyncio.run(story())


def test_leader_of_a_partition_moves_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_copy, "READ_BYTES", 200)

    async def story() -> None:
        async with three(tmp_path) as nodes:
            topic = await nodes[1].engine.topics.create_topic("orders", 2, {})
            staged = [await stage_anywhere(nodes, topic, n % 2, b"%d" % n, 3) for n in range(40)]
            shard = nodes[1].engine.topics.shard_of(topic.partitions[0])
            original = PartCopy.next_piece
            moved = [0]

            def next_piece(self: PartCopy, *arguments: int | None) -> list[bytearray]:
                moved[0] += 1
                if moved[0] % 7 == 0:
                    for node in everybody(nodes):
                        running = node.shards.get(shard)
                        if running is not None and running.replica.leads:
                            running.replica.transfer(NodeId(node.engine.topics.node_id % 3 + 1))
                return original(self, *arguments)

            monkeypatch.setattr(PartCopy, "next_piece", next_piece)
            await publish_until(lambda: everybody(nodes), 1, *parts(topic, staged))
            assert moved[0] > 20
            for index in range(2):
                expected = [b"%d" % n for n in range(index, 40, 2) for _ in range(3)]
                assert await led_values(lambda: everybody(nodes), topic, index) == expected

    asyncio.run(story())


def test_coordinator_dies_after_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with three(tmp_path) as nodes:
            topic = await nodes[1].engine.topics.create_topic("orders", 4, {})
            staged = [await stage_anywhere(nodes, topic, n % 4, b"%d" % n) for n in range(12)]
            given = parts(topic, staged)
            deciding = nodes[1].engine.topics.group_shard("app")
            coordinator = await leader(nodes, deciding)
            original = PartPromotion._promote

            async def refuse(self: PartPromotion, asked: Promotion, *rest: object) -> None:
                if asked.part.partition != topic.partitions[0]:
                    raise Unavailable("not now")
                await original(self, asked, *rest)  # type: ignore[arg-type]

            with monkeypatch.context() as patch:
                patch.setattr(PartPromotion, "_promote", refuse)
                asked = asyncio.create_task(publish(coordinator, 1, *given))
                while len(await led_values(lambda: everybody(nodes), topic, 0)) < 3:
                    pass
                await nodes.stop(coordinator.engine.topics.node_id)
            with pytest.raises(PenstockError):
                await asked
            await nodes.ready()
            shards = [node.shards.get(deciding) for node in everybody(nodes)]
            publications = [one.machine.publications for one in shards if one is not None]
            await until(lambda: not any(list(one.under_way()) for one in publications))
            for index in range(4):
                expected = [b"%d" % n for n in range(index, 12, 4)]
                assert await led_values(lambda: everybody(nodes), topic, index) == expected
            assert not (await publish_until(lambda: everybody(nodes), 1, *given)).is_new

    asyncio.run(story())


def test_leader_that_comes_back_does_not_trim_what_was_staged_meanwhile(tmp_path: Path) -> None:
    async def story() -> None:
        async with three(tmp_path) as nodes:
            topic = await nodes[1].engine.topics.create_topic("orders", 1, {})
            shard = nodes[1].engine.topics.shard_of(topic.partitions[0])
            first = await leader(nodes, shard)
            mine = await stage(first, topic, 0, b"mine")
            await hand_over(nodes, shard)
            others = await stage_anywhere(nodes, topic, 0, b"others")
            await hand_over(nodes, shard, first)
            await publish_until(lambda: everybody(nodes), 1, part(topic, mine))
            with contextlib.suppress(NotLeader):  # It may have lost its leadership once more.
                start, end = await trimmed(first, mine.staging)
                assert start <= others.first < others.end <= end
            await publish_until(lambda: everybody(nodes), 2, part(topic, others))
            assert await led_values(lambda: everybody(nodes), topic, 0) == [b"mine", b"others"]

    asyncio.run(story())


def test_staged_with_one_leader_and_published_with_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        async with three(tmp_path) as nodes:
            topic = await nodes[1].engine.topics.create_topic("orders", 1, {})
            shard = nodes[1].engine.topics.shard_of(topic.partitions[0])
            staged = []
            for number in range(4):
                staged.append(await stage_anywhere(nodes, topic, 0, b"%d" % number))
                await hand_over(nodes, shard)
            await publish_until(lambda: everybody(nodes), 1, part(topic, *staged))
            assert await led_values(lambda: everybody(nodes), topic, 0) == [b"0", b"1", b"2", b"3"]

    asyncio.run(story())
