"""Share groups where it matters whom one asks: three brokers, each leading a part."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.core.types import NodeId
from penstock.kafka.codec import Message
from tests.batches import build_batch
from tests.kafka_cluster import WAIT_SECONDS_MAX, Cluster, open_cluster, stop, until
from tests.unit.kafka.asking import new_topic
from tests.unit.kafka.share_member import FETCH, HEARTBEAT, acquired, rows_of, share_fetch
from tests.unit.kafka.wire import wire_client

pytestmark = pytest.mark.slow

TOPIC, GROUP = "spread", "workers"
PARTITIONS = range(4)
UNKNOWN_MEMBER_ID, NOT_COORDINATOR, NOT_LEADER = 25, 16, 6


async def ask(
    cluster: Cluster, node: int, key: int, version: int, fields: Mapping[str, object]
) -> Message:
    broker = cluster[NodeId(node)]
    async with wire_client(broker.host, broker.port) as client:
        return await client.call(key, version, fields)


def led(cluster: Cluster, node: int) -> list[int]:
    """Who leads each partition, as one broker sees it."""
    engine = cluster[NodeId(node)].node.engine
    topic = engine.topics.topic(TOPIC)
    return [int(engine.topics.leader(engine.topics.shard_of(one)).node) for one in topic.partitions]


def coordinator(cluster: Cluster, node: int) -> int:
    engine = cluster[NodeId(node)].node.engine
    return int(engine.topics.leader(engine.topics.group_shard(GROUP)).node)


async def prepare(cluster: Cluster) -> bytes:
    """A topic with three messages in each partition, and a group that begins at its start."""
    fields = {"topics": [new_topic(TOPIC, len(PARTITIONS))], "timeout": 10_000}
    (made,) = (await ask(cluster, 1, 19, 7, fields)).topics
    reset = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": 32, "resource_name": GROUP, "configs": [reset]}
    (row,) = (await ask(cluster, 2, 44, 1, {"resources": [resource]})).responses
    assert (made.error_code, row.error_code) == (0, 0)
    engines = [broker.node.engine for broker in cluster.values()]
    await until(lambda: all(engine.topics.catalog.topic(TOPIC) is not None for engine in engines))
    await until(lambda: all(engine.groups.group_configs(GROUP) for engine in engines))
    for index, leader in enumerate(led(cluster, 1)):
        rows = [{"index": index, "records": bytes(build_batch(3))}]
        topics = [{"name": TOPIC, "partition_data": rows}]
        answer = await ask(
            cluster, leader, 0, 9, {"acks": -1, "timeout": 10_000, "topic_data": topics}
        )
        assert answer.responses[0].partition_responses[0].error_code == 0
    return bytes(made.topic_id)


def beat(epoch: int) -> dict[str, object]:
    return {
        "group_id": GROUP, "member_id": "m", "member_epoch": epoch,
        "subscribed_topic_names": [TOPIC] if epoch == 0 else None,
    }  # fmt: skip


def test_partitions_are_read_where_they_are_led(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            topic_id = await prepare(cluster)
            places = [(topic_id, index) for index in PARTITIONS]
            found: list[int] = []
            for node in cluster:
                fields = share_fetch(GROUP, "m", 0, places, wait_ms=10_000)
                answer = await ask(cluster, node, FETCH, 1, fields)
                rows = rows_of(answer)
                named = set()
                for (_, index), row in rows.items():
                    leader = led(cluster, node)[index]
                    assert row.current_leader.leader_id == leader
                    if leader == node:
                        assert (row.error_code, acquired(row)) == (0, [(0, 2, 1)])
                        found.append(index)
                    else:
                        assert row.error_code == NOT_LEADER
                        named.add(leader)
                told = {row.node_id: (row.host, row.port) for row in answer.node_endpoints}
                assert told == {
                    one: (cluster[NodeId(one)].host, cluster[NodeId(one)].port) for one in named
                }
            assert sorted(found) == list(PARTITIONS)

    asyncio.run(story())


def test_groups_are_looked_after_by_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            topic_id = await prepare(cluster)
            chosen = coordinator(cluster, 1)
            for node in sorted(cluster, key=lambda node: node == chosen):
                code = (await ask(cluster, node, HEARTBEAT, 1, beat(0))).error_code
                assert code == (0 if node == chosen else NOT_COORDINATOR)
            for number, leader in enumerate(dict.fromkeys(led(cluster, 1))):
                places = [(topic_id, index) for index in PARTITIONS]
                await ask(cluster, leader, FETCH, 1, share_fetch(GROUP, f"m{number}", 0, places))
            asked = {"groups": [{"group_id": GROUP, "topics": None}]}
            (row,) = (await ask(cluster, chosen, 90, 1, asked)).groups
            assert row.error_code == 0
            (topic,) = row.topics
            assert [one.start_offset for one in topic.partitions] == [0] * len(PARTITIONS)
            everywhere = [
                group.group_id
                for node in cluster
                for group in (await ask(cluster, node, 16, 5, {"types_filter": ["share"]})).groups
            ]
            assert everywhere == [GROUP]
            assert (await ask(cluster, chosen, HEARTBEAT, 1, beat(-1))).error_code == 0
            (gone,) = (await ask(cluster, chosen, 42, 2, {"groups_names": [GROUP]})).results
            assert gone.error_code == 0
            (row,) = (await ask(cluster, chosen, 90, 1, asked)).groups
            assert (row.error_code, row.topics) == (0, ())
            (gone,) = (await ask(cluster, chosen, 42, 2, {"groups_names": [GROUP]})).results
            assert gone.error_code == 69

    asyncio.run(story())


def test_members_join_again_when_their_coordinator_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            await prepare(cluster)
            first = coordinator(cluster, 1)
            epoch = (await ask(cluster, first, HEARTBEAT, 1, beat(0))).member_epoch
            await stop(cluster.pop(NodeId(first)))
            other = next(iter(cluster))
            await until(lambda: coordinator(cluster, other) in cluster)
            heir = coordinator(cluster, other)
            code = NOT_COORDINATOR
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while code == NOT_COORDINATOR:  # It is about to lead.
                    code = (await ask(cluster, heir, HEARTBEAT, 1, beat(epoch))).error_code
            assert code == UNKNOWN_MEMBER_ID
            answer = await ask(cluster, heir, HEARTBEAT, 1, beat(0))
            assert (answer.error_code, answer.member_epoch) == (0, 1)
            (row,) = answer.assignment.topic_partitions
            assert list(row.partitions) == list(PARTITIONS)

    asyncio.run(story())


def test_what_was_leased_where_nobody_leads_any_more_is_released(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_cluster(tmp_path) as cluster:
            topic_id = await prepare(cluster)
            here = (topic_id, 0)
            first = led(cluster, 1)[0]
            engine = cluster[NodeId(first)].node.engine
            shard = engine.topics.shard_of(engine.topics.topic(TOPIC).partitions[0])
            async with wire_client(cluster[NodeId(first)].host, cluster[NodeId(first)].port) as old:
                answer = await old.call(FETCH, 1, share_fetch(GROUP, "m", 0, [here]))
                assert acquired(rows_of(answer)[here]) == [(0, 2, 1)]
                running = cluster[NodeId(first)].node._shards.get(shard)
                assert running is not None
                heir = next(node for node in cluster if node != first)
                running.replica.transfer(heir)
                await until(lambda: led(cluster, first)[0] == heir == led(cluster, heir)[0])
                answer = await old.call(FETCH, 1, share_fetch(GROUP, "m", 1))
                assert rows_of(answer)[here].error_code == NOT_LEADER
                fields = share_fetch(GROUP, "other", 0, [here], wait_ms=20_000)
                async with asyncio.timeout(WAIT_SECONDS_MAX):
                    code = NOT_LEADER
                    while code == NOT_LEADER:  # It is about to lead.
                        answer = await ask(cluster, heir, FETCH, 1, fields)
                        code = rows_of(answer)[here].error_code
                assert acquired(rows_of(answer)[here]) == [(0, 2, 2)]

    asyncio.run(story())
