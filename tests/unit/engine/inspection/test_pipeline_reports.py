"""The last report of every pipeline: any node tells it, whether it holds the topic or not."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest

from penstock.core.errors import NotLeader
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.pipeline_report import CONFIGS, TOPIC, PipelineReport
from penstock.engine.cluster.node import Node
from penstock.engine.topics.topics import Acks
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes


def report(name: str, state: str) -> NewMessage:
    said = PipelineReport(
        pipeline=name, state=state, host="here", started_ms=0, reported_ms=1 << 52, stages=()
    )
    return NewMessage(msgspec.json.encode(said), name.encode())


async def append(nodes: Nodes, *messages: NewMessage) -> None:
    """Through whichever node leads, as soon as one does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for node in nodes.running.values():
                topic = node.engine.topics.catalog.topic(TOPIC)
                if topic is None:
                    continue
                batch = build_messages(messages, 1)
                with contextlib.suppress(NotLeader):
                    await node.engine.topics.produce(topic, 0, batch, acks=Acks.ALL)
                    return
            await asyncio.sleep(0)  # The nodes have their turn.


async def told(node: Node, wanted: dict[str, str]) -> None:
    """Wait until a node tells just this; a follower is a heartbeat late."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await node.pipeline_reports.reports()
            if {one.pipeline: one.state for one in found} == wanted:
                return
            await asyncio.sleep(0)  # The nodes have their turn.


@pytest.mark.slow
def test_every_node_tells(tmp_path: Path) -> None:
    asyncio.run(ask_every_node(tmp_path))


async def ask_every_node(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, range(1, 6), shards=2)
    await nodes.start()
    try:
        assert await nodes[1].pipeline_reports.reports() == []
        topic = await nodes[1].engine.topics.create_topic(TOPIC, 1, CONFIGS)
        shard = nodes[1].engine.topics.shard_of(topic.partitions[0])
        holders = nodes[1].engine.topics.replicas(shard)
        assert len(holders) < 5, "some node asks another"
        await append(nodes, report("a", "running"), report("b", "running"))
        for node in nodes.running.values():
            await told(node, {"a": "running", "b": "running"})
        junk = NewMessage(b"no report", b"c")
        await append(nodes, report("a", "done"), junk, NewMessage(None, b"b"))
        for node in nodes.running.values():
            await told(node, {"a": "done"})
    finally:
        await nodes.stop()
