"""History and tail: lake and log read as one, each offset once."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.core.errors import ForeignDirectory, InvalidRequest, LocalError, OffsetOutOfRange
from penstock.spark import archive, history, register_history, register_table_function
from penstock.spark.connections import client_of, run
from penstock.testing import PenstockServer
from tests.spark.lakes import EPOCH, Rows, delete_before, log_rows_of, make_topic, send

pytestmark = pytest.mark.long


def rows_of(found: DataFrame) -> Rows:
    return sorted(
        (row["partition"], row["offset"], bytes(row["value"]))
        for row in found.select("partition", "offset", "value").collect()
    )


def test_lake_and_log_are_one(spark: SparkSession, broker: PenstockServer, tmp_path: Path) -> None:
    """Retention takes what the lake has, more is archived, more is sent: always all of it."""
    root = str(tmp_path)
    make_topic(broker.url, "tale")
    send(broker.url, "tale", range(100))
    everything = log_rows_of(broker.url, "tale")
    assert rows_of(history(spark, root, "tale", broker.url)) == everything, "no lake yet"
    archive(spark, root, "tale", url=broker.url)
    send(broker.url, "tale", range(100, 140))
    everything = log_rows_of(broker.url, "tale")
    assert rows_of(history(spark, root, "tale", broker.url)) == everything
    delete_before(broker.kafka, "tale", {0: 30, 1: 50})
    found = history(spark, root, "tale", broker.url)
    assert found.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert rows_of(found) == everything
    register_history(spark, "tale", root, "tale", broker.url)
    (row,) = spark.sql(
        "SELECT count(*) AS n, count(DISTINCT partition, offset) AS d, min(topic) AS t FROM tale"
    ).collect()
    assert (row["n"], row["d"], row["t"]) == (140, 140, "tale")
    register_table_function(spark)
    (row,) = spark.sql(
        "SELECT count(*) AS n, count(DISTINCT partition, offset) AS d, max(value) AS v"
        f" FROM penstock_history('{root}', 'tale', '{broker.url}')"
    ).collect()
    assert (row["n"], row["d"], row["v"]) == (140, 140, b"message 99")
    # Only the lake, and only some hours of it.
    since, until = EPOCH + timedelta(minutes=10), EPOCH + timedelta(minutes=20)
    part = history(spark, root, "tale", since=since, until=until)
    assert [row[2] for row in rows_of(part)] == [
        b"message %d" % n for n in (*range(10, 20, 2), *range(11, 20, 2))
    ]


def test_a_gap_is_an_error_unless_told_otherwise(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path)
    make_topic(broker.url, "torn", partitions=1)
    send(broker.url, "torn", range(20), partitions=1)
    archive(spark, root, "torn", url=broker.url)
    send(broker.url, "torn", range(20, 40), partitions=1)
    delete_before(broker.kafka, "torn", {0: 25})
    with pytest.raises(OffsetOutOfRange, match="offsets 20–24 of torn, partition 0, are neither"):
        history(spark, root, "torn", broker.url)
    found = rows_of(history(spark, root, "torn", broker.url, fail_on_data_loss=False))
    assert [row[1] for row in found] == [*range(20), *range(25, 40)]


def test_what_is_no_history_is_told(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path)
    with pytest.raises(LocalError, match="has nothing of topic reborn"):
        history(spark, root, "reborn")
    make_topic(broker.url, "reborn", partitions=1)
    send(broker.url, "reborn", range(5), partitions=1)
    archive(spark, root, "reborn", url=broker.url)
    run(client_of(broker.url).delete_topic("reborn"))
    make_topic(broker.url, "reborn", partitions=1)
    with pytest.raises(ForeignDirectory, match="not one history"):
        history(spark, root, "reborn", broker.url)
    with pytest.raises(InvalidRequest, match="has no time zone"):
        history(spark, root, "reborn", since=EPOCH.replace(tzinfo=None))
