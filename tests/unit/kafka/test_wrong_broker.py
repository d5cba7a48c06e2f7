"""Reading and writing at a broker that does not lead: the client is told where to go."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.types import NodeId
from penstock.kafka.codec import Message
from tests.batches import build_batch
from tests.kafka_cluster import Cluster, open_cluster, until
from tests.unit.kafka.asking import new_topic
from tests.unit.kafka.wire import wire_client

pytestmark = pytest.mark.slow

TOPIC = "spread"
PARTITIONS = range(4)


async def ask(
    cluster: Cluster, node: int, key: int, version: int, fields: dict[str, object]
) -> Message:
    broker = cluster[NodeId(node)]
    async with wire_client(broker.host, broker.port) as client:
        return await client.call(key, version, fields)


def produce_fields() -> dict[str, object]:
    rows = [{"index": index, "records": bytes(build_batch(2))} for index in PARTITIONS]
    topics = [{"name": TOPIC, "partition_data": rows}]
    return {"acks": -1, "timeout": 10_000, "topic_data": topics}


def fetch_fields(topic_id: bytes, **more: int) -> dict[str, object]:
    rows = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **more}
        for index in PARTITIONS
    ]
    topics = [{"topic_id": topic_id, "partitions": rows}]
    return {"max_wait": 60_000, "min_bytes": 1 << 20, "topics": topics}


def check_hints(cluster: Cluster, rows: list[Message], led: list[int], node: int) -> set[int]:
    """Whoever is in the wrong place is told the right one; the brokers that were named."""
    named = set()
    for row, leader in zip(rows, led, strict=True):
        if leader == node:
            assert row.error_code == 0
            assert row.current_leader.leader_id == -1
        else:
            assert row.error_code == 6
            assert row.current_leader.leader_id == leader
            assert row.current_leader.leader_epoch >= 1
            named.add(leader)
    return named


def test_the_right_broker_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            fields = {"topics": [new_topic(TOPIC, len(PARTITIONS))], "timeout": 10_000}
            (made,) = (await ask(cluster, 1, 19, 7, fields)).topics
            await until(
                lambda: all(
                    broker.node.engine.topics.catalog.topic(TOPIC) is not None
                    for broker in cluster.values()
                )
            )
            for node in cluster:
                engine = cluster[node].node.engine
                topic = engine.topics.topic(TOPIC)
                led = [
                    int(engine.topics.leader(engine.topics.shard_of(one)).node)
                    for one in topic.partitions
                ]
                produced = await ask(cluster, node, 0, 10, produce_fields())
                rows = produced.responses[0].partition_responses
                named = check_hints(cluster, rows, led, node)
                check_endpoints(cluster, produced, named)
                if named:
                    fetched = await ask(cluster, node, 1, 16, fetch_fields(made.topic_id))
                    named = check_hints(cluster, fetched.responses[0].partitions, led, node)
                    check_endpoints(cluster, fetched, named)
                await check_coordinators(cluster, node)

    asyncio.run(story())


def check_endpoints(cluster: Cluster, answer: Message, named: set[int]) -> None:
    places = {row.node_id: (row.host, row.port) for row in answer.node_endpoints}
    assert places == {
        node: (cluster[NodeId(node)].host, cluster[NodeId(node)].port) for node in named
    }


async def check_coordinators(cluster: Cluster, node: int) -> None:
    """Every broker knows who looks after a group, and only that one does."""
    keys = [f"group-{number}" for number in range(8)]
    answer = await ask(cluster, node, 10, 4, {"key_type": 0, "coordinator_keys": keys})
    for row in answer.coordinators:
        assert row.error_code == 0
        beat = {"group_id": row.key, "generation_id": 1, "member_id": "m"}
        for other in cluster:
            code = (await ask(cluster, other, 12, 4, beat)).error_code
            assert code == (25 if other == row.node_id else 16)
        assert row.port == cluster[NodeId(row.node_id)].port
