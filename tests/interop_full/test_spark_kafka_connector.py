"""Spark's own Kafka connector, which uses Kafka's Java client, against the broker, and beside ours.

A job that was written for `format("kafka")` must read and write here what it would elsewhere, and
must get the same rows when it is changed to `format("penstock")`.

The connector is no Python package. Spark fetches the version that fits it from Maven, where that
can be reached; SPARK_KAFKA_JARS=a.jar,b.jar names files that are there already: the connector, its
token provider, kafka-clients and commons-pool2. Otherwise these tests are skipped.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, Row, SparkSession, functions

from penstock.core.errors import NotInstalled
from penstock.spark import session
from penstock.testing import PenstockServer

PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
JARS = os.environ.get("SPARK_KAFKA_JARS", "")
MANY = int(os.environ.get("INTEROP_MESSAGES", "100000"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WITHIN_SECONDS = 120
Options = dict[str, str]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = {"spark.jars": JARS} if JARS else {"spark.jars.packages": PACKAGE}
    try:
        running = session("connector", master="local[2]", settings=settings)
    except NotInstalled as error:
        pytest.skip(str(error))
    except PySparkRuntimeError as error:
        if JARS or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        pytest.skip(f"{PACKAGE} cannot be had from Maven here, and SPARK_KAFKA_JARS names no files")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    with PenstockServer(tmp_path_factory.mktemp("connector")) as running:
        yield running


def read(
    spark: SparkSession, broker: PenstockServer, kind: str, topic: str, **options: str
) -> DataFrame:
    """A topic through one of the two connectors."""
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", broker.kafka)
    return reader.options(subscribe=topic, includeHeaders="true", **options).load()


def write(rows: DataFrame, broker: PenstockServer, kind: str, topic: str, **options: str) -> None:
    """Rows to a topic through one of the two connectors."""
    writer = rows.write.format(kind).option("kafka.bootstrap.servers", broker.kafka)
    writer.options(topic=topic, includeHeaders="true", **options).mode("append").save()


def orders(spark: SparkSession, count: int) -> DataFrame:
    """Rows of every shape: without a key, without a value, with one, two and no headers."""
    header = functions.struct(
        functions.lit("kind").alias("key"), functions.lit("order").cast("binary").alias("value")
    )
    empty = functions.struct(
        functions.lit("empty").alias("key"), functions.lit(None).cast("binary").alias("value")
    )
    number = functions.col("id")
    return spark.range(count).select(
        functions.when(number % 7 != 0, number.cast("string").cast("binary")).alias("key"),
        functions.when(
            number % 11 != 0, functions.concat(functions.lit("order "), number.cast("string"))
        )
        .cast("binary")
        .alias("value"),
        functions.when(number % 3 == 0, functions.array(header))
        .when(number % 3 == 1, functions.array(header, empty))
        .alias("headers"),
    )


def contents(rows: DataFrame) -> list[tuple[object, ...]]:
    """Key, value and headers of all rows, in an order of their own."""
    found = [(row.key, row.value, tuple(row.headers or ())) for row in rows.collect()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_connector_writes_both_read(
    spark: SparkSession, broker: PenstockServer, codec: str
) -> None:
    topic = f"written-{codec}"
    sent = orders(spark, min(MANY, 5_000))
    write(sent, broker, "kafka", topic, **{"kafka.compression.type": codec})
    theirs = read(spark, broker, "kafka", topic)
    assert contents(theirs) == contents(sent)
    ours = read(spark, broker, "penstock", topic)
    assert ours.schema == theirs.schema
    assert located(ours) == located(theirs)


def test_what_we_write_the_connector_reads(spark: SparkSession, broker: PenstockServer) -> None:
    sent = orders(spark, min(MANY, 5_000))
    write(sent, broker, "penstock", "ours", createTopics="true")
    assert contents(read(spark, broker, "kafka", "ours")) == contents(sent)


def located(rows: DataFrame) -> list[Row]:
    """All rows and all columns, by partition and offset."""
    return rows.orderBy("partition", "offset").collect()


def test_the_two_agree_on_every_option(spark: SparkSession, broker: PenstockServer) -> None:
    write(orders(spark, 400), broker, "kafka", "options")
    rows = located(read(spark, broker, "kafka", "options"))
    partitions = sorted({row.partition for row in rows})
    middle = int(rows[len(rows) // 2].timestamp.timestamp() * 1000)
    some = json.dumps({"options": {str(one): 3 for one in partitions}})
    ends = json.dumps({"options": {str(one): -1 if one % 2 else 20 for one in partitions}})
    times = json.dumps({"options": {str(one): middle for one in partitions}})
    tries: list[Options] = [
        {"startingOffsets": some},
        {"startingOffsets": some, "endingOffsets": ends},
        {"startingTimestamp": str(middle)},
        {"startingOffsetsByTimestamp": times},
        {"endingTimestamp": str(middle)},
        {"minPartitions": "9"},
        {"maxRecordsPerPartition": "17"},
    ]
    for options in tries:
        theirs = located(read(spark, broker, "kafka", "options", **options))
        assert theirs, options
        assert located(read(spark, broker, "penstock", "options", **options)) == theirs, options


def copy(
    spark: SparkSession, broker: PenstockServer, place: Path, source: str, target: str
) -> list[int]:
    """Copy a topic by a stream of small batches, as far as it goes now; returns their sizes."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.kafka)
        .options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="600")
        .option("includeHeaders", "true")
        .load()
        .select("key", "value", "headers")
    )
    query = (
        rows.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.kafka)
        .options(topic=target, includeHeaders="true", checkpointLocation=str(place))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WITHIN_SECONDS)
    sizes = [progress.numInputRows for progress in query.recentProgress]
    return [size for size in sizes if size]


def test_a_stream_copies_a_topic_and_goes_on_where_it_was(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    write(orders(spark, 2_000), broker, "kafka", "streamed")
    first = copy(spark, broker, tmp_path, "streamed", "copied")
    assert len(first) >= 4
    assert sum(first) == 2_000
    write(orders(spark, 500), broker, "kafka", "streamed")
    assert sum(copy(spark, broker, tmp_path, "streamed", "copied")) == 500
    expected = contents(read(spark, broker, "penstock", "streamed"))
    assert len(expected) == 2_500
    assert contents(read(spark, broker, "kafka", "copied")) == expected


def test_many_rows_through_the_connector(spark: SparkSession, broker: PenstockServer) -> None:
    write(orders(spark, MANY), broker, "kafka", "many", **{"kafka.compression.type": "lz4"})
    for kind in ("kafka", "penstock"):
        rows = read(spark, broker, kind, "many")
        found = rows.agg(
            functions.count("*"), functions.countDistinct("partition", "offset")
        ).first()
        assert found is not None
        assert tuple(found) == (MANY, MANY), kind
