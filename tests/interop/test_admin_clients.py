"""The admin clients people have, as they come, against a running broker."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from kafka.admin import ConfigResource as PureResource
from kafka.admin import ConfigResourceType as PureResourceType
from kafka.admin import NewPartitions as PureNewPartitions
from kafka.admin import NewTopic as PureNewTopic
from kafka.errors import TopicAlreadyExistsError

from penstock.core.topic_configs import TOPIC_CONFIGS
from tests.kafka_broker import ThreadedBroker

pytestmark = pytest.mark.slow

SECONDS = 20

rdkafka: Any = confluent_kafka.admin
"""Its names are public, but not to the type checker."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedBroker]:
    """One broker for all clients: each has topics of its own."""
    with ThreadedBroker(Path(tmp_path_factory.mktemp("admin"))) as running:
        yield running


def outcome(futures: dict[Any, Any]) -> dict[str, Any]:
    """What confluent's futures came to: a result, or the code of a refusal."""
    found: dict[str, Any] = {}
    for key, future in futures.items():
        name = getattr(key, "name", None) or getattr(key, "topic", None) or str(key)
        try:
            found[name] = future.result(SECONDS)
        except KafkaException as error:
            found[name] = error.args[0].code()
    return found


@pytest.fixture(scope="module")
def confluent(broker: ThreadedBroker) -> Any:
    """confluent-kafka: librdkafka."""
    return rdkafka.AdminClient({"bootstrap.servers": broker.address})


def test_confluent_topics(confluent: Any) -> None:
    wanted = [
        rdkafka.NewTopic("c-three", num_partitions=3, replication_factor=1),
        rdkafka.NewTopic("c-default"),
        rdkafka.NewTopic("c-assigned", num_partitions=2, replica_assignment=[[1], [1]]),
        rdkafka.NewTopic("c/bad", num_partitions=1),
        rdkafka.NewTopic("c-replicas", num_partitions=1, replication_factor=7),
        rdkafka.NewTopic("c-config", num_partitions=1, config={"retention.mss": "1"}),
    ]
    assert outcome(confluent.create_topics(wanted)) == {
        "c-three": None,
        "c-default": None,
        "c-assigned": None,
        "c/bad": KafkaError.TOPIC_EXCEPTION,
        "c-replicas": KafkaError.INVALID_REPLICATION_FACTOR,
        "c-config": KafkaError.INVALID_CONFIG,
    }
    again = confluent.create_topics([rdkafka.NewTopic("c-three", 3)], validate_only=True)
    assert outcome(again) == {"c-three": KafkaError.TOPIC_ALREADY_EXISTS}
    assert outcome(confluent.create_partitions([rdkafka.NewPartitions("c-three", 5)])) == {
        "c-three": None
    }
    fewer = confluent.create_partitions([rdkafka.NewPartitions("c-three", 2)])
    assert outcome(fewer) == {"c-three": KafkaError.INVALID_PARTITIONS}
    described = outcome(confluent.describe_topics(TopicCollection(["c-three", "c-none"])))
    assert described["c-none"] == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert len(described["c-three"].partitions) == 5
    assert {one.leader.id for one in described["c-three"].partitions} == {1}
    gone = outcome(confluent.delete_topics(["c-default", "c-none"]))
    assert gone == {"c-default": None, "c-none": KafkaError.UNKNOWN_TOPIC_OR_PART}


def test_confluent_configurations(confluent: Any) -> None:
    outcome(confluent.create_topics([rdkafka.NewTopic("c-configs", 1)]))
    topic = rdkafka.ConfigResource(rdkafka.ResourceType.TOPIC, "c-configs")

    def configs() -> dict[str, Any]:
        return dict(outcome(confluent.describe_configs([topic]))["c-configs"])

    assert configs().keys() == TOPIC_CONFIGS.keys()
    changes = [
        rdkafka.ConfigEntry(
            "retention.ms", "9", incremental_operation=rdkafka.AlterConfigOpType.SET
        ),
        rdkafka.ConfigEntry(
            "cleanup.policy", "compact", incremental_operation=rdkafka.AlterConfigOpType.APPEND
        ),
    ]
    change = rdkafka.ConfigResource(
        rdkafka.ResourceType.TOPIC, "c-configs", incremental_configs=changes
    )
    assert outcome(confluent.incremental_alter_configs([change])) == {"c-configs": None}
    assert configs()["cleanup.policy"].value == "delete,compact"
    own = configs()["retention.ms"]
    assert (own.value, own.source) == ("9", rdkafka.ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert own.synonyms.keys() == {"retention.ms", "log.retention.ms"}
    anew = rdkafka.ConfigResource(
        rdkafka.ResourceType.TOPIC, "c-configs", set_config={"segment.ms": "5"}
    )
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        assert outcome(confluent.alter_configs([anew])) == {"c-configs": None}
    assert configs()["segment.ms"].value == "5"
    assert configs()["retention.ms"].value == "604800000"


def test_confluent_the_brokers_settings(confluent: Any) -> None:
    one = rdkafka.ConfigResource(rdkafka.ResourceType.BROKER, "1")
    configs = outcome(confluent.describe_configs([one]))["1"]
    assert configs["num.partitions"].value == "4"
    assert configs["num.partitions"].is_read_only
    change = rdkafka.ConfigEntry(
        "num.partitions", "9", incremental_operation=rdkafka.AlterConfigOpType.SET
    )
    wish = rdkafka.ConfigResource(rdkafka.ResourceType.BROKER, "1", incremental_configs=[change])
    assert outcome(confluent.incremental_alter_configs([wish])) == {"1": KafkaError.INVALID_REQUEST}


def test_confluent_records(confluent: Any, broker: ThreadedBroker) -> None:
    outcome(confluent.create_topics([rdkafka.NewTopic("c-records", 2)]))
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(20):
        producer.produce("c-records", b"x", partition=number % 2)
    assert producer.flush(SECONDS) == 0
    first, second = TopicPartition("c-records", 0, 4), TopicPartition("c-records", 1, -1)
    gone = confluent.delete_records([first, second])
    assert [one.result(SECONDS).low_watermark for one in gone.values()] == [4, 10]
    beyond = confluent.delete_records([TopicPartition("c-records", 0, 99)])
    assert outcome(beyond) == {"c-records": KafkaError.OFFSET_OUT_OF_RANGE}
    earliest = confluent.list_offsets(
        {TopicPartition("c-records", 0): rdkafka.OffsetSpec.earliest()}
    )
    assert [one.result(SECONDS).offset for one in earliest.values()] == [4]


def test_confluent_groups(confluent: Any, broker: ThreadedBroker) -> None:
    outcome(confluent.create_topics([rdkafka.NewTopic("c-read", 2)]))
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "c-group"})
    assigned: list[TopicPartition] = []
    consumer.subscribe(["c-read"], on_assign=lambda _consumer, parts: assigned.extend(parts))
    while not assigned:
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition("c-read", 0, 0)], asynchronous=False)
    listed = confluent.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(SECONDS)
    assert [group.group_id for group in listed.valid] == ["c-group"]
    assert not listed.errors
    found = outcome(confluent.describe_consumer_groups(["c-group", "c-nobody"]))
    assert found["c-nobody"].state == ConsumerGroupState.DEAD
    (member,) = found["c-group"].members
    assert len(member.assignment.topic_partitions) == 2
    assert outcome(confluent.delete_consumer_groups(["c-group", "c-nobody"])) == {
        "c-group": KafkaError.NON_EMPTY_GROUP,
        "c-nobody": KafkaError.GROUP_ID_NOT_FOUND,
    }
    consumer.close()
    offsets = confluent.list_consumer_group_offsets([ConsumerGroupTopicPartitions("c-group")])
    assert [
        (one.partition, one.offset) for one in outcome(offsets)["c-group"].topic_partitions
    ] == [(0, 0)]
    assert outcome(confluent.delete_consumer_groups(["c-group"])) == {"c-group": None}


def test_confluent_the_cluster(confluent: Any, broker: ThreadedBroker) -> None:
    described = confluent.describe_cluster(include_authorized_operations=True).result(SECONDS)
    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == broker.address
    assert described.controller.id == 1
    assert described.authorized_operations
    outcome(confluent.create_topics([rdkafka.NewTopic("c-led", 1)]))
    asked = [TopicPartition("c-led", 0)]
    elected = confluent.elect_leaders(ElectionType.PREFERRED, asked).result(SECONDS)
    assert [error.code() for error in elected.values()] == [KafkaError.ELECTION_NOT_NEEDED]


@pytest.fixture(scope="module")
def pure(broker: ThreadedBroker) -> Iterator[Any]:
    """kafka-python."""
    client = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
    yield client
    client.close()


def test_kafka_python_topics(pure: Any) -> None:
    made = pure.create_topics([PureNewTopic("k-three", 3, 1), PureNewTopic("k-default")])
    assert [row["num_partitions"] for row in made["topics"]] == [3, 4]
    with pytest.raises(TopicAlreadyExistsError, match="exists already"):
        pure.create_topics([PureNewTopic("k-three", 3, 1)])
    assert {"k-three", "k-default"} <= set(pure.list_topics())
    pure.create_partitions({"k-three": PureNewPartitions(4)})
    (described,) = pure.describe_topics(["k-three"])
    assert len(described["partitions"]) == 4
    paged = pure.describe_topic_partitions(["k-three"])
    assert "k-three" in str(paged)
    pure.delete_topics(["k-default"])
    assert "k-default" not in pure.list_topics()


def test_kafka_python_configurations(pure: Any) -> None:
    pure.create_topics([PureNewTopic("k-configs", 1, 1)])
    topic = PureResource(PureResourceType.TOPIC, "k-configs")
    found = pure.describe_configs([topic], config_filter="all")
    assert found["topic"]["k-configs"].keys() == TOPIC_CONFIGS.keys()
    change = PureResource(PureResourceType.TOPIC, "k-configs", configs={"retention.ms": "99"})
    assert pure.alter_configs([change]) == {"topic": {"k-configs": "OK"}}
    found = pure.describe_configs([topic])
    assert {name: row["value"] for name, row in found["topic"]["k-configs"].items()} == {
        "retention.ms": "99"
    }
    assert pure.reset_configs([change]) == {"topic": {"k-configs": "OK"}}
    assert pure.describe_configs([topic]) == {"topic": {"k-configs": {}}}
    own = PureResource(PureResourceType.BROKER, "1")
    settings = pure.describe_configs([own], config_filter="all")["broker"]["1"]
    assert settings["auto.create.topics.enable"]["value"] == "true"
    assert "k-configs" in pure.list_config_resources()["topic"]


def test_kafka_python_records_and_groups(pure: Any, broker: ThreadedBroker) -> None:
    pure.create_topics([PureNewTopic("k-records", 1, 1)])
    producer = kafka.KafkaProducer(bootstrap_servers=broker.address)
    for _ in range(10):
        producer.send("k-records", b"x", partition=0)
    producer.flush()
    producer.close()
    partition = kafka.TopicPartition("k-records", 0)
    assert pure.delete_records({partition: 4})[partition]["low_watermark"] == 4
    consumer = kafka.KafkaConsumer(
        "k-records",
        bootstrap_servers=broker.address,
        group_id="k-group",
        auto_offset_reset="earliest",
    )
    while not consumer.poll(500):
        pass
    consumer.commit()
    assert "k-group" in {row["group_id"] for row in pure.list_groups()}
    described = pure.describe_groups(["k-group"])["k-group"]
    assert (described["group_state"], len(described["members"])) == ("Stable", 1)
    consumer.close()
    assert pure.list_group_offsets("k-group")["k-group"][partition].offset == 10
    pure.delete_group_offsets("k-group", [partition])
    assert partition not in pure.list_group_offsets("k-group").get("k-group", {})
    pure.delete_groups(["k-group"])
    assert "k-group" not in {row["group_id"] for row in pure.list_groups()}


def test_kafka_python_the_cluster(pure: Any) -> None:
    described = pure.describe_cluster()
    assert [row["broker_id"] for row in described["brokers"]] == [1]
    (directories,) = pure.describe_log_dirs()
    (directory,) = directories["log_dirs"]
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    assert pure.list_partition_reassignments() == {}


def test_aiokafka(broker: ThreadedBroker) -> None:
    """Topics, configurations, records and groups with aiokafka."""

    async def story() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        try:
            await _administer(admin, broker.address)
        finally:
            await admin.close()

    asyncio.run(story())


async def _administer(admin: Any, address: str) -> None:
    made = await admin.create_topics([AioNewTopic("a-three", 3, 1), AioNewTopic("a/bad", 1, 1)])
    assert [(row[0], row[1]) for row in made.topic_errors] == [("a-three", 0), ("a/bad", 17)]
    await admin.create_partitions({"a-three": AioNewPartitions(4)})
    (topic,) = await admin.describe_topics(["a-three"])
    assert len(topic["partitions"]) == 4
    assert [row["node_id"] for row in (await admin.describe_cluster())["brokers"]] == [1]
    change = AioResource(AioResourceType.TOPIC, "a-three", configs={"retention.ms": "99"})
    (altered,) = await admin.alter_configs([change])
    assert [row[0] for row in altered.resources] == [0]
    resource = AioResource(AioResourceType.TOPIC, "a-three")
    (configs,) = await admin.describe_configs([resource])
    (row,) = configs.resources
    values = {entry[0]: entry[1] for entry in row[4]}
    assert (values.keys(), values["retention.ms"]) == (TOPIC_CONFIGS.keys(), "99")
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for _ in range(10):
            await producer.send_and_wait("a-three", b"x", partition=0)
    partition = AioPartition("a-three", 0)
    assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}
    async with AIOKafkaConsumer(
        "a-three", bootstrap_servers=address, group_id="a-group", auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).offset == 4
        await consumer.commit()
        assert ("a-group", "consumer") in await admin.list_consumer_groups()
        (described,) = await admin.describe_consumer_groups(["a-group"])
        assert [group[2] for group in described.groups] == ["Stable"]
    assert (await admin.list_consumer_group_offsets("a-group"))[partition].offset == 5
    gone = await admin.delete_topics(["a-three", "a-none"])
    assert [tuple(row) for row in gone.topic_error_codes] == [("a-three", 0), ("a-none", 3)]
