"""Queues whose messages die, on real nodes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.core.message import Message
from penstock.core.topic import Topic
from penstock.core.verdicts import Verdict
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import QueueCounts
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes

DEAD_LETTERS = {"queue.dead.letter.topic": "orders_dlq", "queue.deliveries.max": "1"}
"""The configs of a queue that tries everything once."""


@asynccontextmanager
async def one_node(path: Path) -> AsyncIterator[Nodes]:
    """A cluster of one."""
    nodes = Nodes(path, [1])
    await nodes.start()
    try:
        yield nodes
    finally:
        await nodes.stop()


async def kill(node: Node, topic: Topic, *, count: int, reason: str = "") -> None:
    """Let so many messages fail for good: for a reason, or for want of tries."""
    verdict = Verdict.REJECT if reason else Verdict.RELEASE
    while count:
        leased = await node.delivery.receive(topic, messages_max=count, wait_ms=5_000)
        await node.delivery.settle(topic, [(one.receipt, verdict, 0, reason) for one in leased])
        count -= len(leased)


async def counts_until(
    node: Node, topic: Topic, holds: Callable[[QueueCounts], bool]
) -> QueueCounts:
    """Wait until a queue looks so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            counts = await node.delivery.counts(topic)
            if holds(counts):
                return counts
            await asyncio.sleep(0)


async def letters(node: Node, name: str = "orders_dlq") -> list[Message]:
    """What is in a queue, as its workers see it."""
    topic = node.engine.topics.topic(name)
    found: list[Message] = []
    for index in range(len(topic.partitions)):
        page = await node.delivery.browse(topic, index=index, messages_max=1_000)
        found += [one.message for one in page]
    return found


async def values(node: Node, name: str = "orders_dlq") -> list[bytes]:
    """Their bodies."""
    return [letter.value or b"" for letter in await letters(node, name)]
