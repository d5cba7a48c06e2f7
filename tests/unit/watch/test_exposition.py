"""The page of metrics: what a node says of itself and of what it leads."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.core.message import NewMessage
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.cluster.node import Node
from penstock.engine.topics.topics import Acks
from penstock.watch import partition_metrics, queue_metrics
from penstock.watch.exposition import Exposition
from penstock.watch.metric_table import METRICS
from tests.batches import build_batch
from tests.kafka_broker import Broker, open_broker
from tests.unit.engine.nodes import until
from tests.unit.watch.scraped import Scraped, read_open

QUEUE = {"queue.message.headers": "true"}
NEEDS_MORE = {
    # Followers, and errors and traffic of clients: see the tests with several nodes and real ones.
    "penstock_raft_follower_lag_entries",
    "penstock_raft_follower_silent_seconds",
    "penstock_request_errors_total",
    "penstock_network_bytes_total",
    "penstock_consumer_group_lag_messages",
    "penstock_consumer_group_members",
    "penstock_consumer_group_partition_lag_messages",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_members",
    "queue_consumer_lag",
    "penstock_request_duration_seconds",
    "penstock_alerts",
    # Of a watch.
    "penstock_queue_depth_messages",
    "penstock_availability_ratio",
    "penstock_available_seconds_total",
    "penstock_observed_seconds_total",
}


def exposition(broker: Broker) -> Exposition:
    return Exposition(broker.node, lambda: [broker.listener.front_end()])


async def scrape(exposed: Exposition, *, detail: bool = False) -> Scraped:
    text, content_type = await exposed.page(detail=detail)
    assert content_type.startswith("text/plain; version=0.0.4")
    return Scraped(text.decode())


async def work_off(node: Node, queue: str, configs: Mapping[str, str] = QUEUE) -> None:
    """Ten messages: eight are done, one is rejected, one is released and waits."""
    topic = await node.engine.topics.create_topic(queue, 1, dict(configs))
    await node.delivery.send(topic, [NewMessage(b"work")] * 10, protocol="sqs")
    leased = await node.delivery.receive(topic, messages_max=10)
    verdicts = [(one.receipt, Verdict.ACK, -1, "") for one in leased[:8]]
    verdicts.append((leased[8].receipt, Verdict.REJECT, -1, "no such thing"))
    verdicts.append((leased[9].receipt, Verdict.RELEASE, 0, ""))
    assert set(await node.delivery.settle(topic, verdicts)) == {Outcome.DONE}


@pytest.mark.asyncio
async def test_the_life_of_messages_is_counted(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        await work_off(broker.node, "orders")
        page = await scrape(exposition(broker))
        orders = {"destination": "orders"}
        assert page.value("penstock_messages_produced_total", **orders, protocol="sqs") == 10
        assert page.value("penstock_bytes_produced_total", **orders, protocol="sqs") > 100
        assert page.value("penstock_messages_acked_total", **orders) == 8
        failed = page.by("penstock_messages_failed_total", "error_type", **orders)
        assert failed == {"released": 1, "lease_expired": 0, "rejected": 1, "read": 0}
        assert page.value("penstock_batches_produced_total", **orders, protocol="sqs") == 1
        assert page.value("batch_size_avg", queue="orders") == 10
        # Of one that says no name of its own.
        assert page.by("penstock_consumer_error_ratio", "group", queue="orders") == {"queue": 0.2}
        dead = page.value("penstock_messages_dead_lettered_total", **orders, reason="rejected")
        assert dead == 1
        states = page.by("penstock_queue_messages", "state", queue="orders", group="queue")
        assert states == {"ready": 1, "leased": 0, "in_flight": 0, "delayed": 0, "dead": 1}
        assert page.value("queue_depth", queue="orders") == 1
        rates = page.by("queue_error_rate", "error_type", queue="orders")
        assert rates == pytest.approx({"all": 0.2, "released": 0.1, "rejected": 0.1})
        assert page.value("penstock_queue_dead_letters", queue="orders") == 1
        assert page.value("penstock_queue_consumers", queue="orders", group="queue") == 1
        done = page.value("penstock_message_processing_duration_seconds_count", **orders)
        assert done == 8
        assert page.value(
            "penstock_queue_oldest_message_age_seconds", queue="orders", group="queue"
        ) >= 0  # fmt: skip


@pytest.mark.asyncio
async def test_a_table_is_no_table_if_some_of_it_is_never_exported(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        await work_off(broker.node, "orders")
        broker.node.engine.topics.traffic.of("kafka").delivered("orders", 1)
        page = await scrape(exposition(broker), detail=True)
        assert METRICS.keys() - page.names == NEEDS_MORE
        strangers = {name for name in page.names if not name.startswith("process_")}
        assert strangers - METRICS.keys() == set()


@pytest.mark.asyncio
async def test_every_replica_is_there(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        # Returns when every shard has a leader.
        await broker.node.engine.topics.create_topic("everywhere", 2, {})
        page = await scrape(exposition(broker))
        assert page.by("penstock_raft_leader", "group") == {"0": 1, "1": 1, "2": 1}
        assert min(page.by("penstock_raft_term", "group").values()) >= 1
        commits = page.by("penstock_raft_commit_index", "group")
        assert page.by("penstock_raft_last_applied_index", "group") == commits
        syncs = page.by("penstock_storage_fsync_duration_seconds_count", "group")
        assert min(syncs.values()) > 0
        assert sum(page.by("penstock_raft_commit_duration_seconds_count", "group").values()) > 0
        assert page.value("penstock_disk_free_bytes") > 0
        assert page.value("process_resident_memory_bytes") > 1 << 20


@pytest.mark.asyncio
async def test_partitions_are_told_of_when_asked(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        engine = broker.node.engine
        topic = await engine.topics.create_topic("log", 3, {})
        await engine.topics.produce(topic, 1, build_batch(7), Acks.ALL)
        exposed = exposition(broker)
        page = await scrape(exposed)
        ends = page.by("kafka_topic_partition_current_offset", "partition", topic="log")
        assert ends == {"0": 0, "1": 7, "2": 0}
        assert page.value("kafka_topic_partitions", topic="log") == 3
        assert page.value("penstock_storage_bytes", topic="log") > 0
        assert "penstock_partition_high_watermark" not in page.names
        page = await scrape(exposed, detail=True)
        assert page.by("penstock_partition_high_watermark", "partition", topic="log") == ends


@pytest.mark.asyncio
async def test_of_very_many_partitions_one_has_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_metrics, "SCRAPED_PARTITIONS_MAX", 4)
    async with open_broker(tmp_path) as broker:
        await broker.node.engine.topics.create_topic("log", 5, {})
        exposed = exposition(broker)
        page = await scrape(exposed)
        assert "kafka_topic_partition_current_offset" not in page.names
        page = await scrape(exposed, detail=True)
        assert len(page.by("kafka_topic_partition_current_offset", "partition", topic="log")) == 5


@pytest.mark.asyncio
async def test_of_very_many_queues_the_rest_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_metrics, "COUNTED_TOPICS_MAX", 2)
    async with open_broker(tmp_path) as broker:
        node = broker.node
        for name in ("a", "b", "c", "d"):
            topic = await node.engine.topics.create_topic(name, 1, dict(QUEUE))
            await node.delivery.send(topic, [NewMessage(b"work")] * 5)
            await node.delivery.receive(topic)
        page = await scrape(exposition(broker))
        assert page.by("queue_depth", "queue") == {"a": 4, "b": 4, "other": 8}
        ready = page.by("penstock_queue_messages", "queue", state="ready")
        assert ready == {"a": 4, "b": 4, "other": 8}


@pytest.mark.asyncio
async def test_dead_letters_count_for_the_queue_they_come_from(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        node = broker.node
        configs = {"queue.dead.letter.topic": "orders-dlq", "queue.deliveries.max": "1"}
        topic = await node.engine.topics.create_topic("orders", 1, configs)
        await node.delivery.send(topic, [NewMessage(b"work")] * 3)
        leased = await node.delivery.receive(topic, messages_max=3)
        await node.delivery.settle(topic, [(one.receipt, Verdict.REJECT, -1, "") for one in leased])

        def moved() -> bool:
            work = node.delivery.work(topic, 0, "queue")
            return work is not None and work.tally.moved == 3

        await until(moved)
        page = await scrape(exposition(broker))
        assert page.value("penstock_queue_dead_letters", queue="orders") == 3
        assert page.value("penstock_queue_messages", queue="orders", state="dead") == 3
        assert page.value("penstock_queue_messages", queue="orders-dlq", state="ready") == 3
        letters = page.value(
            "penstock_messages_produced_total", destination="orders-dlq", protocol="internal"
        )
        assert letters == 3


@pytest.mark.asyncio
async def test_one_page_serves_everybody_for_a_while(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        exposed = exposition(broker)
        pages = await asyncio.gather(*(exposed.page() for _ in range(20)))
        assert len({id(text) for text, _ in pages}) == 1
        detailed, _ = await exposed.page(detail=True)
        assert detailed is not pages[0][0]
        assert (await exposed.page())[0] is pages[0][0]


@pytest.mark.asyncio
async def test_openmetrics_is_there_for_whoever_asks(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        await work_off(broker.node, "orders")
        text, content_type = await exposition(broker).page(
            accept="application/openmetrics-text; version=1.0.0"
        )
        assert content_type.startswith("application/openmetrics-text; version=1.0.0")
        assert any(family.name == "penstock_queue_messages" for family in read_open(text.decode()))


@pytest.mark.asyncio
async def test_a_deleted_queue_leaves_the_page_and_no_sum_falls(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        await work_off(broker.node, "orders")
        before = await scrape(exposition(broker))
        await broker.node.engine.topics.delete_topic("orders")
        after = await scrape(exposition(broker))
        assert "orders" not in after.by("penstock_queue_messages", "queue")
        for name in ("penstock_messages_produced_total", "penstock_messages_acked_total"):
            assert after.total(name) >= before.total(name) > 0


@pytest.mark.asyncio
async def test_of_very_many_queues_times_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_metrics, "SCRAPED_HISTOGRAMS_MAX", 1)
    async with open_broker(tmp_path) as broker:
        for name in ("a", "b", "c"):
            await work_off(broker.node, name)
        page = await scrape(exposition(broker))
        name = "penstock_message_processing_duration_seconds_count"
        assert page.by(name, "destination") == {"a": 8, "other": 16}
        assert len(page.by("penstock_messages_acked_total", "destination")) == 3
