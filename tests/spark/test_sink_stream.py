"""`df.writeStream.format("penstock")`: every micro-batch is written once, whatever is repeated."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock import blocking
from penstock.blocking import BlockingClient
from penstock.testing import PenstockServer

ENDED_WITHIN_SECONDS = 60


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with blocking.connect(broker.url) as connected:
        yield connected


class Copying:
    """A stream from one topic to another, run again and again."""

    def __init__(
        self, spark: SparkSession, broker: PenstockServer, client: BlockingClient, name: str
    ) -> None:
        self.spark, self.url, self.client = spark, broker.url, client
        self.source, self.sink = f"{name}-in", f"{name}-out"
        client.create_topic(self.source, partitions=2)
        client.create_topic(self.sink, partitions=3)
        self._sent = 0

    def send(self, count: int) -> None:
        bodies = [b"%d" % row for row in range(self._sent, self._sent + count)]
        self.client.topic(self.source, codec=bytes).send_many(bodies)
        self._sent += count

    @property
    def rows(self) -> DataFrame:
        return (
            self.spark.readStream.format("penstock")
            .option("url", self.url)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 60)
            .load()
            .select("value")
        )

    def run(self, checkpoint: Path, **options: str) -> None:
        """Copy what is there."""
        query = (
            self.rows.writeStream.format("penstock")
            .option("url", self.url)
            .option("topic", self.sink)
            .option("checkpointLocation", str(checkpoint))
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(ENDED_WITHIN_SECONDS), "the query has not ended"
        finally:
            query.stop()

    def check(self) -> None:
        """Every row is there, once."""
        found = Counter(record.raw for record in self.client.read(self.sink))
        assert found == Counter({b"%d" % row: 1 for row in range(self._sent)})


def last_batch(checkpoint: Path) -> int:
    return max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died when the batch was published and Spark had not noted it."""
    name = str(last_batch(checkpoint))
    (checkpoint / "commits" / name).unlink()
    (checkpoint / "commits" / f".{name}.crc").unlink(missing_ok=True)


def test_a_repeated_batch_adds_nothing_and_the_stream_goes_on(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    copying = Copying(spark, broker, client, "repeat")
    copying.send(100)
    copying.run(tmp_path / "first")
    copying.check()
    assert last_batch(tmp_path / "first") >= 1
    forget_last_commit(tmp_path / "first")
    copying.send(50)
    copying.run(tmp_path / "first")
    copying.check()
    copying.run(tmp_path / "first")  # Nothing is new, and nothing happens.
    copying.check()


@pytest.mark.long
def test_a_driver_that_has_gone_back_writes_nothing(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    """A second driver with a copy of the checkpoint, or one that was restored from a backup."""
    copying = Copying(spark, broker, client, "back")
    copying.send(30)
    copying.run(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    copying.send(80)
    copying.run(tmp_path / "first")
    with pytest.raises(StreamingQueryException, match="another driver runs it"):
        copying.run(tmp_path / "copy")
    copying.check()


@pytest.mark.long
def test_a_new_checkpoint_under_an_old_name_is_refused(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    copying = Copying(spark, broker, client, "named")
    copying.send(30)
    copying.run(tmp_path / "first", appId="copier")
    assert client.last_published("copier") == 0
    # Its batch 0 is not the other's batch 0: to drop it would lose what has come since.
    copying.send(5)
    with pytest.raises(StreamingQueryException, match="batch 0 of copier was not written"):
        copying.run(tmp_path / "second", appId="copier")
    copying.run(tmp_path / "first", appId="copier")
    copying.check()


@pytest.mark.long
def test_batches_of_foreach_batch_are_written_once(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    copying = Copying(spark, broker, client, "foreach")
    copying.send(70)
    url, sink = broker.url, copying.sink

    def write(rows: DataFrame, batch: int) -> None:
        writing = rows.write.format("penstock").option("url", url).option("topic", sink)
        writing.option("appId", "foreach").option("batchId", batch).mode("append").save()

    for _ in range(2):
        query = (
            copying.rows.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(ENDED_WITHIN_SECONDS)
        copying.check()
        forget_last_commit(tmp_path)


def test_a_stream_says_what_is_wrong(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    copying = Copying(spark, broker, client, "wrong")
    copying.send(1)
    with pytest.raises(StreamingQueryException, match="leave out batchId"):
        copying.run(tmp_path / "first", appId="a", batchId="1")
    assert client.describe_topic(copying.sink).messages == 0
