"""Watches of three nodes: all see the same, and a dead leader is not the end of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.types import CATALOG_SHARD, NO_NODE, ShardId
from penstock.engine.cluster.node import Node
from penstock.watch.alert import AlertState
from penstock.watch.readings import Readings
from penstock.watch.settings import AlertSettings
from penstock.watch.watch import ALERTS_NOTICE, Watch
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes, until
from tests.unit.watch.looped import on_a_loop
from tests.unit.watch.made import ANY_DISK

pytestmark = pytest.mark.slow

AT_ONCE = AlertSettings(hold_ms=0, clear_ms=0, levels=ANY_DISK)


@asynccontextmanager
async def three(path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(path, (1, 2, 3))
    await nodes.start()
    try:
        yield nodes
    finally:
        await nodes.stop()


async def looked(watch: Watch, wanted: str) -> Readings:
    """Look until the health sentence is as wanted."""
    while True:
        readings = await watch.look()
        if readings.health == wanted:
            return readings


async def alerted(watch: Watch) -> None:
    """Look until an alert fires: a node that is slow to answer leaves the counts incomplete."""
    while not watch.alerts.firing():
        await watch.look()


async def purged(node: Node, topic: Topic) -> None:
    """Purge until it works: leaders may still be being elected."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(PenstockError):
                await node.delivery.purge(topic)
                return
            await asyncio.sleep(0)


@on_a_loop
async def test_every_node_sees_the_same(tmp_path: Path) -> None:
    async with three(tmp_path) as nodes:
        topic = await nodes[1].engine.topics.create_topic("jobs", 4, {"queue.lease.ms": "30000"})
        await nodes[1].delivery.open(topic, "queue")
        await nodes[1].delivery.send(
            topic, [NewMessage(b"x", str(one).encode()) for one in range(9)]
        )
        await nodes[2].delivery.receive(topic, messages_max=2, receiver="w")
        watches = [Watch(nodes[number], AT_ONCE) for number in (1, 2, 3)]
        for watch in watches:
            readings = await looked(watch, "3 of 3 nodes, all leaders settled")
            (queue,) = readings.queues
            assert (queue.ready, queue.leased, queue.sent) == (7, 2, 9)
            assert queue.complete
            assert queue.partitions == 4
            assert queue.workers == ("w",)
            assert [node.alive for node in readings.nodes] == [True] * 3
            assert sum(node.leads for node in readings.nodes) == len(readings.shards) == 3
            assert all(node.disk_bytes for node in readings.nodes)
            assert readings.healthy
            assert all(len(shard.followers) == 2 for shard in readings.shards)


@on_a_loop
async def test_when_the_leader_dies_what_was_wrong_stays_wrong(tmp_path: Path) -> None:
    async with three(tmp_path) as nodes:
        topic = await nodes[1].engine.topics.create_topic("jobs", 1, {"alert.depth": "1,off,off"})
        await nodes[1].delivery.open(topic, "queue")
        await nodes[1].delivery.send(topic, [NewMessage(b"x")] * 3)
        shard = nodes[1].engine.topics.shard_of(topic.partitions[0])
        leader = nodes[1].engine.topics.leader(shard).node
        other = next(number for number in (1, 2, 3) if number != leader)
        watch = Watch(nodes[other], AT_ONCE)
        await alerted(watch)
        assert [one.rule for one in watch.alerts.firing()] == ["depth"]
        await nodes.stop(leader)
        changes = []
        while True:
            readings = await watch.look()
            changes += [one for one in watch.alerts.active() if one.state is not AlertState.FIRING]
            assert watch.alerts.resolved() == ()
            if readings.health == "2 of 3 nodes, all leaders settled":
                break
        assert not readings.healthy
        assert leader in readings.silent_nodes
        assert changes == []
        assert [one.rule for one in watch.alerts.firing()] == ["depth"]
        assert any(event.kind == "link" for event in nodes[other].events.here())


@on_a_loop
async def test_only_the_leader_of_the_catalog_speaks(tmp_path: Path) -> None:
    async with three(tmp_path) as nodes:
        topic = await nodes[1].engine.topics.create_topic("jobs", 1, {"alert.depth": "1,off,off"})
        await nodes[1].delivery.open(topic, "queue")
        await nodes[1].delivery.send(topic, [NewMessage(b"x")] * 3)
        catalog = nodes[1].engine.topics.leader(CATALOG_SHARD).node
        for number in (1, 2, 3):
            watch = Watch(nodes[number], AT_ONCE)
            await alerted(watch)
            said = [event for event in nodes[number].events.here() if event.kind == "alert"]
            assert bool(said) is (number == catalog)


@on_a_loop
async def test_who_takes_over_tells_what_the_former_leader_may_not_have_told(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as nodes:
        topic = await nodes[1].engine.topics.create_topic("jobs", 1, {"alert.depth": "1,off,off"})
        await nodes[1].delivery.open(topic, "queue")
        await nodes[1].delivery.send(topic, [NewMessage(b"x")] * 3)
        former = nodes[1].engine.topics.leader(CATALOG_SHARD).node
        watches = {
            number: Watch(nodes[number], AT_ONCE) for number in (1, 2, 3) if number != former
        }
        for watch in watches.values():
            await looked(watch, "3 of 3 nodes, all leaders settled")
        await nodes.stop(former)
        left = [nodes[number] for number in watches]
        await until(
            lambda: all(
                node.engine.topics.leader(ShardId(0)).node not in (NO_NODE, former) for node in left
            )
        )
        heir = left[0].engine.topics.leader(CATALOG_SHARD).node
        await looked(watches[heir], "2 of 3 nodes, all leaders settled")
        (line,) = [event.line for event in nodes[heir].events.here() if event.kind == "alert"]
        assert line.startswith("attention: 3 messages of jobs")


@on_a_loop
async def test_who_takes_over_tells_the_end_of_what_it_has_not_seen_itself(tmp_path: Path) -> None:
    """The successor takes its first survey when the alert is over."""
    async with three(tmp_path) as nodes:
        topic = await nodes[1].engine.topics.create_topic("jobs", 1, {"alert.depth": "1,off,off"})
        await nodes[1].delivery.open(topic, "queue")
        await nodes[1].delivery.send(topic, [NewMessage(b"x")] * 3)
        former = nodes[1].engine.topics.leader(CATALOG_SHARD).node
        watches = {number: Watch(nodes[number], AT_ONCE) for number in (1, 2, 3)}
        await looked(watches.pop(former), "3 of 3 nodes, all leaders settled")
        await until(lambda: all(watch.alerts.firing() for watch in watches.values()))
        await nodes.stop(former)
        left = [nodes[number] for number in watches]
        await until(
            lambda: all(
                node.engine.topics.leader(ShardId(0)).node not in (NO_NODE, former) for node in left
            )
        )
        heir = left[0].engine.topics.leader(CATALOG_SHARD).node
        await purged(nodes[heir], topic)
        for node in left:
            await node.sampler.here(fresh=True)  # Older samples show what was purged.
        await looked(watches[heir], "2 of 3 nodes, all leaders settled")
        lines = [event.line for event in nodes[heir].events.here() if event.kind == "alert"]
        key = "[depth:queue/jobs/queue]"
        assert lines[-1].startswith("resolved: ")
        assert all(line.endswith(key) for line in lines)


@on_a_loop
async def test_a_notice_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2, 3))
    await nodes.start()
    watch = Watch(nodes[1], AT_ONCE)
    nodes[2].notify_all(ALERTS_NOTICE, b"?")
    await until(lambda: any("a notice that cannot be read" in line for line in nodes.lines))
    assert watch.alerts.active() == ()
    await nodes.stop()
