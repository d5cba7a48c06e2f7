"""Batch reads of real topics through real Spark: columns, bounds and errors."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import kafka
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock import Outgoing, blocking
from penstock.blocking import BlockingClient
from penstock.server.reserved_ports import ReservedPorts
from penstock.testing import PenstockServer

NOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
"""A full hour of late: what is a week old would be deleted."""


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with blocking.connect(broker.url) as connected:
        yield connected


@pytest.fixture(scope="module")
def clocked(client: BlockingClient) -> str:
    """Two partitions with ten messages each, a minute apart from each other."""
    client.create_topic("clocked", partitions=2)
    client.topic("clocked").send_many(
        [
            Outgoing(
                b"%d" % number,
                key=b"key %d" % (number % 3),
                partition=partition,
                timestamp=NOON + timedelta(minutes=number),
            )
            for partition in range(2)
            for number in range(10)
        ]
    )
    return "clocked"


def load(
    spark: SparkSession, broker: PenstockServer, schema: str = "", **options: str
) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.kafka)
    reader = reader.options(**options)
    return (reader.schema(schema) if schema else reader).load()


def places(frame: DataFrame) -> dict[int, list[int]]:
    """Offsets by partition."""
    rows = frame.groupBy("partition").agg(F.sort_array(F.collect_list("offset")).alias("all"))
    return {row["partition"]: row["all"] for row in rows.collect()}


def failure(frame_of: Any) -> str:
    with pytest.raises(PySparkException) as caught:
        frame_of()
    return str(caught.value)


def test_rows_have_the_columns_of_the_kafka_connector(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("columns", partitions=1)
    client.create_topic(
        "stamped", partitions=1, configs={"message.timestamp.type": "LogAppendTime"}
    )
    topic = client.topic("columns")
    topic.send(b"first", key=b"k", headers={"a": b"1", "b": b""}, timestamp=NOON)
    topic.send(None, key=b"deleted", timestamp=NOON)
    topic.send(b"", timestamp=NOON)
    client.topic("stamped").send(b"x", timestamp=NOON)
    frame = load(spark, broker, subscribe="columns,stamped", includeHeaders="true")
    assert [f"{one.name} {one.dataType.simpleString()}" for one in frame.schema.fields] == [
        "key binary", "value binary", "topic string", "partition int", "offset bigint",
        "timestamp timestamp", "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]  # fmt: skip
    rows = frame.orderBy("topic", "offset").collect()
    first, deleted, empty, stamped = (row.asDict(recursive=True) for row in rows)
    assert first == {
        "key": bytearray(b"k"), "value": bytearray(b"first"), "topic": "columns", "partition": 0,
        "offset": 0, "timestamp": NOON.replace(tzinfo=None), "timestampType": 0,
        "headers": [{"key": "a", "value": bytearray(b"1")}, {"key": "b", "value": bytearray()}],
    }  # fmt: skip
    assert (deleted["value"], deleted["headers"]) == (None, None)
    assert (empty["key"], empty["value"]) == (None, bytearray())
    assert stamped["timestampType"] == 1
    assert stamped["timestamp"] > NOON.replace(tzinfo=None)
    assert "headers" not in load(spark, broker, subscribe="columns").columns


def test_offsets_and_times_bound_a_read(
    spark: SparkSession, broker: PenstockServer, clocked: str
) -> None:
    bounded = load(
        spark, broker, subscribe=clocked,
        startingOffsets='{"clocked": {"0": 3, "1": -2}}',
        endingOffsets='{"clocked": {"0": 5, "1": -1}}',
    )  # fmt: skip
    assert places(bounded) == {0: [3, 4], 1: list(range(10))}
    four, six = (int((NOON + timedelta(minutes=n)).timestamp() * 1_000) for n in (4, 6))
    timed = load(
        spark, broker, subscribe=clocked, startingTimestamp=str(four - 1), endingTimestamp=str(six)
    )
    assert places(timed) == {0: [4, 5], 1: [4, 5]}
    each = f'{{"clocked": {{"0": {four}, "1": {six}}}}}'
    assert places(load(spark, broker, subscribe=clocked, startingOffsetsByTimestamp=each)) == {
        0: [4, 5, 6, 7, 8, 9],
        1: [6, 7, 8, 9],
    }
    late = str(six * 2)
    refused = failure(load(spark, broker, subscribe=clocked, startingTimestamp=late).count)
    assert "no message from" in refused
    assert "startingOffsetsByTimestampStrategy" in refused
    latest = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert load(spark, broker, subscribe=clocked, **latest).count() == 0


def test_topics_by_pattern_and_partitions_by_hand(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, clocked: str
) -> None:
    client.create_topic("clocks.more", partitions=1)
    client.send("clocks.more", b"x")
    matched = load(spark, broker, subscribePattern="clock.*")
    assert sorted(row["topic"] for row in matched.select("topic").distinct().collect()) == [
        clocked,
        "clocks.more",
    ]
    assert places(load(spark, broker, assign='{"clocked": [1]}')) == {1: list(range(10))}
    assert load(spark, broker, subscribePattern="nothing.*").count() == 0
    refused = failure(load(spark, broker, assign='{"clocked": [5]}').count)
    assert "assign names partition 5 of clocked, which has partitions 0 to 1" in refused


def test_a_schema_chooses_columns_and_large_partitions_are_cut(
    spark: SparkSession, broker: PenstockServer, clocked: str
) -> None:
    pruned = load(spark, broker, "offset BIGINT, partition INT", subscribe=clocked)
    assert pruned.columns == ["offset", "partition"]
    assert places(pruned) == {0: list(range(10)), 1: list(range(10))}
    timed = load(spark, broker, "timestamp TIMESTAMP", subscribe=clocked)
    (latest,) = timed.agg(F.max("timestamp")).collect()
    assert latest[0] == NOON.replace(minute=9, tzinfo=None)
    cut = load(spark, broker, subscribe=clocked, minPartitions="5")
    assert cut.rdd.getNumPartitions() == 4
    assert places(cut) == {0: list(range(10)), 1: list(range(10))}
    assert (
        load(spark, broker, subscribe=clocked, maxRecordsPerPartition="3").rdd.getNumPartitions()
        == 8
    )
    wrong = failure(load(spark, broker, "value STRING", subscribe=clocked).count)
    assert "the column value is BINARY, not STRING: read it so, and cast it" in wrong
    unknown = failure(load(spark, broker, "payload BINARY", subscribe=clocked).count)
    assert "there is no column payload: choose from key, value" in unknown


def test_filters_are_pushed_where_both_sides_want_it(
    spark: SparkSession, broker: PenstockServer, clocked: str
) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        pushed = load(spark, broker, subscribe=clocked, pushFilters="true")
        later = pushed.where((F.col("partition") == 1) & (F.col("offset") > 7))
        assert later.rdd.getNumPartitions() == 1
        assert places(later) == {1: [8, 9]}
        since = pushed.where(F.col("timestamp") >= NOON + timedelta(minutes=8))
        assert places(since) == {0: [8, 9], 1: [8, 9]}
        keyed = pushed.where(F.col("key") == F.lit(bytearray(b"key 1")))
        assert places(keyed) == {0: [1, 4, 7], 1: [1, 4, 7]}
    finally:
        spark.conf.unset(setting)


def test_what_was_deleted_is_an_error_or_is_passed_over(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("trimmed", partitions=1)
    client.topic("trimmed").send_many([b"%d" % n for n in range(10)])
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.kafka)
    admin.delete_records({kafka.TopicPartition("trimmed", 0): 4})
    admin.close()
    assert places(load(spark, broker, subscribe="trimmed")) == {0: [4, 5, 6, 7, 8, 9]}
    asked = {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 2}}'}
    refused = failure(load(spark, broker, **asked).count)
    assert "the messages 2 to 3 of partition 0 of trimmed have been deleted" in refused
    assert "failOnDataLoss" in refused
    assert places(load(spark, broker, **asked, failOnDataLoss="false")) == {0: [4, 5, 6, 7, 8, 9]}
    beyond = failure(
        load(spark, broker, subscribe="trimmed", endingOffsets='{"trimmed": {"0": 99}}').count
    )
    assert "endingOffsets is 99 for partition 0 of trimmed, which ends at 10" in beyond


def test_what_is_wrong_is_said_before_any_work(
    spark: SparkSession, broker: PenstockServer, clocked: str
) -> None:
    assert "the broker has no topic clockd: perhaps clocked was meant" in failure(
        load(spark, broker, subscribe="clockd").count
    )
    assert "perhaps includeHeaders was meant" in failure(
        lambda: load(spark, broker, subscribe=clocked, includeHeader="true")
    )
    assert "does not name partition 1 of clocked" in failure(
        load(spark, broker, subscribe=clocked, startingOffsets='{"clocked": {"0": 1}}').count
    )
    with ReservedPorts(1) as (port,):
        nobody = load(
            spark, broker, subscribe=clocked, **{"kafka.bootstrap.servers": f"127.0.0.1:{port}"}
        )
        assert f"no broker answers at penstock://127.0.0.1:{port}" in failure(nobody.count)
