"""A worker waits at the nodes that lead a queue; then one of them hands a partition over.

It still leads others, so nothing fails: the worker has to be told, or the partition's messages wait
for ever.
"""

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock import Client
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

QUEUE = "parcels"
PARTITIONS = 4
WAIT_SECONDS = 60.0
WITHIN_SECONDS = 8.0
"""Less than a request of the client waits: who is told only after it is told too late."""


async def lead(cluster: Cluster, shard: int, node: int) -> None:
    """Let a node lead a shard."""
    while cluster.status(1)["shards"][shard]["leader"] != node:
        await asyncio.to_thread(
            cluster.administer, 1, "transfer", str(shard), str(node)
        )  # fmt: skip


async def receive(client: Client, count: int) -> list[str]:
    """What a worker gets, who waits long."""
    queue = client.queue(QUEUE, codec=str)
    found: list[str] = []
    while len(found) < count:
        messages = await queue.receive(10, wait=WAIT_SECONDS)
        found += [message.body for message in messages]
        await queue.ack(messages)
    return sorted(found)


async def send(client: Client, words: str) -> list[str]:
    """One message for each partition."""
    topic = client.topic(QUEUE, codec=str)
    bodies = [f"{words} {index}" for index in range(PARTITIONS)]
    for index, body in enumerate(bodies):
        await topic.send(body, partition=index)
    return bodies


async def scenario(cluster: Cluster) -> None:
    first, second = cluster.status(1)["shards"][1:3]
    home, other = first["placed"][0], second["placed"][0]
    assert home != other, "the shards are led by different nodes, as far as that is up to us"
    url = f"penstock://{cluster.bootstrap}"
    # Two clients: whoever sends to a partition that has moved is told so.
    async with penstock.connect(url) as sender, penstock.connect(url) as worker:
        await sender.create_queue(QUEUE, partitions=PARTITIONS)
        await lead(cluster, 1, other)
        async with asyncio.timeout(WAIT_SECONDS):
            assert await send(sender, "before") == await receive(worker, PARTITIONS)
        waiting = asyncio.create_task(receive(worker, PARTITIONS))
        await lead(cluster, 1, home)
        bodies = await send(sender, "after")
        async with asyncio.timeout(WITHIN_SECONDS):
            assert await waiting == bodies


def test_a_partition_that_moves_to_another_node_is_followed(tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=3) as cluster:
        cluster.start()
        asyncio.run(scenario(cluster))
        assert cluster.complaints() == []
