"""A stream as Spark drives it, without Spark: what the driver is told, and what tasks read."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from penstock.core.errors import OffsetOutOfRange, UnknownTopic
from penstock.spark.connections import client_of, close_clients, run
from penstock.spark.reading.columns import row_schema
from penstock.spark.reading.read_options import read_options
from penstock.spark.reading.stream_reader import Json, PenstockStreamReader, from_json, to_json
from penstock.testing import PenstockServer

AS_SPARK_DOES: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]


@pytest.fixture
def url() -> Iterator[str]:
    with PenstockServer() as broker:
        run(client_of(broker.url).create_topic("orders", partitions=2))
        yield broker.url
        close_clients()


def stream(url: str, **options: str) -> PenstockStreamReader:
    given = {"url": url, "subscribe": "orders", "startingOffsets": "earliest", **options}
    return PenstockStreamReader(
        row_schema(include_headers=False), read_options(given, is_stream=True)
    )


def send(url: str, partition: int, count: int, topic: str = "orders") -> None:
    client = client_of(url)
    run(client.topic(topic, codec=bytes).send_many([bytes(100)] * count, partition=partition))


def latest(reader: PenstockStreamReader, start: Json) -> Json:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def rows(reader: PenstockStreamReader, start: Json, end: Json) -> list[tuple[int, int]]:
    """What the tasks read, each with its own copy of the reader."""
    tasks = reader.partitions(start, end)
    found = []
    for task in tasks:
        worker, its_task = AS_SPARK_DOES.loads(AS_SPARK_DOES.dumps((reader, task)))
        for batch in worker.read(its_task):
            found += [(row["partition"], row["offset"]) for row in batch.to_pylist()]
    return sorted(found)


def test_from_micro_batch_to_micro_batch(url: str) -> None:
    send(url, 0, 5)
    reader = stream(url)
    start = reader.initialOffset()
    assert start == {"orders": {"0": 0, "1": 0}}
    first = latest(reader, start)
    assert reader.reportLatestOffset() == {"orders": {"0": 5, "1": 0}}
    assert first == {"orders": {"0": 5, "1": 0}, ":began": start}
    assert rows(reader, start, first) == [(0, offset) for offset in range(5)]
    assert latest(reader, first) is first
    send(url, 1, 2)
    second = latest(reader, first)
    assert rows(reader, first, second) == [(1, 0), (1, 1)]
    assert rows(stream(url), start, second) == [*((0, n) for n in range(5)), (1, 0), (1, 1)]
    assert stream(url, startingOffsets="latest").initialOffset() == second


def test_a_query_begins_once(url: str) -> None:
    """Spark asks where it begins for each look at the first micro-batch, and again after a crash
    in it; meanwhile "latest" has moved on."""
    send(url, 0, 5)
    reader = stream(url, startingOffsets="latest")
    start = reader.initialOffset()
    send(url, 0, 3)
    end = latest(reader, start)
    send(url, 0, 4)
    assert reader.initialOffset() == start
    assert rows(reader, reader.initialOffset(), end) == [(0, 5), (0, 6), (0, 7)]
    after_a_crash = stream(url, startingOffsets="latest")
    wrong = after_a_crash.initialOffset()
    assert wrong["orders"]["0"] == 12
    assert rows(after_a_crash, wrong, end) == [(0, 5), (0, 6), (0, 7)]
    assert rows(after_a_crash, end, latest(after_a_crash, end)) == [(0, n) for n in range(8, 12)]


def test_limits(url: str) -> None:
    send(url, 0, 90)
    send(url, 1, 30)
    start = {"orders": {"0": 0, "1": 0}}
    limited = stream(url, maxOffsetsPerTrigger="40")
    assert limited.getDefaultReadLimit() == ReadMaxRows(40)
    assert latest(limited, start) == {"orders": {"0": 30, "1": 10}}
    everything = {"orders": {"0": 90, "1": 30}}
    assert limited.latestOffset(start, ReadAllAvailable()) == everything
    weighed = stream(url, maxBytesPerTrigger="1000")
    assert weighed.getDefaultReadLimit() == ReadMaxBytes(1000)
    found = latest(weighed, start)["orders"]
    assert 0 < found["0"] + found["1"] < 120
    patient = stream(url, minOffsetsPerTrigger="130", maxTriggerDelay="1h")
    assert patient.getDefaultReadLimit() == ReadMinRows(130)
    assert latest(patient, start) == everything  # The first time, nobody has waited for long.
    send(url, 0, 5)
    assert latest(patient, everything) == everything
    send(url, 0, 125)
    assert latest(patient, everything) == {"orders": {"0": 220, "1": 30}}


def test_available_now_does_not_pass_its_target(url: str) -> None:
    send(url, 0, 3)
    reader = stream(url, maxOffsetsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    send(url, 0, 3)
    start = reader.initialOffset()
    first = latest(reader, start)
    assert first == {"orders": {"0": 2, "1": 0}, ":began": start}
    assert latest(reader, first) == {"orders": {"0": 3, "1": 0}}


def test_what_a_process_has_seen_does_not_shrink(url: str) -> None:
    send(url, 0, 3)
    reader = stream(url)
    beyond = {"orders": {"0": 9, "1": 0}}
    with pytest.raises(OffsetOutOfRange, match="partition 0 of orders ends at 3, and was read up"):
        reader.partitions({"orders": {"0": 3, "1": 0}}, beyond)
    seen = latest(reader, {"orders": {"0": 0, "1": 0}})
    assert seen == {"orders": {"0": 3, "1": 0}}
    assert latest(reader, beyond) == beyond
    (task,) = reader.partitions(seen, beyond)
    assert repr(task) == "Task(orders:0:3-9)"


def test_topics_that_come_and_go(url: str) -> None:
    send(url, 0, 3)
    reader = pattern(url)
    start = reader.initialOffset()
    run(client_of(url).create_topic("or-more", partitions=1))
    send(url, 0, 2, "or-more")
    end = latest(reader, start)
    assert end == {"or-more": {"0": 2}, "orders": {"0": 3, "1": 0}, ":began": start}
    assert rows(reader, start, end) == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2)]
    run(client_of(url).delete_topic("orders"))
    with pytest.raises(OffsetOutOfRange, match="orders has been deleted"):
        latest(pattern(url), end)
    assert latest(pattern(url, failOnDataLoss="false"), end) == end
    with pytest.raises(UnknownTopic, match="no topic orders"):
        stream(url).initialOffset()


def pattern(url: str, **options: str) -> PenstockStreamReader:
    given = {"url": url, "subscribePattern": "or.*", "startingOffsets": "earliest", **options}
    return PenstockStreamReader(
        row_schema(include_headers=False), read_options(given, is_stream=True)
    )


def test_offsets_are_always_written_in_the_same_order() -> None:
    offsets = {"b": {"10": 1, "2": 3}, "a": {"0": 7}}
    assert str(to_json(from_json(offsets))) == str({"a": {"0": 7}, "b": {"2": 3, "10": 1}})
