"""Whoever stops waiting for messages takes none with him, however the two meet on the way.

A lease is ten minutes here: a message that was leased for nobody would be missing, and one that
came back by another way than uncounted would say so.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest

import penstock
from penstock import Client, Queue
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROUNDS = 300
WAITERS = 3
PATIENCE_SECONDS = 60.0


async def cancel_in_the_middle(queue: Queue[str], random: Random, number: int) -> list[str]:
    """Let some wait, send, and let them stop waiting at some moment; what they got."""
    waiting = [asyncio.create_task(queue.receive(2, wait=30)) for _ in range(WAITERS)]
    await asyncio.sleep(random.random() / 1_000)
    sending = asyncio.create_task(queue.send(f"{number}"))
    await asyncio.sleep(random.random() / 250)
    for task in waiting:
        task.cancel()
    got: list[str] = []
    for task in waiting:
        try:
            messages = await task
        except asyncio.CancelledError:
            continue
        got += [message.body for message in messages]
        assert await queue.ack(messages) == len(messages)
        assert {message.deliveries for message in messages} <= {1}
    await sending
    return got


async def scene(client: Client) -> None:
    random = Random(7)
    queue = client.queue("orders", codec=str)
    await queue.create(partitions=6, lease=600)
    got: list[str] = []
    for number in range(ROUNDS):
        got += await cancel_in_the_middle(queue, random, number)
    early = len(got)
    while len(got) < ROUNDS:
        messages = await queue.receive(100, wait=10)
        assert messages, f"{ROUNDS - len(got)} messages are missing: {await queue.stats()}"
        assert {message.deliveries for message in messages} == {1}
        got += [message.body for message in messages]
    assert sorted(got) == sorted(f"{number}" for number in range(ROUNDS))
    print(f"{early} of {ROUNDS} were received before their receivers stopped waiting")


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_receive_that_is_cancelled_takes_nothing_with_it(tmp_path: Path, nodes: int) -> None:
    async def whole(cluster: Cluster) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with penstock.connect(f"penstock://{cluster.bootstrap}") as client:
                await scene(client)

    with Cluster(tmp_path, nodes=nodes) as cluster:
        cluster.start()
        asyncio.run(whole(cluster))
