"""A node without peers: on a disk that is handed in, without sockets, hurried by its owner."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from penstock.core.entries import Membership
from penstock.core.errors import DirectoryRefused, InvalidRequest
from penstock.core.message import NewMessage
from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.movable_clock import ClockMover
from penstock.engine.cluster.node import NOWHERE, Node
from penstock.engine.cluster.node_checks import check_cluster
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.engine import Engine
from penstock.machines.catalog_commands import AddNode
from penstock.machines.queues import NEWEST_QUEUES_VERSION
from penstock.storage import LogSettings
from penstock.storage.memory_disk import MemoryDisk
from penstock.testing.clock import ManualClock
from tests.unit.engine.nodes import until

SETTINGS = NodeSettings(
    data="data",
    peer_port=None,
    shards=1,
    log=LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20),
)


def play(
    story: Callable[[Node], Awaitable[None]],
    disk: MemoryDisk | None = None,
    clock: ManualClock | None = None,
) -> None:
    async def run() -> None:
        node = await Node.open(SETTINGS, disk=disk or MemoryDisk(), clock=clock)
        try:
            await until(lambda: _hurried(node).health().ready)
            await story(node)
        finally:
            await node.close()

    asyncio.run(run())


def _hurried(node: Node) -> Node:
    node.look_after_now()
    return node


def test_it_keeps_everything_on_the_disk_it_was_given() -> None:
    disk = MemoryDisk()

    async def first(node: Node) -> None:
        assert node.peer_address == NOWHERE
        topic = await node.engine.topics.create_topic("work", 1, {})
        await node.delivery.send(topic, [NewMessage(b"kept")])

    async def second(node: Node) -> None:
        topic = node.engine.topics.topic("work")
        await node.delivery.open(topic, "queue", start=-2)
        (delivery,) = await node.delivery.receive(topic)
        assert delivery.message.value == b"kept"

    play(first, disk)
    assert disk.list("data") == ["lock", "node", "shard-0", "shard-1"]
    play(second, disk)


def test_it_is_ready_when_its_queues_have_the_rules_of_this_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(node: Node) -> None:
        shard = node.shards.get(ShardId(1))
        assert shard is not None
        assert shard.machine.queues.version == NEWEST_QUEUES_VERSION
        monkeypatch.setattr(shard.machine.queues, "_version", NEWEST_QUEUES_VERSION - 1)
        assert node.health().problems == (
            "the queues of shard 1 change to the rules of this version",
        )
        await until(lambda: _hurried(node).health().ready)

    play(story)


def test_it_can_be_abandoned_and_opened_again() -> None:
    disk = MemoryDisk()

    async def forgetful() -> Node:
        node = await Node.open(SETTINGS, disk=disk)
        await until(lambda: _hurried(node).health().ready)
        await node.engine.topics.create_topic("work", 1, {})
        return node

    asyncio.run(forgetful()).abandon()

    async def careful(node: Node) -> None:
        assert node.engine.topics.topic("work").name == "work"

    play(careful, disk)


def test_others_are_refused() -> None:
    lonely, both = [NodeId(1)], [NodeId(1), NodeId(2)]
    check_cluster(NodeId(1), lonely, None)
    check_cluster(NodeId(1), both, 9192)
    with pytest.raises(InvalidRequest, match="is alone, and the cluster lists others"):
        check_cluster(NodeId(1), both, None)
    with pytest.raises(DirectoryRefused, match="this is node 3, and the cluster lists nodes 1 2"):
        check_cluster(NodeId(3), both, 9192)


def test_a_directory_that_has_come_to_several_nodes_is_refused() -> None:
    async def story(node: Node) -> None:
        await node.engine.topics.change_catalog(AddNode(node=NodeId(2), peer="127.0.0.1:9"))
        node.look_after_now()
        assert "belongs to a cluster of several nodes" in str(await node.failed)

    play(story)


def test_shards_that_left_only_a_directory_are_not_here() -> None:
    disk = MemoryDisk()

    async def story(node: Node) -> None:
        disk.make_directory("data/shard-7")
        assert node.shards.on_disk() == [0, 1]
        await node.shards.open(ShardId(7), Membership())
        assert node.shards.on_disk() == [0, 1, 7]
        await node.shards.drop(ShardId(7))
        assert node.shards.on_disk() == [0, 1]

    play(story, disk)


def test_whoever_moves_the_clock_elsewhere_waits_for_the_node() -> None:
    clock = ManualClock()

    async def story(node: Node) -> None:
        time = ClockMover(node, clock)
        engine: Engine = node.engine
        topic = await engine.topics.create_topic("work", 1, {"queue.delay.ms": "60000"})
        await node.delivery.send(topic, [NewMessage(b"later")])
        assert (await node.delivery.counts(topic)).delayed == 1
        found: list[int] = []

        async def look() -> int:
            return (await node.delivery.counts(topic)).ready

        def move() -> None:
            clock.advance(60_000)
            found.append(asyncio.run_coroutine_threadsafe(look(), loop).result())

        loop = asyncio.get_running_loop()
        mover = threading.Thread(target=move)
        mover.start()
        await asyncio.to_thread(mover.join)
        assert found == [1]
        await time.close()
        clock.advance(1)
        assert not time.behind

    play(story, clock=clock)
