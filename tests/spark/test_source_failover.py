"""The node that leads a partition is killed while a task reads it: not a row is lost or doubled."""

import concurrent.futures
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock import blocking
from penstock.testing import LocalCluster

MESSAGES = 40_000
BODY = bytes(1_000)
SECONDS = 60


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def test_a_task_survives_its_leader(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    with blocking.connect(cluster.url) as client:
        client.create_topic("orders", partitions=1)
        client.topic("orders").send_many([BODY] * MESSAGES)
        leader = client.describe_topic("orders").partitions[0].leader
    begun, killed = tmp_path / "begun", tmp_path / "killed"
    frame = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", cluster.kafka)
        .option("subscribe", "orders")
        .load()
        .select("offset", "value")
        .mapInArrow(stop_at_first(str(begun), str(killed)), "offset BIGINT, value BINARY")
        .agg(
            F.count("*").alias("all"),
            F.countDistinct("offset").alias("different"),
            F.max("offset").alias("last"),
            F.sum(F.length("value")).alias("size"),
        )
    )
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        counting = pool.submit(frame.collect)
        # 40 MB do not fit what lies between the broker and the function that waits: most of it is
        # still to be fetched.
        wait_for(begun)
        cluster.kill(leader)
        killed.touch()
        (found,) = counting.result()
    assert found.asDict() == {
        "all": MESSAGES,
        "different": MESSAGES,
        "last": MESSAGES - 1,
        "size": MESSAGES * len(BODY),
    }


def stop_at_first(
    begun: str, killed: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands on what comes, and after the first of it waits for a node to be killed."""

    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 0:
                Path(begun).touch()
                deadline = time.monotonic() + 60
                while not Path(killed).exists():
                    assert time.monotonic() < deadline, "nobody was killed"
                    time.sleep(0.01)
            yield batch

    return hand_on


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not happen"
        time.sleep(0.01)
