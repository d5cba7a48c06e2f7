"""What operators ordered: any node tells it, whether it holds the topic or not."""

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.core.internal_topics import AUDIT_TOPIC
from penstock.core.limits import AUDIT_CHARACTERS_MAX
from penstock.core.message import NewMessage
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.audit import AuditLine
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes


async def told(node: Node, wanted: list[str], limit: int = 100) -> list[AuditLine]:
    """Wait until a node tells of just these targets; a follower is a heartbeat late."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await node.audit.recent(limit)
            if [one.target for one in found] == wanted:
                return found
            await asyncio.sleep(0)  # The nodes have their turn.


@pytest.mark.slow
def test_every_node_tells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.audit")
    asyncio.run(ask_every_node(tmp_path))
    assert "anna: purge queue jobs-1 all (done)" in caplog.messages


async def ask_every_node(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, range(1, 6), shards=2)
    await nodes.start()
    try:
        assert await nodes[1].audit.recent(10) == []
        nodes[1].audit.note("anna", "purge queue", "jobs-1", "all")
        await told(nodes[1], ["jobs-1"])
        nodes[4].audit.note("berta", "delete queue", "jobs-2", outcome="refused: 404")
        for node in nodes.running.values():
            found = await told(node, ["jobs-2", "jobs-1"])
            assert [one.node for one in found] == [4, 1]
            assert [one.outcome for one in found] == ["refused: 404", "done"]
            await told(node, ["jobs-2"], limit=1)
    finally:
        await nodes.stop()


@pytest.mark.slow
def test_what_is_no_record_is_passed_over_and_nothing_grows(tmp_path: Path) -> None:
    async def scenario() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        try:
            node = nodes[1]
            node.audit.note("a" * 10_000, "b", "first")
            (line,) = await told(node, ["first"])
            assert len(line.who) == AUDIT_CHARACTERS_MAX
            topic = node.engine.topics.topic(AUDIT_TOPIC)
            await node.delivery.send(topic, [NewMessage(b"[1, 2"), NewMessage(None)])
            node.audit.note("a", "b", "second")
            await told(node, ["second", "first"])
        finally:
            await nodes.stop()

    asyncio.run(scenario())
