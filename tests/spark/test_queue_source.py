"""A queue as a source: read by offset, settled after the commit, failed rows dead with a reason."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

import penstock
from penstock.client.blocking import BlockingClient
from penstock.spark import bury, split, watch
from penstock.testing import PenstockServer

pytestmark = pytest.mark.long

PATIENCE_SECONDS = 180
Handle = Callable[[DataFrame, int], None]


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with penstock.blocking.connect(broker.url) as connected:
        yield connected


class Stream:
    """A query on one queue, which notes what its batches held."""

    def __init__(
        self, spark: SparkSession, broker: PenstockServer, queue: str, place: Path
    ) -> None:
        self.spark = spark
        self.place = place
        self.options = {"kafka.bootstrap.servers": broker.kafka, "queue": queue}
        self.batches: dict[int, list[int]] = {}
        self.handle: Handle = lambda _rows, _batch: None

    def each(self, rows: DataFrame, batch: int) -> None:
        found = rows.select("partition", "offset").collect()
        self.batches[batch] = sorted(row.offset for row in found)
        self.handle(rows, batch)

    def start(self, **trigger: Any) -> StreamingQuery:
        rows = self.spark.readStream.format("penstock").options(**self.options).load()
        writing = rows.writeStream.foreachBatch(self.each)
        writing = writing.option("checkpointLocation", str(self.place))
        return writing.trigger(**(trigger or {"availableNow": True})).start()

    def run(self) -> dict[int, list[int]]:
        """All there is now; what the batches of this run held."""
        self.batches = {}
        query = self.start()
        query.awaitTermination(PATIENCE_SECONDS)
        assert not query.isActive
        return self.batches


@pytest.fixture
def stream(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Stream:
    """On a queue that has the test's name."""
    return Stream(spark, broker, request.node.name, tmp_path / "checkpoint")


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def stand(client: BlockingClient, queue: str, group: str = "queue") -> tuple[int, int, int]:
    """Done, dead, left to do."""
    stats = client.queue(queue, group=group).stats()
    return stats.acked, stats.dead, stats.depth


# Reading.


def test_a_row_says_what_the_message_says(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_queue("rows", fifo=True, priorities="strict")
    queue = client.queue("rows")
    queue.send("one", key="k", priority=9, headers={"color": "red"})
    queue.send("two", message_group="g")
    queue.send("three", delay=3_600)
    queue.send("four")
    options = {"url": broker.url, "queue": "rows"}
    rows = spark.read.format("penstock").options(**options).load().collect()
    assert [(row.value, row.priority, row.groupId, row.offset) for row in rows] == [
        (b"one", 9, "k", 0),
        (b"two", 4, "g", 1),
    ]
    assert stand(client, "rows") == (0, 0, 4), "a batch read settles nothing"
    narrow = spark.read.format("penstock").schema("groupId STRING").options(**options).load()
    assert [row.groupId for row in narrow.collect()] == ["k", "g"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "a,b"}, "name one queue"),
        ({"queue": "a", "subscribe": "b"}, "subscribe is for topics"),
        ({"queue": "a", "startingOffsets": '{"a": {"0": 3}}'}, "earliest or latest"),
        ({"queue": "a", "workGroup": " "}, "workGroup is empty"),
        ({"queue": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_read_is_refused(
    spark: SparkSession, broker: PenstockServer, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("penstock").options(url=broker.url, **options).load().collect()


# Settling.


def test_what_was_committed_is_settled_and_nothing_else(
    stream: Stream, client: BlockingClient
) -> None:
    queue = stream.options["queue"]
    client.create_queue(queue)
    client.queue(queue, group="others").begin()
    client.send_many(queue, range(10))
    stream.options["maxOffsetsPerTrigger"] = "4"
    seen: list[tuple[int, int, int]] = []

    def fail(_rows: DataFrame, batch: int) -> None:
        seen.append(stand(client, queue))
        if batch == 1:
            raise ValueError("this batch fails")

    stream.handle = fail
    with pytest.raises(StreamingQueryException):
        stream.run()
    assert stream.batches == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}
    assert seen == [(0, 0, 10), (4, 0, 6)], "a batch is settled before the next one runs"
    assert stand(client, queue) == (4, 0, 6)
    stream.handle = lambda _rows, _batch: None
    assert stream.run() == {1: [4, 5, 6, 7], 2: [8, 9]}, "it is read again"
    assert stand(client, queue) == (10, 0, 0)
    assert stand(client, queue, "others") == (0, 0, 10), "others have everything to do"
    assert len(client.receive(queue, 20, group="others")) == 10
    client.send(queue, 10)
    assert stream.run() == {3: [10]}
    assert stand(client, queue) == (11, 0, 0)


def test_the_last_batch_is_settled_while_no_other_comes(
    stream: Stream, client: BlockingClient
) -> None:
    queue = stream.options["queue"]
    client.create_queue(queue)
    client.send_many(queue, range(5))
    client.send(queue, "later", delay=3_600)
    client.send(queue, "behind it")
    query = stream.start(processingTime="1 hour")
    try:
        until(lambda: stand(client, queue) == (5, 0, 2))
    finally:
        query.stop()
    assert stream.batches == {0: [0, 1, 2, 3, 4]}, "what waits for its time is not handed out"


def test_a_restart_settles_what_the_checkpoint_says(
    stream: Stream, spark: SparkSession, client: BlockingClient
) -> None:
    queue = stream.options["queue"]
    client.create_queue(queue)
    client.send_many(queue, range(5))
    listener = spark.__dict__.pop("_penstock_progress")
    spark.streams.removeListener(listener)
    try:
        query = stream.start(processingTime="1 hour")
        until((stream.place / "commits" / "0").exists)
        query.stop()
        assert stand(client, queue) == (0, 0, 5), "nobody could know"
        assert stream.run() == {}
        assert stand(client, queue) == (5, 0, 0)
    finally:
        watch(spark)


def test_a_driver_that_is_killed(stream: Stream, client: BlockingClient, tmp_path: Path) -> None:
    """It dies in the middle of a batch, without a word: what was committed is settled, what was not
    is not; and after the restart all of it is done, each message in one committed batch."""
    queue = stream.options["queue"]
    client.create_queue(queue, partitions=2)
    client.send_many(queue, range(60))
    noted = tmp_path / "noted"
    driver = subprocess.Popen(
        [sys.executable, __file__, stream.options["kafka.bootstrap.servers"], queue],
        env={**os.environ, "PLACE": str(stream.place), "NOTED": str(noted)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert driver.wait(2 * PATIENCE_SECONDS) == -signal.SIGKILL
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    first = [json.loads(line) for line in noted.read_text().splitlines()]
    committed = {int(one.name) for one in (stream.place / "commits").glob("[0-9]*")}
    assert committed == {0, 1}
    sizes = dict(first)
    assert stand(client, queue) == (sizes[0] + sizes[1], 0, 60 - sizes[0] - sizes[1])
    stream.options["maxOffsetsPerTrigger"] = "20"
    again = stream.run()
    assert len(again[2]) == sizes[2], "the batch that was interrupted is the same"
    assert sum(map(len, again.values())) == 60 - sizes[0] - sizes[1]
    assert stand(client, queue) == (60, 0, 0)


def die_in_the_third_batch(kafka: str, queue: str) -> None:
    """A driver of its own process group, which kills all of it."""
    from penstock.spark import session

    def each(rows: DataFrame, batch: int) -> None:
        with open(os.environ["NOTED"], "a") as file:
            file.write(json.dumps([batch, rows.count()]) + "\n")
        if batch == 2:
            os.killpg(0, signal.SIGKILL)

    rows = session("killed", master="local[2]").readStream.format("penstock")
    rows = rows.options(**{"kafka.bootstrap.servers": kafka, "queue": queue})
    writing = rows.option("maxOffsetsPerTrigger", "20").load().writeStream.foreachBatch(each)
    writing = writing.option("checkpointLocation", os.environ["PLACE"])
    writing.trigger(availableNow=True).start().awaitTermination(PATIENCE_SECONDS)


# Failures.


def odd_ones_fail(stream: Stream, *, crash_at: int = -1) -> Handle:
    """Numbers that are odd die; after burying those of a batch, somebody may crash."""

    def handle(rows: DataFrame, batch: int) -> None:
        number = sql.col("value").cast("string").cast("int")
        why = sql.concat(sql.col("value").cast("string"), sql.lit(" is odd"))
        checked = rows.withColumn("reason", sql.when(number % 2 == 1, why))
        good, bad = split(checked)
        assert "reason" not in good.columns
        bury(bad, stream.options, batch)
        if batch == crash_at:
            raise ValueError("after burying")

    return handle


def test_failed_rows_are_dead_letters(
    stream: Stream,
    client: BlockingClient,
    broker: PenstockServer,
    capfd: pytest.CaptureFixture[str],
) -> None:
    queue = stream.options["queue"]
    client.create_queue("odd-letters")
    client.create_queue(queue, deliveries_max=3, dead_letter="odd-letters")
    client.send_many(queue, range(1, 7))
    stream.handle = odd_ones_fail(stream, crash_at=0)
    with pytest.raises(StreamingQueryException):
        stream.run()
    assert stand(client, queue)[0] == 0, "what was not committed is not done"
    until(lambda: client.describe_topic(queue).partitions[0].start == 1)  # The first one has gone.
    stream.handle = odd_ones_fail(stream)
    assert stream.run() == {0: [1, 2, 3, 4, 5]}
    letters = client.queue("odd-letters")
    until(lambda: letters.stats().ready == 3)
    assert stand(client, queue) == (3, 0, 0)
    assert client.queue(queue).stats().moved == 3
    peeked = letters.peek(10)
    assert sorted(one.body for one in peeked) == [1, 3, 5]
    with urllib.request.urlopen(f"{broker.http_url}/v1/queues/odd-letters/messages") as answer:
        assert b"3 is odd" in answer.read()
    run_command(broker, "redrive", "odd-letters")
    until(lambda: client.queue(queue).stats().ready == 3)
    stream.handle = lambda _rows, _batch: None
    assert stream.run() == {1: [6, 7, 8]}, "they came back as new messages"
    assert stand(client, queue) == (6, 0, 0)
    assert letters.stats().depth == 0
    capfd.readouterr()


def test_those_that_are_kept_aside_come_back_where_they_were(
    stream: Stream, client: BlockingClient, broker: PenstockServer
) -> None:
    queue = stream.options["queue"]
    client.create_queue(queue, dead_letter="")
    client.send_many(queue, range(6))
    stream.options["workGroup"] = "spark"
    stream.handle = odd_ones_fail(stream)
    assert stream.run() == {0: [0, 1, 2, 3, 4, 5]}
    assert stand(client, queue, "spark") == (3, 3, 0)
    dead = client.queue(queue, group="spark").peek(10, states=["dead"])
    assert [(one.offset, one.reason) for one in dead] == [
        (1, "1 is odd"),
        (3, "3 is odd"),
        (5, "5 is odd"),
    ]
    assert stand(client, queue) == (0, 0, 6), "the workers' group is another"
    assert int(client.queue(queue, group="spark").redrive()) == 3
    client.send(queue, 6)
    stream.handle = lambda _rows, _batch: None
    assert stream.run() == {1: [1, 3, 5, 6]}
    assert stand(client, queue, "spark") == (7, 0, 0)


# Topics.


def test_a_topic_that_names_a_group_shows_its_lag(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    client.create_topic("lagging", partitions=1)
    client.send_many("lagging", range(7))
    rows = spark.readStream.format("penstock").options(
        **{
            "url": broker.url,
            "subscribe": "lagging",
            "startingOffsets": "earliest",
            "kafka.group.id": "spark-readers",
        }
    )
    writing = rows.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    writing.trigger(availableNow=True).start().awaitTermination(PATIENCE_SECONDS)

    def is_told() -> bool:
        groups = {one.name for one in client.groups()}
        if "spark-readers" not in groups:
            return False
        (part,) = client.describe_group("spark-readers").partitions
        return (part.committed, part.end) == (7, 7)

    until(is_told)


def test_failed_rows_of_a_topic_are_copied_once(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    client.create_topic("numbers", partitions=1)
    client.send_many("numbers", range(4), key="k", headers={"color": "red"})
    stream = Stream(spark, broker, "", tmp_path)
    stream.options = {
        "url": broker.url,
        "subscribe": "numbers",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    stream.handle = odd_ones_fail(stream, crash_at=0)
    with pytest.raises(StreamingQueryException):
        stream.run()
    stream.handle = odd_ones_fail(stream)
    stream.run()
    letters = list(client.read("numbers_dlq", codec=bytes))
    assert [(one.key, one.body, one.headers["color"]) for one in letters] == [
        (b"k", b"1", b"red"),
        (b"k", b"3", b"red"),
    ]
    assert [one.dead_letter.reason for one in letters if one.dead_letter] == [
        "1 is odd",
        "3 is odd",
    ]


def run_command(broker: PenstockServer, *arguments: str) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    where = {"PENSTOCK_URL": f"penstock://{broker.places.kafka}"}
    subprocess.run(command, check=True, env={**os.environ, **where}, timeout=PATIENCE_SECONDS)


if __name__ == "__main__":
    die_in_the_third_batch(*sys.argv[1:3])
