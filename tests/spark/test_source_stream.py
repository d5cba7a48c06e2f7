"""Streams of real topics through real Spark: micro-batches, limits, restarts, changing topics."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock import blocking
from penstock.blocking import BlockingClient
from penstock.spark import lag
from penstock.testing import PenstockServer

SECONDS = 120


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with blocking.connect(broker.url) as connected:
        yield connected


class Stream:
    """A query that is run several times, each time up to the end of what there is."""

    def __init__(self, spark: SparkSession, broker: PenstockServer, path: Path) -> None:
        self.rows: list[tuple[str, int, int]] = []
        self.sizes: list[int] = []
        self._spark = spark
        self._broker = broker
        self._path = path

    def load(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("penstock").option("url", self._broker.url)
        return reader.options(**options).load()

    def run(self, **options: str) -> StreamingQuery:
        """All that there is now."""
        query = (
            self.load(**options)
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS)
        return query

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.select("topic", "partition", "offset").collect()
        self.rows += [(row[0], row[1], row[2]) for row in rows]
        self.sizes.append(len(rows))

    def offsets(self) -> dict[str, Any]:
        """What the checkpoint has written last."""
        numbers = [
            int(one.name) for one in (self._path / "offsets").iterdir() if one.name.isdigit()
        ]
        text = (self._path / "offsets" / str(max(numbers))).read_text()
        found: dict[str, Any] = json.loads(text.splitlines()[-1])
        return found


@pytest.fixture
def stream(spark: SparkSession, broker: PenstockServer, tmp_path: Path) -> Stream:
    return Stream(spark, broker, tmp_path / "checkpoint")


def send(client: BlockingClient, topic: str, partition: int, count: int) -> None:
    client.topic(topic).send_many([b"x" * 100] * count, partition=partition)


def test_micro_batches_are_limited_and_go_on_where_they_were(
    stream: Stream, client: BlockingClient
) -> None:
    client.create_topic("limited", partitions=2)
    send(client, "limited", 0, 600)
    send(client, "limited", 1, 200)
    query = stream.run(subscribe="limited", startingOffsets="earliest", maxOffsetsPerTrigger="400")
    assert stream.sizes == [400, 400]
    first, last = (
        lag(progress) for progress in (query.recentProgress[0], query.recentProgress[-1])
    )
    assert [(row.partition, row.end, row.latest, row.lag) for row in first] == [
        (0, 300, 600, 300),
        (1, 100, 200, 100),
    ]
    assert all(row.rate > 0 for row in first)
    assert [row.lag for row in last] == [0, 0]
    assert stream.offsets() == {"limited": {"0": 600, "1": 200}}
    send(client, "limited", 1, 50)
    stream.run(subscribe="limited", startingOffsets="earliest", maxBytesPerTrigger="3000")
    assert sum(stream.sizes[2:]) == 50
    assert len(stream.sizes) > 3  # About 110 bytes a message.
    wanted = [("limited", 0, n) for n in range(600)] + [("limited", 1, n) for n in range(250)]
    assert sorted(stream.rows) == wanted


def test_partitions_and_topics_that_appear_are_read_from_their_beginning(
    stream: Stream, client: BlockingClient
) -> None:
    client.create_topic("grow.one", partitions=1)
    send(client, "grow.one", 0, 3)
    options = {"subscribePattern": "grow\\..*", "startingOffsets": "latest"}
    stream.run(**options)
    assert stream.rows == []
    client.add_partitions("grow.one", 2)
    client.create_topic("grow.two", partitions=1)
    send(client, "grow.one", 1, 2)
    send(client, "grow.two", 0, 1)
    stream.run(**options)
    assert sorted(stream.rows) == [("grow.one", 1, 0), ("grow.one", 1, 1), ("grow.two", 0, 0)]


@pytest.mark.long
def test_what_is_deleted_before_it_is_read_ends_the_query_or_does_not(
    stream: Stream, client: BlockingClient, broker: PenstockServer
) -> None:
    client.create_topic("fleeting", partitions=1)
    options = {"subscribe": "fleeting", "startingOffsets": "earliest"}
    send(client, "fleeting", 0, 5)
    stream.run(**options)
    send(client, "fleeting", 0, 5)
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.kafka)
    admin.delete_records({kafka.TopicPartition("fleeting", 0): 8})
    admin.close()
    with pytest.raises(StreamingQueryException, match="messages 5 to 7 of partition 0 of fleeting"):
        stream.run(**options)
    stream.run(**options, failOnDataLoss="false")
    assert stream.sizes == [5, 2]


def test_a_running_stream_is_fast_to_see_what_comes(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    client.create_topic("running", partitions=1)
    frame = (
        spark.readStream.format("penstock")
        .options(subscribe="running", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
        .option("kafka.bootstrap.servers", broker.kafka)
        .load()
    )
    query = (
        frame.writeStream.format("memory")
        .queryName("running")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        query.processAllAvailable()
        send(client, "running", 0, 10)
        query.processAllAvailable()
        assert spark.table("running").count() == 10
    finally:
        query.stop()


def test_an_unknown_topic_is_told_of_at_once(stream: Stream, client: BlockingClient) -> None:
    client.create_topic("known", partitions=1)
    with pytest.raises(StreamingQueryException, match="perhaps known was meant"):
        stream.run(subscribe="knwon")
