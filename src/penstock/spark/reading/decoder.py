"""Stored batches into Arrow: the columns of many records at once, and only those that are wanted.

    fetched bytes ──▶ batches ──▶ a group of some MiB ──▶ starts ──▶ fields ──▶ columns

A fetch brings whole batches, one after the other. They are put together to groups of a few MiB, for
Spark is fastest with record batches of that size. The records of a group are found
(`record_starts`), their fields are read by numpy for all of them together (`record_fields`), and
keys and values become columns by laying the offsets of an Arrow array over the buffer as it is:
every other element of that array is a value, what lies between them is not, and `take` copies the
one and not the other. No message is touched by itself.

    wanted                                   read of a batch whose offsets have no gaps
    topic, partition, offset, timestampType  its header
    timestamp                                its records up to the times
    key                                      … up to the keys
    value                                    … up to the values
    headers                                  all of it

Batches that are compressed are unpacked next to each other; others stay where they came.

What came from a client was never looked at by the broker: every length is checked against the
buffer, and what is wrong is `InvalidBatch`. A time that is too far away for Spark's calendar is
null.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import InvalidBatch
from penstock.core.limits import MIB
from penstock.core.record_bodies import CODEC_MASK, LOG_APPEND_TIME, unpack_body
from penstock.core.records import BATCH_HEADER_BYTES
from penstock.spark.reading.record_fields import HeaderSpans, RecordFields, Spans
from penstock.spark.reading.record_starts import Octets, Positions, find_starts
from penstock.spark.reading.varint_reader import Numbers

GROUP_BYTES: Final = 4 * MIB
"""About how large the records are that become one Arrow batch."""
ARROW_BYTES_MAX: Final = 5_000_000
"""The size above which an Arrow batch is cut."""

_CONTROL: Final = 0x20
_OUTLINE: Final = struct.Struct(">qi5x4xhiqq14xi")
_LENGTH_FROM: Final = 12
_TIME_MS_MAX: Final = (1 << 63) // 1_000 - 1
_RECORD_COLUMNS: Final = frozenset(("timestamp", "key", "value", "headers"))


class StoredHead(NamedTuple):
    """The little that is needed of a batch's header, and where in the fetched bytes it lies."""

    position: int
    size: int
    base_offset: int
    attributes: int
    last_delta: int
    base_ms: int
    max_ms: int
    records: int

    @property
    def end_offset(self) -> int:
        """The offset after its last one."""
        return self.base_offset + self.last_delta + 1

    @property
    def is_dense(self) -> bool:
        """True if every offset has a record."""
        return self.records == self.last_delta + 1

    @property
    def is_control(self) -> bool:
        """True if it holds markers of transactions and no messages."""
        return bool(self.attributes & _CONTROL)


OnBad = Callable[[StoredHead, InvalidBatch], None]


class _Group:
    """Batches that become one record batch. Those that are compressed are unpacked when they are
    added, so that a group is never much larger than it should be."""

    def __init__(self, octets: Octets, *, needs_records: bool) -> None:
        self.needs_records = needs_records
        self.heads: list[StoredHead] = []
        self.size = 0
        self._octets = octets
        """The fetched bytes."""
        self._bodies: list[bytes | None] = []
        """The records of those that were compressed."""

    def add(self, head: StoredHead, data: memoryview) -> None:
        """Add a batch; raise an error if it cannot be decompressed."""
        body = None
        if self.needs_records and head.attributes & CODEC_MASK:
            batch = data[head.position : head.position + head.size]
            body = unpack_body(batch, head.attributes, head.records)
        self._append(head, body)

    def _append(self, head: StoredHead, body: bytes | None) -> None:
        self.heads.append(head)
        self._bodies.append(body)
        self.size += head.size if body is None else len(body)

    def singly(self) -> Iterator["_Group"]:
        """Yield each batch as a group of its own."""
        for head, body in zip(self.heads, self._bodies, strict=True):
            group = _Group(self._octets, needs_records=self.needs_records)
            group._append(head, body)
            yield group

    def records(self) -> tuple[Octets, list[tuple[int, int]]]:
        """All records in one buffer, and from where to where each batch's are in it: the buffer
        they came in, if none was compressed."""
        places = [
            (head.position + BATCH_HEADER_BYTES, head.position + head.size) for head in self.heads
        ]
        if all(body is None for body in self._bodies):
            return self._octets, places
        parts = [
            self._octets[first:end].data if body is None else body
            for body, (first, end) in zip(self._bodies, places, strict=True)
        ]
        joined = parts[0] if len(parts) == 1 else b"".join(parts)
        ends = list(accumulate(len(part) for part in parts))
        return np.frombuffer(joined, dtype=np.uint8), list(zip([0, *ends], ends, strict=False))


class Decoder:
    """Makes record batches of one schema from the batches of one partition."""

    def __init__(self, schema: pa.Schema, topic: str, partition: int) -> None:
        self._schema = schema
        self._wanted = frozenset(schema.names)
        self._wants_records = not _RECORD_COLUMNS.isdisjoint(schema.names)
        self._constants = {"topic": topic, "partition": partition}
        self._stock: dict[tuple[str, object], pa.Array] = {}

    def decode(
        self, data: memoryview, start: int, end: int, on_bad: OnBad | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The records with offsets from `start` up to `end` of some batches. `on_bad` is called
        with a batch that cannot be read; if it does not raise, the batch is passed over."""
        octets = np.frombuffer(data, dtype=np.uint8)
        group = _Group(octets, needs_records=False)
        for head in heads_of(data, start, end):
            needs_records = self._wants_records or not head.is_dense
            if group.size >= GROUP_BYTES or group.needs_records != needs_records:
                yield from self._read(group, (start, end), on_bad)
                group = _Group(octets, needs_records=needs_records)
            try:
                group.add(head, data)
            except InvalidBatch as error:
                if on_bad is None:
                    raise
                on_bad(head, error)
        yield from self._read(group, (start, end), on_bad)

    def _read(
        self, group: "_Group", bounds: tuple[int, int], on_bad: OnBad | None
    ) -> list[pa.RecordBatch]:
        """Read them together; if that cannot be done, one by one, to know which it is."""
        if not group.heads:
            return []
        try:
            if group.needs_records:
                return list(self._decode_group(group, *bounds))
            return list(self._decode_heads(group.heads, *bounds))
        except InvalidBatch as error:
            if on_bad is None:
                raise
            if len(group.heads) == 1:
                on_bad(group.heads[0], error)
                return []
        return [batch for one in group.singly() for batch in self._read(one, bounds, on_bad)]

    def _decode_heads(
        self, heads: Sequence[StoredHead], start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode from the headers alone, when no column needs the records."""
        counts = np.array([head.records for head in heads], dtype=np.int64)
        offsets = _dense_offsets(heads, counts)
        first, last = np.searchsorted(offsets, (start, end))
        columns = _Columns(self._schema, self._constants, self._stock)
        yield from columns.build(heads, counts, offsets, slice(int(first), int(last)))

    def _decode_group(self, group: _Group, start: int, end: int) -> Iterator[pa.RecordBatch]:
        counts = np.array([head.records for head in group.heads], dtype=np.int64)
        octets, bounds = group.records()
        starts = _starts(octets, group.heads, bounds)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[np.cumsum(counts) - 1] = [bound[1] for bound in bounds]
        fields = RecordFields(octets, starts, ends)
        columns = _Columns(self._schema, self._constants, self._stock)
        columns.octets = octets
        wanted = self._wanted
        if "timestamp" in wanted:
            columns.time_deltas = fields.times()
        else:
            fields.skip()
        offsets = _offsets(group.heads, counts, fields)
        if wanted & {"key", "value", "headers"}:
            columns.keys = fields.piece()
        if wanted & {"value", "headers"}:
            columns.values = fields.piece()
        if "headers" in wanted:
            columns.headers = fields.headers()
        first, last = np.searchsorted(offsets, (start, end))
        yield from columns.build(group.heads, counts, offsets, slice(int(first), int(last)))


def heads_of(data: memoryview, start: int, end: int) -> Iterator[StoredHead]:
    """The batches among fetched bytes that may hold messages from `start` up to `end`."""
    position, size = 0, len(data)
    while position < size:
        if size - position < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"{size - position} bytes are no record batch")
        head = read_head(data, position)
        if not BATCH_HEADER_BYTES <= head.size <= size - position:
            raise InvalidBatch(f"a batch says it has {head.size} bytes")
        if head.base_offset >= end:
            return
        if head.end_offset > start and not head.is_control:
            if not 1 <= head.records <= head.last_delta + 1:
                raise InvalidBatch(f"a batch says it has {head.records} records")
            yield head
        position += head.size


def read_head(data: memoryview, position: int) -> StoredHead:
    """The head of the batch that begins here."""
    base, length, attributes, delta, base_ms, max_ms, count = _OUTLINE.unpack_from(data, position)
    size = length + _LENGTH_FROM
    return StoredHead(position, size, base, attributes, delta, base_ms, max_ms, count)


def _starts(
    octets: Octets, heads: Sequence[StoredHead], bounds: Sequence[tuple[int, int]]
) -> Positions:
    pieces: list[Positions] = []
    for head, (first, end) in zip(heads, bounds, strict=True):
        pieces += find_starts(octets, first, end, head.records)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _offsets(heads: Sequence[StoredHead], counts: Numbers, fields: RecordFields) -> Numbers:
    """Of all records; within a batch they only ever grow."""
    deltas = fields.offsets()
    firsts = np.cumsum(counts) - counts
    steps = np.diff(deltas)
    steps[firsts[1:] - 1] = 1  # From one batch to the next they begin anew.
    most = np.array([head.last_delta for head in heads], dtype=np.int64)
    if (steps < 1).any() or (deltas[firsts] < 0).any():
        raise InvalidBatch("the offsets of a batch are out of order")
    if (deltas[firsts + counts - 1] > most).any():
        raise InvalidBatch("a record lies behind the last offset of its batch")
    bases = np.array([head.base_offset for head in heads], dtype=np.int64)
    return np.repeat(bases, counts) + deltas


def _dense_offsets(heads: Sequence[StoredHead], counts: Numbers) -> Numbers:
    pieces = [np.arange(head.base_offset, head.end_offset, dtype=np.int64) for head in heads]
    assert sum(len(piece) for piece in pieces) == int(counts.sum())
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


class _Columns:
    """The decoded columns of one group, from which record batches are built."""

    def __init__(
        self,
        schema: pa.Schema,
        constants: dict[str, Any],
        stock: dict[tuple[str, object], pa.Array],
    ) -> None:
        self._schema = schema
        self._constants = constants
        self._stock = stock
        self.octets: Octets = np.empty(0, dtype=np.uint8)
        self.time_deltas: Numbers | None = None
        self.keys: Spans | None = None
        self.values: Spans | None = None
        self.headers: HeaderSpans | None = None

    def build(
        self, heads: Sequence[StoredHead], counts: Numbers, offsets: Numbers, rows: slice
    ) -> Iterator[pa.RecordBatch]:
        """Yield these rows of the group, cut where they are too large."""
        total = rows.stop - rows.start
        if total <= 0:
            return
        arrays = [self._column(name, heads, counts, offsets, rows) for name in self._schema.names]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        pieces = -(-whole.nbytes // ARROW_BYTES_MAX)
        step = -(-total // max(1, pieces))
        for first in range(0, total, step):
            yield whole.slice(first, step)

    def _column(
        self,
        name: str,
        heads: Sequence[StoredHead],
        counts: Numbers,
        offsets: Numbers,
        rows: slice,
    ) -> pa.Array:
        kind = self._schema.field(name).type
        if name == "offset":
            return pa.array(offsets[rows], type=kind)
        if name == "timestamp":
            assert self.time_deltas is not None
            return _times(heads, counts, self.time_deltas, rows, kind)
        if name == "timestampType":
            return self._time_types(heads, counts, rows, kind)
        if name == "key":
            assert self.keys is not None
            return binary_array(self.octets, self.keys.cut(rows.start, rows.stop))
        if name == "value":
            assert self.values is not None
            return binary_array(self.octets, self.values.cut(rows.start, rows.stop))
        if name == "headers":
            assert self.headers is not None
            return _header_lists(self.octets, self.headers, kind).slice(
                rows.start, rows.stop - rows.start
            )
        return self._same(name, self._constants[name], rows.stop - rows.start, kind)

    def _time_types(
        self, heads: Sequence[StoredHead], counts: Numbers, rows: slice, kind: pa.DataType
    ) -> pa.Array:
        """0: the sender's time, 1: the time at which the broker appended it."""
        types = {1 if head.attributes & LOG_APPEND_TIME else 0 for head in heads}
        if len(types) == 1:
            return self._same("timestampType", types.pop(), rows.stop - rows.start, kind)
        each = [1 if head.attributes & LOG_APPEND_TIME else 0 for head in heads]
        return pa.array(np.repeat(np.array(each, dtype=np.int32), counts)[rows], type=kind)

    def _same(self, name: str, value: object, count: int, kind: pa.DataType) -> pa.Array:
        """A column of one value, cut off a long one that is kept."""
        stock = self._stock.get((name, value))
        if stock is None or len(stock) < count:
            stock = pa.repeat(pa.scalar(value, type=kind), max(count, 1024))
            self._stock[name, value] = stock
        return stock.slice(0, count)


def _times(
    heads: Sequence[StoredHead], counts: Numbers, deltas: Numbers, rows: slice, kind: pa.DataType
) -> pa.Array:
    """Microseconds. Of a batch with the broker's time, that is every record's."""
    by_log = np.array([bool(head.attributes & LOG_APPEND_TIME) for head in heads])
    bases = np.array(
        [head.max_ms if head.attributes & LOG_APPEND_TIME else head.base_ms for head in heads],
        dtype=np.int64,
    )
    if by_log.any():
        deltas = np.where(np.repeat(by_log, counts), 0, deltas)
    deltas = deltas[rows]
    times = np.repeat(bases, counts)[rows]
    total = times + deltas
    # A sum has overflowed whose sign is that of neither number.
    far = (((times ^ total) & (deltas ^ total)) < 0) | (np.abs(total) > _TIME_MS_MAX)
    if bool(far.any()):
        return pa.array(np.where(far, 0, total) * 1_000, mask=far, type=pa.int64()).view(kind)
    return pa.array(total * 1_000, type=pa.int64()).view(kind)


def binary_array(octets: Octets, spans: Spans) -> pa.Array:
    """A column of these pieces of a buffer."""
    count = len(spans.start)
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = spans.start
    offsets[1::2] = spans.end
    laid = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
    )
    taken = laid.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if spans.is_none is None or not spans.is_none.any():
        return taken
    valid = pa.py_buffer(np.packbits(~spans.is_none, bitorder="little"))
    _, places, content = taken.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [valid, places, content])


def _header_lists(octets: Octets, headers: HeaderSpans, kind: pa.DataType) -> pa.Array:
    """Lists of names and values; null for a record that has none."""
    total = len(headers.keys.start)
    if total:
        keys = _texts(binary_array(octets, headers.keys))
        values = binary_array(octets, headers.values)
    else:
        keys, values = pa.array([], type=pa.string()), pa.array([], type=pa.binary())
    rows = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    places = np.zeros(len(headers.counts) + 1, dtype=np.int32)
    np.cumsum(headers.counts, out=places[1:])
    has_some: npt.NDArray[np.bool_] = headers.counts > 0
    valid = None if has_some.all() else pa.py_buffer(np.packbits(has_some, bitorder="little"))
    return pa.Array.from_buffers(
        kind, len(headers.counts), [valid, pa.py_buffer(places)], children=[rows]
    )


def _texts(names: pa.Array) -> pa.Array:
    """Names of headers as text; what is not UTF-8 in them is replaced."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [name.decode("utf-8", "replace") for name in names.to_pylist()]
        return pa.array(texts, type=pa.string())
