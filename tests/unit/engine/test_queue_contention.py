"""Receivers that compete: a message that comes while they look at others finds one who waits."""

import asyncio
from random import Random

import pytest

from penstock.client.connection.urls import Memory
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.verdicts import Verdict
from penstock.embedded.channel import EmbeddedChannel
from penstock.engine.cluster.node import Node
from penstock.native.service import Service
from penstock.wire.requests import CreateTopic, ReceiveRequest, ReceiveResponse

pytestmark = pytest.mark.slow

ROUNDS = 150
RECEIVERS = 3
WAIT_MS = 600_000
PATIENCE_SECONDS = 60.0
"""Whoever has not got a message by then was not called."""


async def receive_one(node: Node, topic: Topic) -> int:
    found = await node.delivery.receive(topic, messages_max=1, wait_ms=WAIT_MS)
    await node.delivery.settle(topic, [(one.receipt, Verdict.ACK, -1, "") for one in found])
    return len(found)


async def take_one(node: Node, topic: Topic) -> int:
    request = ReceiveRequest(topic.topic_id, "queue", 1, 1_000, wait_ms=WAIT_MS)
    answer, _ = await Service(node).answer(request, b"")
    assert isinstance(answer, ReceiveResponse)
    return sum(end - first for part in answer.parts for first, end, _, _ in part.runs)


async def send_later(node: Node, topic: Topic, steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)
    await node.delivery.send(topic, [NewMessage(b"x")])


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("receive", [receive_one, take_one], ids=lambda one: one.__name__)
def test_everybody_gets_one_of_as_many_messages(receive: object, partitions: int) -> None:
    assert callable(receive)

    async def scene() -> None:
        random = Random(3)
        channel = await EmbeddedChannel.open(Memory(""))
        node = channel.engine.node
        await channel.ask(None, CreateTopic("work", partitions, {}), timeout=PATIENCE_SECONDS)
        topic = node.engine.topics.topic("work")
        for number in range(ROUNDS):
            receiving = [asyncio.create_task(receive(node, topic)) for _ in range(RECEIVERS)]
            for _ in range(random.randrange(12)):
                await asyncio.sleep(0)
            sends = (send_later(node, topic, random.randrange(40)) for _ in range(RECEIVERS))
            await asyncio.gather(*sends)
            _, waiting = await asyncio.wait(receiving, timeout=PATIENCE_SECONDS)
            assert not waiting, f"round {number}: {len(waiting)} wait beside a message"
            assert [task.result() for task in receiving] == [1] * RECEIVERS
        await channel.close()

    asyncio.run(scene())
