"""What is encoded by columns is, byte for byte, what the client's own writer makes of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.producer.compression import CODES, OFF, Compression
from penstock.client.producer.outgoing_message import Outgoing
from penstock.core.message import Header, NewMessage
from penstock.core.message_batches import build_messages, read_messages
from penstock.core.record_bodies import CODEC_MASK, encode_varint
from penstock.core.records import BATCH_HEADER_BYTES, check_batch
from penstock.spark.sink.encoder import cut_batches, encode_batches, record_parts, record_sizes
from penstock.spark.sink.varints import varint_rows, varint_sizes

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150, database=None)
NOW = 1_700_000_000_000
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Row:
    """One row of all columns."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    priority: int | None
    delay: int | None
    timestamp: int

    def message(self, columns: Sequence[str]) -> NewMessage:
        """The message that the client makes of it, if only these columns count."""
        has = set(columns)
        delivery_headers = Outgoing(
            b"",
            priority=self.priority if "priority" in has else None,
            delay=None if "delay" not in has or self.delay is None else self.delay / 1_000,
        )
        headers: tuple[Header, ...] = tuple(delivery_headers._all_headers())
        if "headers" in has:
            headers += tuple(self.headers or ())
        return NewMessage(
            self.value,
            self.key if "key" in has else None,
            headers,
            self.timestamp if "timestamp" in has else -1,
        )


BYTES = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(bytes, st.sampled_from([57, 63, 64, 8_191, 8_192])),
)
ROW = st.builds(
    Row,
    value=BYTES,
    key=BYTES,
    headers=st.none() | st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=3),
    priority=st.none() | st.integers(0, 9),
    delay=st.none() | st.integers(0, 10**9),
    timestamp=st.one_of(st.just(NOW), st.integers(0, NOW * 2)),
)
COLUMNS = st.sets(st.sampled_from(["key", "headers", "priority", "delay", "timestamp"]))


def to_columns(rows: Sequence[Row], columns: Sequence[str]) -> pa.RecordBatch:
    """The rows as the encoder takes them, a few more before and after that are cut off."""
    made: dict[str, pa.Array] = {
        "value": pa.array([row.value for row in rows], pa.binary()),
        "key": pa.array([row.key for row in rows], pa.binary()),
        "headers": pa.array(
            [
                None if row.headers is None else [(name.encode(), v) for name, v in row.headers]
                for row in rows
            ],
            HEADERS_TYPE,
        ),
        "priority": pa.array([row.priority for row in rows], pa.int64()),
        "delay": pa.array([row.delay for row in rows], pa.int64()),
        "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
    }
    return pa.RecordBatch.from_pydict({name: made[name] for name in ("value", *columns)})


@REPEATABLE
@given(st.lists(ROW, min_size=1, max_size=150), COLUMNS, st.data())
def test_bytes_are_those_of_the_client(
    rows: list[Row], chosen: set[str], data: st.DataObject
) -> None:
    columns = sorted(chosen)
    # A slice of a column begins in the middle of its buffers.
    skipped = data.draw(st.integers(0, len(rows) - 1))
    taken = rows[skipped:]
    parts = record_parts(to_columns(rows, columns).slice(skipped))
    ends = sorted(data.draw(st.sets(st.integers(1, len(taken)), max_size=4)) | {len(taken)})
    cuts = list(zip([0, *ends[:-1]], ends, strict=True))
    batches = list(encode_batches(parts, cuts, now_ms=NOW, compression=OFF))
    wanted = [
        build_messages([row.message(columns) for row in taken[first:end]], NOW)
        for first, end in cuts
    ]
    assert batches == wanted
    sizes = record_sizes(parts)
    for (first, end), batch in zip(cuts, batches, strict=True):
        assert check_batch(batch).record_count == end - first
        assert len(batch) <= BATCH_HEADER_BYTES + int(sizes[first:end].sum())


@pytest.mark.parametrize("codec", list(CODES))
def test_compressed_batches_are_read_back(codec: str) -> None:
    rows = [Row(b"a message that repeats" * 9, b"key", None, None, None, NOW)] * 500
    parts = record_parts(to_columns(rows, ["key"]))
    compression = Compression(codec=codec, threshold_bytes=0)  # type: ignore[arg-type]
    (batch,) = encode_batches(parts, [(0, 500)], now_ms=NOW, compression=compression)
    assert check_batch(batch).attributes & CODEC_MASK == CODES[codec]  # type: ignore[index]
    assert len(batch) < 20_000
    found = read_messages(batch)
    assert [(one.key, one.value) for one in found] == [(b"key", rows[0].value)] * 500


def test_what_does_not_shrink_is_not_compressed() -> None:
    noise = np.random.default_rng(7).bytes(1_000)
    parts = record_parts(to_columns([Row(noise, None, None, None, None, NOW)], []))
    compression = Compression(codec="lz4", threshold_bytes=0)
    (batch,) = encode_batches(parts, [(0, 1)], now_ms=NOW, compression=compression)
    assert check_batch(batch).attributes == 0


@REPEATABLE
@given(
    st.lists(st.integers(1, 90), max_size=60),
    st.integers(100, 400),
    st.integers(1, 12),
    st.integers(0, 60),
)
def test_cuts_are_full_and_not_too_full(
    sizes: list[int], bytes_max: int, records_max: int, middle: int
) -> None:
    middle = min(middle, len(sizes))
    runs = [(0, middle, bytes_max), (middle, len(sizes), bytes_max + 50)]
    cuts = cut_batches(np.array(sizes, np.int64), runs, records_max=records_max)
    assert [row for first, end in cuts for row in range(first, end)] == list(range(len(sizes)))
    for first, end in cuts:
        limit = (bytes_max if first < middle else bytes_max + 50) - BATCH_HEADER_BYTES
        run_end = middle if first < middle else len(sizes)
        total = sum(sizes[first:end])
        assert end <= run_end
        assert end - first <= records_max
        assert total <= limit or end - first == 1
        assert end == run_end or end - first == records_max or total + sizes[end] > limit


@REPEATABLE
@given(
    st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-3, 300)), max_size=30)
)
def test_varints_are_the_ordinary_ones(pairs: list[tuple[int, int]]) -> None:
    large, small = (np.array([pair[place] for pair in pairs], np.int64) for place in (0, 1))
    assert varint_rows([large, 5, small], len(pairs)).to_pylist() == [
        encode_varint(one) + encode_varint(5) + encode_varint(other) for one, other in pairs
    ]
    assert varint_sizes(large).tolist() == [len(encode_varint(one)) for one, _ in pairs]
