"""Three brokers for tests, in this process, on real files and real connections."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.core.limits import MIB
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.groups.requests import GroupSettings
from penstock.kafka import KafkaListener
from penstock.storage import LogSettings
from tests.cluster.addresses import free_block
from tests.cluster_key import key_file
from tests.kafka_broker import Broker

WAIT_SECONDS_MAX = 60.0

Cluster = dict[NodeId, Broker]


@asynccontextmanager
async def open_cluster(data: Path, *, shards: int = 3) -> AsyncIterator[Cluster]:
    """Three brokers that know each other and the leaders of all shards.

    A test that stops one takes it out of the dictionary."""
    block = free_block()
    members = {NodeId(number): f"{block.host(number)}:{block.port(0)}" for number in (1, 2, 3)}
    brokers: Cluster = {}
    nodes = await asyncio.gather(*(_open_node(data, node, members, shards) for node in members))
    try:
        for number, node in zip(members, nodes, strict=True):
            listener = KafkaListener(node.engine, cluster=node.cluster)
            host, port = await listener.start(block.host(number), 0)
            brokers[number] = Broker(node, listener, host, port)
            await node.register(kafka=f"{host}:{port}", http="")
        await until(lambda: all(_is_settled(node) for node in nodes))
        yield brokers
    finally:
        # All at once: one that is left alone would wait for a majority.
        await asyncio.gather(*map(stop, brokers.values()))


async def stop(broker: Broker) -> None:
    """Close a broker's port and its node."""
    await broker.listener.close(grace_seconds=1.0)
    await broker.node.close()


async def _open_node(data: Path, node: NodeId, members: dict[NodeId, str], shards: int) -> Node:
    host, _, port = members[node].partition(":")
    return await Node.open(
        NodeSettings(
            data=str(data / f"node-{node}"),
            node_id=node,
            cluster=members,
            peer_host=host,
            peer_port=int(port),
            cluster_key_file=key_file(data),
            shards=shards,
            log=LogSettings(segment_bytes=16 * MIB, ballast_bytes=0),
            groups=GroupSettings(initial_delay_ms=0),
        )
    )


def _is_settled(node: Node) -> bool:
    engine = node.engine
    records = engine.topics.catalog.nodes
    return (
        len(engine.topics.alive()) == 3
        and len(records) == 3
        and all(record.kafka for record in records.values())
        and all(
            engine.topics.leader(ShardId(shard)).node != NO_NODE for shard in engine.topics.shards()
        )
    )


async def until(condition: Callable[[], bool]) -> None:
    """Turn the loop until something has come about by itself."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)
