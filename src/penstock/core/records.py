"""The header of a Kafka record batch (format v2), the only form in which messages are kept.

    byte  0  base offset            i64   stamped by the leader
          8  length                 i32   bytes after this field
         12  leader epoch           i32   stamped by the leader
         16  magic                  i8    always 2
         17  crc                    u32   CRC-32C of everything from byte 21 on
         21  attributes             i16   codec, timestamp type, transactional, control
         23  last offset delta      i32   number of offsets used, less one
         27  base timestamp         i64
         35  max timestamp          i64
         43  producer id            i64
         51  producer epoch         i16
         53  base sequence          i32
         57  record count           i32
         61  records                      never looked at here

Base offset and leader epoch lie outside the checksum, so the leader stamps them in place without
touching a record. Rule: nothing in this module decodes a record body (`record_check` checks it).
"""

import struct
from typing import NamedTuple

from penstock.core.checksum import crc32c
from penstock.core.errors import BatchTooLarge, CorruptBatch, InvalidBatch
from penstock.core.limits import BATCH_BYTES_MAX
from penstock.core.types import Offset, ProducerId, Term

BATCH_HEADER_BYTES = 61
_HEADER = struct.Struct(">qiibIhiqqqhii")
_OUTLINE = struct.Struct(">qi11xi8xqq")
_STAMP = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_CRC_AT = 17
CRC_FROM = 21
"""From here on the checksum covers a batch."""
_MAX_TIMESTAMP_AT = 35
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
_LOG_APPEND_TIME = 0x08
_LENGTH_FROM = 12
_SEQUENCES = 1 << 31


class BatchHeader(NamedTuple):
    """The fixed part of a record batch, decoded."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The whole batch in bytes, prefix included."""
        return self.length + _LENGTH_FROM

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap from 2**31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES


def read_header(data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Decode the header at `position`; the caller knows the bytes are there and were checked."""
    return BatchHeader._make(_HEADER.unpack_from(data, position))


def check_batch(data: bytes | bytearray | memoryview) -> BatchHeader:
    """Check a batch that came from outside; every length is checked before it is believed."""
    size = len(data)
    if size > BATCH_BYTES_MAX:
        raise BatchTooLarge(f"a record batch of {size} bytes is above {BATCH_BYTES_MAX}; send less")
    if size < BATCH_HEADER_BYTES:
        raise InvalidBatch(f"a record batch needs {BATCH_HEADER_BYTES} bytes, {size} came")
    header = read_header(data)
    if header.magic != 2:
        raise InvalidBatch(f"record batch magic {header.magic}; only version 2 is served")
    if header.size != size:
        raise InvalidBatch(f"the batch says it has {header.size} bytes, {size} came")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidBatch(
            f"{header.record_count} records cannot span {header.last_offset_delta + 1} offsets"
        )
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidBatch("an idempotent batch needs a producer epoch and a sequence number")
    if crc32c(memoryview(data)[CRC_FROM:]) != header.crc:
        raise CorruptBatch("the record batch's CRC-32C does not match its content")
    return header


def stamp_batch(batch: bytearray | memoryview, *, base_offset: Offset, epoch: Term) -> None:
    """Write the leader's base offset and epoch into the batch, in place."""
    _STAMP.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _LENGTH_FROM, epoch)


def stamp_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Set the time of all records of a batch to `now_ms`; its checksum has not been verified yet.

    The times of the records themselves stay: a reader that finds the flag takes the batch's highest
    time for each of them. A batch that was damaged on the way stays damaged: the checksum is made
    anew only if it was right."""
    view = memoryview(batch)
    if len(view) < BATCH_HEADER_BYTES:
        return  # `check_batch` refuses it.
    crc = _CRC.unpack_from(view, _CRC_AT)[0]
    if crc32c(view[CRC_FROM:]) != crc:
        return
    attributes = _ATTRIBUTES.unpack_from(view, CRC_FROM)[0]
    _ATTRIBUTES.pack_into(view, CRC_FROM, attributes | _LOG_APPEND_TIME)
    _STAMP.pack_into(view, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(view, _CRC_AT, crc32c(view[CRC_FROM:]))


def number_batch(
    batch: bytearray | memoryview, *, producer_id: ProducerId, epoch: int, sequence: int
) -> None:
    """Set the producer's id, epoch and sequence number in a stored batch, in place; its checksum
    must be right."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, sequence)
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))


def read_outline(
    data: bytes | bytearray | memoryview, position: int
) -> tuple[int, int, int, int, int]:
    """Base offset, whole size, record count, highest timestamp and producer id of a stored batch.

    The little that most code asks of one, at a third of the cost of `read_header`."""
    base_offset, length, delta, max_timestamp, producer_id = _OUTLINE.unpack_from(data, position)
    return base_offset, length + _LENGTH_FROM, delta + 1, max_timestamp, producer_id
