"""Rows as Spark hands them over, in the columns that records are made of, and what is wrong.

Each row is looked at before anything is encoded, by whole columns. What is wrong with a row is a
`Complaint`: which rows, and why. A row has at most one, the first found.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.client.seconds import SECONDS_MAX
from penstock.core.queue_rules import PRIORITIES
from penstock.spark.sink.encoder import DELAY, HEADERS, KEY, PRIORITY, TIMESTAMP, VALUE

TOPIC: Final = "topic"
PARTITION: Final = "partition"

_HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))

Mask = NDArray[np.bool_]


class Complaints:
    """The errors in some rows of a batch: for each row the number of a reason, or 0."""

    def __init__(self, rows: int) -> None:
        self.reasons: list[str] = [""]
        self.by_row = np.zeros(rows, np.int32)

    def add(self, wrong: Mask, reason: str) -> None:
        """Say it of these rows, but of those that have a complaint already."""
        wrong = wrong & (self.by_row == 0)
        if wrong.any():
            self.by_row[wrong] = len(self.reasons)
            self.reasons.append(reason)

    @property
    def any(self) -> bool:
        return len(self.reasons) > 1

    @property
    def bad(self) -> Mask:
        bad: Mask = self.by_row != 0
        return bad

    def first(self) -> tuple[int, str]:
        """The first bad row and what is wrong with it."""
        row = int(np.flatnonzero(self.bad)[0])
        return row, self.reasons[self.by_row[row]]


def read_rows(
    table: pa.RecordBatch, *, keep_timestamps: bool, now_ms: int
) -> tuple[pa.RecordBatch, Complaints]:
    """The rows in the columns that `encoding` takes, with `topic` and `partition` if there are."""
    given = {name.lower(): table.column(place) for place, name in enumerate(table.schema.names)}
    complaints = Complaints(table.num_rows)
    columns: dict[str, pa.Array] = {VALUE: given[VALUE].cast(pa.binary())}
    if KEY in given:
        columns[KEY] = given[KEY].cast(pa.binary())
    if TOPIC in given and _is_text(given[TOPIC].type):  # Otherwise the option `topic` counts.
        columns[TOPIC] = given[TOPIC].cast(pa.string())
    if PARTITION in given:
        columns[PARTITION] = given[PARTITION].cast(pa.int64())
    if HEADERS in given:
        columns[HEADERS] = _headers(given[HEADERS], complaints)
    if PRIORITY in given:
        columns[PRIORITY] = _priority(given[PRIORITY], complaints)
    if DELAY in given:
        columns[DELAY] = _delay_ms(given[DELAY], complaints)
    if keep_timestamps and TIMESTAMP in given:
        micros = given[TIMESTAMP].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        known = micros.fill_null(now_ms * 1_000).to_numpy()
        columns[TIMESTAMP] = pa.array(known // 1_000)
    return pa.RecordBatch.from_pydict(columns), complaints


def _headers(lists: pa.Array, complaints: Complaints) -> pa.ListArray:
    made = lists.cast(_HEADERS_TYPE)
    flat = made.flatten()
    unnamed = flat.is_null() if flat.null_count else pc.struct_field(flat, [0]).is_null()
    if flat.null_count:
        unnamed = pc.or_(unnamed, pc.struct_field(flat, [0]).is_null())
    if pc.any(unnamed).as_py():
        rows = np.zeros(len(made), np.bool_)
        rows[made.value_parent_indices().filter(unnamed).to_numpy()] = True
        complaints.add(rows, "a header has no name: give each header a key")
    return made


def _priority(given: pa.Array, complaints: Complaints) -> pa.Int64Array:
    numbers = given.cast(pa.int64())
    wrong = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, PRIORITIES))
    complaints.add(_mask(wrong), f"its priority is not between 0 and {PRIORITIES - 1}")
    return numbers


def _delay_ms(given: pa.Array, complaints: Complaints) -> pa.Int64Array:
    """Whole milliseconds, rounded up, as the Python client counts a delay."""
    if pa.types.is_duration(given.type):
        seconds = pc.divide(
            given.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), 1_000_000.0
        )
    else:
        seconds = given.cast(pa.float64())
    fits = pc.and_(pc.greater_equal(seconds, 0.0), pc.less_equal(seconds, float(SECONDS_MAX)))
    complaints.add(_mask(pc.invert(fits)), f"its delay is not between 0 and {SECONDS_MAX} seconds")
    seconds = pc.if_else(fits, seconds, pa.scalar(0.0))  # A missing one stays missing.
    return pc.ceil(pc.round(pc.multiply(seconds, 1000.0), 6)).cast(pa.int64())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _mask(column: pa.BooleanArray) -> Mask:
    mask: Mask = column.fill_null(False).to_numpy(zero_copy_only=False)
    return mask
