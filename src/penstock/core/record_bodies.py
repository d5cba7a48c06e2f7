"""The records inside a batch: read, left out, packed again, for compaction and checks of keys.

Whole messages, as queues want them, come from `message_batches`.

    record   length           varint   bytes after this field
             attributes       i8       unused
             timestamp delta  varint   from the batch's base timestamp
             offset delta     varint   from the batch's base offset
             key              varint length, bytes; length -1: none
             value            varint length, bytes; length -1: none, a *tombstone*
             headers          varint count, then keys and values

Varints are zigzag, as in protocol buffers. All records of a batch are compressed together, by the
codec in the low bits of its attributes (`compression`).

A batch that loses records keeps its base offset, last offset delta, producer and sequence: its
range of offsets stays what it was, with gaps, and records that stay keep their bytes. The highest
timestamp becomes that of the records that stay, unless the log's time counts for all of them.

The *horizon* of a batch (KIP-534) is when its tombstones may go. It takes the place of the base
timestamp, marked by a bit of the attributes, and the deltas are made anew, so that a reader who
knows nothing of it computes the same times as before.

A batch may have been stored by a release that did not look at its records: every length is
checked, what is larger than `BATCH_UNPACKED_BYTES_MAX` or has more than
`BATCH_UNPACKED_RECORDS_MAX` records is not unpacked, and what is wrong is `InvalidBatch`.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.checksum import crc32c
from penstock.core.compression import compress, decompress
from penstock.core.errors import InvalidBatch
from penstock.core.limits import BATCH_UNPACKED_PARTS_MAX, BATCH_UNPACKED_RECORDS_MAX
from penstock.core.records import BATCH_HEADER_BYTES, BatchHeader, read_header

Bytes = bytes | bytearray | memoryview

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08

_HORIZON = 0x40
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_CRC_AT = 17
_CRC_FROM = 21
_LENGTH_FROM = 12
_VARINT_BYTES_MAX = 10


class Record(NamedTuple):
    """One record and its position among the uncompressed records of its batch."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    tombstone: bool


class Records(NamedTuple):
    """An opened batch."""

    header: BatchHeader
    body: bytes
    """The uncompressed records."""
    records: list[Record]

    @property
    def horizon_ms(self) -> int | None:
        """The time after which tombstones may be removed; None if it is not set yet."""
        return self.header.base_timestamp if self.header.attributes & _HORIZON else None


def read_records(batch: Bytes) -> Records:
    """Open a batch whose header and checksum are right."""
    header = read_header(batch)
    body = unpack_body(batch, header.attributes, header.record_count)
    try:
        return Records(header, body, _walk(body, header))
    except IndexError:
        raise InvalidBatch("the records end in the middle of one") from None


def unpack_body(
    batch: Bytes, attributes: int, record_count: int, *, parts_max: int = BATCH_UNPACKED_PARTS_MAX
) -> bytes:
    """The records of a batch, one after the other, unpacked if they are few and small enough."""
    if record_count > BATCH_UNPACKED_RECORDS_MAX:
        raise InvalidBatch(f"{record_count} records are too many to look at")
    packed = memoryview(batch)[BATCH_HEADER_BYTES:]
    return decompress(packed, attributes & CODEC_MASK, parts_max)


def pack_body(records: bytes, codec: int) -> bytes:
    """Compress records as `unpack_body` and Kafka's clients read them; codec 0 leaves them."""
    return compress(records, codec)


def rebuild_batch(
    opened: Records, kept: Sequence[Record], *, horizon_ms: int | None = None
) -> bytes:
    """The batch with only these of its records, in order; with a horizon if one is given."""
    assert kept, "a batch without records is none"
    header, body = opened.header, opened.body
    base_timestamp, attributes = header.base_timestamp, header.attributes
    if horizon_ms is None or horizon_ms == opened.horizon_ms:
        records = b"".join([body[record.start : record.end] for record in kept])
    else:
        shift = base_timestamp - horizon_ms
        base_timestamp, attributes = horizon_ms, attributes | _HORIZON
        records = b"".join([_shifted(body, record, shift) for record in kept])
    max_timestamp = header.max_timestamp
    if not attributes & LOG_APPEND_TIME:
        latest = max(record.timestamp_delta for record in kept)
        max_timestamp = header.base_timestamp + latest
    packed = pack_body(records, attributes & CODEC_MASK)
    made = bytearray(
        _HEADER.pack(
            header.base_offset,
            BATCH_HEADER_BYTES - _LENGTH_FROM + len(packed),
            header.leader_epoch,
            header.magic,
            0,
            attributes,
            header.last_offset_delta,
            base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            len(kept),
        )
    )
    made += packed
    _CRC.pack_into(made, _CRC_AT, crc32c(memoryview(made)[_CRC_FROM:]))
    return bytes(made)


# Records.


def _walk(body: bytes, header: BatchHeader) -> list[Record]:
    """All records of an unpacked batch. An index beyond the end is the caller's to translate."""
    position, size = 0, len(body)
    offset_delta_max = header.last_offset_delta
    before = -1
    found: list[Record] = []
    for _ in range(header.record_count):
        start = position
        length, position = read_varint(body, position)
        end = position + length
        if length < 0 or end > size:
            raise InvalidBatch(f"a record says it has {length} bytes")
        timestamp_delta, position = read_varint(body, position + 1)
        offset_delta, position = read_varint(body, position)
        if not before < offset_delta <= offset_delta_max:
            raise InvalidBatch(f"a record is at offset {offset_delta} of {offset_delta_max}")
        before = offset_delta
        key_length, position = read_varint(body, position)
        key = None
        if key_length >= 0:
            key = body[position : position + key_length]
            position += key_length
        value_length, position = read_varint(body, position)
        if position > end or position + value_length > end:
            raise InvalidBatch(f"a record of {length} bytes has a value of {value_length}")
        found.append(Record(start, end, timestamp_delta, offset_delta, key, value_length < 0))
        position = end
    if position != size:
        raise InvalidBatch(f"{size - position} bytes follow the last record")
    return found


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """A zigzag varint and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, byte = byte & 0x7F, data[position + 1]
    if byte < 0x80:
        value |= byte << 7
        return (value >> 1) ^ -(value & 1), position + 2
    value |= (byte & 0x7F) << 7
    shift = 14
    for after in range(position + 2, position + _VARINT_BYTES_MAX):
        byte = data[after]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), after + 1
        shift += 7
    raise InvalidBatch(f"a number of a record is longer than {_VARINT_BYTES_MAX} bytes")


def encode_varint(value: int) -> bytes:
    """Encode a number as a zigzag varint."""
    left = value << 1 if value >= 0 else ~(value << 1)
    made = bytearray()
    while left >= 0x80:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _shifted(body: bytes, record: Record, shift: int) -> bytes:
    """The record with `shift` added to its timestamp delta."""
    _, attributes_at = read_varint(body, record.start)
    _, rest_at = read_varint(body, attributes_at + 1)
    content = (
        body[attributes_at : attributes_at + 1]
        + encode_varint(record.timestamp_delta + shift)
        + body[rest_at : record.end]
    )
    return encode_varint(len(content)) + content
