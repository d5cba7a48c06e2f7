"""`machines.topics`: how topics are found, made, changed and deleted; what is refused."""

import msgspec
import pytest

from penstock.core.errors import (
    CatalogFull,
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopicName,
    LocalError,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.limits import (
    PARTITIONS_MAX,
    TOPIC_PARTITIONS_MAX,
)
from penstock.core.topic_configs import DEFAULT_TOPIC_SETTINGS
from penstock.core.types import NO_TOPIC_ID, PartitionId, TopicId
from penstock.machines import (
    AddPartitions,
    CatalogCommand,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    topics,
)
from penstock.machines.catalog import CatalogReply, TopicReply
from penstock.machines.topics import TopicTable
from tests.unit.machines.cluster import Cluster, create, topic_id


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.found(1, 2)
    return cluster


def test_a_topic_is_found_by_name_by_id_and_by_partition(cluster: Cluster) -> None:
    catalog = cluster.catalog
    cluster.create("first", 2)
    orders = cluster.create("orders", 3, retention_ms="5", cleanup_policy="compact")
    assert orders.partitions == (3, 4, 5)
    assert orders.created_ms == 1_000
    assert list(orders.configs) == ["cleanup.policy", "retention.ms"], "sorted"
    assert catalog.topics.keys() == {"first", "orders"}
    assert catalog.topic("orders") is orders
    assert catalog.topic_by_id(topic_id("orders")) is orders
    assert [catalog.owner(PartitionId(number)) for number in (3, 5)] == [(orders, 0), (orders, 2)]
    assert (catalog.partition_count, catalog.next_partition) == (5, 6)
    assert catalog.topic("other") is None
    assert catalog.topic_by_id(NO_TOPIC_ID) is None
    assert [catalog.owner(PartitionId(number)) for number in (0, 6)] == [None, None]


def test_settings_are_read_once_per_change(cluster: Cluster) -> None:
    plain = cluster.create("plain")
    assert plain.settings is DEFAULT_TOPIC_SETTINGS
    topic = cluster.create("orders", retention_ms="5")
    assert topic.settings.retention_ms == 5
    assert topic.settings is topic.settings
    changed = cluster.topic(ConfigureTopic(name="orders", changes={"retention.ms": "6"}))
    assert changed.settings.retention_ms == 6
    assert topic.settings.retention_ms == 5, "what a reader holds stays what it is"


def test_a_topic_travels_without_its_settings(cluster: Cluster) -> None:
    topic = cluster.create("orders", 2, retention_ms="5")
    assert topic.settings.retention_ms == 5
    sent = msgspec.msgpack.encode(TopicReply(topic))
    received = msgspec.msgpack.decode(sent, type=CatalogReply)
    assert received == TopicReply(topic)


def test_a_deleted_topic_is_gone_and_its_numbers_are_not_used_again(cluster: Cluster) -> None:
    catalog = cluster.catalog
    first = cluster.create("orders", 2)
    assert cluster.topic(DeleteTopic(name="orders")) == first
    assert catalog.topic("orders") is None
    assert catalog.topic_by_id(first.topic_id) is None
    assert catalog.owner(first.partitions[0]) is None
    assert catalog.partition_count == 0
    again = cluster.topic(create(topic_id=TopicId(b"another life ..."), partitions=2))
    assert again.partitions == (3, 4)


def test_deleting_may_name_the_life_that_is_meant(cluster: Cluster) -> None:
    topic = cluster.create("orders")
    with pytest.raises(UnknownTopicId, match="deleted and made again"):
        cluster.do(DeleteTopic(name="orders", topic_id=topic_id("former")))
    assert cluster.topic(DeleteTopic(name="orders", topic_id=topic.topic_id)) == topic


def test_partitions_are_added(cluster: Cluster) -> None:
    cluster.create("orders", 2)
    cluster.create("others", 1)
    grown = cluster.topic(AddPartitions(name="orders", total=4))
    assert grown.partitions == (1, 2, 4, 5)
    owners = [cluster.catalog.owner(number) for number in grown.partitions]
    assert owners == [(grown, index) for index in range(4)]
    for total in (4, 3, 0, -1):
        with pytest.raises(InvalidPartitions, match=f"has 4 .* cannot go to {total}: .* only"):
            cluster.do(AddPartitions(name="orders", total=total))
    with pytest.raises(InvalidPartitions, match="at most"):
        cluster.do(AddPartitions(name="orders", total=TOPIC_PARTITIONS_MAX + 1))


def test_configs_are_set_and_reset_one_by_one(cluster: Cluster) -> None:
    cluster.create("orders", retention_ms="5", retention_bytes="6")
    changes = {"retention.bytes": None, "cleanup.policy": "compact", "flush.ms": None}
    topic = cluster.topic(ConfigureTopic(name="orders", changes=changes))
    assert topic.configs == {"cleanup.policy": "compact", "retention.ms": "5"}
    assert cluster.catalog.owner(PartitionId(1)) == (topic, 0)
    revision = cluster.catalog.revision
    assert cluster.topic(ConfigureTopic(name="orders", changes=changes)) is topic
    assert cluster.topic(ConfigureTopic(name="orders", changes={})) is topic
    assert cluster.catalog.revision == revision, "nothing is different"
    with pytest.raises(InvalidConfig, match=r"retention.ms cannot be 'x'"):
        cluster.do(ConfigureTopic(name="orders", changes={"retention.ms": "x"}))
    with pytest.raises(InvalidConfig, match="did you mean retention.ms"):
        cluster.do(ConfigureTopic(name="orders", changes={"retention_ms": None}))
    with pytest.raises(InvalidConfig, match="max.compaction.lag.ms"):
        cluster.do(ConfigureTopic(name="orders", changes={"max.compaction.lag.ms": "0"}))


@pytest.mark.parametrize(
    "command",
    [
        DeleteTopic(name="nothing"),
        AddPartitions(name="nothing", total=3),
        ConfigureTopic(name="nothing", changes={}),
    ],
)
def test_what_is_not_there_cannot_be_changed(cluster: Cluster, command: CatalogCommand) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic 'nothing'"):
        cluster.do(command)


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "...", "a" * 249, "__consumer_offsets"])
def test_kafkas_names_are_names(cluster: Cluster, name: str) -> None:
    assert cluster.create(name).name == name


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "a" * 250])
def test_what_kafka_would_not_take_is_no_name(cluster: Cluster, name: str) -> None:
    with pytest.raises(InvalidTopicName):
        cluster.do(create(name))


def test_names_that_metrics_would_mix_up_are_refused(cluster: Cluster) -> None:
    cluster.create("a.b_c")
    for name in ("a_b.c", "a.b.c", "a_b_c"):
        with pytest.raises(InvalidTopicName, match="differs from topic a.b_c in"):
            cluster.do(create(name))
    with pytest.raises(TopicExists, match="topic a.b_c exists already"):
        cluster.do(create("a.b_c"))
    cluster.do(DeleteTopic(name="a.b_c"))
    cluster.create("a_b.c")


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (create(partitions=0), InvalidPartitions, "cannot have 0 partitions; choose from 1"),
        (create(partitions=-1), InvalidPartitions, "cannot have -1"),
        (create(partitions=TOPIC_PARTITIONS_MAX + 1), InvalidPartitions, "cannot have 100001"),
        (create(configs={"x": "1"}), InvalidConfig, "no topic config 'x'"),
        (create(configs={"retention.ms": ""}), InvalidConfig, "retention.ms cannot be ''"),
        (create(topic_id=NO_TOPIC_ID), InvalidRequest, "draw 16 bytes"),
        (create(topic_id=TopicId(b"")), InvalidRequest, "of no bytes; draw 16 bytes"),
        (create(topic_id=TopicId(b"x" * 1_000)), InvalidRequest, "draw 16 bytes"),
        (create(topic_id=topic_id("there")), InvalidRequest, "draw 16 bytes"),
    ],
)
def test_a_topic_that_cannot_be_is_not_made(
    cluster: Cluster, command: CreateTopic, error: type[LocalError], words: str
) -> None:
    cluster.create("there")
    with pytest.raises(error, match=words):
        cluster.do(command)


def test_dead_letters_go_to_another_topic(cluster: Cluster) -> None:
    config = "queue.dead.letter.topic"
    with pytest.raises(InvalidConfig, match=f"{config} cannot be orders"):
        cluster.create("orders", queue_dead_letter_topic="orders")
    with pytest.raises(InvalidTopicName):
        cluster.create("orders", queue_dead_letter_topic="no such name")
    cluster.create("orders", queue_dead_letter_topic="dead")
    with pytest.raises(InvalidConfig, match=f"{config} cannot be orders"):
        cluster.do(ConfigureTopic(name="orders", changes={config: "orders"}))
    assert cluster.catalog.topics["orders"].settings.queue.dead_letter_topic == "dead"


def test_there_is_room_for_so_many_partitions(cluster: Cluster) -> None:
    for number in range(PARTITIONS_MAX // TOPIC_PARTITIONS_MAX):
        cluster.create(f"t{number}", TOPIC_PARTITIONS_MAX - (number == 0))
    with pytest.raises(CatalogFull, match="no room for 2 more; delete topics"):
        cluster.do(create(partitions=2))
    cluster.create("last", 1)
    with pytest.raises(CatalogFull, match="no room for 1 more"):
        cluster.do(AddPartitions(name="last", total=2))
    cluster.do(DeleteTopic(name="t0"))
    cluster.do(AddPartitions(name="last", total=2))


def test_there_is_room_for_so_many_topics(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "TOPICS_MAX", 2)
    cluster.create("a")
    cluster.create("b")
    with pytest.raises(CatalogFull, match="there are 2 topics"):
        cluster.do(create("c"))


def test_the_ids_of_partitions_end_somewhere() -> None:
    table = TopicTable(next_partition=(1 << 32) - 2)
    with pytest.raises(CatalogFull, match="move to a new cluster"):
        table.check_create(create(partitions=3))
    table.check_create(create(partitions=2))
    assert table.create(create(partitions=2)).partitions == ((1 << 32) - 2, (1 << 32) - 1)
