"""Replay: what is chosen is sent once, in order, and says where it came from."""

import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import InvalidRequest, LocalError, PenstockError, UnknownTopic
from penstock.spark import archive, replay
from penstock.spark.jobs.replay import ReplayStep
from penstock.testing import PenstockServer
from tests.spark.lakes import EPOCH, delete_before, make_topic, read, send

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def old(
    spark: SparkSession, broker: PenstockServer, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A lake of the first 120 messages of `old`; its log has those from 60 on, up to 160."""
    root = str(tmp_path_factory.mktemp("lake"))
    make_topic(broker.url, "old")
    send(broker.url, "old", range(120))
    archive(spark, root, "old", url=broker.url)
    send(broker.url, "old", range(120, 160))
    delete_before(broker.kafka, "old", {0: 30, 1: 30})
    return root


def numbers_of(url: str, topic: str) -> list[int]:
    return [int(one.raw.split()[1]) for one in read(url, topic)]


def test_a_key_is_replayed_from_lake_and_log_once(
    spark: SparkSession, broker: PenstockServer, old: str
) -> None:
    make_topic(broker.url, "again", partitions=3)
    counted = replay(
        spark, "old", "again", name="by-key", url=broker.url, lake=old, key="key-3", dry_run=True
    )
    assert (counted.matched, counted.sent) == (32, 0)
    assert read(broker.url, "again") == []
    done = replay(spark, "old", "again", name="by-key", url=broker.url, lake=old, key="key-3")
    assert (done.matched, done.sent) == (32, 32)
    found = read(broker.url, "again")
    assert sorted(numbers_of(broker.url, "again")) == list(range(3, 160, 5))
    for one in found:
        number = int(one.raw.split()[1])
        assert one.key == b"key-3"
        assert one.headers == {
            "id": str(number).encode(),
            "replayed-topic": b"old",
            "replayed-partition": b"%d" % (number % 2),
            "replayed-offset": b"%d" % (number // 2),
        }
    again = replay(spark, "old", "again", name="by-key", url=broker.url, lake=old, key="key-3")
    assert (again.matched, again.sent) == (32, 0)
    assert len(read(broker.url, "again")) == 32
    with pytest.raises(InvalidRequest, match="was begun with key = 'key-3', and now it is 'key-4'"):
        replay(spark, "old", "again", name="by-key", url=broker.url, lake=old, key="key-4")


def test_a_replay_that_was_stopped_goes_on(
    spark: SparkSession, broker: PenstockServer, old: str
) -> None:
    """At a rate of 20 a second, windows hold about 40; one is sent, then it is stopped."""
    make_topic(broker.url, "halves")
    stop = threading.Event()
    steps: list[ReplayStep] = []

    def told(step: ReplayStep) -> None:
        steps.append(step)
        stop.set()

    send_them = partial(
        replay, spark, "old", "halves", name="halves", url=broker.url, lake=old,
        keep_partitions=True,
    )  # fmt: skip
    first = send_them(rate=20, stop=stop, told=told)
    assert len(steps) == 1
    assert 0 < first.sent == steps[0].rows <= 42 < first.matched == 160
    assert len(read(broker.url, "halves")) == first.sent
    second = send_them()
    assert second.sent == 160 - first.sent
    found = read(broker.url, "halves")
    for partition in (0, 1):
        own = [int(one.raw.split()[1]) for one in found if one.partition == partition]
        assert own == list(range(partition, 160, 2)), "each partition in its order"


def test_times_and_predicates_choose(spark: SparkSession, broker: PenstockServer, old: str) -> None:
    make_topic(broker.url, "chosen")
    done = replay(
        spark,
        "old",
        "chosen",
        name="chosen",
        url=broker.url,
        lake=old,
        since=EPOCH + timedelta(minutes=100),
        until=EPOCH + timedelta(minutes=140),
        where="CAST(value AS STRING) LIKE '%7'",
        keep_timestamps=True,
    )
    assert done.sent == 4
    assert sorted(numbers_of(broker.url, "chosen")) == [107, 117, 127, 137]
    times = {int(one.raw.split()[1]): one.timestamp_ms for one in read(broker.url, "chosen")}
    assert times[107] == int((EPOCH + timedelta(minutes=107)).timestamp() * 1_000)


def test_what_cannot_be_replayed_is_told(
    spark: SparkSession, broker: PenstockServer, old: str, tmp_path: Path
) -> None:
    make_topic(broker.url, "target")
    url = broker.url
    with pytest.raises(UnknownTopic, match="nowhere"):
        replay(spark, "old", "nowhere", name="x", url=url)
    with pytest.raises(UnknownTopic, match="nothing"):
        replay(spark, "nothing", "target", name="x", url=url)
    with pytest.raises(LocalError, match="has nothing of topic old"):
        replay(spark, "old", "target", name="x", url=url, lake=str(tmp_path))
    with pytest.raises(InvalidRequest, match="rate = 0"):
        replay(spark, "old", "target", name="x", url=url, rate=0)
    with pytest.raises(InvalidRequest, match="1 to 150 characters"):
        replay(spark, "old", "target", name="", url=url)
    with pytest.raises(InvalidRequest, match="this cannot choose messages: nocolumn = 1"):
        replay(spark, "old", "target", name="x", url=url, where="nocolumn = 1")
    with pytest.raises(PenstockError, match="CAST_INVALID_INPUT"):
        replay(
            spark,
            "old",
            "target",
            name="x",
            url=url,
            where="CAST(CAST(value AS STRING) AS INT) = 1",
        )
    assert read(url, "target") == []
