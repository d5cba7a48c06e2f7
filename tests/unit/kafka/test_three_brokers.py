"""Administration where it matters whom one asks: three brokers, each leading a part."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.core.errors import Unavailable
from penstock.core.types import NodeId, ShardId
from penstock.kafka import api_43_elect_leaders
from penstock.kafka.codec import Message
from tests.kafka_broker import Broker
from tests.kafka_cluster import Cluster, open_cluster, stop, until
from tests.unit.kafka.asking import new_topic
from tests.unit.kafka.wire import wire_client

pytestmark = pytest.mark.slow

TOPIC = "spread"


async def ask(
    cluster: Cluster, node: int, key: int, version: int, fields: Mapping[str, object]
) -> Message:
    broker = cluster[NodeId(node)]
    async with wire_client(broker.host, broker.port) as client:
        return await client.call(key, version, fields)


async def create(cluster: Cluster, node: int, **row: int) -> Message:
    fields = {"topics": [{**new_topic(TOPIC, 3), **row}], "timeout": 10_000}
    rows: tuple[Message] = (await ask(cluster, node, 19, 7, fields)).topics
    return rows[0]


def leaders(cluster: Cluster, node: int) -> list[NodeId]:
    """Who leads each partition of the topic, as one broker sees it."""
    engine = cluster[NodeId(node)].node.engine
    return [
        engine.topics.leader(engine.topics.shard_of(one)).node
        for one in engine.topics.topic(TOPIC).partitions
    ]


def test_topics_are_made_through_any_broker_and_known_to_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            refused = await create(cluster, 2, replication_factor=4)
            assert (refused.error_code, "cluster of 3" in refused.error_message) == (38, True)
            made = await create(cluster, 2, replication_factor=1)
            assert (made.error_code, made.replication_factor) == (0, 3)
            await until(lambda: all(_knows(broker) for broker in cluster.values()))
            for node in cluster:
                fields = {"topics": [{"name": TOPIC}]}
                (topic,) = (await ask(cluster, node, 75, 0, fields)).topics
                assert [sorted(row.replica_nodes) for row in topic.partitions] == [[1, 2, 3]] * 3
                assert [sorted(row.isr_nodes) for row in topic.partitions] == [[1, 2, 3]] * 3
                described = await ask(cluster, node, 60, 2, {"endpoint_type": 1})
                assert [row.broker_id for row in described.brokers] == [1, 2, 3]
                assert described.controller_id in (1, 2, 3)
                await _ask_the_wrong_broker(cluster, node)

    asyncio.run(story())


def _knows(broker: Broker) -> bool:
    return broker.node.engine.topics.catalog.topic(TOPIC) is not None


def _holds(broker: Broker) -> bool:
    """All partitions have come to this replica."""
    node = broker.node
    partitions = node.engine.topics.topic(TOPIC).partitions
    running = [node._shards.get(node.engine.topics.shard_of(one)) for one in partitions]
    return all(
        shard is not None and partition in shard.machine.log_starts()
        for partition, shard in zip(partitions, running, strict=True)
    )


async def _ask_the_wrong_broker(cluster: Cluster, node: NodeId) -> None:
    """What only a leader may answer is refused by the others, row by row."""
    led = leaders(cluster, node)
    expected = [0 if leader == node else 6 for leader in led]
    rows = [{"partition_index": index, "offset": 0} for index in range(3)]
    fields = {"topics": [{"name": TOPIC, "partitions": rows}], "timeout": 1_000}
    (trimmed,) = (await ask(cluster, node, 21, 2, fields)).topics
    assert [row.error_code for row in trimmed.partitions] == expected
    epochs = [{"partition": index, "leader_epoch": 1} for index in range(3)]
    fields = {"topics": [{"topic": TOPIC, "partitions": epochs}]}
    (ends,) = (await ask(cluster, node, 23, 4, fields)).topics
    assert [row.error_code for row in ends.partitions] == expected
    engine = cluster[node].node.engine
    groups = [f"group-{number}" for number in range(12)]
    coordinators = [engine.topics.leader(engine.topics.group_shard(group)).node for group in groups]
    described = (await ask(cluster, node, 15, 5, {"groups": groups})).groups
    assert [row.error_code for row in described] == [
        0 if coordinator == node else 16 for coordinator in coordinators
    ]
    deleted = (await ask(cluster, node, 42, 2, {"groups_names": groups})).results
    assert [row.error_code for row in deleted] == [
        69 if coordinator == node else 16 for coordinator in coordinators
    ]
    group = next((one for one, by in zip(groups, coordinators, strict=True) if by != node), None)
    if group is not None:
        answer = await ask(cluster, node, 47, 0, {"group_id": group, "topics": []})
        assert answer.error_code == 16
    other = {"resource_type": 4, "resource_name": str(node % 3 + 1), "configuration_keys": None}
    (row,) = (await ask(cluster, node, 32, 4, {"resources": [other]})).results
    assert (row.error_code, "itself" in row.error_message) == (42, True)


def test_leaders_are_elected_that_should_lead(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            made = await create(cluster, 1)
            assert made.error_code == 0
            engine = cluster[NodeId(1)].node.engine
            await _lead_elsewhere(cluster)
            rows = [{"topic": TOPIC, "partitions": [0, 1, 2]}]
            fields = {"election_type": 0, "topic_partitions": rows, "timeout": 20_000}
            answer = await ask(cluster, 1, 43, 2, fields)
            (result,) = answer.replica_election_results
            codes = [row.error_code for row in result.partition_result]
            assert answer.error_code == 0
            assert set(codes) <= {0, 84}
            assert 0 in codes
            firsts = [
                engine.topics.replicas(engine.topics.shard_of(one))[0]
                for one in engine.topics.topic(TOPIC).partitions
            ]
            assert leaders(cluster, 1) == firsts
            again = await ask(cluster, 1, 43, 2, fields)
            (result,) = again.replica_election_results
            assert {row.error_code for row in result.partition_result} == {84}

    asyncio.run(story())


async def _lead_elsewhere(cluster: Cluster) -> None:
    """Let a shard be led by another broker than the one that should."""
    engine = cluster[NodeId(1)].node.engine
    shard = engine.topics.shard_of(engine.topics.topic(TOPIC).partitions[0])
    first = engine.topics.replicas(shard)[0]
    if engine.topics.leader(shard).node == first:
        heir = next(node for node in engine.topics.replicas(shard) if node != first)
        running = cluster[first].node._shards.get(ShardId(shard))
        assert running is not None
        running.replica.transfer(heir)
        await until(lambda: engine.topics.leader(shard).node not in (first, 0))


def test_a_leader_that_is_busy_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_43_elect_leaders, "AGAIN_SECONDS", 0.2)
    asked: list[NodeId] = []

    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            assert (await create(cluster, 1)).error_code == 0
            await _lead_elsewhere(cluster)
            engine = cluster[NodeId(1)].node.engine
            shard = engine.topics.shard_of(engine.topics.topic(TOPIC).partitions[0])
            leader = engine.topics.leader(shard).node
            await until(lambda: _leads(cluster, leader, shard))
            running = cluster[leader].node._shards.get(shard)
            assert running is not None
            hand_over = running.replica.transfer

            def refuse_then_forget_then_do_it(target: NodeId) -> None:
                asked.append(target)
                if len(asked) == 1:
                    raise Unavailable("not this moment")
                if len(asked) > 2:
                    hand_over(target)

            monkeypatch.setattr(running.replica, "transfer", refuse_then_forget_then_do_it)
            rows = [{"topic": TOPIC, "partitions": [0]}]
            fields = {"election_type": 0, "topic_partitions": rows, "timeout": 20_000}
            (result,) = (await ask(cluster, 1, 43, 2, fields)).replica_election_results
            assert [row.error_code for row in result.partition_result] == [0]
            first = engine.topics.replicas(shard)[0]
            assert engine.topics.leader(shard).node == first
            assert asked[:3] == [first] * 3

    asyncio.run(story())


def _leads(cluster: Cluster, node: NodeId, shard: ShardId) -> bool:
    running = cluster[node].node._shards.get(shard)
    return running is not None and running.replica.leads


def test_without_a_majority_nothing_is_elected_and_nothing_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            assert (await create(cluster, 1)).error_code == 0
            engine = cluster[NodeId(1)].node.engine
            await until(lambda: _holds(cluster[NodeId(1)]))
            await asyncio.gather(*(stop(cluster.pop(NodeId(node))) for node in (2, 3)))
            await until(
                lambda: all(engine.topics.is_read_only(ShardId(shard)) for shard in (1, 2, 3))
            )
            described = await ask(cluster, 1, 60, 2, {"include_fenced_brokers": True})
            assert [row.is_fenced for row in described.brokers] == [False, True, True]
            epochs = [{"partition": index, "leader_epoch": 0} for index in range(3)]
            fields = {"topics": [{"topic": TOPIC, "partitions": epochs}]}
            (ends,) = (await ask(cluster, 1, 23, 4, fields)).topics
            assert {(row.error_code, row.end_offset) for row in ends.partitions} == {
                (0, (1 << 63) - 1)
            }
            for kind, code in ((0, 80), (1, 83)):
                rows = [{"topic": TOPIC, "partitions": [0]}]
                wish = {"election_type": kind, "topic_partitions": rows, "timeout": 100}
                (result,) = (await ask(cluster, 1, 43, 2, wish)).replica_election_results
                assert [row.error_code for row in result.partition_result] == [code]

    asyncio.run(story())
