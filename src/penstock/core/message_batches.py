"""Messages out of record batches and into them, for queues: they hand out one message at a time.

A batch is opened as a whole and read record by record, on demand (`open_messages`): of a large one
a few messages are wanted at a time. Those that lie somewhere in the middle are found by stepping
over the others, from the nearest of some marks (`OpenBatch`). `record_bodies` has the layout of a
record; here the headers are read, too:

    header   key     varint length, bytes: text, and what is not UTF-8 is replaced
             value   varint length, bytes; length -1: none

What came from a client was never looked at: `InvalidBatch` is the only complaint there is, and it
may come after messages that were right. A record must fill its length exactly; that one check, made
last, covers all lengths within it, for a position only ever grows and a slice that goes too far
takes nothing that is not there.

Batches are small here, and what each record costs counts. Numbers of one byte are read where they
stand, and those of lengths are looked up when written.
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from penstock.core.checksum import crc32c
from penstock.core.delivery_headers import PREFIX
from penstock.core.errors import InvalidBatch, InvalidTimestamp
from penstock.core.message import Header, Message, NewMessage
from penstock.core.plain_batches import pack_plain
from penstock.core.record_bodies import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    Bytes,
    encode_varint,
    read_varint,
    unpack_body,
)
from penstock.core.records import BATCH_HEADER_BYTES, read_outline
from penstock.core.types import Offset

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_FIELDS: Final = struct.Struct(">q13xhiqq14xi")
_ATTRIBUTES: Final = struct.Struct(">21xh")
_CRC: Final = struct.Struct(">I")
_OFFSET: Final = struct.Struct(">q")
_TO_SPAN: Final = struct.Struct(">hi")
_ATTRIBUTES_AT: Final = 21
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_LENGTH_FROM: Final = 12
_TIME_BOUND: Final = 1 << 63
_PREFIX: Final = PREFIX.encode()
_LAST_OF_PREFIX: Final = _PREFIX[-1:]
_LENGTHS: Final = tuple(encode_varint(length) for length in range(2048))
_LENGTHS_KNOWN: Final = len(_LENGTHS)
_NONE: Final = encode_varint(-1)
_MARK_EVERY: Final = 32

Marks: TypeAlias = "array[int]"
"""The positions of every n-th record of a batch, as far as they are known."""


def read_messages(batch: Bytes) -> list[Message]:
    """All messages of a stored batch, or `InvalidBatch` if a single one is wrong."""
    return list(open_messages(batch)[1])


def open_messages(batch: Bytes) -> tuple[int, Iterator[Message]]:
    """Unpack a stored batch: how many bytes its records are, and its messages, read one by one."""
    opened = OpenBatch(batch)
    return opened.size, opened.messages()


class OpenBatch:
    """A stored batch, unpacked, to be read from the beginning or from anywhere."""

    __slots__ = ("_body", "_fields", "_marks")

    def __init__(self, batch: Bytes, marks: "Marks | None" = None) -> None:
        """`marks` are those of the same batch, opened before; more are added as they are found."""
        if len(batch) < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"a record batch needs {BATCH_HEADER_BYTES} bytes, has {len(batch)}")
        self._fields: tuple[int, int, int, int, int, int] = _FIELDS.unpack_from(batch)
        self._body = unpack_body(batch, self._fields[1], self._fields[5])
        self._marks = new_marks() if marks is None else marks

    @property
    def size(self) -> int:
        """The size of the records in bytes."""
        return len(self._body)

    @property
    def complete(self) -> bool:
        """Every offset from the first to the last has a record."""
        return self._fields[2] + 1 == self._fields[5]

    @property
    def last(self) -> int:
        """The offset of its last record."""
        return self._fields[0] + self._fields[2]

    def messages(self) -> Iterator[Message]:
        """All of them, read one by one."""
        return _scan(self._fields, self._body)

    def messages_from(self, offset: Offset) -> Iterator[Message]:
        """The messages from an offset on. The offset is in the batch, and the batch is complete."""
        number = offset - self._fields[0]
        assert 0 <= number < self._fields[5], f"{offset} is in another batch"
        return _scan(self._fields, self._body, number, self._position(number))

    def cut(self, first: int, end: int) -> bytes:
        """The bytes of the records from number `first` up to `end`, of a complete batch."""
        start = self._position(first)
        stop = len(self._body) if end == self._fields[5] else self._position(end)
        return self._body[start:stop]

    def _position(self, number: int) -> int:
        """The position of a record of a complete batch."""
        assert self.complete, "some records are missing"
        mark = min(number // _MARK_EVERY, len(self._marks) - 1)
        position = self._marks[mark]
        try:
            while mark < number // _MARK_EVERY:
                position = _step_over(self._body, position, _MARK_EVERY)
                mark += 1
                self._marks.append(position)
            return _step_over(self._body, position, number - mark * _MARK_EVERY)
        except IndexError:
            raise InvalidBatch("the records end in the middle of one") from None


def cut_batch(batch: Bytes, spans: Sequence[tuple[int, int]], marks: "Marks") -> bytearray | None:
    """The batch with only the records of these offsets (from, up to), in order, of which none is
    decoded; None if they cannot be separated without that: it is compressed, or lacks
    records."""
    attributes = _ATTRIBUTES.unpack_from(batch)[0]
    if attributes & CODEC_MASK:
        return None
    opened = OpenBatch(batch, marks)
    if not opened.complete or spans[-1][1] - 1 > opened.last:
        return None
    base, _, _, base_ms, max_ms, _ = _FIELDS.unpack_from(batch)
    records = b"".join([opened.cut(first - base, end - base) for first, end in spans])
    count = sum(end - first for first, end in spans)
    # The records keep their numbers, so the offsets that are left out are gaps.
    made = frame_records(records, count, base_ms=base_ms, max_ms=max_ms)
    _TO_SPAN.pack_into(made, _ATTRIBUTES_AT, attributes, spans[-1][1] - 1 - base)
    _OFFSET.pack_into(made, 0, base)
    _CRC.pack_into(made, _CRC_AT, crc32c(memoryview(made)[_CRC_FROM:]))
    return made


def new_marks() -> Marks:
    """The marks of a batch that was not opened yet: its first record begins at 0."""
    return array("I", [0])


def _step_over(body: bytes, position: int, count: int) -> int:
    """The position `count` records further on."""
    for _ in range(count):
        length = body[position]
        if length < 0x80:
            position += 1
        else:
            after = body[position + 1]
            if after < 0x80:
                length += (after - 1) << 7
                position += 2
            else:
                length, position = read_varint(body, position)
                length <<= 1
        if length < 0 or length & 1:
            raise InvalidBatch("a record has no length")
        position += length >> 1
    if position > len(body):
        raise InvalidBatch("the records end in the middle of one")
    return position


def iter_batches(data: Bytes) -> Iterator[memoryview]:
    """The batches that a read returned, one after the other."""
    view = memoryview(data)
    position, end = 0, len(view)
    while position < end:
        if end - position < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"{end - position} bytes are no record batch")
        size = read_outline(view, position)[1]
        if not BATCH_HEADER_BYTES <= size <= end - position:
            raise InvalidBatch(f"a batch says it has {size} bytes")
        yield view[position : position + size]
        position += size


def has_delivery_headers(batch: Bytes) -> bool:
    """True if a message of the batch may have delivery headers; False is certain, True means that
    it must be opened."""
    if _ATTRIBUTES.unpack_from(batch)[0] & CODEC_MASK:
        return True
    whole = batch if isinstance(batch, bytes | bytearray) else bytes(batch)
    # One byte is looked for ten times as fast as nine; and of these, from the end.
    return _LAST_OF_PREFIX in whole and whole.rfind(_PREFIX) >= 0


def build_messages(messages: Sequence[NewMessage], now_ms: int) -> bytearray:
    """An uncompressed batch of these messages, to be appended; it has no producer."""
    plain = [
        message.value
        for message in messages
        if message.value is not None
        and message.key is None
        and not message.headers
        and message.timestamp_ms == -1
    ]
    if len(plain) == len(messages) > 1:
        records = pack_plain(plain)
        if records is not None:
            return frame_records(records, len(plain), base_ms=now_ms, max_ms=now_ms)
    packed, base_ms, max_ms = pack_messages(messages, now_ms)
    return frame_records(packed, len(messages), base_ms=base_ms, max_ms=max_ms)


def pack_messages(messages: Sequence[NewMessage], now_ms: int) -> tuple[bytes, int, int]:
    """The records of a batch of these messages, the time they count from, and the latest one."""
    assert messages, "a batch without records is none"
    first_ms = messages[0].timestamp_ms
    base_ms = max_ms = now_ms if first_ms == -1 else first_ms
    parts: list[bytes] = []
    for number, message in enumerate(messages):
        time_ms = message.timestamp_ms
        if time_ms == -1:
            time_ms = now_ms
        if time_ms > max_ms:
            max_ms = time_ms
        if not -_TIME_BOUND <= time_ms < _TIME_BOUND:
            raise InvalidTimestamp(f"a message has the time {time_ms}, which is not of 64 bits")
        key, value = message.key, message.value
        record = b"".join(
            (
                b"\0",
                _encode(time_ms - base_ms),
                _encode(number),
                _NONE if key is None else _encode(len(key)) + key,
                _NONE if value is None else _encode(len(value)) + value,
                _pack_headers(message.headers) if message.headers else b"\0",
            )
        )
        parts += (_encode(len(record)), record)
    return b"".join(parts), base_ms, max_ms


def frame_records(
    records: bytes,
    count: int,
    *,
    base_ms: int,
    max_ms: int,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """Build a batch of encoded records, compressed if the attributes say so; `producer` is its id,
    epoch and the sequence number of the first record."""
    length = BATCH_HEADER_BYTES - _LENGTH_FROM + len(records)
    last = count - 1
    header = _HEADER.pack(
        0, length, -1, 2, 0, attributes, last, base_ms, max_ms, *producer, count
    )  # fmt: skip
    made = bytearray().join((header, records))
    _CRC.pack_into(made, _CRC_AT, crc32c(memoryview(made)[_CRC_FROM:]))
    return made


def _scan(
    fields: tuple[int, int, int, int, int, int], body: bytes, first: int = 0, position: int = 0
) -> Iterator[Message]:
    """The messages from record number `first` on, which begins at `position`."""
    base_offset, attributes, delta_max, base_ms, max_ms, count = fields
    log_time = attributes & LOG_APPEND_TIME
    before = first - 1
    try:
        for _ in range(first, count):
            length = body[position]
            if length < 0x80 and not length & 1:
                length >>= 1
                position += 1
            else:
                length, position = read_varint(body, position)
            end = position + length
            if body[position + 1] or log_time:
                time_delta, position = read_varint(body, position + 1)
                time_ms = max_ms if log_time else base_ms + time_delta
                if not -_TIME_BOUND <= time_ms < _TIME_BOUND:
                    raise InvalidBatch(f"a record has the time {time_ms}")
            else:
                time_ms = base_ms
                position += 2
            delta = body[position]
            if delta < 0x80 and not delta & 1:
                delta >>= 1
                position += 1
            else:
                delta, position = read_varint(body, position)
            if not before < delta <= delta_max:
                raise InvalidBatch(f"a record is at offset {delta} of {delta_max}")
            before = delta
            key, position = _read_bytes(body, position)
            value, position = _read_bytes(body, position)
            headers: tuple[Header, ...] = ()
            if body[position]:
                headers, position = _read_headers(body, position)
            else:
                position += 1
            if position != end:
                raise InvalidBatch(f"a record of {length} bytes has {length + position - end}")
            yield Message(Offset(base_offset + delta), time_ms, key, value, headers)
    except IndexError:
        raise InvalidBatch("the records end in the middle of one") from None
    if position != len(body):
        raise InvalidBatch(f"{len(body) - position} bytes follow the last record")


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, or None; and the position after them."""
    length = body[position]
    if length < 0x80:
        position += 1
        if length & 1:
            return None, position
        end = position + (length >> 1)
    else:
        length, position = read_varint(body, position)
        if length < 0:
            return None, position
        end = position + length
    return body[position:end], end


def _read_headers(body: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(body, position)
    if count < 0:
        raise InvalidBatch(f"a record says it has {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        length = body[position]
        if length < 0x80 and not length & 1:
            start = position + 1
            position = start + (length >> 1)
        else:
            length, start = read_varint(body, position)
            if length < 0:
                raise InvalidBatch("a header of a record has no name")
            position = start + length
        name = body[start:position].decode("utf-8", "replace")
        value, position = _read_bytes(body, position)
        headers.append((name, value))
    return tuple(headers), position


def _pack_headers(headers: tuple[Header, ...]) -> bytes:
    parts = [_encode(len(headers))]
    for name, value in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            raise InvalidBatch(f"the name of a header is no text: {name!r}") from None
        parts += (_encode(len(encoded)), encoded)
        if value is None:
            parts.append(_NONE)
        else:
            parts += (_encode(len(value)), value)
    return b"".join(parts)


def _encode(number: int) -> bytes:
    if 0 <= number < _LENGTHS_KNOWN:
        return _LENGTHS[number]
    return encode_varint(number)
