"""The columns that a message of a queue has more than one of a topic.

    priority   INT      0 to 9, 4 if the message does not say
    groupId    STRING   its message group: in a FIFO queue its line, which is its key if it says
                        nothing; null if there is none

They are what the message says of itself (`core.delivery_headers`). How often it was delivered is
not among them: a stream reads the log, and is handed nothing that could be counted.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest
from penstock.core.queue_rules import DEFAULT_PRIORITY, PRIORITIES
from penstock.spark.reading.columns import HEADERS, arrow_schema, check_schema, row_schema

PRIORITY: Final = "priority"
GROUP_ID: Final = "groupId"
_OURS: Final = {PRIORITY: (IntegerType(), pa.int32()), GROUP_ID: (StringType(), pa.string())}
_DIGITS: Final = "^[0-9]{1,15}$"


def queue_schema(*, include_headers: bool) -> StructType:
    """The columns of a message, and those that only queues have."""
    ours = [StructField(name, kind) for name, (kind, _) in _OURS.items()]
    return StructType([*row_schema(include_headers=include_headers).fields, *ours])


class QueueColumns:
    """The columns of a query, checked; and what must be decoded for them."""

    def __init__(self, schema: StructType) -> None:
        plain = [field for field in schema.fields if field.name not in _OURS]
        ours = [field for field in schema.fields if field.name in _OURS]
        check_schema(StructType(plain or row_schema(include_headers=False).fields[:1]))
        for field in ours:
            kind = _OURS[field.name][0]
            if field.dataType != kind or not field.nullable:
                raise InvalidRequest(
                    f"the column {field.name} is {kind.simpleString().upper()}, and may be null"
                )
        self.names = tuple(schema.names)
        needed = [field.name for field in plain]
        if ours:
            needed += [name for name in (HEADERS, "key") if name not in needed]
        everything = row_schema(include_headers=True)
        self.decoded = arrow_schema(StructType([everything[name] for name in needed or ["offset"]]))

    def complete(self, batch: pa.RecordBatch, *, fifo: bool) -> pa.RecordBatch:
        """The columns that are wanted, out of those that were decoded."""
        made: dict[str, Any] = {}
        if PRIORITY in self.names:
            made[PRIORITY] = _priorities(batch)
        if GROUP_ID in self.names:
            made[GROUP_ID] = _groups(batch, fifo=fifo)
        columns = [made[name] if name in made else batch.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch))

    def schema(self, batch: pa.RecordBatch) -> pa.Schema:
        """Return the schema exactly as Spark requires it."""
        return pa.schema(
            [
                pa.field(name, _OURS[name][1]) if name in _OURS else batch.schema.field(name)
                for name in self.names
            ]
        )


def _said(batch: pa.RecordBatch, name: str) -> tuple[Any, Any]:
    """The rows that have a header of this name, and its values."""
    headers = batch.column(HEADERS)
    flat = headers.flatten()
    mask = pc.equal(flat.field("key"), name)
    rows = pc.list_parent_indices(headers).filter(mask)
    return rows.to_numpy(zero_copy_only=False), flat.field("value").filter(mask)


def _priorities(batch: pa.RecordBatch) -> Any:
    found = np.full(batch.num_rows, DEFAULT_PRIORITY, dtype=np.int32)
    rows, values = _said(batch, delivery_headers.PRIORITY)
    if len(rows):
        texts = [
            value.decode("latin-1") if value is not None else "" for value in values.to_pylist()
        ]
        numbers = pa.array(texts, pa.string())
        legible = pc.match_substring_regex(numbers, _DIGITS).to_numpy(zero_copy_only=False)
        chosen = [
            min(int(text), PRIORITIES - 1) for text, ok in zip(texts, legible, strict=True) if ok
        ]
        found[rows[legible]] = chosen
    return pa.array(found)


def _groups(batch: pa.RecordBatch, *, fifo: bool) -> Any:
    found: list[bytes | None] = [None] * batch.num_rows
    if fifo:
        found = [key or b"" for key in batch.column("key").to_pylist()]
    rows, values = _said(batch, delivery_headers.GROUP)
    for row, value in zip(rows.tolist(), values.to_pylist(), strict=True):
        found[row] = value or found[row]
    texts = [None if one is None else one.decode("utf-8", "replace") for one in found]
    return pa.array(texts, pa.string())
