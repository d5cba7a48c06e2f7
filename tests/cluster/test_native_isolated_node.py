"""A node loses the network to its peers, and a native client still reaches it.

The node answers, but knows no leader any more. The client has to ask another node; otherwise it
waits for the network although a majority serves.
"""

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock import ClientSettings
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PARTITIONS = 6
TIMEOUT_SECONDS = 20.0


async def scenario(cluster: Cluster, isolated: int) -> None:
    # The node is named first, so that the client asks it about topics.
    others = [node.kafka for number, node in cluster.nodes.items() if number != isolated]
    url = f"penstock://{','.join([cluster.nodes[isolated].kafka, *others])}"
    settings = ClientSettings(timeout=TIMEOUT_SECONDS)
    async with penstock.connect(url, settings=settings) as client:
        await client.create_topic("log", partitions=PARTITIONS)
        for index in range(PARTITIONS):
            await client.send("log", f"before {index}", partition=index)
        cluster.network.isolate(isolated)
        for index in range(PARTITIONS):
            await client.send("log", f"after {index}", partition=index)
        bodies = [one.body async for one in client.read("log", codec=str)]
    assert sorted(bodies) == sorted(
        f"{when} {index}" for when in ("before", "after") for index in range(PARTITIONS)
    )


@pytest.mark.parametrize("isolated", [1, 2, 3])
def test_a_client_leaves_a_node_that_knows_no_leader(tmp_path: Path, isolated: int) -> None:
    with Cluster(tmp_path, nodes=3, shards=3) as cluster:
        cluster.start()
        asyncio.run(scenario(cluster, isolated))
        assert cluster.complaints() == []
