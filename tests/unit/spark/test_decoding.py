"""What is decoded to columns is what the client's own reader reads, for any batches whatever."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.core.errors import InvalidBatch
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import frame_records, pack_messages, read_messages
from penstock.core.record_bodies import LOG_APPEND_TIME, pack_body, read_records, rebuild_batch
from penstock.core.records import BATCH_HEADER_BYTES, stamp_batch
from penstock.core.types import Offset, Term
from penstock.spark.reading.columns import arrow_schema, row_schema
from penstock.spark.reading.decoder import ARROW_BYTES_MAX, Decoder

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=60, database=None)
NOW = 1_700_000_000_000
EVERYTHING = 1 << 60
SCHEMA = arrow_schema(row_schema(include_headers=True))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

BYTES = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(bytes, st.sampled_from([57, 63, 64, 8_191, 8_192])),
)
MESSAGE = st.builds(
    NewMessage,
    value=BYTES,
    key=BYTES,
    headers=st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=3).map(tuple),
    timestamp_ms=st.one_of(st.just(NOW), st.integers(0, NOW * 2)),
)
ALIKE = st.tuples(MESSAGE, st.integers(1, 200)).map(lambda drawn: [drawn[0]] * drawn[1])
MESSAGES = st.one_of(
    st.lists(MESSAGE, min_size=1, max_size=12),
    ALIKE,
    st.lists(ALIKE, min_size=2, max_size=3).map(lambda runs: [one for run in runs for one in run]),
)
BATCH = st.tuples(MESSAGES, st.sampled_from([0, 0, 1, 2, 3, 4]), st.booleans())


def pack(messages: Sequence[NewMessage], codec: int = 0, *, log_time: bool = False) -> bytearray:
    records, base_ms, max_ms = pack_messages(messages, NOW)
    attributes = codec | (LOG_APPEND_TIME if log_time else 0)
    packed = pack_body(records, codec)
    return frame_records(
        packed, len(messages), base_ms=base_ms, max_ms=max_ms, attributes=attributes
    )


def append(log: bytearray, batch: bytearray, offset: int, count: int) -> int:
    stamp_batch(batch, base_offset=Offset(offset), epoch=Term(1))
    log += batch
    return offset + count


def decode(
    data: bytes | bytearray, start: int = 0, end: int = EVERYTHING, schema: pa.Schema = SCHEMA
) -> list[dict[str, Any]]:
    decoder = Decoder(schema, "orders", 3)
    batches = list(decoder.decode(memoryview(data), start, end))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(schema)
    return [row for batch in batches for row in batch.to_pylist()]


def row_of(message: Message, *, log_time: bool = False) -> dict[str, Any]:
    headers = [{"key": name, "value": value} for name, value in message.headers]
    return {
        "key": message.key,
        "value": message.value,
        "topic": "orders",
        "partition": 3,
        "offset": message.offset,
        "timestamp": EPOCH + timedelta(milliseconds=message.timestamp_ms),
        "timestampType": int(log_time),
        "headers": headers or None,
    }


@REPEATABLE
@given(st.lists(BATCH, min_size=1, max_size=4), st.integers(0, 300), st.integers(0, 300))
def test_columns_are_what_the_reader_of_the_client_reads(
    batches: list[tuple[list[NewMessage], int, bool]], start: int, length: int
) -> None:
    log = bytearray()
    offset = 0
    rows: list[dict[str, Any]] = []
    for messages, codec, log_time in batches:
        batch = pack(messages, codec, log_time=log_time)
        offset = append(log, batch, offset, len(messages))
        rows += [row_of(message, log_time=log_time) for message in read_messages(batch)]
    assert decode(log) == rows
    wanted = [row for row in rows if start <= row["offset"] < start + length]
    assert decode(log, start, start + length) == wanted
    for name in SCHEMA.names:
        pruned = decode(log, start, start + length, pa.schema([SCHEMA.field(name)]))
        assert pruned == [{name: row[name]} for row in wanted]


@REPEATABLE
@given(MESSAGES, st.sampled_from([0, 3]), st.randoms(use_true_random=False))
def test_batches_that_lost_records_have_gaps(
    messages: list[NewMessage], codec: int, random: Random
) -> None:
    opened = read_records(pack(messages, codec))
    kept = [one for one in opened.records if random.random() < 0.5] or opened.records[-1:]
    log = bytearray()
    batch = bytearray(rebuild_batch(opened, kept))
    append(log, batch, 70, len(messages))
    rows = [row_of(message) for message in read_messages(batch)]
    assert decode(log) == rows
    offsets = pa.schema([SCHEMA.field("offset"), SCHEMA.field("partition")])
    assert decode(log, schema=offsets) == [
        {"offset": row["offset"], "partition": 3} for row in rows
    ]


@REPEATABLE
@given(MESSAGES, st.integers(BATCH_HEADER_BYTES, 100_000), st.integers(0, 255))
def test_whatever_is_wrong_with_a_batch_it_is_refused_or_read_as_the_client_does(
    messages: list[NewMessage], place: int, octet: int
) -> None:
    batch = pack(messages)
    place = BATCH_HEADER_BYTES + place % (len(batch) - BATCH_HEADER_BYTES)
    batch[place] = octet
    before, after = pack([NewMessage(b"before")] * 3), pack([NewMessage(b"after")] * 3)
    log = bytearray()
    end = append(log, before, 0, 3)
    end = append(log, batch, end, len(messages))
    append(log, after, end, 3)
    try:
        wanted = [row_of(one) for one in (*read_messages(before), *read_messages(batch))]
    except (InvalidBatch, OverflowError):  # The latter: no datetime is as late as that.
        wanted = []
    try:
        found = decode(log, end=end)
    except (InvalidBatch, OverflowError, ValueError):
        # Stricter than the client in one thing only: a name that is no UTF-8 is replaced there.
        assert not wanted
        return
    assert not wanted or found == wanted


def test_a_lie_about_a_length_reads_nothing_beyond() -> None:
    batch = pack([NewMessage(b"x" * 40, key=b"k")] * 100)
    stamp_batch(batch, base_offset=Offset(0), epoch=Term(1))
    for size in range(len(batch)):
        with pytest.raises(InvalidBatch):
            decode(batch[:size] or b"?")
    length, time, offset, key_length, value_length = 0, 2, 3, 4, 6
    for place in (length, time, offset, key_length, value_length):
        lying = bytearray(batch)
        lying[BATCH_HEADER_BYTES + place] = 0xFE  # A number that goes on into what follows.
        with pytest.raises(InvalidBatch):
            decode(lying, schema=SCHEMA)


def test_times_that_no_calendar_has_are_null() -> None:
    batch = pack([NewMessage(b"x", timestamp_ms=1 << 62), NewMessage(b"y", timestamp_ms=5)])
    found = decode(batch, schema=pa.schema([SCHEMA.field("timestamp")]))
    assert [row["timestamp"] for row in found] == [None, EPOCH + timedelta(milliseconds=5)]


def test_marks_of_transactions_are_no_messages() -> None:
    log = bytearray()
    mark = pack([NewMessage(b"mark")])
    mark[22] |= 0x20
    append(log, mark, 0, 1)
    append(log, pack([NewMessage(b"message")]), 1, 1)
    assert [row["value"] for row in decode(log)] == [b"message"]


def test_a_record_with_very_many_headers_is_read() -> None:
    headers = tuple((f"name {number}", b"%d" % number) for number in range(300))
    batch = pack([NewMessage(b"x", headers=headers), NewMessage(b"y"), NewMessage(b"z")])
    assert decode(batch) == [row_of(message) for message in read_messages(batch)]


def test_large_batches_are_cut() -> None:
    batch = pack([NewMessage(b"0123456789" * 100)] * 20_000, 3)
    decoder = Decoder(SCHEMA, "orders", 0)
    sizes = [one.nbytes for one in decoder.decode(memoryview(batch), 0, EVERYTHING)]
    assert len(sizes) > 3
    assert max(sizes) < 1.1 * ARROW_BYTES_MAX


def test_the_schema_is_what_spark_makes_of_the_columns() -> None:
    everything = row_schema(include_headers=True)
    assert isinstance(everything, StructType)
    assert SCHEMA.equals(to_arrow_schema(everything, timezone="UTC"))


def test_what_unpacks_to_much_is_not_gathered() -> None:
    log = bytearray()
    offset = 0
    for _ in range(6):
        batch = pack([NewMessage(bytes(100_000))] * 60, 4)
        assert len(batch) < 10_000
        offset = append(log, batch, offset, 60)
    decoder = Decoder(SCHEMA, "orders", 0)
    found = list(decoder.decode(memoryview(log), 0, EVERYTHING))
    assert sum(one.num_rows for one in found) == 360
    assert len(found) >= 6
    assert max(one.nbytes for one in found) < 1.1 * ARROW_BYTES_MAX
