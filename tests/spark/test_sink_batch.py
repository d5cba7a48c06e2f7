"""`df.write.format("penstock")`: rows become messages, all at once or not at all."""

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import blocking
from penstock.blocking import BlockingClient
from penstock.core.murmur2 import partition_of
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.testing import PenstockServer
from tests.batches import TODAY_MS
from tests.cluster.waiting import wait_until

READ_WITHIN_SECONDS = 20.0
CODECS = {"confluent-kafka": ("none", "lz4", "zstd", "snappy", "gzip"), "kafka-python": ("gzip",)}
"""kafka-python needs more packages for the others, and reads them with the same code."""


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with blocking.connect(broker.url) as connected:
        yield connected


def write(rows: DataFrame, broker: PenstockServer, **options: str | int) -> None:
    writing = rows.write.format("penstock").option("kafka.bootstrap.servers", broker.kafka)
    writing.options(**options).mode("append").save()


def values(client: BlockingClient, topic: str) -> Counter[bytes | None]:
    return Counter(record.raw for record in client.read(topic))


def test_every_column_arrives(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("columns", partitions=4)
    rows = spark.range(40).selectExpr(
        "if(id = 7, NULL, concat('value ', id)) AS value",
        "if(id % 2 = 0, concat('key ', id), NULL) AS key",
        "CAST(if(id = 9, 3, NULL) AS INT) AS partition",
        "array(named_struct('key', 'h', 'value', CAST(CAST(id AS STRING) AS BINARY))) AS headers",
        "if(id = 5, INTERVAL '1.5' SECOND, NULL) AS delay",
        "CAST(id % 10 AS INT) AS priority",
        f"timestamp_millis({TODAY_MS} + id) AS timestamp",
    )
    write(rows, broker, topic="columns", keepTimestamps="true")
    found = {int(record.headers["h"] or b""): record for record in client.read("columns")}
    assert set(found) == set(range(40))
    assert found[8].raw == b"value 8"
    assert found[8].key == b"key 8"
    assert found[8].partition == partition_of(b"key 8", 4)
    assert (found[9].partition, found[9].key) == (3, None)
    assert found[7].is_tombstone
    assert found[17].timestamp_ms == TODAY_MS + 17
    message = found[5]._message
    assert message.header("penstock-delay-ms") == b"1500"
    assert message.header("penstock-priority") == b"5"
    assert found[6]._message.header("penstock-delay-ms") is None


def test_queues_heed_delay_and_priority(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_queue("jobs", priorities="strict")
    rows = spark.range(10).selectExpr(
        "CAST(id AS STRING) AS value", "INT(id) AS priority", "if(id = 9, 600, 0) AS delay"
    )
    write(rows.coalesce(1), broker, queue="jobs")
    received = client.queue("jobs", codec=bytes).receive(10, wait=5)
    assert [message.body for message in received] == [b"%d" % n for n in range(8, -1, -1)]
    assert client.describe_queue("jobs").groups[DEFAULT_WORK_GROUP].delayed == 1


@pytest.mark.parametrize("reader", ["confluent-kafka", "kafka-python"])
def test_kafka_clients_read_every_codec(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, reader: str
) -> None:
    topic = f"codecs-{reader}"
    client.create_topic(topic, partitions=1)
    rows = spark.range(300).selectExpr("concat(repeat('message ', 9), id) AS value").coalesce(1)
    for codec in CODECS[reader]:
        write(rows, broker, topic=topic, compression=codec)
    read = _read_confluent if reader == "confluent-kafka" else _read_python
    found = read(broker, topic, 300 * len(CODECS[reader]))
    assert found == [b"message " * 9 + b"%d" % row for row in range(300)] * len(CODECS[reader])


def _read_confluent(broker: PenstockServer, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def read() -> bool:
        for message in consumer.consume(1_000, timeout=0.5):
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
        return len(found) >= count

    wait_until(read, "all messages", seconds=READ_WITHIN_SECONDS)
    consumer.close()
    return found


def _read_python(broker: PenstockServer, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=broker.kafka, check_crcs=True)
    place = KafkaTopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    found: list[bytes] = []

    def read() -> bool:
        for messages in consumer.poll(500).values():
            found.extend(message.value for message in messages)
        return len(found) >= count

    wait_until(read, "all messages", seconds=READ_WITHIN_SECONDS)
    consumer.close()
    return found


def test_a_write_with_an_id_happens_once(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("once", partitions=2)
    rows = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    for _ in range(2):
        write(rows, broker, topic="once", appId="nightly", batchId=3)
    assert client.describe_topic("once").messages == 100
    write(rows, broker, topic="once", appId="nightly", batchId=4)
    assert client.describe_topic("once").messages == 200
    with pytest.raises(PySparkException, match="batch 2 of nightly was not written"):
        write(rows, broker, topic="once", appId="nightly", batchId=2)
    assert client.describe_topic("once").messages == 200
    assert client.last_published("nightly") == 4


def test_bad_rows_fail_the_batch_or_become_dead_letters(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("strict", partitions=2)
    rows = spark.range(20).selectExpr(
        "if(id = 11, repeat('x', 2000000), CAST(id AS STRING)) AS value",
        "CAST(if(id = 3, 9, NULL) AS INT) AS partition",
        "CASE id WHEN 4 THEN NULL WHEN 5 THEN 'nowhere' ELSE 'strict' END AS topic",
    )
    with pytest.raises(PySparkException, match=r"row 3 of this task .* cannot be written.*has the"):
        write(rows.coalesce(1), broker)
    assert client.describe_topic("strict").messages == 0
    client.create_topic("strict-dead")
    write(rows, broker, badRows="deadLetter", deadLetterTopic="strict-dead")
    assert client.describe_topic("strict").messages == 16
    letters = {record.raw[:9]: record for record in client.read("strict-dead")}
    assert set(letters) == {b"3", b"4", b"5", b"xxxxxxxxx"}
    death = letters[b"3"].dead_letter
    assert death is not None
    assert death.queue == "strict"
    assert death.reason.startswith("topic 'strict' has the partitions 0 to 1")
    too_large = letters[b"xxxxxxxxx"].dead_letter
    assert too_large is not None
    assert "its value is cut from 2,000,000 bytes" in too_large.reason


@pytest.mark.long
def test_what_is_wrong_is_told_before_work_starts(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("right")
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    wrong: list[tuple[DataFrame, dict[str, str], str]] = [
        (rows, {"topic": "nowhere"}, "there is no topic 'nowhere' to write to"),
        (rows, {"topc": "right"}, "perhaps `topic` is meant"),
        (spark.range(3), {"topic": "right"}, "no place for a column `id`"),
    ]
    for frame, options, said in wrong:
        with pytest.raises(PySparkException, match=said):
            write(frame, broker, **options)
    overwriting = rows.write.format("penstock").option("url", broker.url).option("topic", "right")
    with pytest.raises(PySparkException, match="never overwritten"):
        overwriting.mode("overwrite").save()
    write(rows, broker, topic="made", createTopics="true")
    assert values(client, "made") == Counter({b"0": 1, b"1": 1, b"2": 1})
    assert client.describe_topic("right").messages == 0
