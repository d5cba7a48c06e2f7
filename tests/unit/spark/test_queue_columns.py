"""What a message of a queue says of itself, as columns."""

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.core.errors import InvalidRequest
from penstock.spark.queues.queue_columns import QueueColumns, queue_schema

Headers = list[tuple[str, bytes | None]] | None


def decoded(columns: QueueColumns, rows: list[tuple[bytes | None, Headers]]) -> pa.RecordBatch:
    """Messages with these keys and headers, as they come from the decoder."""
    made = {
        "key": [key for key, _ in rows],
        "headers": [
            None if said is None else [{"key": name, "value": value} for name, value in said]
            for _, said in rows
        ],
    }
    arrays = [
        pa.array(made.get(field.name, [None] * len(rows)), field.type) for field in columns.decoded
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.decoded)


def test_priorities_and_groups_are_found() -> None:
    columns = QueueColumns(queue_schema(include_headers=False))
    rows: list[tuple[bytes | None, Headers]] = [
        (b"k", None),
        (None, []),
        (None, [("color", b"red"), ("penstock-priority", b"9"), ("penstock-group", b"g")]),
        (b"k", [("penstock-priority", b"12")]),
        (None, [("penstock-priority", b"high"), ("penstock-group", None)]),
        (None, [("penstock-priority", None), ("penstock-group", b"\xff")]),
        (None, [("penstock-priority", b"1"), ("penstock-priority", b"2")]),
    ]
    batch = columns.complete(decoded(columns, rows), fifo=False)
    assert batch.schema.names == queue_schema(include_headers=False).names
    assert batch.column("priority").to_pylist() == [4, 4, 9, 9, 4, 4, 2]
    assert batch.column("groupId").to_pylist() == [None, None, "g", None, None, "\ufffd", None]
    batch = columns.complete(decoded(columns, rows), fifo=True)
    assert batch.column("groupId").to_pylist() == ["k", "", "g", "k", "", "\ufffd", ""]


def test_only_what_is_needed_is_decoded() -> None:
    narrow = QueueColumns(StructType([StructField("priority", IntegerType())]))
    assert narrow.decoded.names == ["headers", "key"]
    plain = QueueColumns(StructType([queue_schema(include_headers=False)["offset"]]))
    assert plain.decoded.names == ["offset"]
    batch = narrow.complete(decoded(narrow, [(None, [("penstock-priority", b"7")])]), fifo=False)
    assert batch.to_pydict() == {"priority": [7]}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("priority", StringType()), "priority is INT"),
        (StructField("groupId", StringType(), nullable=False), "may be null"),
        (StructField("deliveries", IntegerType()), "no column deliveries"),
    ],
)
def test_other_columns_are_refused(field: StructField, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        QueueColumns(StructType([field]))
