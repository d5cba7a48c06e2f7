"""Rows of Arrow columns as Kafka record batches, without a step of Python for each row.

A record is a few short numbers, a key, a value and headers, one after the other (`core.records` and
`core.record_bodies` have the layout). So the numbers are made for all rows at once (`varints`), and
what lies between keys and values becomes columns of bytes itself:

    prefix              key   between   value   tail
    length 0 time no n  …     n         …       number of headers, headers

Arrow joins these columns row by row, and the bytes of the joined column *are* the records of all
batches, one after the other: a batch is a header and a slice of them.

A header is joined in the same way, and as the headers of a row lie side by side in their column,
all headers of a row are a slice, too.

    parts = record_parts(rows)                    columns key, value, tail, timestamp
    ends = cut_batches(record_sizes(parts), …)    which rows go together
    batches = encode_batches(parts, ends, …)
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.client.producer.compression import Compression
from penstock.core import delivery_headers
from penstock.core.message_batches import frame_records
from penstock.core.records import BATCH_HEADER_BYTES
from penstock.spark.sink.byte_columns import bytes_of, lengths_of
from penstock.spark.sink.varints import Numbers, varint_rows, varint_sizes

KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
TIMESTAMP: Final = "timestamp"
DELAY: Final = "delay"
PRIORITY: Final = "priority"
TAIL: Final = "tail"

RECORD_NUMBERS_BYTES_MAX: Final = 1 + 5 + 5
"""Attributes, number and length of a record, at most; times and lengths of fields are counted."""
_NO_HEADERS: Final = pa.scalar(b"\0", pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())
_CARDS: Final = {PRIORITY: delivery_headers.PRIORITY, DELAY: delivery_headers.DELAY}


def record_parts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that records are made of: key, value, tail and timestamp, as far as there are
    any.

    `rows` has a column `value` and any of `key` (bytes), `headers` (a list of name and bytes),
    `delay` (milliseconds), `priority` and `timestamp` (milliseconds since 1970)."""
    kept = _names(rows) & {KEY, VALUE, TIMESTAMP}
    columns: dict[str, pa.Array] = {name: rows.column(name) for name in kept}
    tail = _tails(rows)
    if tail is not None:
        columns[TAIL] = tail
    return pa.RecordBatch.from_pydict(columns)


def record_sizes(parts: pa.RecordBatch) -> Numbers:
    """Return an upper bound on the size of each record."""
    sizes = np.full(parts.num_rows, RECORD_NUMBERS_BYTES_MAX, np.int64)
    names = _names(parts)
    for name in (KEY, VALUE):
        if name in names:
            lengths = lengths_of(parts.column(name))
            sizes += varint_sizes(lengths) + np.maximum(lengths, 0)
        else:
            sizes += 1
    sizes += bytes_of(parts.column(TAIL))[2] if TAIL in names else 1
    # Times count from the first of a batch, which is not known yet.
    sizes += 10 if TIMESTAMP in names else 1
    return sizes


def cut_batches(
    sizes: Numbers, runs: Sequence[tuple[int, int, int]], *, records_max: int
) -> list[tuple[int, int]]:
    """Return the rows of each batch, as first and end: of each run (first, end, bytes_max) as many
    as fit. A row that is too large for any batch was refused before; here it would get its own."""
    before = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=before[1:])
    cuts: list[tuple[int, int]] = []
    for first, end, bytes_max in runs:
        start = first
        while start < end:
            room = before[start] + bytes_max - BATCH_HEADER_BYTES
            fits = int(np.searchsorted(before, room, "right")) - 1
            stop = min(max(fits, start + 1), end, start + records_max)
            cuts.append((start, stop))
            start = stop
    return cuts


def encode_batches(
    parts: pa.RecordBatch,
    cuts: Sequence[tuple[int, int]],
    *,
    now_ms: int,
    compression: Compression,
) -> Iterator[bytearray]:
    """The batch of each cut; the cuts are all rows, in order."""
    if not cuts:
        return
    firsts = np.array([first for first, _ in cuts], np.int64)
    counts = np.array([end - first for first, end in cuts], np.int64)
    numbers = np.arange(parts.num_rows, dtype=np.int64) - np.repeat(firsts, counts)
    times: Numbers | None = None
    if TIMESTAMP in _names(parts):
        times = parts.column(TIMESTAMP).to_numpy(zero_copy_only=False)
        base_ms, max_ms = times[firsts], np.maximum.reduceat(times, firsts)
    else:
        base_ms = max_ms = np.full(len(cuts), now_ms, np.int64)
    deltas = None if times is None else times - np.repeat(base_ms, counts)
    ends, records = _join_records(parts, numbers, deltas)
    for batch, (first, end) in enumerate(cuts):
        count = end - first
        code, body = compression.compress(bytes(records[ends[first] : ends[end]]), count)
        yield frame_records(
            body, count, base_ms=int(base_ms[batch]), max_ms=int(max_ms[batch]), attributes=code
        )


def _join_records(
    parts: pa.RecordBatch, numbers: Numbers, deltas: Numbers | None
) -> tuple[NDArray[np.int64], memoryview]:
    """Return the start of each record, the end of the last, and the encoded records."""
    rows, names = parts.num_rows, _names(parts)
    value, key = parts.column(VALUE), parts.column(KEY) if KEY in names else None
    tail = parts.column(TAIL) if TAIL in names else None
    value_lengths = lengths_of(value)
    length = 1 + varint_sizes(numbers)
    length += 1 if deltas is None else varint_sizes(deltas)
    length += varint_sizes(value_lengths) + np.maximum(value_lengths, 0)
    length += 1 if tail is None else bytes_of(tail)[2]
    time: Numbers | int = 0 if deltas is None else deltas
    if key is None:
        prefix = varint_rows([length + 1, 0, time, numbers, -1, value_lengths], rows)
        columns = [prefix, value]
    else:
        key_lengths = lengths_of(key)
        length += varint_sizes(key_lengths) + np.maximum(key_lengths, 0)
        prefix = varint_rows([length, 0, time, numbers, key_lengths], rows)
        columns = [prefix, key, varint_rows([value_lengths], rows), value]
    joined = _join(*columns, _NO_HEADERS if tail is None else tail)
    data, starts, lengths = bytes_of(joined)
    return np.append(starts, starts[-1] + lengths[-1]), memoryview(data.data)


def _tails(rows: pa.RecordBatch) -> pa.BinaryArray | None:
    """The bytes that follow each row's value: the number of headers, and the headers."""
    names = _names(rows)
    counts = np.zeros(rows.num_rows, np.int64)
    pieces: list[pa.BinaryArray] = []
    # The columns come before the headers of the same name: a queue hears the first.
    for column, name in _CARDS.items():
        if column in names:
            given = rows.column(column)
            counts += given.is_valid().to_numpy(zero_copy_only=False)
            pieces.append(_delivery_header(name, given))
    if HEADERS in names:
        each, joined = _headers(rows.column(HEADERS))
        counts += each
        pieces.append(joined)
    if not pieces:
        return None
    return _join(varint_rows([counts], rows.num_rows), *pieces)


def _delivery_header(name: str, numbers: pa.Int64Array) -> pa.BinaryArray:
    """A header with a number, and nothing where there is none."""
    text = numbers.cast(pa.string()).cast(pa.binary())
    lengths = varint_rows([bytes_of(text)[2]], len(text))
    head = varint_rows([np.array([len(name)])], 1)[0].as_py() + name.encode()
    made = _join(pa.scalar(head, pa.binary()), lengths, text)
    return pc.if_else(numbers.is_valid(), made, _NOTHING)


def _headers(lists: pa.ListArray) -> tuple[Numbers, pa.BinaryArray]:
    """The number of headers of each row, and the encoded headers."""
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = lists.flatten()
    name, value = (pc.struct_field(flat, [place]) for place in (0, 1))
    name, value = name.cast(pa.binary()), value.cast(pa.binary())
    joined = _join(
        varint_rows([lengths_of(name)], len(flat)),
        name,
        varint_rows([lengths_of(value)], len(flat)),
        value,
    )
    data, starts, lengths = bytes_of(joined)
    ends = np.append(starts, starts[-1] + lengths[-1] if len(flat) else 0)
    first = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    places = ends[first].astype(np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    return counts, pa.BinaryArray.from_buffers(pa.binary(), len(lists), buffers)


def _join(*columns: pa.BinaryArray | pa.BinaryScalar) -> pa.BinaryArray:
    return pc.binary_join_element_wise(*columns, _NOTHING, null_handling="replace")


def _names(rows: pa.RecordBatch) -> frozenset[str]:
    return frozenset(rows.schema.names)
