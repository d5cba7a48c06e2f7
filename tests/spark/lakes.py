"""Topics with known messages, for tests of the lake."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from penstock import Outgoing
from penstock.client.record import Record
from penstock.spark.connections import client_of, run
from penstock.spark.lake.lake import Lake

EPOCH = datetime(2026, 1, 30, 23, 0, tzinfo=UTC)
Rows = list[tuple[int, int, bytes]]


def make_topic(url: str, name: str, *, partitions: int = 2) -> None:
    """Its messages are of January, and stay."""
    configs = {"retention.ms": "-1"}
    run(client_of(url).create_topic(name, partitions=partitions, configs=configs))


def send(url: str, topic: str, numbers: Iterable[int], *, partitions: int = 2) -> None:
    """Message n goes to partition n mod `partitions`, at n minutes after `EPOCH`."""
    messages = [
        Outgoing(
            b"message %d" % number,
            key=b"key-%d" % (number % 5),
            headers={"id": str(number)},
            partition=number % partitions,
            timestamp=EPOCH + timedelta(minutes=number),
        )
        for number in numbers
    ]

    async def go() -> None:
        await client_of_topic.send_many(messages)

    client_of_topic = client_of(url).topic(topic, codec=bytes)
    run(go())


def read(url: str, topic: str) -> "list[Record[bytes]]":
    """All messages of a topic, from its broker."""
    client = client_of(url)

    async def go() -> "list[Record[bytes]]":
        return [one async for one in client.read(topic, codec=bytes)]

    return run(go())


def log_rows_of(url: str, topic: str) -> Rows:
    """What a log has: partition, offset, value."""
    return sorted((one.partition, one.offset, one.raw) for one in read(url, topic))


def lake_rows_of(root: str, topic: str) -> Rows:
    """What whoever follows the manifest finds, without Spark."""
    found: Rows = []
    for file in Lake.open(root).catalog.files_of(topic):
        table = pq.read_table(f"{root}/{file.path}", partitioning=None)
        columns = (table[name].to_pylist() for name in ("partition", "offset", "value"))
        found += zip(*columns, strict=True)
    return sorted(found)


def delete_before(kafka: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Retention, by hand: what it would remove is removed now."""
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    try:
        admin.delete_records(
            {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        )
    finally:
        admin.close()
