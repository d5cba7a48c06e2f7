"""Topics that the cluster keeps for itself, as Kafka's clients see them."""

import asyncio

import kafka
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

import penstock
from tests.kafka_broker import ThreadedBroker

pytestmark = pytest.mark.slow

SECONDS = 30


async def _publish(url: str) -> None:
    async with penstock.connect(url) as client:
        await client.create_topic("published", partitions=2)
        stage = client.open_stage()
        await stage.send_many("published", range(10))
        await client.publish("import", 1, [await stage.close()])


def test_staging_is_listed_as_internal_and_patterns_pass_it_over(broker: ThreadedBroker) -> None:
    asyncio.run(_publish(f"penstock://{broker.address}"))
    admin = AdminClient({"bootstrap.servers": broker.address})
    assert {"__staging", "published"} <= admin.list_topics(timeout=SECONDS).topics.keys()
    pure = kafka.KafkaConsumer(bootstrap_servers=broker.address)
    try:
        assert "published" in pure.topics()
        pure.subscribe(pattern=".*")
        assert "__staging" not in (pure.subscription() or set())
    finally:
        pure.close()
    reader = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "published",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        reader.subscribe(["published"])
        found = 0
        while found < 10:
            message = reader.poll(SECONDS)
            assert message is not None
            assert message.error() is None
            found += 1
    finally:
        reader.close()
