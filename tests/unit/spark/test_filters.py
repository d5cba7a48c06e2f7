"""What filters leave of a read."""

from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from penstock.spark.reading.columns import row_schema
from penstock.spark.reading.filters import FilteringReader, earliest_ms, narrow, wanted_keys
from penstock.spark.reading.ranges import Stretch
from penstock.spark.reading.read_options import read_options

ALL = [Stretch("orders", 0, 10, 20), Stretch("orders", 1, 10, 20), Stretch("payments", 0, 10, 20)]
PARTITION, OFFSET, TOPIC, TIMESTAMP, KEY = (
    (name,) for name in ("partition", "offset", "topic", "timestamp", "key")
)


def left(*filters: Filter) -> list[tuple[str, int, int, int]]:
    return [(one.topic, one.partition, one.start, one.end) for one in narrow(ALL, filters)]


def test_other_partitions_are_not_read() -> None:
    assert left(EqualTo(PARTITION, 1)) == [("orders", 1, 10, 20)]
    assert left(EqualTo(TOPIC, "payments")) == [("payments", 0, 10, 20)]
    assert left(In(TOPIC, ("payments", "refunds")), LessThan(PARTITION, 1)) == [
        ("payments", 0, 10, 20)
    ]
    assert left(GreaterThan(PARTITION, 1)) == []


def test_offsets_make_stretches_shorter() -> None:
    assert left(
        EqualTo(TOPIC, "payments"), GreaterThan(OFFSET, 12), LessThanOrEqual(OFFSET, 15)
    ) == [("payments", 0, 13, 16)]
    assert left(EqualTo(OFFSET, 10), EqualTo(PARTITION, 1)) == [("orders", 1, 10, 11)]
    assert left(GreaterThanOrEqual(OFFSET, 20)) == []
    assert left(LessThan(OFFSET, 11), EqualTo(PARTITION, 1)) == [("orders", 1, 10, 11)]


def test_only_a_lower_bound_of_the_time_is_of_use() -> None:
    second, third = (datetime(2026, 1, day, tzinfo=UTC) for day in (2, 3))
    assert earliest_ms([GreaterThan(TIMESTAMP, second), GreaterThanOrEqual(TIMESTAMP, third)]) == (
        int(third.timestamp() * 1_000)
    )
    assert earliest_ms([LessThan(TIMESTAMP, second)]) is None


def test_keys() -> None:
    assert wanted_keys([EqualTo(KEY, bytearray(b"a"))]) == pa.array([b"a"], type=pa.binary())
    both = [In(KEY, (b"a", b"b")), EqualTo(KEY, b"b")]
    assert wanted_keys(both) == pa.array([b"b"], type=pa.binary())
    assert wanted_keys([EqualTo(TOPIC, "orders")]) is None


def test_spark_filters_everything_again() -> None:
    options = read_options(
        {"url": "penstock://one", "subscribe": "orders", "pushFilters": "true"}, is_stream=False
    )
    reader = FilteringReader(row_schema(include_headers=False), options)
    filters: list[Filter] = [IsNotNull(KEY), EqualTo(KEY, b"a"), EqualTo(("value", "x"), 1)]
    assert list(reader.pushFilters(filters)) == filters
