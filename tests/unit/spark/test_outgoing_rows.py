"""Rows are read as Spark hands them over, and what is wrong with one is said of that one."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.client.seconds import to_milliseconds
from penstock.spark.sink.outgoing_rows import Complaints, read_rows

NOW = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def read(
    *, keep_timestamps: bool = False, **columns: pa.Array
) -> tuple[pa.RecordBatch, Complaints]:
    rows = len(next(iter(columns.values())))
    columns.setdefault("value", pa.array([b"v"] * rows))
    table = pa.RecordBatch.from_pydict(columns)
    return read_rows(table, keep_timestamps=keep_timestamps, now_ms=NOW)


def reasons(complaints: Complaints) -> dict[int, str]:
    return {
        row: complaints.reasons[reason] for row, reason in enumerate(complaints.by_row) if reason
    }


def test_text_becomes_bytes_and_names_have_no_case() -> None:
    table = pa.RecordBatch.from_pydict({"Value": pa.array(["ü", None]), "KEY": pa.array(["k", ""])})
    rows, complaints = read_rows(table, keep_timestamps=False, now_ms=NOW)
    assert rows.to_pydict() == {"value": ["ü".encode(), None], "key": [b"k", b""]}
    assert not complaints.any


@pytest.mark.parametrize("seconds", [0, 1, 0.1 * 3, 0.0001, 1.5, 86_400, 3.0000000001, 12345.6789])
def test_a_delay_is_what_the_client_makes_of_it(seconds: float) -> None:
    rows, complaints = read(delay=pa.array([seconds, None], pa.float64()))
    assert rows.column("delay").to_pylist() == [to_milliseconds(seconds, "delay"), None]
    assert not complaints.any


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2], pa.int32()),
        pa.array([2], pa.int64()),
        pa.array([Decimal("2.00")], pa.decimal128(10, 2)),
        pa.array([timedelta(seconds=2)], pa.duration("us")),
    ],
)
def test_a_delay_may_be_any_number_or_an_interval(column: pa.Array) -> None:
    rows, _ = read(delay=column)
    assert rows.column("delay").to_pylist() == [2_000]


def test_delays_and_priorities_that_cannot_be() -> None:
    _, complaints = read(
        delay=pa.array([1.0, -0.5, float("nan"), float("inf"), 1e10, None]),
        priority=pa.array([0, 3, None, 9, 4, 10], pa.int32()),
    )
    said = reasons(complaints)
    assert set(said) == {1, 2, 3, 4, 5}
    assert said[1] == said[4] == "its delay is not between 0 and 3162240000 seconds"
    assert said[5] == "its priority is not between 0 and 9"


def test_a_header_needs_a_name() -> None:
    column = pa.array(
        [
            [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
            None,
            [],
            [{"key": "a", "value": b""}, {"key": None, "value": b"2"}],
            [None],
        ],
        HEADERS,
    )
    rows, complaints = read(headers=column)
    assert set(reasons(complaints)) == {3, 4}
    assert rows.column("headers")[0].as_py() == [
        {"key": b"a", "value": b"1"}, {"key": b"b", "value": None}
    ]  # fmt: skip


def test_a_topic_column_that_is_none_is_left_out() -> None:
    rows, _ = read(topic=pa.array([["a"], None]))
    assert rows.schema.names == ["value"]


def test_times_are_kept_only_if_asked() -> None:
    when = datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)
    column = pa.array([when, None], pa.timestamp("us", "UTC"))
    rows, _ = read(timestamp=column)
    assert rows.schema.names == ["value"]
    rows, _ = read(timestamp=column, keep_timestamps=True)
    assert rows.column("timestamp").to_pylist() == [-1, NOW]
